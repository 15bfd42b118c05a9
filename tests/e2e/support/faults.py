"""Errors that strace has a process's system calls end with, one at a time."""
import re
import shutil
import subprocess

# What the kernel says when it is short of something, or a disk fails, of calls that Debian's C library and musl make.
ERRORS = {"open": "EMFILE", "openat": "EMFILE", "stat": "ENOMEM", "newfstatat": "ENOMEM", "fstat": "EIO", "access": "EIO", "readlink": "ENOMEM", "read": "EIO", "pread64": "EIO",
          "mmap": "ENOMEM", "mkdir": "ENOSPC", "ftruncate": "ENOSPC", "fallocate": "ENOSPC", "flock": "ENOLCK", "fcntl": "EINVAL", "statfs": "EIO", "getdents64": "EIO", "madvise": "EINVAL",
          "utimensat": "EROFS", "prlimit64": "EPERM", "capget": "EPERM", "capset": "EPERM", "dup2": "EBUSY", "pipe2": "EMFILE", "clone": "EAGAIN", "pidfd_open": "ENOSYS"}


class Call:
    """The `number`-th call of that name in its process, as strace writes it."""

    def __init__(self, name, number, line):
        self.name, self.number, self.line = name, number, line

    def fails_with(self, error):
        return ["-e", f"inject={self.name}:error={error}:when={self.number}"]


def why_not():
    """Why nothing can be injected here; empty when it can."""
    if shutil.which("strace") is None:
        return "there is no strace to have calls fail"
    done = subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EPERM", "true"], capture_output=True, text=True)
    return f"strace cannot have calls fail here: {done.stderr.strip()}" if done.returncode != 0 else ""


def calls(log):
    """Those of the process that strace has started, in their order."""
    seen, found = {}, []
    for line in log.read_text(errors="replace").splitlines():
        if name := re.match(r"(\w+)\(", line):
            seen[name[1]] = seen.get(name[1], 0) + 1
            found.append(Call(name[1], seen[name[1]], line))
    return found
