#!/usr/bin/env python3
"""A spec's services over shared memory: the replies are those to datagrams, and no client keeps others from theirs, whatever it does."""
import collections
import os
import pathlib
import random
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import fuse_file
import netns
import ring_client
import runs
import services_udp
from ring_client import MESSAGE, SEND, RingClient
from runs import BUILD, expect
from services_udp import DATA, HELD

CLIENTS = 256  # at once
SO_PASSRIGHTS = 83
TCP_ONLY = 'service stream on tcp 7004 via uring { request { a: u8 } on request { reply "x" } }\n'


class Server(services_udp.Server):
    SERVICES, ENDPOINTS = ("lines", "plain", "marked", "stream"), 5

    def __init__(self, folder, *options, **more):
        self.rings = folder / "rings"
        super().__init__(folder, "--rings", self.rings, *options, **more)

    def client(self, service="plain", **shape):
        return RingClient(self.rings, service, **shape)

    def stats(self, service="plain"):
        return next(each for each in self.all_stats()["services"] if (each["name"], each["transport"]) == (service, "ring"))

    def fallbacks(self):
        return sum((collections.Counter({each["name"]: each["count"]}) for each in self.all_stats()["fallbacks"]), collections.Counter())

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class CallsFirst(Server):
    """Its services come by a reload."""
    SERVICES, ENDPOINTS = (), 0


class WithoutPort(Server):
    """A reload may leave out the service of which the command line does not speak."""
    SERVICES = ("lines", "plain", "stream")


def plain(number, length):
    return struct.pack("!II", number, length), DATA[number * 1000:number * 1000 + length]


def refusal(server, service, **shape):
    try:
        RingClient(server.rings, service, **shape).close()
    except ring_client.Refused as error:
        return str(error)
    return "not refused"


def test_replies(server):
    with server.client() as client:
        for length in (1, 8, 999, 4096, 20000, 65535):
            request, want = plain(7, length)
            expect(f"a reply of {length} bytes", client.call(request), want)
        expect("a request of bad form", client.call(b"xx"), b"bad")
    with server.client("lines", frame_bytes=131072) as client:
        # It is in one piece where a datagram would be cut, and says so.
        expect("a long reply", client.call(struct.pack("!I", 9) + b"row 3 60000 1\n"), struct.pack("!IHH", 9, 0, 1) + DATA[3000:63000] + b"|")
        expect("several requests in one message", client.call(struct.pack("!I", 5) + b"row 3 10 1\nrow 4 5 2\nfoo\n"),
               b"".join(struct.pack("!IHH", 5, 0, 1) + text for text in (b"000000003 |", b"00000|00000|", b"bad")))
        expect("what replies begin with is not there: no answer", client.call(b"ab"), None)
        expect("  and that is counted", server.stats("lines")["unanswered"], 1)
    with server.client("lines", frame_bytes=131072) as client:
        for length, times in ((65530, 1), (65530, 2), (32000, 4), (2046, 64)):
            want = struct.pack("!IHH", 1, 0, 1) + (DATA[1000:1000 + length] + b"|") * times
            expect(f"a reply of {len(want)} bytes", client.call(struct.pack("!I", 1) + b"row 1 %d %d\n" % (length, times)), want)
        expect("a reply that is longer than its frame", client.call(struct.pack("!I", 1) + b"row 1 2047 64\n"), struct.pack("!IHH", 1, 0, 1) + b"sorry")
    with server.client("marked") as client:
        expect("a request that lies amid its frame", answer_amid(client), (struct.pack("!H", 3) + b"good", 1000))


def answer_amid(client):
    serial = client.send(struct.pack("!HHI", 3, 0x4b56, 1), offset=1000)
    got, reply = client.receive()
    return reply, 1000 if got == serial else got


def test_many(server):
    """Clients with all their frames on their way, in turns: each gets its own replies."""
    rng = random.Random(11)
    clients = [server.client(frames=frames, frame_bytes=2048) for frames in (1, 3, 16, 1024)]
    asked, wrong, count = [{} for _ in clients], 0, 0
    before = server.stats()["answered"]
    for _ in range(40):
        for client, waiting in zip(clients, asked):
            for _ in range(rng.randrange(len(client.free) + 1)):
                request, want = plain(rng.randrange(400), rng.randrange(1, 2000))
                waiting[client.send(request)] = want
        for client, waiting in zip(clients, asked):
            for _ in range(rng.randrange(len(waiting) + 1)):
                serial, reply = client.receive()
                wrong += reply != waiting.pop(serial)
                count += 1
    for client, waiting in zip(clients, asked):
        while waiting:
            serial, reply = client.receive()
            wrong += reply != waiting.pop(serial)
            count += 1
        client.close()
    expect(f"{count} replies, each to the request whose serial it has", (wrong, count > 5000), (0, True))
    expect("  and each is counted", server.stats()["answered"] - before, count)


def test_refusals(server):
    there = "those that have one are: lines, plain, marked"
    expect("no such service", refusal(server, "nope"), f"there is no service 'nope'; by rings those with a `udp` endpoint are reached; {there}")
    expect("one without udp", refusal(server, "stream"),
           f"service 'stream' has no `udp` endpoint that is served in user space, and by a ring comes what would be a datagram; {there}")
    expect("no frames", refusal(server, "plain", frames=0), "a channel has 1 to 1024 frames, not 0")
    expect("odd frames", refusal(server, "plain", frame_bytes=5000), "a frame has a power of two of bytes, 512 to 131072, not 5000")
    for words, why in ((b"GET / HTTP/1.0\r\n\r\n", "this socket is for clients of rings: what came is no hello of theirs"),
                       (ring_client.hello("plain", 1, 512, version=9), "the other side meets in version 9, this one in 1: use the same version of ChainIO on both sides")):
        with ring_client.meet(server.rings) as sock:
            sock.send(words)
            try:
                ring_client.answer(sock)
                got = "welcome"
            except ring_client.Refused as error:
                got = str(error)
            expect(f"hello {words[:8]}", got, why)
            expect("  and that is all", sock.recv(10), b"")


def test_broken(server):
    """Who writes what no client may write is put off, and nobody else hears of it."""
    broken = 0
    with server.client() as good:
        for name, given in (("another kind", (SEND, 0, 0, 8)), ("a frame that is none", (MESSAGE, 512, 0, 8)), ("amid a frame", (MESSAGE, 1024, 0, 8)),
                            ("out of the frame", (MESSAGE, 0, 2040, 9)), ("out of the region", (MESSAGE, 0, 0, 0xffffffff)), ("behind the region", (MESSAGE, 1 << 30, 0, 8))):
            with server.client(frames=2, frame_bytes=2048) as client:
                kind, at, offset, length = given
                client.raw(kind, client.frame(0) + at if at != 512 else 512, offset, length)
                expect(f"{name}: it is put off", client.ended(), True)
            broken += 1
        with server.client(frames=2, frame_bytes=2048) as client:
            client.requests.write(64, 1000)
            os.eventfd_write(client.server_bell, 1)
            expect("an index from nowhere: it is put off", client.ended(), True)
            broken += 1
        with server.client(frames=2, frame_bytes=2048) as client:
            client.sock.send(b"more")
            expect("another word behind the hello: it is put off", client.ended(), True)
        expect("the fallback counts them", server.fallbacks()["ring-broken"], broken)
        request, want = plain(1, 100)
        expect("the other client has its replies", good.call(request), want)
    netns.until("all are gone", lambda: server.stats()["connections"] == 0)


def test_scribbler(server):
    """A request that changes while it is run is run as it was, or as it is, and does no harm: what is checked is a copy."""
    with server.client(frames=64, frame_bytes=65536) as client, server.client() as good:
        ends = set()
        for round_ in range(300):
            serials = [client.send(plain(1, 60000)[0]) for _ in range(64)]
            for number in range(64):
                at = client.frame(number)
                client.memory[at:at + 8] = struct.pack("!II", 2, 10 + round_)
            for _ in serials:
                ends.add(len(client.receive()[1] or b""))
        expect("replies have the one length or the other", ends <= {60000, *range(10, 310)}, True)
        request, want = plain(3, 50)
        expect("and others have theirs", good.call(request), want)


def test_many_clients(server):
    before = server.descriptors()
    clients = [server.client(frames=1, frame_bytes=512) for _ in range(CLIENTS)]
    expect("one more", refusal(server, "plain"), f"the server has {CLIENTS} clients of rings already, and takes no more; end one of them first")
    wrong = 0
    for number, client in enumerate(clients):
        client.send(plain(number, 100)[0])
    for number, client in enumerate(clients):
        wrong += client.receive()[1] != plain(number, 100)[1]
    expect("each has its reply", wrong, 0)
    expect("each is counted", server.stats()["connections"], CLIENTS)
    for client in clients:
        client.close()
    netns.until("all are gone", lambda: server.stats()["connections"] == 0)
    netns.until("and have left no descriptor", lambda: server.descriptors() <= before + 1)
    with server.client() as client:
        expect("then there is room", client.call(plain(1, 5)[0]), DATA[1000:1005])


def test_silent(folder):
    """Who connects and says nothing has a place until --timeout."""
    server = Server(folder, "--timeout", 200)
    with ring_client.meet(server.rings) as sock:
        expect("it is put off", sock.recv(10), b"")
    expect("ends", server.stop(), 0)


def test_long(folder):
    server = Server(folder, "--request-bytes", 1000)
    with server.client(frame_bytes=131072) as client:
        expect("a request that is too long", client.call(bytes(1001)), b"bad")
        expect("one that is no longer than may be", client.call(plain(1, 5)[0] + bytes(992)), DATA[1000:1005])
        expect("one that is longer than anything is looked at", client.call(bytes(131072)), b"bad")
        expect("  and they are counted", server.stats()["too_long"], 2)
    with server.client(frame_bytes=512) as client:
        expect("a reply that fills its frame", client.call(plain(1, 512)[0]), DATA[1000:1512])
        expect("a reply that is too long for its frame", client.call(plain(1, 513)[0]), b"sorry")
        expect("  and is counted", server.stats()["reply_too_long"], 1)
    expect("ends", server.stop(), 0)


def test_waiting(folder):
    """Overload, a client that vanishes with requests on their way, and an end, each while a disk does not answer."""
    if why := fuse_file.why_not():
        return print(f"skipped: rings over a slow disk: {why}")
    with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
        server = Server(folder, "--requests", 1, "--waiting", 2, "--timeout", 60000)
        gone, client = server.client(), server.client()
        gone.send(plain(HELD, 10)[0])
        netns.until("it waits for the disk", lambda: held.pages)
        serials = [client.send(plain(number, 10)[0]) for number in range(4)]
        netns.until("there is no more room", lambda: server.stats()["requests"] == 3)
        before = server.processor_seconds()
        urgent = server.client("lines")
        sent = [urgent.send(struct.pack("!I", number) + b"row 1 10 1\n") for number in range(2)]
        told = [client.receive() for _ in range(2)]
        expect("for what is more urgent those that wait are shed, the last first", told, [(serials[1], b"sorry"), (serials[0], b"sorry")])
        expect("  and counted", (server.stats()["shed"], server.stats("lines")["shed"]), (2, 0))
        time.sleep(0.5)
        expect("what is left in a ring costs nothing", server.processor_seconds() - before < 0.25, True)
        gone.close()
        netns.until("one is gone", lambda: server.stats()["connections"] == 1)
        held.let_go()
        expect("the others had only to wait", [urgent.receive() for _ in sent], [(serial, struct.pack("!IHH", number, 0, 1) + b"000000001 |") for number, serial in enumerate(sent)])
        expect("  and those that were in the ring, too", [client.receive() for _ in range(2)], [(serials[2], plain(2, 10)[1]), (serials[3], plain(3, 10)[1])])
        urgent.close()
        expect("what nobody waits for is counted", server.stats()["vanished"], 1)
        client.close()
        expect("ends, and has all frames back", server.stop(), 0)
    with fuse_file.held_file(folder / "a.rows", DATA, HELD * 1000) as held:
        server = Server(folder)
        client = server.client()
        client.send(plain(HELD, 10)[0])
        netns.until("it waits for the disk", lambda: held.pages)
        client.send(plain(1, 10)[0])
        expect("others are not kept", client.receive()[1], plain(1, 10)[1])
        server.process.send_signal(signal.SIGTERM)
        netns.until("nobody else is taken on", lambda: refusal_or_end(server) != "not refused")
        held.let_go()
        expect("what was on its way is answered", client.receive()[1], plain(HELD, 10)[1])
        expect("  and then it is over", client.ended(), True)
        expect("ends", server.ended(), 0)
        client.close()


def refusal_or_end(server):
    try:
        return refusal(server, "plain")
    except OSError as error:
        return str(error)


def test_end(folder):
    """What clients had sent before SIGTERM is answered."""
    server = Server(folder)
    client = server.client(frames=512, frame_bytes=512)
    code = daemon.ended_behind(server, lambda: [client.send(plain(number % 400, 20)[0]) for number in range(512)])
    replies = [client.receive() for _ in range(512)]
    expect("each has its reply", sorted(replies), [(number + 1, plain(number % 400, 20)[1]) for number in range(512)])
    expect("and then it is over", client.ended(), True)
    expect("it ended well", code, 0)
    expect("and left no socket", server.rings.exists(), False)
    client.close()


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
import services_rings
client = services_rings.RingClient(sys.argv[2], "plain", frames=1024, frame_bytes=1024)
print("there", flush=True)
while True:
    while client.free:
        client.send(services_rings.plain(1, 1000)[0])
    client.receive()
"""


def test_killed(server):
    for _ in range(5):
        before = server.stats()["answered"]
        process = subprocess.Popen([sys.executable, "-c", KILLED, pathlib.Path(__file__).resolve().parent, server.rings], stdout=subprocess.PIPE)
        process.stdout.readline()
        netns.until("it has replies", lambda: server.stats()["answered"] > before + 2000)
        process.kill()
        process.wait()
        process.stdout.close()
        netns.until("it is gone", lambda: server.stats()["connections"] == 0)


def test_reload(folder):
    """Clients stay over reloads, without a request lost; those whose service is gone are told."""
    server = WithoutPort(folder, bind=daemon.OWN)
    with server.client(frames=64) as client, server.client("marked") as other:
        wrong, waiting, edition = 0, {}, 1
        until = time.monotonic() + netns.PATIENCE
        while edition < 12 and time.monotonic() < until:
            while client.free:
                request, want = plain(random.randrange(400), 900)
                waiting[client.send(request)] = want
            if server.all_stats()["edition"] == edition:
                edition += 1
                server.process.send_signal(signal.SIGHUP)
            for _ in range(32):
                serial, reply = client.receive()
                wrong += reply != waiting.pop(serial)
        while waiting:
            serial, reply = client.receive()
            wrong += reply != waiting.pop(serial)
        expect("replies over ten reloads", (wrong, edition >= 12), (0, True))
        text = (folder / "app.chain").read_text()
        without = text[:text.index("service marked")] + text[text.index("service stream"):]
        compile_spec(folder, without, "fresh.o")
        os.rename(folder / "fresh.o", folder / "app.bpf.o")
        server.process.send_signal(signal.SIGHUP)
        expect("a client whose service is gone is told", other.ended(), True)
        expect("the other one stays", client.call(plain(5, 10)[0]), DATA[5000:5010])
    expect("ends", server.stop(), 0)
    compile_spec(folder, text, "app.bpf.o")


CALLS = "app kv { files rows = \"*.rows\" { immutable } }\nchain one(f: file rows) -> u8 hops 1 { step s(b: block at 0 for 1 in f) { return b[0] } }\n"


def test_reload_to_others(folder):
    """Services that come with a reload are reached, and those whose udp is gone for a while have their counters right."""
    text = services_udp.SPEC + TCP_ONLY
    compile_spec(folder, CALLS, "app.bpf.o")
    server = CallsFirst(folder, bind=daemon.OWN)
    compile_spec(folder, text, "app.bpf.o")
    server.process.send_signal(signal.SIGHUP)
    netns.until("there are services", lambda: server.rings.exists())
    client = server.client("plain")
    expect("which are reached", client.call(plain(5, 10)[0]), DATA[5000:5010])
    compile_spec(folder, text.replace("service plain on udp", "service plain on tcp"), "app.bpf.o")
    server.process.send_signal(signal.SIGHUP)
    expect("one without udp has no clients", client.ended(), True)
    client.close()
    compile_spec(folder, text, "app.bpf.o")
    server.process.send_signal(signal.SIGHUP)
    netns.until("it has udp again", lambda: any((each["name"], each["transport"]) == ("plain", "ring") for each in server.all_stats()["services"]))
    expect("nobody is there, and one was", (server.stats("plain")["connections"], server.stats("plain")["accepted"]), (0, 1))
    expect("ends", server.stop(), 0)


def test_descriptor(server):
    """A descriptor that comes with a hello would be closed by the daemon, which of some takes long: from Linux 6.16 on none comes."""
    with ring_client.meet(server.rings) as sock, open("/dev/null") as other:
        try:
            sock.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS)
        except OSError:
            return print(f"skipped: a descriptor with a hello: Linux {os.uname().release} has no SO_PASSRIGHTS")
        try:
            socket.send_fds(sock, [ring_client.hello("plain", 1, 512)], [other.fileno()])
            sent = True
        except PermissionError:
            sent = False
        expect("a descriptor cannot be sent along with a hello", sent, False)


def test_path(folder):
    server = Server(folder)
    expect("only its owner may come", stat.S_IMODE(os.stat(server.rings).st_mode), 0o600)
    expect("who is served there is said", [line for line in server.said if " at rings " in line],
           [f"service {name} at rings '{server.rings}': shared memory\n" for name in ("lines", "plain", "marked")])
    command = [BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.bpf.o", "--file", f"rows={folder / 'a.rows'}", "--bind", "127.0.0.1",
               *(word for name in Server.SERVICES for word in ("--port", f"{name}=0"))]
    for path, why in ((server.rings, f"another process serves '{server.rings}'; end that one, or give --rings another path"),
                      (server.path, f"whether another process serves '{server.path}' cannot be asked: Protocol wrong type for socket; give --rings another path, or remove it if nobody does"),
                      (folder / "a.rows", f"'{folder / 'a.rows'}' exists and is not a socket; remove it, or give --rings another path"),
                      (folder / "no" / "x", f"cannot listen at '{folder / 'no' / 'x'}': No such file or directory; make its folder first, or give --rings another path")):
        done = subprocess.run([*command, "--rings", path], capture_output=True, text=True, timeout=60)
        expect(f"--rings {path.name}", (done.returncode, done.stderr.splitlines()[-1]), (3, f"chainio-runtime: {why}"))
    expect("ends", server.stop(), 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(server.rings))
    server = Server(folder)
    with server.client() as client:
        expect("a socket that somebody has left is put aside", client.call(plain(1, 5)[0]), DATA[1000:1005])
    expect("ends", server.stop(), 0)
    for given, mode in (("0660", 0o660), ("666", 0o666), ("7", 0o007)):
        server = Server(folder, "--rings-mode", given, "--socket-mode", given)
        expect(f"of mode {given}", [stat.S_IMODE(os.stat(path).st_mode) for path in (server.rings, server.path)], [mode, mode])
        expect("ends", server.stop(), 0)
    for given in ("1777", "8", "rw", "-1", "", "00600"):
        done = subprocess.run([*command, "--rings-mode", given], capture_output=True, text=True, timeout=60)
        expect(f"mode '{given}'", (done.returncode, done.stderr.splitlines()[0]), (2, f"chainio-runtime: --rings-mode: '{given}' is no mode of a file, 0 to 777 in octal"))


def test_no_descriptors(folder):
    """Who cannot be taken on for want of descriptors is told, or waits, and others are served."""
    server = Server(folder)
    with server.client() as client:
        for more, what in ((1, "no doorbell can be made"), (2, "cannot make the block memory (memfd)")):
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (server.descriptors() + more, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            expect(f"with room for {more}, it is told", refusal(server, "plain"), f"the server cannot take on another client: {what}: Too many open files")
        expect("others are served", client.call(plain(1, 5)[0]), DATA[1000:1005])
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        with ring_client.meet(server.rings) as sock:
            sock.send(ring_client.hello("plain", 1, 512))
            netns.until("that is said", lambda: any("fallback accept-waits" in line for line in server.said))
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
            for fd in ring_client.answer(sock):
                os.close(fd)
    expect("ends", server.stop(), 0)


def compile_spec(folder, text, name):
    (folder / "app.chain").write_text(text)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / name], check=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.rows").write_bytes(DATA)
        compile_spec(folder, services_udp.SPEC + TCP_ONLY, "app.bpf.o")
        server = Server(folder)
        test_replies(server)
        test_many(server)
        test_refusals(server)
        test_broken(server)
        test_scribbler(server)
        test_many_clients(server)
        test_killed(server)
        test_descriptor(server)
        expect("ends", server.stop(), 0)
        test_silent(folder)
        test_long(folder)
        test_waiting(folder)
        test_end(folder)
        test_reload(folder)
        test_reload_to_others(folder)
        test_path(folder)
        test_no_descriptors(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
