#!/usr/bin/env python3
"""Every way in which a program opens, reads and closes a file: the events are exactly those that the calls say, in their order."""
import os
import pathlib
import resource
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import LIBRARY, UNSEEN_CLOSE, Checks, Server, summary  # noqa: E402

HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t __read_chk(int, void*, size_t, size_t); ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off_t, size_t); int __open_2(const char*, int); int __open64_2(const char*, int);
int __openat_2(int, const char*, int); int __openat64_2(int, const char*, int); int __dup2(int, int); ssize_t __read(int, void*, size_t);
int __open(const char*, int, ...); int __open64(const char*, int, ...); int __close(int); ssize_t __pread64(int, void*, size_t, off_t);
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*); char* __fgets_chk(char*, size_t, int, FILE*); int __uflow(FILE*); int _IO_getc(FILE*);
size_t __fread_unlocked_chk(void*, size_t, size_t, size_t, FILE*); char* __fgets_unlocked_chk(char*, size_t, int, FILE*);
int close_range(unsigned, unsigned, int); void closefrom(int);
static char b[1 << 16] __attribute__((aligned(4096)));
#define P "a.idx"
static struct iovec v[2] = {{b, 10}, {b + 100, 20}};
""" + UNSEEN_CLOSE + """
int main(int n, char** a) {
"""
O, C = ("opened", 0, "a.idx"), ("closed",)


def r(offset, length):
    return ("read", offset, length)


# (what, the program's statements, the events)
OPENS = [(call, f"int f = {call}; close(f);", [O, C]) for call in (
    "open(P, O_RDONLY)", "open64(P, O_RDONLY)", "__open(P, 0)", "__open64(P, 0)", "__open_2(P, 0)", "__open64_2(P, 0)",
    "openat(AT_FDCWD, P, 0)", "openat64(AT_FDCWD, P, 0)", "__openat_2(AT_FDCWD, P, 0)", "__openat64_2(AT_FDCWD, P, 0)",
    "syscall(SYS_open, P, 0)", "syscall(SYS_openat, AT_FDCWD, P, 0)", "open(a[1], 0)", "openat(open(\".\", O_DIRECTORY), P, 0)",
    "open(\"./../data/./a.idx\", O_RDONLY)", "((int (*)(const char*, int))dlsym(dlopen(\"libc.so.6\", RTLD_LAZY), \"open64\"))(P, 0)",
    "({ struct open_how h = {.flags = O_RDONLY}; syscall(SYS_openat2, AT_FDCWD, P, &h, sizeof h); })")]
CREATES = [(call, f"int f = {call}; close(f);", [("opened", 0, "new.idx"), C]) for call in (
    "creat(\"new.idx\", 0600)", "creat64(\"new.idx\", 0600)", "open(\"new.idx\", O_CREAT | O_RDWR, 0640)", "syscall(SYS_creat, \"new.idx\", 0600)")]
NOTHING = [(call, f"int f = {call}; read(f, b, 10); close(f);", []) for call in (
    "open(\"b.txt\", 0)", "open(\"none.idx\", 0)", "open(P, O_PATH)", "open(\".\", O_TMPFILE | O_RDWR, 0600)", "open(\"dir.idx\", O_RDONLY)", "open(\"disk.idx\", O_RDONLY)")]
READS = [(call, f"int f = open(P, 0); lseek(f, 100, 0); {call}; close(f);", [O, *events, C]) for call, events in (
    ("read(f, b, 10)", [r(100, 10)]), ("__read(f, b, 10)", [r(100, 10)]), ("__read_chk(f, b, 10, sizeof b)", [r(100, 10)]),
    ("read(f, b, 10); read(f, b, 20)", [r(100, 10), r(110, 20)]), ("read(f, b, 60000)", [r(100, 9900)]),
    ("read(f, b, 0)", []), ("lseek(f, 0, 2); read(f, b, 5)", []), ("read(f, (void*)8, 5)", []),
    ("pread(f, b, 7, 4096)", [r(4096, 7)]), ("pread64(f, b, 7, 4096)", [r(4096, 7)]), ("__pread64(f, b, 7, 4096)", [r(4096, 7)]),
    ("__pread_chk(f, b, 7, 4096, sizeof b)", [r(4096, 7)]), ("__pread64_chk(f, b, 7, 4096, sizeof b)", [r(4096, 7)]),
    ("readv(f, v, 2)", [r(100, 30)]), ("preadv(f, v, 2, 50)", [r(50, 30)]), ("preadv64(f, v, 2, 50)", [r(50, 30)]),
    ("preadv2(f, v, 2, 50, 0)", [r(50, 30)]), ("preadv2(f, v, 2, -1, 0)", [r(100, 30)]), ("preadv64v2(f, v, 2, 50, 0)", [r(50, 30)]),
    ("syscall(SYS_read, f, b, 10)", [r(100, 10)]), ("syscall(SYS_pread64, f, b, 7, 4096L)", [r(4096, 7)]),
    ("syscall(SYS_readv, f, v, 2)", [r(100, 30)]), ("syscall(SYS_preadv, f, v, 2, 50L, 0L)", [r(50, 30)]),
    ("syscall(SYS_preadv2, f, v, 2, 50L, 0L, 0)", [r(50, 30)]),
    ("((ssize_t (*)(int, void*, size_t, off_t))dlsym(dlopen(\"libc.so.6\", RTLD_LAZY), \"pread\"))(f, b, 3, 5)", [r(5, 3)]),
    ("((ssize_t (*)(int, void*, size_t))dlsym(RTLD_NEXT, \"read\"))(f, b, 3)", [r(100, 3)]),
    ("((ssize_t (*)(int, void*, size_t))dlsym(RTLD_DEFAULT, \"read\"))(f, b, 3)", [r(100, 3)]),
    ("int s[2]; socketpair(1, 1, 0, s); sendfile(s[0], f, 0, 50)", [r(100, 50)]),
    ("int s[2]; socketpair(1, 1, 0, s); off_t o = 7; sendfile64(s[0], f, &o, 50); if (o != 57) abort()", [r(7, 50)]),
    ("int s[2]; socketpair(1, 1, 0, s); off_t o = 7; syscall(SYS_sendfile, s[0], f, &o, 50L)", [r(7, 50)]),
    ("int s[2]; pipe(s); splice(f, 0, s[1], 0, 60, 0)", [r(100, 60)]),
    ("int s[2]; pipe(s); off_t o = 9; splice(f, &o, s[1], 0, 60, 0)", [r(9, 60)]),
    ("int g = open(\"out\", O_RDWR | O_CREAT, 0600); copy_file_range(f, 0, g, 0, 80, 0)", [r(100, 80)]),
    ("int g = open(\"out\", O_RDWR | O_CREAT, 0600); off_t o = 11; syscall(SYS_copy_file_range, f, &o, g, 0L, 80L, 0)", [r(11, 80)]),
    ("int s[2]; socketpair(1, 1, 0, s); if (sendfile(s[0], f, (off_t*)8, 50) != -1 || errno != EFAULT) abort()", []),
    ("int s[2]; socketpair(1, 1, 0, s); if (syscall(SYS_sendfile, s[0], f, 8L, 50L) != -1 || errno != EFAULT) abort()", []),
    ("int s[2]; pipe(s); if (splice(f, (off_t*)8, s[1], 0, 60, 0) != -1 || errno != EFAULT) abort()", []),
    ("int g = open(\"out\", O_RDWR | O_CREAT, 0600); if (copy_file_range(f, (off_t*)8, g, 0, 80, 0) != -1 || errno != EFAULT) abort()", []),
    ("mmap(0, 100, PROT_READ, MAP_PRIVATE, f, 0); mmap64(0, 100, PROT_READ, MAP_SHARED, f, 0)", [("note", 6, "")]),
    ("mmap(0, 100, PROT_NONE, MAP_PRIVATE, f, 0)", []),
    ("mmap(0, 100, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, f, 0)", []))]
DESCRIPTORS = [(call, f"int f = open(P, 0), g = -1; {call}", [O, *events]) for call, events in (
    ("g = dup(f); close(f); read(g, b, 5); close(g);", [r(0, 5), C]),
    ("g = dup2(f, 77); read(g, b, 5); read(f, b, 6); close(f); close(g);", [r(0, 5), r(5, 6), C]),
    ("g = __dup2(f, 77); __close(f); read(77, b, 5); __close(77);", [r(0, 5), C]),
    ("g = dup3(f, 77, O_CLOEXEC); close(f); pread(77, b, 5, 9); close(77);", [r(9, 5), C]),
    ("g = fcntl(f, F_DUPFD, 50); close(f); read(g, b, 5); close(g);", [r(0, 5), C]),
    ("g = fcntl(f, F_DUPFD_CLOEXEC, 50); close(f); read(g, b, 5); close(g);", [r(0, 5), C]),
    ("g = syscall(SYS_fcntl, f, F_DUPFD, 50); close(f); read(g, b, 5); syscall(SYS_close, g);", [r(0, 5), C]),
    ("g = syscall(SYS_dup, f); close(f); read(g, b, 5); close(g);", [r(0, 5), C]),
    ("syscall(SYS_dup3, f, 90, 0); close(f); read(90, b, 5); close(90);", [r(0, 5), C]),
    ("g = fcntl(f, F_GETFD); if (g != 0) abort(); read(f, b, 5); close(f);", [r(0, 5), C]),
    ("dup2(f, f); read(f, b, 5); close(f);", [r(0, 5), C]),
    ("g = open(\"b.txt\", 0); dup2(g, f); read(f, b, 5); close(f);", [C]),
    ("close_range(3, ~0U, 0);", [C]), ("syscall(SYS_close_range, 3, ~0U, 0);", [C]), ("closefrom(3);", [C]), ("close_range(f, f, 0);", [C]),
    ("close_range(3, ~0U, 0); open(\"b.txt\", 0); read(3, b, 5);", [C]),
    ("syscall(SYS_close_range, 3, ~0U, 0); open(\"b.txt\", 0); read(3, b, 5);", [C]),
    ("close_range(3, ~0U, 4); read(f, b, 5); close(f);", [r(0, 5), C]),
    ("close_range(50, 60, 0); read(f, b, 5); close(f);", [r(0, 5), C]),
    ("close_range(3, ~0U, 2); open(\"b.txt\", 0); read(3, b, 5);", [C]),
    *((f"if ({call} != -1 || errno != EINVAL) abort(); read(f, b, 5); close(f);", [r(0, 5), C]) for call in (
        "close_range(3, ~0U, 8)", "close_range(4, 3, 0)", "syscall(SYS_close_range, 3, ~0U, 8)", "syscall(SYS_close_range, 4, 3, 0)")),
    ("closefrom(3); open(\"b.txt\", 0); read(3, b, 5);", [C]),
    ("for (int i = 3; i < 1024; ++i) close(i); open(\"b.txt\", 0); read(3, b, 5);", [C]),
    ("g = open(P, 0); close(f); close(g);", [O, C, C]),
    ("unseen_close(f); g = open(\"b.txt\", 0); if (g != f) abort(); read(g, b, 5); close(g);", [C]),
    ("unseen_close(f); g = open(P, 0); if (g != f) abort(); read(g, b, 5); close(g);", [C, O, r(0, 5), C]),
    ("dup2(f, 1000); close(f); read(1000, b, 4); close(1000);", [r(0, 4), C]))]
BUFFER = 4096  # of a FILE on these file systems
STDIO = [(call, f"{call}", events) for call, events in (
    ("FILE* f = fopen(P, \"r\"); fread(b, 1, 100, f); fread(b, 1, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen64(P, \"rb\"); fread(b, 1, 5000, f); fclose(f);", [O, r(0, 2 * BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fread_unlocked(b, 10, 10, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); __fread_chk(b, sizeof b, 10, 10, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); __fread_unlocked_chk(b, sizeof b, 10, 10, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); setvbuf(f, 0, _IONBF, 0); fseek(f, 50, 0); fread(b, 1, 10, f); fclose(f);", [O, r(50, 10), C]),
    ("FILE* f = fopen(P, \"r\"); fgets(b, 100, f); fgets(b, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fgets_unlocked(b, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); __fgets_chk(b, sizeof b, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); __fgets_unlocked_chk(b, sizeof b, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); char* l = 0; size_t n = 0; getline(&l, &n, f); getdelim(&l, &n, 'q', f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); char* l = 0; size_t n = 0; __getdelim(&l, &n, 10, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fgetc(f); getc(f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); _IO_getc(f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); __uflow(f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); ({ int (*volatile g)(FILE*) = fgetc_unlocked; g(f); }); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); ({ int (*volatile g)(FILE*) = getc_unlocked; g(f); }); fclose(f);", [O, r(0, BUFFER), C]),
    ("freopen(P, \"r\", stdin); ({ int (*volatile g)() = getchar; g(); }); fclose(stdin);", [O, r(0, BUFFER), C]),
    ("freopen(P, \"r\", stdin); ({ int (*volatile g)() = getchar_unlocked; g(); }); fclose(stdin);", [O, r(0, BUFFER), C]),
    # A FILE that is memory has no descriptor, and where others have its number lies what was there before: mostly the 0 of new memory.
    ("int f = open(P, 0); dup2(f, 0); char* m; size_t n; FILE* o = open_memstream(&m, &n); fseek(o, 1, 0); rewind(o); fclose(o); read(0, b, 10); close(f); close(0);", [O, r(0, 10), C]),
    # libc reads in the seek itself, from the begin of the block, but for what its buffer has; with an empty buffer no further than asked.
    ("FILE* f = fopen(P, \"r\"); fseek(f, 5000, 0); fread(b, 1, 100, f); fseek(f, 10, 0); fgetc(f); fclose(f);", [O, r(BUFFER, 904), r(5000, BUFFER), r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fseeko(f, 5000, 0); fseeko64(f, 5100, 0); fseek(f, -50, 1); fgetc(f); fclose(f);", [O, r(BUFFER, 904), r(BUFFER, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fseeko64(f, 4096, 0); fgetc(f); rewind(f); fgetc(f); fclose(f);", [O, r(BUFFER, BUFFER), r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fseek(f, -100, 2); fseek(f, -5000, 1); fclose(f);", [O, r(2 * BUFFER, 1708), r(BUFFER, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fread(b, 1, 2 * 4096, f); fseek(f, 4100, 0); fgetc(f); fclose(f);", [O, r(0, 2 * BUFFER), r(BUFFER, 4), r(4100, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); fpos_t p; fseek(f, 5000, 0); fgetpos(f, &p); rewind(f); fgetc(f); fsetpos(f, &p); fgetc(f); fclose(f);",
     [O, r(BUFFER, 904), r(0, BUFFER), r(BUFFER, BUFFER), C]),
    ("FILE* f = fopen64(P, \"r\"); fpos64_t p; fseek(f, 5000, 0); fgetpos64(f, &p); fseek(f, 5, 0); fsetpos64(f, &p); fclose(f);",
     [O, r(BUFFER, 904), r(0, BUFFER), r(BUFFER, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); errno = 0; if (fseek(f, -1, 0) != -1 || errno != EINVAL || fseek(f, 5, 9) != -1) abort(); fclose(f);", [O, C]),
    ("FILE* f = fopen(P, \"r\"); fseek(f, 50000, 0); if (fgetc(f) != EOF) abort(); fclose(f);", [O, C]),
    ("FILE* f = fopen(\"new.idx\", \"w+\"); fputs(\"abc\", f); fseek(f, 1, 0); if (fgetc(f) != 'b') abort(); fclose(f);", [("opened", 0, "new.idx"), C]),
    ("FILE* f = fdopen(open(P, 0), \"r\"); fgetc(f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"r\"); f = freopen(\"b.txt\", \"r\", f); fgetc(f); fclose(f);", [O, C]),
    ("FILE* f = fopen(\"b.txt\", \"r\"); f = freopen64(P, \"r\", f); fgetc(f); fclose(f);", [O, r(0, BUFFER), C]),
    # libc maps the file and sets the position to its end, unless it begins behind that.
    ("FILE* f = fopen(P, \"rm\"); if (fread(b, 1, 100, f) != 100 || fread(b, 1, 9000, f) != 9000) abort(); fseek(f, -100, 2); fgetc(f); rewind(f); fgetc(f); fclose(f);", [O, ("note", 6, ""), C]),
    ("FILE* f = freopen64(P, \"rbm\", stdin); fgets(b, 100, f); fgetc(f); fclose(f);", [O, ("note", 6, ""), C]),
    ("FILE* f = fopen(P, \"r+m\"); fread(b, 1, 100, f); fclose(f);", [O, r(0, BUFFER), C]),
    ("FILE* f = fopen(P, \"rm\"); fseek(f, 20000, 0); if (fgetc(f) != EOF) abort(); rewind(f); fgetc(f); fclose(f);", [O, r(0, BUFFER), C]),
    ("if (fopen(\"none.idx\", \"r\") || errno != ENOENT) abort();", []))]
ERRORS = [
    ("errno", "if (open(\"none.idx\", 0) != -1 || errno != ENOENT) abort(); if (read(-1, b, 1) != -1 || errno != EBADF) abort();"
     "int f = open(P, O_WRONLY); if (read(f, b, 1) != -1 || errno != EBADF) abort(); errno = 42; f = open(P, 0); read(f, b, 8); close(f);"
     "if (errno != 42) abort(); if (close(f) != -1 || errno != EBADF) abort(); if (pread(open(P, 0), b, 1, -5) != -1 || errno != EINVAL) abort();"
     "if (syscall(SYS_close, -1) != -1 || errno != EBADF) abort(); if (syscall(12345) != -1 || errno != ENOSYS) abort();",
     [O, O, r(0, 8), C, O]),
    ("openat2", "int (*call)(int, const char*, void*, size_t) = dlsym(RTLD_DEFAULT, \"openat2\"); struct open_how h = {.flags = O_RDONLY}; if (!call) abort();"
     "if (call(AT_FDCWD, P, (void*)8, sizeof h) != -1 || errno != EFAULT || call(AT_FDCWD, P, &h, 3) != -1 || errno != EINVAL) abort(); close(call(AT_FDCWD, P, &h, sizeof h));", [O, C]),
    ("dlerror", "if (dlerror()) abort(); if (dlsym(RTLD_NEXT, \"no_such\")) abort(); if (!dlerror() || dlerror()) abort();", []),
]


def events_of(checks, program, data, **plan):
    with Server(checks.folder, classes=["*.idx"], **plan) as server:
        done = server.run(program, data / "a.idx", cwd=data)
    checks.same(f"{program.name} ended", done.returncode, 0)
    checks.same(f"{program.name} lost", server.end["lost"], 0)
    return server

# Stands behind the library under test, and makes one read as slow as one that waits for a disk; two others only take as long.
SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
ssize_t pread64(int f, void* b, size_t n, off_t at) {
    static ssize_t (*next)(int, void*, size_t, off_t);
    if (!next) next = (ssize_t (*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    struct timespec wait = {0, 1000000}, now, end;
    if (at == 104) nanosleep(&wait, 0);
    if (at == 8 || at == 304) {
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += (end.tv_nsec + 1000000) / 1000000000;
        end.tv_nsec = (end.tv_nsec + 1000000) % 1000000000;
        do clock_gettime(CLOCK_MONOTONIC, &now);
        while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    }
    return next(f, b, n, at);
}
"""
READS_IN_A_ROW = HEAD + "int f = open(P, 0); for (long at = 1; at <= 400; at++) pread64(f, b, 10, at); }"
TRIES = 50  # of what a busy machine may get in the way of
SLOW_NS, LOOKED_AT, POSTED_AFTER, QUICK_LOOKS = 20_000, 8, 64, 16


def slow_reads(checks, data):
    """Where only slow reads are wanted: one in eight is looked at; one that is slow is posted, and so are the 64 behind it."""
    slow = checks.compile("slow.so", SLOW, "-shared", "-fPIC", "-ldl")
    program = checks.compile("row", READS_IN_A_ROW)
    # What the thread has waited for between two reads, such as a page of the program's, is told of the next read that took long.
    for _ in range(TRIES):
        with Server(checks.folder, classes=["*.idx"], posts={"class": 1 | 16}) as server:
            code = server.run(program, cwd=data, extra={"LD_PRELOAD": f"{LIBRARY}:{slow}"}).returncode
        checks.same("slow reads: exit code", code, 0)
        posted = {event["offset"]: event["took"] for event in server.of("read")}
        checks.same("a slow read and those behind it", [at for at in range(104, 104 + POSTED_AFTER + 1) if at not in posted], [])
        # A busy machine may have others wait.
        waited = [at for at, took in posted.items() if took >= SLOW_NS]
        without = [at for at in (8, 304) if at in posted and not any(0 < at - one <= POSTED_AFTER for one in waited)]
        if not without:
            break
    checks.same("one that took as long without a wait", without, [])
    checks.same("no other", [at for at in posted if not any(0 <= at - one <= POSTED_AFTER for one in waited)], [])
    checks.same("only every eighth was looked at", [at for at in waited if at % LOOKED_AT and not any(0 < at - one <= POSTED_AFTER for one in waited)], [])
    for _ in range(TRIES):
        with Server(checks.folder, classes=["*.idx"]) as server:
            server.run(program, cwd=data, extra={"LD_PRELOAD": f"{LIBRARY}:{slow}"})
        took = {event["offset"]: event["took"] for event in server.of("read")}
        checks.true("where all are wanted, a wait is told as long", took[104] >= 1_000_000, took[104])
        if took[8] == took[304] == SLOW_NS:
            break
    checks.same("  and the rest as short", (took[8], took[304]), (SLOW_NS, SLOW_NS))
    with Server(checks.folder, classes=["*.idx"], posts={"class": 1}) as server:
        server.run(program, cwd=data, extra={"LD_PRELOAD": f"{LIBRARY}:{slow}"})
    checks.same("nobody wants to hear of reads", len(server.of("read")), 0)


# Stands behind the library under test, and says which reads that takes the time of. One of them waits. Its clock sets errno, as libfaketime's does.
LOOKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int asked;
int clock_gettime(clockid_t clock, struct timespec* now) { ++asked; errno = EDOM; return syscall(SYS_clock_gettime, clock, now); }
ssize_t pread64(int f, void* b, size_t n, off_t at) {
    static ssize_t (*next)(int, void*, size_t, off_t);
    if (!next) next = (ssize_t (*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    struct timespec wait = {0, 1000000};
    if (at == 616) nanosleep(&wait, 0);
    if (asked % 2) dprintf(1, "%ld\\n", (long)at);
    return next(f, b, n, at);
}
"""


def looks(reads, slow):
    """Which of so many reads are timed, one of which is slow: fewer and fewer, down to a quarter, and those behind the slow one."""
    until, quick, after, found = LOOKED_AT, 0, 0, []
    for at in range(1, reads + 1):
        if after:
            after -= 1
        elif until > 1:
            until -= 1
            continue
        else:
            until = LOOKED_AT << quick // QUICK_LOOKS
            quick = min(quick + 1, 2 * QUICK_LOOKS)
            if at == slow:
                quick, after = 0, POSTED_AFTER
        found.append(at)
    return found


def quick_reads(checks, data):
    library = checks.compile("looks.so", LOOKS, "-shared", "-fPIC", "-ldl")
    program = checks.compile("quick", HEAD + "int f = open(P, 0); for (long at = 1; at <= 1000; at++) { errno = 0; if (pread64(f, b, 10, at) != 10 || errno) abort(); } return 0; }")
    for _ in range(50):
        with Server(checks.folder, classes=["*.idx"], posts={"class": 1 | 16}) as server:
            done = server.run(program, cwd=data, extra={"LD_PRELOAD": f"{LIBRARY}:{library}"}, stdout=subprocess.PIPE)
        if [event["offset"] for event in server.of("read")] == list(range(616, 617 + POSTED_AFTER)):  # else a busy machine had another one wait
            break
    checks.same("a clock of the program's own that sets errno", done.returncode, 0)
    checks.same("fewer and fewer of quick reads are timed", [int(at) for at in done.stdout.split()], looks(1000, 616))


LONG, BEGUN = 32 * 1024, 32
LONG_READS = HEAD + """int f = open(P, 0); struct iovec all = {b, sizeof b};
lseek(f, 100, 0); read(f, b, 32768); lseek(f, 200, 0); read(f, b, 32767); pread(f, b, 40000, 300); syscall(SYS_pread64, f, b, 40000, 400L);
lseek(f, 700, 0); readv(f, &all, 1); pread(f, b, 40000, 20000); pread(f, (void*)8, 40000, 500); lseek(f, 600, 0); read(f, b, 40000); }"""


def long_reads(checks, data):
    """Where it is wanted, reads by one buffer that ask for much are told of before they begin, and again at their end."""
    program = checks.compile("long", LONG_READS)
    told = lambda at, asked, got: [("begun", at, asked), ("ended", at, got)]
    wanted = [*told(100, 32768, 9900), r(200, 9800), *told(300, 40000, 9700), r(400, 9600), r(700, 9300), ("begun", 20000, 40000), ("begun", 500, 40000), *told(600, 40000, 9400)]
    for bits in (BEGUN, 0):
        with Server(checks.folder, classes=["*.idx"], posts={"class": 3 | bits}) as server:
            server.run(program, cwd=data)
        seen = [(event["kind"], event["offset"], event["length"]) for event in server.events if event["kind"] in ("read", "begun", "ended")]
        plain = [("read" if kind == "ended" else kind, *rest) for kind, *rest in wanted if kind != "begun"]
        checks.same(f"long reads, with post bits {3 | bits}", seen, wanted if bits else plain)
        asked = [event.get("asked") for event in server.events if event["kind"] in ("read", "ended")]
        checks.same("what those asked for that the file's end cut short", asked, [32768, 32767, 40000, None, None, 40000])
    with Server(checks.folder, classes=["*.idx"], posts={"class": 3 | BEGUN}, least_read=40000) as server:
        server.run(program, cwd=data)
    begun = [event["length"] for event in server.of("begun")]
    checks.same("those of which no chain has anything to say are told of at their end only", begun, [40000] * 4)


COLD_READ = HEAD + """int f = open(P, 0); fsync(f); syscall(SYS_fadvise64, f, 0L, 0L, POSIX_FADV_DONTNEED); return pread(f, b, atoi(a[1]), 0) != atoi(a[2]); }"""
WAITED = 20_000  # ns; what took longer has waited for the disk


def short_waits(checks, data):
    """A read that waits for the disk wakes the server, but for one of a length at which no chain has anything to say. What counts is how much it asks for.
    A server that has seen nothing for long is woken by any."""
    program = checks.compile("cold", COLD_READ)
    kept_asleep = (4096, 4096, 4097, 1)
    cases = [(*each, False) for each in ((4096, 4096, 0, 0), (4096, 4096, 4096, 0), kept_asleep, (20000, 10000, 20000, 0), (20000, 10000, 20001, 1))]
    for asked, got, least, asleep, rests in [*cases, (*kept_asleep[:3], 0, True)]:
        for _ in range(200):
            with Server(checks.folder, classes=["*.idx"], posts={"class": 3}, least_read=least) as server:
                if rests:
                    server.say("rests")
                server.say("asleep")
                checks.same("a cold read", server.run(program, asked, got, cwd=data).returncode, 0)
                woken = server.say("look")["asleep"]
            if waited := [event for event in server.of("read") if event["took"] > WAITED]:
                break
        if not waited:
            print(f"skipped: short_waits: no read of {data} waits for a disk")
            return
        checks.same(f"whether the server sleeps on after a read of {asked} bytes that has waited, where {least} are of use{' and it rests' * rests}", woken, asleep)


WAKE_OPENS = 8


def openings(checks, data):
    """Chains want to be ahead of the first read of what is opened, and what is opened for writing only has none."""
    program = checks.compile("one_opening", HEAD + "return close(open(P, atoi(a[1]))); }")
    for flags, asleep in ((os.O_RDONLY, 0), (os.O_RDWR, 0), (os.O_WRONLY, 1), (os.O_WRONLY | os.O_APPEND, 1)):
        with Server(checks.folder, classes=["*.idx"], posts={"class": 1 | WAKE_OPENS}) as server:
            server.say("asleep")
            checks.same("an opening", server.run(program, flags, cwd=data).returncode, 0)
            checks.same(f"whether the server sleeps on after an opening with {flags:#x}", server.say("look")["asleep"], asleep)
        checks.same("openings", len(server.of("opened")), 1)


# Reads what is on its way into served memory and never comes, and says how many of the reads waited for it.
WAITS = HEAD + """
#include <time.h>
static long now() { struct timespec t; syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main() {
    int f = open("w.idx", O_RDONLY | O_DIRECT), waited = 0;
    if (f < 0 || pread(f, b, 4096, 0) != 4096) return 77;
    usleep(100000);
    for (int i = 1; i <= 12; ++i) {
        long before = now();
        if (pread(f, b, 4096, 4096L * i) != 4096 || b[0] != i || b[4095] != i) abort();
        waited += now() - before >= 20000000;
    }
    return waited;
}
"""
STANDING = "#include <time.h>\nint clock_gettime(clockid_t clock, struct timespec* now) { now->tv_sec = 1000; now->tv_nsec = 5; return 0; }\n"


def on_its_way(checks, data):
    """What is on its way is waited for, not longer than 20 ms, and eight times at most; whatever the program's own clock says."""
    with open(data / "w.idx", "wb") as file:
        file.write(b"".join(bytes([i]) * 4096 for i in range(13)))
        file.flush()
        os.fsync(file.fileno())  # or the first reads past the page cache wait until it is
    program = checks.compile("waits", WAITS.replace("int main(int n, char** a) {\n", ""))
    standing = checks.compile("standing.so", STANDING, "-shared", "-fPIC")
    for what, preloaded in (("", LIBRARY), (", by a clock that stands still", f"{LIBRARY}:{standing}")):
        for _ in range(TRIES):
            with Server(checks.folder, classes=["*.idx"], on_its_way=str(data / "w.idx")) as server:
                code = server.run(program, cwd=data, extra={"LD_PRELOAD": str(preloaded)}, timeout=60).returncode
            if code == 77:
                return print("skipped: reads of served memory: this file system has no O_DIRECT")
            # The others go to the disk, where a busy machine may keep one waiting as long. It makes no number smaller.
            if code <= 8:
                break
        checks.same("reads that wait for served memory" + what, code, 8)
        checks.same("reads past the page cache are told of as such" + what, (len(server.of("direct")), server.of("read")), (13, []))


def given(checks, data):
    """Files that a program is given open, at the numbers that are looked at; also where it may have fewer at once than these."""
    program = checks.compile("given", "#include <stdlib.h>\n#include <unistd.h>\nint main(int n, char** a) { char b[9]; return read(atoi(a[1]), b, 9) != 9; }")
    file = os.open(data / "a.idx", os.O_RDONLY)
    for number, most in ((0, 1024), (2, 1024), (3, 1024), (17, 1024), (63, 1024), (5, 8), (64, 1024)):
        def give():
            os.dup2(file, number)
            os.set_inheritable(number, True)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with Server(checks.folder, classes=["*.idx"]) as server:
            code = server.run(program, number, preexec_fn=give, close_fds=False).returncode
        os.lseek(file, 0, os.SEEK_SET)
        wanted = [("opened", 0, "a.idx"), ("read", 0, 9)] if number < 64 else []
        checks.same(f"given as {number} of {most}", (code, summary(server.events)), (0, wanted))
    os.close(file)


# Libraries that look for the next function of a name: one that interposes nothing, one that interposes another name.
ASKS = "#define _GNU_SOURCE\n#include <dlfcn.h>\nvoid* ask_NAME(const char* name) { void* volatile found = dlsym(RTLD_NEXT, name); return found; }\n"  # no jump: who asks is who is returned to
INTERPOSES = ASKS + """#include <sys/types.h>
ssize_t pread(int f, void* b, size_t n, off_t at) { return ((ssize_t (*)(int, void*, size_t, off_t))ask_NAME("pread64"))(f, b, n, at); }
"""
# Words: the library that it is to ask, or to open and ask. One that lies behind libc finds nothing there.
ASKING = HEAD + r"""
    int f = open(P, 0); void *(*ask)(const char*) = dlsym(n > 2 ? dlopen(a[2], RTLD_NOW) : RTLD_DEFAULT, a[1]);
    if (!ask) return 3;
    if (dlerror() || dlopen("/none", RTLD_NOW)) return 4;
    ssize_t (*next)(int, void*, size_t, off_t) = ask("pread64"); if (dlerror()) return next ? 5 : 2;
    if (next(f, b, 7, 50) != 7 || ask("none") || !dlerror()) return 6;
    return pread(f, b, 3, 60) != 3;
}
"""


def next_ones(checks, data):
    """A library of the program that asks for the next function of a name gets ours, where that calls what it would have got, and where it cannot be reached by us."""
    made = {}
    for name, text, links in (("direct", ASKS, []), ("behind", ASKS, []), ("middle", ASKS, ["behind"]), ("own", INTERPOSES, []), ("opened", ASKS, [])):
        made[name] = checks.compile(f"lib{name}.so", text.replace("NAME", name), "-shared", "-fPIC", "-Wl,--no-as-needed", *[made[one] for one in links], f"-Wl,-rpath,{checks.folder}")
    seen, not_seen = [O, r(50, 7), r(60, 3)], [O, r(60, 3)]
    for name, linked, code, wanted in (("direct", ["direct"], 0, seen), ("behind", ["middle"], 2, [O]), ("middle", ["middle"], 0, seen), ("own", ["own"], 0, not_seen), ("opened", [], 0, not_seen)):
        program = checks.compile(f"asks_{name}", ASKING, "-Wl,--no-as-needed", *[made[one] for one in linked], f"-Wl,-rpath,{checks.folder}", "-Wl,-rpath-link," + str(checks.folder), "-ldl")
        words = [f"ask_{name}", *([] if linked else [made[name]])]
        plain = subprocess.run([program, *map(str, words)], cwd=data).returncode
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, *words, cwd=data)
        checks.same(f"the next function for {name}: exit code without and with", (plain, done.returncode), (code, code))
        checks.same(f"the next function for {name}", summary(server.events), wanted)


def make_disk(path):
    """A block device, which the server leaves alone; where none can be opened, nothing."""
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        print(f"skipped: a block device: {error}")


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "dir.idx").mkdir()
    make_disk(data / "disk.idx")
    (data / "a.idx").write_bytes(b"".join(b"%09d\n" % i for i in range(1000)))
    (data / "b.txt").write_bytes(b"unmatched" * 100)
    cases = OPENS + CREATES + NOTHING + READS + DESCRIPTORS + STDIO + ERRORS
    # One program with a case an argument: compiling is what takes the time.
    text = HEAD + "switch (atoi(a[2])) {\n" + "".join(f"case {i}: {{ {body} break; }}\n" for i, (_, body, _) in enumerate(cases)) + "}\n}\n"
    program = checks.compile("calls", text)
    inode = os.stat(data / "a.idx")
    with Server(checks.folder, classes=["*.idx"]) as server:
        codes = []
        for i, (what, _, _) in enumerate(cases):
            done = server.run(program, data / "a.idx", i, cwd=data)
            codes.append(done.returncode)
            server.say(f"case {i}")
            server.events.append({"kind": "case"})
            (data / "new.idx").unlink(missing_ok=True)
            (data / "out").unlink(missing_ok=True)
    rest = list(server.events)
    for (what, _, wanted), code in zip(cases, codes):
        end = rest.index({"kind": "case"})
        mine, rest = rest[:end], rest[end + 1:]
        checks.same(f"{what}: exit code", code, 0)
        checks.same(what, summary(mine), wanted)
        for event in mine:
            if event["kind"] == "read":
                checks.same(f"{what}: the file", (event["device"], event["inode"]), (inode.st_dev, inode.st_ino))
            if event["kind"] == "opened":
                checks.same(f"{what}: an absolute path", os.path.dirname(os.path.normpath(event["text"])), str(data))
    checks.same("lost", server.end["lost"], 0)
    slow_reads(checks, data)
    quick_reads(checks, data)
    long_reads(checks, data)
    short_waits(checks, data)
    openings(checks, data)
    on_its_way(checks, data)
    given(checks, data)
    next_ones(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
