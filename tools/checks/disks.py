"""Where files lie."""
import functools
import subprocess


@functools.cache
def is_memory(folder):
    """Whether files there lie in memory only, so that none can be taken out of it and read from a disk."""
    return subprocess.run(["stat", "--file-system", "--format=%T", folder], capture_output=True, text=True).stdout.strip() in ("tmpfs", "ramfs")
