"""The disk of tests/vm/hard_cases, which takes its time, and what it holds."""
import contextlib
import os
import pathlib
import struct
import subprocess

CHAINS, DEPTH, BLOCK = 64, 8, 512
STRIDE = 8 * BLOCK  # between nodes: the block layer would make one request of neighbours, and one bad block fail all of it
BAD = 5  # this chain's fourth node cannot be read
MEGABYTES = 16


@contextlib.contextmanager
def slow_disk(name, milliseconds):
    """A null_blk of our own: each read takes so long, whatever the number of them; (its device, its folder in configfs)."""
    subprocess.run(["modprobe", "configfs"], check=True)
    config = pathlib.Path("/sys/kernel/config")
    if not (config / "nullb").exists():
        subprocess.run(["mount", "-t", "configfs", "none", str(config)], check=True)
    folder = config / "nullb" / name
    folder.mkdir()
    try:
        for setting, value in (("memory_backed", 1), ("size", MEGABYTES), ("blocksize", BLOCK), ("hw_queue_depth", 2048), ("irqmode", 2), ("completion_nsec", milliseconds * 1_000_000), ("power", 1)):
            (folder / setting).write_text(str(value))
        disk = next(path for path in (pathlib.Path(f"/dev/{name}"), pathlib.Path(f"/dev/nullb{(folder / 'index').read_text().strip()}")) if path.exists())
        pathlib.Path(f"/sys/block/{disk.name}/queue/scheduler").write_text("none")
        yield disk, folder
        (folder / "power").write_text("0")
    finally:
        folder.rmdir()


def fill(disk):
    """Chain k goes through the nodes k, k + 64, k + 128…; its value is 1000 + k."""
    nodes = b""
    for number in range(CHAINS * DEPTH):
        after = number + CHAINS
        node = struct.pack("<QQ", after * STRIDE if after < CHAINS * DEPTH else 0, 1000 + number % CHAINS)
        nodes += node.ljust(STRIDE, b"\0")
    with open(disk, "wb") as file:
        file.write(nodes)
        file.flush()
        os.fsync(file.fileno())


def spoil(folder):
    """Makes a node unreadable."""
    bad = (BAD + 3 * CHAINS) * STRIDE // BLOCK
    (folder / "badblocks").write_text(f"+{bad}-{bad}")
