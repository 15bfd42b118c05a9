#!/usr/bin/env python3
"""Who asks what the kernel knows of seccomp is seen on; who restricts himself by it goes on plain, and only he does. What a filter refuses has not happened. Where only libc may
make system calls, libc makes them. Threads of a sandbox end as others do."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import LIBRARY, Checks, Server  # noqa: E402

PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static char b[64]; static struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
int main(int n, char** a) {
    struct sock_fprog filter = {1, all}; unsigned action = SECCOMP_RET_KILL_PROCESS; unsigned short sizes[3];
    int f = open("a.idx", O_RDONLY); CHECK(f >= 0 && pread(f, b, 8, 0) == 8 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    switch (atoi(a[1])) {
        case 0: CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0); break;
        case 1: CHECK(syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes) == 0); break;
        case 2: CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0) == -1 && errno == EFAULT); break;
        case 3: CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0L, 0L, 0L) == -1 && errno == EFAULT); break;
        case 4: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0L) == -1 && errno == EFAULT); break;
        case 5: CHECK(prctl(PR_SET_SECCOMP, 77, &filter) == -1 && errno == EINVAL); break;
        case 6: CHECK(prctl(PR_GET_SECCOMP) == 0); break;
        case 12: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0L) == -1 && errno == EINVAL); break;  // as libseccomp asks
        case 13: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &filter) == -1 && errno == EINVAL); break;
        case 11: prctl(59, 0, 0, 0, 0); break;  // no system call is a signal, as before
        case 7: CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0); break;
        case 8: CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0L, 0L) == 0); break;
        case 9: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0); break;
        case 10: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0L) == 0); break;
    }
    CHECK(read(f, b, 8) == 8);
    syscall(SYS_exit, 0);
}
"""
ASKS = (*range(7), 11, 12, 13)  # of the cases
CASES = 14
# Lets libc's code alone make system calls, by a filter, or by what turns all others into signals; before the library begins, or while it sees. Then calls everything that the
# library otherwise makes by itself, and executes a program.
ONLY_LIBC = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { USER_DISPATCH = 59 };
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static unsigned long begin, length;
static char blocks = 1;
static int find(struct dl_phdr_info* info, size_t bytes, void* unused) {
    if (!strstr(info->dlpi_name, "libc.so.6")) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, length = info->dlpi_phdr[i].p_memsz;
    return 1;
}
static void refused(int number, siginfo_t* info, void* context) { blocks = 0; fprintf(stderr, "call %d came from elsewhere\n", info->si_syscall); _exit(98); }
static void confine(int how) {
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    CHECK(dl_iterate_phdr(find, 0) == 1 && sigaction(SIGSYS, &action, 0) == 0);
    const unsigned low = begin, high = begin >> 32, end = begin + length;
    struct sock_filter lines[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, instruction_pointer) + 4}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, high},
                                  {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, instruction_pointer)}, {BPF_JMP | BPF_JGE | BPF_K, 0, 2, low},
                                  {BPF_JMP | BPF_JGT | BPF_K, 1, 0, end}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP}};
    struct sock_fprog filter = {sizeof lines / sizeof *lines, lines};
    if (how == 0) { if (prctl(USER_DISPATCH, 1, begin, length, &blocks) != 0) _exit(77); }
    if (how == 1) { if (syscall(SYS_prctl, USER_DISPATCH, 1L, begin, length, &blocks) != 0) _exit(77); }
    if (how == 2) { if (end < low) _exit(77); CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0); }
}
static int how(void) { return atoi(getenv("HOW")); }
#ifdef EARLY
__attribute__((constructor)) static void confined_early(void) { confine(how()); }
#else
int main(int count, char** words) {
    char b[64]; struct epoll_event event; struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; socklen_t bytes = sizeof address;
    if (count > 1) {
        int f = open("a.idx", O_RDONLY);
        CHECK(f >= 0 && pread(f, b, 8, 0) == 8);
        confine(how());
    }
    int f = open("a.idx", O_RDONLY), in = openat(AT_FDCWD, "a.idx", O_RDONLY), made = creat("made.idx", 0600);
    CHECK(f >= 0 && in >= 0 && made >= 0 && pread(f, b, 8, 0) == 8 && fcntl(f, F_DUPFD_CLOEXEC, 0) >= 0 && dup(f) >= 0);
    int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), e = epoll_create1(0);
    CHECK(bind(s, (void*)&address, sizeof address) == 0 && listen(s, 5) == 0 && getsockname(s, (void*)&address, &bytes) == 0 && connect(c, (void*)&address, sizeof address) == 0);
    CHECK(accept(s, 0, 0) >= 0 && poll(0, 0, 0) == 0 && epoll_wait(e, &event, 1, 0) == 0);
    CHECK(rename("made.idx", "gone.idx") == 0 && renameat(AT_FDCWD, "gone.idx", AT_FDCWD, "made.idx") == 0 && unlink("made.idx") == 0 && unlinkat(AT_FDCWD, "made.idx", 0) == -1);
    CHECK(close_range(f, ~0U, 0) == 0);
    if (how() == 2) { puts("done"); fflush(stdout); _exit(0); }  // the next program would have the filter
    CHECK(system("true") == 0);
    execl("/bin/echo", "echo", "done", (char*)0);
}
#endif
"""
WAYS = 3
# Each thread has read before the process goes into a sandbox, and ends after it.
THREADS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
enum { THREADS = 3 };
static int f; static pthread_barrier_t have_read, is_confined;
static struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static void* reads(void* x) {
    char b[8];
    CHECK(pread(f, b, 8, 0) == 8);
    pthread_barrier_wait(&have_read); pthread_barrier_wait(&is_confined);
    CHECK(pread(f, b, 8, 0) == 8);
    return x;
}
int main(void) {
    struct sock_fprog filter = {1, all}; pthread_t threads[THREADS];
    CHECK((f = open("a.idx", O_RDONLY)) >= 0);
    pthread_barrier_init(&have_read, 0, THREADS + 1); pthread_barrier_init(&is_confined, 0, THREADS + 1);
    for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(threads + i, 0, reads, 0) == 0);
    pthread_barrier_wait(&have_read);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    pthread_barrier_wait(&is_confined);
    for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], 0) == 0);
    return 0;
}
"""
# Under a filter that it was started with, a program is seen, also where that one refuses what it asks for.
REFUSED = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static char b[64];
static struct sock_filter some[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}, {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_close_range},
                                    {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clone}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
#ifdef EARLY
static __attribute__((constructor(101))) void early(void) { int f = open("a.idx", O_RDONLY); if (f >= 0) { read(f, b, 8); close(f); } }
#else
int close_range(unsigned, unsigned, int);
int main(int n, char** a) {
    struct sock_fprog filter = {5, some};
    if (n == 1) { CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0); execl(a[0], a[0], "x", (char*)0); return 98; }
    int f = open("a.idx", O_RDONLY); CHECK(f >= 0);
    CHECK(close_range(3, ~0U, 0) == -1 && errno == EPERM && read(f, b, 8) == 8);
    CHECK(syscall(SYS_close_range, 3, ~0U, 0) == -1 && errno == EPERM && read(f, b, 8) == 8);
    char* words[] = {"true", 0}; pid_t c; int status;
    errno = 77;  // libc makes its children by clone3
    CHECK(posix_spawn(&c, "/bin/true", 0, 0, words, environ) == 0 && errno == 77 && waitpid(c, &status, 0) == c && status == 0);
    return 0;
}
#endif
"""
# A plain program: each word makes a child by vfork, which goes into a sandbox while the library is away, or ends at once, or does it itself. What is executed then says what is preloaded.
PLAIN = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static void confine(void) {
    struct sock_fprog filter = {1, all};
    CHECK(rename("lib", "away") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 && rename("away", "lib") == 0);
}
static void show(void) { execl("/bin/sh", "sh", "-c", "echo preloaded: ${LD_PRELOAD##*/}", (char*)0); _exit(98); }
int main(int n, char** a) {
    int status;
    for (int i = 1; i < n; ++i) {
        if (!strcmp(a[i], "itself")) { confine(); continue; }
        pid_t c = vfork();
        if (!c) { if (!strcmp(a[i], "child")) { confine(); show(); } _exit(0); }
        CHECK(waitpid(c, &status, 0) == c && status == 0);
    }
    show();
}
"""


def plain(checks, data):
    """What a child of vfork asks as it goes into a sandbox is not its plain parent's answer; its own holds, and so does that of a parent who has had children."""
    program = checks.compile("plain", PLAIN)
    (data / "lib").mkdir()
    library = shutil.copy(LIBRARY, data / "lib" / "libchainio.so")
    without, with_us = "preloaded:\n", "preloaded: libchainio.so\n"
    for words, wanted in ((["child"], without + with_us), (["ends", "itself"], without), (["child", "child", "itself"], without * 3), (["itself", "child"], without * 2)):
        with Server(checks.folder, exes=["nginx*"]) as server:
            done = server.run(program, *words, cwd=data, capture_output=True, text=True, extra={"LD_PRELOAD": str(library)})
        checks.same(f"a plain program, {words}", (done.returncode, done.stdout, done.stderr), (0, wanted, ""))


def refused(checks, data):
    """Under a filter that it was started with. It refuses children, too, of which the library makes none in a process with one thread, also where that opens a file early."""
    early = checks.compile("libopens.so", REFUSED, "-DEARLY", "-shared", "-fPIC")
    for what, options, seen in (("", (), 2), (", and a library that reads early", ("-Wl,--no-as-needed", early, f"-Wl,-rpath,{early.parent}"), 4)):
        program = checks.compile("refused", REFUSED, *options)
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, cwd=data, capture_output=True, text=True)
        checks.same(f"a refused close_range{what}: exit code", (done.returncode, done.stderr), (0, ""))
        checks.same("  what it would have closed is seen on", len(server.of("read")), seen)


def only_libc(checks, data):
    program = checks.compile("only_libc", ONLY_LIBC)
    early = checks.compile("libconfined.so", ONLY_LIBC, "-DEARLY", "-shared", "-fPIC")
    confined = checks.compile("confined", ONLY_LIBC, "-Wl,--no-as-needed", early, f"-Wl,-rpath,{early.parent}")
    for way in range(WAYS):
        for words, seen in ((["x"], (1, [7])), ([], (0, []))):
            what = f"only libc may make system calls, {way}, {'later' if words else 'before the library begins'}"
            with Server(checks.folder, classes=["*.idx"]) as server:
                done = server.run(program if words else confined, *words, cwd=data, capture_output=True, text=True, extra={"HOW": str(way)})
            if done.returncode == 77:
                print(f"skipped: {what}: not on this machine")
                continue
            checks.same(what, (done.returncode, done.stdout, done.stderr), (0, "done\n", ""))
            checks.same("  reads and notes", (len(server.of("read")), [event["source"] for event in server.of("note")]), seen)


def threads(checks, data):
    """A thread of a sandbox ends, and gives its ring back. That of the first thread, which ends the process, is the server's to free."""
    program = checks.compile("threads", THREADS, "-pthread")
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run(program, cwd=data, capture_output=True, text=True)
    checks.same("threads that end in a sandbox: exit code", (done.returncode, done.stderr), (0, ""))
    checks.same("  reads and rings that are taken at the end", (len(server.of("read")), len(server.end["owners"])), (3, 1))


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "a.idx").write_bytes(bytes(100))
    program = checks.compile("sandboxes", PROGRAM)
    for case in range(CASES):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, case, cwd=data, capture_output=True, text=True)
        checks.same(f"{case}: exit code", (done.returncode, done.stderr), (0, ""))
        seen = len(server.of("read")), [event["source"] for event in server.of("note")]
        checks.same(f"{case}: reads and notes", seen, (2, []) if case in ASKS else (1, [7]))
    plain(checks, data)
    refused(checks, data)
    only_libc(checks, data)
    threads(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
