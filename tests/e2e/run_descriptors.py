#!/usr/bin/env python3
"""The library's descriptors do not come and go among those of a program with several threads: another thread would come upon them, and what that one puts there the library would
read and close. Here the other thread does nothing but look at the numbers that would be given next, and close what nobody else has open, which is gone at once."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import expect

COMPILER = shutil.which("clang-19") or shutil.which("cc")
SPECS = {"columns": ("*.col", "no_read_ahead"), "fixed": ("*.fix", "immutable")}
SPEC = """app reads {{ files all = "{}" {{ {} }} }}
chain whole on read(all) as r {{ prefetch r.file at 0 for 1MiB }}
"""
ROUNDS, SERVED_ROUNDS, STARTS = 600, 120, 300
PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { FIRST = 3, LOOKED_AT = 4, THERE = 1, STAYS = 2 };
static volatile int done;
static int go[2];
static void* opens(void* path) {
    if (open(path, O_RDONLY) < 0) _exit(9);
    done = 1;
    return 0;
}
// Until it is told that its reads are served, as its parent can see.
static void* reads(void* file) {
    void* to = aligned_alloc(4096, 4096);
    for (int i = 0; !done; ++i) if (pread(*(int*)file, to, 4096, i % 100 * 4096L) != 4096) _exit(9);
    return 0;
}
static void* waits(void* unused) {
    char byte;
    if (read(go[0], &byte, 1) != 0) _exit(9);
    done = 1;
    return 0;
}
// Whether somebody else holds it: it could be written to then.
static int stays_open(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) _exit(9);
    close(ends[0]);
    const int stays = write(ends[1], "x", 1) != -1 || errno != EPIPE;
    close(ends[1]);
    return stays;
}
static int are_there(int first) {
    int found = 0;
    for (int fd = first; fd < first + LOOKED_AT; ++fd) found |= fcntl(fd, F_GETFD) >= 0;
    return found ? THERE : 0;
}
static int is_served(int process) {
    char path[64], text[1 << 16];
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE* maps = fopen(path, "r");
    int found = 0;
    while (maps && fgets(text, sizeof text, maps)) found += strstr(text, "/served") != 0;
    if (maps) fclose(maps);
    return found > 1;  // not its first page alone
}
static int opens_once(char* path) {
    pthread_t thread;
    pthread_create(&thread, 0, opens, path);
    int found = 0;
    do found |= are_there(FIRST + 1); while (!done);
    pthread_join(thread, 0);
    return found;
}
static int reads_until_served(char* path) {
    static int file;
    pthread_t threads[2];
    close(go[1]);
    if ((file = open(path, O_RDONLY | O_DIRECT)) < 0) _exit(77);
    pthread_create(threads, 0, waits, 0);
    pthread_create(threads + 1, 0, reads, &file);
    int found = 0;
    do found |= are_there(file + 1) | (stays_open() ? STAYS : 0); while (!done);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
    return found;
}
int main(int count, char** words) {
    const int served = strcmp(words[1], "served") == 0;
    int there = 0, stays = 0;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < atoi(words[3]); ++i) {
        close_range(FIRST, ~0U, 0);
        if (served && pipe(go) != 0) return 2;
        int child = fork(), how = 0;
        if (child == 0) _exit(served ? reads_until_served(words[2]) : opens_once(words[2]));
        if (served) {
            while (!is_served(child) && waitpid(child, &how, WNOHANG) == 0);
            close(go[1]);
        }
        if (how == 0 && waitpid(child, &how, 0) != child) return 3;
        if (!WIFEXITED(how) || WEXITSTATUS(how) > (THERE | STAYS)) return WIFEXITED(how) ? WEXITSTATUS(how) : 4;
        there += (WEXITSTATUS(how) & THERE) != 0;
        stays += (WEXITSTATUS(how) & STAYS) != 0;
    }
    printf("%d %d\n", there, stays);
}
"""
# A library that starts a thread as it is loaded, before the program and all that is preloaded into it begin.
EARLY = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static volatile int begun, done;
static int found;
static pthread_t thread;
static void* looks(void* unused) {
    do {
        for (int fd = 3; fd < 7; ++fd) found |= fcntl(fd, F_GETFD) >= 0;
        begun = 1;
    } while (!done);
    return 0;
}
__attribute__((constructor)) static void starts(void) {
    close_range(3, ~0U, 0);
    pthread_create(&thread, 0, looks, 0);
    while (!begun);
}
int early(void) {
    done = 1;
    pthread_join(thread, 0);
    return found;
}
"""
STARTED = """#include <fcntl.h>
int early(void);
int main(void) { return early() || open("a.col", O_RDONLY) < 0; }
"""


def made(folder, name, text, *options):
    (folder.path / f"{name}.c").write_text(text)
    subprocess.run([COMPILER, "-O1", "-w", "-pthread", f"{name}.c", *options, "-o", name], cwd=folder.path, check=True)
    return f"./{name}"


def test_threads(folder, program):
    for how, spec, file, rounds in (("opened", "columns", "a.col", ROUNDS), ("served", "fixed", "a.fix", SERVED_ROUNDS)):
        done, summary = folder.summarized(["--spec", f"{spec}.chain", "--no-gate"], [program, how, file, rounds])
        if done.returncode == 77:
            print("skipped: this file system has no O_DIRECT")
            continue
        expect(f"{how}: in none of {rounds} processes a descriptor was there that nobody had opened, or one's file stayed open when it was closed",
               (done.returncode, done.stdout.decode(), done.stderr.decode()), (0, "0 0\n", ""))
        figure = summary["classes"][0]["served" if how == "served" else "no_read_ahead"]
        expect(f"{how}: and in all of them the library did what it is for", figure, lambda n, least=rounds: n >= least)


def test_early_threads(folder):
    made(folder, "libearly.so", EARLY, "-shared", "-fPIC")
    program = made(folder, "early", STARTED, "-Wl,--no-as-needed", "./libearly.so", "-Wl,-rpath,$ORIGIN")
    script = f"n=0; i=0; while [ $i -lt {STARTS} ]; do {program} || n=$((n + 1)); i=$((i + 1)); done; echo $n"
    done, summary = folder.summarized(["--spec", "columns.chain"], ["sh", "-c", script])
    expect(f"in none of {STARTS} programs that have threads before the library starts", (done.returncode, done.stdout.decode(), done.stderr.decode()), (0, "0\n", ""))
    expect("and in all of them the library did what it is for", summary["classes"][0]["no_read_ahead"], STARTS)


def main():
    with runs.Folder() as folder:
        for name, words in SPECS.items():
            (folder.path / f"{name}.chain").write_text(SPEC.format(*words))
        for name in ("a.col", "a.fix"):
            (folder.path / name).write_bytes(bytes(4096 * 100))
        test_threads(folder, made(folder, "threads", PROGRAM))
        test_early_threads(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
