"""clickhouse-server, unmodified: TPC-H's sixth query, the lengths of all comments and a point query, on lineitem."""
import collections
import contextlib
import functools
import os
import re
import subprocess
import sys
import time

from common import ROOT, Trouble, progress
from unmodified_common import (Sample, Section, beside, best_read_ahead, bring, folder, forget, goal_of_warm, hits_of, knowing, load, median, program, share_row, time_row,
                               turned, with_read_ahead)
from unmodified_nginx import ticks

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import clickhouse  # noqa: E402

ROWS, QUICK_ROWS = 30_000_000, 1_000_000  # scale factor 5
ROUNDS, QUICK_ROUNDS = 7, 1
WARM_TIMES, WARM_SECONDS = 6, 1.5  # of each query: at least so often, and so long
PIECES = 10
TABLE = """CREATE TABLE lineitem (l_orderkey UInt64, l_quantity Float64, l_extendedprice Float64, l_discount Float64, l_shipdate Date, l_comment String)
ENGINE = MergeTree(l_shipdate, l_orderkey, 8192)"""
# Values of TPC-H's ranges; its own generator is not packaged.
FILL = """INSERT INTO lineitem SELECT number, 1 + intHash32(number) % 50, 900 + intHash64(number) % 104050 / 10., intHash32(number + 7) % 11 / 100.,
toDate('1992-01-02') + intHash64(number + 3) % 2526, substring(concat(hex(intHash64(number)), hex(intHash64(number + 1)), hex(intHash64(number + 2))), 1,
10 + intHash32(number + 5) % 34) FROM system.numbers LIMIT {begin}, {count}"""
QUERIES = {
    "Q6": """SELECT round(sum(l_extendedprice * l_discount), 2) FROM lineitem WHERE l_shipdate >= toDate('1994-01-01') AND l_shipdate < toDate('1995-01-01')
             AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "sum(length(l_comment))": "SELECT sum(length(l_comment)) FROM lineitem",
    "a point query": "SELECT count(), sum(length(l_comment)) FROM lineitem WHERE l_orderkey = {key}",
}
FIRST = "a point query"
SCANS = ("Q6", "sum(length(l_comment))")
# Of the oracle's reads: how long they are (0: whole files), and how many of them are under way. FUSE begins no more than it reads ahead.
ORACLE = {"local": (0, 8), "cloud": (128 << 10, 64)}
OPENED = re.compile(r'openat\(AT_FDCWD, "([^"]+\.(?:bin|mrk2?))", .*\) = \d')


def forget_columns(data):
    """Parts come and go meanwhile: the server merges them and removes what it has merged."""
    for folder_path, _, names in os.walk(data):
        for name in names:
            if name.endswith((".bin", ".mrk", ".mrk2")):
                with contextlib.suppress(FileNotFoundError):
                    forget(os.path.join(folder_path, name))


class ClickHouse(Section):
    name = "clickhouse"

    def __init__(self, quick):
        super().__init__(quick)
        self.count = QUICK_ROWS if quick else ROWS
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        self.summary = folder("unmodified") / "clickhouse-summary.json"
        self.answers = {}

    def missing(self):
        return None if clickhouse.program() and program("strace") else "clickhouse-server or strace is missing"

    def sources(self):
        path = folder("unmodified") / f"clickhouse-{self.count}"
        if not (path / "made").exists():
            progress(f"clickhouse-server makes {self.count:,} rows …")
            with clickhouse.Server(path) as server:
                server.query("DROP TABLE IF EXISTS lineitem")
                server.query(TABLE)
                for piece in range(PIECES):
                    server.query(FILL.format(begin=piece * self.count // PIECES, count=self.count // PIECES))
                server.query("OPTIMIZE TABLE lineitem")
                server.settle("lineitem")
            os.sync()
            (path / "made").touch()
        return path

    def ask(self, server, query, turn):
        text = QUERIES[query].format(key=12345 + 1000 * turn)
        before = ticks(server.process.pid)
        begin = time.monotonic()
        answer = server.query(text)
        took = time.monotonic() - begin
        after = ticks(server.process.pid)
        wanted = self.answers.setdefault(text, answer)
        self.check(answer == wanted, f"clickhouse: {text}: {answer} instead of {wanted}")
        return Sample(took, after[0] - before[0], after[1] - before[1])

    def cold(self, server, path, query, turn, begins=lambda: None):
        forget_columns(path / "data" / "data")
        server.query("SYSTEM DROP MARK CACHE")
        begins()
        return self.ask(server, query, turn)

    def warm(self, server, query, turn):
        """What is usual for this server. Queries of some milliseconds scatter by more than what is looked for."""
        times, end = [], time.monotonic() + WARM_SECONDS
        while len(times) < WARM_TIMES or time.monotonic() < end:
            times.append(self.ask(server, query, turn))
        return Sample(*(median(times, what) for what in ("seconds", "cpu", "switches")))

    def best_read_aheads(self, path):
        """Of each query; of none where it cannot be set."""
        with clickhouse.Server(path) as server:
            for query in QUERIES:
                self.ask(server, query, 0)
            best = {query: best_read_ahead(path, functools.partial(self.cold, server, path, query, 0)) for query in QUERIES}
        return {} if None in best.values() else best

    def with_read_aheads(self, path, samples, turn):
        with clickhouse.Server(path) as server:
            for query in QUERIES:
                self.ask(server, query, turn)
            for query, found in samples.items():
                found["read-ahead"].append(with_read_ahead(path, self.kib[query], functools.partial(self.cold, server, path, query, turn)))

    def all_queries(self, path, prefix, who, samples, turn):
        """The first query of a server is timed apart: the chains come up beside it. All is in the page cache then."""
        bring([file for end in ("bin", "mrk") for file in (path / "data" / "data").rglob(f"*.{end}")])
        with clickhouse.Server(path, prefix) as server:
            samples[FIRST][f"{who}: first"].append(self.ask(server, FIRST, turn))
            for query in QUERIES:
                self.ask(server, query, turn)
            for query, found in samples.items():
                found[f"{who}: cold"].append(self.cold(server, path, query, turn))
                found[f"{who}: warm"].append(self.warm(server, query, turn))

    def recorded(self, path, query):
        """The files that a query reads, in the order in which it opens them, as strace saw it in a run of its own."""
        log = folder("unmodified") / "strace.txt"
        with clickhouse.Server(path) as server:
            self.ask(server, query, 0)
            server.query("SYSTEM DROP MARK CACHE")
            command = ["strace", "-f", "-s", "1000", "-e", "trace=openat", "-o", log, "-p", server.process.pid]
            with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as tracer:
                if "attached" not in tracer.stderr.readline():
                    raise Trouble("strace may not look at clickhouse-server")
                self.ask(server, query, 0)
                tracer.terminate()
                tracer.stderr.read()
        return list(dict.fromkeys(OPENED.findall(log.read_text())))

    def oracle(self, path, samples, turn, volume):
        """All files of a scan, known beforehand, brought into memory ahead of it from the moment that it is asked for."""
        with clickhouse.Server(path) as server:
            for query in QUERIES:
                self.ask(server, query, turn)
            for query in SCANS:
                with knowing("bench_ahead", *ORACLE[volume], what="\n".join(self.files[query]) + "\n\n") as begin:
                    samples[query]["oracle"].append(self.cold(server, path, query, turn, begin))

    def run(self, volume, path):
        if self.quick and volume == "local":
            self.notes.append("clickhouse: a quick run measures it on the cloud volume only")
            return
        samples = {query: collections.defaultdict(list) for query in QUERIES}
        self.kib = {} if self.quick else self.best_read_aheads(path)
        self.files = {query: self.recorded(path, query) for query in SCANS}
        for turn in range(self.rounds):
            progress(f"clickhouse, {volume}, round {turn + 1} of {self.rounds} …")
            # A server of its own for plain against plain: two that are started alike differ by more than one does from itself.
            runs = {"plain": [], "ours": beside("std/clickhouse_shadow.chain", [], [], self.summary), "again": [], "oracle": [],
                    **({"read-ahead": []} if self.kib else {})}
            for who in turned(runs, turn):
                if who == "read-ahead":
                    self.with_read_aheads(path, samples, turn)
                elif who == "oracle":
                    self.oracle(path, samples, turn, volume)
                else:
                    self.all_queries(path, runs[who], who, samples, turn)
        self.notes.append(f"clickhouse, {volume}: {load()}; {hits_of(self.summary)}")
        for query, found in samples.items():
            self.rows += self.rows_of(query, volume, found)

    def rows_of(self, query, volume, found):
        what = f"clickhouse {query}, {volume}"
        goals = {"Q6": 1.30, "sum(length(l_comment))": 1.37} if volume == "cloud" else {}
        rows = [time_row(what, found, "ours: cold", "plain: cold", "cold", goal=goals.get(query, 1.0)),
                time_row(f"{what}, A/A", found, "again: cold", "plain: cold", "cold (both plain)")]
        if self.kib:
            rows.append(time_row(what, found, "ours: cold", "read-ahead", f"kernel read-ahead at its best: {self.kib[query]} KiB"))
        if query in SCANS:
            rows.append(time_row(f"{what}, the most there is", found, "oracle", "plain: cold", "cold (ours is the oracle)"))
            ends = {"cold": found["plain: cold"], "warm": found["plain: warm"], "ours": found["ours: cold"], "oracle": found["oracle"]}
            if volume == "local":
                rows.append(share_row(f"{what}, share closed", ends, "ours", 0.5, "wanted", 1.0))
            rows.append(share_row(f"{what}, share closed", ends, "ours", "oracle", "the oracle's"))
        rows += [time_row(f"{what}, warm", found, "ours: warm", "plain: warm", "warm", goal=goal_of_warm(found, "plain: warm", "again: warm")),
                 time_row(f"{what}, warm, A/A", found, "again: warm", "plain: warm", "warm (both plain)")]
        if query == FIRST:
            rows.append(time_row(f"{what}, a server's first", found, "ours: first", "plain: first", "first"))
        return rows
