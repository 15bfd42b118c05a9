#!/usr/bin/env python3
"""A program whose arguments and environment just fit is started, without what ChainIO would add to them."""
import os
import pathlib
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from runs import expect  # noqa: E402

SPEC = """files notes = "*.note"
chain head on read(notes) as r { prefetch r.file at 0 for 4KiB }
"""
STACK = 512 << 10  # a quarter of it is what arguments and environment may be, and no less than this one's
SAYS = "its arguments and its environment leave no room for the variables that ChainIO adds; a larger stack (`ulimit -s`) makes some"


def main():
    with runs.Folder() as folder:
        (folder.path / "n").write_text(SPEC)
        subprocess.run([runs.CHAINC, "n", "-o", "a"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        limits = (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1])

        def run(room, *options):
            """With words that take so many bytes, and as few of chainio's own as there can be; None: they do not fit."""
            words = ["chainio", "run", "--spec", "a", *options, "--", "sh", "-c", "echo on; exit 7", "x" * (room // 2), "x" * (room - room // 2)]
            try:
                return subprocess.run(words, executable=runs.CHAINIO, env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST,
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, limits))
            except OSError:
                return None

        fits, too_much = 1000, STACK // 4
        expect("with room it is no matter", (run(fits).returncode, run(too_much)), (7, None))
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            fits, too_much = (middle, too_much) if run(middle) else (fits, middle)
        # chainio becomes a program with a longer name, and these have one more word.
        rooms = range(fits - 32, fits - 432, -16)
        plain = [run(room, "--quiet") for room in rooms]
        expect("it runs, and as it would by itself", {(done.returncode, done.stdout) for done in plain}, {(7, b"on\n")})
        said = [done.stderr.decode() for done in plain]
        expect("  plain where there is no room", said, lambda all: f"chainio run: sh runs plain: {SAYS}\n" in all)
        expect("  and otherwise with all", said[-1], "")
        done = run(next((room for room, words in zip(rooms, said) if SAYS in words), rooms[0]) - 1, "--strict")  # which is longer by that
        expect("--strict refuses it", (done.returncode, done.stdout, done.stderr.decode()),
               (3, b"", f"chainio run: sh was not started, since it would run plain (--strict): {SAYS}\n"))
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
