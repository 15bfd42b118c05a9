#!/usr/bin/env python3
"""make_tree.py FILE: a tree of two levels in BPF-KV's layout with the keys 0, 10, 20 … 9600 (31 leaves of 31 keys). The value of
key k is the number k * 100, then the weight k % 7, then 48 zeros."""
import struct
import sys

FANOUT = 31
keys = [10 * i for i in range(FANOUT * FANOUT)]
heap = 512 * (1 + FANOUT)


def node(following, leaf, first, pointers):
    return struct.pack("<QQ31Q31Q", following, leaf, *first, *pointers)


if len(sys.argv) != 2:
    sys.exit(__doc__)
with open(sys.argv[1], "wb") as out:
    out.write(node(0, 0, [keys[FANOUT * i] for i in range(FANOUT)], [512 * (1 + i) for i in range(FANOUT)]))
    for leaf in range(FANOUT):
        mine = range(FANOUT * leaf, FANOUT * (leaf + 1))
        out.write(node(512 * (leaf + 2) if leaf + 1 < FANOUT else 0, 1, [keys[i] for i in mine], [heap + 64 * i for i in mine]))
    values = b"".join(struct.pack("<QQ48x", key * 100, key % 7) for key in keys)
    out.write(values + bytes(-len(values) % 512))
