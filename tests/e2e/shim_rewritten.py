#!/usr/bin/env python3
"""System calls that programs make without libc: rewritten, they are seen, and the program notices nothing."""
import os
import pathlib
import platform
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import BUILD, COMPILER, Checks, Server, environment, summary  # noqa: E402

SITES = BUILD / "bin" / "chainio-sites"
# Calls as a program has them that goes past libc: the number in a register that nobody can tell before it runs.
HEAD = r"""
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static long raw(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d; register long r8 __asm__("r8") = e; register long r9 __asm__("r9") = f; long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return r;
}
#define CALL(n, a, b, c, d) raw(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
"""
READS = HEAD + r"""
int main(int n, char** a) {
    char b[64]; struct iovec v = {b, 5}; long at = 40;
    errno = 77;
    int f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0), g = CALL(SYS_open, a[1], O_RDONLY, 0, 0), o = CALL(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY, 0);
    printf("%d %ld %ld\n", f >= 0 && g >= 0, CALL(SYS_read, f, b, 10, 0), CALL(SYS_pread64, f, b, 20, 30));
    printf("%ld %ld\n", CALL(SYS_readv, f, &v, 1, 0), CALL(SYS_sendfile, o, f, &at, 7));
    int d = CALL(SYS_dup, f, 0, 0, 0), t = CALL(SYS_dup2, f, 60, 0, 0), u = CALL(SYS_fcntl, f, F_DUPFD, 70, 0);
    printf("%d %d %ld %ld %ld\n", t, u, CALL(SYS_read, d, b, 3, 0), CALL(SYS_close, f, 0, 0, 0), CALL(SYS_pread64, t, b, 2, 1));
    printf("%ld %ld %ld %ld\n", CALL(SYS_close, d, 0, 0, 0), CALL(SYS_close, t, 0, 0, 0), CALL(SYS_close, u, 0, 0, 0), CALL(SYS_close_range, g, g, 0, 0));
    printf("%ld %ld %ld %ld %ld\n", CALL(SYS_read, f, b, 1, 0), CALL(SYS_openat, AT_FDCWD, "/none.idx", 0, 0), CALL(SYS_openat, AT_FDCWD, 1, 0, 0), CALL(100000, 1, 2, 3, 4), CALL(SYS_read + 65536, 1, 2, 3, 4));
    f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0);
    printf("%c\n", *(char*)raw(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE, f, 0));
    printf("%ld %ld %d\n", CALL(SYS_read, f, 1, 10, 0), CALL(SYS_getpid, 0, 0, 0, 0) - getpid(), errno);
    return 0;
}
"""
# What a system call keeps is kept: each register, the flags, and what lies below the stack pointer.
KEEPS = HEAD + r"""
struct State { unsigned long regs[12]; unsigned long red[16]; unsigned long flags; unsigned char vectors[16][32]; } before, after;
long ask(long number, long a, long b, long c, struct State* from, struct State* to);
__asm__(R"(
    .text
    .globl ask
    .type ask, @function
ask:
    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %r9
    mov %r8, %rbx
    mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx
    mov 0(%rbx), %rbp; mov 8(%rbx), %r12; mov 16(%rbx), %r13; mov 24(%rbx), %r14; mov 32(%rbx), %r15; mov 40(%rbx), %r10; mov 48(%rbx), %r9
    .set i, 0
    .rept 16
    mov 96+8*i(%rbx), %r8; mov %r8, -128+8*i(%rsp)
    .set i, i+1
    .endr
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu 232+32*\n(%rbx), %ymm\n
    .endr
    mov 56(%rbx), %r8
    stc; std
    syscall
    nop
    mov (%rsp), %rcx
    mov %rbx, %r11; mov %rcx, %rbx
    mov %rbp, 0(%rbx); mov %r12, 8(%rbx); mov %r13, 16(%rbx); mov %r14, 24(%rbx); mov %r15, 32(%rbx); mov %r10, 40(%rbx); mov %r9, 48(%rbx); mov %r8, 56(%rbx)
    mov %rdi, 64(%rbx); mov %rsi, 72(%rbx); mov %rdx, 80(%rbx); mov %r11, 88(%rbx)
    .set i, 0
    .rept 16
    mov -128+8*i(%rsp), %r8; mov %r8, 96+8*i(%rbx)
    .set i, i+1
    .endr
    pushfq; pop %r8; cld; mov %r8, 224(%rbx)
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovdqu %ymm\n, 232+32*\n(%rbx)
    .endr
    vzeroupper
    pop %r9; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
    ret
    .size ask, . - ask
)");
int main(int n, char** a) {
    char buffer[64];
    for (int round = 0; round < 300; round++) {
        long asks[][4] = {{SYS_openat, AT_FDCWD, (long)a[1], 0}, {SYS_read, 0, (long)buffer, 10}, {SYS_getppid, 0, 0, 0}, {SYS_lseek, 0, 0, SEEK_SET}, {SYS_close, 0, 0, 0}};
        long fd = 0;
        for (int i = 0; i < 5; i++) {
            for (unsigned j = 0; j < sizeof before; j++) ((unsigned char*)&before)[j] = rand();
            memset(&after, 0, sizeof after);
            long* c = asks[i];
            long r = ask(c[0], i == 0 ? c[1] : fd, c[2], c[3], &before, &after);
            if (i == 0) fd = r;
            int bad = r < 0 || memcmp(before.regs, after.regs, 64) || after.regs[8] != (i == 0 ? c[1] : fd) && i != 0 || after.regs[9] != c[2] || after.regs[10] != c[3] || after.regs[11] != (long)&before;
            bad |= memcmp(before.red, after.red, sizeof before.red) ? 2 : 0;
            bad |= memcmp(before.vectors, after.vectors, sizeof before.vectors) ? 4 : 0;
            bad |= (after.flags & 0x401) != 0x401 ? 8 : 0;
            if (bad) { printf("round %d, call %ld: %d, result %ld\n", round, c[0], bad, r); return 1; }
        }
    }
    puts("kept");
    return 0;
}
"""
# Handlers come in the middle of calls, and make such calls themselves: on their own stack, or on the one they came on.
SIGNALS = HEAD + r"""
static char* path; static volatile long handled, wrong;
static void look(volatile long* bad) {
    char b[16]; int f = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    if (f < 0 || CALL(SYS_pread64, f, b, 11, 11 * 7) != 11 || memcmp(b, "line 000007", 11) || CALL(SYS_close, f, 0, 0, 0) != 0) ++*bad;
}
static void handler(int s) { handled++; look(&wrong); }
static void* thread(void* until) { char big[100]; while (!*(volatile int*)until) look(&wrong); return big; }
int main(int n, char** a) {
    static char stack[1 << 16]; stack_t other = {stack, 0, sizeof stack}; int until = 0; pthread_t t[4];
    path = a[1];
    struct sigaction act = {.sa_handler = handler, .sa_flags = atoi(a[2]) ? SA_ONSTACK | SA_RESTART : SA_RESTART | SA_NODEFER};
    sigaltstack(&other, 0); sigaction(SIGALRM, &act, 0);
    struct itimerval every = {{0, 150}, {0, 150}}; setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, thread, &until);
    while (handled < 3000) look(&wrong);
    until = 1; for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    struct itimerval none = {0}; setitimer(ITIMER_REAL, &none, 0);
    int parts = 0, c; FILE* maps = fopen("/proc/self/maps", "r");  // each stack of ours is two
    while ((c = getc(maps)) != EOF) parts += c == '\n';
    printf("%d %ld %d\n", handled >= 3000, wrong, parts < 300);
    return 0;
}
"""
# Two handlers on one stack of their own, the second in the middle of a call of the first.
NESTED = HEAD + r"""
static char* path; static volatile int bad = -1; static volatile int* shared;
static void report(const char* what, long n) { char t[64]; CALL(SYS_write, 1, t, snprintf(t, sizeof t, "%s %ld\n", what, n), 0); }
/* For the fifo: it has said that it is in its handler, which is all that it does before. */
static int waits(pid_t p) { char t[256] = {0}, *e; int f; snprintf(t, sizeof t, "/proc/%d/stat", p); f = open(t, O_RDONLY); read(f, t, 255); close(f); e = strrchr(t, ')'); return shared[0] && e && e[2] == 'S'; }
__attribute__((noinline)) static void two(int s) { volatile char mine[3000]; memset((void*)mine, 0xee, sizeof mine); }
__attribute__((noinline)) static void one(int s) {
    volatile char mine[2000]; memset((void*)mine, 0x11, sizeof mine); char b[8];
    int f = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0); report("in a handler", CALL(SYS_read, f, b, 6, 0));
    shared[0] = 1;
    long opened = CALL(SYS_openat, AT_FDCWD, "fifo", O_RDONLY, 0);
    bad = 0; for (unsigned i = 0; i < sizeof mine; i++) bad += mine[i] != 0x11;
    report("opened", opened);
}
int main(int n, char** a) {
    static char memory[1 << 16]; stack_t other = {memory, 0, sizeof memory}; char b[8]; path = a[1];
    int f = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0); CALL(SYS_read, f, b, 5, 0);
    struct { void (*handler)(int); unsigned long flags; void* restorer; unsigned long mask; } kernels = {0};
    struct sigaction first = {.sa_handler = one, .sa_flags = SA_ONSTACK}, second = {.sa_handler = two, .sa_flags = SA_ONSTACK};
    if (atoi(a[2]) == 2) { sigfillset(&first.sa_mask); sigfillset(&second.sa_mask); }
    sigaltstack(&other, 0); sigaction(SIGUSR1, &first, 0);
    if (atoi(a[2]) == 1) {  // without libc; its own sets what libc's would, and says what the kernel has
        sigaction(SIGHUP, &second, 0); CALL(SYS_rt_sigaction, SIGHUP, 0, &kernels, 8); sigaction(SIGHUP, &(struct sigaction){.sa_handler = SIG_DFL}, 0);
        CALL(SYS_rt_sigaction, SIGUSR2, &kernels, 0, 8);
    } else sigaction(SIGUSR2, &second, 0);
    mkfifo("fifo", 0600); shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); pid_t me = getpid(), child = fork();
    if (child == 0) { while (!waits(me)) usleep(1000); if (atoi(a[2]) == 2) close(open("fifo", O_WRONLY)); kill(me, SIGUSR2); _exit(0); }
    raise(SIGUSR1); waitpid(child, 0, 0); unlink("fifo");
    printf("changed %d, then %ld\n", bad, CALL(SYS_read, f, b, 7, 0));
    return 0;
}
"""
# Handlers that were there before the preload library looked: of a library that the program is linked to.
EARLY = """#define _GNU_SOURCE
#include <signal.h>
static void nothing(int s) {}
__attribute__((constructor)) static void begins(void) {
    struct sigaction own = {.sa_handler = nothing, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &own, 0); sigaction(SIGUSR2, &own, 0);
}
"""
# A child of vfork, which shares the memory, sets what is no handler of its parent.
VFORKS = HEAD + r"""
static void nothing(int s) {}
int main(int n, char** a) {
    struct sigaction own = {.sa_handler = nothing, .sa_flags = SA_ONSTACK};
    char b[8]; int f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0); CALL(SYS_read, f, b, 5, 0);
    pid_t child = n > 2 ? vfork() : -1;
    if (child == 0) { sigaction(SIGUSR1, &own, 0); sigaction(SIGUSR2, &own, 0); _exit(0); }
    if (child > 0) waitpid(child, 0, 0);
    printf("%ld\n", CALL(SYS_read, f, b, 7, 0));
    return 0;
}
"""
# Calls after which somebody else goes on: children on the same stack, on a new one, and another program.
CHILDREN = HEAD + r"""
static char stack[1 << 16];
int main(int n, char** a) {
    char b[16]; int status, f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0);
    if (n > 2) { printf("again %ld\n", CALL(SYS_pread64, f, b, 9, 3)); return 3; }
    fflush(stdout);
    long child = CALL(SYS_clone, SIGCHLD, 0, 0, 0);
    if (child == 0) CALL(SYS_exit_group, CALL(SYS_pread64, f, b, 5, 1), 0, 0, 0);
    waitpid(child, &status, 0); printf("fork %d\n", WEXITSTATUS(status)); fflush(stdout);
    child = CALL(SYS_fork, 0, 0, 0, 0);
    if (child == 0) CALL(SYS_exit_group, CALL(SYS_pread64, f, b, 6, 1), 0, 0, 0);
    waitpid(child, &status, 0); printf("fork %d\n", WEXITSTATUS(status)); fflush(stdout);
    // The child has a copy of the descriptors, and the memory.
    long r; char* args[] = {a[0], a[1], "x", 0}; extern char** environ; register long r10 __asm__("r10") = 0;
    __asm__ volatile(
        "mov $58, %%eax; syscall; test %%eax, %%eax; jnz 1f;"
        "mov %[f], %%edi; mov $3, %%eax; syscall; test %%eax, %%eax; jnz 2f;"
        "mov %[p], %%rdi; mov %[v], %%rsi; mov %[e], %%rdx; mov $59, %%eax; syscall;"
        "2: mov $231, %%eax; mov $99, %%edi; syscall; ud2; 1:"
        : "=&a"(r) : [f] "r"(f), [p] "r"(a[0]), [v] "r"(args), [e] "r"(environ) : "rcx", "r11", "rdi", "rsi", "rdx", "memory");
    waitpid(r, &status, 0); printf("vfork and exec %d\n", WEXITSTATUS(status));
    printf("still %ld\n", CALL(SYS_pread64, f, b, 8, 2));
    return 0;
}
"""
# A thread that libc knows nothing of: it has its creator's thread-local memory.
THREAD = HEAD + r"""
static char stack[1 << 16]; static volatile int done; static char* path;
__attribute__((noreturn, used)) static void body(void) {
    char b[8]; int f = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    done = CALL(SYS_read, f, b, 5, 0);
    for (;;) CALL(SYS_exit, 0, 0, 0, 0);
}
int main(int n, char** a) {
    char b[8]; path = a[1]; CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0); long r;
    if (n > 2) clone((int (*)(void*))body, stack + sizeof stack - 8, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, 0);
    else {
        __asm__ volatile("syscall; test %%rax, %%rax; jnz 1f; call body; 1:" : "=a"(r) : "a"(SYS_clone),
            "D"(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM), "S"(stack + sizeof stack), "d"(0L) : "rcx", "r11", "r8", "r10", "memory");
    }
    while (!done) usleep(1000);
    printf("%d\n", done);
    return 0;
}
"""
# Each goes on plain, and says so.
SANDBOX = HEAD + r"""
int main(int n, char** a) {
    char b[8]; int f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0);
    CALL(SYS_pread64, f, b, 5, 0); CALL(SYS_prctl, PR_SET_SECCOMP, 1, 0, 0);
    long r = CALL(SYS_read, f, b, 5, 0); b[0] = '0' + r; b[1] = '\n'; CALL(SYS_write, 1, b, 2, 0); CALL(SYS_exit, 0, 0, 0, 0);
}
"""
NULLS = HEAD + r"""
static void caught(int s, siginfo_t* i, void* c) { printf("%d %p\n", s, i->si_addr); fflush(stdout); _exit(5); }
int main(int n, char** a) {
    struct sigaction act = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO}; sigaction(SIGSEGV, &act, 0);
    CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0);
    if (a[2][0] == 'r') return *(volatile char*)(long)(a[2][1] - '0');
    if (a[2][0] == 'w') *(volatile char*)(long)(a[2][1] - '0') = 1;
    ((void (*)(void))(long)(a[2][1] - '0'))();
    return 0;
}
"""
# A jump to right behind a call: there is no room for one of ours, nor before it.
NO_ROOM = HEAD + r"""
int main(int n, char** a) {
    long r, left = 3;
    __asm__ volatile("jmp 1f; 1: syscall; 3: dec %1; jnz 3b" : "=a"(r), "+r"(left) : "0"(39L) : "rcx", "r11", "memory");
    printf("%d\n", CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0) > 0);
    return 0;
}
"""
TABLE = HEAD + r"""
int main(int n, char** a) {
    static void* places[] = {&&one, &&two};
    char b[8]; int f = CALL(SYS_openat, AT_FDCWD, a[1], O_RDONLY, 0); long r = SYS_getpid;
    goto *places[n & 1];
one: __asm__ volatile("syscall" : "+a"(r) : : "rcx", "r11");
two: printf("%d %ld\n", r > 0, CALL(SYS_read, f, b, 3, 0));
    return 0;
}
"""


MAY_INTERRUPT = "its signal handlers have a stack of their own and may interrupt each other; from then on its own system calls are not seen"


def fill(checks):
    path = checks.folder / "a.idx"
    path.write_bytes(b"".join(b"line %06d" % i for i in range(1000)))
    return path

# A handler on the stack of the call that it interrupts takes as much of it as it has been promised.
DEEP = HEAD + r"""
static void handler(int s) { volatile char all[240 << 10]; for (unsigned i = 0; i < sizeof all; i += 512) all[sizeof all - 1 - i] = 1; }
int main(int n, char** a) {
    struct sigaction act = {.sa_handler = handler}; struct itimerval every = {{0, 1000}, {0, 1000}}, none = {0};
    if (mkfifo(a[2], 0600) || sigaction(SIGALRM, &act, 0) || setitimer(ITIMER_REAL, &every, 0)) return 1;
    long r; do r = CALL(SYS_openat, AT_FDCWD, a[2], O_RDONLY, 0); while (r != -EINTR); /* nobody writes */
    setitimer(ITIMER_REAL, &none, 0);
    return unlink(a[2]) != 0;
}
"""
# Executes what is static by the calls' numbers.
EXECUTES = HEAD + r"""
extern char** environ;
int main(int n, char** a) {
    for (int how = 0; how < 3; how++) {
        pid_t c = fork(); int s; char* w[] = {"static", 0};
        if (c) { if (waitpid(c, &s, 0) != c || s != 5 << 8) return 1; continue; }
        if (how == 0) CALL(SYS_execve, a[2], w, environ, 0);
        if (how == 1) raw(SYS_execveat, AT_FDCWD, (long)a[2], (long)w, (long)environ, 0, 0);
        if (how == 2) raw(SYS_execveat, open(a[2], O_PATH), (long)"", (long)w, (long)environ, AT_EMPTY_PATH, 0);
        _exit(6);
    }
    return 0;
}
"""


def both(checks, name, program, *words, cwd=None, **options):
    """Runs a program plainly and rewritten, and compares. The recording server of the second run."""
    plain = subprocess.run([program, *map(str, words)], env=environment(), capture_output=True, timeout=300, cwd=cwd)
    with Server(checks.folder, classes=["*.idx"], sites=str(SITES), **options) as server:
        done = server.run(program, *words, capture_output=True, timeout=300, cwd=cwd)
    checks.same(f"{name}: what it says", (done.returncode, done.stdout, done.stderr), (plain.returncode, plain.stdout, plain.stderr))
    return server


def refusals(server):
    return [event["text"] for event in server.of("note", source=8)]


def seen(checks, path):
    """What libc's functions would have posted is posted."""
    program = checks.compile("reads", READS)
    server = both(checks, "reads", program, path)
    by_name = checks.compile("named", READS.replace("return r;\n}", "return r;\n}\n#define raw named", 1).replace("#define CALL", """
static long named(long n, long a, long b, long c, long d, long e, long f) { int old = errno; long r = syscall(n, a, b, c, d, e, f); if (r < 0) r = -errno; errno = old; return r; }
#define CALL""", 1))
    with Server(checks.folder, classes=["*.idx"]) as other:
        other.run(by_name, path, capture_output=True)
    checks.same("events as of syscall()", summary(server.events), summary(other.events))
    checks.same("it maps", len(server.of("note", source=6)), 1)
    checks.true("there are some", len(server.of("read")) >= 6, server.events)
    checks.same("nothing is refused", refusals(server), [])
    rewritten = server.end["rewriting"]
    checks.true("counted", rewritten["programs"] == 1 and rewritten["sites"] >= 1 and rewritten["calls"] > 10 and rewritten["missed"] == 0, rewritten)
    stripped = checks.folder / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    server = both(checks, "a stripped program", stripped, path)
    checks.same("says why it is not seen", (refusals(server), server.of("read")), (["it has no symbols that say where its functions are"], []))
    with Server(checks.folder, classes=["*.idx"], sites="/none") as server:
        server.run(program, path, capture_output=True)
    checks.same("without chainio-sites", (refusals(server), server.of("read")), (["chainio-sites does not run"], []))
    with Server(checks.folder, classes=["*.idx"], sites=str(SITES)) as server:
        done = server.run("cat", path, capture_output=True)
    checks.same("nothing to rewrite in cat", (done.returncode, refusals(server), server.end["rewriting"]["programs"]), (0, [], 0))


def processes(checks, path):
    program = checks.compile("children", CHILDREN, "-fno-pie", "-no-pie")
    server = both(checks, "children", program, path)
    checks.same("their reads", sorted(event["length"] for event in server.of("read")), [5, 6, 8, 9])
    checks.same("the other program is rewritten anew", (server.end["rewriting"]["programs"], refusals(server)), (2, []))
    static = checks.compile("static", "int main() { return 5; }", "-static")
    server = both(checks, "execution", checks.compile("executes", EXECUTES), path, static)
    checks.same("  static programs are named", [(event["source"], event["text"]) for event in server.of("note")], [(3, str(static))] * 3)
    program = checks.compile("thread", THREAD)
    for words in ((), ("by libc",)):
        server = both(checks, f"a thread of its own {words}", program, path, *words)
        checks.same("  from then on it goes on plain", (refusals(server), len(server.of("opened")), server.of("read")),
                    (["it starts threads without libc; from then on its own system calls are not seen"], 1, []))
    program = checks.compile("sandbox", SANDBOX)
    server = both(checks, "a sandbox", program, path)
    checks.same("  nothing of ours is called in it", (len(server.of("note", source=7)), [event["length"] for event in server.of("read")]), (1, [5]))


def stays(checks, path):
    server = both(checks, "registers", checks.compile("keeps", KEEPS, "-mavx"), path)
    checks.true("  they were looked at", len(server.of("read")) == 300 and not refusals(server), (len(server.events), refusals(server)))
    program = checks.compile("signals", SIGNALS, "-pthread")
    for on_own_stack in (0, 1):
        server = both(checks, f"signal handlers, own stack {on_own_stack}", program, path, on_own_stack)
        checks.true("  they were looked at", server.end["rewriting"]["calls"] > 9000 and not refusals(server), server.end)
    server = both(checks, "a handler that takes much of the stack", checks.compile("deep", DEEP), path, checks.folder / "fifo")
    checks.true("  it interrupts what is looked at", server.end["rewriting"]["calls"] > 0 and not refusals(server), server.end)
    program = checks.compile("nested", NESTED)
    for how, looked_at in (("set by libc", False), ("set without libc", False), ("that block each other", True)):
        number = ("set by libc", "set without libc", "that block each other").index(how)
        server = both(checks, f"handlers on one stack, {how}", program, path, number, cwd=checks.folder)
        told = [] if looked_at else [MAY_INTERRUPT]
        checks.same("  seen as long as nothing can happen to it", (refusals(server), [event["length"] for event in server.of("read")]), (told, [5, 6, 7] if looked_at else [5]))
    checks.compile("libearly.so", EARLY, "-shared", "-fPIC")
    early = checks.compile("early", VFORKS, f"-Wl,-rpath,{checks.folder}", "-Wl,--no-as-needed", checks.folder / "libearly.so")
    for name, program, words, told in (("of a library, set before", early, (), [MAY_INTERRUPT]), ("of a child of vfork", checks.compile("vforks", VFORKS), ("vfork",), [])):
        server = both(checks, f"handlers on one stack, {name}", program, path, *words)
        checks.same("  seen where they are not this process's", (refusals(server), [event["length"] for event in server.of("read")]), (told, [] if told else [5, 7]))
    program = checks.compile("nulls", NULLS)
    for how in ("r0", "w0", "c0", "r8", "c9"):
        both(checks, f"null pointers, {how}", program, path, how)


def refused(checks, path):
    for name, text in (("no_room", NO_ROOM), ("table", TABLE)):
        server = both(checks, name, checks.compile(name, text, "-O1"), path)
        checks.true("  it says which call", len(refusals(server)) == 1 and re.fullmatch("there is no room for a jump at the system call at 0x[0-9a-f]+", refusals(server)[0]),
                    refusals(server))
        checks.same("  and nothing of it is seen", (server.of("opened"), server.end["rewriting"]["sites"]), ([], 0))


def main():
    if platform.machine() != "x86_64":
        print("skipped: system calls are rewritten on x86-64 only")
        sys.exit(77)
    checks = Checks()
    path = fill(checks)
    for part in (seen, stays, processes, refused):
        part(checks, path)
    checks.finish()


main()
