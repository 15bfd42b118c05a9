#!/usr/bin/env python3
"""What goes on while reads of the disk do not end, or chains go on for long: replies of a connection to the requests in front, and what the control
socket is asked."""
import contextlib
import itertools
import json
import pathlib
import select
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
import runs  # noqa: E402
from daemon import ROWS, Server, answer, compiled, everything, halted, receive, receive_line, row, write_rows  # noqa: E402
from netns import until  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from runtime_hostile import connected  # noqa: E402

HELD = 100  # reads of this row, and of those behind it, wait
SPEC = daemon.SPEC.replace("service {service}", """chain first(rows: file rows, number: u32) -> u8 hops 1 {{
  step s(b: block at number * 1000 for 1000 in rows) {{ return b[0] }}
}}
chain circle(rows: file rows) -> u8 hops 65536 {{
  step s(b: block at 0 for 16 in rows) {{
    if b[0] == 0 {{ return b[0] }}
    goto s at 0
  }}
}}
service {service}""")
AHEAD = """
app ahead {}
service ahead on tcp 7001 via uring {
  text Line { all: rest(max 16) }
  request { line: Line }
  on request {
    var sum = 0
    for i in range(0, 1000) max 1000 { sum = ((sum ^ i) * 31 + request.line.all.length) & 0xffff }
    reply sum:dec "\\n"
  }
}
"""
LINES = 200  # of the control socket, of which a turn has a few
CONTENT = b"".join(row(n, ord("a")) for n in range(ROWS))


class WithoutFile(daemon.Daemon):
    FILE = None


def call(number, id_):
    return json.dumps({"chain": "first", "args": {"number": number}, "id": id_}).encode() + b"\n"


def held_rows(folder):
    return fuse_file.held_file(folder / "a.rows", CONTENT, HELD * 1000)


def test_replies_in_front(folder):
    """The reply to a request leaves when it is whole, though the next one of the connection waits for the disk."""
    with held_rows(folder) as held:
        server = Server(folder)
        with server.connect() as sock:
            sock.sendall(b"row 3\nrow 4\nrow %d\nrow 5\n" % HELD)
            until("the third waits for the disk", lambda: held.pages)
            until("two are answered", lambda: server.stats()["services"][0]["answered"] == 2)
            in_front = answer(b"one", 3) + answer(b"one", 4)
            sock.settimeout(10)
            try:
                expect("the replies in front of one that waits have left", receive(sock, len(in_front)), in_front)
            except TimeoutError:
                expect("the replies in front of one that waits have left", False, True)
            expect("  and no more", server.stats()["services"][0]["bytes_out"], len(in_front))
            held.let_go()
            expect("then the others, in their order", receive(sock, len(in_front)), answer(b"one", HELD) + answer(b"one", 5))
        expect("ends", server.stop(), 0)


def test_calls_that_wait(folder):
    """Calls that have all places wait for the disk, and others for them; what needs no place is answered at once."""
    with held_rows(folder) as held:
        server = Server(folder, "--in-flight", 2)
        with connected(server) as full, connected(server) as behind, full.makefile() as answers, behind.makefile() as late:
            full.sendall(call(HELD, 1) + call(HELD + 50, 2))
            until("both wait for the disk", lambda: len(held.pages) == 2)
            behind.sendall(call(1, 3) + b'{"op":"stats","id":4}\n')
            stats = server.all_stats()
            expect("stats while calls wait", (stats["in_flight"], stats["clients"]), (2, 3))
            with connected(server) as other, other.makefile() as said:
                other.sendall(b'{"op":"stats"}\n' * 3)
                expect("  three times by one client", [json.loads(said.readline())["stats"]["in_flight"] for _ in range(3)], [2] * 3)
            expect("a reload while calls wait", server.control({"op": "reload"}), {"id": None, "edition": 2})
            expect("  which the calls outlive", server.all_stats()["before_runs"], True)
            held.let_go()
            expect("the calls' answers", sorted(json.loads(answers.readline())["id"] for _ in range(2)), [1, 2])
            expect("  and what the client behind them has asked", sorted(json.loads(late.readline())["id"] for _ in range(2)), [3, 4])
        expect("ends", server.stop(), 0)


def test_turns(folder):
    """A client that sends thousands of lines at once has sixteen of them done, and then it is the others' turn."""
    write_rows(folder, ord("a"))
    server = Server(folder)
    with connected(server) as many, server.connect() as other, many.makefile() as answers:
        many.sendall(b'{"op":"stats"}\n')
        answers.readline()
        server.process.send_signal(signal.SIGSTOP)
        status = pathlib.Path(f"/proc/{server.process.pid}/stat")
        until("it is stopped", lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        many.sendall(b'{"op":"stats"}\n' * 4000)
        other.sendall(b"row 3\n")
        server.process.send_signal(signal.SIGCONT)
        before = 0  # answers in which the other's request has not come
        while json.loads(answers.readline())["stats"]["services"][0]["requests"] == 0:
            before += 1
        expect("lines that are done before the request that came with them", before, lambda count: 0 < count <= 64)
        expect("which is answered", receive_line(other), answer(b"one", 3))
    expect("ends", server.stop(), 0)


def test_turns_of_many(folder):
    """Where very many requests have been sent ahead, a turn ends before all connections have had dozens of them: others come in between."""
    clients, ahead = 400, 300
    (folder / "ahead.chain").write_text(AHEAD)
    subprocess.run([BUILD / "bin" / "chainc", folder / "ahead.chain", "-o", folder / "ahead.o"], check=True)
    server = WithoutFile(folder / "ahead.o", "--bind", "127.0.0.1", "--port", "ahead=0")
    counters = lambda stats: stats["services"][0]
    with connected(server) as control, control.makefile() as answers, contextlib.ExitStack() as stack:
        port = server.ports["ahead", "tcp"]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
            sock.sendall(b"a\n")
            reply = receive_line(sock)
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(clients)]
        until("all are accepted", lambda: counters(server.all_stats())["accepted"] == clients + 1)
        with halted(server.process):
            for sock in socks:
                sock.sendall(b"a\n" * ahead)
            control.sendall(b'{"op":"stats"}\n' * LINES)
        done = [counters(json.loads(answers.readline())["stats"])["requests"] for _ in range(LINES)]
        expect("requests of each that are done between two lines of the control socket", max(after - before for before, after in itertools.pairwise(done)) / clients,
               lambda most: most < 16)
        expect("  which are some", done[-1], lambda count: count > 1)
        expect("all of them are answered", {receive(sock, len(reply) * ahead) for sock in socks}, {reply * ahead})
    expect("ends", server.stop(), 0)


def test_end(folder):
    """SIGTERM while reads wait: what ends in time is answered. Requests have five seconds, calls as long as they take, and a second signal waits for nothing."""
    given_up = "stopped after {} answers; {} chains are given up, whose reads have not ended\n"
    with held_rows(folder) as held:
        server = Server(folder)
        with server.connect() as sock, connected(server) as caller, caller.makefile() as answers:
            sock.sendall(b"row %d\n" % HELD)
            caller.sendall(call(HELD + 50, 1))
            until("both wait for the disk", lambda: len(held.pages) == 2)
            server.process.send_signal(signal.SIGTERM)
            until("it takes no connection any more", lambda: refuses(server))
            held.let_go()
            expect("reads that end behind SIGTERM are answered", (everything(sock), json.loads(answers.readline())["outcome"]), (answer(b"one", HELD), "ok"))
        expect("  and then it ends", (server.process.wait(timeout=60), server.path.exists()), (0, False))
    with held_rows(folder) as held:
        server = Server(folder)
        with server.connect() as sock:
            sock.sendall(b"row 3\nrow %d\n" % HELD)
            until("one waits for the disk", lambda: held.pages)
            server.process.send_signal(signal.SIGTERM)
            expect("a read that does not end: the requests in front are answered", everything(sock), answer(b"one", 3))
        expect("  and it ends without it", ended(server), (0, given_up.format(1, 1), False))
    with held_rows(folder) as held:
        server = Server(folder)
        with connected(server) as caller:
            caller.sendall(call(HELD, 1))
            until("it waits for the disk", lambda: held.pages)
            server.process.send_signal(signal.SIGTERM)
            until("it takes no connection any more", lambda: refuses(server))
            server.process.send_signal(signal.SIGTERM)
            expect("a second signal ends it with a call that waits", ended(server), (0, given_up.format(0, 1), False))


def test_second_signal(folder):
    """It ends the daemon at once, whatever of a service waits; with one signal it takes five seconds."""
    for _ in runs.tries():
        with held_rows(folder) as held:
            server = Server(folder)
            with server.connect() as sock:
                sock.sendall(b"row %d\n" % HELD)
                until("one waits for the disk", lambda: held.pages)
                server.process.send_signal(signal.SIGTERM)
                until("it takes no connection any more", lambda: refuses(server))
                before = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                how, seconds = ended(server), time.monotonic() - before
        if seconds < 3:
            break
    expect("a second signal ends it with a request that waits: seconds", seconds, lambda seconds: seconds < 3)
    expect("  and how", how, (0, "stopped after 0 answers; 1 chains are given up, whose reads have not ended\n", False))


def given_up(server, held):
    """A client has asked for a row whose read does not end, and is gone: the chain is given up, and its read is left."""
    sock = server.connect()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its end is a reset
    sock.sendall(b"row %d\n" % HELD)
    until("a read waits for the disk", lambda: held.pages)
    sock.close()
    until("  its chain is given up", lambda: server.stats()["in_flight"] == 0)


def test_given_up(folder):
    """A read that nobody waits for any more holds up neither those who ask after a reload nor the end, and its frame is no leak."""
    with held_rows(folder) as held:
        server = Server(folder)
        given_up(server, held)
        expect("a reload meanwhile", server.control({"op": "reload"}), {"id": None, "edition": 2})
        with server.connect() as sock:
            sock.settimeout(10)
            sock.sendall(b"row 3\n")
            try:
                expect("  who asks then is answered", receive_line(sock), answer(b"one", 3))
            except TimeoutError:
                expect("  who asks then is answered", False, True)
            else:
                expect("  while the edition before has its read", server.all_stats()["before_runs"], True)
        held.let_go()
        until("  and no longer", lambda: not server.all_stats()["before_runs"])
        expect("  frames that are said to leak", server.all_stats()["leaked_frames"], 0)
        expect("ends", server.stop(), 0)
    with held_rows(folder) as held:
        server = Server(folder)
        given_up(server, held)
        server.process.send_signal(signal.SIGTERM)
        until("it takes no connection any more", lambda: refuses(server))
        held.let_go()
        expect("a read that ends behind SIGTERM", (server.process.wait(timeout=60), server.rest.join(), server.said[-1]),
               (0, None, "stopped after 0 answers\n"))
    for signals in (1, 2):
        with held_rows(folder) as held:
            server = Server(folder)
            given_up(server, held)
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                until("it takes no connection any more", lambda: refuses(server))
            expect(f"one that does not, and {signals} signals", ended(server),
                   (0, "stopped after 0 answers; 1 reads of chains that were given up have not ended\n", False))


def refuses(server):
    try:
        server.connect().close()
    except (ConnectionRefusedError, ConnectionResetError):  # a reset: the socket was closed before it was accepted
        return True
    return False


def ended(server):
    """How, what it said last, and whether its control socket is still there."""
    try:
        code = server.process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        server.process.kill()
        return "not within 20 s"
    server.rest.join()
    return code, server.said[-1], server.path.exists()


def test_long_chains(folder):
    """Chains of very many reads, which the page cache has all, let others have their turn."""
    write_rows(folder, ord("a"))
    server = Server(folder)
    with connected(server) as control, server.connect() as sock:
        control.sendall(json.dumps({"chain": "circle", "args": {}}).encode() + b"\n")
        expect("one of them", json.loads(receive_line(control))["outcome"], "hop_limit")
        control.sendall((json.dumps({"chain": "circle", "args": {}}).encode() + b"\n") * 32)
        meanwhile = 0
        while not select.select([control], [], [], 0)[0]:
            sock.sendall(b"row 3\n")
            meanwhile += receive_line(sock) == answer(b"one", 3)
        expect("others are answered while 32 of them run", meanwhile, lambda count: count > 10)
        with control.makefile() as answers:
            ends = [json.loads(answers.readline())["outcome"] for _ in range(32)]
        expect("all of which end as the one did", set(ends), {"hop_limit"})
    expect("ends", server.stop(), 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        daemon.SPEC = SPEC
        (folder / "app.o").write_bytes(compiled(folder, "one"))
        if why := fuse_file.why_not():
            print(f"skipped: reads that do not end: {why}")
        else:
            test_replies_in_front(folder)
            test_calls_that_wait(folder)
            test_end(folder)
            test_second_signal(folder)
            test_given_up(folder)
        test_turns(folder)
        test_turns_of_many(folder)
        test_long_chains(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
