#!/usr/bin/env python3
"""A store that is replaced, and written to in place, under clients that never stop: by tcp, by datagrams over io_uring and by AF_XDP every reply is a whole
value of before or after, or, in place, an error by name. In place the writing stops in the middle of values until each client has met that."""
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from daemon import Daemon
from memcached import of_library
from runs import BUILD, expect

PORT, ADDRESS = 11211, "10.9.0.2"
KEYS, VERSIONS, STOPS, SEED = 120, 4, 8, 20282
FAILED = b"SERVER_ERROR not answered: unreadable store, overload, or a reply too long for UDP (ask over TCP)\r\n"
SIZES = (48, 100, 700, 3000, 9000, 30000)


def value(number, version):
    """Every 16 bytes of it say whose and of which version they are; of one length in all versions, so that the store's index stays."""
    return (b"%06d.%08d." % (number, version)) * (SIZES[number % len(SIZES)] // 16)


def right(number, version):
    data = value(number, version)
    return b"VALUE key%d 0 %d\r\n%s\r\nEND\r\n" % (number, len(data), data)


def build(folder):
    for version in range(VERSIONS):
        lines = b"".join(b"key%d\t%s\n" % (number, value(number, version)) for number in range(KEYS))
        subprocess.run([BUILD / "bin" / "chainio", "store", "build", folder / f"{version}.store", "--from", "-"], input=lines, check=True, stdout=subprocess.DEVNULL)


class Runtime(Daemon):
    FILE = "values", "main.store"

    def __init__(self, folder, pair):
        super().__init__(of_library(folder, "memcached"), "--interface", "vb", prefix=pair.command(pair.there))

    def invalidate(self):
        """Returns once the file under the name is the one that is read."""
        subprocess.run([BUILD / "bin" / "chainio", "control", self.path, "invalidate"], check=True, stdout=subprocess.DEVNULL)


class Datagrams:
    def __init__(self, namespace):
        self.sock = netns.udp(namespace)
        netns.take_much(self.sock)
        self.sock.connect((ADDRESS, PORT))
        self.number = 0

    def ask(self, request):
        self.number = (self.number + 1) % 65536
        self.sock.send(struct.pack("!HHHH", self.number, 0, 1, 0) + request)
        parts, count = {}, 1
        while len(parts) < count:
            data = self.sock.recv(1 << 16)
            got, at, count, _ = struct.unpack("!HHHH", data[:8])
            assert got == self.number, "a reply to another request"
            parts[at] = data[8:]
        return b"".join(parts[at] for at in range(count))


class Stream:
    def __init__(self, namespace):
        with netns.inside(namespace):
            self.sock = socket.create_connection((ADDRESS, PORT), timeout=netns.PATIENCE)

    def ask(self, request):
        self.sock.sendall(request)
        data = b""
        while not data.endswith(b"END\r\n") and not data.endswith(FAILED):
            more = self.sock.recv(1 << 16)
            assert more, "the connection was closed"
            data += more
        return data


class Client(threading.Thread):
    """Asks until it is told to stop. What may come is what `truth` allows between request and reply."""

    def __init__(self, name, way, truth):
        super().__init__()
        self.name, self.way, self.truth, self.rng = name, way, truth, random.Random(name)
        self.replies, self.errors, self.wrong = 0, 0, []

    def run(self):
        try:
            while not self.truth.over and len(self.wrong) < 3:
                self.turn()
        except Exception as error:  # said at the end, and by whom
            self.wrong.append(repr(error))
        self.way.sock.close()

    def turn(self):
        number = self.truth.focus if self.rng.random() < 0.3 else self.rng.randrange(KEYS)
        before = self.truth.allowed
        got = self.way.ask(b"get key%d\r\n" % number)
        after = self.truth.allowed
        if got == FAILED:
            self.errors += 1
            if None not in before | after:
                self.wrong.append(f"key{number}: an error while nothing is written")
        elif got not in [right(number, version) for version in before | after if version is not None]:
            self.wrong.append(f"key{number} under {before | after}: {got[:60]!r} … {got[-60:]!r} ({len(got)})")
        self.replies += 1


class Truth:
    """The versions whose values may come; None: an error, too."""
    allowed, focus, over = frozenset({0}), 0, False


def joined(clients, truth):
    """Ends them. What they have found wrong is said also where the test waits for what they no longer do."""
    truth.over = True
    for client in clients:
        client.join()
        if client.wrong:
            print(f"      {client.name}: {client.wrong}", flush=True)


def answered(clients, count, errors=0):
    """Until each client has had so many replies more, and so many errors among them."""
    goals = [(each, each.replies + count, each.errors + errors) for each in clients]
    netns.until("every client goes on", lambda: any(each.wrong for each in clients) or all(each.replies >= replies and each.errors >= failed for each, replies, failed in goals))


def replaced(folder, runtime, clients, truth, version, then):
    """By a rename: after `invalidate` nothing old comes any more, and never an error."""
    shutil.copy(folder / f"{then}.store", folder / "new")
    truth.allowed = frozenset({version, then})
    os.rename(folder / "new", folder / "main.store")
    runtime.invalidate()
    truth.allowed = frozenset({then})
    answered(clients, 100)


def in_place(folder, runtime, clients, truth, version, then, rng):
    """Piece by piece; each piece ends in the middle of a value of 700 bytes or more, which is an error for everybody until the rest of it is written."""
    new = (folder / f"{then}.store").read_bytes()
    places = {number: new.index(value(number, then)) for number in range(KEYS) if number % len(SIZES) >= 2}
    stops = sorted((places[number] + len(value(number, then)) // 32 * 16, number) for number in rng.sample(sorted(places), STOPS))
    truth.allowed = frozenset({version, then, None})
    at = 0
    with open(folder / "main.store", "r+b", buffering=0) as file:
        for end, number in [*stops, (len(new), None)]:
            while at < end:
                at += file.write(new[at:min(end, at + 10_000)])
            if number is not None:
                truth.focus = number
                runtime.invalidate()  # what the driver and the cache have is the value of before
                answered(clients, 20, errors=2)
    runtime.invalidate()
    truth.allowed = frozenset({then})
    answered(clients, 100)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair(mtu=1500) as pair:
        folder, rng, truth = pathlib.Path(name), random.Random(SEED), Truth()
        build(folder)
        shutil.copy(folder / "0.store", folder / "main.store")
        netns.ip("link", "set", "dev", "va", "xdp", "obj", netns.passing(folder), "sec", "xdp.frags", namespace=pair.here)
        runtime = Runtime(folder, pair)
        # From the server's own namespace datagrams come by the socket, and not by the interface.
        clients = [Client("tcp via uring", Stream(pair.here), truth), Client("udp via uring", Datagrams(pair.there), truth), Client("udp via xdp", Datagrams(pair.here), truth)]
        for client in clients:
            client.start()
        version = 0
        try:
            for turn in range(6):
                then = (version + 1) % VERSIONS
                if turn % 2 == 0:
                    replaced(folder, runtime, clients, truth, version, then)
                else:
                    in_place(folder, runtime, clients, truth, version, then, rng)
                version = then
            # An interface is opened anew after each new edition; meanwhile sockets serve.
            netns.until("datagrams come by the interface again, and hot ones from the driver", lambda: all(ways(runtime.all_stats())))
        finally:
            joined(clients, truth)
        for client in clients:
            expect(f"{client.name}: {client.replies} replies, {client.errors} errors: none wrong", client.wrong, [])
            expect("  and values that are half written were met", client.errors, lambda n: n >= 3 * STOPS)
        expect("datagrams came by both ways, and hot ones from the driver", ways(runtime.all_stats()), (True, True, True))
        expect("it ends", runtime.stop(), 0)
    return runs.ended()


def ways(stats):
    """Whether datagrams came by AF_XDP, by the socket, and to the driver alone."""
    udp = next(each for each in stats["services"] if each["transport"] == "udp")
    by_interface = sum(each["received"] for each in stats["interfaces"])
    return by_interface > 0, udp["datagrams"] > by_interface, udp["cache"]["hits"] > 0


if __name__ == "__main__":
    raise SystemExit(main())
