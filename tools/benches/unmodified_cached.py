"""redis-server and memcached, unmodified: nothing of them is cold, so they must not become slower."""
import contextlib
import csv
import io
import signal
import socket
import subprocess
import time

from common import Trouble, output_of, progress
from unmodified_common import Sample, Section, beside, folder, goal_of_warm, load, program, rate_row
from unmodified_nginx import free_port, ticks

REQUESTS, QUICK_REQUESTS, ROUNDS, QUICK_ROUNDS = 400_000, 10_000, 9, 1
AT_ONCE = 100  # requests to memcached on their way
# A class that matches nothing of it, and a socket that it does not have: what every program pays that has nothing to win.
SPEC = """
app idle {{ files pages = "{folder}/*.none"  socket other = tcp port 1 }}
chain whole on open(pages) as r {{ prefetch r.file at 0 for 4KiB }}
"""


@contextlib.contextmanager
def server(words, port, spec):
    words = beside(spec, [], words) if spec else words
    process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                time.sleep(0.01)  # it says nowhere else that it listens
        else:
            raise Trouble(f"{words[0]} does not answer")
        yield process.pid
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


class Cached(Section):
    """Beside a spec that matches nothing of it."""
    of_volume = done = False
    requests = ()  # the kinds that are measured

    def sources(self):
        return folder("unmodified")

    def words(self, port, where):
        raise NotImplementedError

    def ask(self, port, kind, count):
        """Seconds that so many requests of one kind take."""
        raise NotImplementedError

    def samples(self, where, spec, count):
        port, found = free_port(), {}
        with server(self.words(port, where), port, spec) as process:
            for kind in self.requests:
                before = ticks(process)
                seconds = self.ask(port, kind, count)
                after = ticks(process)
                found[kind] = Sample(seconds, after[0] - before[0], after[1] - before[1])
        return found

    def run(self, volume, path):
        if self.done:  # no volume has a part in it
            return
        self.done = True
        where = folder(f"unmodified/{self.name}")
        spec = where / "idle.chain"
        spec.write_text(SPEC.format(folder=where))
        count = QUICK_REQUESTS if self.quick else REQUESTS
        found = {kind: {"plain": [], "ours": [], "again": []} for kind in self.requests}
        for turn in range(QUICK_ROUNDS if self.quick else ROUNDS):
            progress(f"{self.name}, round {turn + 1} …")
            order = [("plain", None), ("ours", spec), ("again", None)]
            for name, with_spec in order if turn % 2 == 0 else order[::-1]:
                for kind, sample in self.samples(where, with_spec, count).items():
                    found[kind][name].append(sample)
        for kind, samples in found.items():
            self.rows += [rate_row(f"{self.name} {kind}", samples, "ours", "plain", "plain", count, goal_of_warm(samples, "plain", "again")),
                          rate_row(f"{self.name} {kind}, A/A", samples, "again", "plain", "plain (both)", count)]
        self.notes.append(f"{self.name}: {load()}")


class Redis(Cached):
    name = "redis"
    requests = ("SET", "GET")

    def missing(self):
        return None if program("redis-server") and program("redis-benchmark") else "redis-server or redis-benchmark (package redis-tools) is not installed"

    def words(self, port, where):
        return [program("redis-server"), "--port", port, "--save", "", "--appendonly", "no", "--dir", where]

    def ask(self, port, kind, count):
        text = output_of(["redis-benchmark", "-p", port, "-t", kind.lower(), "-n", count, "-c", 20, "--csv"])
        return count / next(float(row["rps"]) for row in csv.DictReader(io.StringIO(text)) if row["test"] == kind)


class Memcached(Cached):
    name = "memcached"
    requests = ("set", "get")

    def missing(self):
        return None if program("memcached") else "memcached is not installed"

    def words(self, port, where):
        return [program("memcached"), "-u", "root", "-l", "127.0.0.1", "-p", port, "-U", 0, "-t", 1]

    def ask(self, port, kind, count):
        value = b"v" * 100
        if kind == "set":
            request, answer = b"".join(b"set k%03d 0 0 100\r\n%b\r\n" % (i, value) for i in range(AT_ONCE)), b"STORED\r\n" * AT_ONCE
        else:
            request = b"".join(b"get k%03d\r\n" % i for i in range(AT_ONCE))
            answer = b"".join(b"VALUE k%03d 0 100\r\n%b\r\nEND\r\n" % (i, value) for i in range(AT_ONCE))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client, client.makefile("rb") as answers:
            begin = time.monotonic()
            for _ in range(count // AT_ONCE):
                client.sendall(request)
                self.check(answers.read(len(answer)) == answer, f"memcached: another answer to {kind}")
            return time.monotonic() - begin
