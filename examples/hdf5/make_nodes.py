#!/usr/bin/env python3
"""make_nodes.py FILE: nodes as HDF5 1.10 writes them into a file with 64 KiB: at 0 a leaf of the chunks of a data set with three
dimensions, at 4096 the node above it, at 8192 a group's node, at 9216 the node above that, at 10240 a symbol node."""
import struct
import sys


def chunk_node(level, entries):
    """Entries are (size, place, address)."""
    body = struct.pack("<4sBBHQQ", b"TREE", 1, level, len(entries), 2**64 - 1, 2**64 - 1)
    for size, place, address in entries:
        body += struct.pack("<II4QQ", size, 0, *place, 0, address)
    return body.ljust(24 + 64 * 8 + 65 * 40, b"\0")


def group_node(level, addresses):
    body = struct.pack("<4sBBHQQ", b"TREE", 0, level, len(addresses), 2**64 - 1, 2**64 - 1)
    for key, address in enumerate(addresses):
        body += struct.pack("<QQ", key * 8, address)
    return body.ljust(24 + 33 * 8 + 32 * 8, b"\0")


def symbol_node(headers):
    body = struct.pack("<4sBBH", b"SNOD", 1, 0, len(headers))
    for name, header in enumerate(headers):
        body += struct.pack("<QQI4x16x", name * 8, header, 0)
    return body.ljust(8 + 8 * 40, b"\0")


out = bytearray(65536)
for at, node in ((0, chunk_node(0, [(16384, (0, 0, 0), 20000), (16000, (1, 0, 0), 40000), (9000, (2, 0, 0), 56384)])),
                 (4096, chunk_node(1, [(16384, (0, 0, 0), 0), (16384, (32, 0, 0), 12288)])),
                 (8192, group_node(0, [10240, 11000])),
                 (9216, group_node(1, [8192])),
                 (10240, symbol_node([800, 1600, 3000]))):
    out[at:at + len(node)] = node
if len(sys.argv) != 2:
    sys.exit(__doc__)
open(sys.argv[1], "wb").write(out)
