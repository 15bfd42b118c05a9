#!/usr/bin/env python3
"""The chains that std/sqlite_shadow.chain goes on with: they read the pages on the way to a row that std/sqlite.chain reads."""
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import Run, finish  # noqa: E402

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
    owners(run, two, roots_of_two, {"by_number0": "rows0", "by_number1": "rows1"})
    many = run.folder / "many.db"
    indexes = {f"by_text{n}": f"rows{n}" for n in range(MANY)} | {f"sqlite_autoindex_rows{n}_1": f"rows{n}" for n in range(MANY)}
    owners(run, many, make_empty(many, MANY), indexes)
    for answer in run.call("reach", files, {"root": roots["by_number0"]}, asked):
        run.same("an index is no table", answer.outcome, "malformed")
    finish(run)


if __name__ == "__main__":
    main()
