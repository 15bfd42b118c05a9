"""What of the machine changes figures by itself."""
import pathlib

KDAMONDS = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")
VIRTIO = pathlib.Path("/sys/bus/virtio/devices")
BALLOON, REPORTS = "0x0005", 5  # a device's kind, and its feature by which free pages are told of


def word(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def pages_out():
    """Whether the kernel is told to page out what was not used for a while, however much memory is free."""
    running = [one for one in KDAMONDS.glob("[0-9]*") if word(one / "state") == "on"]
    return any(word(action) == "pageout" for one in running for action in one.glob("contexts/*/schemes/*/action"))


def gives_memory_back():
    """Whether the machine's host takes the pages that are free here, so that the next who touches one waits until the host has found another."""
    balloons = [one for one in VIRTIO.glob("*") if word(one / "device") == BALLOON]
    return any(word(one / "features")[REPORTS:REPORTS + 1] == "1" for one in balloons)


def notes():
    """Lines to stand above a table."""
    lines = []
    if pages_out():
        lines.append("this machine's kernel pages out what was not used for a while (DAMON), with memory free: a warm row of anybody's may read from the disk now and then")
    if gives_memory_back():
        lines.append("this machine gives free memory back to its host (virtio-balloon): who touches a page first since then takes up to 10 us of a processor more, "
                     "plain or not, which is most of some rounds that fill much memory")
    return lines
