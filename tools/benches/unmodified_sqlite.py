"""sqlite3, unmodified: a range of a secondary index, each row somewhere else in its table; single lookups; warm ones."""
import contextlib
import random
import re
import sqlite3
import tempfile

from common import Trouble, output_of, progress
from unmodified_common import (Sample, Section, beside, best_read_ahead, bring, folder, forget, goal_of_warm, hits_of, knowing, load, measured, program, share_row, time_row,
                               turned, with_read_ahead)

ROWS, QUICK_ROWS, FOUND = 6_000_000, 400_000, 2_182
ROUNDS, QUICK_ROUNDS = 9, 3
SQL = """
PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000;
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, note TEXT NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO orders SELECT i, i * 2654435761 % 4294967296 % {rows}, printf('%0*d', 60 + i % 80, i) FROM n;
CREATE INDEX by_customer ON orders(customer);
"""
QUERY = "SELECT count(*), sum(id), sum(length(note)) FROM orders WHERE customer BETWEEN {low} AND {high};"
# The timer counts in milliseconds, so that there are many of what is short.
LOOKUP = "SELECT count(*), sum(id), sum(length(note)) FROM orders WHERE id IN ({ids});"
LOOKUPS, WARM_QUERIES = 200, 20
# Four tables that have grown beside each other, of which one is read: no two of its pages lie side by side.
TABLES, GROWN, QUICK_GROWN = 4, 1_200_000, 200_000
SCAN = "SELECT count(*), sum(id), sum(length(note)) FROM grown1;"
GOALS = {"local": 4.0, "cloud": 6.0}  # times as quick as cold
PREAD = re.compile(r"pread64\(\d+<[^>]*\.db>, .*, (\d+), (\d+)\) = \d+")


class Sqlite(Section):
    name = "sqlite"

    def __init__(self, quick):
        super().__init__(quick)
        self.rows_in_file = QUICK_ROWS if quick else ROWS
        self.found = FOUND // 4 if quick else FOUND
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        self.summary = folder("unmodified") / "sqlite-summary.json"

    def missing(self):
        return None if program("sqlite3") and program("strace") else "sqlite3 or strace is missing"

    def sources(self):
        path = folder("unmodified/sqlite") / f"orders-{self.rows_in_file}.db"
        if not path.exists():
            progress(f"sqlite3 makes a table of {self.rows_in_file:,} rows …")
            half_made = path.with_suffix(".new")
            half_made.unlink(missing_ok=True)
            output_of(["sqlite3", half_made], input=SQL.format(rows=self.rows_in_file))
            output_of(["sync", "-f", half_made])
            half_made.rename(path)
        self.file, self.grown = path.name, self.grow(path.parent)
        return path.parent

    def grow(self, where):
        rows = QUICK_GROWN if self.quick else GROWN
        path = where / f"grown-{rows}.db"
        if not path.exists():
            progress(f"{TABLES} tables grow beside each other, {rows:,} rows …")
            half_made = path.with_suffix(".new")
            half_made.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(half_made)) as db:
                db.executescript("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" +
                                 "".join(f"CREATE TABLE grown{table}(id INTEGER PRIMARY KEY, note TEXT NOT NULL);" for table in range(TABLES)))
                for row in range(rows):
                    db.execute(f"INSERT INTO grown{row % TABLES}(note) VALUES(?)", ("x" * (60 + row % 80),))
                db.commit()
            output_of(["sync", "-f", half_made])
            half_made.rename(path)
        return path.name

    def queries(self, words, sql):
        """By the program's own timer, which leaves out its start and its end: the first query, and the mean of the others, or the first again."""
        with tempfile.TemporaryFile() as script:  # it times only what it reads from there
            script.write(f".timer on\n{sql}\n".encode())
            script.seek(0)
            text, cpu, switches = measured(words, stdin=script)
        times = re.findall(r"Run Time: real ([0-9.]+)", text)
        if not times:
            raise Trouble(f"sqlite3 printed no time: {text}")
        answer = " ".join(line for line in text.splitlines() if not line.startswith("Run Time"))
        wanted = self.answers.setdefault(sql, answer)
        self.check(answer == wanted, f"{sql}: {answer} instead of {wanted}")
        others = times[1:] or times
        return [Sample(sum(map(float, some)) / len(some) or 0.0005, cpu, switches, answer == wanted) for some in (times[:1], others)]

    def query(self, words, sql):
        return self.queries(words, sql)[0]

    def words(self, path):
        return ["sqlite3", "-readonly", path]

    def beside(self, path):
        return beside("std/sqlite_shadow.chain", ["-D", "pages=*.db"], self.words(path), self.summary)

    def ours(self, path, sql):
        return self.query(self.beside(path), sql)

    def recorded(self, path, sql):
        """What the program reads, as strace saw it in a run of its own."""
        log = folder("unmodified") / "strace.txt"
        output_of(["strace", "-y", "-o", log, "-e", "trace=pread64", *self.words(path), sql])
        found = [(int(offset), int(length)) for length, offset in PREAD.findall(log.read_text())]
        return f"{len(found)}\n" + "".join(f"{offset} {length}\n" for offset, length in found)

    def oracle(self, path, sql, ranges):
        """All reads, known beforehand, replayed as quickly as the volume takes them from the moment that the program starts."""
        with knowing("bench_replay", path, what=ranges) as begin:
            begin()
            return self.query(self.words(path), sql)

    def run(self, volume, path):
        self.answers = {}
        path = path / self.file
        rng = random.Random(7)
        warm = [f"{what}{who}" for what in ("own", "warm") for who in ("", " ours", " again")]
        firsts = [f"first {name}" for name in warm]
        lookups = ["lookup", "lookup ours", "lookup again"]
        samples = {name: [] for name in ("cold", "ours", "oracle", *warm, *firsts, *lookups, *(f"first {name}" for name in lookups), "read-ahead")}
        forgotten = lambda sql: (forget(path), self.query(self.words(path), sql))[1]
        low = rng.randrange(self.rows_in_file - self.found)
        self.kib = None if self.quick else best_read_ahead(path, lambda: forgotten(QUERY.format(low=low, high=low + self.found - 1)))
        for turn in range(self.rounds):
            progress(f"sqlite, {volume}, round {turn + 1} of {self.rounds} …")
            low = rng.randrange(self.rows_in_file - self.found)
            sql = QUERY.format(low=low, high=low + self.found - 1)
            ranges = self.recorded(path, sql)
            plain, ours = lambda: self.query(self.words(path), sql), lambda: self.ours(path, sql)
            runs = {"cold": plain, "ours": ours, "oracle": lambda: self.oracle(path, sql, ranges)}
            if self.kib is not None:
                runs["read-ahead"] = lambda: with_read_ahead(path, self.kib, plain)
            for name in turned(runs, turn):
                forget(path)
                samples[name].append(runs[name]())
                if turn == 0 and name == "ours":
                    self.notes.append(f"sqlite, {volume}: {ranges.splitlines()[0]} reads; {load()}; {hits_of(self.summary)}")
            sql = "\n".join([sql] * (1 + WARM_QUERIES))
            # First what the query reads is in memory, which is less than what its index pages name; then all is.
            for what in ("own", "warm"):
                if what == "warm":
                    bring([path])
                runs = {what: self.words(path), f"{what} ours": self.beside(path), f"{what} again": self.words(path)}
                for name in turned(runs, turn):
                    first, others = self.queries(runs[name], sql)
                    samples[f"first {name}"].append(first)
                    samples[name].append(others)
            # The server starts beside the first ones; the others are elsewhere.
            sql = "\n".join(LOOKUP.format(ids=",".join(str(rng.randrange(1, self.rows_in_file)) for _ in range(LOOKUPS))) for _ in range(2))
            runs = dict(zip(lookups, (self.words(path), self.beside(path), self.words(path))))
            for name in turned(runs, turn):
                forget(path)
                first, others = self.queries(runs[name], sql)
                samples[f"first {name}"].append(first)
                samples[name].append(others)
        samples |= self.scans(volume, path.with_name(self.grown))
        self.report(volume, samples)

    def scans(self, volume, path):
        """All of a table that has grown beside others: plain, beside its chains, and with the kernel's read-ahead that suits it best."""
        plain = lambda: self.query(self.words(path), SCAN)
        self.scan_kib = None if self.quick else best_read_ahead(path, lambda: (forget(path), plain())[1])
        runs = {"scan": plain, "scan ours": lambda: self.ours(path, SCAN)}
        if self.scan_kib is not None:
            runs["scan read-ahead"] = lambda: with_read_ahead(path, self.scan_kib, plain)
        samples = {name: [] for name in runs}
        for turn in range(self.rounds):
            progress(f"sqlite, {volume}, scan {turn + 1} of {self.rounds} …")
            for name in turned(runs, turn):
                forget(path)
                samples[name].append(runs[name]())
        return samples

    def report(self, volume, samples):
        what = f"sqlite {self.found:,} rows of {self.rows_in_file / 1e6:g} M, {volume}"
        self.rows += [time_row(what, samples, "ours", "cold", "cold", goal=GOALS[volume]),
                      time_row(f"{what}, the most there is", samples, "oracle", "cold", "cold (ours is the oracle)"),
                      share_row(f"{what}, share closed", samples, "ours", "oracle", "the oracle's", 0.9),
                      *([time_row(what, samples, "ours", "read-ahead", f"kernel read-ahead at its best: {self.kib} KiB")] if self.kib is not None else []),
                      time_row(f"{what}, warm", samples, "warm ours", "warm", "warm", goal=goal_of_warm(samples, "warm", "warm again"), queries=1 + WARM_QUERIES),
                      time_row(f"{what}, warm, A/A", samples, "warm again", "warm", "warm (both plain)", queries=1 + WARM_QUERIES),
                      time_row(f"{what}, warm, the first query", samples, "first warm ours", "first warm", "warm", queries=1 + WARM_QUERIES),
                      time_row(f"{what}, its own rows warm", samples, "own ours", "own", "warm", queries=1 + WARM_QUERIES),
                      time_row(f"{what}, its own rows warm, A/A", samples, "own again", "own", "warm (both plain)", queries=1 + WARM_QUERIES),
                      time_row(f"sqlite {LOOKUPS} cold lookups one by one, {volume}", samples, "lookup ours", "lookup", "cold",
                               goal=goal_of_warm(samples, "lookup", "lookup again"), queries=2),
                      time_row(f"sqlite {LOOKUPS} cold lookups one by one, {volume}, A/A", samples, "lookup again", "lookup", "cold (both plain)", queries=2),
                      time_row(f"sqlite {LOOKUPS} cold lookups one by one, {volume}, the first, while the server starts", samples, "first lookup ours",
                               "first lookup", "cold", queries=2),
                      time_row(f"sqlite, a table that has grown beside others, {volume}", samples, "scan ours", "scan", "cold"),
                      *([time_row(f"sqlite, a table that has grown beside others, {volume}", samples, "scan ours", "scan read-ahead",
                                  f"kernel read-ahead at its best: {self.scan_kib} KiB")] if self.scan_kib is not None else [])]
