#!/usr/bin/env python3
"""A spec's services over udp: by IPv4 and IPv6, several requests and several datagrams, what is of bad form or too long, overload, the end."""
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import fuse_file
import netns
import runs
from runs import BUILD, expect

SPEC = """
app kv { files rows = "*.rows" { immutable }  class fast { priority 0 }  class slow { priority 7 } }
chain row(file: file rows, number: u32, length: u32) in class fast -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 1000 for length in file) { return b }
}
service lines on udp 7001 via uring, tcp 7001 via uring in class fast {
  text Line { "row " number: int " " length: int " " times: int "\\n" }
  request udp { id: u32be  line: Line }
  request tcp { line: Line }
  on request {
    let v = row(rows["a.rows"], line.number as u32, line.length as u32) else fail not_found
    for i in range(0, line.times) max 64 { reply v "|" }
  }
  on datagram { reply request.id:u32be, datagram.number:u16be, datagram.count:u16be }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
service plain on udp 7002 via auto in class slow {
  request { number: u32be  length: u32be }
  on request { reply row(rows["a.rows"], request.number, request.length) }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
service marked on udp 7003 via uring in class slow {
  request { id: u16be  mark: u16be == 0x4b56  key: u32be }
  on request { reply "good" }
  on datagram { reply request.id:u16be }
  on malformed { reply "bad" }
}
"""
# What its datagrams begin with differs in length.
NUMBERED = """
app numbered { }
service numbered on udp 7001 via uring {
  request { id: u16be  times: u16be }
  on request { for i in range(0, request.times) max 1000 { reply "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/|" } }
  on datagram { reply request.id:dec, " ", datagram.number:dec, "/", datagram.count:dec, "\\n" }
  on failure { reply "sorry" }
}
"""
# Its requests have fields of varying size in front of their text rule.
VARIED = """
service varied on udp 7001 via uring {
  text Line { word: word(max 16) "\\n" }
  request { size: u8  name: bytes(size)  line: Line }
  on request { reply request.name, "=", request.line.word }
  on malformed { reply "bad" }
}
"""
PART = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/|"
ROWS = 500
HELD = 100  # in the test of overload reads of this row, and of those behind it, wait
DATA = b"".join((b"%09d " % number) * 100 for number in range(ROWS))
PATIENCE = netns.PATIENCE


class Server(daemon.Daemon):
    ARTIFACT = "app.bpf.o"
    SERVICES, ENDPOINTS = ("lines", "plain", "marked"), 4  # of the spec

    def __init__(self, folder, *options, bind="127.0.0.1", prefix=(), port=0):
        """Port 0: the kernel chooses each; None: those of the spec."""
        ports = [word for service in self.SERVICES for word in ("--port", f"{service}={port}")] if port is not None else []
        super().__init__(folder / self.ARTIFACT, "--bind", bind, *ports, *options, prefix=prefix)
        assert len(self.ports) == self.ENDPOINTS, self.said

    def client(self, service="lines", address="127.0.0.1"):
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        netns.take_much(made)
        made.settimeout(PATIENCE)
        made.connect((address, self.ports[service, "udp"]))
        return made

    def stats(self, service="lines"):
        return next(entry for entry in self.all_stats()["services"] if (entry["name"], entry["transport"]) == (service, "udp"))

    def wait_for(self, name, value, service="lines"):
        netns.until(f"{name} {value}", lambda: self.stats(service)[name] == value)


def reply(sock, number=None):
    """The datagrams of one reply, put together; each says which it is and how many there are."""
    parts, count, limit = {}, 1, 0
    while len(parts) < count:
        data = sock.recv(1 << 16)
        got, at, count = struct.unpack("!IHH", data[:8])
        if number is not None and got != number:
            return f"a reply to {got}"
        limit = max(limit, len(data))
        parts[at] = data[8:]
    return b"".join(parts[i] for i in range(count)), count, limit


def ask(sock, number, line):
    sock.send(struct.pack("!I", number) + line)
    return reply(sock, number)


def whole(length):
    count = -(-length // 1392)
    return count, min(1400, length + 8)


def loopbacks():
    """Its addresses, by protocol."""
    yield "IPv4", "127.0.0.1"
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
            six.bind(("::1", 0))
        yield "IPv6", "::1"
    except OSError as error:
        print(f"skipped: requests over IPv6: {error}")


def test_lines(server):
    addresses = list(loopbacks())
    for name, address in addresses:
        sock = server.client(address=address)
        expect(f"a request over {name}", ask(sock, 7, b"row 3 10 1\n"), (DATA[3000:3010] + b"|", 1, 19))
        sock.close()
    sock = server.client()
    for length, times in ((1391, 1), (1392, 1), (1390, 2), (5000, 1), (60000, 1), (1, 64), (1300, 64)):
        want = (DATA[1000:1000 + length] + b"|") * times
        expect(f"{times} times {length} bytes, cut where they have to be", ask(sock, 9, b"row 1 %d %d\n" % (length, times)), (want, *whole(len(want))))
    expect("more than 64 datagrams hold is a failure, not a part", ask(sock, 3, b"row 0 60000 2\n")[0], b"sorry")
    expect("a request of bad form", ask(sock, 4, b"rows 1\n")[0], b"bad")
    expect("a number of 20 digits", ask(sock, 4, b"row 00000000000000000003 10 1\n")[0], DATA[3000:3010] + b"|")
    expect("one of more, of which the first 20 are none", ask(sock, 4, b"row 000000000000000000003 10 1\n")[0], b"bad")
    expect("behind the end of the file", ask(sock, 5, b"row 9999 10 1\n")[0], b"sorry")
    expect("nothing to reply", sock.send(struct.pack("!I", 6) + b"row 1 10 0\n"), 15)
    sock.send(struct.pack("!I", 11) + b"row 1 2 1\nrow 2 3 1\nnonsense\nrow 4 5 1\n")
    expect("several requests in a datagram", [reply(sock, 11)[0] for _ in range(4)], [b"00|", b"000|", b"bad", b"00000|"])
    expect("a request without its end", ask(sock, 12, b"row 1 2 1")[0], b"bad")
    sock.send(b"\0\1\2")
    expect("what is too short to be told from others is not answered", ask(sock, 13, b"row 2 1 1\n")[0], b"0|")
    sock.send(struct.pack("!I", 14) + b"row 2 1 1" + b" " * 20000)
    expect("a datagram that is longer than the buffers", reply(sock, 14)[0], b"bad")
    sock.send(struct.pack("!I", 15) + b"row 2 1 1\n" * 1500)
    expect("one with many requests is answered once", reply(sock, 15)[0], b"bad")
    # As many lines as there is room for, and a byte more.
    lines = b"row 2 1 1\n" * 919 + b"row 02 1 1\n" * 2
    sock.send(struct.pack("!I", 16) + lines)
    expect("9,216 bytes", (4 + len(lines), {reply(sock, 16)[0] for _ in range(921)}), (9216, {b"0|"}))
    sock.send(struct.pack("!I", 17) + b"row 002 1 1\n" + lines[11:])
    expect("and one more", reply(sock, 17)[0], b"bad")
    stats = server.stats()
    expect("counted", {name: stats[name] for name in ("datagrams", "requests", "malformed", "failed", "too_long", "reply_too_long", "vanished")},
           {"datagrams": 21 + len(addresses), "requests": 21 + len(addresses) + 1 + 921 + 1, "malformed": 8, "failed": 2, "too_long": 3, "reply_too_long": 1, "vanished": 0})
    expect("bytes out", stats["bytes_out"], lambda n: n > 150000)
    sock.close()


FAILING = """
service failing on udp 7001 via uring {
  request { times: u16be  malformed: u8 }
  on request {
    for i in range(0, request.times) max 2000 { reply "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/|" }
    if request.malformed == 1 { fail malformed }
    fail not_found
  }
  on malformed { reply "bad" }
  HANDLER
}
"""


class Failing(Server):
    ARTIFACT, FILE, SERVICES, ENDPOINTS = "failing.bpf.o", None, ("failing",), 1


def test_failing(folder):
    """A request that fails behind a reply which is too long already: what is said of the failure is all that comes."""
    for handler, told in (('on failure { reply "sorry" }', b"sorry"), ("", b"bad")):
        (folder / "failing.chain").write_text("app failing { }\n" + FAILING.replace("HANDLER", handler))
        subprocess.run([BUILD / "bin" / "chainc", folder / "failing.chain", "-o", folder / "failing.bpf.o"], check=True)
        server = Failing(folder)
        sock = server.client("failing")
        for times in (1, 977, 978, 979, 2000):
            for malformed, said in ((0, told), (1, b"bad")):
                sock.send(struct.pack("!HB", times, malformed))
                whole = PART * times + said
                # Of one that is malformed, too, a reply that is too long is a failure.
                expect(f"{times} parts and then {told.decode()}, {malformed}", sock.recv(1 << 17), whole if len(whole) <= 65507 else told)
        expect("each is answered", server.stats("failing")["unanswered"], 0)
        sock.close()
        expect("ends", server.stop(), 0)


def test_plain(server):
    sock = server.client("plain")
    for length in (1, 1400, 20000, 65000):
        sock.send(struct.pack("!II", 2, length))
        expect(f"without `on datagram` a reply is one datagram: {length} bytes", sock.recv(1 << 16) == DATA[2000:2000 + length], True)
    expect("no byte of them was copied by the program", server.stats("plain")["payload_copies"], 0)
    sock.send(b"abc")
    expect("of bad form", sock.recv(100), b"bad")
    sock.send(struct.pack("!II", 2, 65508))
    expect("longer than a datagram", sock.recv(100), b"sorry")
    sock.close()


def test_marked(server, **where):
    """A request need not be whole for `on datagram`: what that names has to be there, and nothing else."""
    sock = server.client("marked", **where)
    good = struct.pack("!HHI", 0xfeed, 0x4b56, 1)
    for what, request, want in (("a request", good, b"good"), ("one with another mark", good[:2] + b"no" + good[4:], b"bad"), ("the half of one", good[:4], b"bad"),
                                ("its first field", good[:2], b"bad")):
        sock.send(request)
        expect(f"{what} is answered behind its number", sock.recv(100), good[:2] + want)
    sock.send(good[:1])
    sock.send(b"")
    sock.send(good)
    expect("less than its number is not", sock.recv(100), good[:2] + b"good")
    sock.close()


class Numbered(Server):
    ARTIFACT, FILE, SERVICES, ENDPOINTS = "numbered.bpf.o", None, ("numbered",), 1


def test_numbered(folder):
    """Numbers in decimals: all of a reply comes, in pieces for which the longest of them leaves room."""
    (folder / "numbered.chain").write_text(NUMBERED)
    subprocess.run([BUILD / "bin" / "chainc", folder / "numbered.chain", "-o", folder / "numbered.bpf.o"], check=True)
    server = Numbered(folder)
    sock = server.client("numbered")
    # 208 parts would be ten pieces, if the number of these had one digit.
    for identity, times, count in ((7, 1, 1), (7, 20, 1), (123, 100, 5), (7, 207, 10), (7, 208, 11), (65535, 1000, 49)):
        sock.send(struct.pack("!HH", identity, times))
        parts = [sock.recv(1 << 16) for _ in range(count)]
        heads, pieces = zip(*(part.split(b"\n", 1) for part in parts))
        expect(f"{times} parts in {count} numbered datagrams", (sorted(heads), b"".join(pieces) == PART * times, max(map(len, parts)) <= 1400),
               (sorted(b"%d %d/%d" % (identity, number, count) for number in range(count)), True, True))
    sock.close()
    expect("ends", server.stop(), 0)


# Requests say how much their replies' datagrams begin with.
ECHOED = """
service echoed on udp 7001 via uring {
  request { key: cstr(max 200) }
  on datagram { reply request.key }
  on request { reply "=" }
}
"""


# What the first of several datagrams begins with fits, what those from the tenth on do not.
COUNTED = """
service echoed on udp 7001 via uring {
  request { times: u16be }
  on datagram { reply "%s", datagram.number:dec, "/", datagram.count:dec }
  on request { for i in range(0, request.times) max 1000 { reply "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/|" } }
}
""" % ("-" * 61)


class Echoed(Server):
    FILE, ARTIFACT = None, "echoed.bpf.o"
    SERVICES, ENDPOINTS = ("echoed",), 1


def long_begins(server):
    return [(each["count"], each["reason"]) for each in server.all_stats()["fallbacks"] if each["name"] == "long-datagram-begin"]


def echoing(folder, spec):
    (folder / "echoed.chain").write_text(spec)
    subprocess.run([BUILD / "bin" / "chainc", folder / "echoed.chain", "-o", folder / "echoed.bpf.o"], check=True)
    return Echoed(folder)


def test_long_begin(folder):
    """Replies whose datagrams would begin with more than 64 bytes are not sent, which is said."""
    said = "a reply of service 'echoed' is not sent: `on datagram` writes more than 64 bytes"
    server = echoing(folder, COUNTED)
    with server.client("echoed") as sock:
        for times in (300, 1):
            sock.send(struct.pack("!H", times))
        expect("of one datagram it is sent", sock.recv(1 << 16), b"-" * 61 + b"0/1" + PART)
    expect("of more than ten it is named", (server.stats("echoed")["unanswered"], long_begins(server)), (1, [(1, said)]))
    expect("ends", server.stop(), 0)
    server = echoing(folder, ECHOED)
    sock = server.client("echoed")
    for length in (65, 64, 200, 10):  # one that is answered follows each that is not
        sock.send(b"k" * length + b"\0")
        if length <= 64:
            expect(f"a begin of {length} bytes", sock.recv(1 << 16), b"k" * length + b"=")
    expect("the others are counted", [server.stats("echoed")[name] for name in ("requests", "answered", "unanswered")], [4, 4, 2])
    expect("and named", long_begins(server), [(2, said)])
    sock.close()
    expect("ends", server.stop(), 0)


# Several endpoints over udp.
SEVERAL = """
service several on udp 7001 via uring, udp 7002 via uring, tcp 7001 via uring {
  request { number: u32be }
  on request { reply request.number:u32be }
}
"""


class Several(daemon.Daemon):
    FILE = None

    def __init__(self, folder):
        super().__init__(folder / "several.bpf.o", "--bind", daemon.OWN)


def test_several(folder):
    """Several ports of one service count together, and each row says with which others."""
    (folder / "several.chain").write_text(SEVERAL)
    subprocess.run([BUILD / "bin" / "chainc", folder / "several.chain", "-o", folder / "several.bpf.o"], check=True)
    server = Several(folder)
    for port, times in ((7001, 2), (7002, 3)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((daemon.OWN, port))
            for number in range(times):
                sock.send(struct.pack("!I", number))
                expect(f"an answer of port {port}", sock.recv(100), struct.pack("!I", number))
    rows = [(row["transport"], row["port"], row.get("with_ports"), row["requests"]) for row in server.all_stats()["services"]]
    expect("each row counts all of its transport, and names the other ports", sorted(rows), [("tcp", 7001, None, 0), ("udp", 7001, [7002], 5), ("udp", 7002, [7001], 5)])
    expect("ends", server.stop(), 0)


class Varied(Server):
    ARTIFACT, FILE, SERVICES, ENDPOINTS = "varied.bpf.o", None, ("varied",), 1


def test_varied(folder):
    """Behind fields of varying size a datagram is one request, whatever follows in it."""
    (folder / "varied.chain").write_text(VARIED)
    subprocess.run([BUILD / "bin" / "chainc", folder / "varied.chain", "-o", folder / "varied.bpf.o"], check=True)
    server = Varied(folder)
    sock = server.client("varied")
    for request, want in ((b"\2abone\n", b"ab=one"), (b"\2abone\ntwo\n\1ctwo\n", b"ab=one"), (b"\0one\ntwo", b"=one"), (b"\2abone two\n", b"bad"), (b"\1ctwo\n", b"c=two")):
        sock.send(request)
        expect(f"one reply to {request}", sock.recv(100), want)
    stats = server.stats("varied")
    expect("  and one request counted", (stats["datagrams"], stats["requests"]), (5, 5))
    sock.close()
    expect("ends", server.stop(), 0)


def test_overload(folder, make):
    """One request that waits for the disk holds the only place and four wait: of the rest the least urgent are told at once, and no urgent one while there is another."""
    if why := fuse_file.why_not():
        return print(f"skipped: overload, for which a read has to wait: {why}")
    with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
        overloaded(make("--requests", 1, "--waiting", 4, "--timeout", 60000), held)


def overloaded(server, held):
    first = server.client()
    first.send(struct.pack("!I", 99) + b"row %d 10 1\n" % HELD)
    netns.until("it waits for the disk", lambda: held.pages)
    plain, lines = server.client("plain"), server.client()
    before = server.stats("plain")["requests"], server.stats()["requests"]
    for number in range(10):
        plain.send(struct.pack("!II", number, 10))
    server.wait_for("requests", before[0] + 10, "plain")
    for number in range(4):
        lines.send(struct.pack("!I", number) + b"row 1 10 1\n")
    server.wait_for("requests", before[1] + 4)
    expect("the least urgent are shed, and no urgent one", (server.stats("plain")["shed"], server.stats()["shed"]), (10, 0))
    expect("  and told", [plain.recv(100) for _ in range(10)], [b"sorry"] * 10)
    expect("  and no latency is that of one that was not run", server.stats("plain")["p99_ns"], 0)
    lines.send(struct.pack("!I", 4) + b"row 1 10 1\n")
    expect("among equals the last", reply(lines, 4)[0], b"sorry")
    held.let_go()
    expect("the one that waited for the disk", reply(first, 99)[0], DATA[HELD * 1000:][:10] + b"|")
    first.close()
    expect("the others had only to wait", [reply(lines, number)[0] for number in range(4)], [b"000000001 |"] * 4)
    plain.send(struct.pack("!II", 20, 10))
    expect("and then each is answered", plain.recv(100), DATA[20000:20010])
    plain.close()
    lines.close()
    expect("ends", server.stop(), 0)
    said = [re.fullmatch(r"overload: (\d+) requests of service '(\w+)' were shed, (\d+) in all\n", line) for line in server.said]
    expect("standard error says what was shed", {found[2]: int(found[3]) for found in said if found}, {"plain": 10, "lines": 1})


def test_given_up(folder):
    """What waits for a disk that does not answer is given up at the end, and said."""
    if why := fuse_file.why_not():
        return print(f"skipped: an end that waits for a read: {why}")
    for count, words in ((1, "1 port, 1 datagram"), (2, "1 port, 2 datagrams")):
        with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
            server = Server(folder)
            with server.client() as sock:
                for number in range(count):
                    sock.send(struct.pack("!I", number) + b"row %d 10 1\n" % HELD)
                server.wait_for("requests", count)
                netns.until("it waits for the disk", lambda: held.pages)
                server.stop()
            expect("what is given up is said", [line for line in server.said if line.startswith("given up")], [f"given up, as 5 seconds are over: {words}\n"])


def test_full_socket(folder):
    """What the kernel had no room for while the daemon was away is counted, and said: each datagram is a request or was dropped."""
    server, sent = Server(folder), 20000
    sock = server.client("marked")
    with daemon.halted(server.process):
        for _ in range(sent):
            sock.send(struct.pack("!HHI", 1, 0x4b56, 1))
    netns.until("each is a request or was dropped", lambda: sum(server.stats("marked")[name] for name in ("requests", "dropped")) == sent)
    dropped = server.stats("marked")["dropped"]
    expect("  and some were", 0 < dropped < sent, True)
    expect("  of that service", [server.stats(name)["dropped"] for name in ("lines", "plain")], [0, 0])
    sock.close()
    expect("ends", server.stop(), 0)
    said = [re.fullmatch(r"overload: (\d+) datagrams of service 'marked' were dropped by the kernel, as its socket was full, (\d+) in all\n", line) for line in server.said]
    expect("standard error says how many", (sum(int(found[1]) for found in said if found), [int(found[2]) for found in said if found][-1:]), (dropped, [dropped]))


def ask_many(sock, empty=0):
    for _ in range(empty):
        sock.send(b"")
    for number in range(150):
        sock.send(struct.pack("!I", number) + b"row 1 10 1\n")


def test_end(folder):
    """What clients had sent before SIGTERM is answered, also behind datagrams without a byte."""
    server = Server(folder, bind=daemon.OWN, port=None)  # nobody else takes what is free again
    sock = server.client(address=daemon.OWN)
    code = daemon.ended_behind(server, lambda: ask_many(sock, 300))
    expect("each request before SIGTERM has its answer", sorted(sock.recv(100) for _ in range(150)),
           [struct.pack("!IHH", number, 0, 1) + b"000000001 |" for number in range(150)])
    expect("it ended well", code, 0)
    expect("the port is free again", socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((daemon.OWN, server.ports["lines", "udp"])), None)


def test_addresses(folder):
    """Over veth, to an address that is not the interface's first: the reply comes from there."""
    if why := netns.why_not():
        print(f"skipped: addresses over veth: {why}")
        return
    with netns.Pair() as pair:
        netns.ip("addr", "add", "10.9.0.77/24", "dev", "vb", namespace=pair.there)
        netns.ip("addr", "add", "fd09::77/64", "dev", "vb", "nodad", namespace=pair.there)
        server = Server(folder, bind="::", prefix=pair.command(pair.there))
        for address in ("10.9.0.2", "10.9.0.77", "fd09::2", "fd09::77"):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = netns.udp(pair.here, family=family)
            sock.sendto(struct.pack("!I", 1) + b"row 7 9000 1\n", (address, server.ports["lines", "udp"]))
            parts = [sock.recvfrom(2000) for _ in range(7)]
            got = b"".join(data[8:] for data, _ in sorted(parts, key=lambda part: part[0][4:6]))
            expect(f"to {address}, and from there", (got, {peer[0] for _, peer in parts}), (DATA[7000:16000] + b"|", {address}))
            sock.close()
        test_own_source(server, pair)
        expect("ends", server.stop(), 0)
        test_many_at_once(folder, pair)


def test_own_source(server, pair):
    """What says to come from a service of this machine is not answered: over IPv6 Linux takes it from a network, and the answer would be the next request."""
    port, before = server.ports["lines", "udp"], server.stats()
    other = server.ports["plain", "udp"]
    with netns.packets(pair.here, "va") as raw:
        for source, at in (("fd09::2", port), ("fd09::77", port), ("fd09::77", other)):
            payload = netns.datagram(source, "fd09::2", at, port, struct.pack("!I", 1) + b"row 7 10 1\n")
            raw.send(netns.ethernet(pair.mac["vb"], pair.mac["va"], 0x86DD, netns.ipv6(source, "fd09::2", 17, payload)))
    server.wait_for("unanswered", before["unanswered"] + 3)
    after = server.stats()
    expect("  none of them is a request", (after["datagrams"] - before["datagrams"], after["requests"]), (3, before["requests"]))
    netns.until("standard error says so", lambda: any("fallback own-source" in line for line in server.said))
    expect("  which standard error says once", sum("fallback own-source" in line for line in server.said), 1)
    for address, there in (("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")):
        with netns.udp(pair.here, (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((there, port))
            expect("  a client elsewhere may have the same port", ask(sock, 7, b"row 7 10 1\n")[0], DATA[7000:7010] + b"|")
    unasked = ("fallback own-source (1x): datagrams from a port that is served are not answered, as the kernel cannot be asked whether their source is this "
               "machine: Too many open files\n")
    with netns.udp(pair.here, ("10.9.0.1", port)) as sock:
        sock.connect(("10.9.0.2", port))
        before = server.stats()["unanswered"]
        with netns.without_descriptor(server.process.pid):
            sock.send(struct.pack("!I", 6) + b"row 7 10 1\n")
            netns.until("that it cannot be asked about is said", lambda: unasked in server.said)
        expect("  it is not answered while nobody knows", server.stats()["unanswered"], before + 1)
        expect("  and later it is", ask(sock, 7, b"row 7 10 1\n")[0], DATA[7000:7010] + b"|")


def test_many_at_once(folder, pair):
    """To an address of many, broadcast or multicast: the reply comes from one of the interface's."""
    link = int(netns.ip("-o", "link", "show", "va", namespace=pair.here).split(":")[0])
    theirs = netns.ip("-o", "addr", "show", "dev", "vb", namespace=pair.there)
    for bind, addresses in (("::", ("255.255.255.255", "ff02::1", "224.0.0.1")), ("0.0.0.0", ("255.255.255.255", "10.9.0.255", "224.0.0.1"))):
        server = Server(folder, bind=bind, prefix=pair.command(pair.there))
        for address in addresses:
            v6 = ":" in address
            sock = netns.udp(pair.here, family=socket.AF_INET6 if v6 else socket.AF_INET)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"va")
            to = (address, server.ports["lines", "udp"], 0, link) if v6 else (address, server.ports["lines", "udp"])
            sock.sendto(struct.pack("!I", 1) + b"row 1 10 1\n", to)
            data, peer = sock.recvfrom(2000)
            expect(f"bound to {bind}, to {address}", (data[8:], f" {peer[0].split('%')[0]}/" in theirs), (DATA[1000:1010] + b"|", True))
            sock.close()
        expect("ends", server.stop(), 0)


def prepare(folder, via="uring"):
    """The spec's artifact, its services by udp `via` this, and its file."""
    text = SPEC if via == "uring" else re.sub(r"(udp \d+) via \w+", rf"\1 via {via}", SPEC)
    (folder / "app.chain").write_text(text)
    (folder / "a.rows").write_bytes(DATA)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"], check=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        server = Server(folder, bind="::")
        test_lines(server)
        test_plain(server)
        test_marked(server)
        expect("ends", server.stop(), 0)
        test_numbered(folder)
        test_long_begin(folder)
        test_failing(folder)
        test_varied(folder)
        test_several(folder)
        test_overload(folder, lambda *options: Server(folder, *options))
        test_given_up(folder)
        test_full_socket(folder)
        test_end(folder)
        test_addresses(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
