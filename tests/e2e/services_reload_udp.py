#!/usr/bin/env python3
"""Reloads under datagrams: 32 requests are on their way at any time, by a socket and by AF_XDP, while the spec is reloaded and the file replaced. Each
request has one reply, which is right; none is lost and none comes twice. Short, by a seed; CHAINIO_SOAK=1 reloads a hundred times."""
import contextlib
import errno
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import fuse_file  # noqa: E402
import netns  # noqa: E402
import runs  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from services_udp import DATA, HELD, SPEC, Server, reply  # noqa: E402

RELOADS = 100 if os.environ.get("CHAINIO_SOAK") else 12
SEED = int(os.environ.get("CHAINIO_SEED", "20284"))
OUTSTANDING, LOST = 32, netns.PATIENCE  # requests; seconds after which one is


class Load(threading.Thread):
    """A client that has as many requests on their way as it may, and looks at each reply."""
    def __init__(self, sock, seed):
        super().__init__()
        self.sock, self.random = sock, random.Random(seed)
        self.waiting, self.next, self.answered, self.wrong, self.lost = {}, 0, 0, [], 0
        self.ended = threading.Event()
        self.sock.settimeout(LOST)

    def ask(self):
        row, length = self.random.randrange(400), self.random.choice((1, 100, 700, 1300))
        self.waiting[self.next] = DATA[row * 1000:row * 1000 + length] + b"|"
        self.sock.send(struct.pack("!I", self.next) + b"row %d %d 1\n" % (row, length))
        self.next += 1

    def run(self):
        for _ in range(OUTSTANDING):
            self.ask()
        while self.waiting:
            try:
                data = self.sock.recv(1 << 16)
            except TimeoutError:
                self.lost += len(self.waiting)
                return
            number, at, count = struct.unpack("!IHH", data[:8])
            if self.waiting.pop(number, None) != data[8:] or (at, count) != (0, 1):
                self.wrong.append((number, data[:60]))
            self.answered += 1
            if not self.ended.is_set():
                self.ask()


def test_reloads(what, folder, server, sock, random_):
    load = Load(sock, random_.random())
    load.start()
    for _ in range(RELOADS):
        if random_.randrange(3) == 0:  # the same bytes in another file
            (folder / "new").write_bytes(DATA)
            os.rename(folder / "new", folder / "a.rows")
        answer = server.control({"op": "reload"})
        if "error" in answer:
            expect("a reload", answer, "done")
        time.sleep(random_.uniform(0, 0.15))
    netns.until("it was under load", lambda: load.answered > 100 * RELOADS // 12)
    load.ended.set()
    load.join()
    reloads = server.all_stats()["reloads"]["done"]
    expect(f"{what}: {load.answered} requests over {reloads} reloads: lost, wrong", (load.lost, load.wrong[:3]), (0, []))
    expect("  as many as were asked for, and under load", (reloads >= RELOADS, load.answered > 100 * RELOADS // 12), (True, True))
    sock.settimeout(0.2)
    try:
        expect("  nothing comes twice", sock.recv(1 << 16), "nothing")
    except TimeoutError:
        pass
    netns.until("the edition before has ended", lambda: not server.all_stats()["before_runs"])
    expect("  no frame is lost", server.all_stats()["leaked_frames"], 0)
    sock.close()


def test_classes_go(folder, compile_):
    """The rest of a datagram whose first request waits for the disk while a spec without classes comes: it is run as it would have been."""
    if why := fuse_file.why_not():
        return print(f"skipped: a reload within a datagram, for which a read has to wait: {why}")
    source, spec = folder / "app.chain", SPEC.replace("tcp 7001 via uring in class fast", "tcp 7001 via uring in class slow")
    source.write_text(spec)
    subprocess.run(compile_, check=True)
    with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
        server = Server(folder)
        with server.client() as sock:
            sock.send(struct.pack("!I", 7) + b"row %d 10 1\n" % HELD + b"row 2 10 1\nrow 3 10 1\n")
            netns.until("the first request waits for the disk", lambda: held.pages)
            source.write_text(re.sub(r" in class \w+|  class \w+ {.*?}", "", spec))
            subprocess.run(compile_, check=True)
            expect("a spec without classes comes", "error" in server.control({"op": "reload"}), False)
            expect("  while the one before runs", server.all_stats()["before_runs"], True)
            held.let_go()
            expect("  each request of the datagram is answered", [reply(sock, 7)[0] for _ in range(3)], [DATA[row * 1000:][:10] + b"|" for row in (HELD, 2, 3)])
        netns.until("the edition before has ended", lambda: not server.all_stats()["before_runs"])
        expect("ends", server.stop(), 0)
    (folder / "a.rows").write_bytes(DATA)


class Flood(threading.Thread):
    """Sends more than a service can answer, numbered, until it is ended, and looks which was answered last. Each is much work, and has one reply."""
    WORK = b"row 2 1 0\n" * 800 + b"row 2 1 1\n"

    def __init__(self, port):
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect((daemon.OWN, port))
        self.next, self.answered, self.ended = 0, 0, threading.Event()

    def run(self):
        while not self.ended.is_set():
            with contextlib.suppress(ConnectionRefusedError):
                self.sock.send(struct.pack("!I", self.next) + self.WORK)
            self.next += 1
            self.take()

    def take(self):
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                self.answered = max(self.answered, struct.unpack_from("!I", self.sock.recv(100, socket.MSG_DONTWAIT))[0])

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
        self.take()
        self.sock.close()


def is_refused(port):
    with socket.socket() as sock:
        return sock.connect_ex((daemon.OWN, port)) == errno.ECONNREFUSED


def unfiltered(folder):
    """A library to preload, with which no filter can be attached to a socket, as where the kernel has no memory for it."""
    (folder / "unfiltered.c").write_text("""#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    if (level == SOL_SOCKET && name == SO_ATTACH_FILTER) { errno = ENOMEM; return -1; }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}
""")
    subprocess.run(["clang-19", "-shared", "-fPIC", "-o", folder / "unfiltered.so", folder / "unfiltered.c"], check=True)
    return folder / "unfiltered.so"


def compiled(folder, compile_, spec):
    (folder / "app.chain").write_text(spec)
    subprocess.run(compile_, check=True)
    return (folder / "app.bpf.o").read_bytes()


def put(folder, artifact):
    (folder / "new.o").write_bytes(artifact)
    os.rename(folder / "new.o", folder / "app.bpf.o")


def test_port_goes(folder, artifact, without_port, preload=None):
    """A port that has more than can be answered, and that another spec has not: the next edition is not kept waiting, nor the end of the daemon."""
    put(folder, artifact)
    (folder / "a.rows").write_bytes(DATA)
    server = Server(folder, bind=daemon.OWN, port=None, prefix=["env", f"LD_PRELOAD={preload}"] if preload else [])
    overloaded = lambda before: netns.until("the kernel drops what has no room", lambda: server.stats()["dropped"] > before)
    with Flood(7001) as flood:
        overloaded(0)
        put(folder, without_port)
        expect("a spec without the port, under more than it can take", "error" in server.control({"op": "reload"}), False)
        late = flood.next
        netns.until("the edition before ends all the same", lambda: not server.all_stats()["before_runs"])
        expect("  what came before was answered", flood.answered > 0, True)
    if preload is None:
        expect("  and nothing that came later", flood.answered <= late, True)
    (folder / "new").write_bytes(DATA.replace(b"0", b"z"))
    os.rename(folder / "new", folder / "a.rows")
    netns.until("a file that is replaced is noticed", lambda: server.all_stats()["edition"] == 3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(netns.PATIENCE)
        sock.connect((daemon.OWN, 7011))
        sock.send(struct.pack("!I", 7) + b"row 2 10 1\n")
        expect("the other port answers from it", reply(sock, 7)[0], b"zzzzzzzz2 |")
    with Flood(7011) as flood:
        overloaded(server.stats()["dropped"])
        server.process.send_signal(signal.SIGTERM)
        netns.until("it is about to end", lambda: is_refused(7001))
        late = flood.next
        expect("it ends, under more than it can take", server.process.wait(timeout=60), 0)
    if preload is None:
        expect("  and answers nothing that came later", flood.answered <= late, True)
    server.rest.join()


def main():
    random_ = random.Random(SEED)
    print(f"      seed {SEED}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.rows").write_bytes(DATA)
        (folder / "app.chain").write_text(SPEC)
        compile_ = [BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"]
        subprocess.run(compile_, check=True)
        server = Server(folder)
        sock = server.client()
        test_reloads("udp via uring", folder, server, sock, random_)
        expect("ends", server.stop(), 0)
        test_classes_go(folder, compile_)
        # Beforehand, as under more than can be answered it would take its time.
        specs = [compiled(folder, compile_, spec) for spec in (SPEC, SPEC.replace("udp 7001", "udp 7011"))]
        test_port_goes(folder, *specs)
        test_port_goes(folder, *specs, unfiltered(folder))
        (folder / "a.rows").write_bytes(DATA)
        if why := netns.why_not():
            print(f"skipped: via xdp: {why}")
        else:
            (folder / "app.chain").write_text(SPEC.replace("udp 7001 via uring", "udp 7001 via xdp"))
            subprocess.run(compile_, check=True)
            with netns.Pair() as pair:
                server = Server(folder, "--interface", "vb", bind="::", prefix=pair.command(pair.there))
                sock = netns.udp(pair.here)
                netns.take_much(sock)
                sock.connect(("10.9.0.2", server.ports["lines", "udp"]))
                before = server.all_stats()["interfaces"][0]["opened"]
                test_reloads("udp via xdp", folder, server, sock, random_)
                netns.until("the interface is taken again", lambda: server.all_stats()["interfaces"])
                expect("  the interface was opened anew", server.all_stats()["interfaces"][0]["opened"] > before, True)
                expect("ends", server.stop(), 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
