#!/usr/bin/env python3
"""Interfaces that services are given by another of their names (altname), such that have no address, lo and bonds."""
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
from netns import ip, until  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from services_flap import Flapping, taken_at  # noqa: E402
from services_udp import DATA, ask, prepare  # noqa: E402
from services_xdp import HERE, THERE  # noqa: E402

HEARD = "vb has an address at which services listen: what is sent there is taken off it"
ALTNAME = "v-two"  # begins otherwise than the names that the kernel lists


def refused(pair, folder, *names):
    words = [word for name in names for word in ("--interface", name)]
    command = pair.command(pair.there, BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.bpf.o", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=netns.PATIENCE)
    return done.returncode, done.stderr


def test_altname(folder, pair):
    ip("link", "property", "add", "dev", "vb", "altname", ALTNAME, namespace=pair.there)
    server = Flapping(folder, pair, "--interface", ALTNAME)
    for address in THERE:
        server.right(f"given as {ALTNAME}, {address}", address)
    before = server.interface()
    expect("it is named as it was given", (before["name"], before["mode"].startswith(f"AF_XDP on {ALTNAME} (veth)")), (ALTNAME, True))
    # Another interface's news: of links, and of addresses.
    ip("link", "add", "vc", "type", "veth", "peer", "name", "vd", namespace=pair.there)
    ip("link", "set", "vc", "up", namespace=pair.there)
    ip("addr", "add", "10.7.0.1/24", "dev", "vc", namespace=pair.there)
    ip("link", "del", "vc", namespace=pair.there)
    ip("addr", "add", "10.9.0.7/24", "dev", "vb", namespace=pair.there)  # heard behind the others
    until("an address that it gets later is taken", lambda: taken_at(server, "10.9.0.7"))
    ip("addr", "del", "10.9.0.7/24", "dev", "vb", namespace=pair.there)
    expect("other interfaces' news close nothing", (server.interface()["opened"], server.all_stats()["interfaces_gone"]), (1, 0))
    server.reload()
    until("it is taken again", lambda: [(each["name"], each["opened"]) for each in server.all_stats()["interfaces"]] == [(ALTNAME, 2)])
    server.right("after a reload")
    ip("link", "set", "vb", "mtu", 8000, namespace=pair.there)
    server.has_said(f"{ALTNAME} has an MTU of 8000 instead of 9000", 1)
    ip("link", "set", "vb", "mtu", 9000, namespace=pair.there)
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


def test_given_twice(folder, pair):
    for names in (("vb", ALTNAME), (ALTNAME, "vb")):
        expect(f"refused: {' and '.join(names)}", refused(pair, folder, *names),
               (2, f"chainio-runtime: --interface is given twice for 'vb', as '{names[0]}' and as '{names[1]}'; keep one of the two\n"))
    # One that is not there yet has one name alone.
    ip("link", "property", "del", "dev", "vb", "altname", ALTNAME, namespace=pair.there)
    server = Flapping(folder, pair, "--interface", "vb", "--interface", ALTNAME)
    server.right("one of the two is not there")
    ip("link", "property", "add", "dev", "vb", "altname", ALTNAME, namespace=pair.there)
    again = f"{ALTNAME} is another name of an interface that is taken already: keep one of the two"
    until("it is said that both are one", lambda: again in [reason for reason, _ in server.fallbacks("xdp-refused")])
    server.reload()
    until("it is taken by the first of its names", lambda: [(each["name"], each["opened"]) for each in server.all_stats()["interfaces"]] == [("vb", 2)])
    server.right("by the first of its names")
    expect("ends", server.stop(), 0)


def test_long_altname(folder, pair):
    name = "a-further-name-of-vb"
    ip("link", "property", "add", "dev", "vb", "altname", name, namespace=pair.there)
    server = Flapping(folder, pair, "--interface", name)
    server.right("a name that the kernel's calls do not take", by_interface=False)
    expect("  is refused", server.fallbacks("xdp-refused"),
           [(f"'{name}' has more than the 15 characters of an interface's name: give the name that `ip link` begins with instead of an altname; served via uring", 1)])
    expect("ends", server.stop(), 0)


def test_many_addresses(folder, pair):
    """What is beyond an interface's 64 addresses is the socket's, which is said once, however many more come and go."""
    why = "at most 64 declared ports and 64 addresses of an interface can be taken, and there are more"
    # One that the kernel still looks for elsewhere would take a place as soon as it is found to be free.
    until("no address is tentative", lambda: "tentative" not in ip("addr", "show", "dev", "vb", namespace=pair.there))
    server = Flapping(folder, pair, "--interface", "vb")
    others = [f"10.9.0.{number}" for number in range(100, 166)]
    for other in others[:-1]:
        ip("addr", "add", f"{other}/24", "dev", "vb", namespace=pair.there)
    noted = lambda: server.fallbacks("xdp-addresses")
    until("it is said that there are too many", noted)
    before = sum(count for _, count in noted())
    ip("addr", "add", f"{others[-1]}/24", "dev", "vb", namespace=pair.there)
    until("another one is too many as well", lambda: sum(count for _, count in noted()) > before)
    expect("it is said once", [reason for reason, _ in noted()], [f"{why}; datagrams to its newer addresses come by the socket"])
    expect("the newest address is the socket's", asked(server, others[-1]), (True, 0))
    expect("the first one is the interface's", asked(server), (True, 1))
    expect("so is one that was there before there were too many", asked(server, others[0]), (True, 1))
    taken = lambda: sum(asked(server, other) == (True, 1) for other in others[-8:])
    already = taken()  # by how many other addresses there are
    for other in others[:2]:
        ip("addr", "del", f"{other}/24", "dev", "vb", namespace=pair.there)
    for other in others[:2]:
        until(f"{other} is not taken any more, while there are too many", lambda: not raw_taken(server, pair, other))
    until("two others are taken in their place", lambda: taken() == already + 2)
    for other in others[:2]:
        ip("addr", "add", f"{other}/24", "dev", "vb", namespace=pair.there)
    expect("ends", server.stop(), 0)
    server = Flapping(folder, pair, "--interface", "vb")
    server.right("an interface that has too many", by_interface=False)
    expect("  is refused", server.fallbacks("xdp-refused"), [(f"{why}; served via uring", 1)])
    expect("ends", server.stop(), 0)


def raw_taken(server, pair, address):
    """Whether a frame to an address is the interface's, whoever has the address."""
    before = server.interface()
    with server.client() as sock:
        port = sock.getpeername()[1]
    request = netns.datagram(HERE[0], address, 7000, port, struct.pack("!I", 9) + b"row 1 10 1\n")
    with netns.packets(pair.here, "va") as raw:
        raw.send(netns.ethernet(pair.mac["vb"], pair.mac["va"], 0x800, netns.ipv4(HERE[0], address, 17, request)))
    until("it has come", lambda: sum(server.interface()[name] - before[name] for name in ("taken", "passed")) > 0)
    return server.interface()["taken"] > before["taken"]


def asked(server, address=THERE[0]):
    """Whether a request has the right reply, and how many the interface took of it."""
    before = server.interface()["received"]
    with server.client(address=address) as sock:
        return ask(sock, 9, b"row 1 10 1\n")[0] == DATA[1000:1010] + b"|", server.interface()["received"] - before


def test_labels(folder, pair):
    """Whose an address is says the kernel, and not what it is called."""
    ip("addr", "add", "10.9.0.8/24", "dev", "vb", "label", "mgmt", namespace=pair.there)
    ip("link", "add", "vc", "type", "veth", "peer", "name", "vd", namespace=pair.there)
    ip("addr", "add", "10.9.44.1/24", "dev", "vc", "label", "vb", namespace=pair.there)
    ip("link", "set", "vc", "up", namespace=pair.there)
    ip("route", "add", "10.9.44.0/24", "via", THERE[0], namespace=pair.here)
    server = Flapping(folder, pair, "--interface", "vb")
    expect("an address with another label is taken", asked(server, "10.9.0.8"), (True, 1))
    expect("one of another interface with that label is not", asked(server, "10.9.44.1"), (True, 0))
    expect("ends", server.stop(), 0)
    ip("route", "del", "10.9.44.0/24", namespace=pair.here)
    ip("link", "del", "vc", namespace=pair.there)
    ip("addr", "del", "10.9.0.8/24", "dev", "vb", namespace=pair.there)


def test_duplicate(folder, pair):
    """Nobody answers at an address that the kernel has found somebody else to have."""
    ip("addr", "add", "fd09::33/64", "dev", "va", "nodad", namespace=pair.here)
    ip("addr", "add", "fd09::33/64", "dev", "vb", namespace=pair.there)
    until("the kernel knows it to be another's", lambda: "dadfailed" in ip("addr", "show", "dev", "vb", namespace=pair.there))
    server = Flapping(folder, pair, "--interface", "vb")
    before = server.interface()["received"]
    with server.client() as sock:
        port = sock.getpeername()[1]
    request = netns.datagram("fd09::1", "fd09::33", 7000, port, struct.pack("!I", 9) + b"row 1 10 1\n")
    with netns.packets(pair.here, "va") as raw:
        raw.send(netns.ethernet(pair.mac["vb"], pair.mac["va"], 0x86DD, netns.ipv6("fd09::1", "fd09::33", 17, request)))
    expect("a request to it is the kernel's", (asked(server)[0], server.interface()["received"] - before), (True, 1))
    expect("ends", server.stop(), 0)
    for device, namespace in (("va", pair.here), ("vb", pair.there)):
        ip("addr", "del", "fd09::33/64", "dev", device, namespace=namespace)


def test_no_address(folder):
    """Nothing is taken off a bridge's port, as the bridge has the addresses; that is said whatever services are bound to, and no longer once it has one."""
    with netns.Pair(name="-bridge") as pair:
        ip("link", "set", "vb", "addrgenmode", "none", namespace=pair.there)
        ip("addr", "flush", "dev", "vb", namespace=pair.there)
        ip("link", "add", "br0", "type", "bridge", namespace=pair.there)
        ip("link", "set", "vb", "master", "br0", namespace=pair.there)
        ip("link", "set", "br0", "up", namespace=pair.there)
        ip("addr", "add", f"{THERE[0]}/24", "dev", "br0", namespace=pair.there)
        why = "vb has no IP address{}: datagrams to br0's addresses come by the socket; name br0"
        for bind in ("::", "0.0.0.0", THERE[0]):
            server = Flapping(folder, pair, "--interface", "vb", bind=bind)
            server.has_said(f"fallback xdp-not-bound (1x): {why.format('')}", 1)
            expect(f"--bind {bind}: served by the socket", asked(server), (True, 0))
            expect("  and said", server.fallbacks("xdp-not-bound"), [(why.format(""), 1)])
            if bind == "::":
                test_address_comes(server, pair, why)
            expect("ends", server.stop(), 0)
        server = Flapping(folder, pair, "--interface", "br0")
        expect("what is said to be named is taken", (asked(server), server.fallbacks("xdp-not-bound")), ((True, 1), []))
        expect("ends", server.stop(), 0)
        ip("link", "set", "vb", "nomaster", namespace=pair.there)
        ip("link", "del", "br0", namespace=pair.there)
        server = Flapping(folder, pair, "--interface", "vb")
        expect("an interface of nothing else", server.fallbacks("xdp-not-bound"),
               [("vb has no IP address, so that all datagrams come by the socket: `ip addr add ADDRESS dev vb`, or name the interface that has the "
                 "services' addresses", 1)])
        ip("addr", "add", f"{THERE[0]}/24", "dev", "vb", namespace=pair.there)
        server.has_said(HEARD, 1)
        expect("  once it has an address", asked(server), (True, 1))
        expect("ends", server.stop(), 0)


def test_address_comes(server, pair, why):
    other = "10.9.0.9"
    ip("addr", "add", f"{other}/24", "dev", "vb", namespace=pair.there)
    server.has_said(HEARD, 1)
    expect("an address of its own is taken", asked(server, other), (True, 1))
    ip("addr", "del", f"{other}/24", "dev", "vb", namespace=pair.there)
    until("it is said again", lambda: server.fallbacks("xdp-not-bound") == [(why.format(""), 2)])
    ip("addr", "add", "fe80::9/64", "dev", "vb", "nodad", namespace=pair.there)
    ip("addr", "add", f"{other}/24", "dev", "vb", namespace=pair.there)
    server.has_said(HEARD, 2)
    ip("addr", "del", f"{other}/24", "dev", "vb", namespace=pair.there)
    until("the link's address is none", lambda: (why.format(" but the link's"), 1) in server.fallbacks("xdp-not-bound"))
    ip("addr", "del", "fe80::9/64", "dev", "vb", namespace=pair.there)


def test_loopback(folder, pair):
    """What a machine sends to itself: of what is not from its own sockets there, the kernel drops IPv4, whose source is the machine. So replies of ours would be lost."""
    other = "10.11.0.1"
    ip("addr", "add", f"{other}/32", "dev", "lo", namespace=pair.there)
    server = Flapping(folder, pair, "--interface", "lo")
    for address in (other, "127.0.0.1", "::1"):
        with netns.udp(pair.there, family=socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
            sock.connect((address, server.ports["lines", "udp"]))
            expect(f"of the machine itself, {address}", ask(sock, 9, b"row 1 10 1\n")[0], DATA[1000:1010] + b"|")
    expect("  by the socket, which is said", server.fallbacks("xdp-refused"),
           [("lo has what this machine sends to itself, and takes replies from its sockets alone; give the interface that clients come by, or serve the port "
             "`via uring`; served via uring", 1)])
    expect("ends", server.stop(), 0)
    ip("addr", "del", f"{other}/32", "dev", "lo", namespace=pair.there)


def bonded(pair):
    """vb in a bond that has its addresses."""
    ip("link", "add", "bond0", "type", "bond", "mode", "active-backup", namespace=pair.there)
    ip("link", "set", "vb", "down", namespace=pair.there)
    ip("addr", "flush", "dev", "vb", namespace=pair.there)
    ip("link", "set", "vb", "master", "bond0", namespace=pair.there)
    ip("link", "set", "bond0", "mtu", pair.mtu, "up", namespace=pair.there)
    for address, bits in zip(THERE, (24, 64)):
        ip("addr", "add", f"{address}/{bits}", "dev", "bond0", "nodad", namespace=pair.there)


def test_bond(folder, pair):
    """A bond's driver runs the program on its members; what that would take reaches no socket of the bond. `pair` has one queue, as the bond's has one socket."""
    bonded(pair)
    server = Flapping(folder, pair, "--interface", "bond0")
    expect("a bond has the generic program", [line for line in server.said if "bond0" in line],
           lambda lines: lines[0].startswith("AF_XDP on bond0 (bonding): 1 queue, generic program, copy, ")
           and lines[1] == "fallback xdp-generic (1x): the driver of bond0 (bonding) runs XDP programs on its members, whose packets reach no socket of it; "
                           "the kernel runs ours, later\n")
    for address in THERE:
        expect(f"  what is sent to {address} is taken and answered", [asked(server, address) for _ in range(3)], [(True, 1)] * 3)
    expect("ends", server.stop(), 0)
    server = Flapping(folder, pair, "--interface", "bond0", "--xdp-attach", "native")
    expect("a native program is refused", server.fallbacks("xdp-refused"),
           [("the driver of bond0 runs XDP programs on its members, whose packets reach no socket of bond0: take the generic program (--xdp-attach generic); "
             "served via uring", 1)])
    server.right("  and the socket serves", by_interface=False)
    expect("ends", server.stop(), 0)
    ip("link", "set", "vb", "nomaster", namespace=pair.there)
    ip("link", "del", "bond0", namespace=pair.there)


def has_bonds(pair):
    """Else it says why not. The guests of tests/vm have them."""
    try:
        ip("link", "add", "bond1", "type", "bond", namespace=pair.there)
    except RuntimeError as error:
        print(f"skipped: bonds, as this kernel has none: {str(error).strip()}")
        return False
    ip("link", "del", "bond1", namespace=pair.there)
    return True


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair() as pair:
        folder = pathlib.Path(name)
        prepare(folder, "xdp")
        test_altname(folder, pair)
        test_given_twice(folder, pair)
        test_long_altname(folder, pair)
        test_labels(folder, pair)
        test_duplicate(folder, pair)
        test_many_addresses(folder, pair)
        test_loopback(folder, pair)
        test_no_address(folder)
    with tempfile.TemporaryDirectory() as name, netns.Pair(queues=1, name="-bond") as pair:
        if has_bonds(pair):
            prepare(pathlib.Path(name), "xdp")
            test_bond(pathlib.Path(name), pair)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
