"""SIGTERM, and SIGHUP where it is not ignored, end a script as an error does: its `with` blocks and atexit take back what it has made. Children that
it has forked die of them."""
import os
import signal

SCRIPT = os.getpid()


def end(number, _):
    if os.getpid() == SCRIPT:
        raise SystemExit(128 + number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


for ends in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(ends) != signal.SIG_IGN:
        signal.signal(ends, end)
