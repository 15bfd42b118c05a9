#!/usr/bin/env python3
"""AF_XDP's surroundings: modes, queues, foreign programs, interfaces that go down, killed servers, other processes over the shared region."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from netns import ip, until
from runs import expect
from xdp_server import PORT, Server, serve_command

TO = ("10.9.0.2", PORT)
FOREIGN = '__attribute__((section("xdp"), used)) int foreign(void *ctx) { return 2; }\nchar _license[] __attribute__((section("license"), used)) = "GPL";\n'


def answered(client, request=b"Ehello"):
    try:
        client.send(request)
        return client.recv(65535)
    except OSError:  # no answer in time, or the interface is down and nobody is known there
        return None


def connected(pair, timeout=netns.PATIENCE):
    client = netns.udp(pair.here)
    client.settimeout(timeout)
    client.connect(TO)
    return client


def refused(pair, *options, port=PORT, interface="vb"):
    done = subprocess.run(serve_command(pair, *options, port=port, interface=interface), capture_output=True, text=True, timeout=netns.PATIENCE)
    return done.returncode, done.stdout, done.stderr.strip().removeprefix("bench_xdp: ")


def attached(pair):
    return pair.link(pair.there, "vb").get("xdp")


def modes(pair, folder):
    server = Server(pair, "--attach", "generic")
    expect("generic, as asked", ", generic program, copy" in server.mode, True)
    expect("  is attached so", attached(pair)["mode"], 2)
    with connected(pair) as client:
        for size in (1, 1400, 8000):
            expect(f"  {size} bytes", answered(client, b"E" * size), b"E" * size)
    server.end()
    code, _, said = refused(pair, "--copy", "zero-copy")
    expect("zero-copy, where there is none", (code, said),
           (3, "an AF_XDP socket cannot be bound to queue 0 of vb: its driver has no zero-copy mode; copy mode works with any"))
    expect("  leaves no program", attached(pair), None)

    (folder / "data").write_bytes(bytes(range(256)) * 64)
    server = Server(pair, "--single-buffer", "--file", folder / "data")
    expect("single-buffer, as asked", ", single-buffer" in server.mode, True)
    with connected(pair) as client, netns.udp(pair.there, TO) as plain:
        for what, length in (("  an answer from a file", 1000), ("  one that lies in two frames is copied into one", 4050)):
            expect(what, answered(client, b"R" + struct.pack("<II", 3, length)), (bytes(range(256)) * 64)[3:3 + length])
        expect("  what needs several frames is refused", answered(client, b"R" + struct.pack("<II", 0, 8000)), b"too_large")
        longest = 4096 - 14 - 20 - 8  # of a datagram in a frame
        expect("  what cannot be one frame is told from what has no room", [answered(client, b"L" + struct.pack("<I", longest + more)) for more in (0, 1)], [b"bad_range", b"too_large"])
        client.send(b"E" * 5000)
        expect("  what comes in several is the kernel's", plain.recv(65535), b"E" * 5000)
    expect("  and the copy is counted", server.end()["copies"], 1)


def refusals(pair):
    code, _, said = refused(pair, port=0)
    expect("port 0", (code, said), (3, "UDP port 0 cannot be served"))
    code, _, said = refused(pair, "--queues", "3")
    expect("more queues than there are", (code, said), (3, "vb has 2 receive queues, not 3"))
    code, _, said = refused(pair, "--entries", "100")
    expect("entries", (code, said), (3, "frames a queue are a power of two, 64 to 16384, not 100"))
    ip("link", "set", "vb", "down", namespace=pair.there)
    code, _, said = refused(pair)
    expect("down", (code, said), (3, "vb is down: `ip link set vb up` first"))
    ip("link", "set", "vb", "up", namespace=pair.there)
    if os.path.exists("/dev/net/tun"):
        ip("tuntap", "add", "tunnel", "mode", "tun", namespace=pair.there)
        ip("link", "set", "tunnel", "up", namespace=pair.there)
        code, _, said = refused(pair, interface="tunnel")
        expect("packets without an Ethernet header", (code, said),
               (3, "tunnel has no Ethernet packets, as a tunnel's, and only of these datagrams are taken; give the interface that its packets leave by, or serve "
                   "the port `via uring`"))
        ip("link", "del", "tunnel", namespace=pair.there)
    else:
        print("skipped: packets without an Ethernet header: there is no /dev/net/tun")
    first = Server(pair)
    code, _, said = refused(pair, port=9002)
    program = attached(pair)["prog"]["id"]
    expect("a second server on the interface", (code, said),
           (3, f"the XDP program 'chainio_take' (id {program}) is attached to vb, and is not replaced: another runtime of "
            "ours serves there until it ends: have one serve both, or serve the port `via uring`"))
    with connected(pair) as client:
        expect("  the first goes on", answered(client), b"Ehello")
    first.end()


def of_interface(pair):
    """What --check-system says by name, of the interface too."""
    words = pair.command(pair.there, runs.BUILD / "bin" / "chainio-runtime", "--check-system", "--json", "--interface", "vb")
    return {fact["name"]: fact for fact in json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)}


def foreign(pair, folder):
    """Somebody else's program stays, and cannot push ours out either."""
    (folder / "foreign.c").write_text(FOREIGN)
    compiled = folder / "foreign.o"
    subprocess.run(["clang-19", "--target=bpfel", "-O2", "-g", "-c", folder / "foreign.c", "-o", compiled], check=True)
    attach = ["link", "set", "dev", "vb", "xdp", "obj", compiled, "sec", "xdp"]
    ip(*attach, namespace=pair.there)
    program = attached(pair)["prog"]["id"]
    code, _, said = refused(pair)
    expect("a foreign program", (code, said),
           (3, f"the XDP program 'foreign' (id {program}) is attached to vb, and is not replaced: `ip link set dev vb xdp off` removes it, or the end of who "
            "holds it by a link, or serve the port `via uring`"))
    of_system = of_interface(pair)
    beside = "libxdp's dispatcher is joined; beside another program nothing is taken, and services are served by sockets"
    expect("  --check-system names it", (of_system["XDP programs"]["detail"], of_system["interface vb"]["remedy"]), (f"vb: 'foreign' (id {program})", beside))
    expect("    with the interface", of_system["interface vb"]["detail"].endswith(f"; the XDP program 'foreign' (id {program}) is there"), True)
    expect("  is still there", attached(pair)["prog"]["id"], program)
    with netns.udp(pair.there, TO) as plain, connected(pair) as client:
        client.send(b"by the socket path")
        expect("  the socket path works beside it", plain.recv(100), b"by the socket path")
    ip("link", "set", "dev", "vb", "xdp", "off", namespace=pair.there)
    of_system = of_interface(pair)
    expect("  --check-system of the interface alone", (of_system["XDP programs"]["detail"], of_system["interface vb"]["state"], of_system["interface vb"]["remedy"]), ("no interface has one", "ok", ""))
    expect("    says what it is", re.fullmatch(r"veth, up, \d+ queues?, MTU 1500, (native XDP, copy|generic XDP, or native where the driver does not say so)", of_system["interface vb"]["detail"]) is not None, True)
    server = Server(pair)
    ours = attached(pair)["prog"]["id"]
    try:
        ip(*attach, namespace=pair.there)
        expect("  ours is replaced", True, False)
    except RuntimeError:
        expect("  ours is not replaced", attached(pair)["prog"]["id"], ours)
    server.end()


def queues(pair):
    server = Server(pair)
    for port in range(64):
        with netns.udp(pair.here, ("10.9.0.1", 20000 + port)) as client:
            client.connect(TO)
            expect("an answer by whichever queue", answered(client), b"Ehello") if port == 0 else answered(client)
    expect("  both queues had work", server.end()["by_queue"], lambda counts: len(counts) == 2 and all(counts) and sum(counts) == 64)
    server = Server(pair, "--queues", "1")
    with netns.udp(pair.there, TO) as plain:
        plain.settimeout(0.5)
        served = 0
        for port in range(64):
            with netns.udp(pair.here, ("10.9.0.1", 20000 + port)) as client:
                client.connect(TO)
                client.send(b"Ehello")
                client.setblocking(False)

                def arrived():
                    nonlocal served
                    try:
                        served += client.recv(100) == b"Ehello"
                        return True
                    except BlockingIOError:
                        pass
                    plain.setblocking(False)
                    try:
                        plain.recv(100)
                        return True
                    except BlockingIOError:
                        return False

                until("the datagram is answered or the kernel's", arrived)
    report = server.end()
    expect("a queue without a socket leaves it to the kernel", (report["received"], report["by_queue"]), (served, [served]))
    expect("  and not all", 0 < served < 64, True)


def down_and_up(pair, removed=True):
    server = Server(pair)
    with connected(pair, timeout=0.2) as client:
        for turn in range(3):
            until("an answer", lambda: answered(client) == b"Ehello")
            ip("link", "set", "vb", "down", namespace=pair.there)
            ip("link", "set", "vb", "up", namespace=pair.there)
    with connected(pair) as client:
        until("an answer after the last time", lambda: answered(client) == b"Ehello")
    expect("the interface goes down and up under it", server.end()["answered"], lambda n: n >= 4)
    if not removed:
        return
    server = Server(pair)
    ip("link", "del", "vb", namespace=pair.there)
    server.end()
    expect("the interface is removed under it", server.process.returncode, 0)


def killed(pair):
    server = Server(pair)
    with connected(pair) as client:
        expect("a server that is to be killed", answered(client), b"Ehello")
    server.kill()
    until("the kernel detaches its program", lambda: attached(pair) is None)
    with netns.udp(pair.there, TO) as plain, connected(pair) as client:
        client.send(b"now a socket's")
        expect("  the port is the kernel's again", plain.recv(100), b"now a socket's")
    server = Server(pair)
    with connected(pair) as client:
        expect("  and the next server starts", answered(client), b"Ehello")
    server.end()


def other_process(pair):
    """The answers are made by a process that only has the region's memfd; what it writes wrong is an error."""
    server = Server(pair, "--worker")
    with connected(pair) as client:
        for size in (1, 2, 1000):
            request = b"E" + os.urandom(size).replace(b"X", b"Y")
            expect(f"another process answers {size} bytes", answered(client, request), b"W" + request[1:])
        client.send(b"D")
        expect("  it may give a request back", answered(client, b"EX hostile"), b"WX hostile")
    report = server.end()
    expect("  its bad descriptor was refused by name", report["faults"], {"bad_frame": 1})
    expect("  released", report["released"], 1)


def checked():
    """The runtime tries the same, in a namespace of its own."""
    said = subprocess.run([runs.BUILD / "bin" / "chainio-runtime", "--check-system"], capture_output=True, text=True, check=True).stdout
    line = next(each for each in said.splitlines() if "AF_XDP:" in each)
    expect("--check-system", line, lambda text: re.fullmatch(r"ok +AF_XDP: AF_XDP on chainio0 \(veth\): \d+ queues?, native program, copy, need-wakeup, "
                                                            r"multi-buffer, frames of 4096 bytes in (4 K|2 M)iB pages", text))
    # The same without what it takes.
    said = subprocess.run(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", runs.BUILD / "bin" / "chainio-runtime", "--check-system", "--json"],
                          capture_output=True, text=True, check=True).stdout
    row = next(row for row in json.loads(said) if row["name"] == "AF_XDP")
    expect("  without the privilege for that, which services do not need", row,
           {"name": "AF_XDP", "state": "unknown", "detail": "no network namespace to try it in: Operation not permitted",
            "remedy": "run this as root, with veth in the kernel; services `via xdp` need less than the trial: CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON"})


def main():
    reason = netns.why_not()
    if reason:
        print(f"skipped: {reason}")
        return 77
    with netns.Pair() as pair, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        modes(pair, folder)
        refusals(pair)
        queues(pair)
        killed(pair)
        other_process(pair)
        down_and_up(pair)
    with netns.Pair(mtu=1500) as pair, tempfile.TemporaryDirectory() as name:
        foreign(pair, pathlib.Path(name))
    checked()
    expect("no namespace is left", [name for name in os.listdir("/run/netns") if name.startswith(f"chainio-{os.getpid()}-")], [])
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
