"""What the guest's kernel shows of a process, and of a disk."""
import contextlib
import os
import pathlib
import re


def under_way(disk):
    """Reads and writes that a disk has."""
    return [int(count) for count in pathlib.Path(f"/sys/block/{pathlib.Path(disk).name}/inflight").read_text().split()]


def regions():
    """Of block memory, that this process has mapped."""
    return pathlib.Path("/proc/self/maps").read_text().count("chainio-umem")


def queue_of(pid):
    """Places in the completion queue of a process's ring; 0: it has none yet, or the kernel has a hand on it."""
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(link).endswith("[io_uring]"):
                mask = re.search(r"^CqMask:\s*(\w+)", pathlib.Path(f"/proc/{pid}/fdinfo/{link.name}").read_text(), re.M)
                return int(mask[1], 0) + 1 if mask else 0
    return 0
