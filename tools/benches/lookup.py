"""random lookups by rowid in a SQLite file: the chain, a pread loop, a hand-written io_uring loop, sqlite3, and fio as limit

All contenders open the file with O_DIRECT and look the same random rows up, so that each does the same device reads; every
value is compared with what sqlite3 says. Contenders that are compared run right after one another, in an order drawn anew each
time, since who reads a page first may find it in no cache of the disk, and who comes next does; the table shows the medians of
all rounds and the median of the rounds' ratios, since a shared disk drifts by more in a minute than the contenders differ. In
the rows with a cache everyone may keep the same number of bytes: the upper two levels of the tree, and sqlite3 in its own page
cache. All run on one processor, the one on which the pread loop is fastest: where the disk interrupts another processor, a read
alone takes up to half as long again, and which of the two a process wakes up on is the scheduler's whim.
"""
import json
import os
import random
import statistics

from common import RELEASE, ROOT, WORK, Result, build, less_is_better, more_is_better, output_of, progress, rounds_of
from database import database, facts

DEPTHS = (1, 16, 64, 256)
CACHE_BYTES, CACHE_LEVELS = 512 * 1024, 2  # as in tests/bench/lookup-cached.chain
SPECS = ROOT / "tests" / "bench"


class Bench:
    def __init__(self, quick):
        build("chainc", "bench_lookup")
        self.db = database()
        self.page_size = facts(self.db)[1]
        self.specs = {cached: self.compile(cached) for cached in (False, True)}
        self.rounds = rounds_of(5 if quick else 21)
        self.seconds = 0.1 if quick else 0.4
        self.runs = {}  # (contender, depth, cached) -> list of the rounds' results
        self.processor, once = self.fastest_processor()
        # Each run is to last about as long, on any disk.
        self.slow = max(300, int(300 / once * self.seconds))

    def fastest_processor(self):
        """The processor on which 300 lookups by pread are fastest (median of 5 runs, by turns), and their seconds."""
        runs = {processor: [] for processor in sorted(os.sched_getaffinity(0))}
        for turn in range(5):
            for self.processor, seconds in runs.items():
                seconds.append(self.run_once("pread", 1, False, 300, turn)["seconds"])
        return min(((processor, statistics.median(seconds)) for processor, seconds in runs.items()), key=lambda run: run[1])

    def pinned(self, command):
        return ["taskset", "--cpu-list", self.processor, *command]

    def compile(self, cached):
        name = "lookup-cached" if cached else "lookup"
        out = WORK / f"{name}.bpf.o"
        output_of([RELEASE / "bin" / "chainc", SPECS / f"{name}.chain", "-I", ROOT / "stdlib-chains", "-o", out])
        return out

    def run_once(self, contender, depth, cached, lookups, seed):
        command = [RELEASE / "bin" / "bench_lookup", contender, "--db", self.db, "--depth", depth, "--lookups", lookups,
                   "--seed", seed, "--spec", self.specs[cached]]
        if cached:
            command += ["--cache-bytes", CACHE_BYTES, "--cache-levels", CACHE_LEVELS]
        return json.loads(output_of(self.pinned(command)))

    def run_fio(self, depth):
        command = ["fio", "--name=limit", f"--filename={self.db}", "--readonly", "--direct=1", "--rw=randread",
                   f"--bs={self.page_size}", "--ioengine=io_uring", f"--iodepth={depth}", "--fixedbufs=1",
                   "--registerfiles=1", "--nonvectored=1", f"--runtime={round(1000 * self.seconds)}ms", "--time_based",
                   "--norandommap", "--randrepeat=0", "--output-format=json"]
        read = json.loads(output_of(self.pinned(command), cwd=WORK))["jobs"][0]["read"]
        return {"reads": read["total_ios"], "seconds": read["total_ios"] / read["iops"], "lookups": 0, "wrong": 0, "device_pages": 0}

    def lookups_for(self, depth, cached):
        """More in flight, more a second: 4 to 6 times on most disks; a cache saves two of three reads."""
        return self.slow * (1 if depth == 1 else 4) * (2 if cached else 1)

    def groups(self):
        """Who runs next to whom: (contender, depth, cached)."""
        at_once = [("chain", 1, False), ("pread", 1, False), ("uring", 1, False), ("sqlite", 1, False), ("fio", 1, False)]
        deeper = [[(name, depth, False) for name in ("uring", "chain", "fio")] for depth in DEPTHS[1:]]
        cached = [(name, 1, True) for name in ("chain", "pread", "uring", "sqlite")] + [(name, 64, True) for name in ("uring", "chain")]
        # The rows of one in flight have the narrowest goal, so they get three times as many rounds.
        return [at_once, *deeper, at_once, cached, at_once]

    def run_rounds(self):
        """Each round begins with another group, and shuffles each."""
        groups, dice = self.groups(), random.Random(1)
        for turn in range(self.rounds):
            start = turn % len(groups)
            for group in groups[start:] + groups[:start]:
                for name, depth, cached in dice.sample(group, len(group)):
                    progress(f"round {turn + 1} of {self.rounds}: {name}, {depth} in flight …")
                    runs = self.runs.setdefault((name, depth, cached), [])
                    if name == "fio":
                        runs.append(self.run_fio(depth))
                    else:
                        runs.append(self.run_once(name, depth, cached, self.lookups_for(depth, cached), len(runs) + 1))
        progress("")

    def rates(self, name, depth, cached=False, what="lookups"):
        return [run[what] / run["seconds"] for run in self.runs[name, depth, cached]]

    def reads_a_lookup(self, name, depth, cached=False, what="reads"):
        return [run[what] / run["lookups"] for run in self.runs[name, depth, cached]]

    def rows(self):
        out = []
        fio = {depth: statistics.median(self.rates("fio", depth, what="reads")) for depth in DEPTHS}
        for depth in DEPTHS:
            flight = f"{depth} in flight"
            ours = self.rates("chain", depth)
            goal = 0.95 if depth == 64 else None
            out.append(more_is_better(flight, ours, self.rates("uring", depth), "hand-written io_uring loop", "lookups/s", goal))
            of_fio = f"{flight} (fio itself: {fio[depth] / fio[1]:.1f}x of 1 in flight)"
            out.append(more_is_better(of_fio, self.rates("chain", depth, what="reads"), self.rates("fio", depth, what="reads"),
                                      "fio, same depth", "reads/s", 0.9 if depth == 64 else None))
            pread_goal = 0.97 if depth == 1 else None
            out.append(more_is_better(flight, ours, self.rates("pread", 1), "pread loop", "lookups/s", pread_goal))
            out.append(more_is_better(flight, ours, self.rates("sqlite", 1), "sqlite3's library", "lookups/s"))
        for depth in (1, 64):
            flight = f"{depth} in flight, with a cache"
            ours = self.rates("chain", depth, True)
            out.append(more_is_better(flight, ours, self.rates("uring", depth, True), "hand-written io_uring loop", "lookups/s"))
            out.append(more_is_better(flight, ours, self.rates("pread", 1, True), "pread loop", "lookups/s"))
            out.append(more_is_better(flight, ours, self.rates("sqlite", 1, True), "sqlite3's library", "lookups/s"))
        names = {"uring": "hand-written io_uring loop", "pread": "pread loop", "sqlite": "sqlite3's library"}
        for cached in (False, True):
            for name, peer in names.items():
                what = "device reads a lookup" + (", with a cache" if cached else "")
                out.append(less_is_better(what, self.reads_a_lookup("chain", 1, cached, "device_pages"),
                                          self.reads_a_lookup(name, 1, cached, "device_pages"), peer, "reads", None if cached else 1.0))
        for row in out[-6:]:
            row.ratio = round(row.ratio, 2)  # the header and the schema are read once a run
        return out

    def same_reads(self):
        """Whether all contenders asked for the same blocks in each round without a cache."""
        kept = {}
        for (name, depth, cached), runs in self.runs.items():
            if name != "fio" and not cached:
                for turn, run in enumerate(runs):
                    kept.setdefault((turn, run["lookups"]), set()).add(run["reads"])
        return all(len(reads) == 1 for reads in kept.values())


def run(quick):
    bench = Bench(quick)
    bench.run_rounds()
    root, page_size, rows, pages = facts(bench.db)
    all_runs = [run for runs in bench.runs.values() for run in runs]
    wrong, lookups = sum(run["wrong"] for run in all_runs), sum(run["lookups"] for run in all_runs)
    same = bench.same_reads()
    notes = [f"all on processor {bench.processor}, where pread was fastest; {rows:,} rows, {pages:,} pages of {page_size} bytes, root {root}; O_DIRECT, cold, medians of {bench.rounds} rounds",
             f"{lookups:,} lookups compared, {wrong} wrong; reads asked for: {'the same by all' if same else 'NOT THE SAME BY ALL'}",
             f"with a cache: {CACHE_BYTES // 1024} KiB for everyone, the upper {CACHE_LEVELS} levels (sqlite3: its own page cache)", ""]
    return Result("lookup", wrong == 0 and same, bench.rows(), notes)
