"""A file that a FUSE server of our own keeps, whose reads are refused at first."""
import collections
import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading

IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")  # what begins a request, and a reply: /usr/include/linux/fuse.h
FORGET, GETATTR, OPEN, READ, RELEASE, INIT, INTERRUPT, BATCH_FORGET = 2, 3, 14, 15, 18, 26, 36, 42
VERSION = 7, 38
DIRECT_IO = 1  # FOPEN_DIRECT_IO: each read of the file is a request, as long as the reader's
MODE = stat.S_IFREG | 0o444
LARGEST = 4096  # write, which nobody does
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


def reply_to(what, body, content):
    """The body of a reply; None: there is no such operation."""
    if what == INIT:
        return struct.pack("<4I2H2I2HI7I", *VERSION, 0, 0, 0, 0, LARGEST, 1, 0, 0, 0, *[0] * 7)
    if what == GETATTR:
        return struct.pack("<Q2I6Q10I", 1, 0, 0, 1, len(content), 1, 0, 0, 0, 0, 0, 0, MODE, 1, 0, 0, 0, 512, 0)
    if what == OPEN:
        return struct.pack("<Q2I", 0, DIRECT_IO, 0)
    if what == READ:
        _, offset, size = struct.unpack_from("<2QI", body)
        return content[offset:offset + size]
    return b"" if what == RELEASE else None


def serve(device, content, error, times):
    """Until the file is unmounted."""
    refused = collections.Counter()
    while True:
        try:
            request = os.read(device, LARGEST + 8192)
        except OSError as end:
            if end.errno == errno.ENODEV:
                return
            raise
        _, what, unique, *_ = IN.unpack_from(request)
        if what in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        place = request[IN.size + 8:IN.size + 16]  # of a read
        body, code = reply_to(what, request[IN.size:], content), 0
        if body is None:
            body, code = b"", -errno.ENOSYS
        elif what == READ and refused[place] < times:
            body, code = b"", -error
            refused[place] += 1
        os.write(device, OUT.pack(OUT.size + len(body), code, unique) + body)


@contextlib.contextmanager
def refusing_file(path, content, error, times):
    """`path` holds `content` meanwhile; the first reads at each place of it, so many, end with the error."""
    path.touch()
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode={MODE:o},user_id=0,group_id=0"
        if libc.mount(b"refusing", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "no FUSE file", str(path))
        server = threading.Thread(target=serve, args=(device, content, error, times))
        server.start()
        try:
            yield
        finally:
            libc.umount2(os.fsencode(path), MNT_DETACH)
            server.join()
    finally:
        os.close(device)
