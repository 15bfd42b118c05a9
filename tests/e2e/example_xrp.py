#!/usr/bin/env python3
"""examples/xrp, the parts of XRP's contract one by one, against the same computed here."""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import ROOT, Run, finish  # noqa: E402

sys.path.insert(0, str(ROOT / "examples" / "xrp"))
import make_blocks as made  # noqa: E402

SEED = 20268


def fnv1a(data, seed):
    found = 0xcbf29ce484222325 ^ seed
    for byte in data:
        found = (found ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return found


def main():
    run, rng, blocks = Run("examples/xrp/app.chain"), random.Random(SEED), made.blocks(SEED)
    path = run.folder / "disk.blocks"
    path.write_bytes(blocks)
    addresses, hash_of = struct.unpack_from("<16Q", blocks), 0
    for at, size in zip(addresses, made.SIZES):
        if size:
            hash_of = fnv1a(blocks[at:at + size], hash_of)
    answer = run.call("fan_out", {"disk": path}, {}, [{"start": 0}])[0]
    run.same("14 reads that a block names", (answer.outcome, answer.value, answer.hops), ("ok", struct.pack("<QQ", sum(made.SIZES), hash_of), 15))
    answers = run.call("too_many", {"disk": path}, {}, [{"start": 512}, {"start": 1024}])
    run.same("17 reads of one step, and 16", [(each.outcome, each.value) for each in answers], [("fanout", None), ("ok", 512)])
    passed = [rng.randbytes(size) for size in (4088, 64, 4000, 63, 8)]
    for scratch, answer in zip(passed, run.call("scratch", {"disk": path}, {}, [{"start": 1536, "passed": each} for each in passed])):
        for number in made.WALK:
            scratch = scratch[:-8] + blocks[512 * number + 504:512 * number + 512]
        run.same(f"scratch of {len(scratch)} bytes", (answer.outcome, answer.value, answer.hops), ("ok", scratch, len(made.WALK)))
    finish(run)


if __name__ == "__main__":
    main()
