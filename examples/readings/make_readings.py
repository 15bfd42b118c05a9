#!/usr/bin/env python3
"""make_readings.py FOLDER: a.heat.tsd with 1,000 readings of four sensors, one every 10 seconds, and a.heat.tix, its index: a key
for every 50 readings, in blocks of at most 15 keys. b.heat.tsd and b.heat.tix: 4,096 readings, as many as one read can have, under
one key. a.way.tsd and a.way.tix: 200 positions, indexed in blocks of 31 keys."""
import pathlib
import struct
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__)
folder = pathlib.Path(sys.argv[1])


def write_index(name, times, run, size, per_block):
    keys = [(times[i], i * size) for i in range(0, len(times), run)]
    out = bytearray()
    for start in range(0, len(keys), per_block):
        some = keys[start:start + per_block]
        block = struct.pack("<H6x", len(some)) + b"".join(struct.pack(">QQ", *key) for key in some)
        out += block.ljust(8 + 16 * per_block, b"\x00")
    (folder / name).write_bytes(out)


for name, count, run in (("a.heat", 1000, 50), ("b.heat", 4096, 4096)):
    times = [1_000_000 + 10 * i for i in range(count)]
    readings = b"".join(struct.pack(">Qi", time, 20000 + (i % 100 - 50) * 100) + struct.pack("<I", i % 4 | (i % 7) << 20) for i, time in enumerate(times))
    (folder / f"{name}.tsd").write_bytes(readings)
    write_index(f"{name}.tix", times, run, 16, 15)
ways = [5_000 + 3 * i for i in range(200)]
(folder / "a.way.tsd").write_bytes(b"".join(struct.pack(">Q", time) + struct.pack("<qq", 52_500_000 - i, -13_400_000 + i) for i, time in enumerate(ways)))
write_index("a.way.tix", ways, 10, 24, 31)
