"""redis-server, unmodified: nothing of it is cold, so it must not become slower."""
import contextlib
import csv
import io
import signal
import socket
import subprocess
import time

from common import Trouble, more_is_better, output_of, progress
from unmodified_common import Section, beside, folder, load, program
from unmodified_nginx import free_port

REQUESTS, QUICK_REQUESTS, ROUNDS, QUICK_ROUNDS = 400_000, 30_000, 9, 3
# A class that matches nothing of it, and a socket that it does not have: what every program pays that has nothing to win.
SPEC = """
app idle {{ files pages = "{folder}/*.none"  socket other = tcp port 1 }}
chain whole on open(pages) as r {{ prefetch r.file at 0 for 4KiB }}
"""


@contextlib.contextmanager
def server(where, spec):
    port = free_port()
    words = [program("redis-server"), "--port", port, "--save", "", "--appendonly", "no", "--dir", where]
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
            raise Trouble("redis-server does not answer")
        yield port
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


class Redis(Section):
    name = "redis"
    done = False

    def missing(self):
        return None if program("redis-server") and program("redis-benchmark") else "redis-server or redis-benchmark (package redis-tools) is not installed"

    def sources(self):
        return folder("unmodified")

    def ask(self, where, spec):
        requests = QUICK_REQUESTS if self.quick else REQUESTS
        with server(where, spec) as port:
            text = output_of(["redis-benchmark", "-p", port, "-t", "set,get", "-n", requests, "-c", 20, "--csv"])
        return {row["test"]: float(row["rps"]) for row in csv.DictReader(io.StringIO(text))}

    def run(self, volume, path):
        if self.done:  # no volume has a part in it
            return
        self.done = True
        where = folder("unmodified/redis")
        spec = where / "idle.chain"
        spec.write_text(SPEC.format(folder=where))
        found = {name: [] for name in ("plain", "ours", "again")}
        for turn in range(QUICK_ROUNDS if self.quick else ROUNDS):
            progress(f"redis, round {turn + 1} …")
            order = [("plain", None), ("ours", spec), ("again", None)]
            for name, with_spec in order if turn % 2 == 0 else order[::-1]:
                found[name].append(self.ask(where, with_spec))
        for test in ("GET", "SET"):
            rates = {name: [each[test] for each in samples] for name, samples in found.items()}
            self.rows += [more_is_better(f"redis {test}", rates["ours"], rates["plain"], "plain", "requests/s"),
                          more_is_better(f"redis {test}, A/A", rates["again"], rates["plain"], "plain (both)", "requests/s")]
        self.notes.append(f"redis: {load()}")
