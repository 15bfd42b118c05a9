#!/usr/bin/env python3
"""make_blocks.py FILE: blocks for the chains of this folder. Block 0 (at 0) names 16 reads of growing sizes, two of them switched off by a
size of 0; block 1 (at 512) asks for 17 reads at once, block 2 for 16; blocks 3 to 10 lead from one to the next."""
import random
import struct
import sys

BLOCK, FILE = 512, 256 << 10
SIZES = [512, 1024, 4096, 0, 65536, 512, 8192, 512, 0, 16384, 700, 1, 512, 4095, 2048, 512]
WALK = range(3, 11)


def blocks(seed=1):
    data = bytearray(random.Random(seed).randbytes(FILE))
    addresses = [8192 + 5000 * i for i in range(16)]
    struct.pack_into("<32Q", data, 0, *addresses, *SIZES)
    for number, wanted in ((1, 17), (2, 16)):
        struct.pack_into("<32Q", data, BLOCK * number, *[BLOCK * i for i in range(16)], wanted, *[0] * 15)
    for number in WALK:
        after = BLOCK * (number + 1) if number + 1 in WALK else 0
        struct.pack_into("<Q", data, BLOCK * number, after)
    return bytes(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as out:
        out.write(blocks())
