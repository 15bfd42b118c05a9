#!/usr/bin/env python3
"""plain.py FILE get KEY | aggregate LOW HIGH | scan LOW HIGH MOST: what the chains of this folder answer, by one pread after the other, as a
program without ChainIO does it."""
import os
import struct
import sys

UNUSED = (1 << 64) - 1
BLOCK = 512
FANOUT = 31


class Store:
    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        self.reads = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.file)

    def block(self, at):
        self.reads += 1
        return os.pread(self.file, BLOCK, at)

    def node(self, at):
        """(is a leaf, the next node of its level, [(key, address)])"""
        following, leaf, *words = struct.unpack("<64Q", self.block(at & ~(1 << 63)))
        return leaf == 1, following, [(key, to & ~(1 << 63)) for key, to in zip(words[:FANOUT], words[FANOUT:]) if key != UNUSED]

    def leaf_of(self, key):
        is_leaf, following, found = self.node(0)
        while not is_leaf:
            is_leaf, following, found = self.node([to for first, to in found if first <= key][-1] if found[0][0] <= key else found[0][1])
        return following, found

    def value(self, at):
        begin = at % BLOCK
        return self.block(at - begin)[begin:begin + 64]

    def get(self, key):
        _, found = self.leaf_of(key)
        return next((self.value(to) for each, to in found if each == key), None)

    def entries(self, low, high):
        following, found = self.leaf_of(low)
        while True:
            for key, to in found:
                if key > high:
                    return
                if key >= low:
                    yield key, self.value(to)
            if not following:
                return
            _, following, found = self.node(following)

    def aggregate(self, low, high):
        numbers = [int(value[:63]) for _, value in self.entries(low, high)]
        return len(numbers), sum(numbers) & UNUSED, min(numbers, default=UNUSED), max(numbers, default=0)

    def scan(self, low, high, most):
        rows = []
        for row in self.entries(low, high):
            if len(rows) == most:
                break
            rows.append(row)
        return rows


def main(path, what, *numbers):
    with Store(path) as store:
        answer = getattr(store, what)(*map(int, numbers))
        print(answer, f"({store.reads} reads)")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("get", "aggregate", "scan"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
