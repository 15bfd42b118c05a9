"""memcached's protocol from disk and from memory, across a veth pair: a chainio service against servers by hand and memcached

The service is std/memcached.chain over tcp; the servers by hand answer the same requests over UDP, from a file that has an item a block, so that they need no
index. Misses: O_DIRECT for the service and the servers by hand; what memcached's extstore wrote is taken out of the page cache before each run. Hot:
a few items far more often than the others, in the page cache and in memcached's memory. In the closed loop so many requests are always on their way; in the open loop they are
due at random times and late from then on. Every reply is verified. Server and load generator have a processor each where there are two.
"""
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from common import RELEASE, ROOT, WORK, Result, Trouble, build, less_is_better, more_is_better, output_of, progress

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import netns  # noqa: E402
from runs import drop_from_memory  # noqa: E402

VALUE = 1000
HOT = 2000
SERVER = "10.9.0.2"
OURS, PREAD, FIXED, EXTSTORE = "chainio", "pread + sendto", "READ_FIXED + UDP", "extstore"
MEMCACHED, MEMCACHED_UDP, MEMORY = "memcached", "memcached over UDP", "values in memory"
BENCH = RELEASE / "bin" / "bench_kv"


class Server:
    """A process in the namespace of vb that answers at a port."""

    def __init__(self, pair, port, words, udp=False, evict=None):
        self.pair, self.port, self.udp, self.evict = pair, port, udp, evict
        pin = ["taskset", "-c", "1"] if (os.cpu_count() or 1) > 1 else []
        self.process = subprocess.Popen(pair.command(pair.there, *pin, *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self):
        """Until it listens: the kernel lists its socket then."""
        want = ("-uln" if self.udp else "-tln", f":{self.port}")
        until = time.monotonic() + 120
        while want[1] not in output_of(self.pair.command(self.pair.there, "ss", want[0])):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Trouble(f"a server did not start: {self.process.stderr.read() if self.process.poll() is not None else ' '.join(self.process.args)}")
            time.sleep(0.02)
        return self

    def busy_ns(self):
        """Time that its threads were on a processor."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a worker of the kernel may end meanwhile
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


def load(server, items, *words, expect_udp=None):
    if server.evict:
        drop_from_memory(server.evict)
    pin = ["taskset", "-c", "0"] if (os.cpu_count() or 1) > 1 else []
    udp = server.udp if expect_udp is None else expect_udp
    command = [*pin, BENCH, "load", "--items", items, "--value", VALUE, "--address", SERVER, "--port", server.port, *words, *(["--udp"] if udp else [])]
    before = server.busy_ns()
    done = subprocess.run(server.pair.command(server.pair.here, *command), capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise Trouble(f"the load generator against port {server.port}: {done.stderr.strip()}")
    run = json.loads(done.stdout)
    run["cpu_us"] = (server.busy_ns() - before) / 1e3 / max(run["answers"], 1)
    run["rate"] = run["answers"] / run["seconds"]
    return run


def files(items):
    """The same items as a store, and an item a block for those who write their server by hand."""
    folder = WORK / f"kv-{items}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "done").exists():
        progress(f"{items} items …")
        output_of([BENCH, "make", folder / "lines", folder / "flat", "--items", items, "--value", VALUE])
        output_of([RELEASE / "bin" / "chainio", "store", "build", folder / "kv.store", "--from", folder / "lines"])
        (folder / "lines").unlink()
        (folder / "done").touch()
    spec = (ROOT / "stdlib-chains" / "std" / "memcached.chain").read_text()
    declared = '"*.store" { immutable'
    if declared not in spec:
        raise Trouble("std/memcached.chain declares its store otherwise than this benchmark expects")
    for name, attributes in (("disk", '"*.store" { direct immutable'), ("hot", declared)):
        (folder / f"{name}.chain").write_text(spec.replace(declared, attributes))
        output_of([RELEASE / "bin" / "chainc", "-I", ROOT / "stdlib-chains", folder / f"{name}.chain", "-o", folder / f"{name}.o"])
    return folder


def ours(pair, folder, name, port):
    return Server(pair, port, [RELEASE / "bin" / "chainio-runtime", "--spec", folder / f"{name}.o", "--bind", SERVER, "--port", f"memcached={port}", "--file",
                               f"values={folder / 'kv.store'}", "--requests", 256, "--in-flight", 256])


def memcached(pair, port, *options, evict=None):
    udp = 0 if evict else port  # extstore refuses to be asked over UDP
    words = ["memcached", "-u", "root", "-l", SERVER, "-p", port, "-U", udp, "-m", 2048, "-t", 1, "-R", 1000, *options]
    return Server(pair, port, words, evict=evict)


def start(pair, folder, items):
    """All servers; those that are not asked sleep."""
    def by_hand(kind, port, *more):
        return Server(pair, port, [BENCH, kind, "--items", items, "--value", VALUE, "--address", SERVER, "--port", port, "--file", folder / "flat", *more],
                      udp="--tcp" not in more)
    store = folder / "extstore"
    # Everything goes to disk at once, and nothing comes back into memory for having been asked for.
    to_disk = f"ext_path={store}:4g,ext_item_size=256,ext_item_age=0,ext_recache_rate=0,hot_lru_pct=1,warm_lru_pct=1,hot_max_factor=0.01"
    servers = {OURS: ours(pair, folder, "disk", 9001), PREAD: by_hand("serve-pread", 9002), FIXED: by_hand("serve-fixed", 9003),
               EXTSTORE: memcached(pair, 9004, "-o", to_disk, evict=store), "hot": ours(pair, folder, "hot", 9005), MEMCACHED: memcached(pair, 9006),
               MEMORY: by_hand("serve-memory", 9007, "--tcp")}
    return servers


def fill(pair, servers, items):
    for server in servers.values():
        server.wait()
    for name in (EXTSTORE, MEMCACHED):
        progress(f"filling {name} …")
        output_of(pair.command(pair.here, BENCH, "fill", "--items", items, "--value", VALUE, "--address", SERVER, "--port", servers[name].port))
    until = time.monotonic() + 300
    while stat(pair, servers[EXTSTORE].port, "extstore_objects_used") < items:
        if time.monotonic() > until:
            raise Trouble("memcached does not write its items to disk")
        time.sleep(0.2)


def stat(pair, port, name):
    script = ("import socket; s = socket.create_connection(('%s', %d)); s.sendall(b'stats\\r\\n'); f = s.makefile(); "
              "print(dict(l.split()[1:3] for l in iter(f.readline, 'END\\n') if l.startswith('STAT'))['%s'])" % (SERVER, port, name))
    return int(output_of(pair.command(pair.here, "/usr/bin/python3", "-c", script)))


def measure(servers, items, rounds, seconds, outstanding):
    runs = {}

    def run(section, name, server, *words, **how):
        progress(f"{section}: {name} …")
        runs.setdefault((section, name), []).append(load(server, items, "--seconds", seconds, *words, **how))
    load(servers["hot"], items, "--seconds", seconds, "--outstanding", 32, "--hot", HOT)  # its items into the page cache
    for turn in range(rounds):
        way = 1 if turn % 2 == 0 else -1
        for count in outstanding:
            for name in (OURS, PREAD, FIXED, EXTSTORE)[::way]:
                run(f"misses, {count}", name, servers[name], "--outstanding", count, "--seed", turn)
            hot = [(OURS, "hot", None), (MEMCACHED, MEMCACHED, None), (MEMCACHED_UDP, MEMCACHED, True), (MEMORY, MEMORY, None)]
            for name, server, udp in hot[::way]:
                run(f"hot, {count}", name, servers[server], "--outstanding", count, "--seed", turn, "--hot", HOT, expect_udp=udp)
        rate = max(statistics.median(each["rate"] for each in runs["misses, 32", PREAD]) / 2, 100)
        for name in (OURS, PREAD, FIXED, EXTSTORE)[::way]:
            run("misses, open", name, servers[name], "--outstanding", 128, "--rate", rate, "--seed", turn)
    return runs


def rows_of(runs, outstanding):
    rows = []

    def row(make, section, what, peer, value, unit, goal=None):
        made = make(f"{section} {what}".strip(), [each[value] for each in runs[section, OURS]], [each[value] for each in runs[section, peer]], peer, unit, goal)
        made.ratio = made.ours / made.peer if make is more_is_better else made.peer / made.ours
        rows.append(made)
    for count in outstanding:
        section = f"misses, {count}"
        row(more_is_better, section, "", PREAD, "rate", "requests/s", 8.0 if count == 32 else None)
        row(more_is_better, section, "", FIXED, "rate", "requests/s", 1.05 if count == 32 else None)
        row(more_is_better, section, "", EXTSTORE, "rate", "requests/s")
    for count in outstanding:
        section = f"hot, {count}"
        row(more_is_better, section, "", MEMCACHED, "rate", "requests/s", 6.0 if count == 32 else None)
        row(more_is_better, section, "", MEMCACHED_UDP, "rate", "requests/s")
        row(more_is_better, section, "", MEMORY, "rate", "requests/s")
    row(less_is_better, "hot, 32", "p99", MEMCACHED, "p99_us", "us", 3.0)
    row(less_is_better, "hot, 32", "server's processor", MEMCACHED, "cpu_us", "us a request", 6.0)
    for peer in (PREAD, FIXED, EXTSTORE):
        row(less_is_better, "misses, open", "p50", peer, "p50_us", "us")
        row(less_is_better, "misses, open", "p99", peer, "p99_us", "us")
    return rows


def run(quick):
    reason = netns.why_not()
    if reason:
        raise Trouble(reason)
    build("bench_kv", "chainio", "chainio-main", "chainio-runtime", "chainc")
    items, rounds, seconds, outstanding = (20_000, 2, 0.3, (32,)) if quick else (200_000, 5, 2.0, (1, 8, 32, 128))
    folder = files(items)
    with netns.Pair(mtu=1500, queues=1) as pair:
        servers = start(pair, folder, items)
        try:
            fill(pair, servers, items)
            runs = measure(servers, items, rounds, seconds, outstanding)
        finally:
            for server in servers.values():
                server.stop()
            (folder / "extstore").unlink(missing_ok=True)
    progress("")
    total = {what: sum(each[what] for many in runs.values() for each in many) for what in ("answers", "wrong", "missing", "lost")}
    notes = [f"{items:,} items of {VALUE} bytes, {HOT} of them hot; {os.cpu_count()} processors; medians of {rounds} rounds of {seconds} s; the service is `tcp via uring`",
             f"{total['answers']:,} replies verified, {total['wrong']} wrong, {total['missing']} not found, {total['lost']} lost over UDP",
             f"`{MEMORY}`: what this load generator gets from a small server over tcp that has every value ready; no server can look better than that", ""]
    return Result("kv", total["wrong"] == 0 and total["missing"] == 0 and total["answers"] > 0, rows_of(runs, outstanding), notes)
