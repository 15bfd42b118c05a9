#!/usr/bin/env python3
"""std/sqlite.chain against the sqlite3 library, on databases that the library and the sqlite3 program wrote."""
import os
import pathlib
import random
import shutil
import sqlite3
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import Run, finish  # noqa: E402
from sqlite_record import decode, local_in_table, record_layout, stored_size  # noqa: E402

SEED = 20260
ROWS = {512: 2000, 1024: 2500, 4096: 6000, 32768: 4000, 65536: 8000}
LONGEST_COLUMN = 4096  # the chain's ROW


def make_database(path, page_size, reserved, rng):
    """Rows of many shapes: sparse and negative rowids, NULLs, reals, duplicates, rows and keys that need overflow pages."""
    path.unlink(missing_ok=True)
    if reserved:
        if shutil.which("sqlite3") is None:
            return False
        script = f".filectrl reserve_bytes {reserved}\nPRAGMA page_size={page_size};\nCREATE TABLE first(x);\n"
        subprocess.run(["sqlite3", str(path)], input=script, text=True, check=True, stdout=subprocess.DEVNULL)
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute(f"PRAGMA page_size={page_size}")
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY, number, word TEXT, data BLOB, price REAL)")
        db.execute("BEGIN")
        db.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?)", (make_row(rng, page_size) for _ in range(ROWS[page_size])))
        db.execute("CREATE INDEX by_number ON rows(number)")
        db.execute("CREATE INDEX by_word ON rows(word)")
        db.execute("CREATE TABLE empty(id INTEGER PRIMARY KEY, number)")
        db.execute("CREATE INDEX empty_by_number ON empty(number)")
        db.execute("COMMIT")
    db.close()
    return True


def make_row(rng, page_size):
    rowid = rng.choice((rng.randrange(1, 3000), rng.randrange(1, 1 << 40), -rng.randrange(1, 1 << 33), rng.randrange(-(1 << 62), 1 << 62)))
    number = rng.choice((rng.randrange(-300, 300), rng.randrange(-(1 << 63), 1 << 63), rng.randrange(-40000, 40000), None,
                         rng.randrange(-300, 300) + 0.5, float(rng.randrange(-100, 100)), rng.uniform(-1e25, 1e25), -(2.0 ** 63), "text", b"\x00blob"))
    word = None if rng.random() < 0.05 else "".join(rng.choice("abcdeé") for _ in range(rng.randrange(0, 9)))
    if rng.random() < 0.05:
        word = (word or "") + "long" * rng.randrange(1, page_size // 8)
    length = rng.choice((0, rng.randrange(40), rng.randrange(40), rng.randrange(min(page_size, 4096)), rng.randrange(60000) if rng.random() < 0.1 else 5))
    return rowid, number, word, rng.randbytes(length), rng.choice((None, 1.5, 2.0, rng.random()))


def roots_of(db):
    return dict(db.execute("SELECT name, rootpage FROM sqlite_master"))


def expect_row(run, what, answer, row, most):
    """A row comes whole when its record has at most `most` bytes; else the outcome must be overflow."""
    if row is None:
        return run.same(what, answer.outcome, "not_found")
    if stored_size((None, *row[1:]), real_columns=(4,)) > most:
        return run.same(what, answer.outcome, "overflow")
    if run.same(what, answer.outcome, "ok"):
        run.same(what, decode(answer.value)[1:], tuple(row[1:]))


def check_rowids(run, files, db, roots, usable, rng):
    present = [row[0] for row in db.execute("SELECT id FROM rows ORDER BY id")]
    asked = set(present) | {present[0] - 1, present[-1] + 1, 0, -(1 << 63), (1 << 63) - 1}
    asked |= {rowid + 1 for rowid in rng.sample(present, 300)} | {rng.randrange(-(1 << 62), 1 << 62) for _ in range(200)}
    asked = sorted(asked)
    table = {row[0]: row for row in db.execute("SELECT id, number, word, data, price FROM rows")}
    fixed = {"root": roots["rows"]}
    for rowid, answer in zip(asked, run.call("lookup", files, fixed, [{"rowid": r} for r in asked])):
        expect_row(run, f"lookup {rowid}", answer, table.get(rowid), usable - 35)
    for rowid, answer in zip(asked, run.call("row", files, fixed, [{"rowid": r} for r in asked])):
        expect_row(run, f"row {rowid}", answer, table.get(rowid), 65536)
    check_columns(run, files, table, fixed, usable, rng)
    for answer in run.call("lookup", files, {"root": roots["empty"]}, [{"rowid": 1}]):
        run.same("lookup in an empty table", answer.outcome, "not_found")


def check_columns(run, files, table, fixed, usable, rng):
    some = rng.sample(sorted(table), min(len(table), 400))
    for number in (0, 1, 2, 3, 4, 5, 99):
        for rowid, answer in zip(some, run.call("column", files, {**fixed, "number": number}, [{"rowid": r} for r in some])):
            value = table[rowid][number] if 0 < number < 5 else None
            wanted = "null" if value is None else "overflow" if is_too_far(table[rowid], number, usable) else "ok"
            if run.same(f"column {number} of {rowid}", answer.outcome, wanted) and wanted == "ok":
                run.same(f"column {number} of {rowid}", as_stored(answer.value, value), value)


def is_too_far(row, number, usable):
    """Whether a column does not end on its row's own page, or is longer than the result."""
    header, sizes = record_layout((None, *row[1:]), real_columns=(4,))
    end = header + sum(sizes[:number + 1])
    return end > local_in_table(header + sum(sizes), usable) or sizes[number] > LONGEST_COLUMN


def as_stored(data, like):
    if isinstance(like, str):
        return data.decode()
    if isinstance(like, bytes):
        return data
    if isinstance(like, float) and len(data) == 8:
        return struct.unpack(">d", data)[0]
    # A real without a fraction is stored as an integer.
    return type(like)(int.from_bytes(data, "big", signed=True)) if data else "no bytes"


def check_integers(run, files, db, roots, usable, rng):
    asked = set(range(-310, 311)) | {rng.randrange(-40000, 40000) for _ in range(300)} | {(1 << 63) - 1, -(1 << 63), 1 << 40}
    asked |= {row[0] for row in db.execute("SELECT number FROM rows WHERE typeof(number) = 'integer'")}
    asked = sorted(asked)
    first = {key: db.execute("SELECT min(id) FROM rows WHERE number = ?", (key,)).fetchone()[0] for key in asked}
    keys = [{"key": key} for key in asked]
    for key, answer in zip(asked, run.call("rowid_of_integer", files, {"root": roots["by_number"]}, keys)):
        run.same(f"rowid_of_integer {key}", (answer.outcome, answer.value), ("not_found", None) if first[key] is None else ("ok", first[key]))
    roots_both = {"index_root": roots["by_number"], "table_root": roots["rows"]}
    for key, answer in zip(asked, run.call("by_integer", files, roots_both, keys)):
        row = db.execute("SELECT id, number, word, data, price FROM rows WHERE id = ?", (first[key],)).fetchone() if first[key] is not None else None
        expect_row(run, f"by_integer {key}", answer, row, usable - 35)
    for answer in run.call("rowid_of_integer", files, {"root": roots["empty_by_number"]}, [{"key": 1}]):
        run.same("an empty index", answer.outcome, "not_found")


def check_words(run, files, db, roots, usable, rng):
    words = [row[0] for row in db.execute("SELECT DISTINCT word FROM rows WHERE word IS NOT NULL ORDER BY word")]
    asked = [word for word in words if len(word.encode()) <= 512]
    asked += [word + "!" for word in rng.sample(asked, min(len(asked), 200)) if len(word) < 200] + ["", "zzzz", "a", "long", "longlon"]
    first = {key: db.execute("SELECT min(id) FROM rows WHERE word = ?", (key,)).fetchone()[0] for key in asked}
    keys = [{"key": key.encode()} for key in asked]
    overflows = set()
    for key, answer in zip(asked, run.call("rowid_of_text", files, {"root": roots["by_word"]}, keys)):
        if answer.outcome == "overflow":
            overflows.add(key)
            run.true(f"rowid_of_text {key[:40]!r}", len(key.encode()) > (usable - 12) * 32 // 255 - 40, "overflow for a short key")
        else:
            run.same(f"rowid_of_text {key[:40]!r}", (answer.outcome, answer.value), ("not_found", None) if first[key] is None else ("ok", first[key]))
    run.true("few overflows", len(overflows) < len(asked) // 4, f"{len(overflows)} of {len(asked)} keys overflow")
    roots_both = {"index_root": roots["by_word"], "table_root": roots["rows"]}
    for key, answer in zip(asked, run.call("by_text", files, roots_both, keys)):
        if key in overflows:
            run.same(f"by_text {key[:40]!r}", answer.outcome, "overflow")
            continue
        row = db.execute("SELECT id, number, word, data, price FROM rows WHERE id = ?", (first[key],)).fetchone() if first[key] is not None else None
        expect_row(run, f"by_text {key[:40]!r}", answer, row, usable - 35)


def check_damage(run, path, db, roots, page_size, rng):
    """A damaged file gives a defined outcome for every key, and the run ends."""
    whole = path.read_bytes()
    present = [row[0] for row in db.execute("SELECT id FROM rows")][:200]
    keys = [{"rowid": r} for r in present]
    allowed = {"ok", "not_found", "malformed", "overflow", "short_read", "hop_limit"}
    cut = run.folder / "cut.db"
    cut.write_bytes(whole[:page_size * 3 + page_size // 2])
    outcomes = {a.outcome for a in run.call("lookup", {"db": cut}, {"root": roots["rows"]}, keys)}
    run.true("a cut file", outcomes <= allowed and "short_read" in outcomes, f"outcomes {outcomes}")
    # Every pointer of the table's root page leads back to it.
    root = roots["rows"]
    page = bytearray(whole[(root - 1) * page_size:root * page_size])
    if page[0] == 5:
        cells = int.from_bytes(page[3:5], "big")
        page[8:12] = root.to_bytes(4, "big")
        for i in range(cells):
            at = int.from_bytes(page[12 + 2 * i:14 + 2 * i], "big")
            page[at:at + 4] = root.to_bytes(4, "big")
        cycle = run.folder / "cycle.db"
        cycle.write_bytes(whole[:(root - 1) * page_size] + page + whole[root * page_size:])
        outcomes = {a.outcome for a in run.call("lookup", {"db": cycle}, {"root": root}, keys)}
        run.same("a cycle", outcomes, {"hop_limit"})
    for number in range(12):
        damaged = bytearray(whole)
        for _ in range(len(damaged) // 97):
            damaged[rng.randrange(100, len(damaged))] = rng.randrange(256)
        bad = run.folder / "bad.db"
        bad.write_bytes(damaged)
        for chain, root, extra in (("lookup", "rows", keys), ("row", "rows", keys), ("rowid_of_integer", "by_number", [{"key": k} for k in range(-60, 60)])):
            outcomes = {a.outcome for a in run.call(chain, {"db": bad}, {"root": roots[root]}, extra)}
            run.true(f"damaged file {number}, {chain}", outcomes <= allowed, f"outcomes {outcomes}")


def check_wide_indexes(run):
    """Entries whose types alone fill their cells: what their keys are cannot be told, and no other row is said to be it."""
    for page_size, columns in ((512, 18), (4096, 250)):
        names = [f"c{number}" for number in range(columns)]
        wide = ["w" * 70] * columns
        path = run.folder / f"wide{page_size}.db"
        with sqlite3.connect(path, isolation_level=None) as db:
            db.execute(f"PRAGMA page_size={page_size}")
            for table in ("early", "amid", "every", "none"):
                db.execute(f"CREATE TABLE {table}(id INTEGER PRIMARY KEY, k, {', '.join(names)})")
                db.execute(f"CREATE INDEX by_{table} ON {table}(k, {', '.join(names)})")
            insert = lambda table, rowid, key, values: db.execute(f"INSERT INTO {table} VALUES (?, ?{', ?' * columns})", (rowid, key, *values))
            short = ["b"] + [None] * (columns - 1)
            insert("early", 1, 5, wide)
            insert("early", 2, 5, short)
            for rowid in range(1, 12):
                insert("amid", rowid, -100 * rowid, short)
            for rowid in (50, 51, 52):
                insert("amid", rowid, rowid - 1000, wide)
            for rowid in range(1, 6):
                insert("every", rowid, 1_000_000 * rowid, wide)
                insert("none", rowid, 1_000_000 * rowid, short)
        db.close()
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        roots = roots_of(db)
        for table in ("early", "amid", "every", "none"):
            asked = sorted({5, 0, -5000, 5_000_000, 7_000_000, *range(-1100, 100, 50), *(key + more for (key,) in db.execute(f"SELECT k FROM {table}") for more in (-1, 0, 1))})
            fixed = {"index_root": roots[f"by_{table}"], "table_root": roots[table]}
            rowids = run.call("rowid_of_integer", {"db": path}, {"root": roots[f"by_{table}"]}, [{"key": key} for key in asked])
            rows = run.call("by_integer", {"db": path}, fixed, [{"key": key} for key in asked])
            outcomes = set()
            for key, answer, row in zip(asked, rowids, rows):
                first = db.execute(f"SELECT id, c0, k FROM {table} WHERE k = ? ORDER BY {', '.join(['k', *names])} LIMIT 1", (key,)).fetchone()
                outcomes.add(answer.outcome)
                if answer.outcome != "overflow":
                    run.same(f"{table} of {page_size}: {key}", (answer.outcome, answer.value), ("not_found", None) if first is None else ("ok", first[0]))
                run.true(f"{table} of {page_size}: the row of {key}", row.outcome == answer.outcome or (row.outcome, answer.outcome) == ("overflow", "ok"), f"{row.outcome} and {answer.outcome}")
            run.same(f"{table} of {page_size}: some are not told", "overflow" in outcomes, table != "none")
        db.close()


def check_without_rowid(run):
    """What ends with no number is no rowid."""
    path = run.folder / "without.db"
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("CREATE TABLE w(k INTEGER PRIMARY KEY, v) WITHOUT ROWID")
        db.execute("INSERT INTO w VALUES (1, 'a'), (2, 'b')")
        root = roots_of(db)["w"]
    db.close()
    for key, answer in zip((1, 2, 3), run.call("rowid_of_integer", {"db": path}, {"root": root}, [{"key": key} for key in (1, 2, 3)])):
        run.same(f"a table without rowids: {key}", answer.outcome, "not_found" if key == 3 else "malformed")


def check_wrapped_columns(run):
    """Columns so long that their sum comes round to the row's beginning: what is there is no column."""
    path = run.folder / "wrapped.db"
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size=512")
        db.execute("CREATE TABLE t(a, b, c)")
        db.execute("INSERT INTO t VALUES (1, 2, 3)")
        root = roots_of(db)["t"]
    db.close()
    whole, cell = path.read_bytes(), 300
    longest = b"\xff" * 9  # as the type of a column: 2^63 - 7 bytes
    types = bytes((20,)) + 2 * longest + bytes((13 + 2 * 10,))
    for size in (bytes((60,)), longest, b"\xff" * 7 + b"\xfc\x18"):  # of the row: 60, 2^64 - 1, and 2^64 - 1000
        page = bytearray(whole[(root - 1) * 512:root * 512])
        page[8:10] = cell.to_bytes(2, "big")
        payload = size + bytes((1,)) + types
        page[cell:cell + len(payload)] = payload
        path.write_bytes(whole[:(root - 1) * 512] + page + whole[root * 512:])
        got = [run.call("column", {"db": path}, {"root": root, "number": number}, [{"rowid": 1}])[0].outcome for number in range(4)]
        run.same(f"columns that wrap round, of a row of {size.hex()} bytes", got, ["overflow", "malformed", "malformed", "malformed"])


def check_interrupted(run):
    """A file in which a transaction has written and not committed: defined outcomes, values of before and of then; once SQLite has put it in order, its rows."""
    path, left = run.folder / "written.db", run.folder / "left.db"
    was, is_now = b"as it was " + b"x" * 100, b"not committed " + b"x" * 100
    rowids = range(1, 4001)
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size=512")
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (?, ?)", ((rowid, was) for rowid in rowids))
        db.execute("COMMIT")
        db.execute("PRAGMA cache_size=10")
        db.execute("BEGIN")
        db.execute("UPDATE t SET v = ? WHERE id % 2", (is_now,))
        db.execute("DELETE FROM t WHERE id > 1000 AND id < 3000")
        for ending in ("", "-journal"):
            shutil.copy(f"{path}{ending}", f"{left}{ending}")
        root = roots_of(db)["t"]
        db.execute("ROLLBACK")
    db.close()
    ask = lambda: run.call("column", {"db": left}, {"root": root, "number": 1}, [{"rowid": rowid} for rowid in rowids])
    answers = ask()
    outcomes = {a.outcome for a in answers}
    run.true("a journal that is left", outcomes <= {"ok", "not_found", "malformed", "short_read"}, f"outcomes {outcomes}")
    values = {a.value for a in answers if a.outcome == "ok"}
    run.same("values beside a journal that is left", values, {was, is_now})
    with sqlite3.connect(left) as db:
        run.same("SQLite's own", db.execute("SELECT count(*) FROM t WHERE v = ?", (was,)).fetchone()[0], len(rowids))
    db.close()
    run.same("once it is in order", {(a.outcome, a.value) for a in ask()}, {("ok", was)})


def main():
    run = Run("std/sqlite.chain")
    rng = random.Random(SEED)
    for page_size, reserved in ((512, 0), (1024, 32), (4096, 0), (32768, 0), (65536, 0), (4096, 8)):
        path = run.folder / f"p{page_size}-{reserved}.db"
        if not make_database(path, page_size, reserved, rng):
            run.left_out(f"page size {page_size} with reserved bytes: no sqlite3 program here")
            continue
        header = path.read_bytes()[:100]
        run.same("page size", int.from_bytes(header[16:18], "big"), page_size % 65535 if page_size == 65536 else page_size)
        run.same("reserved bytes", header[20], reserved)
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        roots = roots_of(db)
        files = {"db": path}
        usable = page_size - reserved
        check_rowids(run, files, db, roots, usable, rng)
        check_integers(run, files, db, roots, usable, rng)
        check_words(run, files, db, roots, usable, rng)
        if page_size in (512, 4096) and not reserved:
            check_damage(run, path, db, roots, page_size, rng)
        db.close()
    check_wide_indexes(run)
    check_without_rowid(run)
    check_wrapped_columns(run)
    check_interrupted(run)
    finish(run)


if __name__ == "__main__":
    main()
