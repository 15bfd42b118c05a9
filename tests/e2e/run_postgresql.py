#!/usr/bin/env python3
"""PostgreSQL, unmodified, beside std/postgresql_shadow.chain: a cluster of the test's own answers as it does without, cold, and its index scans hit."""
import concurrent.futures
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import postgres
import runs
from runs import CHAINIO, ROOT, expect

ROWS, EACH = 400_000, 20  # rows, and rows of a customer
CUSTOMERS = ROWS // EACH
SPEC = ["--follow", "--spec", "std/postgresql_shadow.chain", "-I", ROOT / "stdlib-chains"]
# Rows of a customer lie far from one another. An index over two columns holds no lists of equal keys, one over a single one does.
TABLES = f"""
BEGIN;
CREATE TABLE orders(id int, customer int NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT i, (i::bigint * 2654435761 % 4294967296 % {ROWS} / {EACH})::int, lpad(i::text, 60 + i % 80, 'x') FROM generate_series(1, {ROWS}) i;
CREATE INDEX by_customer ON orders(customer);
CREATE INDEX by_both ON orders(customer, id);
CREATE TABLE customers AS SELECT i AS id, 'customer ' || i AS name FROM generate_series(0, {CUSTOMERS} - 1) i;
CREATE UNIQUE INDEX customers_by_id ON customers(id);
COMMIT;
VACUUM (FREEZE, ANALYZE);
CHECKPOINT;
"""
BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;"
RANGE = "SELECT id, customer, note FROM orders WHERE customer BETWEEN {low} AND {low} + 59 ORDER BY customer"
BOTH = RANGE + ", id"
JOIN = "SELECT o.id, c.name, o.note FROM customers AS c JOIN orders AS o ON o.customer = c.id WHERE c.id BETWEEN {low} AND {low} + 59 ORDER BY c.id"
BITMAP = "SET enable_seqscan = off; SET enable_indexscan = off; SET effective_io_concurrency = 64;"
CHANGE = "UPDATE orders SET note = note || '!' WHERE customer BETWEEN 100 AND 109; CHECKPOINT;"
# What is asked, by which settings, what its plan says, the index, and whether its reads are hits.
ASKED = [
    ("a range of an index with lists of equal keys", BY_INDEX, RANGE, "Index Scan using by_customer", "by_customer", True),
    ("a range of an index without", BY_INDEX, BOTH, "Index Scan using by_both", "by_both", True),
    ("a join whose inner side is the index", BY_INDEX, JOIN, "Nested Loop", "by_customer", True),
    ("a bitmap scan, which PostgreSQL reads ahead itself", BITMAP, RANGE, "Bitmap Heap Scan", "by_customer", False),
]
LOWS = (1_000, 12_345)  # each range once: what was asked for once stays in shared_buffers


def answers(cluster, server, settings, query):
    """Of each range, cold."""
    found = []
    for low in LOWS:
        cluster.forget()
        found.append(server.query(f"{settings} {query.format(low=low)}"))
    return found


def at_once(cluster, server):
    """Of several clients, each of whom the postmaster forks a process for."""
    cluster.forget()
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        return list(clients.map(lambda i: server.query(f"{BY_INDEX} {RANGE.format(low=2_000 + 500 * i)}"), range(8)))


class Beside:
    """The server with its chains; afterwards what the summary says."""

    def __init__(self, folder, cluster, table, index):
        self.file = folder.path / "summary.json"
        self.file.unlink(missing_ok=True)
        prefix = [CHAINIO, "run", *SPEC, *postgres.parameters(cluster, table, index), "--json", "--summary", self.file, "--"]
        self.server = postgres.Server(cluster, prefix, folder.environment)

    def __enter__(self):
        return self.server.__enter__()

    def __exit__(self, *raised):
        self.server.__exit__(*raised)
        self.summary = json.loads(self.file.read_text()) if self.file.exists() else None

    def chains(self, what):
        return sum(chain[what] for chain in self.summary["chains"])


def compare(folder, cluster, files, asked):
    what, settings, query, plan, index, ahead = asked
    print(what)
    with postgres.Server(cluster) as server:
        expect("  PostgreSQL goes by it", server.query(f"{settings} EXPLAIN {query.format(low=LOWS[0])}"), lambda text: plan in text and index in text)
        plain = answers(cluster, server, settings, query)
    expect("  it finds rows", [text.count("\n") for text in plain], lambda counts: min(counts) > 59 * EACH)
    for _ in runs.tries():
        beside = Beside(folder, cluster, files["orders"], files[index])
        with beside as server:
            expect("  and the same beside the chains", answers(cluster, server, settings, query) == plain, True)
        if not ahead or beside.chains("hits") > 200:
            break
    expect("  exit code, not plain", (beside.server.process.returncode, beside.summary["plain"]), (0, None))
    expect("  the chains ran on leaves of the index", beside.chains("runs"), lambda count: count > 0)
    expect("  none failed, nothing was refused", (beside.chains("failed"), [note for note in beside.summary["notes"] if "left alone" in note]), (0, []))
    expect("  the reads of the table were seen", beside.summary["classes"], lambda c: [each["name"] for each in c if each["reads"] > 0] == ["index", "heap"])
    if ahead:
        expect("  and hit what was read ahead", beside.summary["chains"], lambda _: beside.chains("hits") > 200)


def main():
    reason = postgres.missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    with runs.Folder() as folder:
        cluster = postgres.Cluster(folder.path, "shared_buffers = 1MB\n")
        with postgres.Server(cluster) as server:
            server.query(TABLES)
            files = {name: server.file_of(name) for name in ("orders", "by_customer", "by_both")}
        for asked in ASKED:
            compare(folder, cluster, files, asked)
        print("several clients at once, and changes")
        with postgres.Server(cluster) as server:
            plain = at_once(cluster, server)
        for _ in runs.tries():
            beside = Beside(folder, cluster, files["orders"], files["by_customer"])
            with beside as server:
                expect("  each has its answer", at_once(cluster, server) == plain, True)
            if beside.chains("hits") > 50:
                break
        expect("  processes were seen, and reads hit", beside.summary["processes"], lambda count: count >= 8 and beside.chains("hits") > 50)
        beside = Beside(folder, cluster, files["orders"], files["by_customer"])
        with beside as server:
            server.query(CHANGE)
            cluster.forget()
            changed = server.query(f"{BY_INDEX} {RANGE.format(low=100)}")
        with postgres.Server(cluster) as server:
            expect("  what it changed is there, and in its answer", (changed.count("!\n"), server.query(f"{BY_INDEX} {RANGE.format(low=100)}") == changed), (10 * EACH, True))
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
