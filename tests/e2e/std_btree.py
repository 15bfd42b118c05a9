#!/usr/bin/env python3
"""std/btree.chain on trees of 1 to 8 levels in BPF-KV's layout, against a reader that shares nothing with the chains."""
import bisect
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import Run, finish  # noqa: E402

SEED = 20261
FANOUT = 31
UNUSED = (1 << 64) - 1
ON_DISK = 1 << 63  # BPF-KV marks addresses of the disk so


def node_bytes(following, leaf, keys, pointers):
    fill = FANOUT - len(keys)
    return struct.pack("<QQ31Q31Q", following, leaf, *keys, *[UNUSED] * fill, *[p | ON_DISK for p in pointers], *[0] * fill)


def build(path, keys, values, depth, rng):
    """Levels are written from the root down, values behind them in random order, as a heap."""
    count = len(keys)
    order = list(range(count))
    rng.shuffle(order)
    groups = [[]]  # of the leaves: some full, some with room
    for key in range(count):
        leaves_needed = len(groups) + 1 + (count - key) // FANOUT
        if len(groups[-1]) == FANOUT or (len(groups[-1]) > 3 and rng.random() < 0.03 and leaves_needed < FANOUT ** (depth - 1)):
            groups.append([])
        groups[-1].append(key)
    levels = [[(keys[g[0]] if g else 0, g) for g in groups]]
    while len(levels) < depth:
        below = levels[0]
        width = max(1, min(FANOUT, len(below)))
        levels.insert(0, [(below[i][0], list(range(i, min(i + width, len(below))))) for i in range(0, len(below), width)])
    assert len(levels[0]) == 1, "the tree needs more levels"
    starts, at = [], 0
    for level in levels:
        starts.append(at)
        at += 512 * len(level)
    heap = at
    where = {key: heap + 64 * place for place, key in enumerate(order)}
    with open(path, "wb") as out:
        for number, level in enumerate(levels):
            leaf = number == len(levels) - 1
            for index, (_, members) in enumerate(level):
                following = starts[number] + 512 * (index + 1) if index + 1 < len(level) else 0
                firsts = [keys[m] for m in members] if leaf else [levels[number + 1][m][0] for m in members]
                pointers = [where[m] for m in members] if leaf else [starts[number + 1] + 512 * m for m in members]
                out.write(node_bytes(following, int(leaf), firsts, pointers))
        heap_bytes = b"".join(values[key] for key in order)
        out.write(heap_bytes + bytes(-len(heap_bytes) % 512))


def read_all(path):
    """Every (key, value) by walking the leaves alone: another way through the file than the chains take."""
    data = path.read_bytes()
    at = 0
    while struct.unpack_from("<Q", data, at + 8)[0] == 0:
        at = struct.unpack_from("<Q", data, at + 16 + 8 * FANOUT)[0] & ~ON_DISK
    found = {}
    while True:
        keys = struct.unpack_from("<31Q", data, at + 16)
        pointers = struct.unpack_from("<31Q", data, at + 16 + 8 * FANOUT)
        for key, pointer in zip(keys, pointers):
            if key != UNUSED:
                found[key] = data[pointer & ~ON_DISK:(pointer & ~ON_DISK) + 64]
        at = struct.unpack_from("<Q", data, at)[0]
        if at == 0:
            return found


def make_tree(run, depth, count, rng):
    keys = sorted(rng.sample(range(1, 1 << 48), count)) if rng.random() < 0.5 else list(range(0, 7 * count, 7))
    values = [struct.pack("<Q", rng.randrange(1 << 40)) + rng.randbytes(56) for _ in keys]
    path = run.folder / f"depth{depth}.idx"
    build(path, keys, values, depth, rng)
    tree = read_all(path)
    assert list(tree) == keys and list(tree.values()) == values
    return path, keys, tree


def check_lookups(run, path, depth, keys, tree, rng):
    asked = keys if len(keys) < 3000 else sorted(set(rng.sample(keys, 3000)) | set(keys[:40]) | set(keys[-40:]))
    asked = asked + [key + 1 for key in rng.sample(keys, min(len(keys), 300))] + [max(0, keys[0] - 1), keys[-1] + 1, UNUSED - 1, UNUSED]
    answers = run.call("lookup", {"tree": path}, {}, [{"key": key} for key in asked])
    for key, answer in zip(asked, answers):
        run.same(f"depth {depth}, key {key}", (answer.outcome, answer.value), ("ok", tree[key]) if key in tree else ("not_found", None))
        if key in tree:  # a key beside may end on the way
            run.same(f"depth {depth}, reads for key {key}", answer.hops, depth + 1)


def expect_sums(numbers):
    return struct.pack("<QQQQ", len(numbers), sum(numbers) % (1 << 64), min(numbers, default=UNUSED), max(numbers, default=0))


def check_ranges(run, path, depth, keys, tree, rng):
    ranges = [(0, UNUSED - 1), (keys[0], keys[-1]), (keys[-1] + 1, UNUSED - 1), (UNUSED - 1, UNUSED), (UNUSED, UNUSED), (5, 4), (keys[0], keys[0])]
    for _ in range(40):
        low = rng.randrange(len(keys))
        high = min(len(keys) - 1, low + rng.choice((0, 1, 14, 15, 16, 30, 31, 32, 200)))
        ranges.append((keys[low] + rng.randrange(2), keys[high] + rng.randrange(-1, 2)))
    ranges = [(low, max(high, 0)) for low, high in ranges]
    asked = [{"low": low, "high": high} for low, high in ranges]
    for chain, number_of in (("range_keys", lambda key: key), ("range_values", lambda key: struct.unpack("<Q", tree[key][:8])[0])):
        for (low, high), answer in zip(ranges, run.call(chain, {"tree": path}, {}, asked)):
            inside = keys[bisect.bisect_left(keys, low):bisect.bisect_right(keys, high)]
            wanted = ("ok", expect_sums([number_of(key) for key in inside]))
            run.same(f"depth {depth}, {chain} {low}..{high}", (answer.outcome, answer.value), wanted)


def check_long_ranges(run, rng):
    """Of more leaves than 4,096; values are read one by one, of which a run has fewer."""
    path, keys, tree = make_tree(run, 4, 31 * 4400, rng)
    everything = run.call("range_keys", {"tree": path}, {}, [{"low": 0, "high": UNUSED - 1}])[0]
    run.same("keys of 4,400 leaves", (everything.outcome, everything.value), ("ok", expect_sums(keys)))
    asked = [{"low": keys[1000], "high": keys[1000 + count - 1]} for count in (50000, len(keys) - 1000)]
    some, more = run.call("range_values", {"tree": path}, {}, asked)
    run.same("50,000 values", (some.outcome, some.value), ("ok", expect_sums([struct.unpack("<Q", tree[key][:8])[0] for key in keys[1000:51000]])))
    run.same(f"{len(keys) - 1000} values", more.outcome, "hop_limit")


def check_damage(run, path, keys, rng):
    whole = path.read_bytes()
    asked = [{"key": key} for key in rng.sample(keys, min(200, len(keys)))]
    bad = run.folder / "bad.idx"
    bad.write_bytes(whole[:512 * 3 + 100])
    outcomes = {a.outcome for a in run.call("lookup", {"tree": bad}, {}, asked)}
    run.true("a cut tree", outcomes == {"short_read"}, f"outcomes {outcomes}")
    root = bytearray(whole[:512])
    root[16 + 8 * FANOUT:] = bytes(8 * FANOUT)  # every child of the root is the root
    bad.write_bytes(bytes(root) + whole[512:])
    run.same("a cycle", {a.outcome for a in run.call("lookup", {"tree": bad}, {}, asked)}, {"hop_limit"})
    bad.write_bytes(whole[:8] + b"\x02" + whole[9:])
    run.same("an unknown kind of node", {a.outcome for a in run.call("lookup", {"tree": bad}, {}, asked)}, {"malformed"})
    allowed = {"ok", "not_found", "malformed", "short_read", "hop_limit"}
    for number in range(10):
        damaged = bytearray(whole)
        for _ in range(max(20, len(damaged) // 50)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        bad.write_bytes(damaged)
        outcomes = {a.outcome for a in run.call("lookup", {"tree": bad}, {}, asked)}
        run.true(f"damaged tree {number}", outcomes <= allowed, f"outcomes {outcomes}")
        outcomes = {a.outcome for a in run.call("range_keys", {"tree": bad}, {}, [{"low": 0, "high": keys[-1]}])}
        run.true(f"damaged tree {number}, range", outcomes <= allowed, f"outcomes {outcomes}")


def main():
    run = Run("std/btree.chain")
    rng = random.Random(SEED)
    for depth, count in ((1, 31), (1, 7), (2, 600), (3, 9000), (4, 30000), (5, 2000), (6, 500), (7, 100), (8, 3000)):
        path, keys, tree = make_tree(run, depth, count, rng)
        check_lookups(run, path, depth, keys, tree, rng)
        check_ranges(run, path, depth, keys, tree, rng)
        if depth in (3, 8):
            check_damage(run, path, keys, rng)
    check_long_ranges(run, rng)
    finish(run)


if __name__ == "__main__":
    main()
