#!/usr/bin/env python3
"""Requests over tcp that are shed while what answers them, `on failure`, waits for the disk, or for clients that do not read: who is told, what leaves
before a connection ends without a word, and that neither keeps requests from running."""
import mmap
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import fuse_file  # noqa: E402
import runs  # noqa: E402
from daemon import Daemon, everything, receive, row  # noqa: E402
from netns import until  # noqa: E402
from runs import BUILD, expect  # noqa: E402

PLACES = 64  # for requests that are shed
FIRST, LATE = 100, 300  # a request waits for the one row; what answers those that are shed, for the other
QUICK, LONG, PIECES = 5, 6, 10000  # requests of which nothing waits; the long reply is more than kernels keep for a client
PIECE = b"0123456789" * 100
LONG_REPLY = f'for i in range(0, {PIECES}) max {PIECES} {{ reply "{PIECE.decode()}" }}'
# What answers requests that are shed, by service.
ANSWERS = {"late": f'let v = row(rows["a.rows"], {LATE}) else fail not_found  reply v[0..10] "\\n"', "quick": 'reply "sorry\\n"', "long": LONG_REPLY}
SPEC = """
files rows = "*.rows" { immutable }
chain row(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 1000 for 1000 in file) { return b }
}
""" + "".join(f"""
service {name} on tcp {7001 + number} via uring {{
  text Row {{ "row " number: int "\\n" }}
  request {{ line: Row }}
  on request {{
    if request.line.number == {QUICK} {{
      reply "done\\n"
    }} else if request.line.number == {LONG} {{
      {LONG_REPLY}
    }} else {{
      let v = row(rows["a.rows"], request.line.number as u32) else fail not_found
      reply v[0..10] "\\n"
    }}
  }}
  on failure {{ {answer} }}
}}
""" for number, (name, answer) in enumerate(ANSWERS.items()))
CONTENT = b"".join(row(n, ord("a")) for n in range(400))


class Gates:
    """Reads of the two rows wait, each until it is let go."""
    def __init__(self):
        self.gates, self.asked = {FIRST: threading.Event(), LATE: threading.Event()}, set()

    def __call__(self, offset):
        for number, gate in self.gates.items():
            if offset <= number * 1000 < offset + mmap.PAGESIZE:
                self.asked.add(number)
                gate.wait()
        return 0

    def let_go(self, *numbers):
        for number in numbers:
            self.gates[number].set()


class Server(Daemon):
    def __init__(self, folder):
        ports = [option for name in ANSWERS for option in ("--port", f"{name}=0")]
        super().__init__(folder / "app.o", "--bind", "127.0.0.1", *ports, "--requests", "1", "--waiting", "1", "--in-flight", "128", "--timeout", "60000")

    def client(self, service, request, room=None):
        sock = socket.socket()
        if room:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", self.ports[service, "tcp"]))
        sock.sendall(request)
        return sock

    def of(self, name, service="late"):
        return next(each for each in self.all_stats()["services"] if each["name"] == service)[name]

    def wait_for(self, name, value, service="late"):
        until(f"{service}: {name} {value}", lambda: self.of(name, service) == value)

    def overload(self, gates):
        """Clients of which one waits for the disk and has the only place, and one has the only place to wait for that."""
        before = self.of("requests", "quick")
        first = self.client("quick", b"row %d\n" % FIRST)
        until("one request waits for the disk", lambda: FIRST in gates.asked)
        second = self.client("quick", b"row %d\n" % QUICK)
        self.wait_for("requests", before + 2, "quick")
        return first, second


def answer(number):
    return row(number, ord("a"))[:10] + b"\n"


def test_disk(server, gates):
    """What answers those that are shed waits for the disk, in all places that there are for it."""
    frames = server.all_stats()["frames_in_use"]
    slow = server.client("late", b"row %d\nrow 7\n" % LONG, room=4096)
    until("one is being answered, and does not read", lambda: server.of("bytes_out") != 0)
    with server.client("quick", b"row %d\n" % QUICK) as other:
        expect("so that he leaves the only place to another one", receive(other, 5), b"done\n")
    first, second = server.overload(gates)
    told = [server.client("late", b"row 7\n") for _ in range(PLACES)]
    server.wait_for("shed", PLACES)
    expect("as many as there are places wait for being told", [server.of(name) for name in ("unanswered", "failed")], [0, 0])
    for number in range(3):
        with server.client("late", b"row 7\nrow 8\nrow 9\n") as more:
            expect("one more is closed, and not reset", everything(more), b"")
        expect("  and counted", server.of("unanswered"), number + 1)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    got = everything(slow)
    expect("a reply that was made before leaves in front of the end", (len(got), got == PIECE * PIECES), (len(PIECE) * PIECES, True))
    expect("  and that is counted", server.of("unanswered"), 4)
    gates.let_go(FIRST)
    expect("the one that waited for the disk", receive(first, 11), answer(FIRST))
    expect("the next one runs beside those that are being told", receive(second, 5), b"done\n")
    expect("  who still wait", server.of("failed"), 0)
    gates.let_go(LATE)
    expect("and are told in the end", [receive(sock, 11) for sock in told], [answer(LATE)] * PLACES)
    for sock in (slow, first, second, *told):
        sock.close()
    server.wait_for("connections", 0)
    expect("counted", {name: server.of(name) for name in ("requests", "answered", "failed", "shed", "unanswered", "vanished")},
           {"requests": PLACES + 5, "answered": 1, "failed": PLACES, "shed": PLACES + 4, "unanswered": 4, "vanished": 0})
    expect("no frame is held for anybody any more", server.all_stats()["frames_in_use"], frames)
    expect("ends", server.stop(), 0)
    expect("standard error says once what is to be done", [line for line in server.said if "shed-unanswered" in line], [
        "fallback shed-unanswered (1x): requests were shed without a reply: what answers them (`on failure`) waited for chains in all 64 places that there are "
        "for it; let it reply without calling a chain, or give more --waiting\n"])


def test_readers(server, gates):
    """More are told than there are places for it, and do not read."""
    first, second = server.overload(gates)
    slow = [server.client("long", b"row 7\n", room=4096) for _ in range(PLACES + 10)]
    server.wait_for("shed", len(slow), "long")
    with server.client("quick", b"row 7\n") as other:
        expect("another one is told", receive(other, 6), b"sorry\n")
    expect("  as all are", [server.of("unanswered", name) for name in ANSWERS], [0, 0, 0])
    slow[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    expect("who reads after all gets all of it", receive(slow[0], len(PIECE) * PIECES) == PIECE * PIECES, True)
    server.wait_for("failed", 1, "long")
    expect("  and no latency is that of one that was not run", server.of("p99_ns", "long"), 0)
    gates.let_go(FIRST, LATE)
    expect("those that had only to wait", (receive(first, 11), receive(second, 5)), (answer(FIRST), b"done\n"))
    for sock in (first, second, *slow):
        sock.close()
    server.wait_for("connections", 0, "long")
    expect("ends", server.stop(), 0)


def main():
    if why := fuse_file.why_not():
        print(f"skipped: overload, for which a read has to wait: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        for test in (test_disk, test_readers):
            gates = Gates()
            with fuse_file.fuse_file(folder / "a.rows", CONTENT, gates):
                try:
                    test(Server(folder), gates)
                finally:
                    gates.let_go(FIRST, LATE)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
