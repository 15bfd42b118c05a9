"""PostgreSQL, unmodified: a range of an index whose rows lie scattered over their table, by an index scan and by its own bitmap scan."""
import contextlib
import functools
import os
import random
import re
import subprocess
import sys
import tempfile

from common import ROOT, Trouble, progress
from unmodified_common import (Sample, Section, beside, best_read_ahead, bring, folder, forget, goal_of_warm, hits_of, load, share_row, time_row, turned,
                               with_read_ahead)
from unmodified_nginx import ticks

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import postgres  # noqa: E402

ROWS, QUICK_ROWS, EACH = 8_000_000, 400_000, 20  # rows, and rows of a customer; the table takes two files
CUSTOMERS = 100  # of a query
ROUNDS, QUICK_ROUNDS = 9, 2
WARM_QUERIES = 10
TABLE = """
BEGIN;
CREATE TABLE orders(id int, customer int NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT i, (i::bigint * 2654435761 % 4294967296 % {rows} / {each})::int, lpad(i::text, 60 + i % 80, 'x') FROM generate_series(1, {rows}) i;
CREATE INDEX by_customer ON orders(customer);
COMMIT;
VACUUM (FREEZE, ANALYZE);
CHECKPOINT;
"""
QUERY = "SELECT count(*), sum(id), sum(length(note)) FROM orders WHERE customer BETWEEN {low} AND {high};"
INDEX_SCAN = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;"
BITMAP_SCAN = "SET enable_seqscan = off; SET enable_indexscan = off; SET max_parallel_workers_per_gather = 0; SET effective_io_concurrency = {depth};"
DEPTHS = (1, 16, 64, 256)  # 1 is the default until 17, and 16 then; which suits best is tried in each run


class Session:
    """A psql that is asked again and again; its times are those of its own timer, without its start and the server's fork."""

    def __init__(self, server):
        self.process = subprocess.Popen(server.client(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.ask("\\timing on")

    def ask(self, sql):
        self.process.stdin.write(f"{sql}\n\\echo all of it\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "all of it\n":
                return lines
            lines.append(line.rstrip())
        raise Trouble(f"psql ended: {lines}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class PostgreSql(Section):
    name = "postgresql"

    def __init__(self, quick):
        super().__init__(quick)
        self.count = QUICK_ROWS if quick else ROWS
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        self.summary = folder("unmodified") / "postgresql-summary.json"
        self.random = random.Random(11)

    def missing(self):
        return postgres.missing()

    def sources(self):
        path = folder("unmodified") / f"postgresql-{self.count}"
        if not (path / "made").exists():
            progress(f"PostgreSQL makes a table of {self.count:,} rows …")
            with postgres.Server(postgres.Cluster(path)) as server:
                server.query("DROP TABLE IF EXISTS orders")
                server.query(TABLE.format(rows=self.count, each=EACH))
                names = "\n".join(server.file_of(name) for name in ("orders", "by_customer"))
            os.sync()
            (path / "made").write_text(names)
        return path

    @contextlib.contextmanager
    def session(self, path, ours=False, settings=INDEX_SCAN):
        """A server of its own, so that nothing is in shared_buffers; its process and a client."""
        cluster = postgres.Cluster(path, sockets=self.sockets)
        table, index = (path / "made").read_text().split()
        prefix = beside("std/postgresql_shadow.chain", ["--follow", *postgres.parameters(cluster, table, index)], [], self.summary) if ours else []
        with postgres.Server(cluster, prefix) as server:
            session = Session(server)
            try:
                session.ask(f"{settings} {QUERY.format(low=-1, high=-1)}")  # it reads its catalogues, and the chains come up
                yield server, session
            finally:
                session.end()

    def ask(self, server, session, low):
        sql = QUERY.format(low=low, high=low + CUSTOMERS - 1)
        before = ticks(server.process.pid)
        answer, *times = session.ask(sql)
        after = ticks(server.process.pid)
        took = re.search(r"Time: ([0-9.]+) ms", " ".join(times))
        if not took:
            raise Trouble(f"psql printed no time: {answer} {times}")
        wanted = self.answers.setdefault(low, answer)
        self.check(answer == wanted, f"postgresql: {sql}: {answer} instead of {wanted}")
        return Sample(float(took[1]) / 1000, after[0] - before[0], after[1] - before[1])

    def some_range(self):
        return self.random.randrange(self.count // EACH - CUSTOMERS)

    def cold(self, path, low, **how):
        with self.session(path, **how) as (server, session):
            forget(*self.files(path))
            return self.ask(server, session, low)

    def files(self, path):
        return [file for file in (path / "data" / "base").glob("*/*") if file.stat().st_size > 1 << 20]

    def warm(self, path, lows, **how):
        """Ranges that nobody has asked for, of a file that is in memory: each page of the table is read."""
        with self.session(path, **how) as (server, session):
            samples = [self.ask(server, session, low) for low in lows]
        return Sample(*(sum(getattr(sample, what) for sample in samples) / len(samples) for what in ("seconds", "cpu", "switches")))

    def run(self, volume, path):
        with tempfile.TemporaryDirectory(prefix="chainio-bench-") as self.sockets:
            self.compare(volume, path)

    def compare(self, volume, path):
        self.answers = {}
        bitmap = {depth: BITMAP_SCAN.format(depth=depth) for depth in DEPTHS}
        tried = {} if self.quick else {depth: self.cold(path, self.some_range(), settings=bitmap[depth]).seconds for depth in DEPTHS}
        self.depth = min(tried, key=tried.get, default=64)
        self.kib = None if self.quick else best_read_ahead(path, lambda: self.cold(path, self.some_range()))
        contenders = {"cold": {}, "ours": {"ours": True}, "bitmap": {"settings": bitmap[self.depth]}, "bitmap by default": {"settings": bitmap[DEPTHS[0]]}}
        samples = {name: [] for name in (*contenders, "read-ahead", "warm", "warm ours", "warm again")}
        for turn in range(self.rounds):
            progress(f"postgresql, {volume}, round {turn + 1} of {self.rounds} …")
            low = self.some_range()
            runs = {name: functools.partial(self.cold, path, low, **how) for name, how in contenders.items()}
            if self.kib is not None:
                runs["read-ahead"] = lambda: with_read_ahead(path, self.kib, lambda: self.cold(path, low))
            for name in turned(runs, turn):
                samples[name].append(runs[name]())
                if turn == 0 and name == "ours":
                    self.notes.append(f"postgresql, {volume}: {load()}; {hits_of(self.summary)}")
            bring(self.files(path))
            lows = [self.some_range() for _ in range(WARM_QUERIES)]
            for name in turned(("warm", "warm ours", "warm again"), turn):
                samples[name].append(self.warm(path, lows, ours=name == "warm ours"))
        self.report(volume, samples)

    def report(self, volume, samples):
        what = f"postgresql {CUSTOMERS * EACH:,} rows of {self.count / 1e6:g} M by an index scan, {volume}"
        self.rows += [time_row(what, samples, "ours", "cold", "cold", goal=1.0),
                      share_row(f"{what}, share closed", samples, "ours", 1.0, "warm"),
                      time_row(what, samples, "ours", "bitmap", f"its own bitmap scan, effective_io_concurrency {self.depth}"),
                      time_row(what, samples, "ours", "bitmap by default", f"its own bitmap scan, effective_io_concurrency {DEPTHS[0]}"),
                      *([time_row(what, samples, "ours", "read-ahead", f"kernel read-ahead at its best: {self.kib} KiB")] if self.kib is not None else []),
                      time_row(f"{what}, warm", samples, "warm ours", "warm", "warm", goal=goal_of_warm(samples, "warm", "warm again")),
                      time_row(f"{what}, warm, A/A", samples, "warm again", "warm", "warm (both plain)")]
