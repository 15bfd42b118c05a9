#!/usr/bin/env python3
"""sqlite3, unmodified, on a database that is not in memory: the same answers with and without shadow chains, and reads that hit."""
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from orders import CUSTOMERS, make
from runs import BUILD, ROOT, chain, drop_from_memory, expect

RANGE = "SELECT id, customer, item FROM orders INDEXED BY orders_by_customer WHERE customer BETWEEN 700 AND 719"
SCAN = "SELECT count(*), sum(length(item)) FROM orders NOT INDEXED"
# Both sides by an index: each leaf of either names rows of the one table.
TWO_INDEXES = ("SELECT count(*), sum(a.id), sum(b.id), sum(length(a.item)), sum(length(b.item)) FROM orders AS a INDEXED BY orders_by_customer "
               "CROSS JOIN orders AS b INDEXED BY orders_by_shop ON b.shop = a.customer - 600 WHERE a.customer BETWEEN 700 AND 704")
EITHER_INDEX = "SELECT count(*), sum(id), sum(length(item)) FROM orders WHERE customer BETWEEN 800 AND 805 OR shop BETWEEN 20 AND 21"
JOIN = "SELECT sum(c.name = '') , count(*), group_concat(c.name) FROM (SELECT * FROM orders LIMIT 4000) AS o CROSS JOIN customers AS c ON c.id = o.customer"
# The page of an index does not say of which table it is.
SEVERAL = ("CREATE TABLE copies(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT);"
           "INSERT INTO copies SELECT id, customer, item FROM orders ORDER BY id;"
           + "".join(f"CREATE TABLE small{n}(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE DEFAULT '{'x' * 200}');" for n in range(40))
           + "CREATE INDEX copies_by_customer ON copies(customer); CREATE INDEX customers_by_name ON customers(name);")
COPIES = "SELECT id, customer, item FROM copies INDEXED BY copies_by_customer WHERE customer BETWEEN 700 AND 719"


def cold(folder, db, options, query, of=None, enough=lambda figures: True):
    """The answers of the query without and with the library are the same, both with nothing in memory; gives the summary, of
    the first run in which the chain `of` has done enough: on a loaded machine the server may come too late."""
    drop_from_memory(db)
    plain = subprocess.run(["sqlite3", db, query], capture_output=True, check=True, timeout=runs.LONGEST).stdout
    for _ in runs.tries():
        drop_from_memory(db)
        done, summary = folder.summarized(options, ["sqlite3", db, query])
        expect("  exit code and no word on standard error", (done.returncode, done.stderr), (0, b""))
        expect(f"  {len(plain)} bytes of answer, the same", done.stdout == plain, True)
        expect("  it did not run plain", summary and summary["plain"], None)
        if of is None or enough(chain(summary, of)):
            break
    return summary


def grow_beside_others(path):
    """Four tables of some 2,000 pages each, no two of which lie beside each other, and an index of 60 pages or more between them."""
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size=4096")
        db.execute("BEGIN")
        for table in range(4):
            db.execute(f"CREATE TABLE rows{table}(id INTEGER PRIMARY KEY, text)")
        db.execute("CREATE TABLE keys(id INTEGER PRIMARY KEY, number)")
        db.execute("CREATE INDEX keys_by_number ON keys(number)")
        for n in range(24_000):
            db.execute(f"INSERT INTO rows{n % 4}(text) VALUES(?)", ("x" * (1200 + n % 80),))
            db.execute("INSERT INTO keys(number) VALUES(?)", (1_000_000 + n,))
        db.execute("COMMIT")
    db.close()


def commands_below(page, heading):
    """The first block of commands behind a heading."""
    return re.search(rf"^## {heading}$.*?^```(?:sh)?$(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)[1]


def follow_page(folder, page, heading, database, answers):
    """The commands of a page with fewer rows, on files of our own, give each answer as sqlite3 does alone."""
    print(f"the commands of {page}, {heading}")
    commands = commands_below(page, heading)
    expect("  they are what this replaces a part of", (database in commands, " 3000000 " in commands, commands.count("forget.py")), (True, True, answers))
    place = folder.path / "page.db"
    commands = commands.replace(database, str(place)).replace(" 3000000 ", " 200000 ")
    done = subprocess.run(["bash", "-ec", commands], cwd=(ROOT / page).parent if "README" in page else ROOT, capture_output=True, text=True, timeout=runs.LONGEST,
                          env={**folder.environment, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"})
    expect("  exit code", (done.returncode, done.stderr if done.returncode else ""), (0, ""))
    expect("  the summary", done.stderr, lambda text: "chainio: sqlite3 ended with 0 " in text and "\n  follow_index " in text)
    query = "SELECT count(*), sum(length(item)) FROM orders WHERE customer BETWEEN 700 AND 719"
    wanted = subprocess.run(["sqlite3", place, query], capture_output=True, check=True, text=True, timeout=runs.LONGEST).stdout
    expect("  its answers", (done.stdout, wanted.split("|")[0]), (wanted * answers, "200"))
    # The kernel keeps what it has at work, so that it may have to be asked again.
    with place.open("rb") as file:
        for _ in runs.tries():
            subprocess.run([sys.executable, ROOT / "examples" / "sqlite" / "forget.py", place], check=True, timeout=runs.LONGEST)
            if not runs.is_in_memory(file.fileno()):
                break
        expect("  forget.py takes the file out of memory", runs.is_in_memory(file.fileno()), False)
    place.unlink()


def main():
    if not shutil.which("sqlite3"):
        print("sqlite3 is not installed")
        sys.exit(77)
    with runs.Folder() as folder:
        db = folder.path / "orders.db"
        roots = make(db)
        print("range of a secondary index; the table is found by the schema")
        summary = cold(folder, db, ["--spec", "std/sqlite.chain"], RANGE, "follow_index", lambda c: c["walks"] > 500 and c["hits"] > 100 and c["duplicate"] > 100)
        follow = chain(summary, "follow_index")
        expect("  rows were read ahead", follow, lambda c: c["walks"] > 500 and c["fetches"] + c["walks"] > 0)
        expect("  and hit", follow, lambda c: c["hits"] > 100)
        expect("  rows of the next page of the index were asked for before that was read", follow["duplicate"], lambda count: count > 100)
        expect("  nothing failed", follow["failed"], 0)
        expect("  the file is in the class", summary["classes"][0], lambda c: c["name"] == "pages" and c["opened"] >= 1 and c["reads"] > 1000)
        print("the same with the table's root given, and as text")
        drop_from_memory(db)
        done = folder.run(["--spec", "std/sqlite_shadow.chain", "--param", f"TABLE_ROOT={roots['orders']}", "--explain"], ["sqlite3", db, RANGE])
        expect("  the summary names the chain and the file", done.stderr.decode(), lambda t: "follow_index" in t and str(db) in t and "pages" in t)
        for what, query, plan in (("a join over two indexes", TWO_INDEXES, "orders_by_shop"), ("either of two indexes", EITHER_INDEX, "MULTI-INDEX OR")):
            print(what)
            steps = subprocess.run(["sqlite3", db, f"EXPLAIN QUERY PLAN {query}"], capture_output=True, check=True, timeout=runs.LONGEST, text=True).stdout
            expect("  it is one", plan in steps, True)
            summary = cold(folder, db, ["--spec", "std/sqlite.chain"], query, "follow_index", lambda c: c["walks"] > 100 and c["hits"] > 50)
            expect("  rows that both name were read ahead, and hit", chain(summary, "follow_index"), lambda c: c["walks"] > 100 and c["hits"] > 50 and c["failed"] == 0)
        print("indexes of several tables, made behind them; and a schema of several pages")
        several = folder.path / "several.db"
        shutil.copy(db, several)
        subprocess.run(["sqlite3", several, SEVERAL], check=True, timeout=runs.LONGEST)
        summary = cold(folder, several, ["--spec", "std/sqlite.chain"], RANGE, "follow_index", lambda c: c["walks"] > 500 and c["hits"] > 100)
        expect("  rows of the index's table were read ahead, and hit", chain(summary, "follow_index"), lambda c: c["walks"] > 500 and c["hits"] > 100 and c["failed"] == 0)
        summary = cold(folder, several, ["--spec", "std/sqlite.chain"], COPIES, "follow_index", lambda c: c["walks"] > 500 and c["hits"] > 100)
        expect("  and those of another's", chain(summary, "follow_index"), lambda c: c["walks"] > 500 and c["hits"] > 100 and c["failed"] == 0)
        print("pages of another length than the program reads of page 1 first")
        subprocess.run(["sqlite3", several, "PRAGMA page_size=16384; VACUUM"], check=True, timeout=runs.LONGEST)
        summary = cold(folder, several, ["--spec", "std/sqlite.chain"], COPIES, "follow_index", lambda c: c["walks"] > 500 and c["hits"] > 50)
        expect("  rows were read ahead, and hit", chain(summary, "follow_index"), lambda c: c["walks"] > 500 and c["hits"] > 50 and c["failed"] == 0)
        follow_page(folder, "docs/run.md", "Three minutes to a faster sqlite3", "/tmp/orders.db", 2)
        follow_page(folder, "examples/sqlite/README.md", "Beside the sqlite3 program", "big.db", 1)
        print("full scan")
        summary = cold(folder, db, ["--spec", "std/sqlite.chain", "--param", "SCANS=1"], SCAN, "scan_table", lambda c: c["hits"] > 100)
        expect("  leaves were read ahead and hit", chain(summary, "scan_table"), lambda c: c["hits"] > 100)
        print("full scan of a table that has grown beside others, as it is found out")
        beside_others = folder.path / "beside.db"
        grow_beside_others(beside_others)
        summary = cold(folder, beside_others, ["--spec", "std/sqlite.chain"], "SELECT count(*), sum(length(text)), sum(id) FROM rows1", "scan_table", lambda c: c["hits"] > 300)
        expect("  leaves were read ahead and hit", chain(summary, "scan_table"), lambda c: c["hits"] > 300 and c["failed"] == 0)
        print("an index that holds all that is wanted")
        summary = cold(folder, beside_others, ["--spec", "std/sqlite.chain"], "SELECT count(number), sum(number) FROM keys INDEXED BY keys_by_number", "scan_index", lambda c: c["hits"] > 20)
        expect("  its leaves were read ahead and hit", chain(summary, "scan_index"), lambda c: c["hits"] > 20 and c["failed"] == 0)
        expect("  and none of the rows that it names", chain(summary, "follow_index"), lambda c: (c["walks"], c["fetches"], c["failed"]) == (0, 0, 0))
        print("one row by an index")
        summary = cold(folder, db, ["--spec", "std/sqlite.chain"], "SELECT item FROM orders INDEXED BY orders_by_customer WHERE customer = 700 LIMIT 1")
        expect("  no other row was read ahead", chain(summary, "follow_index"), lambda c: c["runs"] > 2 and (c["walks"], c["fetches"], c["failed"]) == (0, 0, 0))
        print("join by rowid")
        summary = cold(folder, db, ["--spec", "std/sqlite.chain", "--param", f"JOIN_ROOT={roots['customers']}", "--param", "JOIN_COLUMN=1", "--param", "JOIN_WIDTH=4"], JOIN, "join_rowids", lambda c: c["walks"] > 100 and c["hits"] > 0)
        expect("  rows of the other table were read ahead", chain(summary, "join_rowids"), lambda c: c["walks"] > 100 and c["hits"] > 0)
        print("files of another name")
        other = folder.path / "orders.sqlite"
        db.rename(other)
        done, summary = folder.summarized(["--spec", "std/sqlite.chain"], ["sqlite3", other, "SELECT count(*) FROM customers"])
        expect("  the summary says that nothing matched", (done.stdout, summary["notes"]), lambda r: r[0] == f"{CUSTOMERS}\n".encode() and any("*.db" in note for note in r[1]))
        summary = cold(folder, other, ["--spec", "std/sqlite.chain", "--param", "pages=*.sqlite"], RANGE, "follow_index", lambda c: c["hits"] > 100)
        expect("  --param pages=*.sqlite follows them", chain(summary, "follow_index"), lambda c: c["hits"] > 100)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
