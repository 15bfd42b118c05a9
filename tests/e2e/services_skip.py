#!/usr/bin/env python3
"""Bytes behind a request that are no requests (`skip`), over tcp and udp: however they come, none of them is taken for a request; time limits, overload,
another edition and the end in the middle of them."""
import contextlib
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import fuse_file  # noqa: E402
import netns  # noqa: E402
import runs  # noqa: E402
from daemon import asked_whole, everything, receive  # noqa: E402
from runs import BUILD, expect  # noqa: E402

SPEC = """
app kv {{ files rows = "*.rows" {{ immutable }} }}
chain row(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {{
  step s(b: block at number * 1000 for 1000 in file) {{ return b }}
}}
service lines on tcp 7001 via uring, udp 7001 via uring {{
  text Line {{ all: rest(max 4096) }}
  text Words {{ name: word(max 16) " " bytes: int "\\n" }}
  request udp {{ id: u32be  line: Line }}
  request tcp {{ line: Line }}
  on request {{
    var known = false
    when line.all.text(Words) as w {{
      known = true
      match w.name {{
        "put" {{ skip w.bytes  reply "put\\n" }}
        "late" {{ reply "late\\n"  skip w.bytes }}
        "long" {{ for i in range(0, 40) {{ reply "{long}" }}  skip w.bytes }}
        "longest" {{ for i in range(0, 40) {{ reply "{long}" }}  fail close }}
        "twice" {{ skip w.bytes  skip w.bytes  reply "twice\\n" }}
        "lost" {{ skip w.bytes  fail not_found }}
        "odd" {{ skip w.bytes  fail malformed }}
        "last" {{ skip w.bytes  reply "last\\n"  fail close }}
        "both" {{
          skip w.bytes
          let v = row(rows["a.rows"], {held}) else fail not_found
          reply v[0..9] "\\n"
        }}
        "row" {{
          let v = row(rows["a.rows"], w.bytes as u32) else fail not_found
          reply "{name} " v[0..9] "\\n"
        }}
        else {{ known = false }}
      }}
    }}
    if !known {{ fail malformed }}
  }}
  on malformed {{ reply "bad\\n" }}
  on failure {{ reply "sorry\\n" }}
}}
# Three bytes behind each of its requests that are of bad form.
service fixed on tcp 7002 via uring {{
  request {{ op: u8 in {{ 1 get }}  more: u16be }}
  on request {{ skip request.more  reply "ok" }}
  on malformed {{ skip 3  reply "no" }}
  on failure {{ reply "sorry" }}
}}
"""
ROWS, HELD = 500, 400
DATA = b"".join((b"%09d " % number) * 100 for number in range(ROWS))
MOST = (1 << 31) - 1


def row(number, name=b"A"):
    return b"%s %09d\n" % (name, number)


class Server(daemon.Daemon):
    def __init__(self, folder, *options):
        super().__init__(folder / "app.o", "--bind", "127.0.0.1", "--port", "lines=0", "--port", "fixed=0", "--request-bytes", 4096, *options)

    def connect(self, service="lines"):
        return socket.create_connection(("127.0.0.1", self.ports[service, "tcp"]), timeout=60)

    def stats(self, transport="tcp", service="lines"):
        return next(one for one in self.all_stats()["services"] if (one["name"], one["transport"]) == (service, transport))

    def wait_for(self, what, holds, transport="tcp"):
        until = time.monotonic() + 60
        while not holds(stats := self.stats(transport)) and time.monotonic() < until:
            time.sleep(0.005)
        expect(what, holds(stats), True)

    def asked(self, request, service="lines"):
        """What comes until the server closes, behind all of the request."""
        with self.connect(service) as sock:
            return asked_whole(sock, request)


def test_bytes(server):
    expect("nothing is skipped", server.asked(b"put 0\nrow 3\n"), b"put\n" + row(3))
    expect("requests sent ahead, with what they skip", server.asked(b"put 6\nrow 1\nrow 2\nput 12\nrow 1\nrow 1\nrow 3\n"),
           b"put\n" + row(2) + b"put\n" + row(3))
    expect("several skips of a request add up, also behind its reply", server.asked(b"twice 3\nrow 1\nrow 2\nlate 6\nrow 1\nrow 3\n"),
           b"twice\n" + row(2) + b"late\n" + row(3))
    expect("what a request skipped before it failed stays", server.asked(b"lost 6\nrow 1\nrow 2\nodd 6\nrow 1\nrow 3\nboth 6\nrow 1\nrow 4\n"),
           b"sorry\n" + row(2) + b"bad\n" + row(3) + b"%09d\n" % HELD + row(4))
    for length in (4095, 4096, 4097, 65536, 1_000_003, 30_000_000):
        data = b"row 1\n" * (length // 6 + 1)
        expect(f"{length} bytes that look like requests", server.asked(b"put %d\n" % length + data[:length] + b"row 5\n"), b"put\n" + row(5))
    with server.connect() as sock:
        for byte in b"put 9\nrow 1\nrowrow 7\n":
            sock.sendall(bytes([byte]))
        expect("byte by byte", receive(sock, 4 + len(row(7))), b"put\n" + row(7))
    expect("many, one behind the other", server.asked(b"put 6\nrow 1\nrow 2\n" * 5000), (b"put\n" + row(2)) * 5000)
    before = server.stats()["unanswered"]
    expect("who sends less than was to be skipped", server.asked(b"row 1\nput 100\nrow 2\n"), row(1) + b"put\n")
    expect("  has had its answer", server.stats()["unanswered"], before)
    expect("of requests of fixed size", server.asked(b"\1\0\4" b"\1\1\1\1" b"\1\0\0" b"\2xy" b"zab" b"\1\0\0", "fixed"), b"okoknook")


def test_bound(server):
    expect("more than 2^31 - 1 end the connection behind the reply", server.asked(b"put %d\n" % (MOST + 1) + b"row 1\n" * 100), b"put\n")
    expect("in all", server.asked(b"twice %d\n" % (MOST // 2 + 1) + b"row 1\n" * 100), b"twice\n")
    expect("and 2^64 - 1", server.asked(b"twice 18446744073709551615\nrow 1\n"), b"twice\n")
    with server.connect() as sock:
        sock.sendall(b"put %d\n" % MOST + b"row 1\n" * 100)
        expect("2^31 - 1 do not", receive(sock, 4), b"put\n")
        sock.settimeout(0.2)
        try:
            expect("  and what comes is skipped", sock.recv(100), "nothing")
        except TimeoutError:
            pass
    expect("a request that ends the connection skips nothing more", server.asked(b"last 6\nrow 1\nrow 2\n"), b"last\n")
    expect("one that is too long does so, too", server.asked(b"put 6" + b" " * 5000 + b"\nrow 1\nrow 2\n"), b"bad\n")


LATE = 0.8  # seconds between two heaps with which a client may be too late, of the second that it has


def paced(server):
    """Three clients who are to send more: one does not, one byte by byte, one enough each time; and the longest time between two heaps of the last one's,
    which ends at the first that was late: the daemon may have given it up for that."""
    clients = silent, trickling, steady = [server.connect() for _ in range(3)]
    for sock in clients:
        sock.sendall(b"put %d\n" % (6 << 16))
        receive(sock, 4)
    silent.sendall(b"some")
    before, longest = time.monotonic(), 0
    for _ in range(6):
        come = server.stats()["bytes_in"]
        heap = b"row 1\n" * ((1 << 16) // 6) + b"rest"
        try:
            steady.sendall(heap)
        except OSError:
            return clients, max(longest, time.monotonic() - before)
        netns.until("it has come, or late", lambda: server.stats()["bytes_in"] >= come + len(heap) or time.monotonic() - before >= LATE)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
        if longest >= LATE:
            return clients, longest
        while time.monotonic() < before + 0.4:
            with contextlib.suppress(OSError):
                trickling.sendall(b"x")
            time.sleep(0.02)
    with contextlib.suppress(OSError):
        steady.sendall(b"row 9\n")
    return clients, max(longest, time.monotonic() - before)


def test_time(folder):
    for _ in runs.tries():
        server = Server(folder, "--timeout", 1000)
        (silent, trickling, steady), longest = paced(server)
        if longest < LATE:
            break
        server.stop()  # this script was not run for long enough to be too late itself
    expect("a client had the time to send enough each time: seconds", longest, lambda seconds: seconds < LATE)
    expect("who sends 64 KiB in the time of a request goes on", receive(steady, len(row(9))), row(9))
    for what, sock in (("who sends nothing more is given up", silent), ("and who trickles", trickling)):
        try:
            expect(what, everything(sock), b"")
        except ConnectionResetError:
            pass  # as what it had sent was not read
    server.wait_for("  which is counted", lambda stats: stats["timeouts"] == 2)
    time.sleep(1.5)  # longer than the time limit: what is tested is that nothing happens
    steady.sendall(b"row 8\n")
    expect("who only thinks behind the last of them is left alone", receive(steady, len(row(8))), row(8))
    steady.sendall(b"ro")
    expect("and half a request has its time again", everything(steady), b"")
    expect("ends", server.stop(), 0)


def test_editions(folder, other):
    server = Server(folder)
    with server.connect() as sock:
        sock.sendall(b"put 12\nrow 1\n")
        receive(sock, 4)
        fresh = folder / "app.o.new"
        fresh.write_bytes(other)
        fresh.rename(folder / "app.o")
        expect("another edition", server.control({"op": "reload", "id": 1}), {"id": 1, "edition": 2})
        sock.sendall(b"row 2\nrow 3\n")
        expect("what was to be skipped before it is skipped", receive(sock, len(row(3))), row(3, b"B"))
    expect("ends", server.stop(), 0)


def test_end(folder):
    for _ in runs.tries():  # this script may itself be late; a daemon that waits is so each time
        server = Server(folder)
        waiting, ahead = server.connect(), server.connect()
        waiting.sendall(b"put 100\nhalf")
        receive(waiting, 4)
        ahead.sendall(b"put 600000\n" + b"row 1\n" * 100000 + b"row 2\n")
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        expect("what was sent before the end is skipped and answered", everything(ahead), lambda got: got.endswith(row(2)) and row(1) not in got)
        expect("who was to send more is told", everything(waiting), b"")
        took = time.monotonic() - begun
        waiting.close()
        ahead.close()
        expect("it ends", server.process.wait(timeout=60), 0)
        server.rest.join()
        if took < 4:
            break
    expect("nobody waits for who was to send more: seconds", took, lambda seconds: seconds < 4)


def rest_behind_the_end(folder):
    """What is answered to a request of which the rest is sent when the daemon takes no more connections."""
    server = Server(folder)
    with server.connect() as sock:
        sock.sendall(b"put 600000\n" + b"row 1\n" * 99999)
        receive(sock, 4)
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):
            while True:
                server.connect().close()
        try:
            sock.sendall(b"row 1\nrow 2\n")
            got = everything(sock)
        except ConnectionError:
            got = b""
    server.process.wait(timeout=60)
    server.rest.join()
    return got


def test_end_amid_request(folder):
    # It is waited for for a moment: a machine that has none for this script gets more tries.
    expect("the rest of a request that comes right behind the end is waited for", any(rest_behind_the_end(folder) == row(2) for _ in runs.tries()), True)


def test_overload(folder):
    """Requests that are not run have skipped what they bring, by tcp and by udp."""
    if why := fuse_file.why_not():
        return print(f"skipped: overload, for which a read has to wait: {why}")
    held_folder = folder / "held"
    held_folder.mkdir()
    (held_folder / "app.o").write_bytes((folder / "app.o").read_bytes())
    with fuse_file.held_file(held_folder / "a.rows", DATA, HELD * 1000) as held:
        server = Server(held_folder, "--requests", 1, "--waiting", 1, "--timeout", 60000)
        first, second, shed = (server.connect() for _ in range(3))
        first.sendall(b"row %d\n" % HELD)
        while not held.pages:
            time.sleep(0.01)
        second.sendall(b"row 1\n")
        server.wait_for("one runs and one waits", lambda stats: stats["requests"] == 2)
        shed.sendall(b"both 6\nrow 2\n")
        expect("one that is not run is told", receive(shed, 6), b"sorry\n")
        shed.sendall(b"put 6\nrow 2\n" * 20)
        expect("and nothing that it brings is a request", receive(shed, 6 * 20), b"sorry\n" * 20)
        shed.sendall(b"put %d\nrow 2\n" % (MOST + 1))
        expect("too much ends its connection", everything(shed), b"sorry\n")
        expect("and so does what ends it", server.asked(b"last 6\nrow 1\nrow 2\n"), b"sorry\n")
        expect("one of bad form skips as such", server.asked(b"\2xy" b"\1\0\0" b"\1\0\1" b"a" b"\2xy" b"\1\0\0", "fixed"), b"nosorryno")
        asker = udp(server)
        asker.send(struct.pack("!I", 5) + b"put 6\nrow 2\nput 12\nrow 2\nrow 2\n")
        expect("by udp", [asker.recv(100) for _ in range(2)], [b"sorry\n"] * 2)
        server.wait_for("  neither", lambda stats: stats["requests"] == 2, "udp")
        held.let_go()
        expect("those that waited", (receive(first, len(row(1))), receive(second, len(row(1)))), (row(HELD), row(1)))
        for sock in (first, second, shed):
            sock.close()
        asker.close()
        expect("ends", server.stop(), 0)


def udp(server):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(netns.PATIENCE)
    made.connect(("127.0.0.1", server.ports["lines", "udp"]))
    return made


def test_datagrams(server):
    asker = udp(server)

    def ask(lines, *want):
        asker.send(struct.pack("!I", 5) + lines)
        asker.send(struct.pack("!I", 6) + b"row 9\n")  # requests of two datagrams are not in order: this one only ends the wait
        got = [asker.recv(1 << 16) for _ in range(len(want) + 1)]
        expect(f"a datagram {lines[:40]!r}", sorted(got), sorted((*want, row(9))))

    ask(b"put 6\nrow 1\nrow 2\n", b"put\n", row(2))
    ask(b"put 6\nrow 1\n", b"put\n")
    ask(b"put 600\nrow 1\nrow 2\n", b"put\n")
    ask(b"put 6\n", b"put\n")
    ask(b"put 6\nrow", b"put\n")
    ask(b"twice 6\nrow 1\nrow 1\nlate 3\nxyzrow 2\n", b"twice\n", b"late\n", row(2))
    ask(b"lost 6\nrow 1\nrow 2\n", b"sorry\n", row(2))
    ask(b"put %d\nrow 1\n" % (MOST + 1), b"put\n")
    ask(b"last 6\nrow 1\nrow 2\n", b"last\n")
    ask(b"long 6\nrow 1\nrow 2\n", b"sorry\n", row(2))
    ask(b"longest 6\nrow 1\nrow 2\n", b"sorry\n")
    asker.close()


def compiled(folder, name):
    source = folder / f"{name}.chain"
    source.write_text(SPEC.format(name=name, held=HELD, long="x" * 4000))
    subprocess.run([BUILD / "bin" / "chainc", source, "-o", folder / f"{name}.o"], check=True)
    return (folder / f"{name}.o").read_bytes()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.rows").write_bytes(DATA)
        first, other = compiled(folder, "A"), compiled(folder, "B")
        (folder / "app.o").write_bytes(first)
        for options in ((), ("--interpret",), ("--no-ring",)):
            print("      " + (" ".join(options) or "native code"))
            server = Server(folder, *options)
            test_bytes(server)
            test_bound(server)
            test_datagrams(server)
            expect("ends", server.stop(), 0)
        test_time(folder)
        test_overload(folder)
        test_end(folder)
        test_end_amid_request(folder)
        test_editions(folder, other)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
