#!/usr/bin/env python3
"""Programs that posix_spawn starts from another folder than the caller's: a relative path leads elsewhere there, and nothing is said of what it leads to here.
Programs that are executed by a descriptor, and by the system call's number. Children that are made by it share no descriptors with their parent."""
import pathlib
import platform
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import Checks, Server  # noqa: E402

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
extern char** environ; static char* w[] = {"prog", 0};
static int spawned(int error, pid_t c) { int s; CHECK(error == 0 && waitpid(c, &s, 0) == c && WIFEXITED(s)); return WEXITSTATUS(s); }
int main(int n, char** a) {
    posix_spawn_file_actions_t moves, other; pid_t c; posix_spawn_file_actions_init(&moves); posix_spawn_file_actions_init(&other);
    posix_spawn_file_actions_addclose(&other, 9);
    int how = atoi(a[1]), e;
    if (how == 0) return spawned((e = posix_spawn(&c, "./prog", &other, 0, w, environ), e), c);
    if (how % 2) CHECK(posix_spawn_file_actions_addchdir_np(&moves, "elsewhere") == 0);
    else CHECK(posix_spawn_file_actions_addfchdir_np(&moves, open("elsewhere", O_RDONLY | O_DIRECTORY)) == 0);
    setenv("PATH", "/none:.", 1);
    switch (how) {
        case 1: case 2: e = posix_spawn(&c, "./prog", &moves, 0, w, environ); break;
        case 3: case 4: e = posix_spawnp(&c, "prog", &moves, 0, w, environ); break;
        case 5: e = posix_spawnp(&c, "./prog", &moves, 0, w, environ); break;
        case 6: e = posix_spawn(&c, a[2], &moves, 0, w, environ); break;
        case 7: e = posix_spawn(&c, "./prog", 0, 0, w, environ); break;
        case 8: CHECK(posix_spawn(&c, (char*)8, &moves, 0, w, environ) != 0); return 0;
    }
    return spawned(e, c);
}
"""
STATIC, NOT_JUDGED = 3, 10
# What the program ends with, and the notes: the one here is static and ends with 5, the other one is as most programs are and ends with 6.
CASES = [(5, [STATIC]), (6, [NOT_JUDGED]), (6, [NOT_JUDGED]), (6, [NOT_JUDGED]), (6, [NOT_JUDGED]), (6, [NOT_JUDGED]), (5, [STATIC]), (5, [STATIC]), (0, [])]

# Each case executes the static program in a child, or fails.
EXECUTES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
extern char** environ; static char* w[] = {"prog", 0}; static const char P[] = "./prog";
static int by(int flags) { int f = open(P, flags); CHECK(f >= 0); return f; }
static int spawned(const char* name) {
    int (*spawn)(int*, const char*, void*, void*, char**, char**) = dlsym(RTLD_DEFAULT, name); int p = -1, e; siginfo_t i = {0};
    if (!spawn || (e = spawn(&p, P, 0, 0, w, environ)) == ENOSYS) return 77;
    CHECK(e == 0 && waitid(P_PIDFD, p, &i, WEXITED) == 0); return i.si_status;
}
int main(int n, char** a) {
    int how = atoi(a[1]), s;
    if (how == 8) return spawned("pidfd_spawn");
    if (how == 9) return spawned("pidfd_spawnp");
    pid_t c = fork(); CHECK(c >= 0);
    if (c) { CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s)); return WEXITSTATUS(s); }
    switch (how) {
        case 0: fexecve(by(O_RDONLY), w, environ); break;
        case 1: fexecve(by(O_PATH), w, environ); break;
        case 2: execveat(by(O_PATH | O_CLOEXEC), "", w, environ, AT_EMPTY_PATH); break;
        case 3: syscall(SYS_execve, P, w, environ); break;
        case 4: syscall(SYS_execveat, by(O_PATH), "", w, environ, AT_EMPTY_PATH); break;
        case 5: syscall(SYS_execveat, AT_FDCWD, P, w, environ, 0); break;
        case 6: CHECK(syscall(SYS_execve, (char*)8, w, environ) == -1 && errno == EFAULT); break;
        case 7: CHECK(syscall(SYS_execveat, AT_FDCWD, (char*)8, w, environ, AT_EMPTY_PATH) == -1 && errno == EFAULT); break;
    }
    return 4;
}
"""
BY_NAME, BY_DESCRIPTOR, FAILS = "./prog", "/data/prog", None
EXECUTED = [BY_DESCRIPTOR, BY_DESCRIPTOR, BY_DESCRIPTOR, BY_NAME, BY_DESCRIPTOR, BY_NAME, FAILS, FAILS, BY_NAME, BY_NAME]
# The child begins by returning, to what lies at the end of its stack.
SHARES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char b[64]; static int f; static long stack[8192] __attribute__((aligned(16))); enum { TOP = 8000 };
static void closes(void) { syscall(SYS_close, f); for (;;) syscall(SYS_exit, 0); }
int main(int n, char** a) {
    int s; long c; f = open("a.idx", O_RDONLY); stack[TOP] = (long)closes;
    if (atoi(a[1])) {
        struct clone_args how = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD, .stack = (long)stack, .stack_size = TOP * sizeof *stack};
        c = syscall(SYS_clone3, &how, sizeof how);
    } else c = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, stack + TOP, 0L, 0L, 0L);
    if (c == -1 && errno == ENOSYS) return 77;
    if (c <= 0 || waitpid(c, &s, 0) != c || s != 0) return 1;
    return read(f, b, 8) != 8 || read(f, b, 8) != 8;
}
"""


def by_descriptor(checks, data):
    program = checks.compile("executes", EXECUTES, "-ldl")
    for how, wanted in enumerate(EXECUTED):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, how, cwd=data, capture_output=True, text=True)
        if done.returncode == 77:
            print(f"skipped: execution {how}: this libc has no such function")
            continue
        checks.same(f"execution {how}: exit code", (done.returncode, done.stderr), (5 if wanted else 4, ""))
        notes = [(event["source"], event["text"].removeprefix(str(data.parent.resolve()))) for event in server.of("note")]
        checks.same(f"execution {how}: notes", notes, [(STATIC, wanted)] if wanted else [])


def shared_memory(checks, data):
    if platform.machine() != "x86_64":
        return print("skipped: children by the number of clone: this processor keeps the place to return to in a register")
    program = checks.compile("shares", SHARES)
    for how in range(2):
        with Server(checks.folder, classes=["*.idx"]) as server:
            code = server.run(program, how, cwd=data).returncode
        if code == 77:
            print("skipped: clone3: there is none")
            continue
        checks.same(f"child {how} that shares memory: exit code, what is seen", (code, [event["kind"] for event in server.events]), (0, ["opened", "read", "read"]))


def main():
    checks = Checks()
    data = checks.folder / "data"
    (data / "elsewhere").mkdir(parents=True)
    shutil.copy(checks.compile("here", "int main() { return 5; }", "-static"), data / "prog")
    shutil.copy(checks.compile("there", "int main() { return 6; }"), data / "elsewhere" / "prog")
    program = checks.compile("spawns", PROGRAM)
    for how, wanted in enumerate(CASES):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, how, data / "prog", cwd=data, capture_output=True, text=True)
        checks.same(f"{how}: exit code", (done.returncode, done.stderr), (wanted[0], ""))
        checks.same(f"{how}: notes", [event["source"] for event in server.of("note")], wanted[1])
    (data / "a.idx").write_bytes(bytes(100))
    by_descriptor(checks, data)
    shared_memory(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
