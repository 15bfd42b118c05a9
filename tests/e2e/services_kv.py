#!/usr/bin/python3
"""std/kv.chain over tcp, over udp by a socket and by AF_XDP: what is there, what is not, what is of bad form, an item that the disk has lost bytes of.
The interpreter is the distribution's, as services_memcached has its packages."""
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from runs import BUILD, ROOT, expect
from services_cache import PassPair
from services_tcp import everything
from services_xdp import THERE, OnVeth as OnVethBefore
from store_lines import escaped

SEED = 20301
NOT_FOUND, FAILED = struct.pack("!I", 0xffffffff), struct.pack("!I", 0xfffffffe)
PART = 1400 - 12  # bytes of a reply in a datagram, behind the number, the datagram's own and how many there are
DAMAGED, NOTHING = b"the damaged item", b"no key of a store"[:16]
NUMBERS = 0, 1, 0xfffefdfcfbfaf9f8, (1 << 64) - 1


class OnVeth(OnVethBefore):
    ARTIFACT, FILE = "kv.o", ("values", "main.store")
    SERVICES, ENDPOINTS = ("kv",), 2

    def client(self, service="kv", address=THERE[0]):
        return super().client(service, address)

    def stats(self, service="kv"):
        return super().stats(service)

    def idle_frames(self):
        """Once everything has left: how many frames are in use beside those that are posted for receiving. The store's buckets stay in memory."""
        netns.until("everything has left", lambda: self.interface()["unanswered"] == self.interface()["frames_sending"] == 0)
        stats = self.all_stats()
        return stats["frames_in_use"] - stats["interfaces"][0]["frames_posted"]


def items(rng):
    """Values around each size at which a reply is one datagram more, and of other sizes."""
    edges = [PART * parts - 4 + more for parts in (1, 2, 3) for more in (-1, 0, 1)]
    sizes = [0, 1, 15, 16, 17, 100, 1000, *edges, 20000, 64000] + [rng.randrange(600) for _ in range(300)]
    return {b"key %012d" % number: rng.randbytes(size) for number, size in enumerate(sizes)}


def make_store(path, held, rng):
    """A store of them, and of one item whose value is not what it was when it was written."""
    damaged = rng.randbytes(700)
    text = b"".join(b"%s\t%s\n" % (key, escaped(value)) for key, value in (held | {DAMAGED: damaged}).items())
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"], input=text, check=True, stdout=subprocess.DEVNULL)
    data = bytearray(path.read_bytes())
    data[data.index(damaged) + 350] ^= 1
    path.write_bytes(data)


def found(value):
    return struct.pack("!I", len(value)) + value


def ask(sock, number, key):
    """The reply to a request, put together; None when its datagrams are not numbered as they have to be."""
    sock.send(struct.pack("!Q", number) + key)
    parts, count = {}, 1
    while len(parts) < count:
        data = sock.recv(1 << 16)
        got, at, count = struct.unpack("!QHH", data[:12])
        if got != number or at in parts or at >= count or len(data) > 1400:
            return None
        parts[at] = data[12:]
    reply = b"".join(parts[at] for at in range(count))
    return reply if count == max(1, -(-len(reply) // PART)) else None


def test_udp(server, held):
    before = server.stats()
    for address in THERE:
        sock = server.client(address=address)
        wrong = [key for key, value in held.items() for number in NUMBERS[:2] if ask(sock, number, key) != found(value)]
        expect(f"{len(held)} keys, each twice, by {address}", wrong, [])
        for number in NUMBERS:
            expect(f"no such key, request {number}", ask(sock, number, NOTHING), NOT_FOUND)
            expect("an item whose sum is wrong", ask(sock, number, DAMAGED), FAILED)
        expect("what follows a key does not count", ask(sock, 6, NOTHING + b"1"), NOT_FOUND)
        expect("a datagram that is longer than the buffers", ask(sock, 7, NOTHING * 1250), FAILED)
        for key in (b"", NOTHING[:1], NOTHING[:15]):
            expect(f"a request with {len(key)} bytes of a key", ask(sock, 8, key), FAILED)
        for short in (b"", struct.pack("!Q", 8)[:7]):
            sock.send(short)
        expect("what is shorter than a request's number is not answered", ask(sock, 9, NOTHING), NOT_FOUND)
        sock.close()
    after = server.stats()
    expect("counted", [after[name] - before[name] for name in ("malformed", "too_long", "unanswered", "vanished", "shed")], [2 * 6, 2, 2 * 2, 0, 0])


def test_tcp(server, held):
    """All keys at once, so that replies have to wait for each other; then half a key, which is no request."""
    keys = [*held, NOTHING, *held, DAMAGED, *held]
    answers = {NOTHING: NOT_FOUND, DAMAGED: FAILED} | {key: found(value) for key, value in held.items()}
    for address in THERE:
        with netns.inside(server.pair.here):
            sock = socket.create_connection((address, server.ports["kv", "tcp"]), timeout=netns.PATIENCE)
        sender = threading.Thread(target=lambda: (sock.sendall(b"".join(keys) + NOTHING[:15]), sock.shutdown(socket.SHUT_WR)))
        sender.start()
        got = everything(sock)
        sender.join()
        expect(f"{len(keys)} requests over tcp by {address}", got == b"".join(answers[key] for key in keys), True)
        sock.close()
    of_tcp = next(entry for entry in server.all_stats()["services"] if entry["transport"] == "tcp")
    expect("counted", [of_tcp[name] for name in ("malformed", "unanswered", "vanished")], [0, len(THERE), 0])


def test_driver(server, held):
    """What is kept in the driver has each request's own number; neither misses nor failures are wrong there."""
    key = next(key for key, value in held.items() if len(value) == 100)
    sock = server.client()
    server.control({"op": "invalidate"})  # what was kept may be too old before all is asked
    ask(sock, 0, key)
    asked, hits = server.stats()["requests"], server.stats()["cache"]["hits"]
    got = [ask(sock, number, key) for number in NUMBERS * 10]
    stats = server.stats()
    expect("by the driver", (got, stats["requests"] - asked, stats["cache"]["hits"] - hits), ([found(held[key])] * 40, 0, 40))
    asked = stats["requests"]
    expect("a failure comes from the store each time", ([ask(sock, number, DAMAGED) for number in NUMBERS], server.stats()["requests"] - asked),
           ([FAILED] * 4, 4))
    expect("no byte of a value was copied by the program", (server.stats()["payload_copies"], server.interface()["payload_copies"]), (0, 0))
    sock.close()


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    rng = random.Random(SEED)
    held = items(rng)
    with tempfile.TemporaryDirectory() as name, PassPair() as pair:
        folder = pathlib.Path(name)
        make_store(folder / "main.store", held, rng)
        library = ROOT / "stdlib-chains"
        subprocess.run([BUILD / "bin" / "chainc", library / "std" / "kv.chain", "-I", library, "-o", folder / "kv.o"], check=True)
        pair.program = netns.passing(folder)
        pair.link_pass()
        for options in ((), ("--interface", "vb"), ("--interface", "vb", "--xdp-attach", "generic", "--no-ring")):
            print("      " + (" ".join(options) or "by a socket"))
            server = OnVeth(folder, pair, *options)
            test_udp(server, held)
            test_tcp(server, held)
            if options:
                test_driver(server, held)
                held_by_cache = server.idle_frames()
                test_udp(server, held)
                expect("no frame is lost", server.idle_frames(), held_by_cache)
            expect("ends", server.stop(), 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
