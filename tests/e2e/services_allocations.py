#!/usr/bin/env python3
"""Nothing is allocated on a hot path after the start: a serving daemon with a malloc that counts, under tcp, udp and AF_XDP."""
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
from netns import inside  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from services_udp import DATA, SPEC, Server, ask  # noqa: E402

# Counts every allocation of the process in a shared file, and prints where the first ones come from when it is told to.
COUNTING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long *seen;  /* counted, to be shown from now on, shown */
static __thread int within;
static unsigned char early[65536];
static size_t early_used;
static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t), *(*real_aligned)(size_t, size_t);
static void (*real_free)(void *);
__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("COUNTED");
	int fd = path ? open(path, O_RDWR) : -1;
	if (fd < 0) return;
	void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	void *warm[1];
	backtrace(warm, 1);
	seen = at;
}
static void find(void)
{
	if (real_free) return;
	real_malloc = dlsym(RTLD_NEXT, "malloc");
	real_calloc = dlsym(RTLD_NEXT, "calloc");
	real_realloc = dlsym(RTLD_NEXT, "realloc");
	real_aligned = dlsym(RTLD_NEXT, "aligned_alloc");
	real_free = dlsym(RTLD_NEXT, "free");
}
static void count(void)
{
	if (!seen || within) return;
	within = 1;
	seen[0]++;
	if (seen[1] && seen[2] < 4) {
		void *frames[16];
		seen[2]++;
		backtrace_symbols_fd(frames, backtrace(frames, 16), 2);
		(void)!write(2, "allocated\n", 10);
	}
	within = 0;
}
static int is_early(void *p) { return (unsigned char *)p >= early && (unsigned char *)p < early + sizeof early; }
static void *take_early(size_t n)
{
	void *p = early + early_used;
	early_used += (n + 15) / 16 * 16;
	return early_used <= sizeof early ? p : 0;
}
void *malloc(size_t n) { count(); if (!real_malloc) find(); return real_malloc(n); }
void *calloc(size_t k, size_t n) { count(); return real_calloc ? real_calloc(k, n) : take_early(k * n); }
void *realloc(void *p, size_t n) { count(); if (!real_realloc) find(); return real_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { count(); if (!real_aligned) find(); return real_aligned(a, n); }
void free(void *p) { if (!p || is_early(p)) return; if (!real_free) find(); real_free(p); }
"""


class Counted:
    def __init__(self, folder):
        (folder / "counting.c").write_text(COUNTING)
        self.library, self.path = folder / "counting.so", folder / "counted"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", folder / "counting.c", "-o", self.library, "-ldl"], check=True)
        self.path.write_bytes(bytes(4096))
        with open(self.path, "r+b") as file:
            self.words = mmap.mmap(file.fileno(), 4096)

    def prefix(self):
        return ["env", f"LD_PRELOAD={self.library}", f"COUNTED={self.path}"]

    def get(self):
        return struct.unpack_from("@Q", self.words, 0)[0]

    def show(self, on):
        struct.pack_into("@QQ", self.words, 8, on, 0)


def by_udp(client, service="lines"):
    sock = client(service)

    def load(count):
        for n in range(count):
            row = n % 400
            if ask(sock, n, b"row %d 700 2\n" % row)[0] != (DATA[row * 1000:row * 1000 + 700] + b"|") * 2:
                raise AssertionError(f"a wrong reply to {n}")
    return load


def by_tcp(connect):
    sock = connect()

    def load(count):
        heap = 50
        for first in range(0, count, heap):
            rows = [n % 400 for n in range(first, first + heap)]
            length = 5000 if first // heap % 2 else 700  # sent from its frame, and copied
            sock.sendall(b"".join(b"row %d %d 2\n" % (row, length) for row in rows))
            want = b"".join((DATA[row * 1000:row * 1000 + length] + b"|") * 2 for row in rows)
            got = bytearray()
            while len(got) < len(want) and (more := sock.recv(1 << 20)):
                got += more
            if got != want:
                raise AssertionError(f"wrong replies to {first} and on")
    return load


def hold_to(what, counted, loads, count=2000):
    """Several clients at once, once before it counts, which is when vectors get the sizes that they keep."""
    def all_at_once():
        answered = []

        def answered_by(load):
            load(count)
            answered.append(count)
        threads = [threading.Thread(target=answered_by, args=(load,)) for load in loads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(netns.PATIENCE * 2)
        expect(f"{what}: each client has its answers", answered, [count] * len(loads))
    all_at_once()
    before = counted.get()
    counted.show(1)
    all_at_once()
    counted.show(0)
    expect(f"{what}: allocations in {count * len(loads)} requests", counted.get() - before, 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.rows").write_bytes(DATA)
        counted = Counted(folder)
        (folder / "app.chain").write_text(SPEC)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"], check=True)
        server = Server(folder, prefix=counted.prefix())
        expect("allocations are counted", counted.get() > 100, True)
        hold_to("udp via uring", counted, [by_udp(server.client) for _ in range(4)])
        hold_to("tcp via uring", counted, [by_tcp(lambda: socket.create_connection(("127.0.0.1", server.ports["lines", "tcp"]), timeout=60)) for _ in range(4)])
        before = counted.get()
        for _ in range(200):
            socket.create_connection(("127.0.0.1", server.ports["lines", "tcp"])).close()
        by_tcp(lambda: socket.create_connection(("127.0.0.1", server.ports["lines", "tcp"]), timeout=60))(50)  # the others were taken before
        expect("connections that come and go", counted.get() - before, 0)
        expect("ends", server.stop(), 0)
        if why := netns.why_not():
            print(f"skipped: via xdp: {why}")
        else:
            (folder / "app.chain").write_text(SPEC.replace("udp 7001 via uring", "udp 7001 via xdp"))
            subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"], check=True)
            with netns.Pair() as pair:
                # News of addresses are no hot path: the kernel is to have made its own ones.
                netns.until("no address is tentative", lambda: not netns.ip("-6", "addr", "show", "dev", "vb", "tentative", namespace=pair.there).strip())
                server = Server(folder, "--interface", "vb", bind="::", prefix=[*pair.command(pair.there), *counted.prefix()])

                def client(service):
                    made = netns.udp(pair.here)
                    made.connect(("10.9.0.2", server.ports[service, "udp"]))
                    return made
                hold_to("udp via xdp", counted, [by_udp(client) for _ in range(4)])
                expect("ends", server.stop(), 0)
        if runs.failures:
            print("".join(server.said))
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
