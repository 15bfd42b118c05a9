"""RocksDB's db_bench, unmodified: gets from tables whose filters and indexes are not in memory."""
import functools
import re
import statistics

from common import Trouble, progress
from unmodified_common import (Sample, Section, beside, best_read_ahead, bring, folder, forget, goal_of_warm, hits_of, load, measured, program, share_row, time_row,
                               turned, with_read_ahead)

KEYS, QUICK_KEYS, GETS, QUICK_GETS = 4_000_000, 400_000, 400, 100
ROUNDS, QUICK_ROUNDS = 7, 1
WARM_TURNS = 10  # of as many gets each, after the first, in which the chains come up
# Filters and indexes are blocks like others, in a cache too small for them; nothing is read ahead by RocksDB or the kernel.
COMMON = ["--key_size=16", "--bloom_bits=10", "--cache_index_and_filter_blocks=1", "--cache_size=65536", "--compression_type=none",
          "--advise_random_on_open=1", "--open_files=-1", "--disable_auto_compactions=1", "--histogram=0"]
# Buffered: short tables, for RocksDB reads the end of each into the page cache when it opens it. Direct: a get reads 194 KiB of filter,
# 344 KiB of index and 4 KiB of data.
BUFFERED, DIRECT = (16 << 20, 200, 1), (64 << 20, 400, 2)  # bytes of a table, of a value, and by how much there are fewer keys
# What RocksDB has itself. Its async_io is about iterators and MultiGet, so that gets are not expected to win by it.
ASYNC = "--async_io=1"
READ_DIRECTLY = "--use_direct_reads=1"
ITS_CACHE = f"--cache_size={64 << 20}"  # as much as we serve from by default
LITTLE = "1MiB"  # of which hardly an index is left when it is wanted again
ADVISED = "--advise_random_on_open=0"  # with which the kernel reads ahead at all


class RocksDb(Section):
    name = "rocksdb"

    def __init__(self, quick):
        super().__init__(quick)
        self.keys = QUICK_KEYS if quick else KEYS
        self.gets = QUICK_GETS if quick else GETS
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        self.summary = folder("unmodified") / "rocksdb-summary.json"

    def missing(self):
        return None if program("db_bench") else "db_bench (package rocksdb-tools) is not installed"

    def sources(self):
        path = folder("unmodified") / f"rocksdb-{self.keys}"
        for form in (BUFFERED, DIRECT):
            table, value, fewer = form
            made = self.database(path, form)
            if (made / "CURRENT").exists():
                continue
            made.mkdir(parents=True, exist_ok=True)
            keys = self.keys // fewer
            progress(f"db_bench makes {keys:,} keys …")
            measured(["db_bench", "--benchmarks=fillseq,flush", f"--db={made}", f"--num={keys}", f"--value_size={value}", "--disable_wal=1",
                      f"--write_buffer_size={table}", f"--target_file_size_base={table}", *COMMON])
            measured(["sync", "-f", made])
        return path

    def database(self, path, form):
        return path / f"tables-of-{form[0] >> 20}-mib"

    def words(self, path, form, seed, *more, turns=1):
        _, value, fewer = form
        return ["db_bench", f"--benchmarks={','.join(['readrandom'] * turns)}", "--use_existing_db=1", "--readonly=1", f"--db={self.database(path, form)}", f"--num={self.keys // fewer}",
                f"--value_size={value}", f"--reads={self.gets}", f"--seed={seed}", *COMMON, *more]

    def turns(self, words):
        """What a get took in each turn, and what all of them cost."""
        text, cpu, switches = measured(words)
        found = re.findall(r"readrandom\s*:\s*([0-9.]+) micros/op.*\((\d+) of (\d+) found\)", text)
        if not found:
            raise Trouble(f"db_bench printed no times: {text}")
        self.check(all(got == asked == str(self.gets) for _, got, asked in found), f"rocksdb: {text}")
        return [float(time) for time, _, _ in found], cpu / len(found), switches / len(found)

    def get(self, words):
        times, cpu, switches = self.turns(words)
        return Sample(times[0], cpu, switches)

    def warm(self, words):
        """The first turn, and the others."""
        times, cpu, switches = self.turns(words)
        return Sample(times[0], cpu, switches), Sample(statistics.median(times[1:]), cpu, switches)

    def run(self, volume, path):
        self.run_direct(volume, path)
        self.run_buffered(volume, path)

    def run_direct(self, volume, path):
        """Nothing of it is ever in the page cache, so that there is no cold and no warm."""
        forms = {"plain": None, "ours": [], "ours, little": ["--served", LITTLE], "async": [ASYNC], "cache": [ITS_CACHE], "again": None}
        samples = {name: [] for name in forms}
        for turn in range(self.rounds):
            progress(f"rocksdb, direct reads, {volume}, round {turn + 1} of {self.rounds} …")
            plain = self.words(path, DIRECT, turn + 1, READ_DIRECTLY)
            for name in list(forms) if turn % 2 == 0 else list(forms)[::-1]:
                options = forms[name] or []
                ours = name.startswith("ours")
                samples[name].append(self.get(beside("std/rocksdb_shadow.chain", options, plain, self.summary) if ours else [*plain, *options]))
                if name == "ours" and turn == 0:
                    self.notes.append(f"rocksdb, direct reads, {volume}: {load()}; {hits_of(self.summary)}")
        what = f"rocksdb gets, direct reads, {volume}"
        self.rows += [time_row(what, samples, "ours", "plain", "plain", "us", 1.43 if volume == "cloud" else 1.25, self.gets),
                      time_row(what, samples, "ours", "async", "its own async_io", "us", None, self.gets),
                      time_row(what, samples, "ours", "cache", "its own cache of 64 MiB", "us", None, self.gets),
                      time_row(f"{what}, --served {LITTLE}: overlap alone", samples, "ours, little", "plain", "plain", "us", None, self.gets),
                      time_row(f"{what}, A/A", samples, "again", "plain", "plain (both plain)", "us", None, self.gets)]

    def run_buffered(self, volume, path):
        peers = {"async_io": [ASYNC]}
        samples = {name: [] for name in ("cold", "cold again", "ours", "read-ahead", *peers)}
        warm = {name: [] for name in ("warm", "ours", "again")}
        starts = {name: [] for name in warm}
        tables = sorted(self.database(path, BUFFERED).glob("*.sst"))
        forgotten = lambda words: (forget(*tables), self.get(words))[1]
        kib = None if self.quick else best_read_ahead(path, lambda: forgotten(self.words(path, BUFFERED, 0, ADVISED)))
        for turn in range(self.rounds):
            progress(f"rocksdb, {volume}, round {turn + 1} of {self.rounds} …")
            plain = self.words(path, BUFFERED, turn + 1)
            ours = beside("std/rocksdb_shadow.chain", [], plain, self.summary)
            runs = {"cold": plain, "ours": ours, "cold again": plain, **{name: self.words(path, BUFFERED, turn + 1, *more) for name, more in peers.items()}}
            if kib is not None:
                runs["read-ahead"] = self.words(path, BUFFERED, turn + 1, ADVISED)
            for name in turned(runs, turn):
                samples[name].append(with_read_ahead(path, kib if name == "read-ahead" else None, functools.partial(forgotten, runs[name])))
                if name == "ours" and turn == 0:
                    self.notes.append(f"rocksdb, {volume}: {len(tables)} tables; {load()}; {hits_of(self.summary)}")
            bring(tables)
            many = self.words(path, BUFFERED, turn + 1, turns=1 + WARM_TURNS)
            runs = {"warm": many, "ours": beside("std/rocksdb_shadow.chain", [], many, self.summary), "again": many}
            for name in turned(runs, turn):
                first, others = self.warm(runs[name])
                starts[name].append(first)
                warm[name].append(others)
        samples["warm"] = warm["warm"]
        what = f"rocksdb gets, buffered, {volume}"
        self.rows += [time_row(what, samples, "ours", "cold", "cold", "us", None, self.gets),
                      share_row(f"{what}, share closed", samples, "ours", 0.35, "overlap wins at most", queries=self.gets),
                      *(time_row(what, samples, "ours", name, f"its own {name}", "us", None, self.gets) for name in peers),
                      *([time_row(what, samples, "ours", "read-ahead", f"kernel read-ahead at its best: {kib} KiB", "us", None, self.gets)] if kib is not None else []),
                      time_row(f"{what}, A/A", samples, "cold again", "cold", "cold (both plain)", "us", None, self.gets),
                      time_row(f"{what}, warm", warm, "ours", "warm", "warm", "us", goal_of_warm(warm, "warm", "again"), self.gets),
                      time_row(f"{what}, warm, A/A", warm, "again", "warm", "warm (both plain)", "us", None, self.gets),
                      time_row(f"{what}, warm, the first {self.gets}", starts, "ours", "warm", "warm", "us", None, self.gets)]
