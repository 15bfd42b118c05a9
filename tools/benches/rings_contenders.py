"""Whom tools/bench rings asks: services by shared memory and over loopback, memcached, redis, an echo; and who asks them, or reads the items itself."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from common import PROCESSORS, RELEASE, ROOT, Trouble, output_of
from kv_servers import VALUE, files

os.environ.setdefault("CHAINIO_BUILD", str(RELEASE))
sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import daemon  # noqa: E402
import started  # noqa: E402

SPIN_US = 50
RING, RING_CLIENT, RING_DAEMON, RING_BOTH = "rings", "rings, client spins", "rings, daemon spins", "rings, both spin"
UDP, TCP = "udp", "tcp"
MEMCACHED, MEMCACHED_TCP, MEMCACHED_UDP = (f"memcached, {by}" for by in ("Unix socket", "tcp", "udp"))
REDIS, ECHO = "redis, Unix socket", "echo, Unix socket"
MEMCACHED_SPIN, REDIS_SPIN, ECHO_SPIN = f"{MEMCACHED}, client spins", f"{REDIS}, client spins", f"{ECHO}, both spin"
RING_FREE, MEMCACHED_FREE = f"{RING}, unpinned", f"{MEMCACHED}, unpinned"
PREAD, URING = "own preads", "own io_uring"
BENCH = RELEASE / "bin" / "bench_rings"
CLIENT, SERVERS = PROCESSORS[0], PROCESSORS[1 % len(PROCESSORS)]  # a processor each, where there are two


def pinned(processor):
    return ("taskset", "-c", str(processor)) if CLIENT != SERVERS else ()


@dataclasses.dataclass
class Contender:
    words: list  # of the load generator
    process: int = 0  # who is asked; 0: nobody
    hot: int = 0
    threads: bool = False  # whether it has as many as requests are on their way
    free: bool = False  # both run where the scheduler wants
    items: int = 1


@contextlib.contextmanager
def free(process):
    """It runs where the scheduler wants."""
    def put(processors):
        output_of(["taskset", "-a", "-p", "-c", ",".join(map(str, processors)), process])
    put(PROCESSORS)
    try:
        yield
    finally:
        put([SERVERS] if CLIENT != SERVERS else PROCESSORS)


def load(contender, *words, outstanding):
    """One run; `outstanding` requests are always on their way."""
    threads = ("--threads", outstanding) if contender.threads else ()
    command = [BENCH, "load", *contender.words, "--items", contender.items, "--value", VALUE, "--hot", contender.hot, "--server", contender.process,
               "--outstanding", outstanding, *threads, *words]
    with free(contender.process) if contender.free else contextlib.nullcontext():
        done = subprocess.run([str(word) for word in (*(() if contender.free else pinned(CLIENT)), *command)], capture_output=True, text=True)
    if not done.stdout.startswith("{") or done.stderr:
        raise Trouble(f"the load generator, {' '.join(map(str, contender.words))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Values(daemon.Daemon):
    FILE = "values", "kv.store"


class Fixed(daemon.Daemon):
    FILE = None


def compiled(folder):
    """The artifacts: `disk.o` reads past the page cache (kv_servers), `cached.o` keeps hot values in the memory of the index, `fixed.o` reads nothing."""
    def compile_one(source, out, *words):
        output_of([RELEASE / "bin" / "chainc", "-I", ROOT / "stdlib-chains", source, "-o", folder / out, *words])
    compile_one(ROOT / "stdlib-chains" / "std" / "memcached.chain", "cached.o", "-D", "LEVELS=2")
    compile_one(ROOT / "tests" / "bench" / "rings.chain", "fixed.o")


class Everybody:
    """All who are asked, once they serve; they end with the stack."""

    def __init__(self, stack, items, hot):
        self.stack, self.items, self.hot = stack, items, hot
        self.folder = files(items)
        compiled(self.folder)
        self.sockets = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def daemon(self, kind, artifact, service, spin_us=0):
        """A daemon of ours, and where its rings are."""
        rings = self.sockets / f"{artifact}-{spin_us}"
        server = kind(self.folder / f"{artifact}.o", "--bind", "127.0.0.1", "--port", f"{service}=0", "--rings", rings, "--spin", spin_us, prefix=pinned(SERVERS))
        self.stack.callback(server.stop)
        return server, rings

    def process(self, *words, ready, **environment):
        """Another server, once `ready` holds."""
        server = started.start([*pinned(SERVERS), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.stack.callback(started.end, server)
        until = time.monotonic() + 60
        while not ready():
            if server.poll() is not None or time.monotonic() > until:
                raise Trouble(f"{words[0]} does not start: {server.stderr.read() if server.poll() is not None else words}")
            time.sleep(0.02)
        return server.pid

    def contender(self, way, asks, process, *words, hot=None, **more):
        return Contender([f"--way={way}", f"--asks={asks}", *words], process, self.hot if hot is None else hot, items=self.items, **more)

    def of_service(self, kind, artifact, service, hot):
        """A service by each of its ways, of a daemon that sleeps and of one that looks for a while before."""
        server, rings = self.daemon(kind, artifact, service)
        spins, spinning_rings = self.daemon(kind, artifact, service, SPIN_US)

        def ring(process, path, *words, **more):
            return self.contender("ring", service, process, f"--path={path}", *words, hot=hot, **more)

        def loopback(way):
            return self.contender(way, service, server.process.pid, f"--port={server.ports[service, way]}", hot=hot)
        client_spins = f"--spin={SPIN_US}"
        return {RING: ring(server.process.pid, rings), RING_CLIENT: ring(server.process.pid, rings, client_spins),
                RING_DAEMON: ring(spins.process.pid, spinning_rings), RING_BOTH: ring(spins.process.pid, spinning_rings, client_spins),
                RING_FREE: ring(server.process.pid, rings, free=True), UDP: loopback("udp"), TCP: loopback("tcp")}

    def memcached(self):
        """By its Unix socket, and another one by tcp and udp, as it serves both only without the first."""
        common = ["memcached", "-u", "root", "-m", 1024, "-t", 1, "-R", 1000]
        path, ports = self.sockets / "memcached", self.sockets / "ports"
        by_path = self.process(*common, "-s", path, ready=path.exists)
        by_port = self.process(*common, "-l", "127.0.0.1", "-p", -1, "-U", -1, ready=ports.exists, MEMCACHED_PORT_FILENAME=str(ports))
        port = dict(re.findall(r"(TCP|UDP) INET: (\d+)", ports.read_text()))
        found = {MEMCACHED: self.contender("unix", "memcached", by_path, f"--path={path}"), MEMCACHED_TCP: self.contender("tcp", "memcached", by_port, f"--port={port['TCP']}"),
                 MEMCACHED_UDP: self.contender("udp", "memcached", by_port, f"--port={port['UDP']}"),
                 MEMCACHED_SPIN: self.contender("unix", "memcached", by_path, f"--path={path}", f"--spin={SPIN_US}"),
                 MEMCACHED_FREE: self.contender("unix", "memcached", by_path, f"--path={path}", free=True)}
        fill(found[MEMCACHED])
        fill(found[MEMCACHED_TCP])
        return found

    def redis(self):
        path = self.sockets / "redis"
        process = self.process("redis-server", "--port", 0, "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", self.sockets, ready=path.exists)
        found = {REDIS: self.contender("unix", "redis", process, f"--path={path}"), REDIS_SPIN: self.contender("unix", "redis", process, f"--path={path}", f"--spin={SPIN_US}")}
        fill(found[REDIS])
        return found

    def echo(self):
        def one(name, spin_us):
            path = self.sockets / name
            process = self.process(BENCH, "serve-echo", path, "--spin", spin_us, ready=path.exists)
            return self.contender("unix", "fixed", process, f"--path={path}", f"--spin={spin_us}", hot=0)
        return {ECHO: one("echo", 0), ECHO_SPIN: one("echo-spins", SPIN_US)}

    def own(self):
        """Who reads the items itself, from a file that needs no index."""
        path = f"--path={self.folder / 'flat'}"
        return {PREAD: self.contender("pread", "value", 0, path, hot=0, threads=True), URING: self.contender("uring", "value", 0, path, hot=0)}

    def sections(self):
        return {"hot": {**self.of_service(Values, "cached", "memcached", self.hot), **self.memcached(), **self.redis()},
                "fixed": {**self.of_service(Fixed, "fixed", "fixed", 0), **self.echo()},
                "misses": {**self.of_service(Values, "disk", "memcached", 0), **self.own()}}


def fill(contender):
    output_of([BENCH, "fill", *contender.words, "--items", contender.items, "--value", VALUE])
