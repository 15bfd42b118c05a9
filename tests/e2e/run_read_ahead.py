#!/usr/bin/env python3
"""Files of `no_read_ahead` classes: the kernel reads what a program asks for and nothing ahead, in what the program has opened itself; what others may read by, what it
opens otherwise and what it asks for itself stay as they are. The bytes are the same."""
import ctypes
import mmap
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import drop_from_memory, expect

PAGE, PAGES = 4096, 1024
AT, PIECES = 64, 4  # the page where the program begins, and how many pieces it reads in a row
PIECE = 4  # pages
# Nothing is fetched: what is in memory afterwards the kernel has read for the program.
SPEC = """app columns {{ files columns = "*.col" {{ {attribute} }} }}
chain never on read(columns) as r {{ when r.file.read_ahead {asks} {{ prefetch r.file at 0 for 4096 }} }}
"""
PROGRAM = r'''
import os, resource, sys
how, path, at, pieces, length = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
if how == "at the limit":
    last = os.dup(0)
    os.close(last)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, last + 1))
if how == "/proc is back":
    import ctypes
    os.close(os.open(path, os.O_RDONLY))
    if ctypes.CDLL(None).umount(b"/proc"): sys.exit(5)
if how == "inherited": fd = 0
elif how == "written too": fd = os.open(path, os.O_RDWR)
else: fd = os.open(path, os.O_RDONLY)
if how == "its own wish": os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL)
os.lseek(fd, at, os.SEEK_SET)
if how == "duplicated": fd = os.dup(fd)
if how == "in a child" and os.fork() != 0: sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
for _ in range(pieces): sys.stdout.buffer.write(os.read(fd, length))
sys.stdout.buffer.flush()
'''
# Goes through the file again and again, by one descriptor and cold each time, until the kernel reads ahead there; then by two of which the program has said itself that it reads
# at random, by the function and by the system call's number. Pages are taken out of memory by a name that no class matches.
THROUGH = r'''
import ctypes, mmap, os, sys, time
path, other, length, patience = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
fd, own, numbered = (os.open(path, os.O_RDONLY) for _ in range(3))
os.posix_fadvise(own, 0, 0, os.POSIX_FADV_RANDOM)
if ctypes.CDLL(None).syscall(221, numbered, ctypes.c_long(0), ctypes.c_long(0), os.POSIX_FADV_RANDOM): sys.exit(4)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # of pages, and not how it is read
drop, size = os.open(other, os.O_RDONLY), os.fstat(fd).st_size
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, drop, 0)
def reads_ahead(fd):
    """Whether the kernel does, in one pass."""
    os.posix_fadvise(drop, 0, 0, os.POSIX_FADV_DONTNEED)
    os.lseek(fd, 0, os.SEEK_SET)
    there = ctypes.c_ubyte()
    for end in range(length, size, length):
        if len(os.read(fd, length)) != length: sys.exit(3)
        libc.mincore(ctypes.c_void_p(at + end), ctypes.c_size_t(4096), ctypes.byref(there))
        if there.value & 1: return True
    return False
end = time.monotonic() + patience
while not (found := reads_ahead(fd)) and time.monotonic() < end: pass
print(*("ahead" if it else "never" for it in (found, reads_ahead(own), reads_ahead(numbered))))
'''
# Lets all system calls through but one, for which it ends the program; or, where a third argument is named as well, refuses it with that one.
FILTERED = r'''
import ctypes, os, sys
class Line(ctypes.Structure): _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
call, _, third = sys.argv[1].partition(":")
asks = [(0x20, 0, 0, 32), (0x15, 0, 1, int(third)), (0x06, 0, 0, 0x00050005)] if third else [(0x06, 0, 0, 0x80000000)]
lines = (Line * (3 + len(asks)))((0x20, 0, 0, 0), (0x15, 0, len(asks), int(call)), *asks, (0x06, 0, 0, 0x7fff0000))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(len(lines), ctypes.addressof(lines)))): sys.exit(77)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
'''


def fill(path):
    path.write_bytes(b"".join(number.to_bytes(8, "little") * (PAGE // 8) for number in range(PAGES)))


def in_memory(path):
    """The numbers of the file's pages that are in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fd = os.open(path, os.O_RDONLY)
    try:
        at = libc.mmap(None, PAGES * PAGE, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    finally:
        os.close(fd)
    there = (ctypes.c_ubyte * PAGES)()
    if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(PAGES * PAGE), there):
        raise OSError(ctypes.get_errno(), "mincore")
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(PAGES * PAGE))
    return {number for number in range(PAGES) if there[number] & 1}


class Test:
    def __init__(self, folder):
        self.folder, self.path = folder, folder.path / "a.col"
        fill(self.path)
        self.asked_for = set(range(AT, AT + PIECES * PIECE))
        whole = self.path.read_bytes()
        self.wanted = whole[AT * PAGE:(AT + PIECES * PIECE) * PAGE]

    def spec(self, attribute, asks="== 1"):
        path = self.folder.path / f"{attribute or 'plain'}{asks[:1]}.chain"
        path.write_text(SPEC.format(attribute=attribute, asks=asks))
        return path

    def run(self, how, attribute="no_read_ahead", asks="== 1", before=(), options=(), within=()):
        """What the kernel has read beyond what was asked for, in pages, and the summary."""
        words = [*within, sys.executable, *before, "-c", PROGRAM, how, self.path, AT * PAGE, PIECES, PIECE * PAGE]
        for _ in runs.tries():
            drop_from_memory(self.path)
            with open(self.path, "rb", buffering=0) as given:
                more = {"stdin": given} if how == "inherited" else {}
                done, summary = self.folder.summarized(["--spec", self.spec(attribute, asks), *options], words, **more)
            there = in_memory(self.path)
            expect(f"{how}, {attribute or 'plain'}: the bytes", (done.returncode, done.stdout == self.wanted, done.stderr.decode()[-500:]), (0, True, ""))
            if self.asked_for <= there:
                break  # else the machine has lost some of the page cache since
        expect(f"{how}, {attribute or 'plain'}: what was asked for is in memory", self.asked_for - there, set())
        return len(there - self.asked_for), summary


def skip_where_nothing_is_read_ahead(test):
    drop_from_memory(test.path)
    fd = os.open(test.path, os.O_RDONLY)
    for number in range(PIECES):
        os.pread(fd, PIECE * PAGE, (AT + number * PIECE) * PAGE)
    os.close(fd)
    if in_memory(test.path) == test.asked_for:
        print("skipped: the kernel reads nothing ahead here")
        sys.exit(77)


def figure(summary):
    return summary["classes"][0]["no_read_ahead"]


def test_opened(test):
    for how in ("opened", "written too", "duplicated", "in a child", "at the limit"):
        more, summary = test.run(how)
        expect(f"{how}: nothing was read ahead, and the summary counts the opening", (more, figure(summary)), (0, 1))


def test_left_alone(test):
    """As without the library, in which the kernel reads ahead of who goes through a file."""
    for how, attribute, counted in (("opened", "", 0), ("opened", "immutable", 0), ("inherited", "no_read_ahead", 0), ("its own wish", "no_read_ahead", 1)):
        more, summary = test.run(how, attribute)
        expect(f"{how}, {attribute or 'plain'}: the kernel reads ahead", (more > 0, figure(summary)), (True, counted))


def test_chains_know(test):
    for attribute, fetches in (("no_read_ahead", 1), ("", 0)):
        for _ in runs.tries():
            _, summary = test.run("opened", attribute, "== 0", options=["--no-gate"])
            if summary["chains"][0]["fetches"] >= fetches:
                break
        expect(f"r.file.read_ahead is 0 of {attribute or 'no other'} classes", min(summary["chains"][0]["fetches"], 1), fetches)


def test_filtered(test):
    script = test.folder.path / "filtered.py"
    script.write_text(FILTERED)
    for number, call in ((221, "posix_fadvise"), (157, "prctl")):
        more, summary = test.run("opened", before=[script, number, "-I"])
        expect(f"under a filter that ends programs for {call}: the kernel reads ahead", (more > 0, figure(summary)), (True, 0))
        expect("and the summary says why", summary["notes"], lambda notes: any("no_read_ahead" in note and "seccomp" in note for note in notes))
    # It says nothing of itself where what tells of it cannot be read, which the library does by 1024 bytes.
    more, summary = test.run("opened", before=[script, "0:1024", "-I"])
    expect("where what tells of a filter cannot be read: the kernel reads ahead", (more > 0, figure(summary)), (True, 0))


def test_not_known(test):
    """Without /proc, nothing says whether there is a filter: as under one, but for the note. It is not asked again."""
    within = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        return print("skipped: /proc cannot be hidden from a program here")
    for how in ("opened", "/proc is back"):
        more, summary = test.run(how, within=within)
        expect(f"without /proc, {how}: the kernel reads ahead", (more > 0, figure(summary)), (True, 0))
        expect("and the summary does not say that there is a filter", [note for note in summary["notes"] if "seccomp" in note], [])


def test_taken_back(test):
    """Who goes through a file in pieces of which no chain speaks gets the kernel's read-ahead back, in a file that it has open; unless the program has said itself how it reads, or
    no gate is wanted."""
    other = test.folder.path / "a.other"
    os.link(test.path, other)
    words = [sys.executable, "-c", THROUGH, test.path, other, PIECE * PAGE]
    for options, patience, wanted in (((), 60, "ahead never never\n"), (("--no-gate",), 1, "never never never\n")):
        drop_from_memory(test.path)
        done, summary = test.folder.summarized(["--spec", test.spec("no_read_ahead"), *options], [*words, patience])
        expect(f"left alone, {options}", (done.returncode, done.stdout.decode(), done.stderr.decode()[-500:], figure(summary)), (0, wanted, "", 3))


def main():
    with runs.Folder() as folder:
        test = Test(folder)
        skip_where_nothing_is_read_ahead(test)
        for one in (test_opened, test_left_alone, test_chains_know, test_filtered, test_not_known, test_taken_back):
            one(test)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
