#!/usr/bin/env python3
"""Who has a ring: images that a process has gone through, and processes that have one number in two PID namespaces."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import Checks, Server  # noqa: E402

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static char b[64]; extern char** environ;
static void reaped(pid_t c) { int s; CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s) && WEXITSTATUS(s) == 0); }
"""
IMAGES = 300  # more than there are rings, and what they post has room in one
# Executes itself again and again, by a thread that is not its first, or by the system call's number. Another process keeps its ring meanwhile.
EXECUTES = HEAD + r"""
static char left[16]; static char* w[] = {"images", 0, left, 0};
static void* again(void* x) { execv("/proc/self/exe", w); _exit(98); }
int main(int n, char** a) {
    int f = open("a.idx", O_RDONLY | O_CLOEXEC), count = atoi(a[2]); CHECK(f >= 0 && pread(f, b, 8, 16) == 8);
    if (count == 0) return 0;
    snprintf(left, sizeof left, "%d", count - 1); w[1] = a[1];
    if (!strcmp(a[1], "number")) syscall(SYS_execve, "/proc/self/exe", w, environ);
    pthread_t t; CHECK(pthread_create(&t, 0, again, 0) == 0); pthread_join(t, 0); return 97;
}
"""
# The first process of a namespace, and those of one below it: its children read, the last one after another has ended.
SAME_NUMBER = HEAD + r"""
static void looks(int f, int at) { CHECK(pread(f, b, 8, at) == 8); }
int main(int n, char** a) {
    int f = open("a.idx", O_RDONLY); CHECK(f >= 0);
    if (getpid() != 1) return 77;
    looks(f, 0);
    if (unshare(CLONE_NEWPID) != 0) return 77;
    int go[2], has[2]; CHECK(pipe(go) == 0 && pipe(has) == 0);
    pid_t first = fork();  // has its parent's number
    if (!first) { CHECK(getpid() == 1); looks(f, 100); CHECK(write(has[1], "x", 1) == 1 && read(go[0], b, 1) == 1); looks(f, 101); _exit(0); }
    CHECK(read(has[0], b, 1) == 1);  // only a ring that somebody has is nobody else's
    pid_t second = fork(); if (!second) { looks(f, 200); _exit(0); }
    reaped(second); looks(f, 1); CHECK(write(go[1], "x", 1) == 1); reaped(first); looks(f, 2);
    return 0;
}
"""
# A child of vfork that has its parent's number closes what is not its own.
SAME_NUMBER_SHARED = HEAD + r"""
int main(int n, char** a) {
    int f = open("a.idx", O_RDONLY); CHECK(f >= 0);
    if (getpid() != 1 || unshare(CLONE_NEWPID) != 0) return 77;
    pid_t c = vfork(); if (!c) { close(f); _exit(0); }
    reaped(c); CHECK(pread(f, b, 8, 5) == 8 && close(f) == 0); return 0;
}
"""


def images(checks, data):
    program = checks.compile("images", EXECUTES, "-pthread")
    for how in ("thread", "number"):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, how, IMAGES - 1, cwd=data, capture_output=True, text=True)
        checks.same(f"{how}: exit code", (done.returncode, done.stderr), (0, ""))
        checks.same(f"{how}: what its images have opened", (len(server.of("opened")), server.end["no_ring"], server.end["lost"]), (IMAGES, 0, 0))
        checks.same(f"{how}: rings that are taken at its end", server.end["owners"], [])


def same_number(checks, data):
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    for what, text, wanted in (("fork", SAME_NUMBER, [0, 1, 2, 100, 101, 200]), ("vfork", SAME_NUMBER_SHARED, [5])):
        program = checks.compile(f"same_{what}", text)
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(*apart, program, cwd=data, capture_output=True, text=True)
        if done.returncode != 0 and (done.returncode == 77 or "unshare" in done.stderr):
            print(f"skipped: a namespace of its own: {done.stderr}")
            return
        checks.same(f"{what}: exit code", (done.returncode, done.stderr), (0, ""))
        reads = {event["offset"]: event["ring"] for event in server.of("read")}
        if checks.same(f"{what}: reads", sorted(reads), wanted) and what == "fork":
            checks.same("the parent has one ring", len({reads[at] for at in (0, 1, 2)}), 1)
            checks.same("its child another", (reads[100] == reads[101], reads[100] != reads[0]), (True, True))
            checks.same("and nobody gets the parent's while it lives", reads[200] not in (reads[0], reads[100]), True)
        checks.same(f"{what}: closes", len(server.of("closed")), 0 if what == "fork" else 1)
        checks.same(f"{what}: rings that are taken at its end", server.end["owners"], [])


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "a.idx").write_bytes(bytes(10000))
    images(checks, data)
    same_number(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
