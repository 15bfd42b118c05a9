"""Whom tools/bench kv asks: services, servers by hand, memcached, each in a network namespace of its own kind; and who asks them."""
import json
import signal
import subprocess
import sys
import time

from common import PROCESSORS, RELEASE, ROOT, WORK, Trouble, output_of, progress

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
from runs import drop_from_memory  # noqa: E402

VALUE = 1000
CLIENT, SERVER = "10.9.0.1", "10.9.0.2"
XDP, URING, TCP = "udp via xdp", "udp via uring", "tcp via uring"
SPIN_US = 50
XDP_SPINS = f"udp via xdp, --spin {SPIN_US}"
PREAD, FIXED, EXTSTORE = "pread + sendto", "READ_FIXED + UDP", "extstore"
FIXED_SPINS = f"{FIXED}, which looks {SPIN_US} us"
MEMCACHED, MEMCACHED_UDP, MEMORY, ECHO = "memcached", "memcached over UDP", "values in memory", "XDP_TX echo"
BENCH = RELEASE / "bin" / "bench_kv"

GENERATOR, SERVERS = PROCESSORS[0], PROCESSORS[1 % len(PROCESSORS)]  # a processor each, where there are two


def pinned(processor):
    return ["taskset", "-c", str(processor)] if GENERATOR != SERVERS else []


class Server:
    """A process in the namespace of vb that answers at a port."""

    def __init__(self, pair, port, words, udp=False, evict=None, control=None):
        self.pair, self.port, self.udp, self.evict, self.control = pair, port, udp, evict, control
        self.process = subprocess.Popen(pair.command(pair.there, *pinned(SERVERS), *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self):
        """Until it listens: the kernel lists its socket then; one with a control socket serves once that answers."""
        want = ("-uln" if self.udp else "-tln", f":{self.port}")
        until = time.monotonic() + 120
        while want[1] not in output_of(self.pair.command(self.pair.there, "ss", want[0])) or (self.control and not self.control.exists()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Trouble(f"a server did not start: {self.process.stderr.read() if self.process.poll() is not None else ' '.join(self.process.args)}")
            time.sleep(0.02)
        return self

    def busy_ns(self):
        """Time that its threads were on a processor, also those that have ended since, as the kernel's workers do."""
        return time.clock_gettime_ns(~self.process.pid << 3 | 2)  # clock_getcpuclockid() of the process

    def came_by_xdp(self):
        """The modes in which datagrams came by AF_XDP; what the socket served instead would be measured under a wrong name."""
        stats = json.loads(output_of([RELEASE / "bin" / "chainio", "control", self.control, "stats"]))
        if sum(each["received"] for each in stats["interfaces"]) == 0:
            raise Trouble(f"`via xdp` was served by the socket: {stats}")
        return [each["mode"] for each in stats["interfaces"]]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


def load(server, items, *words, how="tcp"):
    """Asks by tcp, udp or, where replies are the requests, echo."""
    if server.evict:
        drop_from_memory(server.evict)
    by_xdp = ["--udp", "--interface", "va", "--own", CLIENT, "--peer-mac", server.pair.mac["vb"]] if how != "tcp" else []
    command = [*pinned(GENERATOR), BENCH, "load", "--items", items, "--value", VALUE, "--address", SERVER, "--port", server.port, *words, *by_xdp,
               *(["--echo"] if how == "echo" else [])]
    before = server.busy_ns()
    done = subprocess.run(server.pair.command(server.pair.here, *command), capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise Trouble(f"the load generator against port {server.port}: {done.stderr.strip()}")
    run = json.loads(done.stdout)
    run["cpu_us"] = (server.busy_ns() - before) / 1e3 / max(run["answers"], 1)
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
    cached = "  cache CACHE entries ttl TTL\n"  # what the driver answers is no miss
    if cached not in spec:
        raise Trouble("std/memcached.chain declares its cache otherwise than this benchmark expects")
    for name, text in (("disk", spec.replace(declared, '"*.store" { direct immutable').replace(cached, "")), ("hot", spec)):
        (folder / f"{name}.chain").write_text(text)
        output_of([RELEASE / "bin" / "chainc", "-I", ROOT / "stdlib-chains", folder / f"{name}.chain", "-o", folder / f"{name}.o"])
    return folder


def read_through(folder):
    """Once past the page cache. A disk, or the host behind it, answers sooner what was read a while ago: that is to be so of everybody's items, of which
    those by hand have four times as many bytes."""
    for name in ("flat", "kv.store"):
        output_of(["dd", f"if={folder / name}", "of=/dev/null", "bs=4M", "iflag=direct", "status=none"])


def ours(pair, folder, name, port, control=None, options=(), data=None):
    """Serves tcp and udp; udp by AF_XDP where there is a control socket to see that by. The store is the folder's, or lies in `data`."""
    words = [RELEASE / "bin" / "chainio-runtime", "--spec", folder / f"{name}.o", "--bind", SERVER, "--port", f"memcached={port}", "--file",
             f"values={(data or folder) / 'kv.store'}", "--requests", 256, "--in-flight", 256, *options]
    if control is not None:
        words += ["--interface", "vb", "--socket", control]
    return Server(pair, port, words, control=control)


def by_hand(pair, kind, port, items, *more):
    """A server of bench_kv's; over UDP, unless told otherwise."""
    words = [BENCH, kind, "--items", items, "--value", VALUE, "--address", SERVER, "--port", port, *more]
    return Server(pair, port, words, udp="--tcp" not in more)


def memcached(pair, port, *options, evict=None):
    udp = 0 if evict else port  # extstore refuses to be asked over UDP
    words = ["memcached", "-u", "root", "-l", SERVER, "-p", port, "-U", udp, "-m", 2048, "-t", 1, "-R", 1000, *options]
    return Server(pair, port, words, evict=evict)


def start(stack, pair_of, folder, items, controls):
    """All contenders by section and name: a server and how it is asked. Who is not asked sleeps; whoever has a program on an interface has a pair to itself."""
    def run(server):
        stack.callback(server.stop)
        return server
    plain = pair_of("")
    store = folder / "extstore"
    stack.callback(store.unlink, missing_ok=True)
    # Everything goes to disk at once, and nothing comes back into memory for having been asked for.
    to_disk = f"ext_path={store}:4g,ext_item_size=256,ext_item_age=0,ext_recache_rate=0,hot_lru_pct=1,warm_lru_pct=1,hot_max_factor=0.01"
    flat = ("--file", folder / "flat")
    disk, hot = run(ours(plain, folder, "disk", 9001)), run(ours(plain, folder, "hot", 9005))
    cache = run(memcached(plain, 9006))
    spins = run(ours(pair_of("s"), folder, "disk", 9001, controls / "spins", ("--spin", SPIN_US)))
    misses = {XDP: (run(ours(pair_of("d"), folder, "disk", 9001, controls / "disk")), "udp"), XDP_SPINS: (spins, "udp"), URING: (disk, "udp"), TCP: (disk, "tcp"),
              PREAD: (run(by_hand(plain, "serve-pread", 9002, items, *flat)), "udp"), FIXED: (run(by_hand(plain, "serve-fixed", 9003, items, *flat)), "udp"),
              FIXED_SPINS: (run(by_hand(plain, "serve-fixed", 9009, items, *flat, "--spin", SPIN_US)), "udp"),
              EXTSTORE: (run(memcached(plain, 9004, "-o", to_disk, evict=store)), "tcp")}
    of_memory = {XDP: (run(ours(pair_of("h"), folder, "hot", 9005, controls / "hot")), "udp"), URING: (hot, "udp"), TCP: (hot, "tcp"), MEMCACHED: (cache, "tcp"),
                 MEMCACHED_UDP: (cache, "udp"), MEMORY: (run(by_hand(plain, "serve-memory", 9007, items, "--tcp")), "tcp"),
                 ECHO: (run(by_hand(pair_of("e"), "serve-echo", 9008, items, "--interface", "vb")), "echo")}
    return {"misses": misses, "hot": of_memory}


def fill(contenders, items):
    for server, _ in (*contenders["misses"].values(), *contenders["hot"].values()):
        server.wait()
    extstore, cache = contenders["misses"][EXTSTORE][0], contenders["hot"][MEMCACHED][0]
    for server in (extstore, cache):
        progress(f"filling memcached at port {server.port} …")
        output_of(server.pair.command(server.pair.here, BENCH, "fill", "--items", items, "--value", VALUE, "--address", SERVER, "--port", server.port))
    until = time.monotonic() + 300
    while stat(extstore, "extstore_objects_used") < items:
        if time.monotonic() > until:
            raise Trouble("memcached does not write its items to disk")
        time.sleep(0.2)


def stat(server, name):
    script = ("import socket; s = socket.create_connection(('%s', %d)); s.sendall(b'stats\\r\\n'); f = s.makefile(); "
              "print(dict(l.split()[1:3] for l in iter(f.readline, 'END\\n') if l.startswith('STAT'))['%s'])" % (SERVER, server.port, name))
    return int(output_of(server.pair.command(server.pair.here, "/usr/bin/python3", "-c", script)))
