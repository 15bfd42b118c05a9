#!/usr/bin/env python3
"""make_store.py FILE [--layers L] [--keys N] [--seed S]: a store in BPF-KV's layout, a B+-tree of L levels (1 to 8) over a heap of values.
Without N the tree is full: 31^L keys 0, 1, 2 …, as BPF-KV's `create` makes it (L up to 4: 70 MB). N keys (any number that L levels
can hold) are spread evenly over the nodes. Value k is the number k; with a seed, keys have gaps, and numbers and the heap's order
are random."""
import argparse
import random
import struct

FANOUT = 31
NODE = 512
VALUE = 64
UNUSED = (1 << 64) - 1
ON_DISK = 1 << 63  # how BPF-KV marks an address in the file


def evenly(count, parts):
    """Where each part of `count` members begins and ends."""
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def node(following, leaf, keys, pointers):
    fill = FANOUT - len(keys)
    return struct.pack("<QQ31Q31Q", following, leaf, *keys, *[UNUSED] * fill, *[p | ON_DISK for p in pointers], *[0] * fill)


def levels_of(count, layers):
    """For each level from the root down, which members of the level below (of the leaves: keys) each of its nodes has."""
    levels, members = [], count
    for above in range(layers - 1, -1, -1):
        nodes = max(1, min(-(-members // FANOUT), FANOUT ** above))
        if above:
            nodes = min(max(nodes, min(members, FANOUT)), FANOUT ** above)  # few keys still make a tree of several branches
        levels.insert(0, evenly(members, nodes))
        members = nodes
    return levels


def entries(count, seed):
    """(keys, numbers, where in the heap each value lies)"""
    if seed is None:
        return list(range(count)), list(range(count)), list(range(count))
    rng = random.Random(seed)
    keys, key = [], rng.randrange(50)
    for _ in range(count):
        keys.append(key)
        key += 1 + rng.randrange(20)
    places = list(range(count))
    rng.shuffle(places)
    return keys, [rng.randrange(1 << rng.randrange(1, 50)) for _ in range(count)], places


def write(path, layers, count, seed=None):
    """Writes the store; gives {key: number}."""
    keys, numbers, places = entries(count, seed)
    levels = levels_of(count, layers)
    starts = [NODE * sum(map(len, levels[:i])) for i in range(layers)]
    heap = NODE * sum(map(len, levels))
    firsts = [[keys[begin] for begin, _ in levels[-1]]]  # the least key below each node of a level
    for level in reversed(levels[:-1]):
        firsts.insert(0, [firsts[0][begin] for begin, _ in level])
    with open(path, "wb") as out:
        for number, level in enumerate(levels):
            leaf = number == layers - 1
            for index, (begin, end) in enumerate(level):
                following = starts[number] + NODE * (index + 1) if index + 1 < len(level) else 0
                if leaf:
                    out.write(node(following, 1, keys[begin:end], [heap + VALUE * places[i] for i in range(begin, end)]))
                else:
                    out.write(node(following, 0, firsts[number + 1][begin:end], [starts[number + 1] + NODE * i for i in range(begin, end)]))
        at_place = sorted(range(count), key=places.__getitem__)
        for i in at_place:
            out.write(b"%63d\0" % numbers[i])
        out.write(bytes(-VALUE * count % NODE))
    return dict(zip(keys, numbers))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--layers", type=int, default=3, choices=range(1, 9))
    parser.add_argument("--keys", type=int)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    count = asked.keys if asked.keys is not None else FANOUT ** asked.layers
    if not 1 <= count <= min(FANOUT ** asked.layers, FANOUT ** 4):
        parser.error(f"{count} keys: {asked.layers} levels hold 1 to {FANOUT ** asked.layers}, and this program writes at most {FANOUT ** 4}")
    write(asked.file, asked.layers, count, asked.seed)
    print(f"{asked.file}: {asked.layers} levels, {count} keys")


if __name__ == "__main__":
    main()
