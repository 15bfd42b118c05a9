#!/usr/bin/env python3
"""Forks, threads, signals, other programs: whose events are posted by whom, and that nothing of the program's own changes."""
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import started  # noqa: E402
from shim import BUILD, LIBRARY, Checks, Server, environment, summary  # noqa: E402

SITES = BUILD / "bin" / "chainio-sites"
LOADER, NARROW_LOADER = (("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2") if platform.machine() == "x86_64" else
                         ("/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-armhf.so.3"))

HEAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/io_uring.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <unistd.h>
#define P "a.idx"
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%d: %s (errno %d)\\n", __LINE__, #x, errno); _exit(99); } } while (0)
static char b[65536]; static int f; static volatile int hits; extern char** environ;
static void reaped(pid_t c) { int s; CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s) && WEXITSTATUS(s) == 0); }
"""
O, C = ("opened", 0, "a.idx"), ("closed",)


def r(offset, length):
    return ("read", offset, length)


# (what, helper functions, the program's statements, the events of all its processes in the order of their rings, processes)
CASES = [
    ("fork: the position is shared, the ring is not", "",
     "f = open(P, 0); pid_t c = fork(); if (!c) { read(f, b, 10); close(f); _exit(0); } reaped(c); read(f, b, 20); close(f);",
     [O, r(10, 20), C, r(0, 10), C], 2),
    ("_Fork and a raw fork", "",
     "f = open(P, 0); pid_t c = _Fork(); if (!c) { pread(f, b, 10, 1); _exit(0); } reaped(c);"
     "c = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); if (!c) { pread(f, b, 10, 2); _exit(0); } reaped(c); pread(f, b, 10, 3);",
     [O, r(1, 10), r(2, 10), r(3, 10)], 3),
    ("vfork: the child's closes are not the parent's", "",
     "f = open(P, 0); int g = open(\"b.txt\", 0); pid_t c = vfork(); if (!c) { close(f); dup2(g, f); close_range(3, ~0U, 0); _exit(0); }"
     "reaped(c); CHECK(read(f, b, 10) == 10); CHECK(close(g) == 0); close(f);", [O, r(0, 10), C], 1),
    ("vfork: the child's opens are not the parent's", "",
     "f = open(\"b.txt\", 0); pid_t c = vfork(); if (!c) { close(f); if (open(P, 0) != f) _exit(1); _exit(0); } reaped(c); read(f, b, 10);"
     "close(f); f = open(P, 0); read(f, b, 5); close(f);", [O, r(0, 5), C], 1),
    ("the plan cannot be written, by whatever way", "",
     "f = open(P, 0); unsigned long plan = 0, rest = 0; char line[4096], how[5] = {}; FILE* maps = fopen(\"/proc/self/maps\", \"r\");"
     "while (fgets(line, sizeof line, maps)) { if (strstr(line, \"/plan\\n\")) sscanf(line, \"%lx-%*x %4s\", &plan, how); if (strstr(line, \"/region\\n\")) sscanf(line, \"%lx\", &rest); }"
     "CHECK(plan && rest == plan + 65536 && !strcmp(how, \"r--s\"));"
     "CHECK(mprotect((void*)plan, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);"
     "int memory = open(\"/proc/self/mem\", O_RDWR); CHECK(memory < 0 || pwrite(memory, b, 8, plan) == -1); long before = *(long*)plan;"
     "if (remap_file_pages((void*)rest, 4096, 0, 0, 0) == 0) *(long*)rest = 1; CHECK(before && *(long*)plan == before);", [O], 1),
    ("vfork and exec", "",
     "f = open(P, O_CLOEXEC); pid_t c = vfork(); if (!c) { execlp(\"cat\", \"cat\", P, (char*)0); _exit(1); } reaped(c); read(f, b, 7);",
     [O, O, r(0, 10000), C, r(0, 7)], 2),
    ("exec: a descriptor that stays open is known again", "",
     "f = open(P, 0); dup2(f, 0); close(f); if (n == 3) { execl(\"/bin/cat\", \"cat\", (char*)0); _exit(1); }", [O, O, r(0, 10000), C], 1),
    ("execle and its environment", "",
     "if (n == 3) { char* e[] = {\"X=1\", 0}; execle(\"/bin/sh\", \"sh\", \"-c\", \"test \\\"$X$CHAINIO_REGION\\\" = 1\", (char*)0, e); _exit(1); }", [], 0),
    ("an exec that fails", "",
     "f = open(P, 0); read(f, b, 5); CHECK(execl(\"/none\", \"none\", (char*)0) == -1 && errno == ENOENT);"
     "CHECK(execvp(\"no-such-program\", a) == -1 && errno == ENOENT); read(f, b, 6); close(f);", [O, r(0, 5), r(5, 6), C], 1),
    ("posix_spawn", "",
     "char* w[] = {\"cat\", P, 0}; pid_t c; CHECK(posix_spawnp(&c, \"cat\", 0, 0, w, environ) == 0); reaped(c);"
     "CHECK(posix_spawn(&c, \"/none\", 0, 0, w, environ) == ENOENT);", [O, r(0, 10000), C], 1),
    ("system and popen", "", "CHECK(system(\"cat a.idx\") == 0); FILE* p = popen(\"cat a.idx\", \"r\"); while (fgets(b, 99, p)); CHECK(pclose(p) == 0);",
     [O, r(0, 10000), C] * 2, 2),
    ("a static program is named", "",
     "char* w[] = {\"static\", 0}; pid_t c; CHECK(posix_spawn(&c, \"./static\", 0, 0, w, environ) == 0); reaped(c);"
     "c = vfork(); if (!c) { execv(\"./static\", w); _exit(1); } reaped(c); setenv(\"PATH\", \"/none::/bin\", 1);"
     "c = fork(); if (!c) { execvp(\"static\", w); _exit(1); } reaped(c);",
     [("note", 3, "./static"), ("note", 3, "./static"), ("note", 3, "static")], 2),
    ("a program of another C library is named", "",
     "char* w[] = {\"other\", 0}; pid_t c; CHECK(posix_spawn(&c, \"./other\", 0, 0, w, environ) == ENOENT); CHECK(execv(\"./other\", w) == -1 && errno == ENOENT);",
     [("note", 15, "./other"), ("note", 15, "./other")], 1),
    ("the loader that is executed by name is no static program", "",
     "char* w[] = {\"cat\", \"/bin/cat\", P, 0}; pid_t c; CHECK(posix_spawn(&c, \"" + LOADER + "\", 0, 0, w, environ) == 0); reaped(c);",
     [O, r(0, 10000), C], 1),
    ("threads", "static void* t(void* x) { for (int i = 0; i < 50; ++i) CHECK(pread(f, b + 64 * (long)x, 5, 7) == 5); return 0; }",
     "f = open(P, 0); pthread_t p[8]; for (long i = 0; i < 8; ++i) pthread_create(p + i, 0, t, (void*)i);"
     "for (int i = 0; i < 8; ++i) pthread_join(p[i], 0); close(f);", [O] + [r(7, 5)] * 400 + [C], 1),
    ("threads that come and go use the same rings again", "static void* t(void* x) { pread(f, b, 5, 7); return 0; }",
     "f = open(P, 0); for (int i = 0; i < 600; ++i) { pthread_t p; pthread_create(&p, 0, t, 0); pthread_join(p, 0); } close(f);",
     [O] + [r(7, 5)] * 600 + [C], 1),
    ("a signal handler reads", "static void h(int s) { int e = errno; pread(f, b, 3, 100); ++hits; errno = e; }",
     "f = open(P, 0); signal(SIGUSR1, h); raise(SIGUSR1); raise(SIGUSR1); close(f);", [O, r(100, 3), r(100, 3), C], 1),
    ("EINTR", "static void h(int s) { ++hits; }",
     "struct sigaction s = {.sa_handler = h}; sigaction(SIGALRM, &s, 0); int p[2]; CHECK(pipe(p) == 0); struct itimerval i = {{0, 1000}, {0, 1000}};"
     "setitimer(ITIMER_REAL, &i, 0); CHECK(read(p[0], b, 1) == -1 && errno == EINTR); f = open(P, 0);"
     "for (int k = 0; k < 1000; ++k) CHECK(pread(f, b, 9, 0) == 9 || errno == EINTR); setitimer(ITIMER_REAL, &(struct itimerval){}, 0); close(f);",
     [O] + [r(0, 9)] * 1000 + [C], 1),
    ("cancelled in a read", "static void undo(void* x) { ++hits; } static void* t(void* x) { pthread_cleanup_push(undo, 0); read(*(int*)x, b, 1); pthread_cleanup_pop(0); return 0; }",
     "int p[2]; CHECK(pipe(p) == 0); pthread_t w; void* v; pthread_create(&w, 0, t, p); pthread_cancel(w);"
     "CHECK(pthread_join(w, &v) == 0 && v == PTHREAD_CANCELED && hits == 1);"
     "f = open(P, 0);"
     "{ int old; pthread_create(&w, 0, t, &f); CHECK(pthread_join(w, &v) == 0 && v == 0); } close(f);", [O, C, r(0, 1)], 1),
    ("cancelled while it waits in poll, epoll_wait, accept, connect", "#include <poll.h>\n#include <sys/epoll.h>\n#include <sys/socket.h>\n#include <sys/un.h>\nstatic volatile int tid; static int which, l; static struct sockaddr_un there = {AF_UNIX}; static void undo(void* x) { ++hits; }"
     "static void* t(void* x) { struct epoll_event e; int p = epoll_create1(0), c = socket(AF_UNIX, SOCK_STREAM, 0); pthread_cleanup_push(undo, 0); tid = gettid();"
     "which == 0 ? poll(0, 0, 100000) : which == 1 ? epoll_wait(p, &e, 1, 100000) : which == 2 ? accept(l, 0, 0) : connect(c, (void*)&there, sizeof there);"
     "pthread_cleanup_pop(0); return 0; }",
     "alarm(60); l = socket(AF_UNIX, SOCK_STREAM, 0); snprintf(there.sun_path + 1, 99, \"cancelled-%d\", getpid()); CHECK(bind(l, (void*)&there, sizeof there) == 0 && listen(l, 0) == 0);"
     "for (which = 0; which < 4; ++which) { pthread_t w; void* v; tid = 0; if (which == 3) CHECK(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void*)&there, sizeof there) == 0);"
     "pthread_create(&w, 0, t, 0); char name[64], state[512] = {}; do { while (!tid); snprintf(name, 64, \"/proc/self/task/%d/syscall\", tid); FILE* s = fopen(name, \"r\"); CHECK(s && fgets(state, 512, s)); fclose(s); }"
     "while (atoi(state) != (int[]){SYS_poll, SYS_epoll_wait, SYS_accept, SYS_connect}[which]); CHECK(pthread_cancel(w) == 0);"
     "CHECK(pthread_join(w, &v) == 0 && v == PTHREAD_CANCELED && hits == which + 1); }", [], 0),
    # The program has a copy of what libc says of its threads, in which pthread_cancel says nothing.
    ("a thread that is alone ends itself, and each cancellation point is one", "#include <poll.h>\n#include <sys/epoll.h>\n#include <sys/single_threaded.h>\n#include <sys/socket.h>\nstatic void undo(void* x) { _exit(0); }",
     "CHECK(__libc_single_threaded); f = open(P, 0); struct sockaddr nobody = {}; struct epoll_event event; for (int i = 0; i < 10; ++i) { pid_t c = fork(); if (!c) { pthread_cleanup_push(undo, 0); CHECK(pthread_cancel(pthread_self()) == 0);"
     "switch (i) { case 0: open(\"b.txt\", 0); break; case 1: open64(\"b.txt\", 0); break; case 2: openat(AT_FDCWD, \"b.txt\", 0); break; case 3: openat64(AT_FDCWD, \"b.txt\", 0); break;"
     "case 4: creat(\"c.txt\", 0600); break; case 5: accept(-1, 0, 0); break; case 6: accept4(-1, 0, 0, 0); break; case 7: connect(-1, &nobody, sizeof nobody); break;"
     "case 8: poll(0, 0, 0); break; case 9: epoll_wait(-1, &event, 1, 0); break; }"
     "_exit(1); pthread_cleanup_pop(0); } reaped(c); } close(f);", [O, C], 1),
    ("cancelled before a matched read", "static void undo(void* x) { ++hits; }"
     "static void* t(void* x) { pthread_cleanup_push(undo, 0); pthread_cancel(pthread_self()); read(f, b, 1); hits = 50; pthread_cleanup_pop(0); return 0; }",
     "f = open(P, 0); pthread_t w; void* v; pthread_create(&w, 0, t, 0); CHECK(pthread_join(w, &v) == 0 && v == PTHREAD_CANCELED && hits == 1); close(f);",
     [O, C], 1),
    ("more than there is room for is libc's to refuse",
     "ssize_t __read_chk(int, void*, size_t, size_t); ssize_t __pread_chk(int, void*, size_t, off_t, size_t); ssize_t __pread64_chk(int, void*, size_t, off_t, size_t);",
     "f = open(P, 0); for (int i = 0; i < 3; ++i) { pid_t c = fork(); if (!c) { setsid(); close(2); prctl(PR_SET_DUMPABLE, 0);"
     "i == 0 ? __read_chk(f, b, 20, 10) : i == 1 ? __pread_chk(f, b, 20, 0, 10) : __pread64_chk(f, b, 20, 0, 10); _exit(0); }"
     "int s; CHECK(waitpid(c, &s, 0) == c && WIFSIGNALED(s) && WTERMSIG(s) == SIGABRT); } close(f);", [O, C], 1),
    # As the kernel does, the loader keeps all registers there, when it looks up what the handler calls for the first time.
    ("a small signal stack", "static void h(int s) { int g = open(\"b.txt\", 0); CHECK(g >= 0 && read(g, b, 5) == 5 && close(g) == 0); ++hits; }",
     "char* m = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); CHECK(mprotect(m, 4096, PROT_NONE) == 0);"
     "stack_t k = {.ss_sp = m + 4096, .ss_size = 2 * getauxval(AT_MINSIGSTKSZ) + 768}; CHECK(sigaltstack(&k, 0) == 0);"
     "struct sigaction s = {.sa_handler = h, .sa_flags = SA_ONSTACK}; sigaction(SIGUSR1, &s, 0); raise(SIGUSR1); CHECK(hits == 1);", [], 0),
    ("a small signal stack, and a matched file", "static void h(int s) { int g = open(P, 0); CHECK(g >= 0 && read(g, b, 5) == 5 && close(g) == 0); ++hits; }",
     "char* m = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); CHECK(mprotect(m, 4096, PROT_NONE) == 0);"
     "stack_t k = {.ss_sp = m + 4096, .ss_size = 2 * getauxval(AT_MINSIGSTKSZ) + 768}; CHECK(sigaltstack(&k, 0) == 0);"
     "struct sigaction s = {.sa_handler = h, .sa_flags = SA_ONSTACK}; sigaction(SIGUSR1, &s, 0); raise(SIGUSR1); CHECK(hits == 1);", [O, r(0, 5), C], 1),
    ("io_uring and AIO are named", "",
     "struct io_uring_params q = {}; int u = syscall(SYS_io_uring_setup, 4, &q); CHECK(u >= 0); unsigned long x = 0; CHECK(syscall(SYS_io_setup, 4, &x) == 0);",
     [("note", 1, ""), ("note", 2, "")], 1),
    ("a sandbox ends it", "",
     "f = open(P, 0); read(f, b, 4); CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0); CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);"
     "read(f, b, 4); syscall(SYS_exit, 0);", [O, r(0, 4), ("note", 7, "")], 1),
] + [("vfork: the child's sandbox is not the parent's, " + how, "static struct sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},"
      "{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getpid}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};",
      "f = open(P, 0); read(f, b, 4); struct sock_fprog filter = {4, code}; pid_t c = vfork(); if (!c) { CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);"
      f"CHECK({sandbox} == 0); pread(f, b, 5, 0); close(f); close(open(P, 0)); execl(\"/none\", \"none\", (char*)0); {end} _exit(1); }}"
      "reaped(c); CHECK(read(f, b, 6) == 6); close(f); f = open(P, 0); read(f, b, 7); close(f);", [O, r(0, 4), ("note", 7, ""), r(4, 6), C, O, r(0, 7), C], 1)
     for how, sandbox, end in (("executes", "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)", 'execl("/bin/true", "true", (char*)0);'),
                               ("by its number", "syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)", 'execl("/bin/true", "true", (char*)0);'),
                               ("ends", "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)", "_exit(0);"),
                               ("ends by its number", "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)", "syscall(SYS_exit_group, 0);"))] + [
    (name + ": the child's closes are not the parent's", "int __clone(int (*)(void*), void*, int, void*, ...); static char stack[65536] __attribute__((aligned(16)));"
     "static int t(void* x) { close(f); closefrom(3); _exit(0); }",
     f"f = open(P, 0); pid_t c = {name}(t, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0); reaped(c); CHECK(read(f, b, 10) == 10); close(f);", [O, r(0, 10), C], 1)
    for name in ("clone", "__clone")] + [
    ("every descriptor closed, then work", "", "for (int i = 0; i < 4096; ++i) close(i); f = open(P, 0); CHECK(f == 0); read(f, b, 3); close(f);",
     [O, r(0, 3), C], 1),
    ("descriptors are as many as without", "", "CHECK(open(\"b.txt\", 0) == 3);", [], 0),
    ("a descriptor above the table", "", "struct rlimit l = {70000, 70000}; if (setrlimit(RLIMIT_NOFILE, &l)) { CHECK(errno == EPERM); _exit(98); }"
     "f = open(P, 0); CHECK(dup2(f, 66000) == 66000); read(66000, b, 4); read(f, b, 4); close(66000); close(f);", [O, r(4, 4), C], 1),
]


def compile_cases(checks):
    text = HEAD
    for i, (_, helpers, body, _, _) in enumerate(CASES):
        text += "".join(f"#define {name} {name}{i}\n" for name in ("t", "h", "undo", "code", "stack")) + helpers
        text += f"\nstatic void case{i}(int n, char** a) {{ {body} }}\n#undef t\n#undef h\n#undef undo\n#undef code\n#undef stack\n"
    text += "int main(int n, char** a) { switch (atoi(a[1])) {\n" + "".join(f"case {i}: case{i}(n, a); break;\n" for i in range(len(CASES))) + "} return 0; }\n"
    return checks.compile("processes", text, "-pthread", "-fno-pie", "-no-pie")


def cases(checks, data):
    program = compile_cases(checks)
    checks.compile("static", "int main() { return 0; }", "-static")
    shutil.copy(checks.folder / "static", data / "static")
    checks.compile("other", "int main() { return 0; }", "-Wl,--dynamic-linker=/none/ld-musl.so.1")
    shutil.copy(checks.folder / "other", data / "other")
    with Server(checks.folder, classes=["*.idx"]) as server:
        groups = []
        for i, (what, _, _, wanted, processes) in enumerate(CASES):
            done = server.run(program, i, "exec", cwd=data, capture_output=True)
            start = len(server.events)
            server.say("next")
            groups.append((done, server.events[start:]))
    for (what, _, _, wanted, processes), (done, events) in zip(CASES, groups):
        if done.returncode == 98:
            print(f"skipped: {what}: the limit of open files cannot be raised here")
            continue
        checks.same(f"{what}: exit code {done.stderr.decode()[-300:]}", done.returncode, 0)
        checks.same(what, sorted(map(str, summary(events))), sorted(map(str, wanted)))
        checks.same(f"{what}: processes", len({event["process"] for event in events}), processes)
        for ring in {event["ring"] for event in events}:
            order = [event for event in events if event["ring"] == ring]
            checks.same(f"{what}: order in ring {ring}", order, [event for event in events if event in order])
    checks.same("lost", server.end["lost"], 0)
    checks.same("no_ring", server.end["no_ring"], 0)


RINGS, HOLDERS_AT, HOLDER_BYTES = 256, 98048, 16  # as in protocol.h
# (how a process ends that has posted, rings that are still taken then)
ENDS = [("return 0;", 0), ("exit(0);", 0), ("_exit(0);", 0), ("_Exit(0);", 0), ("raise(SIGKILL);", 1),
        ("pid_t c = fork(); if (!c) _exit(0); reaped(c); printf(\"%d\\n\", taken()); fflush(stdout); _exit(0);", 0),
        ("pid_t c = fork(); if (!c) exit(0); reaped(c); printf(\"%d\\n\", taken()); fflush(stdout); _exit(0);", 0),
        ("pid_t c = vfork(); if (!c) _exit(0); reaped(c); printf(\"%d\\n\", taken()); fflush(stdout); _exit(0);", 0)]


def ends(checks, data):
    """A process that ends gives the ring of the thread that ends it back, and none of its parent's."""
    text = HEAD + f"""
// How many of the {RINGS} rings have an owner.
static int taken(void) {{
    FILE* maps = fopen("/proc/self/maps", "r"); char line[4096]; unsigned long at = 0, begin, offset; int count = 0;
    while (fgets(line, sizeof line, maps)) if (strstr(line, "/region\\n")) {{
        sscanf(line, "%lx-%*x %*s %lx", &begin, &offset); at = begin - offset + {HOLDERS_AT};
    }}
    fclose(maps);
    for (int i = 0; i < {RINGS}; ++i) count += *(unsigned*)(at + i * {HOLDER_BYTES}UL) != 0;
    return count;
}}
"""
    text += "int main(int n, char** a) { f = open(P, 0); pread(f, b, 8, 16); switch (atoi(a[1])) {\n"
    text += "".join(f"case {i}: {{ {body} }} break;\n" for i, (body, _) in enumerate(ENDS)) + "} return 0; }\n"
    program = checks.compile("ends", text)
    for i, (what, left) in enumerate(ENDS):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, i, cwd=data, capture_output=True, text=True)
        checks.same(f"{what} exit code", done.returncode, -signal.SIGKILL if left else 0)
        checks.same(f"{what} reads", len(server.of("read")), 1)
        checks.same(f"{what} rings that are taken", len(server.end["owners"]), left)
        if "fork" in what:
            checks.same(f"{what} the parent keeps its own", done.stdout, "1\n")


def children_first(checks, data):
    """A ring that a child of vfork is the first to post in is that of the thread that made it."""
    text = HEAD + """
static void* thread(void* w) {
    pid_t c = vfork(); if (!c) { execv("./static", w); _exit(1); } reaped(c);
    printf("%d\\n", (int)syscall(SYS_gettid)); fflush(stdout); raise(SIGKILL); return 0;
}
int main(int n, char** a) {
    char* w[] = {"static", 0}; pthread_t other; if (n == 1) thread(w);
    CHECK(pthread_create(&other, 0, thread, w) == 0 && pthread_join(other, 0) == 0); return 0;
}
"""
    program = checks.compile("first", text, "-pthread")
    for words in ((), ("in another thread",)):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, *words, cwd=data, capture_output=True, text=True)
        checks.same(f"{words}: it is killed", done.returncode, -signal.SIGKILL)
        checks.same(f"{words}: whose the ring is", server.end["owners"], [int(done.stdout or 0)])
        checks.same(f"{words}: what was posted", [event["text"] for event in server.of("note")], ["./static"])


def others_names(checks, data):
    """A library's own function, of a name that another library gives to a system call."""
    library = checks.compile("libown.so", "int io_setup(int a, int b) { return a + b; }", "-shared", "-fPIC")
    program = checks.compile("own", "int io_setup(int, int); int main() { return io_setup(40, 2); }", str(library), f"-Wl,-rpath,{library.parent}")
    with Server(checks.folder, classes=["*.idx"]) as server:
        checks.same("a function called io_setup of a library", server.run(program, cwd=data).returncode, 42)
    checks.same("and nothing said of it", server.events, [])


def plain(checks, data):
    """Nothing is posted, and everything works, where there is nothing to post to."""
    program = checks.folder / "processes"
    for what, region, plan in (("no region", None, {}), ("another program", "server", {"exes": ["nginx*"]}), ("a server that has ended", "server", {"server": 0}),
                               ("another version", "server", {"magic": 7}), ("a file that is none", "/etc/hostname", {}), ("no file", "/none", {})):
        with Server(checks.folder, classes=["*.idx"], **plan) as server:
            where = server.region if region == "server" else region
            extra = {"LD_PRELOAD": str(LIBRARY)} | ({"CHAINIO_REGION": str(where)} if where else {})
            done = subprocess.run([program, "0"], cwd=data, env=environment() | extra, capture_output=True)
            checks.same(f"{what}: exit code", (done.returncode, done.stderr), (0, b""))
        checks.same(f"{what}: events", server.events, [])
        checks.same(f"{what}: rings", server.end["owners"], [])
    for what, change in (("a folder that others may write to", lambda folder: folder.chmod(0o777)), ("another user's folder", lambda folder: os.chown(folder, 12345, 12345))):
        if what.startswith("another") and os.geteuid() != 0:
            print(f"skipped: {what}: only root can give one away")
            continue
        with Server(checks.folder, classes=["*.idx"]) as server:
            change(server.region.parent)
            done = server.run(program, "0", cwd=data, capture_output=True)
            checks.same(f"{what}: exit code", (done.returncode, done.stderr), (0, b""))
        checks.same(f"{what}: events and rings", (server.events, server.end["owners"]), ([], []))
    for exe in ("proc*", str(checks.folder / "*"), "**/processes"):
        with Server(checks.folder, classes=["*.idx"], exes=["other", exe]) as server:
            server.run(program, "0", cwd=data)
        checks.same(f"exe {exe}: events", len(server.of("read")), 2)


LOCKS = HEAD + r"""
#include <sys/inotify.h>
#include <poll.h>
static int locked(const char* path) {
    pid_t c = fork();
    if (!c) { struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; int g = open(path, O_RDONLY); _exit(g < 0 || fcntl(g, F_GETLK, &l) ? 9 : l.l_type != F_UNLCK); }
    int s; CHECK(waitpid(c, &s, 0) == c && WIFEXITED(s) && WEXITSTATUS(s) < 2); return WEXITSTATUS(s);
}
// Past libc, so that nobody sees that there is one.
static void lock(const char* path) { struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET}; int g = open(path, O_RDONLY); CHECK(g >= 0 && syscall(SYS_fcntl, g, F_SETLK, &l) == 0); }
static int spawn(const char* path) { char* w[] = {(char*)path, 0}; pid_t c; int e = posix_spawnp(&c, path, 0, 0, w, environ); if (!e) reaped(c); return e; }
static void* spawns(void* path) { for (int i = 0; i < 50; ++i) CHECK(spawn(path) == 0); return 0; }
int main(int n, char** a) {
    if (n > 2) return !locked(a[0]);
    if (!strcmp(a[1], "exec")) { lock(a[0]); CHECK(locked(a[0])); execl(a[0], a[0], "x", "x", (char*)0); return 1; }
    if (!strcmp(a[1], "fork")) { lock("./run.sh"); pid_t c = vfork(); if (!c) { execl("./run.sh", "run.sh", (char*)0); _exit(1); } reaped(c); CHECK(locked("./run.sh")); }
    if (!strcmp(a[1], "spawn")) { lock("./run.sh"); CHECK(spawn("./run.sh") == 0 && locked("./run.sh")); setenv("PATH", ".:/bin:/usr/bin", 1); CHECK(spawn("run.sh") == 0 && locked("./run.sh")); }
    if (!strcmp(a[1], "threads")) { pthread_t p[2]; for (int i = 0; i < 2; ++i) pthread_create(p + i, 0, spawns, "./run.sh"); lock("./run.sh"); for (int i = 0; i < 2; ++i) pthread_join(p[i], 0); CHECK(locked("./run.sh")); }
    if (!strcmp(a[1], "pipe")) { int w = inotify_init1(IN_NONBLOCK); CHECK(w >= 0 && inotify_add_watch(w, "pipe", IN_OPEN) >= 0);
        CHECK(spawn("./pipe") == EACCES && execl("./pipe", "pipe", (char*)0) == -1 && errno == EACCES && read(w, b, sizeof b) == -1 && errno == EAGAIN); }
    return 0;
}
"""


def record_locks(checks, data):
    """To look at a program that is about to be executed ends no record lock of the process on it, and lets no pipe's writer go."""
    program = checks.compile("locks", LOCKS, "-pthread")
    (data / "run.sh").write_text("#!/bin/sh\n")
    (data / "run.sh").chmod(0o755)
    os.mkfifo(data / "pipe", 0o755)
    for sites in (None, SITES) if platform.machine() == "x86_64" else (None,):
        with Server(checks.folder, sites=sites, classes=["*.idx"]) as server:
            for what in ("exec", "fork", "spawn", "threads", "pipe"):
                done = server.run(program, what, cwd=data, capture_output=True)
                checks.same(f"record locks: {what}{' rewritten' if sites else ''}", (done.returncode, done.stderr), (0, b""))


def not_judged(checks, data):
    """A process that may not have a child is told to be executing something that nobody has looked at."""
    program = checks.compile("alone", HEAD + """
int main(int n, char** a) {
    struct rlimit none = {0, 0};
    if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0); CHECK(execv((char*)8, a) == -1 && errno == EFAULT); execl(\"/bin/true\", \"true\", (char*)0); return 1;
}""")
    with Server(checks.folder, classes=["*.idx"]) as server:
        checks.same("a process without children: exit code", server.run(program, cwd=data).returncode, 0)
    checks.same("a process without children", [(event["source"], event["text"]) for event in server.of("note")], [(10, "")] * 2)


def namespaces(checks, data):
    """The first process of a PID namespace that the program has made is a child of its own: one of ours would end the namespace."""
    program = checks.compile("apart", HEAD + r"""
int main(int n, char** a) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) { perror("unshare"); return 77; }
    char* w[] = {"sh", "-c", "/bin/true; exit 5", 0}; pid_t c; int s;
    if (n == 1) execv("/bin/sh", w);
    CHECK(posix_spawnp(&c, "sh", 0, 0, w, environ) == 0 && waitpid(c, &s, 0) == c); return WEXITSTATUS(s);
}""")
    for sites in (None, SITES) if platform.machine() == "x86_64" else (None,):
        for words in ([], ["spawn"]):
            with Server(checks.folder, sites=sites, classes=["*.idx"]) as server:
                done = server.run(program, *words, cwd=data, capture_output=True, text=True)
            if done.returncode == 77:
                print(f"skipped: a PID namespace of the program's own: {done.stderr}")
                return
            checks.same(f"a PID namespace of the program's own {words} {sites}", (done.returncode, done.stderr), (5, ""))
            checks.same("and what it starts is not looked at", (10, "") in [(event["source"], event["text"]) for event in server.of("note")], True)


# A 32-bit program whose loader prints the environment; linked without a C library, which such a machine may lack.
LOADER32 = """
__attribute__((noinline)) static int call(int n, int a, const void* b, int c) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory"); return r; }
__attribute__((used)) static void show(int* stack) {
    for (char** each = (char**)(stack + *stack + 2); *each; ++each) { int size = 0; while ((*each)[size]) ++size; call(4, 1, *each, size); call(4, 1, "\\n", 1); }
    call(1, 0, 0, 0);
}
__asm__(".globl _start\\n_start: mov %esp, %eax\\npush %eax\\ncall show");
"""
EXECUTES32 = HEAD + r"""
static char* e[] = {"X=1", 0, 0}; static char* w[] = {"p32", 0};
int main(int n, char** a) {
    static char ours[4096]; snprintf(ours, sizeof ours, "LD_PRELOAD=/none.so:%s", getenv("LD_PRELOAD")); e[1] = ours; pid_t c;
    int f = open("./p32", O_RDONLY);
    switch (atoi(a[1])) {
        case 0: execve("./p32", w, e); break;
        case 1: execv("./p32", w); break;
        case 2: setenv("PATH", ".", 1); execvp("p32", w); break;
        case 3: setenv("PATH", ".", 1); execvpe("p32", w, e); break;
        case 4: fexecve(f, w, e); break;
        case 5: execveat(AT_FDCWD, "p32", w, e, 0); break;
        case 6: execveat(f, "", w, e, AT_EMPTY_PATH); break;
        case 7: execle("./p32", "p32", (char*)0, e); break;
        case 8: CHECK(posix_spawn(&c, "./p32", 0, 0, w, e) == 0); reaped(c); return 0;
        case 9: setenv("PATH", ".", 1); CHECK(posix_spawnp(&c, "p32", 0, 0, w, e) == 0); reaped(c); return 0;
        case 10: CHECK(system("./p32") == 0); return 0; case 11: execveat(open("./p32", O_PATH), "", w, e, AT_EMPTY_PATH); break;
    }
    return errno == ENOEXEC ? 98 : 1;
}
"""


def narrow(checks, data):
    """A 32-bit program, whose loader cannot load the library, gets an environment without it."""
    try:
        checks.compile("loader32", LOADER32, "-m32", "-ffreestanding", "-fno-stack-protector", "-nostdlib", "-static")
        checks.compile("p32", LOADER32, "-m32", "-ffreestanding", "-fno-stack-protector", "-nostdlib", "-fPIE", "-pie", f"-Wl,--dynamic-linker={checks.folder / 'loader32'}")
    except subprocess.CalledProcessError:
        return print("skipped: 32-bit programs: none can be linked here")
    shutil.copy(checks.folder / "p32", data / "p32")
    program = checks.compile("executes32", EXECUTES32)
    with Server(checks.folder, classes=["*.idx"]) as server:
        for i in range(12):
            before = len(server.events)
            done = server.run(program, i, cwd=data, capture_output=True)
            if done.returncode == 98:
                return print("skipped: 32-bit programs: the kernel runs none")
            kept = [line for line in done.stdout.decode().splitlines() if line.startswith(("LD_PRELOAD", "X="))]
            checks.same(f"32-bit program {i}: exit code and environment", (done.returncode, done.stderr, kept),
                        (0, b"", ["X=1", "LD_PRELOAD=/none.so"] if i in (0, 3, 4, 5, 6, 7, 8, 9, 11) else []))
            server.say("next")
            checks.same(f"32-bit program {i}: told", [event["source"] for event in server.events[before:] if event["kind"] == "note"], [12])
        if not os.access(NARROW_LOADER, os.X_OK):
            return print("skipped: the 32-bit loader by name: there is none")
        before = len(server.events)
        done = server.run("sh", "-c", f"{NARROW_LOADER} --list ./p32; exit $?", cwd=data, capture_output=True)
        checks.same("the 32-bit loader by name", (done.returncode, done.stderr), (0, b""))
        server.say("next")
        checks.same("the 32-bit loader by name: told", [event["source"] for event in server.events[before:] if event["kind"] == "note"], [12])


def foreign(checks, data):
    """A program for another kind of machine, which an emulator runs, gets an environment without the library."""
    emulator = checks.compile("emulator", HEAD + "int main() { for (char** e = environ; *e; ++e) puts(*e); return 5; }", "-static")
    machine = 0xb7 if platform.machine() == "x86_64" else 0x3e
    (data / "foreign").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + bytes([3, 0, machine, 0]) + bytes(44))
    (data / "foreign").chmod(0o755)
    register = f"mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf '%s' ':chainio:M:18:\\x{machine:02x}\\x00::{emulator}:' > /proc/sys/fs/binfmt_misc/register"
    script = f"({register}) || exit 77; ./foreign; exit $?"
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, cwd=data, capture_output=True, text=True)
    if done.returncode != 5:
        return print(f"skipped: programs for another kind of machine: {done.stderr}")
    checks.same("a program for another kind of machine", (done.stderr, [line for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD")]), ("", []))
    checks.same("is told", [(event["source"], event["text"]) for event in server.of("note")], [(13, "./foreign")])


def states(checks, data):
    """The server goes, sleeps, or looks away while a program runs."""
    program = checks.compile("loop", HEAD + """
int main(int n, char** a) {
    setvbuf(stdout, 0, _IONBF, 0); f = open(P, 0);
    while (fgets(b, 99, stdin)) { for (int i = atoi(b); i > 0; --i) CHECK(pread(f, b + 100, 8, 16) == 8); puts("done"); }
}""")
    with Server(checks.folder, classes=["*.idx"]) as server:
        child = started.start([program], cwd=data, env=environment(server.region), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def reads(count):
            child.stdin.write(f"{count}\n")
            child.stdin.flush()
            return child.stdout.readline()

        reads(3)
        server.say("asleep")
        reads(1)
        server.say("look")
        checks.same("reads while it watches", len(server.of("read")), 4)
        server.say("quiet")
        reads(50)
        server.say("look")
        checks.same("reads that nobody wants", len(server.of("read")), 4)
        server.say("gone")
        reads(50)
        child.stdin.close()
        checks.same("exit code", child.wait(), 0)
    checks.same("reads without a server", len(server.of("read")), 4)
    with Server(checks.folder, classes=["*.idx"]) as server:
        server.say("full")
        done = server.run(program, input=b"5000\n", cwd=data, capture_output=True)
        checks.same("exit code with a full ring", done.returncode, 0)
    checks.same("posted and lost", len(server.of("read")) + server.end["lost"], 5000)
    checks.true("a full ring loses", server.end["lost"] > 0)
    killed(checks, data, program)


def killed(checks, data, program):
    """A server that was killed leaves a program that goes on."""
    server = Server(checks.folder, classes=["*.idx"]).__enter__()
    child = started.start([program], cwd=data, env=environment(server.region), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    out, _ = child.communicate("20000\n")
    checks.same("a program whose server was killed", (child.returncode, out), (0, "done\n"))
    for end in (server.process.stdin, server.process.stdout):
        end.close()


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "a.idx").write_bytes(bytes(range(250)) * 40)
    (data / "b.txt").write_bytes(b"unmatched" * 100)
    cases(checks, data)
    plain(checks, data)
    states(checks, data)
    ends(checks, data)
    children_first(checks, data)
    others_names(checks, data)
    record_locks(checks, data)
    not_judged(checks, data)
    namespaces(checks, data)
    narrow(checks, data)
    foreign(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
