#!/usr/bin/env python3
"""Replies that want more of `--memory` at once than there is fail without waiting for anybody, by datagrams; over tcp what was read for them leaves in front
of the rest. Others are not kept from theirs. The time limit is longer than the test waits for a reply, so that a reply which comes has not waited for it."""
import contextlib
import json
import pathlib
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import runs  # noqa: E402
from daemon import Daemon, everything, halted, receive  # noqa: E402
from netns import until  # noqa: E402
from runs import BUILD, expect  # noqa: E402

# Each length of a read, and the text of a reply to a datagram, takes 128 KiB of the 256.
SPEC = """
files blobs = "*.blob" { immutable }
chain chunk(f: file blobs, at: u64, n: u32) -> bytes(max 64KiB) { step s(b: block at at for n) { return b } }
service pieces on udp 7101 via uring, tcp 7101 via uring {
  request { a: u32be  b: u32be  c: u32be }
  on request {
    let p = chunk(blobs["main.blob"], 0, request.a) else fail close
    reply p
    let q = chunk(blobs["main.blob"], 100, request.b) else fail close
    reply q
    let r = chunk(blobs["main.blob"], 200, request.c) else fail close
    reply r
  }
  on failure { reply "FAIL" }
}
service kept on udp 7102 via uring, tcp 7102 via uring {
  request { a: u32be  b: u32be  c: u32be }
  on request {
    let p = chunk(blobs["main.blob"], 0, request.a) else fail not_found
    let q = chunk(blobs["main.blob"], 100, request.b) else fail not_found
    reply p[0..4] q[0..request.c]
  }
  on failure { reply "FAIL" }
}
"""
# The cache comes on top: three lengths find room, and text with them. A block of another one is kept behind each read.
CACHED = """
files blobs = "*.blob" { immutable }
files heads = "*.head" { immutable cache 64KiB levels 1 }
chain behind(h: file heads, f: file blobs, at: u64, n: u32) -> bytes(max 64KiB) hops 2 {
  step begin(b: block at 0 for 512 in h) { goto s at at for n in f }
  step s(b: block) { return b }
}
service pieces on udp 7101 via uring, tcp 7101 via uring {
  request { a: u32be  b: u32be  c: u32be }
  on request {
    let p = behind(heads["main.head"], blobs["main.blob"], 0, request.a) else fail close
    reply p
    let q = behind(heads["main.head"], blobs["main.blob"], 100, request.b) else fail close
    reply q
    let r = behind(heads["main.head"], blobs["main.blob"], 200, request.c) else fail close
    reply r
  }
  on failure { reply "FAIL" }
}
"""
DATA = random.Random(20261128).randbytes(100000)


class Server(Daemon):
    FILE = "blobs", "main.blob"

    def __init__(self, folder, memory, spec=SPEC, *options):
        (folder / "app.chain").write_text(spec)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        ports = [option for name in ("pieces", "kept") if f"service {name}" in spec for option in ("--port", f"{name}=0")]
        super().__init__(folder / "app.o", "--bind", "127.0.0.1", *ports, "--memory", memory, "--timeout", "600000", *options)

    @contextlib.contextmanager
    def client(self, service):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(60)
            sock.connect(("127.0.0.1", self.ports[service, "udp"]))
            yield sock

    def by_udp(self, service, *lengths):
        with self.client(service) as sock:
            sock.send(struct.pack("!III", *lengths))
            return sock.recv(1 << 16)

    def by_tcp(self, service, *lengths):
        with socket.create_connection(("127.0.0.1", self.ports[service, "tcp"]), timeout=60) as sock:
            sock.sendall(struct.pack("!III", *lengths))
            sock.shutdown(socket.SHUT_WR)
            return everything(sock)

    def counters(self, transport):
        return {name: sum(each[name] for each in self.all_stats()["services"] if each["transport"] == transport)
                for name in ("requests", "answered", "failed", "reply_too_long")}

    def fallbacks(self):
        return [each["name"] for each in self.all_stats()["fallbacks"] if each["name"].endswith("memory")]


def pieces(*lengths):
    return b"".join(DATA[100 * i:100 * i + length] for i, length in enumerate(lengths))


def ends(p, q):
    return DATA[:4] + DATA[100:100 + q]


def alone(folder):
    server = Server(folder, "256KiB")
    frames = server.all_stats()["frames_in_use"]
    for lengths in ((32000, 1, 1), (40000, 1, 1), (40000, 20000, 1), (60000, 1, 1), (1, 32000, 5000)):
        expect(f"by a datagram {lengths}", server.by_udp("pieces", *lengths), b"FAIL")
        expect("  over tcp", server.by_tcp("pieces", *lengths) == pieces(*lengths), True)
    for lengths in ((20000, 20000, 17000), (4, 4, 4)):
        expect(f"of one length of frames {lengths}", server.by_udp("pieces", *lengths) == pieces(*lengths), True)
    expect("results that leave no room for text", server.by_udp("kept", 32000, 5000, 4), b"FAIL")
    expect("  over tcp", server.by_tcp("kept", 32000, 5000, 4) == ends(4, 4), True)
    expect("  and such that do", server.by_udp("kept", 32000, 20000, 20000) == ends(4, 20000), True)
    expect("counted", (server.counters("udp"), server.counters("tcp")["failed"]), ({"requests": 9, "answered": 3, "failed": 6, "reply_too_long": 0}, 0))
    expect("nobody is said to have waited for others", server.fallbacks(), ["too-little-memory"])
    expect("no frame is held", server.all_stats()["frames_in_use"], frames)
    expect("ends", server.stop(), 0)
    expect("standard error says what is to be done", [line for line in server.said if "too-little-memory" in line], [
        "fallback too-little-memory (1x): a request failed that wants more memory than there is, whatever others give back: the results of a reply to a "
        "datagram lie there together, and each length of them takes 128 KiB; --memory gives more\n"])


def beside_kept_blocks(folder):
    """Blocks that are only kept yield, so that nobody has to wait for them."""
    (folder / "main.head").write_bytes(bytes(4096))
    server = Server(folder, "256KiB", CACHED, "--file", f"heads={folder / 'main.head'}")
    for lengths in ((60000, 20000, 10000), (40000, 6000, 20000)):
        expect(f"beside blocks that are kept {lengths}", server.by_udp("pieces", *lengths), b"FAIL")
        expect("  over tcp", server.by_tcp("pieces", *lengths) == pieces(*lengths), True)
    expect("  and what finds room", server.by_udp("pieces", 40000, 4, 4) == pieces(40000, 4, 4), True)
    expect("nobody is said to have waited for others", server.fallbacks(), ["too-little-memory"])
    expect("ends", server.stop(), 0)


def at_once(folder):
    """Requests that have to wait for one another get their replies, and those that nobody can help are told."""
    server = Server(folder, "256KiB")
    with contextlib.ExitStack() as stack:
        clients = [(stack.enter_context(server.client("pieces")), lengths) for lengths in 16 * [(20000, 20000, 17000), (40000, 20000, 1), (17000, 20000, 20000)]]
        for round_ in range(8):
            for sock, lengths in clients:
                sock.send(struct.pack("!III", *lengths))
            wrong = [lengths for sock, lengths in clients if sock.recv(1 << 16) != (b"FAIL" if 1 in lengths else pieces(*lengths))]
            expect(f"round {round_}: each gets its reply", wrong, [])
    expect("some have waited", server.fallbacks(), lambda names: sorted(names) == ["short-of-memory", "too-little-memory"])
    expect("ends", server.stop(), 0)


def one_after_the_other(folder):
    """Those of which each has what the other one wants, and keeps nothing while it waits: beginning anew side by side, they would have it again and again."""
    server = Server(folder, "256KiB")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client("kept")) for _ in range(6)]
        for number in (2, 3, 6):
            with halted(server.process):
                for sock in clients[:number]:
                    sock.send(struct.pack("!III", 60000, 60000, 4))
            expect(f"{number} at once: each gets its reply", [answer(sock) for sock in clients[:number]], [ends(4, 4)] * number)
    expect("they have waited for each other", server.fallbacks(), ["short-of-memory"])
    expect("counted", server.counters("udp"), {"requests": 11, "answered": 11, "failed": 0, "reply_too_long": 0})
    expect("ends", server.stop(), 0)


# A reply longer than a socket takes of one whose client takes nothing: until then its frame is nobody else's.
SLOW = """
files rows = "*.blob" { immutable }
chain chunk(f: file rows, n: u32) -> bytes(max 64KiB) { step s(b: block at 0 for n in f) { return b } }
service lines on tcp 7101 via uring {
  request { n: u32be }
  on request {
    let p = chunk(rows["main.blob"], request.n) else fail not_found
    reply""" + " p" * 50 + """
    reply""" + " p" * 50 + """
  }
}
"""
SLOW_REPLY = 100 * 60000


class Slow(daemon.Server):
    FILE = "rows", "main.blob"


def calls_beside_replies(folder):
    """A call over the control socket waits for memory that replies lie in, and no longer than these can give any back."""
    (folder / "app.chain").write_text(SLOW)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
    server = Slow(folder, "--memory", "256KiB", "--timeout", "600000")

    def tries():
        return sum(each["count"] for each in server.all_stats()["fallbacks"] if each["name"] == "short-of-memory")
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.stuck(struct.pack("!I", 60000))) for _ in range(4)]
        server.wait_for("replies lie in all of the memory", lambda stats: stats["frames_in_use"] == 4)
        with ask(server) as first:
            until("a call waits for some", tries)
            expect("it has no answer", select.select([first], [], [], 0)[0], [])
            expect("a client takes its reply", len(receive(slow[0], SLOW_REPLY)), SLOW_REPLY)
            expect("  and the call ends", json.loads(first.makefile().readline())["outcome"], "ok")
        slow.append(stack.enter_context(server.stuck(struct.pack("!I", 60000))))
        before = tries()
        with ask(server) as second:
            until("another one waits", lambda: tries() > before)
            server.process.send_signal(signal.SIGTERM)
            expect("it is told when the replies are given up", json.loads(second.makefile().readline())["outcome"], "no_memory")
        expect("ends", server.process.wait(60), 0)


@contextlib.contextmanager
def ask(server):
    """A call as long as the replies' results."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(str(server.path))
        control.sendall(json.dumps({"chain": "chunk", "args": {"n": 60000}}).encode() + b"\n")
        yield control


def answer(sock):
    try:
        return sock.recv(1 << 16)
    except TimeoutError:
        return b"none"


def with_more(folder):
    server = Server(folder, "512KiB")
    for lengths in ((32000, 1, 1), (40000, 20000, 1), (60000, 1, 1)):
        expect(f"with 512 KiB {lengths}", server.by_udp("pieces", *lengths) == pieces(*lengths), True)
    expect("  results and text", server.by_udp("kept", 32000, 5000, 4) == ends(4, 4), True)
    expect("nobody was short", server.fallbacks(), [])
    expect("ends", server.stop(), 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "main.blob").write_bytes(DATA)
        alone(folder)
        beside_kept_blocks(folder)
        at_once(folder)
        one_after_the_other(folder)
        with_more(folder)
        calls_beside_replies(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
