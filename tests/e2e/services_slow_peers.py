#!/usr/bin/env python3
"""Clients that take long replies slowly hold up nobody else: neither other clients' requests, nor reloads for longer than `--timeout`."""
import pathlib
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
from daemon import LONG, ROWS, Server, answer, compiled, receive, row, write_rows  # noqa: E402
import runs  # noqa: E402
from runs import expect  # noqa: E402

# The long reply is more than the kernel keeps for a client, and of results that are copied to the connection's room.
ROUNDS = 20
SPEC = daemon.SPEC.replace("""let v = long(rows["a.rows"]) else fail not_found
      reply "{name} " v v v v " {name}\\n\"""", f"""for round in range(0, {ROUNDS}) max {ROUNDS} {{{{
        for number in range(0, {ROWS}) max {ROWS} {{{{
          let v = row(rows["a.rows"], number as u32) else fail not_found
          reply v
        }}}}
      }}}}""")
assert SPEC != daemon.SPEC
LONG_REPLY = b"".join(row(n, ord("a")) for n in range(ROWS)) * ROUNDS


def slow_client(server):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect((server.address, server.port))
    sock.sendall(b"row %d\n" % LONG)
    return sock


def test_places(folder):
    """More clients take nothing of their replies than there are places for requests that run."""
    server = Server(folder, "--requests", 2, "--timeout", 60000)
    slow = [slow_client(server) for _ in range(5)]
    server.wait_for("all have asked", lambda stats: stats["services"][0]["requests"] == len(slow))
    for number in range(3):
        with server.connect() as sock:
            sock.settimeout(20)
            sock.sendall(b"row %d\n" % number)
            try:
                expect(f"another client is answered: {number}", receive(sock, len(answer(b"A", number))), answer(b"A", number))
            except TimeoutError:
                expect(f"another client is answered: {number}", "nothing", answer(b"A", number))
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


def test_reload(folder):
    """A client that takes something all the time, but too little of it."""
    server = Server(folder, "--timeout", 1000)
    sock, stop = slow_client(server), threading.Event()

    def take():
        try:
            while not stop.is_set() and sock.recv(1000):
                time.sleep(0.02)  # the pace at which it reads
        except ConnectionResetError:
            pass
    taker = threading.Thread(target=take)
    taker.start()
    server.wait_for("it is being answered", lambda stats: stats["services"][0]["bytes_out"] != 0)
    expect("a reload", server.control({"op": "reload"}), {"id": None, "edition": 2})
    expect("which the reply outlives", server.all_stats()["before_runs"], True)
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


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        daemon.SPEC = SPEC
        write_rows(folder, ord("a"))
        (folder / "app.o").write_bytes(compiled(folder, "A"))
        test_places(folder)
        test_reload(folder)
    print("FAILED" if runs.failures else "all ok")
    return 1 if runs.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
