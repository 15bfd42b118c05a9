#!/usr/bin/env python3
"""make_store.py FILE: a store of 250 items over 16 buckets, for `chainc -D BUCKETS=16`. make_store.py --hash KEY: the hash of a key."""
import struct
import sys

ITEMS, BUCKETS, PAGE = 250, 16, 512
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1


def rotated(value, by):
    return (value << by | value >> 64 - by) & MASK


def xxh64(data):
    """As the service hashes a key; of less than 32 bytes, which those of this store have."""
    assert len(data) < 32
    value, rest = P5 + len(data), data
    while len(rest) >= 8:
        word = rotated(int.from_bytes(rest[:8], "little") * P2 & MASK, 31) * P1 & MASK
        value, rest = (rotated(value ^ word, 27) * P1 + P4) & MASK, rest[8:]
    if len(rest) >= 4:
        word = int.from_bytes(rest[:4], "little") * P1 & MASK
        value, rest = (rotated(value ^ word, 23) * P2 + P3) & MASK, rest[4:]
    for byte in rest:
        value = rotated(value ^ byte * P5 & MASK, 11) * P1 & MASK
    value = (value ^ value >> 33) * P2 & MASK
    value = (value ^ value >> 29) * P3 & MASK
    return value ^ value >> 32


def write(path):
    items, slots = bytearray(), [[] for _ in range(BUCKETS)]
    for number in range(ITEMS):
        key, value = b"key%d" % number, b"value %d" % number
        digest = xxh64(key)
        slots[digest % BUCKETS].append((digest, BUCKETS * PAGE + len(items)))
        items += struct.pack("<IHH", number, len(key), len(value)) + key + value
    assert max(map(len, slots)) <= 31, "a bucket has room for all of its keys"
    with open(path, "wb") as out:
        for bucket in slots:
            bucket.sort()
            out.write((struct.pack("<Q8x", len(bucket)) + b"".join(struct.pack("<QQ", *slot) for slot in bucket)).ljust(PAGE, b"\x00"))
        out.write(items + bytes(8192))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--hash":
        print(xxh64(sys.argv[2].encode()))
    elif len(sys.argv) != 2 or sys.argv[1] == "--hash":
        sys.exit(__doc__)
    else:
        write(sys.argv[1])
