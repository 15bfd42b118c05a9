#!/usr/bin/env python3
"""docs/a-request.md holds: the system calls of a daemon that answers one request after the other, seen by strace, are those that it names, as often as it says."""
import collections
import errno
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import netns
import runs
import started
from runs import BUILD, expect
from services_cache import PassPair

SPEC = """
app kv { files cold = "*.cold" { immutable direct }  files warm = "*.warm" { immutable } }
chain from_disk(file: file cold, number: u32) -> bytes(max 4096) hops 1 {
  step s(b: block at number * 4096 for 4096 in file) { return b }
}
chain from_memory(file: file warm, number: u32, length: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 4096 for length in file) { return b }
}
service disk on udp 7001 via xdp, tcp 7001 via uring { request { number: u32be }  on request { reply from_disk(cold["a.cold"], request.number) } }
service memory on udp 7002 via xdp { request { number: u32be }  on request { reply from_memory(warm["a.warm"], request.number, 1000) } }
service kept on udp 7003 via xdp { request { number: u32be }  cache 64 entries ttl 3600s  on request { reply from_memory(warm["a.warm"], request.number, 100) } }
service long on udp 7006 via xdp {
  request { number: u32be }
  on request { reply from_memory(warm["a.warm"], request.number, 61440) }
  on datagram { reply datagram.number:u16be }
}
service sockets on udp 7004 via uring { request { number: u32be }  on request { reply from_disk(cold["a.cold"], request.number) } }
service stream on tcp 7005 via uring { request { number: u32be }  on request { reply from_memory(warm["a.warm"], request.number, 61440) } }
"""
ADDRESS = "10.9.0.2"
ROWS, ASKED = 300, 200
BURST, SPUN = 32, 50
# What is done by the clock: the files' names are looked at once a second.
LOOKS = {"newfstatat", "statx", "fstat", "stat"}


def row(number):
    return (b"%07d " % number) * 512


def long_rows(number):
    return b"".join(map(row, range(number, number + 15)))


def in_datagrams(data):
    """As the service `long` cuts it: numbered pieces of one length."""
    return b"".join(struct.pack("!H", at // 1398) + data[at:at + 1398] for at in range(0, len(data), 1398))


class OnVeth(daemon.Daemon):
    FILE = "cold", "a.cold"

    def __init__(self, folder, pair, *options):
        ports = [word for service in ("disk", "memory", "kept", "long", "sockets", "stream") for word in ("--port", f"{service}=0")]
        super().__init__(folder / "app.o", "--file", f"warm={folder / 'a.warm'}", "--bind", ADDRESS, "--interface", "vb", *ports, *options,
                         prefix=pair.command(pair.there))

    def client(self, pair, service, transport):
        if transport == "udp":
            made = netns.udp(pair.here)
        else:
            with netns.inside(pair.here):
                made = socket.socket()
            made.settimeout(netns.PATIENCE)
        made.connect((ADDRESS, self.ports[service, transport]))
        return made


def ask(sock, number, length):
    sock.sendall(struct.pack("!I", number))
    got = b""
    while len(got) < length and (part := sock.recv(1 << 17)):
        got += part
    return got


def untraced():
    """Why strace cannot look at a process here; empty when it can. Asked before the test, which then leaves out nothing."""
    if not shutil.which("strace"):
        return "strace is not installed"
    with started.start(["sleep", "600"]) as process:
        tracer = started.start(["strace", "-f", "-p", process.pid, "-o", "/dev/null"], stderr=subprocess.PIPE, text=True)
        said = tracer.stderr.readline()
        process.kill()
        tracer.communicate(timeout=netns.PATIENCE)
    return "" if "attached" in said else f"strace cannot look at a process here: {said.strip()}"


def says_what_waits(folder):
    """Whether its file system tells of a read that would wait (RWF_NOWAIT), without which all reads go through the ring."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return False
    return True


def calls_of(process, folder, during, *options):
    """How often each system call is made by any thread of the process, meanwhile; and how many seconds that took."""
    out = folder / "calls"
    tracer = started.start(["strace", "-f", *options, "-p", str(process), "-o", str(out)], stderr=subprocess.PIPE, text=True)
    said = tracer.stderr.readline()
    if "attached" not in said:
        raise RuntimeError(f"strace cannot look at the daemon: {said.strip()}")
    begin = time.monotonic()
    try:
        during()
    finally:
        seconds = time.monotonic() - begin
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=netns.PATIENCE)
    names = re.findall(r"^\d+ +(\w+)\(", out.read_text(), flags=re.M)
    return collections.Counter(name for name in names if name not in LOOKS), seconds


def test_counts(server, folder, pair, service, transport, content, allowed, different=ASKED):
    sock, wrong = server.client(pair, service, transport), []

    def ask_all():
        for number in range(ASKED):
            want = content(number % different)
            if ask(sock, number % different, len(want)) != want:
                wrong.append(number)
    ask_all()  # so that what is done once has been done
    calls, seconds = calls_of(server.process.pid, folder, ask_all)
    sock.close()
    expect(f"{service} over {transport}: {2 * ASKED} replies are right", wrong, [])
    print("      " + ", ".join(f"{name} {count}" for name, count in calls.most_common()))
    others = 20 + 10 * seconds  # it wakes by the clock and by news of interfaces, too
    above = {name: count for name, count in calls.items() if count > allowed.get(name, 0) * ASKED + others}
    expect(f"  by no other calls than {allowed} a request", above, {})


def kicks_of_burst(server, folder, pair, service, content):
    """How often the kernel is told of replies, where all that happens while the daemon waits comes at once."""
    sock = server.client(pair, service, "udp")

    def ask_at_once():
        for number in range(BURST):
            sock.send(struct.pack("!I", number))
        got = sorted(sock.recv(1 << 17) for _ in range(BURST))
        expect(f"{service}: {BURST} replies at once are right", got, sorted(map(content, range(BURST))))
    calls, _ = calls_of(server.process.pid, folder, ask_at_once, "-e", "inject=io_uring_enter:delay_exit=100ms")
    sock.close()
    return calls["sendto"]


def test_bursts(server, folder, pair, by_preadv):
    """What a disk answers at once is replied to in pieces, so that nobody waits for all of it; what comes from memory is not."""
    from_disk = kicks_of_burst(server, folder, pair, "disk", row)
    expect("a burst from the disk leaves in pieces", from_disk >= 9, True)
    if not by_preadv:
        return
    from_memory = kicks_of_burst(server, folder, pair, "memory", lambda number: row(number)[:1000])
    print(f"      told {from_disk} times of {BURST} replies from the disk, {from_memory} times of as many from memory")
    expect("one from memory leaves whole", from_memory < 4, True)


def status(server, what):
    """A line of what the kernel says of its thread."""
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return re.search(rf"^{what}:\s+(\w+)", text, flags=re.M)[1]


def sleeps(server):
    """How often its thread has gone to sleep."""
    return int(status(server, "voluntary_ctxt_switches"))


def sleeps_meanwhile(server, sock):
    """How often it sleeps between requests, which replies to them are wrong, and the longest time in seconds from a reply to the next."""
    wrong, before, longest, last = [], sleeps(server), 0, time.monotonic()
    for number in range(SPUN):
        if ask(sock, number, len(row(number))) != row(number):
            wrong.append(number)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return sleeps(server) - before, wrong, longest


def test_spinning(folder, pair):
    """A daemon that does not look for long sleeps between requests; one that looks for longer than anything takes does not, nor amid them."""
    for spin_us, holds in ((0, lambda slept: slept >= SPUN), (1_000_000, lambda slept: slept <= SPUN // 10)):
        server = OnVeth(folder, pair, "--spin", spin_us)
        sock = server.client(pair, "sockets", "udp")
        sleeps_meanwhile(server, sock)  # so that what is done once has been done
        for _ in runs.tries():
            slept, wrong, longest = sleeps_meanwhile(server, sock)
            # A busy machine may have the next request there before it looks, or keep this script from asking for as long as it looks.
            if holds(slept) if spin_us == 0 else longest < 1:
                break
        sock.close()
        expect(f"--spin {spin_us}: {SPUN} replies are right", wrong, [])
        print(f"      slept {slept} times")
        expect("  and it sleeps as often as it should", holds(slept), True)
        expect("  ends", server.stop(), 0)


def main():
    if why := netns.why_not() or untraced():
        print(f"skipped: {why}")
        return 77
    place = next(filter(says_what_waits, (tempfile.gettempdir(), BUILD)), None)
    if not place:
        print("skipped: reads from memory without the ring: no file system here has RWF_NOWAIT")
    from_memory = {"io_uring_enter": 1, "preadv2": 1} if place else {"io_uring_enter": 2}
    with tempfile.TemporaryDirectory(dir=place) as name, PassPair() as pair:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        for file in ("a.cold", "a.warm"):
            (folder / file).write_bytes(b"".join(map(row, range(ROWS))))
        pair.program = netns.passing(folder)
        pair.link_pass()  # a veth's peer takes what the driver answers only if it has a program, too
        server = OnVeth(folder, pair)
        xdp = {"sendto": 1, "recvfrom": 1}
        # Over tcp a reply that is not copied ends once more, when the kernel lets go of its frame.
        for case in (("disk", "udp", row, {"io_uring_enter": 2, **xdp}),
                     ("memory", "udp", lambda number: row(number)[:1000], {**from_memory, **xdp}),
                     ("kept", "udp", lambda number: row(number)[:100], {}, 8),
                     ("sockets", "udp", row, {"io_uring_enter": 3}),
                     ("disk", "tcp", row, {"io_uring_enter": 3}),
                     # Its 44 packets are more than the kernel makes at once.
                     ("long", "udp", lambda number: in_datagrams(long_rows(number)), {**from_memory, "sendto": 4, "recvfrom": 1}),
                     ("stream", "tcp", long_rows, {**from_memory, "io_uring_enter": 2 + from_memory["io_uring_enter"]})):
            test_counts(server, folder, pair, *case)
        test_bursts(server, folder, pair, bool(place))
        expect("ends", server.stop(), 0)
        test_spinning(folder, pair)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
