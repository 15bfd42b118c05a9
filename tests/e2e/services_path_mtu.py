#!/usr/bin/env python3
"""Replies by AF_XDP to a client behind a router whose next link takes less than the interface: once the kernel was told so they are cut to fit, or
leave by the socket; what the driver keeps is only sent where the way is known to take it."""
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
import services_cache  # noqa: E402
from netns import ip, until  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from services_udp import DATA, NUMBERED, PART, prepare, reply  # noqa: E402
from services_xdp import OnVeth  # noqa: E402

MTU, NARROW = 1500, 1280
# Of a version of IP: the server, the router and the client behind it, and the bytes of a datagram's headers.
WAYS = (("10.9.0.2", "10.9.0.1", "10.8.0.1", 28), ("fd09::2", "fd09::1", "fd08::1", 48))
BY_SOCKET = "replies were longer than a packet that their way takes, and left by the service's socket"


class Routed(netns.Pair):
    """A pair whose `here` is a router to `far`, by a link that takes less."""

    def __init__(self):
        self.far = f"chainio-{os.getpid()}-far"
        super().__init__(mtu=MTU)
        try:
            ip("netns", "add", self.far)
            self.made.append(self.far)
            self.reach()
        except BaseException:
            self.remove()
            raise

    def reach(self):
        ip("link", "add", "vr", "mtu", NARROW, "netns", self.here, "type", "veth", "peer", "name", "vt", "mtu", NARROW, "netns", self.far)
        for namespace, device, number in ((self.here, "vr", 254), (self.far, "vt", 1)):
            ip("link", "set", device, "up", namespace=namespace)
            ip("addr", "add", f"10.8.0.{number}/24", "dev", device, namespace=namespace)
            ip("addr", "add", f"fd08::{number}/64", "dev", device, "nodad", namespace=namespace)
        switches = ("ipv4/ip_forward", "ipv6/conf/all/forwarding")
        subprocess.run(self.command(self.here, "sh", "-c", "; ".join(f"echo 1 > /proc/sys/net/{name}" for name in switches)), check=True)
        for namespace, by in ((self.there, ("10.9.0.1", "fd09::1")), (self.far, ("10.8.0.254", "fd08::254"))):
            for address in by:
                ip("route", "add", "default", "via", address, namespace=namespace)

    def knows(self, client):
        """Whether the server's kernel was told what the way to the client takes."""
        return f"mtu {NARROW}" in ip("route", "get", client, namespace=self.there)

    def forget(self):
        for version in ("-4", "-6"):
            ip(version, "route", "flush", "cache", namespace=self.there)


class Behind:
    """Of a server whose clients are behind the router, or the router itself."""

    def asker(self, service, address, namespace=None):
        made = netns.udp(namespace or self.pair.far, family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        netns.take_much(made)
        made.connect((address, self.ports[service, "udp"]))
        return made


class Cutting(Behind, OnVeth):
    def plain(self, address, length, patience=netns.PATIENCE, namespace=None):
        with self.asker("plain", address, namespace) as sock:
            sock.settimeout(patience)
            sock.send(struct.pack("!II", 2, length))
            return sock.recv(1 << 16)

    def line(self, address, length, times=1, patience=netns.PATIENCE, namespace=None):
        with self.asker("lines", address, namespace) as sock:
            sock.settimeout(patience)
            sock.send(struct.pack("!I", 9) + b"row 2 %d %d\n" % (length, times))
            return reply(sock, 9)

    def by_socket(self):
        return sum(each["count"] for each in self.all_stats()["fallbacks"] if (each["name"], each["reason"]) == ("xdp-path-mtu", BY_SOCKET))


def again_and_again(attempt):
    """What a client gets that asks again when nothing has come."""
    end = time.monotonic() + netns.PATIENCE
    while time.monotonic() < end:
        try:
            return attempt(1)
        except TimeoutError:
            pass
    return "nothing, however often it is asked"


def rows(length):
    return DATA[2000:2000 + length]


def test_learnt(server, pair, address, client):
    """The first replies are lost, by which the kernel is told; those to a retry arrive."""
    pair.forget()
    expect(f"{address}: a short reply arrives at once", (server.plain(address, 100), server.line(address, 100)), (rows(100), (rows(100) + b"|", 1, 109)))
    expect("  by which nothing is learnt", pair.knows(client), False)
    expect("a long one that is not cut arrives some time", again_and_again(lambda patience: server.plain(address, 1365, patience)), rows(1365))
    expect("  as the kernel was told", pair.knows(client), True)
    pair.forget()
    expect("a long one in several datagrams", again_and_again(lambda patience: server.line(address, 5000, patience=patience))[0], rows(5000) + b"|")


def test_known(server, pair, address, client, router, headers):
    most = NARROW - headers
    again_and_again(lambda patience: server.plain(address, 1365, patience))
    until("the kernel knows", lambda: pair.knows(client))
    replies, by_socket = server.interface()["replies"], server.by_socket()
    expect("the longest that fits", (server.plain(address, most), server.line(address, most - 9)), (rows(most), (rows(most - 9) + b"|", 1, most)))
    expect("  by AF_XDP", (server.interface()["replies"] - replies, server.by_socket()), (2, by_socket))
    for length in (most + 1, MTU - headers):
        expect(f"{length} bytes in one datagram", server.plain(address, length), rows(length))
    expect("  by the socket", (server.interface()["replies"] - replies, server.by_socket()), (2, by_socket + 2))
    for length in (1391, 5000, 60000):
        want = -(-(length + 1) // (most - 8))
        expect(f"{length} bytes are cut as the way wants it", server.line(address, length), (rows(length) + b"|", want, most))
    expect("  by AF_XDP", (server.interface()["replies"] - replies, server.by_socket()), (5, by_socket + 2))
    expect("what is more than 64 such datagrams", server.line(address, 1300, 64), ((rows(1300) + b"|") * 64, 60, 1400))
    expect("  by the socket", (server.interface()["replies"] - replies, server.by_socket() > by_socket + 2), (5, True))
    expect("what is too long for the interface", server.plain(address, MTU - headers + 1), b"sorry")
    expect("who is not behind the router gets what the interface takes", (server.plain(address, 1365, namespace=pair.here), server.line(address, 1391, namespace=pair.here)),
           (rows(1365), (rows(1391) + b"|", 1, 1400)))


def test_runtime(folder, pair):
    prepare(folder, "xdp")
    for bind in ("::", "0.0.0.0"):
        server = Cutting(folder, pair, "--interface", "vb", bind=bind)
        for address, router, client, headers in WAYS if bind == "::" else WAYS[:1]:
            test_learnt(server, pair, address, client)
            test_known(server, pair, address, client, router, headers)
        expect("nothing vanished", [server.stats(service)["vanished"] for service in ("lines", "plain")], [0, 0])
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)


class Numbering(Behind, OnVeth):
    ARTIFACT, FILE, SERVICES, ENDPOINTS = "numbered.bpf.o", None, ("numbered",), 1

    def parts(self, address, times, patience=netns.PATIENCE):
        """(the bytes, in how many datagrams, the longest of these)"""
        with self.asker("numbered", address) as sock:
            sock.settimeout(patience)
            sock.send(struct.pack("!HH", 9, times))
            got = [sock.recv(1 << 16)]
            while len(got) < int(got[0].split(b"\n", 1)[0].split(b"/")[1]):
                got.append(sock.recv(1 << 16))
        pieces = dict((int(head.split()[1].split(b"/")[0]), piece) for head, piece in (datagram.split(b"\n", 1) for datagram in got))
        return b"".join(pieces[number] for number in sorted(pieces)), len(got), max(map(len, got))


def test_numbered(folder, pair):
    """What each datagram begins with decides with the way whether 64 of them are enough."""
    (folder / "numbered.chain").write_text(NUMBERED.replace("via uring", "via xdp").replace("max 1000", "max 2000"))
    subprocess.run([BUILD / "bin" / "chainc", folder / "numbered.chain", "-o", folder / "numbered.bpf.o"], check=True)
    server = Numbering(folder, pair, "--interface", "vb", bind="::")
    address, _, client, headers = WAYS[0]
    pair.forget()
    again_and_again(lambda patience: server.parts(address, 40, patience))
    until("the kernel knows", lambda: pair.knows(client))
    most = 64 * (NARROW - headers - len("9 63/64\n")) // len(PART)
    expect("64 numbered datagrams as the way wants them", server.parts(address, most), (PART * most, 64, NARROW - headers))
    expect("  what is more by the numbers' length alone", server.parts(address, most + 1), (PART * (most + 1), 58, 1400))
    expect("ends", server.stop(), 0)


class Keeping(Behind, services_cache.OnVeth):
    def padded(self, address, source, sock, line, id_=1):
        """A request as the router sends it on, with room behind it for a reply that the driver writes in its place."""
        raw, port = netns.packets(self.pair.here, "va"), sock.getsockname()[1]
        payload = netns.datagram(source, address, port, self.ports["lines", "udp"], struct.pack("!IH", id_, 0) + line)
        packet, kind = (netns.ipv6(source, address, 17, payload), 0x86dd) if ":" in address else (netns.ipv4(source, address, 17, payload), 0x800)
        with raw:
            raw.send(netns.ethernet(self.pair.mac["vb"], self.pair.mac["va"], kind, packet.ljust(MTU, b"\0")))

    def ask(self, address, source, namespace, length, patience=netns.PATIENCE):
        with self.asker("lines", address, namespace) as sock:
            sock.settimeout(patience)
            self.padded(address, source, sock, b"row 7 %d\n" % length)
            return reply(sock, 1)


def prepare_kept(folder, pair):
    (folder / "kept.chain").write_text(services_cache.SPEC)
    subprocess.run([BUILD / "bin" / "chainc", folder / "kept.chain", "-o", folder / "kept.bpf.o"], check=True)
    services_cache.write_rows(folder, 1)
    netns.use_offload(pair.here, "va", "gro", 1)


def test_kept(folder, pair, *options):
    server = Keeping(folder, pair, *options, spec="kept.bpf.o")
    if not server.all_stats()["interfaces"][0]["answers_by_itself"]:
        print("skipped: the kernel does not say that the peer takes what a program in the driver sends back: Linux 6.3 does")
        return expect("ends", server.stop(), 0)
    want = b"7 " + services_cache.row(7, 1)[:1380]
    for address, router, client, headers in WAYS:
        pair.forget()

        def by_driver(source, namespace, length, right):
            hits = server.cache()["hits"]
            assert server.ask(address, source, namespace, length) == right
            return server.cache()["hits"] > hits

        whole = want, 1, len(want) + 8
        until(f"{address}: the driver sends a long reply where the way is known", lambda: by_driver(router, pair.here, 1380, whole))
        got = again_and_again(lambda patience: server.ask(address, client, pair.far, 1380, patience))
        expect("  where that takes less, it arrives some time", got, (want, 2, NARROW - headers))
        until("  and then at once", lambda: server.ask(address, client, pair.far, 1380) == (want, 2, NARROW - headers))
        expect("  which the runtime sends", server.cache()["no_room"] > 0, True)
        until("  and the driver still where it takes it", lambda: by_driver(router, pair.here, 1380, whole))
        short = want[:102], 1, 110
        until("a short one is the driver's", lambda: by_driver(client, pair.far, 100, short))
    expect("ends", server.stop(), 0)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, Routed() as pair:
        folder = pathlib.Path(name)
        test_runtime(folder, pair)
        test_numbered(folder, pair)
        prepare_kept(folder, pair)
        test_kept(folder, pair)
        test_kept(folder, pair, "--xdp-attach", "generic")
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
