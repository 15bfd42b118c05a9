"""A file that a FUSE server of our own keeps, which decides of each read when it ends and how."""
import contextlib
import ctypes
import errno
import mmap
import os
import select
import stat
import struct
import threading

import ending  # noqa: F401

IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")  # what begins a request, and a reply: /usr/include/linux/fuse.h
FORGET, GETATTR, OPEN, READ, RELEASE, INIT, INTERRUPT, BATCH_FORGET = 2, 3, 14, 15, 18, 26, 36, 42
VERSION = 7, 38
ASYNC_READ = 1  # FUSE_ASYNC_READ: who starts to read ahead does not wait for it
DIRECT_IO, KEEP_CACHE = 1, 2  # FOPEN_…
MODE = stat.S_IFREG | 0o444
LARGEST = 4096  # write, which nobody does
MNT_FORCE, MNT_DETACH = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def reply_to(what, content, direct, known):
    """The body of a reply, but for reads; None: there is no such operation. What is said of the file is known for so many seconds."""
    if what == INIT:
        return struct.pack("<4I2H2I2HI7I", *VERSION, 0, ASYNC_READ, 0, 0, LARGEST, 1, 0, 0, 0, *[0] * 7)
    if what == GETATTR:
        return struct.pack("<Q2I6Q10I", known, 0, 0, 1, len(content), 1, 0, 0, 0, 0, 0, 0, MODE, 1, 0, 0, 0, 512, 0)
    if what == OPEN:
        return struct.pack("<Q2I", 0, DIRECT_IO if direct else KEEP_CACHE, 0)
    return b"" if what == RELEASE else None


class Taking:
    """Whether the server takes requests; one that takes none is as one that is gone, and who has asked it can still be killed."""
    def __init__(self):
        self.gate, self.left, self.last = threading.Event(), threading.Event(), None
        self.gate.set()

    def wait(self, device):
        select.select([device], [], [])
        if self.last is None:
            self.hold()

    def took(self, what):
        if what == self.last:
            self.hold()

    def hold(self):
        if not self.gate.is_set():
            self.left.set()
            self.gate.wait()

    def end(self, last=None):
        """From now on; with `last`, from the next such request on, which is taken and not answered. Then `left` says that somebody waits."""
        self.last = last
        self.left.clear()
        self.gate.clear()

    def go_on(self):
        self.gate.set()


def serve(device, content, error_of, direct, answered, known, taking):
    """Until the file is unmounted. Each read has a thread, so that one which waits holds up no other; `answered` has its place once it has its answer."""
    def send(unique, body, error=0):
        with contextlib.suppress(FileNotFoundError, ConnectionError, PermissionError):  # nobody waits for it any more, or it was ended
            os.write(device, OUT.pack(OUT.size + len(body), -error, unique) + body)

    def read(unique, offset, size):
        error = error_of(offset)
        send(unique, b"" if error else content[offset:offset + size], error)
        answered(offset)

    while True:
        taking.wait(device)
        try:
            request = os.read(device, LARGEST + 8192)
        except OSError as end:
            if end.errno == errno.ENODEV:
                return
            raise
        _, what, unique, *_ = IN.unpack_from(request)
        if what in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        if what == READ:
            _, offset, size = struct.unpack_from("<2QI", request, IN.size)
            threading.Thread(target=read, args=(unique, offset, size)).start()
            continue
        taking.took(what)
        body = reply_to(what, content, direct, known)
        send(unique, body or b"", errno.ENOSYS if body is None else 0)


@contextlib.contextmanager
def fuse_file(path, content, error_of, direct=False, answered=lambda offset: None, taking=None):
    """`path` holds `content` meanwhile. `error_of` has the place of each read, and says which error it ends with, or 0; the read takes as long as it does.
    A read is of a page that is not in memory; with `direct`, it is each that a program does, as long as that one's, and who does it by an io_uring is held up.
    With `taking`, which says whether requests are taken at all, each look at the file is one."""
    path.touch()
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode={MODE:o},user_id=0,group_id=0"
        if libc.mount(b"chainio-test", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "no FUSE file", str(path))
        server = threading.Thread(target=serve, args=(device, content, error_of, direct, answered, 0 if taking else 1, taking or Taking()))
        server.start()
        try:
            yield
        except BaseException:
            libc.umount2(os.fsencode(path), MNT_FORCE)  # ends what a daemon still reads, which would keep the server and the error waiting
            raise
        finally:
            if taking:
                taking.go_on()
            libc.umount2(os.fsencode(path), MNT_DETACH)
            server.join()
    finally:
        os.close(device)


class Held:
    """Reads of pages from that of `begin` on wait until they are let go of: those that have come, and those that have their answer."""
    def __init__(self, begin):
        self.begin, self.pages, self.answered, self.gate = begin // mmap.PAGESIZE * mmap.PAGESIZE, set(), set(), threading.Event()

    def __call__(self, offset):
        if offset >= self.begin:
            self.pages.add(offset)
            self.gate.wait()
        return 0

    def let_go(self):
        self.gate.set()


@contextlib.contextmanager
def held_file(path, content, begin):
    """`path` holds `content` meanwhile; reads of pages from that of `begin` on wait until what this gives lets go of them."""
    held = Held(begin)
    with fuse_file(path, content, held, answered=held.answered.add):
        try:
            yield held
        finally:
            held.let_go()


def why_not():
    """Why no such file can be had here; empty when one can."""
    if os.geteuid() != 0:
        return "mounting a file of FUSE wants root"
    return "" if os.path.exists("/dev/fuse") else "the kernel has no FUSE"
