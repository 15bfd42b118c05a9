#!/usr/bin/env python3
"""Whatever system call of chainio-runtime fails as it starts, it serves as ever and can be stopped, or ends and says why; one that fails later holds up nobody for good."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import faults
import runs
from runs import expect

SOME = 12  # of the calls of a start, by chance; the other ones have to wait for another run of this test, or for CHAINIO_SOAK
ERRORS = {**faults.ERRORS, "memfd_create": "ENOMEM", "io_uring_setup": "ENOMEM", "io_uring_register": "ENOMEM", "signalfd4": "EMFILE", "epoll_create1": "ENOMEM", "epoll_ctl": "ENOMEM",
          "socket": "EMFILE", "bind": "EADDRINUSE", "listen": "EADDRINUSE", "setsockopt": "ENOMEM", "statx": "ENOSYS", "uname": "EFAULT", "sysinfo": "EFAULT"}
NEVER = {"fcntl"}  # fail in the kernel: what the daemon asks for is allowed for every descriptor


class Under(daemon.Server):
    """chainio-runtime in which strace has calls fail; it is this process's child, and hears of signals itself."""

    def __init__(self, folder, *strace):
        super().__init__(folder, prefix=["strace", "-D", "-qq", "-o", folder / "log", *strace])

    def answers(self):
        with self.connect() as sock:
            sock.sendall(b"row 7\n")
            return daemon.receive_line(sock)


def starts(folder, *strace):
    """How it served and ended; or with what it has ended before, and whether that was said."""
    try:
        server = Under(folder, *strace)
    except daemon.NotServed as error:
        return error.code, str(error).count("chainio-runtime: "), list(folder.glob("control-*")), str(error)
    served = server.answers() == daemon.answer(b"one", 7), bool(server.all_stats())
    try:
        ended = server.stop()
    except subprocess.TimeoutExpired:
        ended = "it does not"
    return served, ended, list(folder.glob("control-*")), "".join(server.said)


SERVED, REFUSED = ((True, True), 0, []), (3, 1, [])


def test_waiting(folder, made):
    """What is to be waited for and is not, for want of room, is waited for later; without signals there is no start."""
    added = [call for call in made if call.name == "epoll_ctl" and "EPOLL_CTL_ADD" in call.line]
    how = starts(folder, *added[0].fails_with("ENOSPC"))
    text = "chainio-runtime: signals cannot be waited for: No space left on device; raise fs.epoll.max_user_watches (sysctl)\n"
    expect("no room for signals", (how[:3], text in how[3]), (REFUSED, True))
    for call in added[1:]:
        how = starts(folder, *call.fails_with("ENOSPC"))
        expect(f"no room for what is waited for as number {call.number}", how[:3], SERVED)
    expect("  the listener and its clients are among them", len(added) >= 3, True)


def test_control(folder, made):
    """A socket that nobody can listen at is not left behind."""
    listens = [call for call in made if call.name == "listen"][-1]
    how = starts(folder, *listens.fails_with("EADDRINUSE"))
    expect("the control socket cannot be listened at", (how[:3], "cannot listen at" in how[3]), (REFUSED, True))


def test_each(folder, made):
    seed = random.randrange(1 << 32)
    tries = [call for call in made if call.name in ERRORS and call.name not in NEVER]
    chosen, bad, refused = tries if "CHAINIO_SOAK" in os.environ else random.Random(seed).sample(tries, SOME), [], 0
    for call in chosen:
        how = starts(folder, *call.fails_with(ERRORS[call.name]))
        refused += how[:3] == REFUSED
        if how[:3] not in (SERVED, REFUSED):
            bad.append((call.line[:100], ERRORS[call.name], how))
    print(f"      {len(chosen)} of {len(tries)} calls failed, with {refused} of which it did not start; seed {seed}")
    expect("whichever call fails, it serves, or says why not", bad, [])


def main():
    if why := faults.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.o").write_bytes(daemon.compiled(folder, "one"))
        daemon.write_rows(folder, ord("a"))
        expect("without errors", starts(folder)[:3], SERVED)
        made = faults.calls(folder / "log")
        begins = next(index for index, call in enumerate(made) if "app.o" in call.line and call.name in ("open", "openat"))  # its loader works before
        test_waiting(folder, made[begins:])
        test_control(folder, made[begins:])
        test_each(folder, made[begins:])
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
