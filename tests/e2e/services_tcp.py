#!/usr/bin/env python3
"""A spec's services over tcp: requests in pieces and in heaps, of bad form, failing reads, slow and vanished clients, overload, the end."""
import os
import pathlib
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import fuse_file  # noqa: E402
import runs  # noqa: E402
from daemon import OWN, Daemon, asked_whole, everything, halted, receive  # noqa: E402
from netns import until  # noqa: E402
from runs import expect  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SPEC = """
app kv { files rows = "*.rows" { immutable }  class fast { priority 0 }  class slow { priority 7 } }
chain row(file: file rows, number: u32) in class fast -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 1000 for 1000 in file) { return b }
}
chain long(file: file rows) -> bytes(max 64KiB) hops 1 {
  step s(b: block at 0 for 60000 in file) { return b }
}
record Binary { op: u8 in { 1 get }  number: u32be }
service lines on tcp 7001 via uring, udp 7001 via xdp in class fast {
  text Row { "row " numbers: int[1..16 by " "] "\\n" }
  text Word { word: word(max 16) "\\n" }
  text Line { all: rest(max 4096) }
  request { line: Line }
  on request {
    var answered = false
    when request.line.all.text(Word) as w {
      match w.word {
        "quit" { fail close }
        "long" { let v = long(rows["a.rows"]) else fail not_found  reply v v v v "\\n" }
        else { fail malformed }
      }
      answered = true
    }
    when request.line.all.text(Row) as r {
      for n in r.numbers {
        let v = row(rows["a.rows"], n as u32) else { reply "none\\n" continue }
        reply v[0..10] "\\n"
      }
      reply "end\\n"
      answered = true
    }
    if !answered { fail malformed }
  }
  on malformed { reply "bad\\n" }
  on failure { reply "sorry\\n" }
}
service binary on tcp 7002 via auto in class slow {
  request { b: Binary }
  on request {
    let v = row(rows["a.rows"], request.b.number) else fail not_found
    reply v.length:u16be v
  }
}
"""
ROWS = 500


def row(number):
    return (b"%09d " % number) * 100


class Server(Daemon):
    def __init__(self, folder, *options):
        super().__init__(folder / "app.bpf.o", "--bind", "127.0.0.1", "--port", "lines=0", "--port", "binary=0", *options)

    def connect(self, service="lines"):
        return socket.create_connection(("127.0.0.1", self.ports[service, "tcp"]), timeout=60)

    def stats(self, service="lines"):
        return next(entry for entry in self.all_stats()["services"] if entry["name"] == service)

    def wait_for(self, name, value, service="lines"):
        until = time.monotonic() + 60
        while self.stats(service)[name] != value and time.monotonic() < until:
            time.sleep(0.01)
        return self.stats(service)[name]


def asked(server, request, service="lines"):
    with server.connect(service) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def lines_of(*numbers):
    return b"".join(row(n)[:10] + b"\n" for n in numbers) + b"end\n"


def test_requests(server):
    expect("rows of one request", asked(server, b"row 3 4 499\n"), lines_of(3, 4, 499))
    expect("a line of bad form, and one behind it", asked(server, b"nothing like it\nrow 5\n"), b"bad\n" + lines_of(5))
    expect("a row behind the end of the file is a failure, not an answer", asked(server, b"row 7 500\nrow 8\n"),
           row(7)[:10] + b"\nsorry\n" + lines_of(8))
    expect("an incomplete line at the end", asked(server, b"row 3\nrow 4"), lines_of(3))
    expect("close ends it behind the replies", asked(server, b"row 3\nquit\nrow 4\n"), lines_of(3))
    numbers = [n % ROWS for n in range(20000)]
    expect("20000 requests at once", asked_in_heaps(server, numbers), b"".join(lines_of(n) for n in numbers))
    with server.connect() as sock:
        for byte in b"row 12\n":
            sock.sendall(bytes([byte]))
        expect("a request byte by byte", receive(sock, 15), lines_of(12))
        for byte in b"row 4 00000000000000000005\nrow 4 000000000000000000005\n":
            sock.sendall(bytes([byte]))
        expect("a number of 20 digits, and one that goes on behind them", receive(sock, 30), lines_of(4, 5) + b"bad\n")
    long = b"".join(row(n) for n in range(60)) * 4 + b"\n"
    expect("replies larger than the server's room for them", asked(server, b"long\n" * 5), long * 5)
    with server.connect() as sock:
        sock.sendall(b"x" * 5000)
        expect("a line without an end", everything(sock), b"bad\n")
    expect("which is counted", server.stats()["too_long"], 1)


def asked_in_heaps(server, numbers):
    with server.connect() as sock:
        return asked_whole(sock, b"".join(b"row %d\n" % n for n in numbers))


def test_monitored(server):
    """What a monitor sees: of latencies what came between two looks, and how busy the daemon is at this moment."""
    before = server.stats()
    asked_in_heaps(server, [n % ROWS for n in range(1000)])
    after, whole = server.stats(), server.all_stats()
    counts = {most: count for most, count in after["latencies_ns"]["up_to"]}
    for most, count in before["latencies_ns"]["up_to"]:
        counts[most] -= count
    expect("latencies of what was asked meanwhile", sum(counts.values()), 1000)
    expect("which the count says, too", after["latencies_ns"]["count"] - before["latencies_ns"]["count"], 1000)
    spans = [most for most, count in after["latencies_ns"]["up_to"]]
    expect("in order, up to the largest", spans == sorted(spans) and spans[-1] >= after["latencies_ns"]["max"], True)
    expect("and their sum", after["latencies_ns"]["sum"] - before["latencies_ns"]["sum"], lambda ns: 0 < ns <= sum(most * count for most, count in counts.items()))
    expect("nothing runs now, and nothing waits", (whole["requests_running"], whole["requests_waiting"]), (0, 0))
    said = subprocess.run([BUILD / "bin" / "chainio-runtime", "--version"], capture_output=True, text=True, check=True).stdout
    expect("its version", whole["version"], said.split()[-1])
    expect("how long it runs", whole["up_seconds"], lambda seconds: 0 <= seconds < 86400)


def test_binary(server):
    one = struct.pack(">H", 1000)
    expect("requests of fixed size", asked(server, struct.pack(">BIBI", 1, 7, 1, 9), "binary"), one + row(7) + one + row(9))
    # It has neither handler that could say what is wrong.
    expect("a wrong operation closes", asked(server, struct.pack(">BIBI", 2, 7, 1, 9), "binary"), b"")


def reset(sock):
    """Ends it without a word, whatever was to come."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def ending(sock):
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return "reset"
    return "closed"


def test_untaken(folder):
    """Replies that lie in the socket alone: the kernel would keep them for minutes after a close."""
    server = Server(folder, "--timeout", 300)
    slow = server.connect("binary")
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(struct.pack(">BI", 1, 7) * 10000)
    expect("who does not take short replies is given up", server.wait_for("timeouts", 1, "binary"), 1)
    server.wait_for("connections", 0, "binary")
    expect("and the kernel keeps nothing for it", ending(slow), "reset")
    expect("ends", server.stop(), 0)


def trickles(sock):
    """Sends one byte after another of a request that never ends, until somebody ends that."""
    sock.settimeout(0.02)  # the pace
    for _ in range(2000):
        try:
            sock.sendall(b"r")
            if sock.recv(1) == b"":
                return "given up"
        except TimeoutError:
            pass
        except OSError:
            return "given up"
    return "served on"


def test_slow_clients(folder):
    server = Server(folder, "--timeout", 300, "--requests", 1)
    frames = server.all_stats()["frames_in_use"]
    half = server.connect()
    half.sendall(b"row ")
    expect("half a request is given up", everything(half), b"")
    expect("and counted", server.stats()["timeouts"], 1)
    slow = server.connect()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(b"long\n" * 60)
    expect("who does not read is given up", server.wait_for("timeouts", 2), 2)
    expect("the one place for requests is free again", asked(server, b"row 3\n"), lines_of(3))
    vanished = server.connect()
    vanished.sendall(b"long\n" * 60)
    reset(vanished)
    expect("nor does one who is gone hold it", asked(server, b"row 3\n"), lines_of(3))
    expect("no connection is left", (slow.close(), server.wait_for("connections", 0))[1], 0)
    expect("and no frame is held for them", server.all_stats()["frames_in_use"], frames)
    idle = server.connect()
    idle.sendall(b"row 3\n")
    receive(idle, len(lines_of(3)))
    for _ in range(4):  # longer than the timeout, and as many looks: what is tested is that nothing happens
        other = server.connect()
        other.sendall(b"row ")
        everything(other)
    idle.sendall(b"row 4\n")
    expect("who only thinks is left alone", receive(idle, len(lines_of(4))), lines_of(4))
    idle.close()
    timeouts = server.stats()["timeouts"]
    expect("who sends a request byte by byte has no more time for it", trickles(server.connect()), "given up")
    expect("and is counted", server.stats()["timeouts"], timeouts + 1)
    expect("ends", server.stop(), 0)


def test_stopped(folder):
    """Whose request has come while the daemon was stopped was in time, however long that was."""
    server = Server(folder, "--timeout", 1000)
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        client.sendall(b"row ")
    server.wait_for("bytes_in", 4 * len(clients))
    with halted(server.process):
        for client in clients:
            client.sendall(b"3\n")
        time.sleep(2)  # longer than the time for a request
    expect("requests that came while it was stopped", [receive(client, len(lines_of(3))) for client in clients], [lines_of(3)] * len(clients))
    clients[0].sendall(b"row ")
    expect("  and one that does not end is given up as before", everything(clients[0]), b"")
    expect("  and alone", server.stats()["timeouts"], 1)
    for client in clients:
        client.close()
    expect("ends", server.stop(), 0)


def test_overload(folder):
    """One request that waits for the disk holds the only place, so that all others wait."""
    if why := fuse_file.why_not():
        return print(f"skipped: a read that does not end: {why}")
    folder = folder / "held"
    folder.mkdir()
    (folder / "app.bpf.o").write_bytes((folder.parent / "app.bpf.o").read_bytes())
    with fuse_file.held_file(folder / "a.rows", b"".join(row(n) for n in range(ROWS)), 100 * 1000) as held:
        overloaded(folder, held)


def overloaded(folder, held):
    server = Server(folder, "--requests", 1, "--waiting", 4, "--timeout", 60000)
    frames = server.all_stats()["frames_in_use"]
    slow = server.connect()
    slow.sendall(b"row 100\n")
    while not held.pages:
        time.sleep(0.01)
    expect("and frames", server.all_stats()["frames_in_use"], lambda held: held > frames)
    waiting = []
    for service, request in [("binary", struct.pack(">BI", 1, 7))] * 2 + [("lines", b"row 3\n")] * 4:
        waiting.append(server.connect(service))
        before = server.stats(service)["requests"]
        waiting[-1].sendall(request)
        server.wait_for("requests", before + 1, service)
    expect("the least urgent are shed", (server.stats("binary")["shed"], server.stats("lines")["shed"]), (2, 0))
    expect("and told, without a handler by a close", [everything(sock) for sock in waiting[:2]], [b"", b""])
    waiting.append(server.connect())
    waiting[-1].sendall(b"row 3\n")
    expect("among equals the last", receive(waiting[-1], 6), b"sorry\n")
    reset(waiting.pop(5))
    expect("who is gone before his turn is counted", server.wait_for("vanished", 1), 1)
    held.let_go()
    expect("the one that waited for the disk", receive(slow, len(lines_of(100))), lines_of(100))
    slow.close()
    expect("the others had only to wait", [receive(sock, len(lines_of(3))) for sock in waiting[2:5]], [lines_of(3)] * 3)
    for sock in waiting:
        sock.close()
    server.wait_for("connections", 0)
    expect("no frame is held for anybody any more", server.all_stats()["frames_in_use"], frames)
    expect("ends", server.stop(), 0)
    said = [re.fullmatch(r"overload: (\d+) requests of service '(\w+)' were shed, (\d+) in all\n", line) for line in server.said]
    expect("and standard error says what was shed", {found[2]: int(found[3]) for found in said if found}, {"binary": 2, "lines": 1})


def test_places(folder):
    """A connection for which there is no place has that of one that is idle, of a class that is less urgent, and of no other one."""
    server = Server(folder, "--connections", 4, "--timeout", 60000)
    asks = struct.pack(">BI", 1, 7)

    def answers(sock):
        sock.sendall(asks)
        return receive(sock, 1002)[2:] == row(7)

    idle = []
    for _ in range(4):
        idle.append(server.connect("binary"))
        expect("it is there", server.wait_for("connections", len(idle), "binary"), len(idle))
    expect("the one that was first is the last to be used", answers(idle[0]), True)
    with server.connect("binary") as none:
        expect("among equals there is no place", everything(none), b"")
    urgent = [server.connect()]
    urgent[0].sendall(b"row 3\n")
    expect("a more urgent one has the place", receive(urgent[0], len(lines_of(3))), lines_of(3))
    expect("  of the one that was idle longest", everything(idle[1]), b"")
    expect("  the others stay", [answers(idle[i]) for i in (0, 2, 3)], [True] * 3)
    idle[2].sendall(asks[:2])
    expect("a part of a request has come", server.wait_for("bytes_in", 4 * 5 + 2, "binary"), 4 * 5 + 2)
    for _ in range(2):
        urgent.append(server.connect())
        urgent[-1].sendall(b"row 3\n")
        expect("so has another one", receive(urgent[-1], len(lines_of(3))), lines_of(3))
    urgent.append(server.connect())
    expect("and for one more there is none that is idle", everything(urgent[-1]), b"")
    idle[2].sendall(asks[2:])
    expect("  since a request that has begun is answered", receive(idle[2], 1002)[2:], row(7))
    counts = {service: [server.stats(service)[name] for name in ("connections", "refused", "displaced")] for service in ("lines", "binary")}
    expect("counted", counts, {"lines": [3, 1, 0], "binary": [1, 1, 3]})
    for sock in urgent + idle:
        sock.close()
    expect("ends", server.stop(), 0)
    said = "".join(line for line in server.said if line.startswith("overload:"))
    for what in ("connections of service 'binary' were refused, as there were 4 already (--connections), 1 in all", "connections of service 'lines' were refused, as there were 4 already (--connections), 1 in all",
                 "idle connections of service 'binary' were closed for more urgent ones, as there were 4 already (--connections), 3 in all"):
        expect(f"standard error says: {what}", what in said, True)


def test_idle(folder):
    """A connection on which nothing is asked for --idle is closed; one that asks meanwhile, now and then, is not."""
    server = Server(folder, "--connections", 2, "--idle", 2000)
    silent, asking = server.connect(), server.connect("binary")
    expect("both are there", (server.wait_for("connections", 1), server.wait_for("connections", 1, "binary")), (1, 1))
    silent.setblocking(False)
    asked_meanwhile = 0
    while not select.select([silent], [], [], 0.2)[0] and asked_meanwhile < 600:
        asking.sendall(struct.pack(">BI", 1, 7))
        receive(asking, 1002)
        server.control({"op": "reload"})  # from which no time begins anew
        asked_meanwhile += 1
    expect("the silent one is closed", silent.recv(1), b"")
    asking.sendall(struct.pack(">BI", 1, 7))
    expect("the other one is answered", receive(asking, 1002)[2:], row(7))
    expect("counted", [server.stats(service)["idle_closed"] for service in ("lines", "binary")], [1, 0])
    expect("and another one has its place", asked(server, b"row 3\n"), lines_of(3))
    expect("with nothing more to ask it is closed, too", everything(asking), b"")
    for sock in (silent, asking):
        sock.close()
    expect("ends", server.stop(), 0)


def answer_of(sock, like):
    """As long as another one; nothing where the connection is reset instead."""
    try:
        return receive(sock, len(like))
    except ConnectionResetError:
        return b""


def test_place_of_one_that_asks(folder):
    """An urgent one that comes first, and then, before the daemon looks, a request of the one that has been idle longest."""
    server = Server(folder, "--connections", 4, "--timeout", 60000)
    idle = [server.connect("binary") for _ in range(4)]
    expect("all are there", server.wait_for("connections", 4, "binary"), 4)
    with halted(server.process):
        urgent = server.connect()
        urgent.sendall(b"row 3\n")
        idle[0].sendall(struct.pack(">BI", 1, 7))
    expect("the one that came has a place", answer_of(urgent, lines_of(3)), lines_of(3))
    expect("and the one that asked its answer", answer_of(idle[0], b"\0\0" + row(7))[2:], row(7))
    expect("counted", (server.stats("binary")["displaced"], server.stats("lines")["refused"]), (1, 0))
    for sock in (urgent, *idle):
        sock.close()
    expect("ends", server.stop(), 0)


def test_places_at_once(folder):
    """As many urgent ones as come at once have places, and those that were idle, but have just asked for something, keep theirs."""
    server = Server(folder, "--connections", 400, "--timeout", 60000)
    idle = [server.connect("binary") for _ in range(400)]
    expect("all are there", server.wait_for("connections", 400, "binary"), 400)
    with halted(server.process):
        urgent = [server.connect() for _ in range(380)]
        for sock in urgent:
            sock.sendall(b"row 3\n")
        for sock in idle[:20]:  # those that have been idle longest
            sock.sendall(struct.pack(">BI", 1, 7))
    expect("each that came has a place", sum(answer_of(sock, lines_of(3)) == lines_of(3) for sock in urgent), 380)
    expect("and each that asked its answer", sum(answer_of(sock, b"\0\0" + row(7))[2:] == row(7) for sock in idle[:20]), 20)
    expect("counted", (server.stats("binary")["displaced"], server.stats("lines")["refused"]), (380, 0))
    for sock in urgent + idle:
        sock.close()
    expect("ends", server.stop(), 0)


def test_many_at_once(folder):
    """However many come while the daemon does something else, as far as the system lets them wait: none of them is turned away."""
    count, most = 1500, int(pathlib.Path("/proc/sys/net/core/somaxconn").read_text())
    if most < count:
        return print(f"skipped: {count} connections at once: the system lets {most} of them wait (net.core.somaxconn)")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 512:
        return print(f"skipped: {count} connections at once: a process may have {hard} descriptors (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 512), hard))
    server = Server(folder, "--connections", count, "--waiting", count)
    with halted(server.process):
        socks = [socket.create_connection(("127.0.0.1", server.ports["lines", "tcp"]), timeout=20) for _ in range(count)]
    for sock in socks:
        sock.sendall(b"row 3\n")
    expect("each is answered", sum(receive(sock, len(lines_of(3))) == lines_of(3) for sock in socks), count)
    for sock in socks:
        sock.close()
    expect("ends", server.stop(), 0)


def test_end(folder):
    server = Server(folder)
    stop, results = threading.Event(), []

    def load(sock):
        """Heaps of ten requests; what the kernel took of them before the signal has to be answered."""
        asked_for = answered = b""
        number = 0
        while not stop.is_set():
            heap = b"".join(b"row %d\n" % (n % ROWS) for n in range(number, number + 10))
            want = b"".join(lines_of(n % ROWS) for n in range(number, number + 10))
            number += 10
            try:
                sock.sendall(heap)
                asked_for += want
                while len(answered) < len(asked_for):
                    got = sock.recv(1 << 16)
                    if not got:
                        break
                    answered += got
            except OSError as error:
                results.append(f"{error}")
                return
            if len(answered) < len(asked_for):
                break
        whole = asked_for.startswith(answered) and (not answered or answered.endswith(b"end\n"))
        results.append("whole" if whole else f"cut: {answered[-40:]!r}")

    # On a busy machine a thread may begin only after the end.
    clients = [threading.Thread(target=load, args=(server.connect(),)) for _ in range(16)]
    for client in clients:
        client.start()
    while server.stats()["answered"] < 2000:
        time.sleep(0.01)
    early = server.connect()
    early.sendall(b"row 1\n" * 3000)
    server.process.send_signal(signal.SIGTERM)
    expect("what was sent before SIGTERM is answered", everything(early), lines_of(1) * 3000)
    early.close()
    for client in clients:
        client.join(60)
    stop.set()
    expect("no client's reply was cut, none was reset", [r for r in results if r != "whole"], [])
    expect("it ended well", (server.process.wait(timeout=60), len(results)), (0, 16))
    server.rest.join()
    expect("and says how much it did", server.said[-1], lambda line: re.fullmatch(r"stopped after \d+ answers\n", line) is not None)


def test_end_behind_others(folder):
    """What has come for clients stands behind hundreds of new connections at SIGTERM: it is out of the sockets, and was not looked at."""
    server = Server(folder)
    early = [server.connect() for _ in range(10)]
    server.wait_for("connections", len(early))
    with halted(server.process):
        others = [server.connect() for _ in range(300)]
        for number, sock in enumerate(early):
            sock.sendall(b"row %d\n" % number)
        server.process.send_signal(signal.SIGTERM)
    expect("who had asked before SIGTERM is answered", [everything(sock) for sock in early], [lines_of(number) for number in range(len(early))])
    for sock in early + others:
        sock.close()
    expect("ends", server.process.wait(timeout=60), 0)
    server.rest.join()


def test_refusals(folder):
    app = folder / "app.bpf.o"
    run = lambda *args: subprocess.run([BUILD / "bin" / "chainio-runtime", "--spec", app, *args], capture_output=True, text=True, timeout=60)
    plan = [line.split(None, 3) for line in run("--check").stdout.splitlines()]
    expect("the plan", [row for row in plan if row[0] == "service"],
           [["service", "lines", "runs", "tcp 7001 via uring"], ["service", "lines", "runs", "udp 7001 via xdp: by AF_XDP on each --interface, else by a socket"],
            ["service", "binary", "runs", "tcp 7002 via auto"]])
    for what, args, code, text in [
        ("a file that is not open", (), 3, "service 'lines' cannot be served: files 'rows' has no file 'a.rows'; open it: --file rows=PATH"),
        ("a service that is not there", ("--port", "line=0"), 2, "there is no service 'line'; did you mean 'lines'?"),
        ("a port that is none", ("--port", "lines=70000"), 2, "--port wants SERVICE=PORT, 0 to 65535, not 'lines=70000'"),
        *[("a port for two", ("--bind", OWN, "--port", "binary=7001", *how), 3,
           "chainio-runtime: service 'binary': tcp port 7001 is that of service 'lines' as well; give one of the two another port (--port SERVICE=PORT)\n")
          for how in (("--file", f"rows={folder / 'a.rows'}"), ("--file", f"rows={folder / 'a.rows'}", "--check"), ("--check",))],
        *[(f"requests that have no room {how}", ("--request-bytes", "4", *how.split()), 2,
           "chainio-runtime: service 'binary': its requests are longer than --request-bytes 4; give at least 5\n") for how in ("", "--check")],
        ("an address that is none", ("--bind", "here", "--file", f"rows={folder / 'a.rows'}"), 2, "'here' is no address"),
    ]:
        done = run(*args)
        expect(f"refused: {what}", (done.returncode, done.stderr), lambda r: r[0] == code and text in r[1])
    (folder / "b.rows").write_bytes(row(0))
    (folder / "other").mkdir()
    (folder / "other" / "a.rows").write_bytes(row(0))
    of = lambda *names: [word for name in names for word in ("--file", f"rows={folder / name}")]
    for what, files, text in [("only another file", of("b.rows"), "has no file 'a.rows'; open it: --file rows=PATH"),
                              ("two files of the name", of("a.rows", "other/a.rows"), "has 2 files 'a.rows'; open one of them only")]:
        for how in ((), ("--check",)):
            done = run(*how, *files)
            expect(f"refused {' '.join(how)}: {what}", (done.returncode, done.stderr), (3, f"chainio-runtime: service 'lines' cannot be served: files 'rows' {text}\n"))
    expect("a file more is none too many", run("--check", *of("a.rows", "b.rows")).returncode, 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        (folder / "a.rows").write_bytes(b"".join(row(n) for n in range(ROWS)))
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"], check=True)
        test_refusals(folder)
        server = Server(folder, "--request-bytes", 4096)
        test_requests(server)
        test_monitored(server)
        test_binary(server)
        expect("ends", server.stop(), 0)
        plain = Server(folder, "--no-ring")
        expect("with plain preads", asked(plain, b"row 3 4\n" * 50), lines_of(3, 4) * 50)
        expect("ends", plain.stop(), 0)
        test_slow_clients(folder)
        test_stopped(folder)
        test_untaken(folder)
        test_overload(folder)
        test_places(folder)
        test_idle(folder)
        test_place_of_one_that_asks(folder)
        test_places_at_once(folder)
        test_many_at_once(folder)
        test_end(folder)
        test_end_behind_others(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
