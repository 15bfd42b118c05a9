#!/usr/bin/env python3
"""Replies that the driver keeps, on a veth pair: hits without the runtime, what is not kept, forgetting by command, by time and by other files, under
clients that never stop; a peer that takes no packets from a program."""
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from runs import BUILD, expect
from services_udp import Server

# Replies depend on `kind` and the line, and not on `id`, which `on datagram` repeats.
SPEC = """
param TTL = 3600s
app kv { files rows = "*.rows" { immutable }  class fast { priority 0 } }
chain row(file: file rows, number: u32, length: u32) in class fast -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 4000 for length in file) { return b }
}
service lines on udp 7001 via xdp, tcp 7001 via uring in class fast {
  text Line { "row " number: int " " length: int "\\n" }
  request udp { id: u32be  kind: u16be  line: Line }
  request tcp { line: Line }
  cache 64 entries ttl TTL
  on request {
    let v = row(rows["a.rows"], line.number as u32, line.length as u32) else fail not_found
    reply line.number:dec " " v
  }
  on datagram { reply request.id:u32be, datagram.number:u16be, datagram.count:u16be }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
service plain on udp 7002 via xdp {
  request { number: u32be  length: u32be }
  cache 16 entries ttl TTL
  on request { reply row(rows["a.rows"], request.number, request.length) }
}
# Its replies are all the same for one number, says its key, whatever the handler makes of the rest.
service keyed on udp 7003 via xdp {
  request { number: u32be  note: u32be }
  cache 16 entries ttl TTL key request.number
  on request {
    skip request.note / 1000
    reply row(rows["a.rows"], request.number, 16) request.note:u32be
  }
}
"""
THERE = "10.9.0.2", "fd09::2"
ROWS, SEED = 300, 20281


def row(number, version):
    """Every 16 bytes of it say which row of which version it is."""
    return (b"%06d.%08d." % (number, version)) * 250


def all_rows(version):
    return b"".join(row(number, version) for number in range(ROWS))


def write_rows(folder, version):
    """Another file under the name, in one step."""
    (folder / "new").write_bytes(all_rows(version))
    os.rename(folder / "new", folder / "a.rows")


class OnVeth(Server):
    SERVICES, ENDPOINTS = ("lines", "plain", "keyed"), 4

    def __init__(self, folder, pair, *options, spec="long.bpf.o", preload=None):
        self.pair = pair
        (folder / "app.bpf.o").unlink(missing_ok=True)
        (folder / "app.bpf.o").symlink_to(folder / spec)
        prefix = pair.command(pair.there, *(["env", f"LD_PRELOAD={preload}"] if preload else []))
        super().__init__(folder, "--interface", "vb", *options, bind="::", prefix=prefix)

    def client(self, service="lines", address=THERE[0]):
        made = netns.udp(self.pair.here, family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        netns.take_much(made)
        made.connect((address, self.ports[service, "udp"]))
        return made

    def cache(self, service="lines"):
        return self.stats(service)["cache"]

    def both(self, service="lines"):
        """What the runtime and the driver have answered."""
        stats = self.stats(service)
        return stats["requests"], stats["cache"]["hits"]

    def passed_on(self, service="lines"):
        """What the driver has left to the runtime, as it had no reply, or an old one."""
        cache = self.cache(service)
        return cache["misses"], cache["stale"]

    def forget(self):
        done = subprocess.run([BUILD / "bin" / "chainio", "control", self.path, "invalidate"], capture_output=True, text=True, timeout=netns.PATIENCE * 2)
        assert done.returncode == 0, done.stderr


def ask(sock, number, length, id_=1, kind=0):
    sock.send(struct.pack("!IH", id_, kind) + b"row %d %d\n" % (number, length))
    return sock.recv(1 << 16)


def right(number, length, version, id_=1):
    return struct.pack("!IHH", id_, 0, 1) + b"%d " % number + row(number, version)[:length]


def test_hits(server):
    for address in THERE:
        server.forget()
        sock = server.client(address=address)
        for length in (1, 2, 15, 16, 100, 150):
            (asked, hits), (misses, stale) = server.both(), server.passed_on()
            got = [ask(sock, 7, length, id_) for id_ in (5, 0xfffefdfc, 0, 77)]
            expect(f"{length} bytes by {address}, with each request's own begin", got, [right(7, length, 1, id_) for id_ in (5, 0xfffefdfc, 0, 77)])
            first = (misses + 1, stale) if address == THERE[0] else (misses, stale + 1)  # then it is there, and of before
            expect("  once by the runtime, then by the driver", (server.both(), server.passed_on()), ((asked + 1, hits + 3), first))
        asked, hits = server.both()
        got = [ask(sock, 7, 100, 9, kind) for kind in (1, 2, 1)]
        expect("a field that the handler does not name is not compared", (got, server.both()), ([right(7, 100, 1, 9)] * 3, (asked, hits + 3)))
        sock.close()
        sock = server.client("plain", address)
        (asked, hits), passed_on = server.both("plain"), sum(server.passed_on("plain"))
        got = []
        for number, length in ((3, 1), (3, 1), (3, 2), (3, 2), (4, 1), (4, 200), (4, 200)):
            sock.send(struct.pack("!II", number, length))
            got.append(sock.recv(1 << 16))
        expect("without `on datagram`, shorter and longer than the request", got,
               [row(number, 1)[:length] for number, length in ((3, 1), (3, 1), (3, 2), (3, 2), (4, 1), (4, 200), (4, 200))])
        expect("  what differs is asked for", (server.both("plain"), sum(server.passed_on("plain"))), ((asked + 4, hits + 3), passed_on + 4))
        sock.close()


def test_plan(folder):
    """Each cache is kept, that with a key of its own as well."""
    done = subprocess.run([BUILD / "bin" / "chainio-runtime", "--spec", folder / "long.bpf.o", "--check", "--json"], capture_output=True, text=True,
                          timeout=netns.PATIENCE)
    caches = [(row["name"], row["state"]) for row in json.loads(done.stdout) if row["kind"] == "cache"]
    expect("the plan says that each runs", caches, [(name, "runs") for name in OnVeth.SERVICES])


def test_key(server):
    sock = server.client("keyed")
    asked, hits = server.both("keyed")
    got = []
    for number, note in ((3, 5), (3, 6), (4, 6), (3, 7)):
        sock.send(struct.pack("!II", number, note))
        got.append(sock.recv(1 << 16))
    expect("under a key of its own", got, [row(number, 1)[:16] + struct.pack("!I", note) for number, note in ((3, 5), (3, 5), (4, 6), (3, 5))])
    expect("  only that is compared", server.both("keyed"), (asked + 2, hits + 2))
    got = []
    for note in (9000, 9001):
        sock.send(struct.pack("!II", 5, note))
        got.append(sock.recv(1 << 16))
    want = [row(5, 1)[:16] + struct.pack("!I", note) for note in (9000, 9001)]
    expect("what skips bytes behind it is not kept", (got, server.both("keyed")), (want, (asked + 4, hits + 2)))
    sock.close()


def test_not_kept(server):
    """What must not come from the driver, or cannot."""
    sock = server.client()
    def twice(what, request, want):
        (asked, hits), (misses, stale) = server.both(), server.passed_on()
        got = []
        for _ in range(2):
            sock.send(request)
            got += [sock.recv(1 << 16) for _ in want]
        expect(what, (got, server.both(), server.passed_on()), (want * 2, (asked + 2 * len(want), hits), (misses + 2, stale)))

    head = struct.pack("!IHH", 4, 0, 1)
    twice("a request of bad form is answered each time", struct.pack("!IH", 4, 0) + b"rwo\n", [head + b"bad"])
    twice("and one that failed", struct.pack("!IH", 4, 0) + b"row 9999 10\n", [head + b"sorry"])
    twice("and several in a datagram", struct.pack("!IH", 4, 0) + b"row 1 2\nrow 2 2\n", [head + b"1 00", head + b"2 00"])
    asked, hits = server.both()
    for _ in range(3):
        expect("a long reply", ask(sock, 1, 1300), right(1, 1300, 1))
    asked_now, hits_now = server.both()
    expect("  comes from whom has room for it", asked_now + hits_now, asked + hits + 3)
    expect("  and that is counted", hits_now + server.cache()["no_room"], lambda n: n >= hits + 2)
    long = struct.pack("!IH", 4, 0) + b"row 1 2" + b" " * 260 + b"\n"
    twice("and a request that is too long to be looked up", long, [head + b"bad"])
    sock.close()


def test_forgotten(server):
    sock = server.client()
    first = [ask(sock, 20, 50), ask(sock, 20, 50)]
    asked, hits = server.both()
    stale = server.cache()["stale"]
    server.forget()
    got = [ask(sock, 20, 50), ask(sock, 20, 50)]
    expect("forgotten by command, and kept again", (first + got, server.both(), server.cache()["stale"]),
           ([right(20, 50, 1)] * 4, (asked + 1, hits + 1), stale + 1))
    sock.close()


def test_more_than_fit(server):
    """300 rows in 64 places: whatever is thrown out, every answer is right."""
    sock = server.client()
    rng = random.Random(SEED)
    wrong = []
    for id_ in range(3000):
        number = min(rng.randrange(ROWS), rng.randrange(ROWS), rng.randrange(ROWS))
        if ask(sock, number, 60, id_) != right(number, 60, 1, id_):
            wrong.append(number)
    expect("3000 requests for more than are kept", wrong, [])
    sock.close()


def test_replaced(folder, server, rounds):
    """Once a new file is acknowledged, no client sees a byte of an older one."""
    newest = acknowledged = 1
    stop, wrong, answers = threading.Event(), [], [0] * 4

    def hammer(which):
        sock = server.client(address=THERE[which % 2])
        rng = random.Random(SEED + which)
        while not stop.is_set():
            number, id_, least = rng.randrange(20), rng.randrange(1 << 32), acknowledged
            try:
                got = ask(sock, number, 48, id_)
            except OSError as error:  # a reply is lost
                wrong.append((number, least, newest, error))
                break
            if got not in [right(number, 48, version, id_) for version in range(least, newest + 1)]:
                wrong.append((number, least, newest, got))
            answers[which] += 1
        sock.close()

    threads = [threading.Thread(target=hammer, args=(which,)) for which in range(len(answers))]
    for thread in threads:
        thread.start()
    try:
        for version in range(2, rounds + 2):
            newest = version
            write_rows(folder, version)
            server.forget()
            acknowledged = version
            hits = server.cache()["hits"]
            netns.until("the driver answers again", lambda: server.cache()["hits"] > hits + 50)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    expect(f"{rounds} files, each acknowledged, under {sum(answers)} requests: none saw an older one", wrong, [])
    expect("  each was opened anew", server.all_stats()["reloads"]["for_files"], rounds)
    expect("  no edition has kept a frame", server.all_stats()["leaked_frames"], 0)


def test_unasked(folder, server):
    """A file that is replaced, or written to in place against its `immutable`, while the driver answers, and nobody says so: the runtime looks once a second."""
    sock = server.client()

    def by_the_driver(version):
        """The row of that version, from the driver; until then that of the version before, from whoever has it."""
        hits = server.cache()["hits"]
        got = [ask(sock, 8, 48, id_) for id_ in range(20)]
        wrong.extend(one for id_, one in enumerate(got) if one not in (right(8, 48, version, id_), right(8, 48, version - 1, id_)))
        return got == [right(8, 48, version, id_) for id_ in range(20)] and server.cache()["hits"] == hits + 20

    wrong, version = [], 0
    for what in ("replaced", "written to"):
        version += 1
        write_rows(folder, version)
        server.forget()
        netns.until("the driver answers", lambda: by_the_driver(version))
        opened = server.all_stats()["reloads"]["for_files"]
        version += 1
        if what == "replaced":
            write_rows(folder, version)
        else:
            with open(folder / "a.rows", "r+b") as file:
                file.write(all_rows(version))
        netns.until(f"the driver answers from a file that was {what}", lambda: by_the_driver(version))
        expect(f"a file that was {what} is noticed", server.all_stats()["reloads"]["for_files"], lambda now: now > opened)
    expect("  each answer was a row of before or after", wrong, [])
    sock.close()


def test_reload(folder, pair):
    """Another spec by SIGHUP, over replies that the driver keeps: its answers come, by the runtime and then by the driver."""
    write_rows(folder, 1)
    server = OnVeth(folder, pair)
    sock = server.client()
    expect("kept", ([ask(sock, 5, 40) for _ in range(3)], server.both()), ([right(5, 40, 1)] * 3, (1, 2)))
    counted = server.cache()
    (folder / "app.bpf.o").unlink()
    (folder / "app.bpf.o").symlink_to(folder / "other.bpf.o")
    server.process.send_signal(signal.SIGHUP)
    netns.until("the other spec is served", lambda: server.all_stats()["edition"] == 2 and not server.all_stats()["before_runs"])
    # Its queues may be those of the edition before for a moment yet; until they are free, requests come by the sockets.
    netns.until("by the interface", lambda: server.all_stats()["interfaces"] != [])
    expect("what the driver has counted is counted on", server.cache(), counted)
    other = right(5, 40, 1).replace(b"5 ", b"5=")
    (asked, hits) = server.both()
    expect("after SIGHUP the other spec's answers", ([ask(sock, 5, 40) for _ in range(3)], server.both()), ([other] * 3, (asked + 1, hits + 2)))
    sock.close()
    expect("ends", server.stop(), 0)
    expect("and says how many answers left, of which the driver gave four", server.said[-1], "stopped after 6 answers\n")


def served(folder, pair, *options):
    write_rows(folder, 1)
    server = OnVeth(folder, pair, *options)
    side = server.all_stats()["interfaces"][0]
    print("      " + side["mode"])
    expect("answers by itself", side["answers_by_itself"], True)
    test_hits(server)
    test_key(server)
    test_not_kept(server)
    test_forgotten(server)
    test_more_than_fit(server)
    test_replaced(folder, server, 6)
    test_unasked(folder, server)
    netns.until("only posted frames are in use", lambda: (lambda stats: stats["frames_in_use"] == stats["interfaces"][0]["frames_posted"])(server.all_stats()))
    expect("ends", server.stop(), 0)


def test_ttl(folder, pair):
    write_rows(folder, 1)
    server = OnVeth(folder, pair, spec="short.bpf.o")
    sock = server.client()
    wrong = []

    def expired():
        wrong.extend(got for _ in range(50) if (got := ask(sock, 5, 40)) != right(5, 40, 1))
        cache = server.cache()
        return cache["stale"] >= 3 and cache["hits"] > 0
    netns.until("a reply is sent again, and is too old thrice", expired)
    expect("each answer was right", wrong, [])
    expect("a reply that was too old is kept anew", server.cache(), lambda cache: cache["kept"] > cache["stale"] >= 3)
    sock.close()
    expect("ends", server.stop(), 0)


def copies(server):
    """Of payload in user space, but for what is kept for the driver."""
    stats = server.all_stats()
    return sum(each["payload_copies"] for each in [*stats["interfaces"], *stats["services"]])


def test_peer(folder, pair):
    """On veth a packet from a program arrives only at a peer that has one, too."""
    write_rows(folder, 1)
    server = OnVeth(folder, pair)
    expect("said", [line for line in server.said if "xdp-cache-off" in line], lambda lines: len(lines) == 1)
    sock = server.client()
    expect("served all the same", [ask(sock, 5, 40) for _ in range(3)], [right(5, 40, 1)] * 3)
    expect("  by the runtime, which keeps nothing for a driver that does not answer", (server.both(), server.cache()["kept"]), ((3, 0), 0))
    pair.link_pass()
    netns.until("it is noticed that the peer has a program", lambda: server.all_stats()["interfaces"][0]["answers_by_itself"])
    expect("  which is woken by what it is sent", server.all_stats()["interfaces"][0]["answers_by"], "XDP_TX")
    expect("then by the driver, but for the first", ([ask(sock, 5, 40) for _ in range(3)], server.both()), ([right(5, 40, 1)] * 3, (4, 2)))
    expect("  by the one reply that was kept, and copied for nothing else", (server.cache()["kept"], copies(server)), (1, 0))
    pair.unlink_pass()
    netns.until("it is noticed that it has none any more", lambda: not server.all_stats()["interfaces"][0]["answers_by_itself"])
    expect("then by the runtime again", ([ask(sock, 5, 40) for _ in range(3)], server.both()), ([right(5, 40, 1)] * 3, (7, 2)))
    pair.link_pass()  # for those that come after
    sock.close()
    expect("ends", server.stop(), 0)


def test_peer_without_news(folder, pair):
    """Where nobody would tell of the end of the peer's program, replies go as they do to a peer without one."""
    server = OnVeth(folder, pair, preload=netns.unheard(folder))
    sock = server.client()
    netns.until("the driver answers", lambda: ask(sock, 5, 40) == right(5, 40, 1) and server.cache()["hits"] > 0)
    expect("  by redirects", server.all_stats()["interfaces"][0]["answers_by"], "redirect")
    sock.close()
    expect("ends", server.stop(), 0)


def test_peer_unasked(folder, pair):
    """A peer that cannot be asked about for the moment is not said to take nothing, and is asked about again."""
    server = OnVeth(folder, pair)
    answers = lambda: server.all_stats()["interfaces"][0]["answers_by_itself"]
    netns.until("the driver answers", answers)
    with netns.without_descriptor(server.process.pid):
        netns.ip("link", "set", "va", "down", namespace=pair.here)
        netns.ip("link", "set", "va", "up", namespace=pair.here)
        said = "fallback xdp-cache-off (1x): vb answers nothing by itself, as the kernel cannot be asked whether its peer takes packets from an XDP program: "
        netns.until("why it does not is said", lambda: any(line.startswith(said + "Too many open files") for line in server.said))
    netns.until("it answers again, without further news", answers)
    expect("nothing else was said of it", [line for line in server.said if "xdp-cache-off" in line], lambda lines: len(lines) == 1)
    netns.ip("addr", "add", "fd09::1/64", "dev", "va", "nodad", namespace=pair.here)  # went with the link
    expect("ends", server.stop(), 0)


def test_peer_with_gro(folder):
    """A peer without a program takes what comes from one if it has GRO, and if that is redirected to it."""
    with PassPair(name="-gro") as pair:
        pair.program = folder / "pass.o"
        netns.use_offload(pair.here, "va", "gro", 1)
        write_rows(folder, 1)
        server = OnVeth(folder, pair)

        def by_the_driver(what, how):
            netns.until(f"{what}: the driver answers by {how}", lambda: server.all_stats()["interfaces"][0]["answers_by"] == how)
            for address in THERE:
                server.forget()
                sock, (asked, hits) = server.client(address=address), server.both()
                expect(f"  and its bytes arrive from {address}", ([ask(sock, 5, 40) for _ in range(4)], server.both()), ([right(5, 40, 1)] * 4, (asked + 1, hits + 3)))
                sock.close()

        by_the_driver("a peer with GRO alone", "redirect")
        netns.ip("link", "set", "va", "down", namespace=pair.here)
        netns.ip("link", "set", "va", "up", namespace=pair.here)
        netns.ip("addr", "add", "fd09::1/64", "dev", "va", "nodad", namespace=pair.here)  # went with the link
        by_the_driver("after it was down", "redirect")
        pair.link_pass()
        by_the_driver("with a program as well", "XDP_TX")
        pair.unlink_pass()
        by_the_driver("without it again", "redirect")
        netns.use_feature(pair.there, "vb", "tx-gso-list", False)
        pair.link_pass()
        by_the_driver("with one of whose end nobody would tell", "redirect")
        expect("  it stays so", server.all_stats()["interfaces"][0]["answers_by"], "redirect")
        pair.unlink_pass()
        netns.use_offload(pair.here, "va", "gro", 0)
        netns.until("it is noticed that GRO is off", lambda: not server.all_stats()["interfaces"][0]["answers_by_itself"])
        (asked, hits), sock = server.both(), server.client()
        expect("then by the runtime", ([ask(sock, 5, 40) for _ in range(3)], server.both()), ([right(5, 40, 1)] * 3, (asked + 3, hits)))
        sock.close()
        expect("ends", server.stop(), 0)


def test_both_protocols(folder):
    """What is kept is sent over IPv4 and IPv6, so that it has to fit both."""
    with PassPair(mtu=1500, name="-short") as pair:
        pair.program = folder / "pass.o"
        pair.link_pass()
        write_rows(folder, 1)
        server = OnVeth(folder, pair)
        sock = server.client("plain")
        for length, kept in ((1452, 1), (1453, 0), (1472, 0)):
            before = server.cache("plain")["kept"]
            sock.send(struct.pack("!II", 3, length))
            expect(f"a reply of {length} bytes over IPv4", sock.recv(1 << 16), row(3, 1)[:length])
            expect("  is kept where IPv6 takes it", server.cache("plain")["kept"] - before, kept)
        sock.close()
        expect("ends", server.stop(), 0)


class PassPair(netns.Pair):
    def link_pass(self):
        netns.ip("link", "set", "dev", "va", "xdp", "obj", self.program, "sec", "xdp.frags", namespace=self.here)

    def unlink_pass(self):
        netns.ip("link", "set", "dev", "va", "xdp", "off", namespace=self.here)


def prepare(folder):
    (folder / "app.chain").write_text(SPEC)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "long.bpf.o"], check=True)


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, PassPair() as pair:
        folder = pathlib.Path(name)
        prepare(folder)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-D", "TTL=200ms", "-o", folder / "short.bpf.o"], check=True)
        (folder / "other.chain").write_text(SPEC.replace('line.number:dec " "', 'line.number:dec "="'))
        subprocess.run([BUILD / "bin" / "chainc", folder / "other.chain", "-o", folder / "other.bpf.o"], check=True)
        test_plan(folder)
        pair.program = netns.passing(folder)
        test_peer(folder, pair)
        test_peer_without_news(folder, pair)
        test_peer_unasked(folder, pair)
        test_peer_with_gro(folder)
        served(folder, pair)
        served(folder, pair, "--xdp-attach", "generic", "--no-ring")
        test_ttl(folder, pair)
        test_reload(folder, pair)
        test_both_protocols(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
