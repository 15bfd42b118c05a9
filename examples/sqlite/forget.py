#!/usr/bin/env python3
"""forget.py FILE…: takes files out of the page cache, so that the next program has to read them from the disk."""
import os
import sys

for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
