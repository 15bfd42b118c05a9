#!/usr/bin/env python3
"""examples/bpf-kv on stores of 1 to 8 levels, against a program that makes one pread after the other and against what was written."""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import ROOT, Run, finish  # noqa: E402

sys.path.insert(0, str(ROOT / "examples" / "bpf-kv"))
import make_store  # noqa: E402
import plain as program  # noqa: E402

SEED = 20267
UNUSED = (1 << 64) - 1
SIZES = {1: 31, 2: 961, 3: 5000, 4: 20000, 5: 3000, 6: 1000, 7: 500, 8: 2000}  # keys by the number of levels
RANGES = 22


def ranges_of(keys, rng):
    found = [(0, UNUSED - 1), (keys[-1] + 1, UNUSED - 1), (keys[0], keys[0]), (5, 4)]
    while len(found) < RANGES:
        low = rng.randrange(len(keys))
        high = min(len(keys) - 1, low + rng.choice((0, 1, 15, 16, 17, 30, 31, 32, 200)))
        found.append((keys[low] + rng.randrange(2), max(0, keys[high] + rng.randrange(-1, 2))))
    return found


def check_aggregates(run, plain, files, label, ranges, wanted):
    answers = run.call("aggregate", files, {}, [{"low": low, "high": high} for low, high in ranges], label=label)
    for (low, high), answer in zip(ranges, answers):
        numbers = [number for key, number in wanted.items() if low <= key <= high]
        sums = len(numbers), sum(numbers) & UNUSED, min(numbers, default=UNUSED), max(numbers, default=0)
        run.same(f"{label}: the plain program, {low} to {high}", plain.aggregate(low, high), sums)
        run.same(f"{label}: aggregate {low} to {high}", (answer.outcome, answer.value), ("ok", struct.pack("<4Q", *sums)))
        if low <= high:  # the index, each leaf once, each value once
            plain.reads = 0
            plain.aggregate(low, high)
            run.same(f"{label}: reads of aggregate {low} to {high}", answer.hops, plain.reads)


def check_scans(run, plain, files, label, ranges):
    asked = [{"low": low, "high": high, "most": most} for (low, high), most in zip(ranges, (910, 1, 32, 0) * RANGES)]
    for key, answer in zip(asked, run.call("scan", files, {}, asked, label=label)):
        rows = b"".join(struct.pack("<Q", each) + value for each, value in plain.scan(*key.values()))
        run.same(f"{label}: scan {key}", (answer.outcome, answer.value), ("ok", rows))


def check_lookups(run, plain, files, label, layers, keys, rng):
    asked = rng.sample(keys, min(len(keys), 40)) + [keys[0], keys[-1], keys[-1] + 1]
    for key, answer in zip(asked, run.call("lookup", files, {}, [{"key": key} for key in asked], label=label)):
        value = plain.get(key)
        run.same(f"{label}: key {key}", (answer.outcome, answer.value), ("ok", value) if value else ("not_found", None))
        if value:
            run.same(f"{label}: reads for key {key}", answer.hops, layers + 1)


def main():
    run, rng = Run("examples/bpf-kv/app.chain"), random.Random(SEED)
    path = run.folder / "first.bpfkv"
    make_store.write(path, 1, 31)
    for chain in ("range_keys", "range_values"):  # the library's, which std_btree.py checks; here they only have to be there
        run.same(chain, run.call(chain, {"tree": path}, {}, [{"low": 0, "high": 30}])[0].outcome, "ok")
    for layers, count in SIZES.items():
        label, path = f"{layers} levels", run.folder / f"levels{layers}.bpfkv"
        wanted = make_store.write(path, layers, count, None if layers == 2 else SEED + layers)
        keys = list(wanted)
        with program.Store(path) as plain:
            ranges = ranges_of(keys, rng)
            check_aggregates(run, plain, {"tree": path}, label, ranges, wanted)
            check_scans(run, plain, {"tree": path}, label, ranges)
            check_lookups(run, plain, {"tree": path}, label, layers, keys, rng)
    finish(run)


if __name__ == "__main__":
    main()
