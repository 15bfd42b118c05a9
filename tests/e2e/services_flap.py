#!/usr/bin/env python3
"""Interfaces that come, go and come back under a running daemon: AF_XDP is had again, what becomes of it is said and counted, no frame is lost."""
import contextlib
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import netns
import runs
from netns import ip, until
from runs import expect
from services_udp import DATA, ask, prepare
from services_xdp import THERE, OnVeth

SECOND = "10.10.0.2"
MANY = 3000
GONE = "vb is gone: AF_XDP on it ends, its services are served via uring\n"


class Flapping(OnVeth):
    def right(self, what, address=THERE[0], by_interface=True):
        """One request and its reply, and which way they went."""
        before = self.interface()["received"] if by_interface else 0
        with self.client(address=address) as sock:
            expect(f"{what}: a reply", ask(sock, 9, b"row 1 10 1\n")[0], DATA[1000:1010] + b"|")
        interfaces = self.all_stats()["interfaces"]
        expect("  by the interface" if by_interface else "  by the socket", interfaces[0]["received"] - before if by_interface else interfaces, 1 if by_interface else [])

    def opened(self, times):
        until(f"vb is opened, number {times}", lambda: [(each["name"], each["opened"]) for each in self.all_stats()["interfaces"]] == [("vb", times)])

    def has_said(self, line, times):
        """What a line of standard error begins with, and how often."""
        until(f"'{line}' is said", lambda: sum(said.startswith(line) for said in self.said) >= times)
        expect(f"said: {line.strip()}", sum(said.startswith(line) for said in self.said), times)

    def fallbacks(self, name):
        return [(each["reason"], each["count"]) for each in self.all_stats()["fallbacks"] if each["name"] == name]

    def reload(self):
        edition = self.all_stats()["edition"]
        self.process.send_signal(signal.SIGHUP)
        until("the next edition runs alone", lambda: (lambda now: now["edition"] == edition + 1 and not now["before_runs"])(self.all_stats()))


def frames(server):
    stats = server.all_stats()
    return stats["frames_in_use"] - sum(each["frames_posted"] for each in stats["interfaces"])


def test_reload_while_down(folder, pair):
    server = Flapping(folder, pair, "--interface", "vb")
    server.right("at the start")
    base = frames(server)
    ip("link", "set", "vb", "down", namespace=pair.there)
    for count in (1, 2):
        server.reload()
        until("it is refused", lambda: server.fallbacks("xdp-refused") == [("vb is down: `ip link set vb up` first; served via uring", count)])
    server.has_said("fallback xdp-refused (1x): vb is down: `ip link set vb up` first; served via uring", 1)
    expect("no interface while it is down", server.all_stats()["interfaces"], [])
    until("nor any of its frames", lambda: server.all_stats()["frames_in_use"] == 0)
    ip("link", "set", "vb", "up", namespace=pair.there)
    server.opened(2)
    server.has_said("AF_XDP on vb", 2)
    server.right("after it is up again")
    # Down and up alone: the sockets stay.
    ip("link", "set", "vb", "down", namespace=pair.there)
    ip("link", "set", "vb", "up", namespace=pair.there)
    server.right("after a mere down and up")
    ip("addr", "add", "10.9.0.7/24", "dev", "vb", namespace=pair.there)
    until("an address that it gets later is taken", lambda: taken_at(server, "10.9.0.7"))
    expect("it was not opened for that", (server.interface()["opened"], server.all_stats()["interfaces_gone"]), (2, 0))
    server.no_frame_is_lost()
    expect("as many frames as before", frames(server), base)
    expect("ends", server.stop(), 0)
    expect("nothing else was said of vb", [line for line in server.said if "vb" in line and line.startswith(("fallback xdp-refused", "vb "))],
           lambda lines: len(lines) == 1)
    ip("addr", "del", "10.9.0.7/24", "dev", "vb", namespace=pair.there)


def turns(server):
    """Turns of the daemon, whose one loop hears the news: a hundred requests. None from a port of its own, of which it would have to ask who that is."""
    asked = 0
    while asked < 100:
        with server.client() as sock:
            if sock.getsockname()[1] not in server.ports.values():
                ask(sock, 9, b"row 1 10 1\n")
                asked += 1


def test_no_descriptor_left(folder, pair):
    """News of links while the daemon may open nothing more: it cannot ask, and keeps what it has."""
    server = Flapping(folder, pair, "--interface", "vb")
    server.right("at the start")
    before = server.interface()
    with netns.without_descriptor(server.process.pid):
        for change in ("add", "del"):
            ip("addr", change, "10.9.0.8/24", "dev", "vb", namespace=pair.there)
        turns(server)
    after = server.interface()
    expect("the interface is the one before, and took all", (after["opened"], after["received"] - before["received"]), (before["opened"], 100))
    expect("nothing was said to be gone", server.all_stats()["interfaces_gone"], 0)
    expect("ends", server.stop(), 0)


def test_addresses_without_descriptor(folder, pair):
    """An address that comes or goes while the kernel cannot be asked is looked at as soon as it can."""
    server = Flapping(folder, pair, "--interface", "vb")
    server.right("at the start")
    with netns.without_descriptor(server.process.pid):
        ip("addr", "add", "10.9.0.8/24", "dev", "vb", namespace=pair.there)
        server.has_said("fallback xdp-addresses (1x): cannot ask for the addresses of 'vb': Too many open files; datagrams to its newer addresses come by the socket", 1)
    until("it is taken, without further news", lambda: taken_at(server, "10.9.0.8"))
    expect("it was said once", [count for _, count in server.fallbacks("xdp-addresses")], [1])
    ip("addr", "del", "10.9.0.8/24", "dev", "vb", namespace=pair.there)
    expect("ends", server.stop(), 0)


def test_changes_without_descriptor(folder, pair):
    """Whatever the kernel has told of an interface while it could not be asked what is behind that is looked at as soon as it can."""
    server = Flapping(folder, pair, "--interface", "vb")
    server.right("at the start")

    def change(*words):
        with netns.without_descriptor(server.process.pid):
            ip("link", "set", "dev", "vb", *words, namespace=pair.there)
            ip("neigh", "flush", "dev", "va", namespace=pair.here)
            turns(server)

    change("mtu", 1500)
    server.has_said("vb has an MTU of 1500 instead of 9000: replies by AF_XDP keep to it\n", 1)
    change("address", "02:00:00:00:09:03")
    server.has_said("vb has another MAC address: AF_XDP on it begins anew\n", 1)
    server.opened(2)
    until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
    with netns.without_descriptor(server.process.pid):
        ip("link", "del", "vb", namespace=pair.there)
        server.has_said(GONE, 1)
        server.has_said("fallback xdp-refused (1x): cannot ask about interface 'vb': Too many open files; served via uring\n", 1)
        pair.connect()
    server.opened(3)
    until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
    server.right("after all of this")
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


@contextlib.contextmanager
def with_descriptors(pid, spare):
    """A process may open so many more, and no others, meanwhile."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    free = (number for number in itertools.count() if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(itertools.islice(free, spare, None)), limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def test_opened_without_descriptors(folder, pair):
    """An interface that can be asked about, but for which there are too few descriptors, is opened as soon as there are more."""
    for spare in (2, 4, 9):
        ip("link", "del", "vb", namespace=pair.there)
        server = Flapping(folder, pair, "--interface", "vb")
        lacks = lambda: [line for line in server.said if line.startswith("fallback xdp-refused") and "Too many open files" in line]
        with with_descriptors(server.process.pid, spare):
            pair.connect()
            until(f"it is refused with {spare} descriptors to spare", lacks)
        server.opened(1)
        until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
        print("      " + lacks()[0].strip())
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)


INTERRUPTED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
struct bpf_object;
int bpf_object__load(struct bpf_object *object) {
    if (access("FILE", F_OK) == 0) return -(errno = EAGAIN);
    return ((int (*)(struct bpf_object *))dlsym(RTLD_NEXT, "bpf_object__load"))(object);
}
"""


def test_interrupted(folder, pair):
    """An interface whose program the kernel has not loaded, as signals have come meanwhile, again and again, is opened once it does."""
    there = folder / "signals"
    there.touch()
    (folder / "interrupted.c").write_text(INTERRUPTED.replace("FILE", str(there)))
    subprocess.run(["clang-19", "-shared", "-fPIC", "-o", folder / "interrupted.so", folder / "interrupted.c"], check=True)
    server = Flapping(folder, pair, "--interface", "vb", preload=folder / "interrupted.so")
    server.has_said("fallback xdp-refused (1x): the kernel does not load the XDP program: Resource temporarily unavailable; served via uring\n", 1)
    server.right("meanwhile", by_interface=False)
    there.unlink()
    server.opened(1)
    server.right("then")
    expect("ends", server.stop(), 0)


def test_counted_without_descriptor(folder, pair):
    """What a program has counted, on each processor, is read at its end, also where nothing can be opened to see how many there are."""
    server = Flapping(folder, pair, "--interface", "vb")
    with netns.without_descriptor(server.process.pid):
        ip("link", "del", "vb", namespace=pair.there)
        server.has_said("fallback xdp-refused (1x): cannot ask about interface 'vb': Too many open files; served via uring\n", 1)
        pair.connect()
    server.opened(2)
    expect("ends", server.stop(), 0)
    expect("libbpf has complained of nothing", [line for line in server.said if "libbpf" in line], [])


def taken_at(server, address):
    before = server.interface()["received"]
    with server.client(address=address) as sock:
        ask(sock, 9, b"row 1 10 1\n")
    return server.interface()["received"] > before


def test_removed(folder, pair, *options):
    server = Flapping(folder, pair, "--interface", "vb", *options)
    server.right("at the start")
    base = frames(server)
    for times in (1, 2):
        index = pair.link(pair.there, "vb")["ifindex"]
        ip("link", "del", "vb", namespace=pair.there)
        until("it is noticed", lambda: server.all_stats()["interfaces_gone"] == times)
        server.has_said(GONE, times)
        until("all its frames are back", lambda: server.all_stats()["frames_in_use"] == 0)
        expect("no interface", server.all_stats()["interfaces"], [])
        until("why, is counted", lambda: server.fallbacks("xdp-refused") == [("there is no network interface 'vb': `ip link` lists them; served via uring", times)])
        if times == 2:
            server.reload()
        # The second time under the number that it had.
        pair.connect(index if times == 2 else None)
        server.opened(1 + times)
        until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
        server.right("after it is back")
        expect("its program is attached", "xdp" in pair.link(pair.there, "vb"), True)
        server.no_frame_is_lost()
        expect("as many frames as before", frames(server), base)
    # Removed and made again before anybody looks, with requests in its queues: their replies have nowhere to go.
    before = server.stats()["datagrams"]
    with daemon.halted(server.process):
        with server.client() as sock:
            for number in range(100):
                sock.send(struct.pack("!I", number) + b"row 1 5000 1\n")
        index = pair.link(pair.there, "vb")["ifindex"]
        ip("link", "del", "vb", namespace=pair.there)
        pair.connect(index)
    server.opened(4)
    expect("what was in its queues was taken", server.stats()["datagrams"] - before, 100)
    until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
    server.has_said(GONE, 3)
    server.has_said("AF_XDP on vb", 4)
    server.no_frame_is_lost()
    expect("as many frames as before", frames(server), base)
    expect("no edition has kept a frame", server.all_stats()["leaked_frames"], 0)
    expect("ends", server.stop(), 0)
    expect("the program is gone with it", "xdp" in pair.link(pair.there, "vb"), False)


def test_comes_later(folder, pair):
    ip("link", "del", "vb", namespace=pair.there)
    server = Flapping(folder, pair, "--interface", "vb")
    server.has_said("fallback xdp-refused (1x): there is no network interface 'vb': `ip link` lists them; served via uring", 1)
    pair.connect()
    server.opened(1)
    until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
    server.has_said("AF_XDP on vb", 1)
    ip("link", "set", "vb", "name", "vc", namespace=pair.there)
    server.has_said(GONE, 1)
    until("all its frames are back", lambda: server.all_stats()["frames_in_use"] == 0)
    ip("link", "set", "vc", "up", namespace=pair.there)
    server.right("under another name", by_interface=False)
    expect("ends", server.stop(), 0)
    ip("link", "set", "vc", "name", "vb", namespace=pair.there)


def test_comes_with_more_queues(folder):
    """What waits in its queues has no memory then, and takes none from the requests; a reload has some for it."""
    usual = os.cpu_count() or 1
    if usual >= 64:
        return print("skipped: an interface with more queues than processors: it may have 64")
    with netns.Pair(queues=min(2 * usual + 1, 64), name="wide") as wide:
        ip("link", "del", "vb", namespace=wide.there)
        server = Flapping(folder, wide, "--interface", "vb", "--memory", "2MiB")
        wide.connect()
        why = f"vb has {wide.queues} queues, for which memory is taken at the start and with each reload: reload; served via uring until then"
        until("it is refused", lambda: server.fallbacks("xdp-refused")[-1:] == [(why, 1)])
        expect("  it has none of the memory", server.all_stats()["frames_in_use"], 0)
        server.right("  and the socket serves", by_interface=False)
        server.reload()
        server.opened(1)
        server.right("after a reload")
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)


@contextlib.contextmanager
def second(pair):
    """Another pair beside the first: wa (10.10.0.1) here and wb (10.10.0.2) there."""
    many = ["numrxqueues", pair.queues, "numtxqueues", pair.queues]
    ip("link", "add", "wa", "netns", pair.here, *many, "type", "veth", "peer", "name", "wb", "netns", pair.there, *many)
    for namespace, device, number in ((pair.here, "wa", 1), (pair.there, "wb", 2)):
        ip("link", "set", device, "mtu", pair.mtu, "up", namespace=namespace)
        ip("addr", "add", f"10.10.0.{number}/24", "dev", device, namespace=namespace)
    try:
        yield SECOND
    finally:
        ip("link", "del", "wa", namespace=pair.here)


def by_name(server):
    return {each["name"]: each for each in server.all_stats()["interfaces"]}


def all_right(server, what, name, address, posted):
    """Many requests, more than the interface has frames, all of them by it, and `posted` frames wait for more."""
    before = by_name(server)[name]
    with server.client(address=address) as sock:
        wrong = [row for row in range(MANY) if ask(sock, row, b"row %d 10 1\n" % (row % 500))[0] != DATA[row % 500 * 1000:][:10] + b"|"]
    after = by_name(server)[name]
    expect(f"{what}: {MANY} replies by {name} are right", (wrong[:3], after["received"] - before["received"]), ([], MANY))
    expect("  nothing there was taken for a wrong frame", [after[each] for each in ("malformed", "invalid", "dropped", "no_frame")], [0] * 4)
    # The kernel may say that a packet is there before it says that there is room for the next frame.
    until("as many frames are posted as at the start", lambda: by_name(server)[name]["frames_posted"] == posted)


def test_two(folder, pair):
    """What becomes of one interface is nothing to the other, whose frames lie in the same memory."""
    with second(pair) as other:
        server = Flapping(folder, pair, "--interface", "vb", "--interface", "wb")
        posted = by_name(server)["wb"]["frames_posted"]  # as many as of the other, which is made as this one is
        all_right(server, "at the start", "vb", THERE[0], posted)
        all_right(server, "at the start", "wb", other, posted)
        ip("link", "del", "vb", namespace=pair.there)
        until("it is noticed, and closed", lambda: server.all_stats()["interfaces_gone"] == 1 and list(by_name(server)) == ["wb"])
        until("its frames are back, and no others", lambda: server.all_stats()["frames_in_use"] == posted)
        all_right(server, "without the other", "wb", other, posted)
        pair.connect()
        until("both are taken", lambda: list(by_name(server)) == ["vb", "wb"])
        until("its addresses are taken", lambda: all(taken_at(server, address) for address in THERE))
        for times in (1, 2, 3):
            server.reload()
            until("both are taken after a reload", lambda: list(by_name(server)) == ["vb", "wb"])
            all_right(server, f"after reload {times}", "vb", THERE[0], posted)
            all_right(server, f"after reload {times}", "wb", other, posted)
        opened = by_name(server)["vb"]["opened"]
        ip("link", "set", "vb", "address", "02:00:00:00:00:09", namespace=pair.there)
        until("it is opened anew", lambda: by_name(server).get("vb", {}).get("opened") == opened + 1)
        all_right(server, "beside one that has another MAC address", "wb", other, posted)
        server.no_frame_is_lost()
        expect("no edition has kept a frame", server.all_stats()["leaked_frames"], 0)
        expect("ends", server.stop(), 0)


def down_behind(server, pair, send):
    """The daemon finds what is sent when its interface is down."""
    received = lambda: json.loads(ip("-j", "-s", "link", "show", "dev", "vb", namespace=pair.there))[0]["stats64"]["rx"]["packets"]
    with daemon.halted(server.process):
        before = received()
        send()
        until("the request is there", lambda: received() > before)
        ip("link", "set", "vb", "down", namespace=pair.there)


class Echo(Flapping):
    """Without a file, which would be looked at once a second."""
    ARTIFACT, FILE, SERVICES, ENDPOINTS = "echo.o", None, ("echo",), 1


def test_without_news(folder, pair):
    """A reply that waits for its interface to be up again leaves soon, also where nobody tells that it is."""
    (folder / "echo.chain").write_text("service echo on udp 7001 via xdp {\n  request { n: u32be }\n  on request { reply request.n:u32be }\n}\n")
    subprocess.run([runs.CHAINC, folder / "echo.chain", "-o", folder / "echo.o"], check=True)
    server = Echo(folder, pair, "--interface", "vb", preload=netns.unheard(folder))
    expect("it has no netlink socket", [count for _, count in server.fallbacks("xdp-not-watched")], [1])
    expect("nor one to ask how long replies may be on their way", server.fallbacks("xdp-path-unknown"),
           [("no netlink socket (`RestrictAddressFamilies=AF_NETLINK` lets systemd's services have one): replies go by the MTU of vb, and are lost "
             "where the way takes less", 1)])
    with server.client("echo") as sock:
        sock.send(b"here")
        expect("a reply by the interface", (sock.recv(100), server.interface()["replies"]), (b"here", 1))
        down_behind(server, pair, lambda: sock.send(b"down"))
        until("the reply waits", lambda: server.interface()["down"] > 0)
        ip("link", "set", "vb", "up", namespace=pair.there)
        expect("it leaves when the interface is up again", sock.recv(100), b"down")
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


def asked_at(server, address, kind):
    """What an address of vb's link alone answers."""
    with netns.inside(server.pair.here):
        sock, link = socket.socket(socket.AF_INET6, kind), socket.if_nametoindex("va")
    with sock:
        sock.settimeout(netns.PATIENCE)
        sock.connect((address, server.ports["lines", "tcp" if kind == socket.SOCK_STREAM else "udp"], 0, link))
        sock.sendall((b"" if kind == socket.SOCK_STREAM else struct.pack("!I", 9)) + b"row 1 10 1\n")
        return sock.recv(100)[-11:]


def test_bound_to_link(folder, pair, *options):
    """An address of a link that comes back with its interface is heard at again, at the same ports."""
    address, peer = "fe80::77", "fe80::66"

    def comes():
        ip("addr", "add", f"{peer}/64", "dev", "va", "nodad", namespace=pair.here)
        ip("addr", "add", f"{address}/64", "dev", "vb", "nodad", namespace=pair.there)
    comes()
    server = Flapping(folder, pair, *options, bind=f"{address}%vb")
    lost = "fallback bind-lost (1x): {}; nobody is heard at fe80::77%vb until that is over\n"
    kinds = socket.SOCK_STREAM, socket.SOCK_DGRAM
    expect("at the start", [asked_at(server, address, kind) for kind in kinds], [DATA[1000:1010] + b"|"] * 2)
    before = pair.link(pair.there, "vb")["ifindex"]
    ip("link", "del", "vb", namespace=pair.there)
    server.has_said(lost.format("'fe80::77%vb': there is no interface 'vb'; `ip link` lists them"), 1)
    expect("a reload goes on with what there is", server.control({"op": "reload"})["edition"], 2)
    pair.connect()
    expect("it comes back as another one", pair.link(pair.there, "vb")["ifindex"] == before, False)
    until("that its address is missing is said", lambda: any("no interface has that address" in line for line in server.said))
    comes()
    server.has_said("services listen at fe80::77%vb anew, as its interface is another one by now\n", 1)
    expect("it is heard at again", [asked_at(server, address, kind) for kind in kinds], [DATA[1000:1010] + b"|"] * 2)
    if options:
        server.opened(2)
    expect("ends", server.stop(), 0)
    ip("addr", "del", f"{peer}/64", "dev", "va", namespace=pair.here)
    ip("addr", "del", f"{address}/64", "dev", "vb", namespace=pair.there)


def test_end_while_down(folder, pair):
    """A reply that waits for its interface to be up again is not waited for at the end, which finds all frames back."""
    server = Flapping(folder, pair, "--interface", "vb")
    with server.client() as sock:
        down_behind(server, pair, lambda: sock.send(struct.pack("!I", 9) + b"row 1 10 1\n"))
        until("the reply waits", lambda: server.interface()["down"] > 0)
        expect("ends", server.stop(), 0)
    expect("  with nothing given up", [line for line in server.said if "given up" in line], [])
    ip("link", "set", "vb", "up", namespace=pair.there)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair() as pair:
        folder = pathlib.Path(name)
        prepare(folder, "xdp")
        test_reload_while_down(folder, pair)
        test_no_descriptor_left(folder, pair)
        test_addresses_without_descriptor(folder, pair)
        test_removed(folder, pair)
        test_changes_without_descriptor(folder, pair)
        test_opened_without_descriptors(folder, pair)
        test_interrupted(folder, pair)
        test_counted_without_descriptor(folder, pair)
        test_two(folder, pair)
        test_comes_later(folder, pair)
        test_comes_with_more_queues(folder)
        test_without_news(folder, pair)
        test_end_while_down(folder, pair)
        test_bound_to_link(folder, pair)
        test_bound_to_link(folder, pair, "--interface", "vb")
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
