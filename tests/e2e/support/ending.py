"""SIGTERM ends a script as an error does: its `with` blocks and atexit take back what it has made. Children that it has forked die of it."""
import os
import signal

SCRIPT = os.getpid()


def end(number, _):
    if os.getpid() == SCRIPT:
        raise SystemExit(128 + number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


signal.signal(signal.SIGTERM, end)
