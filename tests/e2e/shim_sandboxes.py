#!/usr/bin/env python3
"""Who asks what the kernel knows of seccomp is seen on; who restricts himself by it goes on plain, and only he does. What a filter refuses has not happened."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import Checks, Server  # noqa: E402

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
        case 7: CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0); break;
        case 8: CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0L, 0L) == 0); break;
        case 9: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0); break;
        case 10: CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0L) == 0); break;
    }
    CHECK(read(f, b, 8) == 8);
    syscall(SYS_exit, 0);
}
"""
ASKS = 7  # of the cases, the first
# Under a filter that it was started with, a program is seen, also where that one refuses what it asks for.
REFUSED = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { perror(#x); _exit(99); } } while (0)
static char b[64];
static struct sock_filter some[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_close_range},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
int close_range(unsigned, unsigned, int);
int main(int n, char** a) {
    struct sock_fprog filter = {4, some};
    if (n == 1) { CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0); execl(a[0], a[0], "x", (char*)0); return 98; }
    int f = open("a.idx", O_RDONLY); CHECK(f >= 0);
    CHECK(close_range(3, ~0U, 0) == -1 && errno == EPERM && read(f, b, 8) == 8);
    CHECK(syscall(SYS_close_range, 3, ~0U, 0) == -1 && errno == EPERM && read(f, b, 8) == 8);
    return 0;
}
"""


def refused(checks, data):
    program = checks.compile("refused", REFUSED)
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run(program, cwd=data, capture_output=True, text=True)
    checks.same("a refused close_range: exit code", (done.returncode, done.stderr), (0, ""))
    checks.same("  what it would have closed is seen on", (len(server.of("opened")), len(server.of("read"))), (1, 2))


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    (data / "a.idx").write_bytes(bytes(100))
    program = checks.compile("sandboxes", PROGRAM)
    for case in range(11):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, case, cwd=data, capture_output=True, text=True)
        checks.same(f"{case}: exit code", (done.returncode, done.stderr), (0, ""))
        seen = len(server.of("read")), [event["source"] for event in server.of("note")]
        checks.same(f"{case}: reads and notes", seen, (2, []) if case < ASKS else (1, [7]))
    refused(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
