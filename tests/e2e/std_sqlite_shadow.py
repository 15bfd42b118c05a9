#!/usr/bin/env python3
"""The chains that std/sqlite_shadow.chain goes on with: they read the pages on the way to a row that std/sqlite.chain reads."""
import json
import os
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import BUILD, Run, finish  # noqa: E402

ROWS = 3000
MANY = 40


def make_empty(path, tables):
    """Returns {name: root page}: first all tables, as a dump has them, then their indexes."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size=512")
        for table in range(tables):
            db.execute(f"CREATE TABLE rows{table}(id INTEGER PRIMARY KEY, number UNIQUE, text)")
        for table in range(tables):
            db.execute(f"CREATE INDEX by_text{table} ON rows{table}(text)")
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema"))
    db.close()
    return roots


def make_database(path, tables):
    """Returns {name: root page}; each table has an index."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size=512")
        db.execute("BEGIN")
        for table in range(tables):
            db.execute(f"CREATE TABLE rows{table}(id INTEGER PRIMARY KEY, number, text)")
            db.execute(f"CREATE INDEX by_number{table} ON rows{table}(number)")
            db.executemany(f"INSERT INTO rows{table} VALUES (?, ?, ?)", ((3 * n, n * 7919 % ROWS, "x" * (n % 40)) for n in range(ROWS)))
        db.execute("COMMIT")
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema"))
    db.close()
    return roots


def owners(run, path, roots, indexes):
    """By each index's root the chain finds its table's."""
    found = run.call("table_of", {"db": path}, {}, [{"index": roots[index]} for index in indexes])
    for (index, table), answer in zip(indexes.items(), found):
        run.same(f"the table of {index}", (answer.outcome, answer.value), ("ok", roots[table]))
    for what, page in (("a table", next(iter(indexes.values()))), ("the schema", None)):
        [answer] = run.call("table_of", {"db": path}, {}, [{"index": roots[page] if page else 1}])
        run.same(f"{what} is no index", answer.outcome, "not_found")


def make_small(path, page_size):
    """Trees of one page each. Of 8 rows 2 have a text that goes on on other pages; the tables without rowids end with a text."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute(f"PRAGMA page_size={page_size}")
        db.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY, text)")
        db.executemany("INSERT INTO rows VALUES(?, ?)", [(n, f"{n}" * (page_size if n % 4 == 3 else 3)) for n in range(8)])
        db.execute("CREATE INDEX by_text ON rows(text)")
        db.execute("CREATE TABLE words(number, word, PRIMARY KEY(word, number)) WITHOUT ROWID")
        db.executemany("INSERT INTO words VALUES(?, ?)", [(n, f"word {n}") for n in range(8)])
        db.execute("CREATE TABLE names(name PRIMARY KEY, number) WITHOUT ROWID")
        db.executemany("INSERT INTO names VALUES(?, ?)", [(f"name {n}", None if n % 2 else "a") for n in range(8)])
        db.execute("CREATE INDEX by_number ON names(number)")
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_schema"))
    db.close()
    return roots


def events(run, path, cases, chain="follow_index"):
    """What the chain asks for at reads of (what, offset, length, the place's mark, how much or what; and the mark of the place read before)."""
    text = f"spec: {run.artifact}\nfiles: {{ db: {path} }}\ncases:\n"
    for what, at, length, mark, wanted, *before in cases:
        expected = f"prefetch_count: {wanted}" if isinstance(wanted, int) else f"prefetches: {json.dumps(wanted)}"
        text += (f"  - {{ name: {what}, chain: {chain}, event: {{ file: db, at: {at}, for: {length}, mark: {mark}, last_mark: {before[0] if before else 0} }},"
                 f" expect: {{ {expected} }} }}\n")
    suite = run.folder / "events.test.yaml"
    suite.write_text(text)
    done = subprocess.run([BUILD / "bin" / "chainio", "test", suite], capture_output=True, text=True)
    run.true(f"events of {path.name}", done.returncode == 0 and f"{len(cases)} passed" in done.stdout, done.stdout + done.stderr)


def entries_of(page):
    """The rowids that a leaf of an index of ours names, in its order: each is the last column, of one to four bytes."""
    for cell in (int.from_bytes(page[at:at + 2], "big") for at in range(8, 8 + 2 * int.from_bytes(page[3:5], "big"), 2)):
        size, header, last = page[cell], page[cell + 1], page[cell + page[cell + 1]]
        width = {8: 0, 9: 0, 5: 6, 6: 8}.get(last, last)
        end = cell + 1 + size
        yield last - 8 if last in (8, 9) else int.from_bytes(page[end - width:end], "big", signed=True)


def children_of(page):
    """Of a page above others."""
    cells = [int.from_bytes(page[12 + 2 * i:14 + 2 * i], "big") for i in range(int.from_bytes(page[3:5], "big"))]
    return [int.from_bytes(page[cell:cell + 4], "big") for cell in cells] + [int.from_bytes(page[8:12], "big")]


def follow_scan(run, path, roots):
    """An index's page above its leaves says which leaf follows which; at a leaf behind the one read before it, the next one's rows are wanted, too."""
    data, size = path.read_bytes(), 512
    table, at = roots["rows0"], (roots["by_number0"] - 1) * size
    while data[(int.from_bytes(data[at + 8:at + 12], "big") - 1) * size] == 2:  # a page above others
        at = (int.from_bytes(data[at + 8:at + 12], "big") - 1) * size
    leaves = children_of(data[at:at + size])
    marks = [table | following << 32 for following in leaves[1:]] + [table]
    events(run, path, [("leaves and what follows each", at, size, table, [{"mark": mark, "at": (leaf - 1) * size} for leaf, mark in zip(leaves, marks)])])
    own, ahead = ([{"via": "reach_entry", "args": [leaf, i, table]} for i in range(int.from_bytes(data[(leaf - 1) * size + 3:(leaf - 1) * size + 5], "big"))]
                  for leaf in leaves[1:3])
    place = (leaves[1] - 1) * size, size
    run.true("pages of several entries", len(own) > 10 and len(ahead) > 10, f"{len(own)}, {len(ahead)}")
    expected_ahead = [{"via": "reach_entry", "args": [leaves[2], i, table]} for i in range(len(own))]
    events(run, path, [("a leaf behind the one before it", *place, marks[1], own + expected_ahead, marks[0]),
                       ("a leaf behind another one", *place, marks[1], own, marks[2]), ("the first leaf", *place, marks[1], own),
                       ("a leaf with none behind it", (leaves[-1] - 1) * size, size, marks[-1], len(list(entries_of(data[(leaves[-1] - 1) * size:leaves[-1] * size]))), marks[-2])])
    files, leaf = {"db": path}, leaves[1]
    rowids = list(entries_of(data[(leaf - 1) * size:leaf * size]))
    asked = [{"leaf": leaf, "entry": i, "root": table} for i in range(len(rowids))]
    looked_up = run.call("sqlite.lookup", files, {"root": table}, [{"rowid": rowid} for rowid in rowids])
    for rowid, reach, lookup in zip(rowids, run.call("reach_entry", files, {}, asked), looked_up):
        run.same(f"reach {rowid} by its entry", (reach.outcome, reach.value, reach.hops), ("ok", 1, lookup.hops + 1))
        run.same("  which is a row", lookup.outcome, "ok")
    wrong = [({"leaf": leaf, "entry": len(rowids), "root": table}, "not_found"), ({"leaf": table, "entry": 0, "root": table}, "not_found"),
             ({"leaf": leaf, "entry": 0, "root": roots["by_number0"]}, "malformed")]
    for (arguments, outcome), answer in zip(wrong, run.call("reach_entry", files, {}, [arguments for arguments, _ in wrong])):
        run.same(f"reach_entry of {arguments}", answer.outcome, outcome)


TABLE, IN_ORDER = 1 << 62, 1 << 63  # marks


def scan_table(run, path, roots):
    """The pages below a table's root are known by those beside them. Who has read the first three leaves of one has begun to go through the table."""
    data, size, root = path.read_bytes(), 512, roots["rows0"]
    inner = children_of(data[(root - 1) * size:root * size])
    run.true("pages between the root and the leaves", len(inner) > 2, str(inner))
    page, behind = inner[1], inner[2]
    leaves, last = (children_of(data[(each - 1) * size:each * size]) for each in (page, inner[-1]))
    run.true("leaves", len(leaves) > 20, str(leaves))
    place = lambda number: ((number - 1) * size, size)
    beside = lambda i: (inner[i - 1] if i > 0 else 0) | (inner[i + 1] if i + 1 < len(inner) else 0) << 32
    of_leaf = lambda above, count, nth: above | (count << 2 | nth) << 32
    marks = [of_leaf(page, len(leaves), nth) for nth in (0, 1, 2, 3)]
    first = [{"mark": marks[nth], "at": (leaves[nth - 1] - 1) * size} for nth in (1, 2, 3)]
    goes_on = of_leaf(inner[0], 40, 3) | IN_ORDER
    fetched = [{"same": True, "at": (leaf - 1) * size, "for": size} for leaf in leaves] + [{"mark": marks[0] | IN_ORDER, "at": (leaves[-1] - 1) * size}]
    ahead = [{"via": "reach_child", "args": [behind, i]} for i in range(64)]
    in_order = [{"mark": marks[nth] | IN_ORDER, "at": (leaves[nth - 1] - 1) * size} for nth in (1, 2, 3)]
    rest = [{"via": "reach_child", "args": [page, i]} for i in range(3, len(leaves))]
    events(run, path, [("the schema", 0, size, 0, [{"mark": TABLE, "at": (root - 1) * size}]),
                       ("a root", *place(root), TABLE, [{"mark": beside(i), "at": (each - 1) * size} for i, each in enumerate(inner)]),
                       ("a page of unknown place", *place(root), 0, 0), ("a page above leaves", *place(page), beside(1), first),
                       ("behind leaves of the page before", *place(page), beside(1), fetched + ahead, goes_on),
                       ("behind a leaf in no order", *place(page), beside(1), first, goes_on & ~IN_ORDER),
                       ("behind leaves of another page", *place(page), beside(1), first, goes_on + 1),
                       ("the last page", *place(inner[-1]), beside(len(inner) - 1), len(last) + 1, of_leaf(inner[-2], 40, 3) | IN_ORDER),
                       ("the first leaf", *place(leaves[0]), marks[1], first[:1]), ("the second leaf", *place(leaves[1]), marks[2], in_order[1:2], marks[1]),
                       ("the third leaf", *place(leaves[2]), marks[3], in_order[2:3] + rest, marks[2] | IN_ORDER),
                       ("the third leaf behind a second one alone", *place(leaves[2]), marks[3], in_order[2:3], marks[2]),
                       ("the third leaf behind the first one", *place(leaves[2]), marks[3], first[2:], marks[1] | IN_ORDER),
                       ("the third leaf behind another page's", *place(leaves[2]), marks[3], first[2:], marks[2] + 1 | IN_ORDER),
                       ("another leaf", *place(leaves[5]), 0, 0, marks[3] | IN_ORDER)], "scan_table")
    asked = [{"above": page, "nth": i} for i in range(len(leaves))]
    for answer in run.call("reach_child", {"db": path}, {}, asked):
        run.same("reach a leaf", (answer.outcome, answer.value, answer.hops), ("ok", 1, 2))
    for wrong in ({"above": page, "nth": len(leaves)}, {"above": leaves[0], "nth": 0}):
        [answer] = run.call("reach_child", {"db": path}, wrong, [{}])
        run.same(f"reach_child of {wrong}", answer.outcome, "not_found")


def main():
    run = Run("std/sqlite_shadow.chain")
    path, two = run.folder / "one.db", run.folder / "two.db"
    roots = make_database(path, 1)
    roots_of_two = make_database(two, 2)
    rowids = [3 * n for n in range(0, ROWS, 97)] + [1, 3 * ROWS, -5]
    asked = [{"rowid": rowid} for rowid in rowids]
    files, fixed = {"db": path}, {"root": roots["rows0"]}
    reached = run.call("reach", files, fixed, asked)
    looked_up = run.call("sqlite.lookup", files, fixed, asked)
    for rowid, reach, lookup in zip(rowids, reached, looked_up):
        run.true(f"pages on the way to {rowid}", lookup.hops > 2, f"{lookup.hops}, of which a table of one page has one")
        run.same(f"reach {rowid}", (reach.outcome, reach.value, reach.hops), ("ok", 1, lookup.hops))
    [only] = run.call("only_table", files, {}, [{}])
    run.same("the only table with indexes", (only.outcome, only.value), ("ok", roots["rows0"]))
    [only] = run.call("only_table", {"db": two}, {}, [{}])
    run.same("two tables with indexes", only.outcome, "several_tables")
    follow_scan(run, path, roots)
    scan_table(run, path, roots)
    owners(run, two, roots_of_two, {"by_number0": "rows0", "by_number1": "rows1"})
    wide = run.folder / "wide.db"
    with sqlite3.connect(wide, isolation_level=None) as db:
        db.execute("PRAGMA page_size=65536")
        for n in range(110):
            db.execute(f"CREATE TABLE rows{n}(number, text)")
            db.execute(f"CREATE INDEX by_number{n} ON rows0(number)" if n < 109 else f"CREATE INDEX by_number{n} ON rows{n}(number)")
    db.close()
    [only] = run.call("only_table", {"db": wide}, {}, [{}])
    run.same("more rows than are looked at", only.outcome, "several_tables")
    many = run.folder / "many.db"
    indexes = {f"by_text{n}": f"rows{n}" for n in range(MANY)} | {f"sqlite_autoindex_rows{n}_1": f"rows{n}" for n in range(MANY)}
    owners(run, many, make_empty(many, MANY), indexes)
    for answer in run.call("reach", files, {"root": roots["by_number0"]}, asked):
        run.same("an index is no table", answer.outcome, "malformed")
    for file, offset, header in ((two, (roots_of_two["by_number0"] - 1) * 512, 0), (many, 0, 100)):
        page = file.read_bytes()[offset + header:]
        run.same("a page above others", page[0], 2 if offset else 5)
        cells = int.from_bytes(page[3:5], "big")
        events(run, file, [("every page below and the last", offset, 512, 7 if offset else 0, cells + 1)])
        if offset:
            events(run, file, [("of unknown table and maybe the only one", offset, 512, 0, 1)])
    for page_size in (512, 1024, 4096, 16384, 65536):
        small = run.folder / f"small{page_size}.db"
        root = make_small(small, page_size)

        def leaf(name):
            return (root[name] - 1) * page_size, page_size, root["rows"]
        # Before a program knows how long a page is it reads page 1 as it mostly is.
        first = [("page 1 and more or less", 0, 4096, 0, 0)] if page_size != 4096 else []
        events(run, small, [*first, ("the header", 0, 100, 0, 0),
                            ("page 1", 0, page_size, 0, 3), ("entries that end on their page", *leaf("by_text"), 6),
                            ("an index of unknown table", *leaf("by_text")[:2], 0, 0), ("rows", *leaf("rows"), 0),
                            ("no rowids", *leaf("names"), 0), ("no rowids in an index", *leaf("by_number"), 0),
                            ("numbers of a table without rowids", *leaf("words")[:2], TABLE, 0)])
    finish(run)


if __name__ == "__main__":
    main()
