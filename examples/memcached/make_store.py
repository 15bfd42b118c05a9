#!/usr/bin/env python3
"""make_store.py FILE: a store of up to 400 items over 16 buckets. The hash of key k is its FNV-1a; the service uses xxh64 in its place."""
import struct
import sys

BUCKETS, PAGE = 16, 512


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


items, slots = bytearray(), [[] for _ in range(BUCKETS)]
for number in range(400):
    key, value = b"key%d" % number, b"value %d" % number
    digest = fnv1a(key)
    if len(slots[digest % BUCKETS]) < 31:
        slots[digest % BUCKETS].append((digest, BUCKETS * PAGE + len(items)))
        items += struct.pack("<IHH", number, len(key), len(value)) + key + value
with open(sys.argv[1], "wb") as out:
    for bucket in slots:
        bucket.sort()
        out.write((struct.pack("<Q8x", len(bucket)) + b"".join(struct.pack("<QQ", *slot) for slot in bucket)).ljust(PAGE, b"\x00"))
    out.write(items + bytes(8192))
