"""The volumes that benchmarks read from: the local disk, and the emulated cloud volume; and what fio says of them."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from common import RELEASE, WORK, Trouble, build, output_of

SECONDS = 2
WANTED = {1: 2000, 64: 16000}  # reads a second of the cloud volume
TOLERANCE = 0.15


class Cloud:
    """Mounts a folder with the reads of a volume in a cloud; gone when this ends, however it ends."""

    def __init__(self, source):
        self.source = pathlib.Path(source)
        self.path = None
        self.process = None

    def __enter__(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise Trouble("/dev/fuse cannot be opened here: no cloud volume")
        build("cloud-volume")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="cloud-volume-"))
        self.mount()
        return self

    def __exit__(self, *_):
        self.unmount()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def mount(self):
        words = [RELEASE / "bin" / "cloud-volume", self.path, self.source, "--with-parent"]
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("mounted"):
            rest = self.process.communicate()[0]
            raise Trouble(f"the cloud volume: {line}{rest}".rstrip())

    def unmount(self):
        self.process.terminate()
        self.process.communicate()

    def remount(self):
        """Without what the kernel kept of it."""
        self.unmount()
        self.mount()


def fio(path, depth, seconds=SECONDS):
    """4 KiB random reads a second with O_DIRECT."""
    command = ["fio", "--name=volume", f"--filename={path}", "--readonly", "--direct=1", "--rw=randread", "--bs=4096",
               "--ioengine=io_uring", f"--iodepth={depth}", f"--runtime={seconds}", "--time_based", "--norandommap", "--output-format=json"]
    return json.loads(output_of(command, cwd=WORK))["jobs"][0]["read"]["iops"]


def measure(path, seconds=SECONDS):
    return {depth: fio(path, depth, seconds) for depth in WANTED}


def is_cloud(found):
    return all(abs(found[depth] - wanted) <= TOLERANCE * wanted for depth, wanted in WANTED.items())


def describe(name, found):
    text = f"{name}: fio reads {found[1]:,.0f} times a second at depth 1, {found[64]:,.0f} at depth 64"
    if name == "cloud" and not is_cloud(found):
        text += f"; INVALID: {WANTED[1]:,} and {WANTED[64]:,} were wanted"
    return text


def main():
    """tools/cloud-volume --fio"""
    WORK.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="volume-", dir=WORK))
    try:
        with open(folder / "file", "wb") as file:
            for _ in range(256):
                file.write(os.urandom(1 << 20))
        with Cloud(folder) as cloud:
            print(describe("cloud", measure(cloud.path / "file")))
        print(describe("local", measure(folder / "file")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
