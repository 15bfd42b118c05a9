#!/usr/bin/env python3
"""Processes of PID namespaces that end, as sandboxes of builds do, one after another: the run sees all of them, and goes on seeing those that live."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import expect

SANDBOXES = 300  # more than there are rings
SPEC = """files notes = "*.note"
chain ahead on read(notes) as r { prefetch r.file at 512KiB for 64KiB }
"""
# In each namespace a thread that is not the first reads and is still there when its process ends. One process reads, waits, and reads again when all others have ended; it has
# the number in its namespace that they have in theirs. Now and then there is time for the server to look. What has made a namespace keeps it, or lets the kernel give its number
# to the next one.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static int has_read[2], go[2], ended[2], end[2], keeps; static char b[4096];
static void look(void) { int f = open("a.note", O_RDONLY); CHECK(f >= 0 && pread(f, b, sizeof b, 0) == sizeof b); }
static void* looks(void* x) { look(); CHECK(write(has_read[1], "x", 1) == 1); while (1) pause(); }
static void sandbox(int lives) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    pid_t c = fork();
    if (c == 0) {
        if (lives) { look(); CHECK(write(has_read[1], "x", 1) == 1 && read(go[0], b, 1) == 1); look(); exit(0); }
        pthread_t t; CHECK(pthread_create(&t, 0, looks, 0) == 0 && read(has_read[0], b, 1) == 1); exit(0);
    }
    int s; CHECK(waitpid(c, &s, 0) == c); if (!WIFEXITED(s)) _exit(98);
    if (!lives && keeps) { close(end[1]); CHECK(write(ended[1], "x", 1) == 1 && read(end[0], b, 1) == 0); }
    _exit(WEXITSTATUS(s));
}
int main(int n, char** a) {
    CHECK(pipe(has_read) == 0 && pipe(go) == 0 && pipe(ended) == 0 && pipe(end) == 0); keeps = atoi(a[2]);
    if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) return 77;
    pid_t first = fork(); if (first == 0) sandbox(1);
    CHECK(read(has_read[0], b, 1) == 1);
    for (int i = atoi(a[1]); i > 0; --i) {
        pid_t c = fork(); if (c == 0) sandbox(0);
        int s; if (keeps) CHECK(read(ended[0], b, 1) == 1);
        else { CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s)); if (WEXITSTATUS(s) != 0) return WEXITSTATUS(s); }
        if (i % 100 == 0) usleep(2500000);
    }
    close(end[1]);
    int s; CHECK(write(go[1], "x", 1) == 1 && waitpid(first, &s, 0) == first && WIFEXITED(s)); return WEXITSTATUS(s);
}
"""


def main():
    with runs.Folder() as folder:
        (folder.path / "a.note").write_bytes(bytes(1 << 20))
        (folder.path / "a.chain").write_text(SPEC)
        (folder.path / "sandboxes.c").write_text(PROGRAM)
        subprocess.run(["clang-19", "-pthread", "sandboxes.c", "-o", "sandboxes"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        for keeps in (0, 1):
            for _ in runs.tries():
                done, summary = folder.summarized(["--spec", "a.chain", "--no-gate"], ["./sandboxes", SANDBOXES, keeps])
                if done.returncode == 77:
                    print("no PID namespace can be made here")
                    sys.exit(77)
                opened = summary["classes"][0]["opened"]
                if (opened, summary["processes"]) == (SANDBOXES + 2, SANDBOXES + 1):
                    break
            what = "that are kept" if keeps else "whose numbers come again"
            expect(f"sandboxes in namespaces {what}: they ran", (done.returncode, done.stderr), (0, b""))
            expect("  each opening was seen, and those of one that lives", opened, SANDBOXES + 2)
            expect("  each process was counted", summary["processes"], SANDBOXES + 1)
            expect("  and all found a ring", [note for note in summary["notes"] if "ring" in note], [])
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
