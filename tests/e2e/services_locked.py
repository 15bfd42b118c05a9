#!/usr/bin/env python3
"""Below a limit of locked memory: each edition registers as much of its memory as the first one, once the one before has ended."""
import json
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from daemon import Server, answer, compiled, receive_line, write_rows  # noqa: E402
from runs import expect  # noqa: E402

LIMIT, BLOCKS = 6144, 8192  # KiB: of locked memory, and of the memory for blocks


def registered(stats):
    return int(re.search(r"(\d+) KiB of registered buffers", json.dumps(stats))[1])


def main():
    # A user of the test's own, as what others of the same one lock counts too; it may read wherever the build and the test's files lie.
    nobody = 1_000_000 + os.getpid()
    few = "-all,+dac_override,+dac_read_search"
    user = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups", f"--bounding-set={few}", f"--inh-caps={few}", f"--ambient-caps={few}"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.o").write_bytes(compiled(folder, "A"))
        write_rows(folder, ord("a"))
        server = Server(folder, prefix=[*user, "prlimit", f"--memlock={LIMIT << 10}:{LIMIT << 10}"])
        first = registered(server.stats())
        expect("the first edition has half, or more, of what may be locked", first, lambda kib: LIMIT / 2 <= kib <= LIMIT)  # a huge page counts as a whole
        with server.connect() as sock:
            for edition in range(2, 7):
                expect("a reload", server.control({"op": "reload"}).get("edition"), edition)
                stats = server.wait_for("  the edition before has ended", lambda s: not s["before_runs"])
                expect("  and this one has as much", registered(stats), first)
                sock.sendall(b"row 1\n")
                expect("  and answers", receive_line(sock), answer(b"A", 1))
        expect("ends", server.stop(), 0)
        said = [line for line in server.said if line.startswith("fallback unregistered-buffers")]
        expect("it is said of the first, and once of those beside another one", said,
               lambda said: len(said) == 2 and said[1].endswith(f"(beside {first} KiB of other memory; RLIMIT_MEMLOCK is {LIMIT} KiB; "
                                                                "`ulimit -l` or CAP_IPC_LOCK raise it)\n")
               and all(re.search(fr"\d+ KiB of {BLOCKS} KiB of block memory are registered", line) for line in said))
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
