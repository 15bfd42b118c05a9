#!/usr/bin/env python3
"""Whoever deletes a file that the server has open has its space at once: every call that does is waited for, and no other is. Whoever unmounts a
file system of which the server has files open does so, and whoever has a lease for writing keeps it."""
import pathlib
import platform
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from run_process import SPEC
from shim import BUILD, Checks, Server  # noqa: E402

WAS_LATE = 75
SITES = BUILD / "bin" / "chainio-sites"

HEAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%d: %s (errno %d)\n", __LINE__, #x, errno); _exit(99); } } while (0)
#define HERE AT_FDCWD
#define LIBC(type, name) ((type)dlsym(dlopen("libc.so.6", RTLD_LAZY), name))
__attribute__((noinline)) static long raw(long n, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d; register long r8 __asm__("r8") = e; long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return r;
}
// Not every file system has leases.
static int leased(long result) { return result == 0 ? errno == 77 : result == -EINVAL || (result == -1 && errno == EINVAL); }
#define RAW(n, a, b, c, d, e) raw(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
static void make(const char* path) { int f = open(path, O_CREAT | O_WRONLY, 0600); CHECK(f >= 0 && close(f) == 0); }
int main(int n, char** a) { make("a.idx"); make("b.idx"); make("c.txt"); errno = 77; switch (atoi(a[1])) {
"""
# (what is true of the call, how often the server is waited for)
CASES = [(call, 1) for call in (
    'unlink("a.idx") == 0', 'unlinkat(HERE, "a.idx", 0) == 0', 'remove("a.idx") == 0', 'rename("c.txt", "a.idx") == 0',
    'renameat(HERE, "c.txt", HERE, "a.idx") == 0', 'renameat2(HERE, "c.txt", HERE, "a.idx", 0) == 0', 'rename("b.idx", "a.idx") == 0',
    'syscall(SYS_unlink, "a.idx") == 0', 'syscall(SYS_unlinkat, HERE, "a.idx", 0) == 0', 'syscall(SYS_rename, "c.txt", "a.idx") == 0',
    'syscall(SYS_renameat, HERE, "c.txt", HERE, "a.idx") == 0', 'syscall(SYS_renameat2, HERE, "c.txt", HERE, "a.idx", 0) == 0',
    'LIBC(int (*)(const char*), "unlink")("a.idx") == 0', 'LIBC(int (*)(const char*), "remove")("a.idx") == 0',
    'LIBC(int (*)(const char*, const char*), "rename")("c.txt", "a.idx") == 0',
    'leased(fcntl(open("a.idx", O_RDWR), F_SETLEASE, F_WRLCK))', 'leased(syscall(SYS_fcntl, open("a.idx", O_RDWR), F_SETLEASE, F_WRLCK))')] + [(call, 0) for call in (
    'leased(fcntl(open("c.txt", O_RDWR), F_SETLEASE, F_WRLCK))', 'leased(fcntl(open("a.idx", O_RDONLY), F_SETLEASE, F_RDLCK))',
    'fcntl(open("a.idx", O_RDWR), F_SETLEASE, F_UNLCK) == -1 && errno == EAGAIN', 'unlink("c.txt") == 0 && errno == 77', 'rename("a.idx", "d.txt") == 0 && errno == 77', 'mkdir("d.idx", 0700) == 0 && rmdir("d.idx") == 0',
    'unlink("none.idx") == -1 && errno == ENOENT', 'unlink((char*)8) == -1 && errno == EFAULT', 'unlink(0) == -1 && errno == EFAULT',
    'unlinkat(HERE, (char*)8, 0) == -1 && errno == EFAULT', 'remove((char*)8) == -1 && errno == EFAULT', 'rename("a.idx", (char*)8) == -1 && errno == EFAULT',
    'renameat(HERE, "a.idx", HERE, (char*)8) == -1 && errno == EFAULT', 'renameat2(HERE, "a.idx", HERE, "b.idx", 1) == -1 && errno == EEXIST',
    'syscall(SYS_unlink, 8) == -1 && errno == EFAULT', 'unlink("/proc/a.idx") == -1')]
REWRITTEN = [(call, 1) for call in (
    'RAW(SYS_unlink, "a.idx", 0, 0, 0, 0) == 0', 'RAW(SYS_unlinkat, HERE, "a.idx", 0, 0, 0) == 0', 'RAW(SYS_rename, "c.txt", "a.idx", 0, 0, 0) == 0',
    'RAW(SYS_renameat, HERE, "c.txt", HERE, "a.idx", 0) == 0', 'RAW(SYS_renameat2, HERE, "c.txt", HERE, "a.idx", 0) == 0',
    'leased(RAW(SYS_fcntl, open("a.idx", O_RDWR), F_SETLEASE, F_WRLCK, 0, 0))')] + [(call, 0) for call in (
    'RAW(SYS_unlink, 8, 0, 0, 0, 0) == -EFAULT', 'RAW(SYS_unlink, "c.txt", 0, 0, 0, 0) == 0')]


def each_call(checks, data):
    cases = CASES + (REWRITTEN if platform.machine() == "x86_64" else [])
    program = checks.compile("removes", HEAD + "".join(f"case {i}: CHECK({call}); break;\n" for i, (call, _) in enumerate(cases)) + "} return 0; }\n")
    for first, last, sites in (0, len(CASES), None), (len(CASES), len(cases), SITES):
        with Server(checks.folder, sites=sites, classes=["*.idx"], holds=True) as server:
            before = 0
            for i in range(first, last):
                done = server.run(program, i, cwd=data, capture_output=True)
                now = server.say("next")["removals"]
                checks.same(f"{cases[i][0]}: exit code and how often the server is waited for", (done.returncode, done.stderr, now - before), (0, b"", cases[i][1]))
                before = now
    with Server(checks.folder, classes=["*.idx"], holds=True) as server:
        server.say("asleep")
        checks.same("a server that sleeps: exit code", server.run(program, 0, cwd=data).returncode, 0)
        checks.same("a server that sleeps is woken", server.say("next")["asleep"], 0)
    with Server(checks.folder, classes=["*.idx"]) as server:
        checks.same("a server without files: exit code", server.run(program, 0, cwd=data).returncode, 0)
        checks.same("a server without files is not waited for", server.say("next")["removals"], 0)


def in_vain(checks, data):
    """Of a server that does not answer a process has enough at some time, and of one that is dead at once."""
    program = checks.compile("often", HEAD + 'default: for (int i = 0; i < 10; ++i) { make("a.idx"); CHECK(unlink("a.idx") == 0); } } return 0; }\n')
    with Server(checks.folder, classes=["*.idx"], holds=True) as server:
        server.say("deaf")
        checks.same("a deaf server: exit code", server.run(program, 0, cwd=data).returncode, 0)
        checks.same("a deaf server: waits", server.say("next")["removals"], 8)
    checks.same("a deaf server: told", [event["source"] for event in server.of("note")], [11] * 8)
    with Server(checks.folder, classes=["*.idx"], holds=True, server=2 ** 31 - 1) as server:
        checks.same("a dead server: exit code", server.run(program, 0, cwd=data).returncode, 0)
        checks.same("a dead server: waits", server.say("next")["removals"], 0)


HELD = """import ctypes, os, sys
sys.path.insert(0, sys.argv[2])
import runs
def held():
    servers = runs.servers_of(os.getppid())
    if not servers: return
    folder = f"/proc/{servers[0]}/fd"
    for number in os.listdir(folder):
        try: yield os.readlink(f"{folder}/{number}")
        except FileNotFoundError: pass
"""
DELETES = HELD + """
def delete(name):
    other = name + ".other"
    if sys.argv[1] == "rename":
        open(other, "w").close()
        os.rename(other, name)
    else: os.unlink(name)
kept = 0
for i in range(20):
    name = os.path.abspath(f"{i}.note")
    with open(name, "wb") as file: file.write(bytes(65536))
    descriptor = os.open(name, os.O_RDONLY)
    while name not in held(): os.pread(descriptor, 4096, 0)
    os.close(descriptor)
    delete(name)
    kept += name + " (deleted)" in held()
print(kept)
"""


# A call that was refused after as long as the server is waited for was refused since that did not run: such a try says nothing.
LATE = "LATE = 0.1\nimport time\n"
UNMOUNTS = HELD + LATE + """
libc = ctypes.CDLL(None, use_errno=True)
def unmount(call, free):
    begin = time.monotonic()
    ctypes.set_errno(77)
    got = call(), ctypes.get_errno()
    if free and got[0] and time.monotonic() - begin >= LATE: sys.exit(75)
    return got
os.makedirs("m", exist_ok=True)
said, name = [], os.path.abspath("m/a.note")
found = ctypes.CDLL("libc.so.6", use_errno=True)
ways = [lambda: found.umount(b"m"), lambda: found.umount2(b"m", 0), lambda: libc.umount(b"m"), lambda: libc.umount2(b"m", 0), lambda: libc.syscall(UMOUNT2, b"m", 0)]
for call in ways * 3:
    if libc.mount(b"none", b"m", b"tmpfs", 0, None) != 0: sys.exit(77)
    with open(name, "wb") as file: file.write(bytes(65536))
    descriptor = os.open(name, os.O_RDONLY)
    while name not in held(): os.pread(descriptor, 4096, 0)
    said.append(unmount(call, False))
    os.close(descriptor)
    said.append(unmount(call, True))
print(said == [(-1, 16), (0, 77)] * 15 or said)
"""


def unmounted(checks):
    """A file system is unmounted though the server has a file of it open; one that the program keeps busy itself stays."""
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "unmounts.py").write_text(UNMOUNTS.replace("UMOUNT2", "166" if platform.machine() == "x86_64" else "39"))
        program = [sys.executable, "unmounts.py", "", pathlib.Path(runs.__file__).parent]
        apart = [] if shutil.which("unshare") is None else ["unshare", "--mount"]
        for _ in runs.tries():
            done = subprocess.run([*apart, *folder.command(["--spec", "good.chain", "--no-gate"], program)], cwd=folder.path, env=folder.environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            if done.returncode != WAS_LATE:
                break
        if not apart or done.returncode == 77 or b"unshare failed" in done.stderr:
            print("skipped: nothing can be mounted here")
            return
        checks.same("results and errors of umount", (done.returncode, done.stdout), (0, b"True\n"))


# How it sets a lease, then: the descriptor and copies of it, made before and after, in this program and in one that it executes, are read by. SIGIO
# ends it. Whoever is refused the lease, as the file is open twice, is seen as before.
LEASES = HELD + LATE + """
import fcntl, signal, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def by(call, *first):
    def set(descriptor):
        ctypes.set_errno(77)
        return call(*first, descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK), ctypes.get_errno()
    return set
ways = {"fcntl": by(libc.fcntl), "fcntl64": by(libc.fcntl64), "syscall": by(libc.syscall, FCNTL)}
set, name = ways[sys.argv[1]], os.path.abspath("a.note")
with open(name, "wb") as file: file.write(bytes(1 << 20))
def wait_until_held(descriptor):
    while name not in held(): os.pread(descriptor, 4096, 0)
descriptor = os.open(name, os.O_RDWR)
other = os.open(name, os.O_RDONLY)
said = []
if sys.argv[3:]:
    signal.alarm(60)
    wait_until_held(descriptor)
said.append(set(descriptor))
if sys.argv[3:]: wait_until_held(descriptor)
os.close(other)
copy = os.dup(descriptor)
for i in range(50): os.pread(descriptor, 4096, i * 8192)
begin = time.monotonic()
said.append(set(descriptor))
if said[-1][0] and time.monotonic() - begin >= LATE: sys.exit(75)
readers = [descriptor, copy, os.dup(descriptor)]
for i in range(40):
    for reader in readers: os.pread(reader, 4096, i * 12288)
    time.sleep(0.001)
subprocess.run(["cat"], stdin=descriptor, stdout=subprocess.DEVNULL)
time.sleep(0.2)
print(said, fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_WRLCK)
"""


def leased(checks):
    """A lease for writing is got though the server has the file open, and what is read then does not break it."""
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "leases.py").write_text(LEASES.replace("FCNTL", "72" if platform.machine() == "x86_64" else "25"))
        for how in ("fcntl", "fcntl64", "syscall"):
            program = [sys.executable, "leases.py", how, pathlib.Path(runs.__file__).parent]
            plain = subprocess.run(program, cwd=folder.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            if plain.stdout != b"[(-1, 11), (0, 77)] True\n":
                return print(f"skipped: no leases here: {plain}")
            for _ in range(3):
                for _ in runs.tries():
                    done = folder.run(["--spec", "good.chain", "--no-gate"], [*program, "beside"])
                    if done.returncode != WAS_LATE:
                        break
                ended = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
                checks.same(f"{how}: a lease for writing", (ended, done.stdout), (0, plain.stdout))


def beside_server(checks):
    """Nothing that was deleted is open in the server any more when the call returns, unless the summary says so."""
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "deletes.py").write_text(DELETES)
        for how in ("unlink", "rename"):
            for _ in runs.tries():
                done, summary = folder.summarized(["--spec", "good.chain", "--no-gate"], [sys.executable, "deletes.py", how, pathlib.Path(runs.__file__).parent])
                told = sum("was not free at once" in note for note in summary["notes"])
                if done.returncode != 0 or done.stdout == b"0\n" or not told:
                    break
            checks.true(f"{how}: what was deleted is not open", done.returncode == 0 and done.stdout == b"0\n", (done, summary["notes"]))


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    each_call(checks, data)
    in_vain(checks, data)
    beside_server(checks)
    unmounted(checks)
    leased(checks)
    checks.finish()


if __name__ == "__main__":
    main()
