#!/usr/bin/env python3
"""The chain of std/http_store.chain that looks items up by the path of a URL: each key finds its item however its bytes are escaped, and
nothing else does."""
import os
import random
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import BUILD, Run, finish  # noqa: E402
from store_lines import lines_of  # noqa: E402

SEED = 12
FORMS = {
    "as clients write it": lambda key: urllib.parse.quote(key).encode(),
    "all escaped": lambda key: b"".join(b"%%%02X" % byte for byte in key),
    "all escaped, small letters": lambda key: b"".join(b"%%%02x" % byte for byte in key),
    "nothing escaped but %": lambda key: key.replace(b"%", b"%25"),
}


def made_items(rng):
    """Keys of any bytes and all lengths, and some that look like escapes or are hardly any."""
    keys = [b"plain", b"%", b"%%", b"%41", b"A", b"a b", "ä/ö".encode(), b"100%", bytes(range(250)), bytes(range(6, 256))]
    return {key: rng.randbytes(rng.randrange(1, 400)) for key in keys + [rng.randbytes(rng.randrange(1, 251)) for _ in range(200)]}


def asked(path):
    return {"path": path, "escapes": path.count(b"%")}


def main():
    rng = random.Random(SEED)
    run = Run("std/http_store.chain")
    want = made_items(rng)
    store, given = run.folder / "a.store", run.folder / "given.tsv"
    given.write_bytes(lines_of({key: (0, value) for key, value in want.items()}))
    built = subprocess.run([BUILD / "bin" / "chainio", "store", "build", store, "--from", given], capture_output=True)
    run.same("the store is built", (built.returncode, built.stderr), (0, b""))
    for form, escaped in FORMS.items():
        for (key, value), answer in zip(want.items(), run.call("item_of", {"store": store}, {}, [asked(escaped(key)) for key in want])):
            found = answer.outcome == "ok" and answer.value.endswith(key + value)
            run.true(f"{form}: {key[:20]}", found, answer)
    others = [b"plai", b"plain%20", b"%41%41", b"A%00", *(FORMS["all escaped"](rng.randbytes(20)) for _ in range(100))]
    for path, answer in zip(others, run.call("item_of", {"store": store}, {}, [asked(path) for path in others])):
        run.same(f"of no key: {path[:20]}", answer.outcome, "not_found")
    finish(run)


if __name__ == "__main__":
    main()
