#!/usr/bin/python3
"""std/memcached.chain over UDP, on a veth pair and on loopback: memcached's own datagrams for the same requests, byte for byte; unmodified tools.
The interpreter is the distribution's, as services_memcached has its packages."""
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import fuse_file
import netns
import runs
import started
from pymemcache.client.base import Client
from daemon import Daemon
from memcached import items, of_library, store_of
from runs import expect

OURS, THEIRS = 11211, 11212
ADDRESS = "10.9.0.2"
SEED = 20266


def header(number, at=0, count=1):
    return struct.pack("!HHHH", number, at, count, 0)


class Asker:
    """Sends a request and `version` behind it, whose answer says that nothing more will come: both servers answer in order.
    It goes along with several commands, which other datagrams may come between."""
    def __init__(self, namespace, port, address=ADDRESS):
        self.sock = netns.udp(namespace, family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        netns.take_much(self.sock)
        self.sock.connect((address, port))

    def datagrams(self, request, head=header(7), together=False):
        last = b"version\r\n"
        if together:
            self.sock.send(head + request + last)
        else:
            self.sock.send(head + request)
            self.sock.send(header(8) + last)
        got = []
        while not (data := self.sock.recv(1 << 16))[8:].startswith(b"VERSION "):
            got.append(data)
        return got

    def replies(self, request):
        return b"".join(data[8:] for data in self.datagrams(request))


def start_ours(folder, pair, store, options, definitions=()):
    return Daemon(of_library(folder, "memcached", *definitions), *options, prefix=pair.command(pair.there), file=("values", store))


def start_theirs(pair, held):
    process = started.start(pair.command(pair.there, "memcached", "-u", "root", "-p", THEIRS, "-U", THEIRS, "-m", "512", "-I", "1m", "-t", "1"))

    def there():
        with netns.inside(pair.here):
            try:
                return socket.create_connection((ADDRESS, THEIRS), timeout=netns.PATIENCE)
            except ConnectionRefusedError:
                return None
    found = []
    netns.until("memcached answers", lambda: found.append(there()) or found[-1] is not None)
    with found[-1] as sock:
        sets = b"".join(b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(value), value) for key, (flags, value) in held.items())
        sender = threading.Thread(target=sock.sendall, args=(sets,))
        sender.start()
        left = len(b"STORED\r\n") * len(held)
        while left > 0:
            left -= len(sock.recv(1 << 16))
        sender.join()
    return process


def same_datagrams(ours, theirs, held, rng):
    for request in [
        b"get a\r\n", b"get nothing\r\n", b"get long\r\n", b"get empty\r\n", b"get a\n", b"get\r\n", b"\r\n", b"bogus\r\n", b"get " + b"k" * 250 + b"\r\n",
        b"get " + b"k" * 251 + b"\r\n", b"mg a\r\n", b"mg a v f k s t O123 \r\n", b"mg nothing v k O9\r\n", b"mg nothing q v\r\n", b"mg long v s\r\n",
        b"mg YQ== b k v\r\n", b"mg YQ= b k v\r\n", b"mg bm90IGhlcmU= b k\r\n", b"mg a v N30 R30 C1 D1 F1 I J1 MI\r\n", b"mg a v Nx\r\n",
        b"mn\r\n", b"mg a v q\r\nmg nothing q\r\nmn\r\n", b"get a\r\nget a\r\nbogus\r\n", b"",
        b"get\ta\r\n", b"gets\ta\r\n", b"mg\ta v\r\n", b"version\tx\r\n", b"mn\tx\r\n", b"set\ta 0 0 2\r\nmn\r\n", b"quit\ta\r\nmn\r\n", b"mg a q 0 q\r\n", b"mg a q q 0\r\n",
        b"touch a\r\n", b"touch a x\r\n", b"delete\r\n", b"delete a b\r\n", b"incr a\r\n", b"incr a -1\r\n", b"decr a 1x\r\n", b"incr a x noreply\r\n", b"gat\r\n", b"gat x a\r\n", b"gat 1\r\n",
        b"gat 1 " + b"k" * 251 + b"\r\n", b"md\r\n", b"md a z\r\n", b"ma a MX\r\n", b"flush_all x\r\n", b"flush_all 1 2 3\r\n",
        *(b"mg %s O%s\r\n" % (key, b"x" * length) for key in (b"a", b"nothing", b"a q") for length in (30, 31, 32, 33)),
    ]:
        several = request.count(b"\n") > 1
        expect(f"as memcached answers: {request[:40]!r}", ours.datagrams(request, together=several), theirs.datagrams(request, together=several))
    for head in (header(7, 3, 1), header(0xffff), header(7, 0, 2), header(7, 0, 0), b"\0\1\0", b""):
        expect(f"a frame header {head!r}", ours.datagrams(b"get a\r\n" if len(head) == 8 else b"", head),
               theirs.datagrams(b"get a\r\n" if len(head) == 8 else b"", head))
    for length in range(1340, 1420):
        key = b"length%d" % length
        expect(f"a value of {length} bytes", ours.datagrams(b"get %s\r\n" % key), theirs.datagrams(b"get %s\r\n" % key))
    keys = [*held, *(b"nothing%d" % i for i in range(300))]
    wrong = []
    for number in range(1500):
        flags = rng.sample((b"v", b"k", b"f", b"s", b"t", b"O%d" % number), rng.randrange(7))
        request = rng.choice((b"get %s\r\n" % rng.choice(keys), b"mg %s\r\n" % b" ".join([rng.choice(keys), *flags])))
        head = header(rng.randrange(1 << 16))
        if ours.datagrams(request, head) != theirs.datagrams(request, head):
            wrong.append(request)
    expect("1500 requests", wrong, [])
    # memcached numbers the datagrams of each key's value for themselves, and we those of the whole reply, as the protocol says.
    for _ in range(50):
        request = b"get %s\r\n" % b" ".join(rng.choices([key for key in keys if key != b"long"], k=10))
        expect("several keys", ours.replies(request) == theirs.replies(request), True)


def own_answers(ours, held):
    got = ours.datagrams(b"get a long a\r\n")
    expect("a reply's datagrams are numbered", [struct.unpack("!HHHH", data[:8]) for data in got], [(7, i, len(got), 0) for i in range(47)])
    many = [b"kilo%02d" % number for number in range(80)]
    got = ours.datagrams(b"get %s\r\n" % b" ".join(many))
    expect("so are those of many values", [struct.unpack("!HHHH", data[:8]) for data in got], [(7, i, len(got), 0) for i in range(59)])
    expect("which are whole", b"".join(data[8:] for data in got) == b"".join(b"VALUE %s 7 1000\r\n%s\r\n" % (key, held[key][1]) for key in many) + b"END\r\n", True)
    expect("gets", ours.replies(b"gets a\r\n"), lambda text: re.fullmatch(rb"VALUE a 5 3 \d+\r\nabc\r\nEND\r\n", text) is not None)
    read_only, found = b"CLIENT_ERROR this store is read only\r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n"
    for request, want in ((b"set a 0 0 6\r\nget a \r\nget a\r\n", read_only + found), (b"set a 0 0 6 noreply\r\nget a \r\nget a\r\n", found)):
        expect(f"what would write, and what is behind it: {request}", b"".join(data[8:] for data in ours.datagrams(request, together=True)), want)
    for request in (b"set a 0 0 6\r\n", b"set a 0 0 60\r\nget a\r\n"):
        expect(f"its data end with the datagram, and its refusal is not kept: {request}", [ours.replies(request) for _ in range(2)], [read_only] * 2)
    # memcached takes the next datagram for the rest of such a line, or does not, as they come: it cannot be asked for the same.
    for rest in (b"get a", b"get a\r", b"junk", b"mn", b" ", b"mg a v", b"set a 0 0 2", b"delete a", b"quit", b"get " + b"k" * 251):
        expect(f"what has no line feed is no line: {rest[:40]}", (ours.datagrams(rest), ours.replies(b"mn\r\n" + rest)), ([], b"MN\r\n"))
    for request in (b"quit\r\nget a\r\n", b"quit\r\n"):
        expect(f"{request} has no answer", ours.datagrams(request), [])


def python_client(pair, held):
    """pymemcache, over tcp at the same port."""
    with netns.inside(pair.here):
        client = Client((ADDRESS, OURS), timeout=netns.PATIENCE)
        expect("pymemcache over veth", (client.get("a"), client.get("long"), client.get("nothing", "none")), (held[b"a"][1], held[b"long"][1], "none"))
        expect("  many", client.get_many([*held, b"nothing"]) == {key: value for key, (_, value) in held.items()}, True)
        client.close()


def tools(folder, pair, ours):
    """libmemcached's tools only write over UDP, and wait for no answer: their frames are understood and the writes refused."""
    (folder / "a").write_text("other")
    done = subprocess.run(pair.command(pair.here, "memccp", "--udp", f"--servers={ADDRESS}:{OURS}", folder / "a"), capture_output=True, timeout=60)
    expect("memccp --udp", done.returncode, 0)
    expect("and nothing was written", ours.replies(b"get a\r\n"), b"VALUE a 5 3\r\nabc\r\nEND\r\n")
    done = subprocess.run(pair.command(pair.here, "memccat", f"--servers={ADDRESS}:{OURS}", "a"), capture_output=True, timeout=60)
    expect("memccat, over tcp at the same port", done.stdout, b"abc\n")


def cached_values(folder, pair, store, held):
    """Values in the cache of the index, each asked for twice at once. Nobody knows of a file of FUSE whether a read would wait, so that both
    requests read it: the cache takes one of the two blocks, and both are replied."""
    if why := fuse_file.why_not():
        return print(f"skipped: values that are cached, which two requests have to be reading at once: {why}")
    with fuse_file.fuse_file(folder / "slow.store", store.read_bytes(), lambda offset: 0), netns.udp(pair.here) as sock:
        server = start_ours(folder, pair, folder / "slow.store", ("--interface", "vb"), ("-D", "LEVELS=2"))
        sock.connect((ADDRESS, OURS))
        wrong = []
        for key, (flags, value) in held.items():
            if len(value) > 1000:
                continue
            for number in (1, 2):
                sock.send(header(number) + b"get %s\r\n" % key)
            item = b"VALUE %s %d %d\r\n%s\r\nEND\r\n" % (key, flags, len(value), value)
            if {sock.recv(1 << 16) for _ in (1, 2)} != {header(number) + item for number in (1, 2)}:
                wrong.append(key)
        expect("values that are cached, each asked for twice at once for the first time", wrong, [])
        expect("ends", server.stop(), 0)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    rng = random.Random(SEED)
    held = items(rng) | {b"length%d" % length: (3, rng.randbytes(length)) for length in range(1340, 1420)}
    held |= {b"kilo%02d" % number: (7, rng.randbytes(1000)) for number in range(80)}
    with tempfile.TemporaryDirectory() as name, netns.Pair() as pair:
        folder = pathlib.Path(name)
        store = store_of(folder, held)
        theirs = start_theirs(pair, held)
        try:
            for options in ((), ("--interface", "vb")):
                print("      " + (" ".join(options) or "by a socket"))
                # One request at a time, so that those of different datagrams end in the order in which they came.
                server = start_ours(folder, pair, store, ("--requests", 1, *options))
                ours = Asker(pair.here, OURS)
                same_datagrams(ours, Asker(pair.here, THEIRS), held, rng)
                expect("over IPv6", Asker(pair.here, OURS, "fd09::2").datagrams(b"get a\r\n"), [header(7) + b"VALUE a 5 3\r\nabc\r\nEND\r\n"])
                own_answers(ours, held)
                tools(folder, pair, ours)
                python_client(pair, held)
                if not options:
                    print("      over 127.0.0.1")
                    same_datagrams(*(Asker(pair.there, port, "127.0.0.1") for port in (OURS, THEIRS)), held, rng)
                expect("ends", server.stop(), 0)
            cached_values(folder, pair, store, held)
            # Last, as it answers no further ones as before then.
            expect("memcached's answer to quit", Asker(pair.here, THEIRS).datagrams(b"quit\r\n"), [header(7, 0, 0)])
        finally:
            theirs.terminate()
            theirs.wait(timeout=60)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
