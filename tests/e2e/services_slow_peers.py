#!/usr/bin/env python3
"""Clients that take long replies slowly, or send far ahead, hold up nobody else: neither other clients' requests, nor reloads for longer than `--timeout`.
Those that have gone without a word are noticed."""
import json
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import fuse_file  # noqa: E402
import sockmap  # noqa: E402
from daemon import LONG, ROWS, Server, answer, compiled, receive, row, write_rows  # noqa: E402
import runs  # noqa: E402
from netns import until  # noqa: E402
from runs import expect  # noqa: E402
from runtime_hostile import connected  # noqa: E402

# The long reply is more than the kernel keeps for a client, and of results that are copied to the connection's room.
ROUNDS = 20
SPEC = daemon.SPEC.replace("""let v = long(rows["a.rows"]) else fail not_found
      reply "{name} " v v v v " {name}\\n\"""", f"""for round in range(0, {ROUNDS}) max {ROUNDS} {{{{
        for number in range(0, {ROWS}) max {ROWS} {{{{
          let v = row(rows["a.rows"], number as u32) else fail not_found
          reply v
        }}}}
      }}}}""")
SPEC = SPEC.replace("on failure", 'on malformed {{ reply "bad\\n" }}\n  on failure')
LARGE_SPEC = SPEC.replace(f"range(0, {ROWS}) max {ROWS}", "range(0, 10) max 10").replace('v = row(rows["a.rows"], number as u32)', 'v = long(rows["a.rows"])', 1)
LARGE_REPLY = b"".join(row(n, ord("a")) for n in range(60)) * 10 * ROUNDS
HELD = 10  # the row from which on reads may be held: before it, no reply is too long for its client
BOTH_SPEC = SPEC.replace("  class fast {{ priority 0 }}", "").replace(" in class fast", "").replace("tcp {port} via uring", "tcp {port} via uring, udp {port} via uring")
LONG_REPLY = b"".join(row(n, ord("a")) for n in range(ROWS)) * ROUNDS


def slow_client(server):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect((server.address, server.port))
    sock.sendall(b"row %d\n" % LONG)
    return sock


def expect_answer(server, number):
    with server.connect() as sock:
        sock.settimeout(60)
        sock.sendall(b"row %d\n" % number)
        try:
            got = receive(sock, len(answer(b"A", number)))
        except TimeoutError:
            got = "nothing"
        expect(f"another client is answered: {number}", got, answer(b"A", number))


def test_places(folder):
    """More clients take nothing of their replies than there are places for requests that run."""
    server = Server(folder, "--requests", 2, "--timeout", 60000)
    slow = [slow_client(server) for _ in range(5)]
    server.wait_for("all have asked", lambda stats: stats["services"][0]["requests"] == len(slow))
    for number in range(3):
        expect_answer(server, number)
    slow.pop().close()
    for sock in slow:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    got = [receive(sock, len(LONG_REPLY)) for sock in slow]
    expect("and they get their replies whole", [reply == LONG_REPLY for reply in got], [True] * len(slow))
    slow[0].sendall(b"row 3\n")
    expect("and the next one's", receive(slow[0], len(answer(b"A", 3))), answer(b"A", 3))
    for sock in slow:
        sock.close()
    stats = server.wait_for("nobody is there", lambda stats: stats["services"][0]["connections"] == 0)
    service = stats["services"][0]
    expect("nothing was shed or given up", (service["shed"], service["timeouts"], service["failed"]), (0, 0, 0))
    expect("ends", server.stop(), 0)


def test_memory(folder):
    """Replies that nobody takes want more memory than there is, and all places."""
    server = Server(folder, "--memory", 1 << 20, "--timeout", 60000)
    slow = [slow_client(server) for _ in range(100)]
    for number in range(3):
        expect_answer(server, number)
    for sock in slow[4:]:
        sock.close()
    for sock in slow[:4]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    got = [receive(sock, len(LARGE_REPLY)) for sock in slow[:4]]
    expect("those who take their replies after all get them whole", [reply == LARGE_REPLY for reply in got], [True] * 4)
    stats = server.wait_for("the others are gone", lambda stats: stats["services"][0]["connections"] == 4)
    expect("nothing was shed, given up or failed", [stats["services"][0][each] for each in ("shed", "timeouts", "failed")], [0, 0, 0])
    expect("requests waited for memory", [each["name"] for each in stats["fallbacks"] if each["name"] == "short-of-memory"], ["short-of-memory"])
    expect("no frame is lost", stats["leaked_frames"], 0)
    for sock in slow[:4]:
        sock.close()
    expect("ends", server.stop(), 0)


def test_reload(folder):
    """A client that takes something all the time, but too little of it."""
    for _ in runs.tries():
        if reload_beside_slow(folder):
            return
    expect("a reload and a look at it within two seconds", False, True)


def reload_beside_slow(folder):
    """Whether it was tried: the client is given up after three seconds, and has to be there at the reload."""
    server = Server(folder, "--timeout", 3000)
    sock, stop = slow_client(server), threading.Event()

    def take():
        try:
            while not stop.is_set() and sock.recv(1000):
                time.sleep(0.02)  # the pace at which it reads
        except ConnectionResetError:
            pass
    began = time.monotonic()
    taker = threading.Thread(target=take)
    taker.start()
    server.wait_for("it is being answered", lambda stats: stats["services"][0]["bytes_out"] != 0)
    expect("a reload", server.control({"op": "reload"}), {"id": None, "edition": 2})
    outlived = server.all_stats()["before_runs"]
    if in_time := time.monotonic() - began < 2:
        expect("which the reply outlives", outlived, True)
        began = time.monotonic()
        try:
            expect("the next one", server.control({"op": "reload"}), {"id": None, "edition": 3})
        except TimeoutError:
            expect("the next one", "no answer", {"id": None, "edition": 3})
        print(f"      after {time.monotonic() - began:.1f} s")
        expect("its client was given up", server.all_stats()["services"][0]["timeouts"], 1)
    stop.set()
    taker.join()
    sock.close()
    expect("ends", server.stop(), 0)
    return in_time


def test_reload_of_full(folder):
    """At a reload, requests whose clients take nothing have all places of the old edition, and others wait for one."""
    if why := fuse_file.why_not():
        return print(f"skipped: requests that have their places at a reload: {why}")
    folder = folder / "full"
    folder.mkdir()
    daemon.SPEC = BOTH_SPEC
    (folder / "app.o").write_bytes(compiled(folder, "A"))
    daemon.SPEC = SPEC
    with fuse_file.held_file(folder / "a.rows", b"".join(row(n, ord("a")) for n in range(ROWS)), HELD * 1000) as held:
        full_at_reload(Server(folder, "--requests", 4, "--timeout", 60000), held)


def full_at_reload(server, held):
    def requests(transport):
        return lambda stats: next(each["requests"] for each in stats["services"] if each["transport"] == transport)
    slow = [slow_client(server) for _ in range(4)]
    server.wait_for("they have all places", lambda stats: requests("tcp")(stats) == len(slow))
    asking = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for sock in asking:
        sock.settimeout(30)
        sock.connect((server.address, server.ports["lines", "udp"]))
        sock.send(b"row 4\n")
    server.wait_for("datagrams wait", lambda stats: requests("udp")(stats) == len(asking))
    expect("a reload", server.control({"op": "reload"}), {"id": None, "edition": 2})
    for number in range(3):
        expect_answer(server, number)
    expect("nothing of the old edition has ended", server.all_stats()["before_runs"], True)
    held.let_go()
    try:
        got = [sock.recv(1 << 16) for sock in asking]
    except TimeoutError:
        got = "nothing"
    expect("the datagrams have their replies, though nobody takes the long ones", got, [answer(b"A", 4)] * len(asking))
    expect("  of the old edition", server.all_stats()["before_runs"], True)
    for sock in slow + asking:
        sock.close()
    stats = server.wait_for("the old edition has ended", lambda stats: not stats["before_runs"])
    expect("nothing was shed or given up", [(each["shed"], each["timeouts"], each["failed"]) for each in stats["services"]], [(0, 0, 0)] * 2)
    expect("no frame is lost", stats["leaked_frames"], 0)
    expect("ends", server.stop(), 0)


def test_sent_ahead(folder):
    """What clients have sent beyond the room for it fills all buffers that sockets are read into."""
    server = Server(folder, "--timeout", 60000)
    slow, stop = [slow_client(server) for _ in range(300)], threading.Event()

    def send():
        while not stop.is_set():
            for sock in slow:
                try:
                    sock.send(b"row %d\n" % LONG * 5000)
                except BlockingIOError:
                    pass
            time.sleep(0.01)  # the pace at which they send
    for sock in slow:
        sock.setblocking(False)
    sender = threading.Thread(target=send)
    sender.start()
    server.wait_for("no buffer is left", lambda stats: any(each["name"] == "no-receive-buffers" for each in stats["fallbacks"]))
    for number in range(10):
        expect_answer(server, number)
    stop.set()
    sender.join()
    for sock in slow:
        sock.close()
    server.wait_for("nobody is there", lambda stats: stats["services"][0]["connections"] == 0)
    expect_answer(server, 11)
    expect("ends", server.stop(), 0)


def test_turns(folder):
    """Clients that have sent thousands of requests at once, which are answered without the disk, have some of them done and then it is the others' turn."""
    server = Server(folder)
    many = [server.connect() for _ in range(4)]
    with connected(server) as control, control.makefile() as answers:
        control.sendall(b'{"op":"stats"}\n')
        answers.readline()
        server.process.send_signal(signal.SIGSTOP)
        status = pathlib.Path(f"/proc/{server.process.pid}/stat")
        until("it is stopped", lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        for sock in many:
            sock.sendall(b"\n" * 60000)
        control.sendall(b'{"op":"stats"}\n' * 4000)
        server.process.send_signal(signal.SIGCONT)
        done = [0]
        while done[-1] < 60000:
            done.append(json.loads(answers.readline())["stats"]["services"][0]["requests"])
    # Of three turns' answers; that of later ones there may be no more room until this script takes some.
    first = done[:3 * 16]
    expect("requests of four clients between two looks", max(b - a for a, b in zip(first, first[1:])), lambda most: most < 3000)
    for sock in many:
        expect("each is answered", receive(sock, 240000) == b"bad\n" * 60000, True)
        sock.close()
    expect("ends", server.stop(), 0)


def test_silent(folder):
    """As of a machine that has lost its power: nothing but the kernel's own questions says so."""
    server = Server(folder)
    with server.connect() as client:
        server.wait_for("the connection is there", lambda stats: stats["services"][0]["connections"] == 1)
        with socket.socket(fileno=sockmap.daemons_end(server, client)) as end:
            expect("the kernel asks whether a silent client is there", end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)
            idle, between, probes = (end.getsockopt(socket.IPPROTO_TCP, name) for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT))
            expect("  and is without an answer within two minutes", idle + between * probes, lambda seconds: 0 < seconds <= 120)
    expect("ends", server.stop(), 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        daemon.SPEC = SPEC
        write_rows(folder, ord("a"))
        (folder / "app.o").write_bytes(compiled(folder, "A"))
        test_places(folder)
        test_reload(folder)
        test_reload_of_full(folder)
        test_sent_ahead(folder)
        test_turns(folder)
        test_silent(folder)
        daemon.SPEC = LARGE_SPEC
        (folder / "app.o").write_bytes(compiled(folder, "A"))
        test_memory(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
