"""Where kernels and virtual machines keep their files, and how it is said that there can be none here."""
import contextlib
import fcntl
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(os.environ.get("CHAINIO_VM_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "chainio" / "vm").absolute()
LOG = ROOT / "build" / "vm" / "log"


class Unavailable(Exception):
    """This machine cannot boot that kernel; the text says what is missing."""


@contextlib.contextmanager
def locked(name, folder=CACHE):
    """One process at a time fetches or installs; the others wait and then find it done. The lock lies beside what it guards:
    two caches that share one build tree share its lock too."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
