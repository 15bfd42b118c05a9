#!/usr/bin/python3
"""Values that are longer than one read, which lie in pieces: std/memcached.chain and std/kv.chain give them whole, and where a
piece cannot be read they end the connection instead of putting an error where the client waits for the value.
The interpreter is the distribution's, as services_memcached has its packages."""
import contextlib
import hashlib
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from daemon import Daemon
from memcached import of_library
from runs import BUILD, ROOT, expect
from store_lines import escaped

SEED = 20331
PIECE = 61440
SHORT = 64000  # values up to this are read at once
DAMAGED = b"damaged"
LIBRARY = ROOT / "stdlib-chains"


def items(rng):
    sizes = [0, 1000, SHORT, SHORT + 1, 80000, 2 * PIECE, 2 * PIECE + 1, 1 << 20, 16 << 20]
    held = {b"value%d" % size: rng.randbytes(size) for size in sizes}
    return held | {DAMAGED: rng.randbytes(80000), b"damaged long": rng.randbytes(6 * PIECE)}


def make_store(path, held):
    text = b"".join(b"%s\t%s\n" % (key, escaped(value)) for key, value in held.items())
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"], input=text, check=True, stdout=subprocess.DEVNULL)
    data = bytearray(path.read_bytes())
    for key in (DAMAGED, b"damaged long"):
        data[data.index(held[key][-100:])] ^= 1
    path.write_bytes(data)


class Server(Daemon):
    def __init__(self, artifact, store, chain):
        super().__init__(artifact, "--bind", "127.0.0.1", "--port", f"{chain}=0", file=("values", store))
        self.chain = chain

    def tcp(self):
        return socket.create_connection(("127.0.0.1", self.ports[self.chain, "tcp"]), timeout=60)

    def udp(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", self.ports[self.chain, "udp"]))
        return sock

    def service(self, transport):
        return next(one for one in self.all_stats()["services"] if (one["name"], one["transport"]) == (self.chain, transport))

    def wait_for(self, transport, counter, value):
        end = time.monotonic() + 60
        while (now := self.service(transport)[counter]) != value and time.monotonic() < end:
            time.sleep(0.02)
        expect(f"{counter} by {transport}", now, value)


def told(what, got, want):
    """Of long bytes only what they are is printed."""
    expect(what, (len(got), hashlib.sha256(got).hexdigest()), (len(want), hashlib.sha256(want).hexdigest()))


def all_of(sock, requests):
    """What comes back to them until the server closes."""
    sender = threading.Thread(target=sock.sendall, args=(requests,))
    sender.start()
    data = bytearray()
    try:
        while got := sock.recv(1 << 20):
            data += got
    except ConnectionResetError:
        pass
    sender.join()
    sock.close()
    return bytes(data)


def got(key, value):
    return b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value)


def whole_values(server, held):
    good = {key: value for key, value in held.items() if not key.startswith(DAMAGED)}
    requests, replies = b"", b""
    for key, value in good.items():
        requests += b"get %s\r\nmg %s v s\r\nmg %s s\r\n" % (key, key, key)
        replies += got(key, value) + b"END\r\n" + b"VA %d s%d\r\n%s\r\nHD s%d\r\n" % (len(value), len(value), value, len(value))
    told("each value by get and mg, in one go", all_of(server.tcp(), requests + b"quit\r\n"), replies)
    keys = list(good) + [b"nothing"] + list(good)[:-1]
    told("many in one request", all_of(server.tcp(), b"get %s\r\nquit\r\n" % b" ".join(keys)),
         b"".join(got(key, good[key]) for key in keys if key in good) + b"END\r\n")
    with server.tcp() as slow, server.tcp() as other:
        slow.sendall(b"get value%d\r\n" % (16 << 20))
        begin = slow.recv(1000)
        other.sendall(b"get value1000\r\n")
        expect("others are answered while one takes nothing", other.recv(1 << 16, socket.MSG_PEEK) != b"", True)
        slow.sendall(b"quit\r\n")
        told("who takes a long value late gets it whole", begin + all_of(slow, b""), got(b"value%d" % (16 << 20), good[b"value%d" % (16 << 20)]) + b"END\r\n")


def torn_values(server, held):
    before = server.service("tcp")
    for request, begin in [(b"get value1000 damaged value1000\r\n", got(b"value1000", held[b"value1000"]) + b"VALUE damaged 0 80000\r\n"),
                           (b"mg damaged v\r\n", b"VA 80000\r\n")]:
        told(f"a piece that is not as it was ends the connection: {request!r}", all_of(server.tcp(), request + b"version\r\n"), begin + held[DAMAGED][:PIECE])
    after = server.service("tcp")
    expect("counted as failed", after["failed"] - before["failed"], 2)
    told("what of it needs no piece is told", all_of(server.tcp(), b"mg damaged s\r\nquit\r\n"), b"HD s80000\r\n")


def ask(sock, request):
    sock.send(struct.pack("!HHHH", 9, 0, 1, 0) + request)


def reply(sock):
    parts, count = {}, 1
    while len(parts) < count:
        data = sock.recv(1 << 16)
        _, at, count, _ = struct.unpack("!HHHH", data[:8])
        parts[at] = data[8:]
    return b"".join(parts[at] for at in range(count))


def datagrams(sock, request):
    ask(sock, request)
    return reply(sock)


def by_datagrams(server, held):
    error = b"SERVER_ERROR not answered: unreadable store, overload, or a reply too long for UDP (ask over TCP)\r\n"
    with server.udp() as sock:
        told("a value of two pieces in datagrams", datagrams(sock, b"get value80000\r\n"), got(b"value80000", held[b"value80000"]) + b"END\r\n")
        told("one that is more than they hold", datagrams(sock, b"get value%d\r\n" % (1 << 20)), error)
        told("one of which a piece is not as it was", datagrams(sock, b"get value1000 damaged\r\n"), error)
        told("  and what follows it in the datagram", datagrams(sock, b"get damaged\r\nmn\r\n") + sock.recv(1 << 16)[8:], error + b"MN\r\n")
        told("the socket goes on", datagrams(sock, b"mg value1000 s\r\n"), b"HD s1000\r\n")
    expect("of these one was too long, and three failed", server.service("udp")["failed"], 3)
    expect("  as counted", server.service("udp")["reply_too_long"], 1)


def in_little_memory(folder, held):
    """Replies to datagrams that want more memory together than there is: none waits for another one for ever, and none for what is too long anyway."""
    little = of_library(folder, "memcached", "-D", "INDEX=1MiB", "-D", "LEVELS=2")
    server = Daemon(little, "--bind", "127.0.0.1", "--port", "memcached=0", "--memory", "256KiB", "--timeout", 120000, file=("values", "main.store"))
    long = b"value%d" % (1 << 20)
    with contextlib.ExitStack() as sockets:
        asking = []
        for key in 16 * [b"value80000", long, b"value80000"]:
            sock = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.settimeout(30)
            sock.connect(("127.0.0.1", server.ports["memcached", "udp"]))
            asking.append((sock, key))
        want = {b"value80000": got(b"value80000", held[b"value80000"]) + b"END\r\n", long: b"SERVER_ERROR not answered: unreadable store, overload, or a reply too long for UDP (ask over TCP)\r\n"}
        for round_ in range(8):
            for sock, key in asking:
                ask(sock, b"get %s\r\n" % key)
            expect(f"round {round_}: each has its whole reply", [key for sock, key in asking if reply(sock) != want[key]], [])
    stats = server.all_stats()
    expect("memory was short", [each["name"] for each in stats["fallbacks"] if each["name"] == "short-of-memory"], ["short-of-memory"])
    expect("too long were those that are", [each["reply_too_long"] for each in stats["services"] if each["transport"] == "udp"], [8 * 16])
    expect("ends", server.stop(), 0)


TORN_TWICE = """files values = "*" { immutable }
chain part(of: file values, at: u64) -> bytes(max 8) { step piece(bytes: block at at for 8) { return bytes } }
service torn on udp 9100 via uring {
  request { first: u64be  second: u64be }
  on request {
    let first = part(values[""], request.first) else fail not_found
    reply "begun " first
    let second = part(values[""], request.second) else fail close
    reply second
  }
  on failure {
    reply "failed "
    let why = part(values[""], 1024) else fail close
    reply why
  }
}
"""


def torn_twice(folder):
    """By datagrams, where what `on failure` says is not whole either: nothing of the two is sent."""
    spec, file = folder / "torn.chain", folder / "torn.values"
    spec.write_text(TORN_TWICE)
    file.write_bytes(b"01234567")
    subprocess.run([BUILD / "bin" / "chainc", spec, "-o", folder / "torn.o"], check=True)
    server = Server(folder / "torn.o", file, "torn")
    try:
        with server.udp() as sock:
            # At the end one that is answered: whatever the others are sent is there before.
            for number, begin in enumerate([0, 1024], 1):
                sock.send(struct.pack("!QQ", begin, 1024))
                server.wait_for("udp", "failed", number)
            sock.send(bytes(16))
            expect("nothing of them is sent", sock.recv(1 << 16), b"begun 0123456701234567")
        expect("  which is counted", server.service("udp")["unanswered"], 2)
    finally:
        expect("torn ends well", server.stop(), 0)


def binary(server, held):
    good = [b"value1000\0\0\0", b"value80000\0\0", b"value1048576"]
    found = b"".join(struct.pack("!I", len(held[key.rstrip(b"\0")])) + held[key.rstrip(b"\0")] for key in good)
    torn = b"damaged\0\0\0\0\0"
    told("std/kv.chain, and the end where a piece is not as it was", all_of(server.tcp(), b"".join(good) + torn + good[0]),
         found + struct.pack("!I", 80000) + held[DAMAGED][:PIECE])


def overwritten(folder):
    """A store that is written over in place while a client takes a value of it: never a value of both."""
    key, size = b"key", 16 << 20
    for name in ("a", "b"):
        subprocess.run([BUILD / "bin" / "chainio", "store", "build", folder / f"{name}.store", "--from", "-"],
                       input=key + b"\t" + name.encode() * size + b"\n", check=True, stdout=subprocess.DEVNULL)
    server = Server(of_library(folder, "memcached"), folder / "a.store", "memcached")
    begin = b"VALUE key 0 %d\r\n" % size
    with server.tcp() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"get key\r\n")
        data = sock.recv(len(begin), socket.MSG_WAITALL)
        with open(folder / "a.store", "r+b") as file:
            file.write((folder / "b.store").read_bytes())
        data += all_of(sock, b"quit\r\n")
    got_all = begin + b"a" * size + b"\r\nEND\r\n"
    expect("a value of the store before, as far as it goes", got_all.startswith(data), True)
    expect("  which ends with the connection", len(data) < len(got_all), True)
    told("the value behind it", all_of(server.tcp(), b"get key\r\nquit\r\n"), begin + b"b" * size + b"\r\nEND\r\n")
    expect("ends well", server.stop(), 0)


def by_hand(folder, store):
    artifact = folder / "store.o"
    subprocess.run([BUILD / "bin" / "chainc", LIBRARY / "std" / "store.chain", "-I", LIBRARY, "-o", artifact], check=True)
    call = [BUILD / "bin" / "chainio", "call", artifact]
    ended = subprocess.run([*call, "find", "--file", f"store={store}", "--arg", "key=value80000"], capture_output=True, text=True)
    expect("`find` says that the value is longer than one read", (ended.returncode != 0, "overflow" in ended.stdout + ended.stderr), (True, True))


def main():
    rng = random.Random(SEED)
    held = items(rng)
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        folder = pathlib.Path(name)
        make_store(folder / "main.store", held)
        padded = {key.ljust(12, b"\0"): value for key, value in held.items() if len(key) <= 12}
        make_store(folder / "padded.store", padded | {DAMAGED: held[DAMAGED], b"damaged long": held[b"damaged long"]})
        for chain, params, store, tests in [("memcached", (), "main.store", (whole_values, torn_values, by_datagrams)), ("kv", ("-D", "KEY=12"), "padded.store", (binary,))]:
            server = Server(of_library(folder, chain, *params), folder / store, chain)
            try:
                for test in tests:
                    test(server, held)
            finally:
                expect(f"{chain} ends well", server.stop(), 0)
        in_little_memory(folder, held)
        torn_twice(folder)
        by_hand(folder, folder / "main.store")
        overwritten(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
