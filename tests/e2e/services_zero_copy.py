#!/usr/bin/env python3
"""Replies over tcp that leave from their frames without a copy (SEND_ZC): until the kernel lets go of a frame nobody else gets it, and then at
once, whatever becomes of the client: slow, idle, killed, cut off, half closed, under a reload or at the end. The path that does not copy is a veth
pair whose far end runs an XDP program: the kernel counts what goes there as not copied, and holds frames until they are acknowledged."""
import atexit
import contextlib
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
import netns  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from daemon import Server, everything, receive  # noqa: E402
from netns import inside, until  # noqa: E402
from runs import BUILD, expect  # noqa: E402

SPEC = """
app kv { files rows = "*.rows" { immutable } }
chain row(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 60000 for 60000 in file) { return b }
}
chain short(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 60000 for 40000 in file) { return b }
}
record Get { number: u32be  times: u8 }
service lines on tcp 7001 via uring {
  request { get: Get }
  on request {
    if request.get.times == 0 {
      let v = short(rows["a.rows"], request.get.number) else fail not_found
      reply v
    } else {
      let v = row(rows["a.rows"], request.get.number) else fail not_found
      if request.get.times == 2 { reply "twice " v " and " v "\\n" } else { reply "once " v "\\n" }
    }
  }
}
"""
PASS = ('__attribute__((section("xdp.frags"), used)) int pass(void *ctx) { return 2; }\n'
        'char _license[] __attribute__((section("license"), used)) = "GPL";\n')
ROWS, LENGTH, SHORT = 64, 60000, 40000
CONTENT = random.Random(20261122).randbytes(ROWS * LENGTH)
ONCE = LENGTH + 6


def row(number):
    return CONTENT[number * LENGTH:(number + 1) * LENGTH]


def ask(number, times=1):
    return struct.pack(">IB", number, times)


def answer(number, times=1):
    if times == 0:
        return row(number)[:SHORT]  # is copied
    return b"twice " + row(number) + b" and " + row(number) + b"\n" if times == 2 else b"once " + row(number) + b"\n"


class OverVeth(Server):
    """On one end of a pair, the clients on the other."""
    def __init__(self, folder, pair, *options):
        self.pair = pair
        # What one client has shown of the way to its address holds for the others, so that each test has its own server.
        super().__init__(folder, *options, prefix=pair.command(pair.here), address="10.9.0.1")
        atexit.register(self.process.kill)  # where a test fails, it ends no server

    def connect(self, room=None):
        with inside(self.pair.there):
            made = socket.socket()
        if room:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        made.settimeout(60)
        made.connect(("10.9.0.1", self.port))
        return made

    def service(self):
        return self.stats()["services"][0]

    def frames(self):
        return self.stats()["frames_in_use"]

    def at_rest(self, what):
        until(f"{what}: no connection is left", lambda: self.service()["connections"] == 0)
        expect(f"{what}: no frame is held", self.frames(), 0)


def test_replies(server):
    expect("a reply, and one with a result twice", [ask_once(server, 3), ask_once(server, 5, 2)], [answer(3), answer(5, 2)])
    numbers = [n % ROWS for n in range(200)]
    with server.connect() as sock:
        wrong = 0
        for n in numbers:
            sock.sendall(ask(n, 1 + n % 2))
            want = answer(n, 1 + n % 2)
            wrong += receive(sock, len(want)) != want
    expect("200 replies, each right", wrong, 0)
    service = server.service()
    expect("all of them left without a copy, or were sent on from where they stopped", service["zero_copy_sends"], lambda sends: sends >= 303)
    expect("no byte of them was copied by the program", (service["payload_copies"], service["zero_copy_refused"]), (0, 0))
    expect("and hardly any by the kernel", service["zero_copy_copied"] * 10 < service["zero_copy_sends"], True)
    with server.connect() as sock:
        sock.sendall(b"".join(ask(n) for n in numbers))
        sock.shutdown(socket.SHUT_WR)
        expect("200 at once, by who has closed his side", everything(sock) == b"".join(answer(n) for n in numbers), True)
    server.at_rest("after all of them")


def has_frames(server, given_up):
    """Waits for the kernel to have frames of a client; where this script was kept from looking for as long as the timeout is, for him to be given up."""
    until("frames are with the kernel", lambda: server.frames() > 0 or server.service()["timeouts"] > given_up)
    return server.service()["timeouts"] == given_up


def ask_once(server, number, times=1):
    with server.connect() as sock:
        sock.sendall(ask(number, times))
        return receive(sock, len(answer(number, times)))


def taken_slowly(server):
    """What a reader gets who has closed his side, and the longest time in seconds for which he took nothing."""
    got, longest, last = bytearray(), 0, time.monotonic()
    with server.connect(room=8192) as slow, contextlib.suppress(ConnectionResetError):
        slow.sendall(ask(1) * 12)
        slow.shutdown(socket.SHUT_WR)
        for _ in range(12 * ONCE // 30000 + 1):
            got += receive(slow, 30000)
            time.sleep(0.1)  # longer in all than the linger of two seconds; each 60 KiB well within the timeout
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        got += everything(slow)
    return bytes(got), max(longest, time.monotonic() - last)


def test_slow(server):
    """Each takes its replies in its own time, but for those who take none."""
    for _ in runs.tries():
        before = server.service()["timeouts"]
        got, longest = taken_slowly(server)
        if longest < 1:
            break  # else this script itself may have been kept from taking any for as long as the timeout is
    expect("a slow reader who has closed his side gets all", got == answer(1) * 12, True)
    server.at_rest("a slow reader")
    expect("and is not given up", server.service()["timeouts"], before)
    idle = server.connect(room=8192)
    idle.sendall(ask(2))
    has_frames(server, before)
    until("who takes nothing of it is given up", lambda: server.service()["timeouts"] == before + 1)
    server.at_rest("an idle reader")
    try:
        got = everything(idle)
        expect("and finds no whole reply", len(got) < ONCE, True)
    except ConnectionResetError:
        expect("and finds no whole reply", True, True)
    idle.close()


def taken_behind(server, numbers, length):
    """What a reader gets who takes his time, of what is sent without a copy behind these, and the longest time in seconds for which he took nothing."""
    got, part, longest, last = bytearray(), b"begin", 0, time.monotonic()
    with server.connect(room=262144) as slow, contextlib.suppress(ConnectionResetError):
        for n in range(300):  # so that the kernel gives the connection much room
            slow.sendall(ask(n % ROWS, 0))
            receive(slow, SHORT)
        last = time.monotonic()
        slow.sendall(b"".join(ask(n, 0) for n in numbers) + ask(1))
        time.sleep(0.3)  # how much of it the kernel takes before anything is read is its own affair
        while len(got) < length and part:
            part = slow.recv(100_000)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            got += part
            time.sleep(0.2)
    return bytes(got), max(longest, time.monotonic() - last)


def test_behind_others(server):
    """What is sent without a copy stands in the socket behind much that a live reader takes slowly."""
    numbers = [n % ROWS for n in range(40)]
    want = b"".join(answer(n, 0) for n in numbers) + answer(1)
    for _ in runs.tries():
        before = server.service()["timeouts"]
        got, longest = taken_behind(server, numbers, len(want))
        if longest < 1:
            break  # else this script itself may have been kept from taking any for as long as the timeout is
    expect("a slow reader of replies in front of one that is not copied gets all", (len(got), got == want), (len(want), True))
    service = server.service()
    expect("and is not given up", (service["timeouts"] - before, service["zero_copy_sends"] > 0), (0, True))
    server.at_rest("replies in front of one that is not copied")


def test_reload_behind_slow(server):
    """Who takes frames of the edition before a little at a time has the time of one who takes nothing, since the next reload waits for them."""
    slow = server.connect(room=8192)
    slow.sendall(ask(4) * 8)
    has_frames(server, 0)
    ended = threading.Event()

    def take_slowly():
        with contextlib.suppress(ConnectionResetError):
            while not ended.wait(0.2) and slow.recv(8000):
                pass
    taker = threading.Thread(target=take_slowly)
    taker.start()
    server.process.send_signal(signal.SIGHUP)
    until("another edition runs beside it", lambda: server.stats()["edition"] == 2)
    until("the one before ends although its replies are taken slowly", lambda: not server.stats()["before_runs"])
    expect("  since that connection is given up", server.service()["timeouts"], 1)
    ended.set()
    taker.join()
    slow.close()
    expect("another reload", server.control({"op": "reload"}), {"id": None, "edition": 3})
    server.at_rest("a reload behind a slow one")


CLIENT = """
import socket, struct, sys, time
sock = socket.socket()  # with as much room as sockets have: sends end, and wait to be taken
sock.connect(("10.9.0.1", int(sys.argv[1])))
sock.sendall(struct.pack(">IB", 1, 2) * 60)
print("asked", flush=True)
time.sleep(60)
"""


def test_vanished(folder, pair):
    for how in ("killed", "cut off"):
        for _ in runs.tries():
            server = OverVeth(folder, pair, "--timeout", 1500)
            client = started.start(pair.command(pair.there, sys.executable, "-c", CLIENT, server.port), stdout=subprocess.PIPE)
            client.stdout.readline()
            if has_frames(server, 0):
                break
            client.kill()
            server.stop()
        expect("frames that are not copied", server.service()["zero_copy_sends"], lambda sends: sends > 0)
        if how == "cut off":
            netns.ip("link", "set", "vb", "down", namespace=pair.there)
        client.kill()
        client.wait()
        server.at_rest(f"a client that was {how}")
        gone = server.service()
        counts = gone["timeouts"], gone["vanished"]
        expect("  and it is counted", counts, lambda got: got == (1, 0) if how == "cut off" else sum(got) == 1)
        if how == "cut off":
            netns.ip("link", "set", "vb", "up", namespace=pair.there)
            until("the link is there again", lambda: pair.link(pair.there, "vb")["operstate"] == "UP")
        expect("  others are served as before", ask_once(server, 9), answer(9))
        expect("  it ends", server.stop(), 0)


def test_reload(server):
    """The edition whose frames the kernel has stays until it lets go of them."""
    slow = server.connect(room=8192)
    slow.sendall(ask(4) * 8)
    until("frames are with the kernel", lambda: server.frames() > 0)
    server.process.send_signal(signal.SIGHUP)
    until("another edition runs beside it", lambda: server.stats()["edition"] == 2)
    expect("meanwhile others are answered", ask_once(server, 6), answer(6))
    expect("the edition before has not ended", server.stats()["before_runs"], True)
    expect("its replies are right", receive(slow, 8 * ONCE) == answer(4) * 8, True)
    until("then it ends", lambda: not server.stats()["before_runs"])
    slow.sendall(ask(5))
    expect("the connection goes on under the new one", receive(slow, ONCE) == answer(5), True)
    slow.close()
    server.at_rest("a reload")
    expect("no frame is lost", server.stats()["leaked_frames"], 0)


def test_end(server):
    slow = server.connect(room=8192)
    slow.sendall(ask(7) * 8)
    until("the replies are on their way", lambda: server.frames() > 0)
    server.process.send_signal(signal.SIGTERM)
    expect("what was asked before the end is answered", everything(slow) == answer(7) * 8, True)
    slow.close()
    expect("and it ends", server.process.wait(timeout=60), 0)
    server.rest.join()


def test_copied(folder):
    """Over loopback the kernel copies whatever it is asked; after a few sends it is not asked any more."""
    server = Server(folder)
    for n in range(8):
        expect(f"reply {n} over loopback", ask_loopback(server, n), True)
        until("the kernel is done with its frames", lambda: server.stats()["services"][0]["zero_copy_copied"] == 3)
    service, fallbacks = server.stats()["services"][0], server.stats()["fallbacks"]
    expect("after three copies replies are sent plainly", (service["zero_copy_sends"], service["zero_copy_copied"]), (3, 3))
    expect("from their frames all the same", service["payload_copies"], 0)
    expect("which is named, once", [each["count"] for each in fallbacks if each["name"] == "zero-copy-copied"], [1])
    expect("ends", server.stop(), 0)
    expect("and said", [line for line in server.said if "zero-copy-copied" in line],
           lambda lines: len(lines) == 1 and re.search(r"the kernel copies replies to some peers all the same", lines[0]) is not None)
    server = Server(folder, "--zero-copy", 0)
    expect("without it a reply is as it was", ask_loopback(server, 3), True)
    service = server.stats()["services"][0]
    expect("and leaves plainly", (service["zero_copy_sends"], service["payload_copies"]), (0, 0))
    expect("ends", server.stop(), 0)
    server = Server(folder, "--no-ring")
    expect("memory that is not registered is sent from with a copy", ask_loopback(server, 3), True)
    stats = server.stats()
    expect("which is named, for each result", [each["count"] for each in stats["fallbacks"] if each["name"] == "zero-copy-unregistered"],
           lambda counts: len(counts) == 1 and counts[0] >= 3)
    expect("ends", server.stop(), 0)


def ask_loopback(server, number):
    with server.connect() as sock:
        sock.sendall(ask(number, 2) + ask(number))
        sock.shutdown(socket.SHUT_WR)
        return everything(sock) == answer(number, 2) + answer(number)


def prepare(folder):
    (folder / "app.chain").write_text(SPEC)
    (folder / "a.rows").write_bytes(CONTENT)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        test_copied(folder)
        if why := netns.why_not():
            print(f"skipped: sends that are not copied: {why}")
        else:
            (folder / "pass.c").write_text(PASS)
            subprocess.run(["clang-19", "-O2", "-target", "bpf", "-c", folder / "pass.c", "-o", folder / "pass.o"], check=True)
            with netns.Pair(mtu=1500) as pair:
                netns.ip("link", "set", "dev", "vb", "xdpdrv", "obj", folder / "pass.o", "sec", "xdp.frags", namespace=pair.there)
                for test, patience_ms in ((test_replies, 1500), (test_slow, 1500), (test_behind_others, 1500), (test_reload, 30000), (test_reload_behind_slow, 1500)):
                    server = OverVeth(folder, pair, "--timeout", patience_ms)
                    test(server)
                    test_end(server)
                test_vanished(folder, pair)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
