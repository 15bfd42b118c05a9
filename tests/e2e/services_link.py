#!/usr/bin/env python3
"""Another MTU, another MAC address, and other offloads of an interface that AF_XDP serves: replies keep to the MTU, requests to the new address are
taken, and every checksum is right whoever computes it."""
import errno
import itertools
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
from netns import inside, ip, until  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from services_udp import DATA, SPEC, ask  # noqa: E402
from services_xdp import OnVeth  # noqa: E402

ADDRESSES = "10.9.0.2", "fd09::2"


def use_mtu(pair, mtu):
    for namespace, device in ((pair.there, "vb"), (pair.here, "va")):
        ip("link", "set", device, "mtu", mtu, namespace=namespace)


def plain(sock, row, length):
    sock.send(struct.pack("!II", row, length))
    return sock.recv(1 << 16)


def test_mtu(folder, pair):
    server = OnVeth(folder, pair, "--interface", "vb", "--datagram-bytes", 8000)
    for address, headers in zip(ADDRESSES, (28, 48)):
        lines, one = server.client(address=address), server.client("plain", address)
        want = DATA[1000:6000]
        said = len(server.said)
        for mtu, reply in ((9000, want), (1500, b"sorry"), (9000, want)):
            use_mtu(pair, mtu)
            if mtu == 1500 or said != len(server.said):
                until("it is said", lambda: any(f"vb has an MTU of {mtu} instead of" in line for line in server.said[said:]))
            before = server.interface()["replies"]
            expect(f"{address}, MTU {mtu}: a reply of 5000 bytes in one datagram", plain(one, 1, 5000), reply)
            got, count, longest = ask(lines, 7, b"row 1 5000 1\n")
            expect("  one that is cut is whole, and as long as may be", (got, longest <= mtu - headers, count), (want + b"|", True, 1 if mtu == 9000 else 4))
            expect("  by AF_XDP", server.interface()["replies"] - before, 2)
            expect("  the longest reply", len(plain(one, 1, mtu - headers)), mtu - headers)
            expect("  and one byte more", plain(one, 1, mtu - headers + 1), b"sorry")
        # Not every file system says whether a read would wait.
        expect("each change is said once", [line.strip() for line in server.said[said:] if not line.startswith("fallback no-nowait ")],
               ["vb has an MTU of 1500 instead of 9000: replies by AF_XDP keep to it", "vb has an MTU of 9000 instead of 1500: replies by AF_XDP keep to it"])
        lines.close()
        one.close()
    server.no_frame_is_lost()
    return server


def test_mac(server, pair):
    sock, said = server.client(), len(server.said)
    ip("link", "set", "vb", "address", "02:00:00:00:09:02", namespace=pair.there)
    until("it is opened anew", lambda: [each["opened"] for each in server.all_stats()["interfaces"]] == [2])
    ip("neigh", "flush", "dev", "va", namespace=pair.here)
    ask(sock, 1, b"row 1 1 1\n")  # by which the neighbour is found
    before = server.interface()
    expect("replies to the new address", [ask(sock, n, b"row %d 100 1\n" % n)[0] for n in range(20)], [DATA[n * 1000:n * 1000 + 100] + b"|" for n in range(20)])
    expect("are taken off the driver", server.interface()["replies"] - before["replies"], 20)
    until("it is said", lambda: any("vb has another MAC address" in line for line in server.said[said:]))
    expect("which is said once", sum("vb has another MAC address: AF_XDP on it begins anew" in line for line in server.said[said:]), 1)
    sock.close()
    server.no_frame_is_lost()


def use_offloads(pair, state):
    """Gives those that the driver does not let change: with an XDP program at one end, the other has no TSO."""
    fixed = set()
    for namespace, device in ((pair.there, "vb"), (pair.here, "va")):
        for name, on in state.items():
            try:
                netns.use_offload(namespace, device, name, on)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                fixed.add((device, name))
    return fixed


def sums_are_right(frame):
    """Of a whole UDP packet, the sums of its headers and of all of its bytes."""
    v6 = frame[12:14] == b"\x86\xdd"
    header = frame[14:54 if v6 else 34]
    if not v6 and netns.checksum(header) != 0:
        return False
    packet = frame[14 + len(header):]
    packet = packet[:struct.unpack("!H", packet[4:6])[0]]
    pseudo = (header[8:40] if v6 else header[12:20]) + struct.pack("!II", len(packet), 17)
    return packet[6:8] != b"\0\0" and netns.checksum(pseudo + packet) == 0


def test_offloads(server, pair):
    """Replies by AF_XDP carry their whole sums, whatever either end would compute; the kernel's own (tcp) come through as well."""
    seen = netns.packets(pair.here, "va")
    clients = [server.client(address=address) for address in ADDRESSES]
    tried = wrong = checked = 0
    fixed = set()
    for on in itertools.product((0, 1), repeat=len(netns.OFFLOADS)):
        state = dict(zip(netns.OFFLOADS, on))
        fixed |= use_offloads(pair, state)
        before = server.interface()["replies"]
        for sock, length in itertools.product(clients, (1, 1390, 7000, 60000)):
            tried += 1
            want = DATA[2000:2000 + length] + b"|"
            if ask(sock, tried, b"row 2 %d 1\n" % length)[0] != want:
                wrong += expect(f"{length} bytes with {state}", "another reply", "that one") is False
        with inside(pair.here):
            stream = socket.create_connection(("10.9.0.2", server.ports["lines", "tcp"]), timeout=netns.PATIENCE)
        with stream:
            stream.sendall(b"row 3 60000 1\n")
            got = b""
            while len(got) < 60001 and (more := stream.recv(1 << 16)):
                got += more
            wrong += got != DATA[3000:63000] + b"|"
        if server.interface()["replies"] == before:
            expect(f"replies by AF_XDP with {state}", 0, "some")
        try:
            while True:
                frame = seen.recv(1 << 16)
                udp_v4, udp_v6 = frame[12:14] == b"\x08\0" and frame[23] == 17, frame[12:14] == b"\x86\xdd" and frame[20] == 17
                if frame[:6] == bytes.fromhex(pair.link(pair.here, "va")["address"].replace(":", "")) and (udp_v4 or udp_v6) and checked < 2000:
                    checked += 1
                    wrong += not sums_are_right(frame)
        except TimeoutError:
            pass
    expect(f"{tried} replies with {2 ** len(netns.OFFLOADS)} sets of offloads, and {checked} packets of them looked at", (wrong, checked > 500), (0, True))
    expect("of which the driver lets these not be changed", fixed - {("va", "tso"), ("va", "gso")}, set())
    for sock in (*clients, seen):
        sock.close()
    server.no_frame_is_lost()


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair() as pair:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC.replace("via uring", "via xdp").replace("via auto", "via xdp").replace("tcp 7001 via xdp", "tcp 7001 via uring"))
        (folder / "a.rows").write_bytes(DATA)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.bpf.o"], check=True)
        server = test_mtu(folder, pair)
        try:
            test_mac(server, pair)
            test_offloads(server, pair)
        finally:
            code = server.stop()
        expect("ends", code, 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
