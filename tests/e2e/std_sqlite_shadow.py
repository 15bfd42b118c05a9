#!/usr/bin/env python3
"""The chains that std/sqlite_shadow.chain goes on with: they read the pages on the way to a row that std/sqlite.chain reads."""
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import Run, finish  # noqa: E402

ROWS = 3000


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


def main():
    run = Run("std/sqlite_shadow.chain")
    path, two = run.folder / "one.db", run.folder / "two.db"
    roots = make_database(path, 1)
    make_database(two, 2)
    rowids = [3 * n for n in range(0, ROWS, 97)] + [1, 3 * ROWS, -5]
    asked = [{"rowid": rowid} for rowid in rowids]
    files, fixed = {"db": path}, {"root": roots["rows0"]}
    reached = run.call("reach", files, fixed, asked)
    indexed = run.call("reach_indexed", files, {}, asked)
    looked_up = run.call("sqlite.lookup", files, fixed, asked)
    for rowid, reach, by_schema, lookup in zip(rowids, reached, indexed, looked_up):
        run.true(f"pages on the way to {rowid}", lookup.hops > 2, f"{lookup.hops}, of which a table of one page has one")
        run.same(f"reach {rowid}", (reach.outcome, reach.value, reach.hops), ("ok", 1, lookup.hops))
        run.same(f"reach_indexed {rowid}, and the schema", (by_schema.outcome, by_schema.value, by_schema.hops), ("ok", 1, lookup.hops + 1))
    for answer in run.call("reach_indexed", {"db": two}, {}, asked):
        run.same("two tables with indexes", answer.outcome, "several_tables")
    for answer in run.call("reach", files, {"root": roots["by_number0"]}, asked):
        run.same("an index is no table", answer.outcome, "malformed")
    finish(run)


if __name__ == "__main__":
    main()
