#!/usr/bin/env python3
"""memcached's protocol over a store, by tcp, by datagrams through sockets and by AF_XDP with the driver's cache, while both ends of the veth pair go down
and up, clients vanish, the spec is reloaded and the store is replaced, by a seed. Every reply is a whole value of a store that there was.

Some seconds in a check, ten minutes in tools/soak. CHAINIO_SEED=N: another sequence of events."""
import errno
import os
import pathlib
import random
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
import netns
import runs
from runs import BUILD, ROOT, expect
from services_rewritten import ADDRESS, PORT, VERSIONS, Client, Datagrams, Runtime, Stream, Truth, answered, build, joined, ways

SOAK = os.environ.get("CHAINIO_SOAK") == "1"
SECONDS, RELOADS = (600, 100) if SOAK else (10, 5)
SEED = int(os.environ.get("CHAINIO_SEED", "20291"))
LOST = 0.5  # seconds after which a datagram or its reply counts as lost


class LossyDatagrams(Datagrams):
    """Asks again where a datagram was lost, as clients of UDP do. What comes late belongs to nobody."""

    def __init__(self, namespace):
        super().__init__(namespace)
        self.lost = 0

    def ask(self, request):
        until = time.monotonic() + netns.PATIENCE
        while time.monotonic() < until:
            self.number = (self.number + 1) % 65536
            try:
                self.sock.send(struct.pack("!HHHH", self.number, 0, 1, 0) + request)
                return self.reply()
            except TimeoutError:
                pass
            except OSError as error:
                if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN):
                    raise
                time.sleep(0.01)
            self.lost += 1
        raise TimeoutError("no reply, however often it was asked for")

    def reply(self):
        self.sock.settimeout(LOST)
        parts, count = {}, 1
        while len(parts) < count:
            data = self.sock.recv(1 << 16)
            got, at, of, _ = struct.unpack("!HHHH", data[:8])
            if got == self.number:
                parts[at], count = data[8:], of
        return b"".join(parts[at] for at in range(count))


class Scene:
    def __init__(self, folder, pair):
        self.folder, self.pair, self.rng, self.truth = folder, pair, random.Random(SEED), Truth()
        build(folder)
        shutil.copy(folder / "0.store", folder / "main.store")
        self.version, self.did = 0, {}
        self.runtime = Runtime(folder, pair)
        self.artifacts = [self.compiled(folder, number, ttl) for number, ttl in enumerate(("10s", "100ms", "1s"))]
        here, there = pair.here, pair.there
        self.clients = [Client("tcp via uring", Stream(here), self.truth), Client("udp via uring", LossyDatagrams(there), self.truth),
                        *(Client(f"udp via xdp {number}", LossyDatagrams(here), self.truth) for number in range(2))]
        for client in self.clients:
            client.start()

    @staticmethod
    def compiled(folder, number, ttl):
        out = folder / f"{number}.o"
        subprocess.run([BUILD / "bin" / "chainc", ROOT / "stdlib-chains" / "std" / "memcached.chain", "-I", ROOT / "stdlib-chains", "-D", f"TTL={ttl}", "-o", out], check=True)
        return out.read_bytes()

    def stats(self):
        return self.runtime.all_stats()

    def put(self, artifact):
        fresh = self.folder / "memcached.new"
        fresh.write_bytes(artifact)
        fresh.rename(self.folder / "memcached.o")

    def flap(self, namespace, device):
        netns.ip("link", "set", device, "down", namespace=namespace)
        time.sleep(self.rng.uniform(0.05, 0.4))  # how long it is down is the event
        netns.ip("link", "set", device, "up", namespace=namespace)

    def their_end(self):
        self.flap(self.pair.here, "va")

    def our_end(self):
        self.flap(self.pair.there, "vb")

    def reload(self):
        self.put(self.rng.choice(self.artifacts))
        if self.rng.random() < 0.5:
            done = self.stats()["reloads"]["done"]
            self.runtime.process.send_signal(signal.SIGHUP)
            netns.until("SIGHUP reloads", lambda: self.stats()["reloads"]["done"] > done)
        else:
            subprocess.run([BUILD / "bin" / "chainio", "control", self.runtime.path, "reload"], check=True, stdout=subprocess.DEVNULL)

    def refuse(self):
        self.put(b"no artifact")
        done = subprocess.run([BUILD / "bin" / "chainio", "control", self.runtime.path, "reload"], capture_output=True)
        if done.returncode == 0:
            expect("what is no artifact is refused", done.returncode, "an error")

    def replace(self):
        """Where nobody is told, values of before may come until somebody is."""
        then = (self.version + 1) % VERSIONS
        shutil.copy(self.folder / f"{then}.store", self.folder / "new")
        self.truth.allowed = self.truth.allowed | {then}
        os.rename(self.folder / "new", self.folder / "main.store")
        self.version = then
        if self.rng.random() < 0.5:
            self.runtime.invalidate()
            self.truth.allowed = frozenset({then})

    def vanish(self):
        """One in the middle of a request, one that reads no reply, and datagrams of nobody."""
        with netns.inside(self.pair.here):
            half, deaf = (socket.create_connection((ADDRESS, PORT), timeout=60) for _ in range(2))
        half.sendall(b"get key1")
        deaf.sendall(b"get key5\r\n" * 50)
        for each in (half, deaf):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
            each.close()
        gone = netns.udp(self.pair.here)
        gone.connect((ADDRESS, PORT))
        for number in range(20):
            gone.send(struct.pack("!HHHH", number, 0, 1, 0) + b"get key5\r\n")
        gone.close()

    def act(self):
        """One event after the other; each kind once before any by chance, and as many reloads as are asked for."""
        kinds = [self.their_end, self.our_end, self.reload, self.replace, self.refuse, self.vanish]
        first = [*kinds, *[self.reload] * (RELOADS - 1)] if not SOAK else list(kinds)
        end, early = time.monotonic() + SECONDS, None
        while (time.monotonic() < end or first) and not any(each.wrong for each in self.clients):
            event = first.pop() if first else self.rng.choice([*kinds, self.reload])
            event()
            self.did[event.__name__] = self.did.get(event.__name__, 0) + 1
            answered(self.clients, 5)
            if early is None and not first and time.monotonic() > end - SECONDS * 3 / 4:
                early = self.in_use_kib()
        return early if early is not None else self.in_use_kib()

    def in_use_kib(self):
        """Of an edition that has had as many requests as touch what it keeps: on a slow machine the last one may have had few."""
        answered(self.clients, 1000)
        return self.resident_kib()

    def resident_kib(self):
        netns.until("the edition before ends", lambda: not self.stats()["before_runs"])
        status = pathlib.Path(f"/proc/{self.runtime.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def end(self, early):
        """The driver still answers, and what was in use is given back."""
        self.runtime.invalidate()
        self.truth.allowed = frozenset({self.version})
        answered(self.clients, 100)
        hits = self.hits()
        netns.until("the driver answers to the end", lambda: self.hits() > hits)
        netns.until("datagrams come by the interface again, and hot ones from the driver", lambda: all(ways(self.stats())))
        self.truth.over = True
        for client in self.clients:
            client.join()
            lost = getattr(client.way, "lost", 0)
            expect(f"{client.name}: {client.replies} replies, {lost} asked for again: none wrong", (client.wrong, client.errors), ([], 0))
        late = self.resident_kib()
        stats = self.stats()
        expect("as many reloads as were asked for", stats["reloads"]["done"], lambda done: done >= RELOADS)
        expect("datagrams came by both ways, and hot ones from the driver", ways(stats), (True, True, True))
        expect("no frame leaked", stats["leaked_frames"], 0)
        expect("memory is flat", late - early, lambda grown: grown < 8 << 10)
        print(f"      seed {SEED}: {sum(each.replies for each in self.clients)} replies, {stats['reloads']['done']} reloads, {self.did}; KiB resident {early}, then {late}")

    def hits(self):
        return next(each for each in self.stats()["services"] if each["transport"] == "udp")["cache"]["hits"]


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair(mtu=1500) as pair:
        folder = pathlib.Path(name)
        netns.ip("link", "set", "dev", "va", "xdp", "obj", netns.passing(folder), "sec", "xdp.frags", namespace=pair.here)
        scene = Scene(folder, pair)
        try:
            scene.end(scene.act())
        finally:
            joined(scene.clients, scene.truth)
            if scene.runtime.process.poll() is None:
                expect("it ends", scene.runtime.stop(), 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
