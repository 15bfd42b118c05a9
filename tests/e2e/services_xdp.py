#!/usr/bin/env python3
"""A spec's services over AF_XDP, on a veth pair: replies leave from the frames that blocks were read into; what is not taken comes by the
socket; fallbacks are named; no frame is lost."""
import contextlib
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import fuse_file
import netns
import runs
from runs import expect
from services_udp import DATA, HELD, Server, ask, ask_many, prepare, reply, test_marked, test_overload, whole

HERE, THERE = ("10.9.0.1", "fd09::1"), ("10.9.0.2", "fd09::2")


class OnVeth(Server):
    def __init__(self, folder, pair, *options, bind="::", preload=None):
        self.pair = pair
        super().__init__(folder, *options, bind=bind, prefix=pair.command(pair.there, *(["env", f"LD_PRELOAD={preload}"] if preload else [])))

    def client(self, service="lines", address=THERE[0]):
        made = netns.udp(self.pair.here, family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        netns.take_much(made)
        made.connect((address, self.ports[service, "udp"]))
        return made

    def interface(self):
        return self.all_stats()["interfaces"][0]

    def no_frame_is_lost(self):
        """Only what is posted for receiving is in use, once everything has left."""
        def idle():
            stats = self.all_stats()
            of_all = lambda name: sum(each[name] for each in stats["interfaces"])
            return of_all("unanswered") == of_all("frames_sending") == 0 and stats["frames_in_use"] == of_all("frames_posted")
        netns.until("only posted frames are in use", idle)


def test_pieces(server):
    """Text moves to the bytes that it surrounds, which stay where they were read to."""
    sock, before = server.client(), server.interface()
    wrong = [row for row in range(50) if ask(sock, row, b"row %d 300 1\n" % row) != (DATA[row * 1000:row * 1000 + 300] + b"|", 1, 309)]
    after = server.interface()
    expect("fifty replies are right", wrong, [])
    expect("each is one piece of a packet, which nobody has copied", [after[name] - before[name] for name in ("pieces", "replies", "payload_copies")], [50, 50, 0])
    sock.close()


def test_replies(folder, pair, *options):
    server = OnVeth(folder, pair, "--interface", "vb", *options)
    test_pieces(server)
    first = server.interface()
    print("      " + first["mode"])
    for address in THERE:
        sock = server.client(address=address)
        for length, times in ((10, 1), (1391, 1), (1392, 1), (5000, 1), (60000, 1), (100, 7)):
            want = (DATA[1000:1000 + length] + b"|") * times
            expect(f"{times} times {length} bytes from {address}", ask(sock, 9, b"row 1 %d %d\n" % (length, times)), (want, *whole(len(want))))
        sock.send(struct.pack("!I", 11) + b"row 1 2 1\nrow 2 3 1\nnonsense\nrow 4 5 1\n")
        expect("several requests in a datagram", [reply(sock, 11)[0] for _ in range(4)], [b"00|", b"000|", b"bad", b"00000|"])
        sock.send(b"\0\1")  # is not answered
        expect("behind the end of the file", ask(sock, 5, b"row 9999 10 1\n")[0], b"sorry")
        sock.close()
    expect("no byte of a block was copied by the program", (server.stats()["payload_copies"], server.interface()["payload_copies"]), (0, 0))
    sock = server.client()
    expect("a packet of more pieces than the kernel takes", ask(sock, 1, b"row 1 1 12\n"), (b"0|" * 12, 1, 32))
    expect("is put together, and counted", (server.stats()["payload_copies"], server.interface()["payload_copies"]), (0, 1))
    sock.close()
    before = server.stats()["payload_copies"]
    sock = server.client()
    for times, copies in ((21, 0), (30, 9), (60, 39)):
        expect(f"{times} results in a reply", ask(sock, 1, b"row 1 1300 %d\n" % times)[0], (DATA[1000:2300] + b"|") * times)
        expect("  the first 21 are referred to, the others copied", server.stats()["payload_copies"] - before, copies)
        before = server.stats()["payload_copies"]
    sock.close()
    sock = server.client("plain")
    for length in (1, 3000, 8900):
        sock.send(struct.pack("!II", 2, length))
        expect(f"one datagram of {length} bytes", sock.recv(1 << 16) == DATA[2000:2000 + length], True)
    sock.send(struct.pack("!II", 2, 20000))
    expect("more than the interface takes", sock.recv(1 << 16), b"sorry")
    after = server.interface()
    expect("all of them came by the interface", after["received"] - first["received"], 2 * 9 + 1 + 3 + 4)
    expect("and none was lost there", [after[name] for name in ("dropped", "invalid", "malformed", "no_frame", "ring_full")], [0] * 5)
    sock.close()
    test_marked(server)
    test_passed_on(server, server.interface())
    many(server)
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)
    expect("the program is gone with it", "xdp" in server.pair.link(pair.there, "vb"), False)


def test_bound(folder, pair):
    """AF_XDP answers at no address at which the socket would not."""
    other = "10.9.0.3"
    netns.ip("addr", "add", f"{other}/24", "dev", "vb", "label", "vb:1", namespace=pair.there)

    def asked(server, address):
        before = server.interface()["received"]
        with server.client(address=address) as sock:
            try:
                sock.send(struct.pack("!I", 9) + b"row 1 10 1\n")
                answered = reply(sock, 9)[0] == DATA[1000:1010] + b"|"
            except ConnectionRefusedError:
                answered = False
        return answered, server.interface()["received"] - before

    hears, not_there = (True, 1), (False, 0)
    for bind, where in ((other, {other}), ("0.0.0.0", {THERE[0], other}), ("::ffff:0.0.0.0", {THERE[0], other}), (THERE[1], {THERE[1]}),
                        ("::", {*THERE, other}), ("127.0.0.1", set())):
        server = OnVeth(folder, pair, "--interface", "vb", bind=bind)
        for address in (*THERE, other):
            expect(f"--bind {bind}: {address}", asked(server, address), hears if address in where else not_there)
        expect("  what is not taken is said", sum(line.startswith("fallback xdp-not-bound") for line in server.said), 0 if where else 1)
        if bind == other:
            netns.ip("addr", "del", f"{other}/24", "dev", "vb", namespace=pair.there)
            netns.until("its address is gone", lambda: [each["count"] for each in server.all_stats()["fallbacks"] if each["name"] == "xdp-not-bound"] == [1])
            netns.ip("addr", "add", f"{other}/24", "dev", "vb", "label", "vb:1", namespace=pair.there)
            netns.until("it is back, and taken", lambda: asked(server, other) == hears)
        expect("ends", server.stop(), 0)
    netns.ip("addr", "del", f"{other}/24", "dev", "vb", namespace=pair.there)


def test_own_source(folder, pair):
    """What says to come from another address of the machine, at which the service would answer its own answer, is not taken."""
    others = (("vb", "10.9.0.3/24"), ("vb", "fd09::3/64"), ("lo", "10.8.0.3/32"), ("lo", "fd08::3/128"))
    server = OnVeth(folder, pair, "--interface", "vb")
    added = lambda: [each for _, each in others if f" {each} " in netns.ip("addr", namespace=pair.there)]
    for device, address in others:
        netns.ip("addr", "add", address, "dev", device, *(["nodad"] if ":" in address else []), namespace=pair.there)
    expect("it has further addresses", len(added()), len(others))
    with server.client() as sock:  # behind the news of them
        ask(sock, 9, b"row 1 10 1\n")
    before, port = server.interface(), server.ports["lines", "udp"]
    with netns.packets(pair.here, "va") as raw:
        for _, address in others:
            source, to = address.split("/")[0], THERE[":" in address]
            payload = netns.datagram(source, to, 7, port, struct.pack("!I", 9) + b"row 1 10 1\n")
            raw.send(netns.ethernet(pair.mac["vb"], pair.mac["va"], 0x86DD if ":" in to else 0x800, (netns.ipv6 if ":" in to else netns.ipv4)(source, to, 17, payload)))
    netns.until("they are the kernel's", lambda: server.interface()["passed"] >= before["passed"] + len(others))
    expect("none of them is taken", server.interface()["received"], before["received"])
    for device, address in others:
        netns.ip("addr", "del", address, "dev", device, namespace=pair.there)
    expect("ends", server.stop(), 0)


def test_own_source_taken(folder, pair):
    """Of an own source that the program does not know, as the machine has too many addresses, the runtime sees that its port is the service's."""
    many = [f"fd08::{number:x}" for number in range(1, 91)]
    for address in many:
        netns.ip("addr", "add", f"{address}/128", "dev", "lo", "nodad", namespace=pair.there)
    server = OnVeth(folder, pair, "--interface", "vb")
    before, port = server.stats(), server.ports["lines", "udp"]
    with netns.packets(pair.here, "va") as raw:
        for source in many:
            payload = netns.datagram(source, THERE[1], port, port, struct.pack("!I", 9) + b"row 1 10 1\n")
            raw.send(netns.ethernet(pair.mac["vb"], pair.mac["va"], 0x86DD, netns.ipv6(source, THERE[1], 17, payload)))
    server.wait_for("unanswered", before["unanswered"] + len(many))
    expect("some were taken", server.interface()["received"], lambda received: 0 < received < len(many))
    expect("  and none is a request", server.stats()["requests"], before["requests"])
    server.no_frame_is_lost()
    for address in many:
        netns.ip("addr", "del", f"{address}/128", "dev", "lo", namespace=pair.there)
    expect("ends", server.stop(), 0)


def test_link(folder, pair):
    """An address of a single link, by sockets and by AF_XDP of that link alone; another link has it as well."""
    bind, others = "fe80::77", ("vc", "vd")
    netns.ip("link", "add", others[0], "type", "veth", "peer", "name", others[1], namespace=pair.there)
    for device in ("vb", others[0]):
        netns.ip("link", "set", device, "up", namespace=pair.there)
        netns.ip("addr", "add", f"{bind}/64", "dev", device, "nodad", namespace=pair.there)
    netns.ip("addr", "add", "fe80::66/64", "dev", "va", "nodad", namespace=pair.here)
    link = pair.link(pair.here, "va")["ifindex"]
    for device, taken in (("vb", 1), (others[0], 0)):
        server = OnVeth(folder, pair, "--interface", device, bind=f"{bind}%vb")
        with netns.udp(pair.here, family=socket.AF_INET6) as sock:
            sock.connect((bind, server.ports["lines", "udp"], 0, link))
            expect(f"--bind {bind}%vb --interface {device}", ask(sock, 9, b"row 1 10 1\n")[0], DATA[1000:1010] + b"|")
        with netns.inside(pair.here):
            sock = socket.socket(socket.AF_INET6)
        with sock:
            sock.settimeout(netns.PATIENCE)
            sock.connect((bind, server.ports["lines", "tcp"], 0, link))
            sock.sendall(b"row 1 10 1\n")
            expect("  over tcp", sock.recv(100), DATA[1000:1010] + b"|")
        expect("  it says where it listens", any(f"tcp {bind}%vb port" in line for line in server.said), True)
        expect("  taken off that interface", sum(each.get("received", 0) for each in server.all_stats()["interfaces"]), taken)
        expect("  what is not taken is said", sum(line.startswith("fallback xdp-not-bound") and f"{device} has no address" in line for line in server.said), 1 - taken)
        expect("ends", server.stop(), 0)
    netns.ip("link", "del", others[0], namespace=pair.there)
    netns.ip("addr", "del", f"{bind}/64", "dev", "vb", namespace=pair.there)


def test_dropped(folder):
    """A reply that the driver drops, as it is longer than its peer takes, does not keep those behind it."""
    with netns.Pair(queues=1, name="-one") as pair:
        netns.ip("link", "set", "va", "mtu", 1500, namespace=pair.here)
        server = OnVeth(folder, pair, "--interface", "vb")
        with server.client("plain") as long, server.client("plain") as short:
            for _ in runs.tries():
                waited = []
                for _ in range(7):
                    with daemon.halted(server.process):  # so that both are of one turn
                        long.send(struct.pack("!II", 2, 5000))
                        short.send(struct.pack("!II", 2, 10))
                        begin = time.monotonic()
                    expect("the reply behind it", short.recv(100), DATA[2000:2010])
                    waited.append(time.monotonic() - begin)
                if sorted(waited)[3] < 0.5:
                    break
        expect("  comes at once: seconds, the median of seven", sorted(waited)[3], lambda median: median < 0.5)
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)


def test_full_rings(folder):
    """What finds no room in the rings while the daemon is away is counted, and said by the name of the interface."""
    with netns.Pair(queues=1, name="-full") as pair:
        server = OnVeth(folder, pair, "--interface", "vb")
        with server.client("marked") as sock, daemon.halted(server.process):
            for _ in range(20000):
                sock.send(struct.pack("!HHI", 1, 0x4b56, 1))
        netns.until("the rings are empty", lambda: server.interface()["unanswered"] == 0 and server.interface()["received"] == server.stats("marked")["requests"] != 0)
        with server.client("marked") as last:
            last.settimeout(1)  # it may find no room itself

            def answered():
                last.send(struct.pack("!HHI", 2, 0x4b56, 1))
                with contextlib.suppress(TimeoutError):
                    return last.recv(100) == struct.pack("!H", 2) + b"good"
            netns.until("one behind them in the only queue is answered", answered)
        dropped = server.interface()["dropped"]
        expect("  and some had no room", dropped, lambda count: count > 0)
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)
        said = [re.fullmatch(r"overload: (\d+) datagrams that came by vb were dropped by the kernel, as its rings were full, (\d+) in all\n", line) for line in server.said]
        expect("standard error says how many", (sum(int(found[1]) for found in said if found), [int(found[2]) for found in said if found][-1:]), (dropped, [dropped]))


def test_fewer_senders(folder):
    """What comes by a queue that does not send is answered by one that does."""
    with netns.Pair(queues=4, senders=1, name="-few") as pair:
        server = OnVeth(folder, pair, "--interface", "vb")
        expect("all that receive are served", " 4 queues, " in server.interface()["mode"], True)
        socks = [server.client(address=THERE[i % 2]) for i in range(64)]
        wrong = [i for i, sock in enumerate(socks) if ask(sock, i, b"row 1 10 1\n")[0] != DATA[1000:1010] + b"|"]
        expect("64 clients, and each has its answer", wrong, [])
        expect("  by the interface", server.interface()["received"], 64)
        with socks[0] as sock:
            for number in range(300):
                sock.send(struct.pack("!I", number) + b"row 1 10 1\n")
            expect("many at once", sorted(struct.unpack("!I", sock.recv(100)[:4])[0] for _ in range(300)), list(range(300)))
        for sock in socks[1:]:
            sock.close()
        server.no_frame_is_lost()
        expect("ends", server.stop(), 0)


class Narrow(netns.Pair):
    """vb has one queue to receive, and its peer four to send, where a veth takes no program."""

    def make(self, index):
        many, one = (("numrxqueues", count, "numtxqueues", count) for count in (4, 1))
        netns.ip("link", "add", "va", "netns", self.here, *many, "type", "veth", "peer", "name", "vb", "netns", self.there, *one)


def test_too_few_receivers(folder):
    """A driver that takes no program for want of queues: that is said, and not of caches, of which the spec has none."""
    with Narrow(name="-narrow") as pair:
        server = OnVeth(folder, pair, "--interface", "vb", "--xdp-attach", "native")
        said = [line.strip() for line in server.said if "xdp-" in line]
        expect("said", said, lambda lines: len(lines) == 1)
        expect("  with the remedy", "the XDP program cannot be attached to vb in its driver: No space left on device: it has too few queues (a veth wants as many "
               "to receive as its peer has to send): give it more (`ethtool -L`), or take the generic program (--xdp-attach generic); served via uring" in said[0], True)
        with server.client() as sock:
            expect("  served all the same", ask(sock, 9, b"row 1 10 1\n")[0], DATA[1000:1010] + b"|")
        expect("ends", server.stop(), 0)


def test_little_memory(folder, pair):
    """What packets wait in is not taken from what blocks are read into."""
    server = OnVeth(folder, pair, "--interface", "vb", "--memory", "512KiB")
    sock = server.client()
    expect("with little memory for blocks", ask(sock, 9, b"row 1 5000 1\n")[0], DATA[1000:6000] + b"|")
    expect("the queues have their frames", (server.interface()["no_frame"], server.interface()["frames_posted"] > 0), (0, True))
    sock.close()
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


def test_passed_on(server, before):
    """What the program does not take is the kernel's: it comes by the socket, or is answered as ever."""
    pair = server.pair
    sock = server.client()
    sock.send(struct.pack("!I", 3) + b"row 1 2 1\n" * 400)
    expect("a datagram of more than a frame", {reply(sock, 3)[0] for _ in range(400)}, {b"00|"})
    # In fragments: longer than the interface's packets.
    sock.send(struct.pack("!I", 4) + b"row 1 2 1\n" * 900)
    expect("a datagram in fragments", {reply(sock, 4)[0] for _ in range(900)}, {b"00|"})
    expect("neither came by the interface", server.interface()["received"], before["received"])
    for address in THERE:
        done = subprocess.run(pair.command(pair.here, "ping", "-c", 1, "-W", netns.PATIENCE, address), capture_output=True)
        expect(f"a ping of {address}", done.returncode, 0)
    netns.ip("neigh", "flush", "dev", "va", namespace=pair.here)
    expect("after the neighbour was forgotten", ask(sock, 6, b"row 1 2 1\n")[0], b"00|")
    closed = netns.udp(pair.here)
    closed.connect((THERE[0], 9))
    closed.send(b"x")
    try:
        closed.recv(1)
        expect("a port that nobody serves", "an answer", "refused")
    except ConnectionRefusedError:
        pass
    with netns.inside(pair.here):
        stream = socket.create_connection((THERE[0], server.ports["lines", "tcp"]), timeout=netns.PATIENCE)
    stream.sendall(b"row 1 2 1\n")
    expect("the same service over tcp", stream.recv(10), b"00|")


def many(server):
    """Many requests at once from many clients; each reply is right."""
    socks = [server.client(address=THERE[i % 2]) for i in range(8)]
    wrong = []
    for turn in range(40):
        for i, sock in enumerate(socks):
            for k in range(16):
                sock.send(struct.pack("!I", k) + b"row %d %d 1\n" % ((turn * 8 + i) % 400 + k, 100 + k * 50))
        for i, sock in enumerate(socks):
            want = {k: DATA[((turn * 8 + i) % 400 + k) * 1000:][:100 + k * 50] + b"|" for k in range(16)}
            for _ in range(16):
                data = sock.recv(2000)
                number = struct.unpack("!I", data[:4])[0]
                if want.pop(number, None) != data[8:]:
                    wrong.append(number)
    expect("5120 requests at once from eight clients", wrong, [])


def test_fallbacks(folder, pair):
    def served(what, options, said):
        server = OnVeth(folder, pair, *options)
        sock = server.client()
        expect(f"{what}: served all the same", ask(sock, 9, b"row 1 10 1\n")[0], DATA[1000:1010] + b"|")
        expect(f"{what}: no interface", server.all_stats()["interfaces"], [])
        expect(f"{what}: said", [line for line in server.said if said in line], lambda lines: len(lines) == 1)
        expect("ends", server.stop(), 0)

    served("without --interface", (), "xdp-no-interface")
    served("an interface that is not there", ("--interface", "vx"), "xdp-refused")
    served("zero-copy on veth", ("--interface", "vb", "--xdp-copy", "zero-copy"), "its driver has no zero-copy mode")
    netns.ip("link", "set", "dev", "vb", "xdp", "obj", netns.passing(folder), "sec", "xdp.frags", namespace=pair.there)
    served("a program of somebody else's", ("--interface", "vb"), "is not replaced")
    expect("it is still there", "xdp" in pair.link(pair.there, "vb"), True)
    netns.ip("link", "set", "dev", "vb", "xdp", "off", namespace=pair.there)


def test_begun_again(folder, pair):
    """The kernel frees the queues of a process that has ended a moment later, which the next one waits for before it says that it serves."""
    by_socket = []
    for number in range(20):
        server = OnVeth(folder, pair, "--interface", "vb")
        sock = server.client()
        ask(sock, number, b"row 1 10 1\n")
        if [each["received"] for each in server.all_stats()["interfaces"]] != [1]:
            by_socket.append(number)
        sock.close()
        server.stop()
    expect("twenty times begun again, the first request comes by the interface", by_socket, [])


def test_reload(folder, pair, seconds=None):
    """Editions come and go while clients ask: no request is lost, and the interface is taken again for each edition. Where the NIC may lose what waits in its
    queue, clients ask again after so many seconds."""
    server = OnVeth(folder, pair, "--interface", "vb")
    lost, again, stop = [], [], threading.Event()

    def ask_on(address):
        sock = server.client(address=address)
        sock.settimeout(seconds or netns.PATIENCE)
        number = 0
        while not stop.is_set():
            number += 1
            at = number % 400
            try:
                got = ask(sock, number, b"row %d 300 1\n" % at)
            except TimeoutError:
                (again if seconds else lost).append(number)
                continue
            except OSError as error:  # as of a port where nobody listens
                lost.append(error)
                break
            if got != (DATA[at * 1000:at * 1000 + 300] + b"|", 1, 309):
                lost.append(got)
        sock.close()

    askers = [threading.Thread(target=ask_on, args=(address,)) for address in THERE for _ in range(2)]
    for asker in askers:
        asker.start()
    for _ in range(8):
        edition = server.all_stats()["edition"]
        server.process.send_signal(signal.SIGHUP)
        netns.until("another edition has the interface", lambda: server.all_stats()["edition"] == edition + 1 and
                    not server.all_stats()["before_runs"] and server.all_stats()["interfaces"])
        before = server.interface()["received"]
        netns.until("requests come by it", lambda: server.interface()["received"] > before)
    stop.set()
    for asker in askers:
        asker.join()
    expect(f"no request was lost by eight reloads, and each had the right answer{f', {len(again)} the second time' if again else ''}", lost, [])
    expect("no edition has kept a frame", server.all_stats()["leaked_frames"], 0)
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


def test_backlog(folder, pair):
    """What came while the daemon could not look is no overload: chains run before more is taken than may wait."""
    server = OnVeth(folder, pair, "--interface", "vb", "--requests", 8, "--waiting", 128)
    socks = [server.client() for _ in range(8)]
    with daemon.halted(server.process):
        for number in range(700):
            socks[number % 8].send(struct.pack("!I", number) + b"row 1 10 1\n")
    answers = [socks[number % 8].recv(100)[8:] for number in range(700)]
    expect("all that waited are answered", {text: answers.count(text) for text in answers}, {DATA[1000:1010] + b"|": 700})
    expect("  none was shed", server.stats()["shed"], 0)
    for sock in socks:
        sock.close()
    server.no_frame_is_lost()
    expect("ends", server.stop(), 0)


@contextlib.contextmanager
def away_again_and_again(process):
    """As on a machine where others often have the processor for some milliseconds."""
    ends = threading.Event()

    def pulse():
        while not ends.wait(0.005):
            process.send_signal(signal.SIGSTOP)
            ends.wait(0.003)
            process.send_signal(signal.SIGCONT)
    pulses = threading.Thread(target=pulse)
    pulses.start()
    try:
        yield
    finally:
        ends.set()
        pulses.join()


def test_overload_there(folder, pair):
    test_overload(folder, lambda *options: OnVeth(folder, pair, "--interface", "vb", *options))


def test_backlog_that_stays(folder, pair):
    """What came while the daemon was away is held up by chains that wait for the disk for a moment only, however often it is away again."""
    if why := fuse_file.why_not():
        return print(f"skipped: a backlog that stays, for which a read has to wait: {why}")
    with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
        server = OnVeth(folder, pair, "--interface", "vb", "--requests", 1, "--waiting", 4, "--timeout", 60000)
        first, plain = server.client(), server.client("plain")
        first.send(struct.pack("!I", 99) + b"row %d 10 1\n" % HELD)
        netns.until("it waits for the disk", lambda: held.pages)
        with contextlib.ExitStack() as away:
            with daemon.halted(server.process):
                for number in range(10):
                    plain.send(struct.pack("!II", number, 10))
                away.enter_context(away_again_and_again(server.process))
            expect("those that find no room are told", [plain.recv(100) for _ in range(6)], [b"sorry"] * 6)
        held.let_go()
        expect("the one that waited for the disk", reply(first, 99)[0], DATA[HELD * 1000:][:10] + b"|")
        expect("the others had only to wait", [plain.recv(100) for _ in range(4)], [DATA[number * 1000:][:10] for number in range(4)])
        expect("ends", server.stop(), 0)
        first.close()
        plain.close()


def test_backlog_while_away(folder, pair):
    """Of how long a backlog has been held up, the time does not count in which nobody could look: chains that have ended meanwhile let it go on."""
    if why := fuse_file.why_not():
        return print(f"skipped: a backlog and a daemon that is away, for which a read has to wait: {why}")
    for _ in range(20):
        with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
            server = OnVeth(folder, pair, "--interface", "vb", "--requests", 1, "--waiting", 4, "--timeout", 60000)
            first, plain = server.client(), server.client("plain")
            first.send(struct.pack("!I", 99) + b"row %d 10 1\n" % HELD)
            netns.until("it waits for the disk", lambda: held.pages)
            with daemon.halted(server.process):
                for _ in range(10):
                    plain.send(struct.pack("!II", HELD, 10))
            netns.until("as many as there is room for are taken", lambda: server.stats("plain")["requests"] >= 4)
            with daemon.halted(server.process):
                # On a busy machine it may have been held up for too long by now.
                early = bool(select.select([plain], [], [], 0)[0])
                time.sleep(0 if early else 0.3)
                held.let_go()
                netns.until("the disk has answered", lambda: held.answered >= held.pages)
            answers = [plain.recv(100) for _ in range(10)]
            expect("the one that waited for the disk", reply(first, 99)[0], DATA[HELD * 1000:][:10] + b"|")
            expect("ends", server.stop(), 0)
            first.close()
            plain.close()
            if not early:
                return expect("the others had only to wait", answers, [DATA[HELD * 1000:][:10]] * 10)
    print("skipped: a backlog and a daemon that is away: this machine is too busy")


def test_end(folder, pair):
    server = OnVeth(folder, pair, "--interface", "vb")
    sock = server.client()
    code = daemon.ended_behind(server, lambda: ask_many(sock))
    expect("each request before SIGTERM has its answer", sorted(struct.unpack("!I", sock.recv(100)[:4])[0] for n in range(150)), list(range(150)))
    expect("it ended well", code, 0)


def test_late_reply(folder, pair):
    """A request that waits for its disk for more than a second after its interface was let go of is answered."""
    if why := fuse_file.why_not():
        return print(f"skipped: an interface that is let go of while a read waits: {why}")
    for what, number in (("a reload", signal.SIGHUP), ("SIGTERM", signal.SIGTERM)):
        with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
            server = OnVeth(folder, pair, "--interface", "vb")
            with server.client() as sock:
                sock.send(struct.pack("!I", 99) + b"row %d 10 1\n" % HELD)
                netns.until("it waits for the disk", lambda: held.pages)
                server.process.send_signal(number)
                if number == signal.SIGHUP:
                    netns.until("the one before runs", lambda: server.all_stats()["before_runs"])
                time.sleep(1.5)
                held.let_go()
                expect(f"a reply that is made long after {what}", reply(sock, 99)[0], DATA[HELD * 1000:][:10] + b"|")
            expect("ends", server.stop() if number == signal.SIGHUP else server.process.wait(timeout=60), 0)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair() as pair:
        folder = pathlib.Path(name)
        prepare(folder, "xdp")
        test_replies(folder, pair)
        test_replies(folder, pair, "--xdp-attach", "generic", "--no-ring")
        test_bound(folder, pair)
        test_own_source(folder, pair)
        test_own_source_taken(folder, pair)
        test_link(folder, pair)
        test_dropped(folder)
        test_full_rings(folder)
        test_fewer_senders(folder)
        test_too_few_receivers(folder)
        test_little_memory(folder, pair)
        test_fallbacks(folder, pair)
        test_begun_again(folder, pair)
        test_reload(folder, pair)
        test_backlog(folder, pair)
        test_overload_there(folder, pair)
        test_backlog_that_stays(folder, pair)
        test_backlog_while_away(folder, pair)
        test_end(folder, pair)
        test_late_reply(folder, pair)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
