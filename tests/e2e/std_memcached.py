#!/usr/bin/env python3
"""The chain of std/memcached.chain that meta get looks items up by, whose keys may come in base64: each key finds its item in either form,
and nothing else does."""
import base64
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import BUILD, Run, finish  # noqa: E402

SEED = 11
LONGEST = 250  # bytes of a key


def made_items(rng):
    """Keys of each length that base64 pads otherwise, with any bytes."""
    lengths = [1, 2, 3, 4, 5, 61, 62, 63, 184, 185, 186] + [rng.randrange(1, 187) for _ in range(400)]
    return {rng.randbytes(length): rng.randbytes(rng.randrange(1, 400)) for length in lengths}


def in_text(data):
    return b"".join(b"\\x%02x" % byte for byte in data)


def main():
    rng = random.Random(SEED)
    run = Run("std/memcached.chain")
    want = made_items(rng)
    path = run.folder / "a.store"
    text = b"".join(in_text(key) + b"\t" + in_text(value) + b"\n" for key, value in want.items())
    built = subprocess.run([BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"], input=text, capture_output=True)
    run.same("the store is built", (built.returncode, built.stderr), (0, b""))
    keys = list(want)
    for coded in (0, 1):
        asked = [{"text": base64.b64encode(key) if coded else key, "base64": coded} for key in keys]
        for key, answer in zip(keys, run.call("item_of", {"store": path}, {}, asked)):
            run.true(f"key {key[:20]}, base64 {coded}", answer.outcome == "ok" and answer.value.endswith(want[key]) and key in answer.value, answer)
        others = [{"text": base64.b64encode(key) if coded else key, "base64": coded} for key in (rng.randbytes(20) for _ in range(200))]
        for answer in run.call("item_of", {"store": path}, {}, others):
            run.same(f"another key, base64 {coded}", answer.outcome, "not_found")
    finish(run)


if __name__ == "__main__":
    main()
