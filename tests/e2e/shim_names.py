#!/usr/bin/env python3
"""Files that are opened again and again by a path that has to be resolved: how often the kernel is asked for their names, and that the names
are right when files and folders change theirs. Functions that libraries have by names that are interposed, while these come and go."""
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import Checks, Server, environment  # noqa: E402

PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static void rest(void) { struct timespec some = {0, 12000000}; nanosleep(&some, 0); }  // longer than a name is believed
#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
static void look(const char* path) { int f = open(path, O_RDONLY); CHECK(f >= 0); close(f); }
static void leads_to(const char* link, const char* to) { unlink(link); CHECK(symlink(to, link) == 0); }
int main(int n, char** a) {
    if (!strcmp(a[1], "often")) { for (int i = 0; i < 1000; ++i) look("one/a.idx"); return 0; }
    if (!strcmp(a[1], "seldom")) { for (int i = 0; i < 50; ++i) { look("one/a.idx"); rest(); } return 0; }
    if (!strcmp(a[1], "many")) { for (int i = 0; i < 1000; ++i) { look("one/a.idx"); look("two/b.idx"); } return 0; }
    if (!strcmp(a[1], "elsewhere")) { for (int i = 0; i < 1000; ++i) look("other/c.idx"); return 0; }
    CHECK(chdir(a[2]) == 0);
    leads_to("cur", "one");
    look("cur/x.idx"); look("cur/x.idx");
    if (!strcmp(a[1], "renamed")) {  // the same file has another name
        CHECK(rename("one/x.idx", "two/x.idx") == 0); leads_to("cur", "two"); look("cur/x.idx");
    } else if (!strcmp(a[1], "linked")) {  // another name, too
        CHECK(link("one/x.idx", "two/x.idx") == 0); leads_to("cur", "two"); look("cur/x.idx"); leads_to("cur", "one"); look("cur/x.idx");
    } else if (!strcmp(a[1], "replaced")) {  // another file of the same name
        CHECK(rename("two/y.idx", "one/x.idx") == 0); look("cur/x.idx");
    } else if (!strcmp(a[1], "folder")) {  // its folder has another name, a while ago
        CHECK(rename("one", "three") == 0); leads_to("cur", "three"); rest(); look("cur/x.idx");
    }
    return 0;
}
"""
CLASSES = ["**/one/*.idx", "**/two/*.idx", "**/three/*.idx"]


def traced(checks, server, program, data, *words):
    """How often the program asked for a name, and in how many seconds; or None where nothing can be traced."""
    trace = checks.folder / "trace"
    variables = [word for name in ("LD_PRELOAD", "CHAINIO_REGION") for word in ("-E", f"{name}={environment(server.region)[name]}")]
    begin = time.monotonic()
    done = subprocess.run(["strace", "-f", "-qq", "-e", "trace=readlinkat", "-o", trace, *variables, program, *words], cwd=data, env=environment(),
                          capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        print(f"skipped: strace cannot look at a process here: {done.stderr.strip()}")
        return None
    return sum("readlinkat" in line and "/proc/self/fd" in line for line in trace.read_text().splitlines()), seconds


def how_often(checks, program, data):
    if shutil.which("strace") is None:
        print("skipped: there is no strace to count calls with")
        return
    # A name is believed for 10 ms: how many openings these are is the machine's affair, of which a busy one may have few.
    for word, opened, least, most, names in (("often", 1000, 1, 500, 1), ("many", 2000, 2, 1000, 2), ("seldom", 50, 50, 50, 0), ("elsewhere", 0, 1000, 1000, 0)):
        with Server(checks.folder, classes=CLASSES) as server:
            counted = traced(checks, server, program, data, word)
        if counted is None:
            return
        asked, seconds = counted
        checks.true(f"{word}: how often the kernel was asked for a name", least <= asked <= max(most, names * (1 + seconds * 100)), counted)
        told = len(server.of("opened"))  # the others found no room
        checks.true(f"{word}: what was told of", 0 < told <= opened or told == opened, told)


def right_names(checks, program):
    for what, wanted in (("renamed", [(0, "one/x.idx")] * 2 + [(1, "two/x.idx")]), ("linked", [(0, "one/x.idx")] * 2 + [(1, "two/x.idx"), (0, "one/x.idx")]),
                         ("replaced", [(0, "one/x.idx")] * 3), ("folder", [(0, "one/x.idx")] * 2 + [(2, "three/x.idx")])):
        data = checks.folder / f"names-{what}"
        for name in ("one/x.idx", "two/y.idx"):
            (data / name).parent.mkdir(parents=True)
            (data / name).write_bytes(bytes(100))
        inodes = {path.stat().st_ino: str(path.relative_to(data)) for path in data.glob("*/*.idx")}
        with Server(checks.folder, classes=CLASSES) as server:
            checks.same(f"{what}: exit code", server.run(program, what, data).returncode, 0)
        opened = server.of("opened")
        checks.same(what, [(event["source"], event["text"].removeprefix(f"{data}/")) for event in opened], wanted)
        files = ["one/x.idx"] * len(wanted) if what != "replaced" else ["one/x.idx", "one/x.idx", "two/y.idx"]
        checks.same(f"{what}: which files", [inodes.get(event["inode"]) for event in opened], files)


# Calls a function by name, which one library has, and then another one in another place.
RELOADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
static int (*io_setup)(unsigned, unsigned long*);
static int ask(const char* path, int wanted) {
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); if (!library) { puts(dlerror()); return 2; }
    Dl_info found; unsigned long context = 0;
    if (!dladdr(dlsym(library, "id"), &found) || io_setup(1, &context) != wanted || io_setup(1, &context) != wanted) return 3;
    if (dlclose(library)) return 4;
    return mmap(found.dli_fbase, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? 5 : 0;
}
int main(int n, char** a) {
    io_setup = dlsym(RTLD_DEFAULT, "io_setup");
    int first = ask(a[1], 41), second = ask(a[2], 42);
    return first ? 10 + first : second ? 20 + second : 0;
}
"""


def comes_and_goes(checks, data):
    libraries = [checks.compile(f"lib{value}.so", f"int id; int io_setup(unsigned n, unsigned long* c) {{ return {value}; }}", "-shared", "-fPIC") for value in (41, 42)]
    program = checks.compile("reloads", RELOADS, "-ldl")
    with Server(checks.folder, classes=CLASSES) as server:
        done = server.run(program, *libraries, cwd=data, capture_output=True, text=True)
    checks.same("a function of a library that is closed, and then another's", (done.returncode, done.stdout, done.stderr), (0, "", ""))


def main():
    checks = Checks()
    data = checks.folder / "data"
    for name in ("one/a.idx", "two/b.idx", "other/c.idx"):
        (data / name).parent.mkdir(parents=True)
        (data / name).write_bytes(bytes(100))
    program = checks.compile("names", PROGRAM)
    how_often(checks, program, data)
    right_names(checks, program)
    comes_and_goes(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
