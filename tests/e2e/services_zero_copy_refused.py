#!/usr/bin/env python3
"""Replies over tcp where the kernel refuses to send without a copy, in each way that it has: they are sent plainly, whole, by whom that concerns and for
as long as it does. An older kernel, memory that is not registered and a kernel without memory are a library's in front of liburing, which changes the
operations on their way; a socket that cannot is one of a map of sockets."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import sockmap  # noqa: E402
from daemon import Server, receive  # noqa: E402
from netns import until  # noqa: E402
from runs import ROOT, expect  # noqa: E402
from services_zero_copy import answer, ask, prepare  # noqa: E402

# REFUSE is what becomes of the first TIMES sends: an operation that no kernel knows, a buffer that is not there, and one that ends with ENOBUFS.
LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

static void change(struct io_uring *ring) {
    static int left = -1;
    if (left < 0) left = atoi(getenv("TIMES"));
    for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[at & ring->sq.ring_mask];
        if (sqe->opcode != IORING_OP_SEND_ZC || left == 0) continue;
        left--;
        if (strcmp(getenv("REFUSE"), "unknown") == 0) sqe->opcode = 255;
        else if (strcmp(getenv("REFUSE"), "unregistered") == 0) sqe->buf_index = 60000;
        else {  /* receives into a group of buffers that is none */
            const struct io_uring_sqe was = *sqe;
            memset(sqe, 0, sizeof *sqe);
            sqe->opcode = IORING_OP_RECV, sqe->fd = was.fd, sqe->user_data = was.user_data;
            sqe->flags = was.flags | IOSQE_BUFFER_SELECT, sqe->buf_group = 999;
        }
    }
}
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
int io_uring_submit(struct io_uring *ring) { change(ring); return NEXT(io_uring_submit)(ring); }
int io_uring_submit_and_get_events(struct io_uring *ring) { change(ring); return NEXT(io_uring_submit_and_get_events)(ring); }
int io_uring_submit_and_wait(struct io_uring *ring, unsigned count) { change(ring); return NEXT(io_uring_submit_and_wait)(ring, count); }
int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count, struct __kernel_timespec *time, sigset_t *mask) {
    change(ring);
    return NEXT(io_uring_submit_and_wait_timeout)(ring, cqe, count, time, mask);
}
"""


@contextlib.contextmanager
def refusing(folder, how, times):
    prefix = ["env", f"LD_PRELOAD={folder / 'refuse.so'}", f"REFUSE={how}", f"TIMES={times}"]
    server = Server(folder, prefix=prefix)
    yield server
    expect("ends", server.stop(), 0)


def asked(sock, number, times=1):
    sock.sendall(ask(number, times))
    want = answer(number, times)
    return receive(sock, len(want)) == want


def sends(server):
    """How many were let through by the kernel, and how many were not."""
    service = server.stats()["services"][0]
    return service["zero_copy_sends"], service["zero_copy_refused"]


def fallbacks(server, name):
    return [each["count"] for each in server.stats()["fallbacks"] if each["name"] == name]


def test_unknown(folder):
    with refusing(folder, "unknown", 1) as server, server.connect() as first, server.connect() as second:
        expect("a kernel that does not know how: a result between text, twice", asked(first, 3, 2), True)
        expect("  further replies", [asked(sock, n) for n in range(5) for sock in (first, second)], [True] * 10)
        expect("  it is asked once, for all connections", sends(server), (0, 1))
        expect("  which is named", fallbacks(server, "no-zero-copy"), [1])
        expect("  and nobody has vanished", server.stats()["services"][0]["vanished"], 0)


def test_unregistered(folder):
    with refusing(folder, "unregistered", 1) as server, server.connect() as first:
        expect("memory that the kernel does not know: a reply", asked(first, 3, 2), True)
        expect("  further ones of the connection", [asked(first, n) for n in range(3)], [True] * 3)
        expect("  are sent plainly", sends(server), (0, 1))
        with server.connect() as second:
            expect("  another connection's", asked(second, 5), True)
        expect("  without a copy", sends(server), (1, 1))
        expect("  nothing is said of the kernel", fallbacks(server, "no-zero-copy"), [])


def test_no_memory(folder):
    for _ in runs.tries():
        began = time.monotonic()
        if without_memory(folder, lambda: time.monotonic() - began < 0.9):
            return
    expect("two replies are got within a second", False, True)


def without_memory(folder, in_time):
    """Whether it was tried: the second reply has to come within a second of the first."""
    with refusing(folder, "memory", 2) as server, server.connect() as first:
        expect("a kernel without memory: a reply", asked(first, 3, 2), True)
        second = asked(first, 4), sends(server)
        if not in_time():
            return False
        expect("  is sent plainly, and so is the next one", second, (True, (0, 1)))
        time.sleep(1.1)  # for one second the kernel is not asked again
        expect("  a second later it has none still", (asked(first, 5), sends(server)), (True, (0, 2)))
        time.sleep(1.1)
        expect("  and then it has", (asked(first, 6), sends(server)), (True, (1, 2)))
        expect("  nothing is said of the kernel", fallbacks(server, "no-zero-copy"), [])
    return True


def test_socket(folder):
    """One whose kind of sending was changed, as for a map of sockets, cannot; the others can."""
    try:
        sockets = sockmap.create()
    except OSError as error:
        return print(f"skipped: a socket of a map: {error}")
    server = Server(folder)
    with server.connect() as first, server.connect() as second:
        expect("a reply, so that the connection is there", asked(first, 1, 0), True)
        taken = sockmap.daemons_end(server, first)
        sockmap.put(sockets, taken)
        expect("a socket that does not send without a copy: replies", [asked(first, n) for n in range(3)], [True] * 3)
        expect("  it is asked once", sends(server), (0, 1))
        expect("  another one's", asked(second, 5), True)
        expect("  without a copy", sends(server), (1, 1))
        expect("  nothing is said of the kernel", fallbacks(server, "no-zero-copy"), [])
        os.close(taken)
    os.close(sockets)
    until("no connection is left", lambda: server.stats()["services"][0]["connections"] == 0)
    expect("ends", server.stop(), 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        (folder / "refuse.c").write_text(LIBRARY)
        subprocess.run(["clang-19", "-shared", "-fPIC", "-O1", "-idirafter", ROOT / "runtime" / "ring" / "compat", "-o", folder / "refuse.so", folder / "refuse.c"], check=True)
        for test in (test_unknown, test_unregistered, test_no_memory, test_socket):
            test(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
