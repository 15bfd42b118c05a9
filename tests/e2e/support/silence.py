"""A file system in user space, without a library, that stops answering when it is told to: one file in its root, of 1 MiB unless said otherwise."""
import contextlib
import ctypes
import os
import select
import struct
import threading

import ending  # noqa: F401

SIZE = 1 << 20
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 17, 18, 25, 26, 36, 42
NO_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
HEADER = struct.Struct("<IIQQIIIHH")  # of a request
libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Empty, or why there can be none here."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse"
    return ""


def attributes(inode, size):
    mode = 0o040755 if inode == 1 else 0o100644
    return struct.pack("<6Q10I", inode, 0 if inode == 1 else size, 0, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Volume:
    """`name` is its one file. What is asked for is to be asked for again the next time."""
    def __init__(self, folder, name, content=bytes(SIZE), at_once=0):
        self.content = content
        self.at_once = at_once  # reads that nobody waits for yet; who asks for more waits then. 0: the kernel's 12
        self.folder, self.name, self.silent, self.reads_on = folder, name, False, True
        self.silent_from = SIZE  # reads at such offsets get no answer either
        self.read_far = threading.Event()  # something behind the middle was read
        self.asked = threading.Event()  # something was asked that gets no answer, and that somebody waits for
        self.released = threading.Event()  # an opening has gone: nobody waits for that, so that it comes some time after the close
        self.come, self.wake = os.pipe()

    def __enter__(self):
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.thread = threading.Thread(target=self.answer_all, daemon=True)
        words = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"chainio-silence", bytes(self.folder), b"fuse", 6, words.encode()) != 0:
            os.close(self.fd)
            raise OSError(ctypes.get_errno(), "the file system cannot be mounted")
        self.thread.start()
        return self

    def __exit__(self, *_):
        libc.umount2(bytes(self.folder), 2)  # MNT_DETACH: whoever still waits for an answer has it in use
        os.write(self.wake, b"e")
        self.thread.join()
        os.close(self.fd)  # all that was asked fails
        os.close(self.come)
        os.close(self.wake)

    def be_silent(self, reads_on):
        """What is asked from now on gets no answer; `reads_on`: but is taken, so that who asked cannot be killed."""
        self.reads_on, self.silent = reads_on, True
        os.write(self.wake, b"s")

    def answer_all(self):
        watched = {self.fd, self.come}
        while True:
            ready = select.select(watched, [], [])[0]
            if self.come in ready and os.read(self.come, 1) == b"e":
                return
            if self.fd not in ready:
                continue
            if self.silent and not self.reads_on:
                watched.discard(self.fd)
                self.asked.set()
                continue
            with contextlib.suppress(OSError):  # it was interrupted meanwhile
                self.answer(os.read(self.fd, 1 << 20))

    def answer(self, request):
        _, operation, unique, inode, *_ = HEADER.unpack_from(request)
        if operation in NO_ANSWER:
            return
        if self.silent or (operation == READ and struct.unpack_from("<8xQ", request, HEADER.size)[0] >= self.silent_from):
            if operation != RELEASE:
                self.asked.set()
            return
        if operation == RELEASE:
            self.released.set()
        error, reply = self.reply_to(operation, inode, request[HEADER.size:])
        os.write(self.fd, struct.pack("<IiQ", 16 + len(reply), -error, unique) + reply)

    def reply_to(self, operation, inode, body):
        if operation == INIT:  # with FUSE_ASYNC_READ, as libfuse's
            _, _, ahead, _ = struct.unpack_from("<4I", body)
            return 0, struct.pack("<4I2H3I", 7, 31, ahead, 1, self.at_once, self.at_once, 1 << 16, 1, 0) + bytes(28)
        if operation == LOOKUP:
            return (0, struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2, len(self.content))) if body.rstrip(b"\0") == self.name.encode() else (2, b"")
        if operation == GETATTR:
            return 0, struct.pack("<Q2I", 0, 0, 0) + attributes(inode, len(self.content))
        if operation == OPEN:
            return 0, struct.pack("<Q2I", 1, 0, 0)
        if operation == READ:
            offset, size = struct.unpack_from("<8xQI", body)
            if offset >= SIZE // 2:
                self.read_far.set()
            return 0, self.content[offset:offset + size]
        if operation == STATFS:
            return 0, struct.pack("<5Q4I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0) + bytes(24)
        return (0, b"") if operation in (RELEASE, FLUSH) else (38, b"")
