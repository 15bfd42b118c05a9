#!/usr/bin/env python3
"""`via xdp` on an interface that others use, too: by libxdp's dispatcher, with programs that came before and after; those that came without it, and kernels
that have none.

usage: xdp_shared.py [prepare FOLDER | run FOLDER]   In a guest of tests/vm what `prepare` made on the host is run, and the kernel has to have a dispatcher."""
import contextlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
import services_cache
import services_cache_large
from runs import BUILD, expect
from services_cache import row, write_rows

LIBXDP = pathlib.Path(__file__).resolve().parent / "support" / "libxdp.py"
# A program of others: counts what it sees and lets it pass.
FOREIGN = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); } SEEN SEC(".maps");
SEC("xdp") int NAME(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&SEEN, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	return XDP_PASS;
}
char _license[] SEC("license") = "GPL";
"""
OURS = "ours"
LARGE = 16  # services whose caches are larger than a guest's memory
FIRST, LAST = ("early", 50), ("late", 70)  # with the priorities that they ask for; ours is between them


def prepare(folder):
    (folder / "app.chain").write_text(services_cache.SPEC)
    subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
    services_cache_large.prepare(folder, LARGE)
    (folder / "foreign.c").write_text(FOREIGN)
    (folder / "pass.c").write_text(netns.PASS)
    compile_bpf = ["clang-19", "--target=bpfel", "-O2", "-g", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c"]
    for name, _ in (FIRST, LAST):
        subprocess.run([*compile_bpf, folder / "foreign.c", f"-DNAME={name}", f"-DSEEN=seen_{name}", "-o", folder / f"{name}.o"], check=True)
    subprocess.run([*compile_bpf, folder / "pass.c", "-o", folder / "pass.o"], check=True)


class Pair(netns.Pair):
    """Commands enter the network namespace only: `ip netns exec` hides /sys/fs/bpf from them."""

    hides = False

    def command(self, namespace, *words):
        return super().command(namespace, *words) if self.hides else ["nsenter", f"--net=/run/netns/{namespace}", *map(str, words)]

    @contextlib.contextmanager
    def hidden(self):
        self.hides = True
        try:
            yield
        finally:
            self.hides = False

    def libxdp(self, *words):
        done = subprocess.run(self.command(self.there, sys.executable, LIBXDP, *words), capture_output=True, text=True, timeout=netns.PATIENCE)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def attach(self, folder, program):
        expect(f"'{program[0]}' is attached by libxdp", self.libxdp("attach", folder / f"{program[0]}.o", "vb", program[1]), lambda done: done[0] == 0)

    def detach(self, program):
        expect(f"'{program[0]}' is detached", self.libxdp("detach", program[0], "vb"), lambda done: done[0] == 0)

    def programs(self):
        """The names of those in the dispatcher; ours has two forms."""
        return [OURS if name in ("chainio_take", "chainio_hand") else name for name in self.libxdp("list", "vb")[1].split()]

    def leave(self):
        """What libxdp has pinned outlives the interface: a test that failed midway detaches it all."""
        for name in self.libxdp("list", "vb")[1].split():
            self.libxdp("detach", name, "vb")

    def attached(self):
        return self.link(self.there, "vb").get("xdp")


class Server(services_cache.OnVeth):
    started = []

    def __init__(self, folder, pair, *options):
        super().__init__(folder, pair, *options, spec="app.o")
        self.started.append(self)

    @classmethod
    def end_all(cls):
        """What a failed test has left, and what each said."""
        for server in cls.started:
            if server.process.poll() is None:
                print("".join(server.said))
                server.process.kill()
                server.process.wait()

    def fallbacks(self, name):
        return [line for line in self.said if f"{name} (" in line]

    def right(self, what, number=3):
        """Three requests, the first of which is new to the driver; how many came by the interface. The driver has those behind the first, if it keeps replies."""
        hits = lambda: self.cache("plain")["hits"]
        side = lambda: sum(each["received"] for each in self.all_stats()["interfaces"]) + hits()
        sock, before, before_hits = self.client("plain"), side(), hits()
        got = []
        for _ in range(3):
            sock.send(struct.pack("!II", number, 100))
            got.append(sock.recv(1 << 16))
        sock.close()
        expect(what, got, [row(number, 1)[:100]] * 3)
        taken = side() - before
        if taken:
            # Where the driver sends none, that is said.
            kept = not self.fallbacks("xdp-cache-refused") and not self.fallbacks("xdp-cache-off")
            expect(f"  and hot ones from the {'driver' if kept else 'runtime'}", hits() - before_hits, 2 if kept else 0)
        return taken


def seen(program):
    maps = json.loads(subprocess.run(["bpftool", "-j", "map", "list"], capture_output=True, text=True, check=True).stdout)
    latest = max(each["id"] for each in maps if each.get("name") == f"seen_{program[0]}")  # one before may not be freed yet
    said = json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "id", str(latest)], capture_output=True, text=True, check=True).stdout)
    return int.from_bytes(bytes(int(byte, 16) for byte in said[0]["value"]), "little")


def to_nobody(pair):
    """A datagram for a port that is not declared; the kernel gets it."""
    with netns.udp(pair.there, ("10.9.0.2", 0)) as plain, netns.udp(pair.here) as client:
        client.sendto(b"x", plain.getsockname())
        return plain.recv(10) == b"x"


def test_beside(folder, pair):
    """One came before us, and one comes while we run; each does its work, in the order of their priorities, and stays behind us."""
    pair.attach(folder, FIRST)
    server = Server(folder, pair)
    mode = server.all_stats()["interfaces"][0]["mode"]
    expect("ours is beside it", (pair.programs(), "native program in libxdp's dispatcher" in mode), (["early", OURS], True))
    before = seen(FIRST)
    expect("  requests come by the interface", server.right("  answers"), 3)
    expect("  the other one has seen them", seen(FIRST) - before, lambda n: n >= 3)
    pair.attach(folder, LAST)
    expect("another one comes", pair.programs(), ["early", OURS, "late"])
    before, behind = seen(FIRST), seen(LAST)
    expect("  we go on", server.right("  answers", 4), 3)
    expect("  the kernel gets what nobody takes", to_nobody(pair), True)
    expect("  which both have seen, and the first one all", (seen(FIRST) - before >= 4, seen(LAST) > behind), (True, True))
    second = Server(folder, pair)
    expect("a second server is told", second.fallbacks("xdp-refused"), lambda lines: "another process of ChainIO has its XDP program on vb" in lines[0])
    expect("  and serves by its socket", (second.right("  answers"), second.stop()), (0, 0))
    edition = server.all_stats()["edition"]
    server.process.send_signal(1)
    netns.until("the next edition has the interface", lambda: (lambda s: s["edition"] == edition + 1 and not s["before_runs"] and s["interfaces"])(server.all_stats()))
    expect("a reload", (pair.programs(), server.right("  answers", 5)), (["early", OURS, "late"], 3))
    expect("we end", server.stop(), 0)
    expect("  and they stay", pair.programs(), ["early", "late"])
    before = seen(FIRST), seen(LAST)
    expect("  and work", (to_nobody(pair), seen(FIRST) > before[0], seen(LAST) > before[1]), (True, True, True))


def test_killed(folder, pair):
    """Both others are there. What a killed server leaves in the dispatcher takes nothing, and the next one clears it away."""
    server = Server(folder, pair)
    expect("a server that is to be killed", server.right("  answers"), 3)
    port = server.ports["plain", "udp"]
    server.process.kill()
    server.process.wait()
    server.rest.join()
    expect("  its program stays", pair.programs(), ["early", OURS, "late"])
    with netns.udp(pair.there, ("10.9.0.2", port)) as plain, netns.udp(pair.here) as client:
        client.connect(("10.9.0.2", port))
        request = struct.pack("!II", 3, 100)  # the driver had its reply
        client.send(request)
        expect("  and takes nothing, nor answers", plain.recv(100), request)
    server = Server(folder, pair)
    expect("  the next server has its place", (pair.programs(), server.right("  answers", 6)), (["early", OURS, "late"], 3))
    for program in (FIRST, LAST):
        pair.detach(program)
    expect("  the others go", (pair.programs(), server.right("  answers", 7)), ([OURS], 3))
    expect("  it ends", (server.stop(), pair.attached()), (0, None))


def test_without_memory(folder, pair):
    """There is none for what is to be kept: ours joins without it."""
    if services_cache_large.too_many() > LARGE:
        return print(f"skipped: the caches of {LARGE} services fit into the memory")
    pair.attach(folder, FIRST)
    server = services_cache_large.Server(folder, pair, LARGE)
    Server.started.append(server)
    expect("ours is beside it", pair.programs(), ["early", OURS])
    said = services_cache_large.keeps_nothing(server)
    expect("  with the cause", said[0].endswith("vb keeps no replies: libxdp's dispatcher on vb takes no program here that keeps replies: Cannot allocate memory"), True)
    pair.detach(FIRST)


def test_share(folder, pair):
    """Nobody is there when we come; one comes because we share."""
    server = Server(folder, pair, "--xdp-share")
    expect("ours alone, in a dispatcher", (pair.programs(), server.right("  answers")), ([OURS], 3))
    pair.attach(folder, FIRST)
    before = seen(FIRST)
    expect("one comes", (pair.programs(), server.right("  answers", 8), seen(FIRST) - before >= 3), (["early", OURS], 3, True))
    expect("we end", (server.stop(), pair.programs()), (0, ["early"]))
    # Without /sys/fs/bpf nothing can be learned of the dispatcher.
    with pair.hidden():
        server = Server(folder, pair)
    refused_beside(server, "a dispatcher that cannot be read")
    expect("  it stays", pair.programs(), ["early"])
    pair.detach(FIRST)
    server = Server(folder, pair)
    expect("alone, where nobody is and nothing is said", (server.right("a server"), pair.programs(), server.fallbacks("xdp-alone")), (3, [], []))
    code, _, said = pair.libxdp("attach", folder / "early.o", "vb", 50)
    expect("  keeps others out", (code, "attach: " in said, pair.attached()["prog"]["name"]), (1, True, "chainio_take"))
    expect("  it ends", (server.stop(), pair.attached()), (0, None))


def refused_beside(server, what):
    expect(what, server.fallbacks("xdp-refused"), lambda lines: len(lines) == 1 and "is not replaced" in lines[0] and "served via uring" in lines[0])
    expect("  the socket serves", (server.right("  answers"), server.all_stats()["interfaces"]), (0, []))
    expect("  it ends", server.stop(), 0)


def test_without(folder, pair):
    """A program that was attached without a dispatcher: it stays, whatever we are told."""
    netns.ip("link", "set", "dev", "vb", "xdp", "obj", folder / "pass.o", "sec", "xdp.frags", namespace=pair.there)
    before = pair.attached()
    for options in ((), ("--xdp-share",)):
        refused_beside(Server(folder, pair, *options), f"a foreign program without a dispatcher {options}")
        expect("  is what it was", pair.attached(), before)
    netns.ip("link", "set", "dev", "vb", "xdp", "off", namespace=pair.there)


def test_no_dispatcher(folder, pair):
    """The kernel has none: we say so and have the interface alone."""
    server = Server(folder, pair, "--xdp-share")
    expect("said", server.fallbacks("xdp-alone"), lambda lines: len(lines) == 1 and "freplace" in lines[0])
    expect("served by the interface", server.right("  answers"), 3)
    ours = pair.attached()
    expect("  by a program that goes with us", ours["prog"]["name"], "chainio_take")
    expect("others are refused, not ours replaced", (pair.libxdp("attach", folder / "early.o", "vb", 50)[0], pair.attached()), (1, ours))
    server.process.kill()
    server.process.wait()
    server.rest.join()
    netns.until("the kernel detaches it", lambda: pair.attached() is None)


def has_dispatcher(folder, pair):
    """Tried with a foreign program alone, which libxdp attaches by itself where there can be no dispatcher."""
    pair.libxdp("attach", folder / "early.o", "vb", 50)
    there = pair.programs() == ["early"]
    if there:
        pair.detach(FIRST)
    else:
        netns.ip("link", "set", "dev", "vb", "xdp", "off", namespace=pair.there)
    return there


def run(folder, demanded):
    with Pair(mtu=1500) as pair, tempfile.TemporaryDirectory(dir=os.environ.get("CHAINIO_VM_EXT4")) as name:
        ours = pathlib.Path(name)
        write_rows(ours, 1)
        for each in folder.glob("*.o"):
            (ours / each.name).symlink_to(each)
        # A veth takes what its peer's program sends back where it has one itself.
        netns.ip("link", "set", "dev", "va", "xdp", "obj", folder / "pass.o", "sec", "xdp.frags", namespace=pair.here)
        try:
            there = has_dispatcher(folder, pair)
            if demanded:
                expect("the kernel has a dispatcher", there, True)
            tests = [test_beside, test_killed, test_without_memory, test_share] if there else [test_no_dispatcher]
            for test in (*tests, test_without):
                test(ours, pair)
        finally:
            Server.end_all()
            pair.leave()
    print(f"{'with' if there else 'without'} a dispatcher")
    return runs.ended()


def main():
    if sys.argv[1:2] == ["prepare"]:
        return prepare(pathlib.Path(sys.argv[2]))
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    if sys.argv[1:2] == ["run"]:
        netns.PATIENCE = 180  # in software
        return run(pathlib.Path(sys.argv[2]), True)
    with tempfile.TemporaryDirectory() as name:
        prepare(pathlib.Path(name))
        return run(pathlib.Path(name), False)


if __name__ == "__main__":
    raise SystemExit(main())
