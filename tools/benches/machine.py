"""What of the machine changes figures by itself."""
import pathlib

KDAMONDS = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")


def word(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def pages_out():
    """Whether the kernel is told to page out what was not used for a while, however much memory is free."""
    running = [one for one in KDAMONDS.glob("[0-9]*") if word(one / "state") == "on"]
    return any(word(action) == "pageout" for one in running for action in one.glob("contexts/*/schemes/*/action"))


def notes():
    """Lines to stand above a table."""
    if not pages_out():
        return []
    return ["this machine's kernel pages out what was not used for a while (DAMON), with memory free: a warm row of anybody's may read from the disk now and then"]
