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


def children_of(page, header=0):
    """Of a page above others, whose own header stands there."""
    cells = [int.from_bytes(page[header + 12 + 2 * i:header + 14 + 2 * i], "big") for i in range(int.from_bytes(page[header + 3:header + 5], "big"))]
    return [int.from_bytes(page[cell:cell + 4], "big") for cell in cells] + [int.from_bytes(page[header + 8:header + 12], "big")]


# What a mark of follow_index says of an index's leaf, by number.
STATE, UP, DOWN, LEFT_UP, LEFT_DOWN, FRESH, AGAIN, COVERING, SCATTERED, FETCHED = 1 << 63, 256, 304, 352, 384, 416, 432, 448, 460, 511
FIRST_ROWS, ROWS_SEEN, MANY_OTHERS, LEFT, LEAVES_COVERED = 64, 46, 14, 16, 8


def link(table, before, following):
    """The mark of a leaf that was not read yet."""
    return table | following << 27 | (before & 511) << 54


def state(table, leaf, seen):
    return STATE | link(table, seen, leaf)


def index_leaves(data, root, size):
    """The last page above an index's leaves, and these."""
    at = (root - 1) * size
    while data[(int.from_bytes(data[at + 8:at + 12], "big") - 1) * size] == 2:  # a page above others
        at = (int.from_bytes(data[at + 8:at + 12], "big") - 1) * size
    return at, children_of(data[at:at + size])


def leaf_of_row(data, table, rowid, size):
    """The table's leaf with the row: where it lies, and the rowids that it begins and ends with."""
    def rowid_at(page, cell, skip):
        at, value = cell + skip, 0
        while True:
            value = value << 7 | page[at] & 0x7f
            if page[at] < 0x80:
                return value
            at += 1
    number = table
    while True:
        page = data[(number - 1) * size:number * size]
        count, header = int.from_bytes(page[3:5], "big"), 12 if page[0] == 5 else 8
        cells = [int.from_bytes(page[header + 2 * i:header + 2 * i + 2], "big") for i in range(count)]
        if page[0] == 13:  # the payload's size is of one byte here
            return (number - 1) * size, rowid_at(page, cells[0], 1), rowid_at(page, cells[-1], 1)
        below = [i for i, cell in enumerate(cells) if rowid <= rowid_at(page, cell, 4)]
        number = children_of(page)[below[0] if below else count]


def follow_scan(run, path, roots):
    """An index's page above its leaves says which leaf lies beside which; at one behind another whose rows were looked up, its rows are wanted, and the next one's."""
    data, size = path.read_bytes(), 512
    table = roots["rows0"]
    at, leaves = index_leaves(data, roots["by_number0"], size)
    marks = [link(table, before, following) for before, following in zip([0, *leaves], [*leaves[1:], 0])]
    events(run, path, [("leaves and what lies beside each", at, size, table, [{"mark": mark, "at": (leaf - 1) * size} for leaf, mark in zip(leaves, marks)])])
    own, ahead = ([{"via": "reach_entry", "args": [leaf, i, table]} for i in range(int.from_bytes(data[(leaf - 1) * size + 3:(leaf - 1) * size + 5], "big"))]
                  for leaf in leaves[1:3])
    place = (leaves[1] - 1) * size, size
    run.true("pages of several entries", len(own) > 10 and len(ahead) > 10, f"{len(own)}, {len(ahead)}")
    expected_ahead = [{"via": "reach_entry", "args": [leaves[2], i, table]} for i in range(len(own))]
    says = lambda seen, leaf=leaves[1]: [{"mark": state(table, leaf, seen), "at": (leaf - 1) * size}]
    before = lambda seen, leaf=leaves[0], of=table: state(of, leaf, seen)
    all_of_it = own + expected_ahead + says(FETCHED)
    last = len(list(entries_of(data[(leaves[-1] - 1) * size:leaves[-1] * size])))
    events(run, path, [("the first leaf", *place, marks[1], says(FRESH)),
                       *((f"a leaf behind one whose rows were looked up by {seen}", *place, marks[1], all_of_it, before(seen)) for seen in (UP, UP + ROWS_SEEN, DOWN, LEFT_UP, SCATTERED, FETCHED)),
                       ("a leaf before such a one", *place, marks[1], own[::-1] + says(FETCHED), before(FETCHED, leaves[2])),
                       ("a leaf behind one of which one row was", *place, marks[1], says(FRESH), before(3)),
                       ("a leaf behind another one", *place, marks[1], says(FRESH), before(FETCHED, leaves[4])),
                       ("a leaf behind one of another table's index", *place, marks[1], says(FRESH), before(FETCHED, of=table + 1)),
                       ("a leaf of which those beside it are not known", *place, before(FRESH, leaves[1]), says(FRESH), before(FETCHED)),
                       ("a leaf behind one of which no row was", *place, marks[1], says(COVERING + 1), before(FRESH)),
                       ("a leaf behind two", *place, marks[1], says(COVERING + 2), before(COVERING + 1)),
                       ("a leaf behind many", *place, marks[1], says(COVERING + LEAVES_COVERED + 1), before(COVERING + LEAVES_COVERED + 1)),
                       ("a leaf before one of which no row was", *place, marks[1], says(FRESH), before(FRESH, leaves[2])),
                       ("a leaf behind one beside rows of others", *place, marks[1], says(FRESH), before(FRESH + 1)),
                       ("a leaf with none behind it", (leaves[-1] - 1) * size, size, marks[-1], last + 1, before(FETCHED, leaves[-2]))])
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


def follow_rows(run, path, roots):
    """The rows that are looked up say where in an index's leaf the program is, and which way it goes."""
    data, size, table = path.read_bytes(), 512, roots["rows0"]
    leaf = index_leaves(data, roots["by_number0"], size)[1][1]
    rowids = list(entries_of(data[(leaf - 1) * size:leaf * size]))
    places = [leaf_of_row(data, table, rowid, size) for rowid in rowids]
    alone = lambda i: [j for j, rowid in enumerate(rowids) if places[i][1] <= rowid <= places[i][2]] == [i]
    nth = next(i for i in range(len(rowids) - 4, 2, -1) if all(alone(j) for j in (i - 1, i, i + 1)))
    at, low, high = places[nth]
    mark = lambda seen, place=at: {"mark": state(table, leaf, seen), "at": place}
    seen_at = lambda seen: {"mark_via": "seen", "args": [state(table, leaf, seen), low, high], "at": at}
    beside = lambda seen, steps: [{"via": "reach_beside", "args": [state(table, leaf, seen), i, low, high]} for i in steps]
    was = lambda seen: state(table, leaf, seen)
    kept, again = mark(FRESH + 1), mark(AGAIN + 1)
    read = lambda what, wanted, seen: (what, at, size, 0, wanted, was(seen))
    events(run, path, [read("the first row", [kept, seen_at(FRESH)], FRESH), read("a row behind leaves that cover", [kept, seen_at(COVERING + 3)], COVERING + 3),
                       read("a row behind others", [mark(FRESH + 6), seen_at(FRESH + 5)], FRESH + 5), read("and behind many", [seen_at(FRESH + MANY_OTHERS)], FRESH + MANY_OTHERS),
                       read("one between others", [mark(AGAIN + 5), seen_at(AGAIN + 4)], AGAIN + 4), read("and between many", [seen_at(AGAIN + MANY_OTHERS)], AGAIN + MANY_OTHERS),
                       read("the second row", [again, seen_at(nth - 1), *beside(nth - 1, range(1, FIRST_ROWS + 1))], nth - 1),
                       read("further ones", [mark(UP + 1)], UP), read("the other way", [mark(DOWN + 9)], DOWN + 8),
                       read("enough of them", [again, seen_at(UP + ROWS_SEEN)], UP + ROWS_SEEN), read("and of those", [again, seen_at(DOWN + ROWS_SEEN)], DOWN + ROWS_SEEN),
                       read("what is left", [*beside(LEFT_UP + 2, range(FIRST_ROWS - ROWS_SEEN - 1, 3 * LEFT)), mark(FETCHED)], LEFT_UP + 2),
                       read("less than was fetched", [mark(FETCHED)], LEFT_DOWN),
                       read("rows in another order", [*({"via": "reach_entry", "args": [leaf, i, table]} for i in range(2 * LEFT)), mark(FETCHED)], SCATTERED + 1),
                       read("a page that was fetched", 0, FETCHED), ("no leaf of an index before it", at, size, 0, 0), ("one of scan_table's", at, size, 0, 0, TABLE)])
    here, far = places[nth], nth + 65 & 255
    cases = [(FRESH, nth), (FRESH + 9, nth), (COVERING + 2, nth), (AGAIN + 1, SCATTERED + len(rowids) // LEFT), (nth - 1, UP), (nth - 2, UP), (nth + 1, DOWN), (far, SCATTERED + len(rowids) // LEFT),
             (UP + ROWS_SEEN, LEFT_UP + (len(rowids) - 1 - nth) // LEFT), (DOWN + ROWS_SEEN, LEFT_DOWN + nth // LEFT)]
    fixed = {"low": here[1], "high": here[2]}
    for (seen, wanted), answer in zip(cases, run.call("seen", {"db": path}, fixed, [{"so_far": was(seen)} for seen, _ in cases])):
        run.same(f"seen, behind {seen}", (answer.outcome, answer.value), ("ok", was(wanted)))
    [answer] = run.call("seen", {"db": path}, {"low": 3 * ROWS, "high": 4 * ROWS}, [{"so_far": was(FRESH)}])
    run.same("rows that the leaf does not name", answer.outcome, "not_found")
    cases = [(nth - 1, 1, nth + 1), (nth + 1, 1, nth - 1), (UP, 2, nth + 2), (DOWN, 2, nth - 2), (LEFT_UP, 3, nth + 3), (LEFT_DOWN + 1, 3, nth - 3)]
    answers = run.call("reach_beside", {"db": path}, fixed, [{"so_far": was(seen), "steps": steps} for seen, steps, _ in cases])
    rows = run.call("reach", {"db": path}, {"root": table}, [{"rowid": rowids[wanted]} for _, _, wanted in cases])
    for (seen, steps, _), answer, row in zip(cases, answers, rows):
        run.same(f"{steps} entries on, {seen}", (answer.outcome, answer.value, answer.hops), ("ok", 1, row.hops + 1))
    # As far as the leaf goes: the other way there are fewer entries.
    run.true("a place in the second half", nth > len(rowids) - 1 - nth, f"{nth} of {len(rowids)}")
    for seen, steps in ((UP, len(rowids) - 1 - nth), (DOWN, nth), (nth + 1, nth)):
        [answer] = run.call("reach_beside", {"db": path}, fixed, [{"so_far": was(seen), "steps": steps}])
        run.same(f"{steps} entries on, {seen}", answer.outcome, "ok")
    # Where a page of the table has rows of several entries, the nearest to the one before counts.
    wide = {"low": 0, "high": 3 * ROWS}
    for seen, wanted in ((FRESH, 0), (7, UP)):
        [answer] = run.call("seen", {"db": path}, wide, [{"so_far": was(seen)}])
        run.same(f"seen among all rows, behind {seen}", (answer.outcome, answer.value), ("ok", was(wanted)))
    [answer] = run.call("reach_beside", {"db": path}, wide, [{"so_far": was(7), "steps": len(rowids) - 8}])
    run.same("the last entry behind the seventh", answer.outcome, "ok")
    for seen, steps in ((UP, len(rowids) - nth), (DOWN, nth + 1), (far, 1)):
        [answer] = run.call("reach_beside", {"db": path}, fixed, [{"so_far": was(seen), "steps": steps}])
        run.same(f"{steps} entries on, {seen}", answer.outcome, "not_found")


def covering_scan(run, path, roots):
    """Who has read many leaves of an index in a row, and none of the rows, has begun to go through it."""
    data, size, table = path.read_bytes(), 512, roots["rows0"]
    at, leaves = index_leaves(data, roots["by_number0"], size)
    above, count = at // size + 1, len(leaves) - 1
    known = link(table, count, above)
    place = (leaves[9] - 1) * size, size
    covers = state(table, leaves[9], COVERING + LEAVES_COVERED)
    rest = [{"via": "reach_behind", "args": [above, leaves[9], i]} for i in range(1, count)]
    events(run, path, [("a page above leaves", at, size, link(table, 3, 5), [{"mark": known, "at": at}]), ("one of an unknown table", at, size, 0, 0),
                       ("the eighth leaf in a row", *place, covers, rest, known), ("the ninth", *place, covers + (1 << 54), 0, known),
                       ("the eighth when they are fetched", *place, covers, 0, covers), ("a leaf with rows", *place, state(table, leaves[9], FETCHED), 0, known)], "scan_index")
    for steps in range(1, 3):
        [answer] = run.call("reach_behind", {"db": path}, {"above": above, "below": leaves[9]}, [{"steps": steps}])
        run.same("reach a leaf of an index", (answer.outcome, answer.value, answer.hops), ("ok", 1, 2))
    for wrong in ({"above": above, "below": leaves[9], "steps": count - 8}, {"above": above, "below": above, "steps": 1}, {"above": leaves[9], "below": above, "steps": 1}):
        [answer] = run.call("reach_behind", {"db": path}, wrong, [{}])
        run.same(f"reach_behind of {wrong}", answer.outcome, "not_found")


TABLE, IN_ORDER = 1 << 61, 1 << 62  # marks of scan_table


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
                       ("another leaf", *place(leaves[5]), 0, 0, marks[3] | IN_ORDER),
                       ("the third leaf behind one of follow_index's", *place(leaves[2]), marks[3], first[2:], marks[2] | IN_ORDER | STATE),
                       ("a leaf of follow_index's", *place(leaves[2]), marks[3] | STATE, 0, marks[2] | IN_ORDER),
                       ("a page above leaves of follow_index's", *place(page), beside(1) | STATE, 0)], "scan_table")
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
    follow_rows(run, path, roots)
    covering_scan(run, path, roots)
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
    # A page of the schema below page 1 is known by it, whatever lies beside it.
    data = many.read_bytes()
    before, leaf, following = children_of(bytes(100) + data[100:512], 100)[:3]
    page = data[(leaf - 1) * 512:leaf * 512]
    cells = [int.from_bytes(page[8 + 2 * i:10 + 2 * i], "big") for i in range(int.from_bytes(page[3:5], "big"))]
    tables = sum(b"tablerows" in page[cell:cell + 40] for cell in cells)
    run.true("tables on the schema's second page", page[0] == 13 and tables > 1, f"{page[0]}, {tables}")
    events(run, many, [("the schema's second page", (leaf - 1) * 512, 512, link(1, before, following), tables)], "scan_table")
    events(run, many, [("its indexes", (leaf - 1) * 512, 512, link(1, before, following), len(cells) - tables)])
    for page_size in (512, 1024, 4096, 16384, 65536):
        small = run.folder / f"small{page_size}.db"
        root = make_small(small, page_size)

        def leaf(name):
            return (root[name] - 1) * page_size, page_size, root["rows"]
        # Before a program knows how long a page is it reads page 1 as it mostly is.
        first = [("page 1 and more or less", 0, 4096, 0, 0)] if page_size != 4096 else []
        events(run, small, [*first, ("the header", 0, 100, 0, 0),
                            ("page 1", 0, page_size, 0, 3), ("entries that end on their page", *leaf("by_text"), 7, state(root["rows"], 0, FETCHED)),
                            ("an index of unknown table", *leaf("by_text")[:2], 0, 0), ("rows", *leaf("rows"), 0),
                            ("no rowids", *leaf("names"), 1, state(root["rows"], 0, FETCHED)),
                            ("no rowids in an index", *leaf("by_number"), 1, state(root["rows"], 0, FETCHED)),
                            ("numbers of a table without rowids", *leaf("words")[:2], TABLE, 0)])
    finish(run)


if __name__ == "__main__":
    main()
