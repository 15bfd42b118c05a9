#!/usr/bin/env python3
"""make_table.py DYNAMIC FIXED: two .MYI files as MariaDB writes them. The first has rows of any length and four indexes: over a number
(its root at 1024, above the pages at 2048 and 3072), a number that may be NULL (4096), a packed string and a VARCHAR. The second has rows of
77 bytes and one index over a number (1024)."""
import struct
import sys

BASE, COLUMN = 208, 18


def column(kind):
    return bytes([kind]).ljust(COLUMN, b"\0")


def head(options, row_length, row_pointer, page_pointer, indexes):
    """Indexes are (flags, entry, root, kinds of its columns)."""
    out = bytearray(1024)
    struct.pack_into(">IHHHHHHHB", out, 0, 0xfefe0701, options, 396, 176, 100, BASE, len(indexes), 0, len(indexes))
    out[124:124 + 8 * len(indexes)] = b"".join(struct.pack(">Q", root) for _, _, root, _ in indexes)
    struct.pack_into(">I", out, BASE + 48, row_length)
    out[BASE + 72:BASE + 74] = bytes([row_pointer, page_pointer])
    at = BASE + 100
    for flags, entry, _, kinds in indexes:
        one = struct.pack(">BBHHHHH", len(kinds), 1, flags, 1024, entry, entry, entry) + b"".join(map(column, kinds))
        out[at:at + len(one)] = one
        at += len(one)
    return bytes(out)


def page(body, above=False):
    return (struct.pack(">H", len(body) + 2 | above << 15) + body).ljust(1024, b"\0")


def entries(rows, pointer):
    """Rows are (key, where); a key of None is NULL, and one of bytes is as it stands."""
    keys = (b"\0" if key is None else key if isinstance(key, bytes) else struct.pack(">I", key) for key, _ in rows)
    return b"".join(key + where.to_bytes(pointer, "big") for key, (_, where) in zip(keys, rows))


if len(sys.argv) != 3:
    sys.exit(__doc__)
NUMBER, STRING, VARCHAR = 4, 1, 15
root = (2).to_bytes(6, "big") + entries([(500, 7000)], 6) + (3).to_bytes(6, "big")
open(sys.argv[1], "wb").write(
    head(1, 215, 6, 6, [(1, 10, 1024, [NUMBER]), (0x48, 11, 4096, [NUMBER]), (0x6a, 208, 5120, [STRING]), (0x48, 17, 6144, [VARCHAR])])
    + page(root, above=True) + page(entries([(7, 90_000), (8, 20), (499, 123_456_789)], 6)) + page(entries([(501, 4_000)], 6))
    + page(entries([(None, 500), (None, 900), (b"\1" + struct.pack(">I", 7), 40)], 6)))
open(sys.argv[2], "wb").write(head(0, 77, 4, 2, [(0, 8, 1024, [NUMBER])]) + page(entries([(1, 0), (2, 1000)], 4)))
