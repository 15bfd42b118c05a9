#!/usr/bin/env python3
"""chainio call --keys as a part of a pipeline: who reads its results ends, who writes its keys waits for them, and what is no key ends it."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import started  # noqa: E402
from call_and_runtime import BUILD, built  # noqa: E402
from runs import expect  # noqa: E402


def command(app, tree, *words):
    return [BUILD / "bin" / "chainio", "call", app, "lookup", "--file", tree, "--quiet", "--keys", "-", *words]


def test_nobody_reads(app, tree):
    """Where SIGPIPE is ignored, as systemd has it, that the reader has ended is the end of keys that have none."""
    reading, writing = os.pipe()
    with started.start(["yes", "42"], stdout=subprocess.PIPE) as keys:
        with started.start(command(app, tree), stdin=keys.stdout, stdout=writing, stderr=subprocess.PIPE, text=True, restore_signals=False) as call:
            keys.stdout.close()
            os.close(writing)
            expect("keys without an end", os.read(reading, 10), b"42\tok\t294\n")
            os.close(reading)
            expect("  end with their reader", (call.wait(timeout=runs.LONGEST), call.stderr.read()), (3, "chainio call: cannot write the results: Broken pipe\n"))


def main():
    with built() as (_, app, tree, _):
        test_nobody_reads(app, tree)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
