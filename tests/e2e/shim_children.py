#!/usr/bin/env python3
"""Children that have their parent's memory and descriptors of their own: what they read by a number is not told of as the parent's file."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import Checks, Server, summary  # noqa: E402

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define P "a.idx"
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static char b[65536]; static struct iovec v[2] = {{b, 10}, {b + 100, 10}};
static void reaped(pid_t c) { int s; CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s) && WEXITSTATUS(s) == 0); }
"""
READS = ("read(f, b, 10)", "pread(f, b, 10, 1)", "readv(f, v, 2)", "preadv(f, v, 2, 1)", "syscall(SYS_pread64, f, b, 10, 1L)", "read(f, b, 40000)", "sendfile(s[0], f, 0, 50)")
LONG = 32  # kPostBegun


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "a.idx").write_bytes(bytes(100_000))
    (data / "b.txt").write_bytes(bytes(100_000))
    text = HEAD + "int main(int n, char** a) { int f = open(P, 0), s[2]; CHECK(f >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0); pid_t c = vfork();\n"
    text += "if (!c) { close(f); if (open(\"b.txt\", 0) != f) _exit(1); long got = 0; switch (atoi(a[1])) {\n"
    text += "".join(f"case {i}: got = {call}; break;\n" for i, call in enumerate(READS)) + "} _exit(got > 0 ? 0 : 2); }\n"
    text += "reaped(c); CHECK(pread(f, b, 7, 3) == 7 && close(f) == 0); return 0; }\n"
    program = checks.compile("children", text)
    for i, call in enumerate(READS):
        with Server(checks.folder, classes=["*.idx"], posts={"class": 3 | LONG}) as server:
            done = server.run(program, i, cwd=data, capture_output=True, text=True)
        checks.same(f"{call}: exit code", (done.returncode, done.stderr), (0, ""))
        checks.same(f"{call}: what is told of", summary(server.events), [("opened", 0, "a.idx"), ("read", 3, 7), ("closed",)])
    checks.finish()


if __name__ == "__main__":
    main()
