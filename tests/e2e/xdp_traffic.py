#!/usr/bin/env python3
"""AF_XDP on a veth pair: declared datagrams are answered from frames, byte for byte; all other traffic is what it is without the program."""
import contextlib
import os
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
from netns import datagram, ethernet, ipv4, ipv6, until
import runs
from runs import expect
from xdp_server import PORT, Server

OTHER = 9001
TAGGED, LOCAL = 0x8100, 0x88B5
ANOTHER = ("10.9.0.3", "fd09::3")  # further addresses of vb
BESIDE = ("10.8.0.3", "fd08::3")  # of the machine, at another interface
NETWORK = "10.7.0.3", "10.7.0.77"  # an address of vb, and the broadcast address that is given to its network
BROADCASTS = ("10.9.0.255", "10.8.0.255", NETWORK[1], "10.7.0.255")  # of networks that it is in
RANDOM = random.Random(20261121)


def source_mac(index):
    return f"02:c1:00:00:{index >> 8:02x}:{index & 255:02x}"


def good(index, kind):
    """Datagrams that are to be answered: (frame, payload, addresses)."""
    payload = b"E" + bytes([index]) * RANDOM.choice((0, 1, 2, 31, 700, 1399))
    v4, v6 = ("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")
    if kind == "v6":
        packet = ipv6(*v6, 17, datagram(*v6, 7000 + index, PORT, payload))
    else:
        # Between ends of one machine the sum is often a partial one: it says nothing about the bytes.
        check = {"v4": None, "no sum": 0, "partial sum": 0x1234}[kind]
        packet = ipv4(*v4, 17, datagram(*v4, 7000 + index, PORT, payload, check=check))
    return packet, payload, v6 if kind == "v6" else v4


def others(pair):
    """(what, frame without its source address) of traffic that is the kernel's."""
    to, v4, v6 = pair.mac["vb"], ("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")
    whole, whole6 = datagram(*v4, 7000, PORT, b"E1234567"), datagram(*v6, 7000, PORT, b"E1234567")
    yield "another port", to, 0x800, ipv4(*v4, 17, datagram(*v4, 7000, OTHER, b"E"))
    yield "another address", to, 0x800, ipv4(v4[0], "10.9.0.77", 17, datagram(v4[0], "10.9.0.77", 7000, PORT, b"E"))
    yield "another station", "02:00:00:00:99:99", 0x800, ipv4(*v4, 17, whole)
    yield "broadcast station", "ff:ff:ff:ff:ff:ff", 0x800, ipv4(*v4, 17, whole)
    yield "broadcast", "ff:ff:ff:ff:ff:ff", 0x800, ipv4(v4[0], "10.9.0.255", 17, datagram(v4[0], "10.9.0.255", 7000, PORT, b"E"))
    yield "multicast", "01:00:5e:00:00:09", 0x800, ipv4(v4[0], "224.0.0.9", 17, datagram(v4[0], "224.0.0.9", 7000, PORT, b"E"))
    for source in ("0.0.0.1", "127.0.0.1", "224.0.0.1", "255.255.255.255", v4[1], ANOTHER[0], BESIDE[0], *BROADCASTS):
        yield f"source {source}", to, 0x800, ipv4(source, v4[1], 17, datagram(source, v4[1], 7000, PORT, b"E"))
    yield "source port 0", to, 0x800, ipv4(*v4, 17, datagram(*v4, 0, PORT, b"E"))
    yield "first fragment", to, 0x800, ipv4(*v4, 17, whole, fragment=0x2000)
    yield "last fragment", to, 0x800, ipv4(*v4, 17, whole, fragment=0x0010)
    yield "evil bit", to, 0x800, ipv4(*v4, 17, whole, fragment=0x8000)
    yield "options", to, 0x800, ipv4(*v4, 17, whole, options=b"\x01\x01\x01\x00")
    yield "wrong header sum", to, 0x800, ipv4(*v4, 17, whole, check=0x1111)
    yield "version 5", to, 0x800, ipv4(*v4, 17, whole, first=0x55)
    yield "short header", to, 0x800, ipv4(*v4, 17, whole, first=0x44)
    yield "longer than the frame", to, 0x800, ipv4(*v4, 17, whole, total=200)
    yield "shorter than its header", to, 0x800, ipv4(*v4, 17, whole, total=10)
    yield "UDP longer than IP", to, 0x800, ipv4(*v4, 17, datagram(*v4, 7000, PORT, b"E1234567", length=60))
    yield "UDP shorter than IP", to, 0x800, ipv4(*v4, 17, datagram(*v4, 7000, PORT, b"E1234567", length=12))
    yield "UDP shorter than its header", to, 0x800, ipv4(*v4, 17, datagram(*v4, 7000, PORT, b"E", length=7))
    yield "cut in UDP", to, 0x800, ipv4(*v4, 17, whole)[:25]
    yield "cut in IP", to, 0x800, ipv4(*v4, 17, whole)[:12]
    yield "nothing behind Ethernet", to, 0x800, b""
    yield "TCP", to, 0x800, ipv4(*v4, 6, struct.pack("!HHIIHHHH", 7000, PORT, 1, 0, 0x5002, 100, 0, 0))
    yield "ICMP", to, 0x800, ipv4(*v4, 1, struct.pack("!BBHHH", 8, 0, 0xf7fd, 1, 1))
    yield "tunnel", to, 0x800, ipv4(*v4, 4, ipv4(*v4, 17, whole))
    yield "VLAN", to, TAGGED, struct.pack("!HH", 5, 0x800) + ipv4(*v4, 17, whole)
    yield "VLAN 0", to, TAGGED, struct.pack("!HH", 0, 0x800) + ipv4(*v4, 17, whole)
    yield "VLAN in VLAN", to, 0x88A8, struct.pack("!HHHH", 7, TAGGED, 5, 0x800) + ipv4(*v4, 17, whole)
    yield "ARP", "ff:ff:ff:ff:ff:ff", 0x806, struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, b"\2\0\0\0\0\1", b"\x0a\x09\0\x4d", b"\0" * 6, b"\x0a\x09\0\x02")
    yield "another protocol", to, LOCAL, b"whatever"
    yield "IPv6: another port", to, 0x86DD, ipv6(*v6, 17, datagram(*v6, 7000, OTHER, b"E"))
    yield "IPv6: another address", to, 0x86DD, ipv6(v6[0], "fd09::77", 17, datagram(v6[0], "fd09::77", 7000, PORT, b"E"))
    yield "IPv6: no sum", to, 0x86DD, ipv6(*v6, 17, datagram(*v6, 7000, PORT, b"E", check=0))
    yield "IPv6: fragment", to, 0x86DD, ipv6(*v6, 44, struct.pack("!BBHI", 17, 0, 1, 9) + whole6)
    yield "IPv6: hop by hop", to, 0x86DD, ipv6(*v6, 0, bytes((17, 0, 1, 4, 0, 0, 0, 0)) + whole6)
    yield "IPv6: longer than the frame", to, 0x86DD, ipv6(*v6, 17, whole6, length=300)
    yield "IPv6: UDP shorter", to, 0x86DD, ipv6(*v6, 17, datagram(*v6, 7000, PORT, b"E1234567", length=12))
    for source in ("::", "::1", "ff02::1", "::ffff:10.9.0.1", v6[1], ANOTHER[1], BESIDE[1]):
        yield f"IPv6: source {source}", to, 0x86DD, ipv6(source, v6[1], 17, datagram(source, v6[1], 7000, PORT, b"E"))
    mapped = f"::ffff:{v4[1]}"
    yield "IPv6: the IPv4 address", to, 0x86DD, ipv6(v6[0], mapped, 17, datagram(v6[0], mapped, 7000, PORT, b"E"))
    yield "IPv6: neighbour", "33:33:ff:00:00:02", 0x86DD, ipv6("fd09::1", "ff02::1:ff00:2", 58, struct.pack("!BBHI16s", 135, 0, 0, 0, socket.inet_pton(socket.AF_INET6, "fd09::2")))


def seen_of(sniffer, wanted, enough):
    """{index: frames} of what reached the kernel from our source addresses, once there are `enough`."""
    seen = {}

    def look():
        while True:
            try:
                frame, (_, _, kind, *_) = sniffer.recvfrom(65535)
            except TimeoutError:
                break
            if frame[6:10] == b"\2\xc1\0\0" and kind != socket.PACKET_OUTGOING:
                seen.setdefault(frame[10] << 8 | frame[11], []).append(frame)
        return sum(map(len, seen.values())) >= enough

    until(f"{enough} frames reach the kernel: {wanted}", look)
    return seen


@contextlib.contextmanager
def more_addresses(pair):
    """The other end's machine has ANOTHER and BESIDE."""
    both = [(f"{address}/{64 if ':' in address else 24}", device) for device, addresses in (("vb", ANOTHER), ("lo", BESIDE)) for address in addresses]
    for address, device in both:
        netns.ip("addr", "add", address, "dev", device, *(["nodad"] if ":" in address else []), namespace=pair.there)
    netns.ip("addr", "add", f"{NETWORK[0]}/24", "brd", NETWORK[1], "dev", "vb", namespace=pair.there)
    both.append((f"{NETWORK[0]}/24", "vb"))
    try:
        yield
    finally:
        for address, device in both:
            netns.ip("addr", "del", address, "dev", device, namespace=pair.there)


def untouched(pair):
    """What the kernel gets of every sort of traffic, without the program and with it."""
    with more_addresses(pair):
        untouched_between(pair)


def untouched_between(pair):
    sender, sniffer = netns.packets(pair.here, "va"), netns.packets(pair.there, "vb")
    sender.settimeout(0.05)
    frames = [(what, ethernet(to, source_mac(i), kind, rest)) for i, (what, to, kind, rest) in enumerate(others(pair))]

    def send_all():
        for _, frame in frames:
            sender.send(frame)
        return seen_of(sniffer, "all that is not declared", len(frames))

    without = send_all()
    server = Server(pair)
    attached = pair.link(pair.there, "vb").get("xdp", {})
    expect("the program is attached to the driver", attached.get("mode"), 1)
    with_it = send_all()
    for i, (what, _) in enumerate(frames):
        expect(f"  {what}: the kernel gets the same", with_it.get(i), without.get(i))

    first = 1000
    for i, kind in enumerate(["v4", "v6", "no sum", "partial sum"] * 8):
        packet, payload, (own, peer) = good(i, kind)
        frame = ethernet(pair.mac["vb"], source_mac(first + i), 0x86DD if kind == "v6" else 0x800, packet)
        sender.send(frame + b"\x55" * (i % 3))  # bytes behind the datagram, as a driver may leave
        reply = datagram(peer, own, PORT, 7000 + i, payload)
        whole = ethernet(source_mac(first + i), pair.mac["vb"], 0x86DD if kind == "v6" else 0x800,
                         ipv6(peer, own, 17, reply) if kind == "v6" else ipv4(peer, own, 17, reply))
        got = []

        def answered():
            try:
                frame, (_, _, direction, *_) = sender.recvfrom(65535)
            except TimeoutError:
                return False
            if frame[:4] == b"\2\xc1\0\0" and direction != socket.PACKET_OUTGOING:
                got.append(frame)
            return bool(got)

        until(f"an answer to {kind}", answered)
        expect(f"  {kind}, {len(payload)} bytes: the whole answer", got[0].hex(), whole.hex())
    sender.send(ethernet(pair.mac["vb"], source_mac(2000), LOCAL, b"end"))
    left = seen_of(sniffer, "the last frame", 1)
    expect("  the kernel sees nothing of what is declared", sorted(left), [2000])
    report = server.end()
    expect("  each was taken once", (report["taken"], report["received"], report["answered"]), (32, 32, 32))
    expect("  no payload was copied", report["copies"], 0)
    expect("  the program is gone", "xdp" in pair.link(pair.there, "vb"), False)
    sender.close(), sniffer.close()


def tcp_echo(pair):
    """A TCP connection to the declared port's number."""
    with netns.inside(pair.there):
        listener = socket.create_server(("10.9.0.2", PORT))
    with netns.inside(pair.here):
        client = socket.socket()
    client.settimeout(netns.PATIENCE)

    def echo():
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    data, got = RANDOM.randbytes(1 << 20), bytearray()
    with client, listener:
        client.connect(("10.9.0.2", PORT))
        writer = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        writer.start()
        while part := client.recv(65536):
            got += part
        writer.join()
        thread.join()
    return bytes(got) == data


def ask(client, request, to):
    client.sendto(request, to)
    return client.recv(65535)


def kernel_clients(pair, data, folder):
    """Ordinary sockets as clients: sizes up to jumbo frames, files, and other protocols beside them."""
    path = folder / "data"
    path.write_bytes(data)
    server = Server(pair, "--file", path)
    expect("  it says what it got", server.mode, "AF_XDP on vb (veth): 2 queues, native program, copy, need-wakeup, multi-buffer, "
           "frames of 4096 bytes in " + server.mode.rsplit(" in ", 1)[1])
    for family, to in ((socket.AF_INET, ("10.9.0.2", PORT)), (socket.AF_INET6, ("fd09::2", PORT))):
        with netns.udp(pair.here, family=family) as client:
            for size in (0, 1, 2, 17, 1399, 1472, 3700, 3798, 3799, 3900, 7000, 8951):
                payload = b"E" * min(size, 1) + RANDOM.randbytes(max(size - 1, 0))
                expect(f"  {size} bytes come back", ask(client, payload, to) == payload, True)
            for offset, size in ((0, 1), (1, 511), (4096, 4096), (8191, 4097), (12345, 8191), (512, 8952 - 20 * (family == socket.AF_INET6))):
                answer = ask(client, b"R" + struct.pack("<II", offset, size), to)
                expect(f"  {size} bytes of the file", answer == data[offset:offset + size], True)
            expect("  behind the file's end", ask(client, b"R" + struct.pack("<II", len(data), 100), to), b"")
            expect("  more than the interface carries", ask(client, b"R" + struct.pack("<II", 0, 9000), to), b"too_large")
            answer = ask(client, b"L" + struct.pack("<I", 3000), to)
            expect("  a longer answer in the request's own frame", (len(answer), answer[:5]), (3000, b"L" + struct.pack("<I", 3000)))
            expect("  longer than the frame", ask(client, b"L" + struct.pack("<I", 4000), to), b"bad_range")
            expect("  shorter than a request of several frames", ask(client, (b"L" + struct.pack("<I", 100)).ljust(8000, b"x"), to),
                   (b"L" + struct.pack("<I", 100)).ljust(100, b"x"))
            client.sendto(b"D", to)  # no answer: the next one is to the next request
            expect("  a request without an answer", ask(client, b"Enext", to), b"Enext")
    for command in (["ping", "-c", "3", "-w", "30", "-i", "0.01", "10.9.0.2"], ["ping", "-c", "3", "-w", "30", "-i", "0.01", "-s", "20000", "10.9.0.2"], ["ping", "-c", "3", "-w", "30", "-i", "0.01", "fd09::2"]):
        done = subprocess.run(pair.command(pair.here, *command), capture_output=True, text=True)
        expect(f"  {' '.join(command)}", "3 received" in done.stdout, True)
    expect("  TCP at the same port number", tcp_echo(pair), True)
    with netns.udp(pair.there, ("10.9.0.2", OTHER)) as plain, netns.udp(pair.here) as client:
        client.sendto(b"plain", ("10.9.0.2", OTHER))
        expect("  another port is a socket's", plain.recv(100), b"plain")
    report = server.end()
    expect("  no payload was copied", report["copies"], 0)
    expect("  released: one of each address family without an answer, and seven answered from the file", report["released"], 2 * 8)


def main():
    reason = netns.why_not()
    if reason:
        print(f"skipped: {reason}")
        return 77
    with netns.Pair() as pair, tempfile.TemporaryDirectory() as folder:
        untouched(pair)
        kernel_clients(pair, RANDOM.randbytes(64 << 10), pathlib.Path(folder))
    expect("no namespace is left", [name for name in os.listdir("/run/netns") if name.startswith(f"chainio-{os.getpid()}-")], [])
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
