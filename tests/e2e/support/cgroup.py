"""A cgroup of a test's own, whose memory is limited, of whichever version has the controller."""
import os
import pathlib
import signal

import netns

V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")


class Limited:
    """`why_not` is empty where there is one."""
    def __init__(self, limit):
        self.why_not, self.path = "", None
        unified = (V2 / "cgroup.controllers").exists()
        self.limit, self.peak = ("memory.max", "memory.peak") if unified else ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
        try:
            path = (V2 if unified else V1) / f"chainio-{os.getpid()}"
            path.mkdir()
            self.path = path
            self.set(limit)
        except OSError as error:
            self.why_not = f"no cgroup whose memory can be limited: {error}"

    def set(self, limit):
        (self.path / self.limit).write_text(str(limit))

    def command(self):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def most(self):
        return int((self.path / self.peak).read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.path:
            netns.until("the cgroup is empty", self.is_empty)
            self.path.rmdir()

    def is_empty(self):
        """Those that a failed test has left in it, all of which were started by it, are ended."""
        left = (self.path / "cgroup.procs").read_text().split()
        for process in left:
            os.kill(int(process), signal.SIGKILL)
        return not left
