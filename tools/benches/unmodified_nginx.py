"""nginx, unmodified, one worker: files of 16 KiB that are not in memory, asked for over 8 and 32 connections."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from common import RELEASE, Trouble, output_of, progress
from unmodified_common import (Sample, Section, beside, best_read_ahead, bring, folder, forget, goal_of_warm, load, program, rate_row, share_row, turned,
                               with_read_ahead)

SPEC = "std/http.chain"
FILES, QUICK_FILES, BYTES = 20_000, 600, 16_384
TRIED_FILES = 2_000  # with each read-ahead, of which the best is taken
ROUNDS, QUICK_ROUNDS = 5, 1
# Connections, and whether it is as Debian sets it, with sendfile on among others.
SETTINGS, QUICK_SETTINGS = [(8, False), (8, True), (32, False), (32, True)], [(8, True), (32, False)]
# For sendfile off: nothing but what is asked for.
CONFIG = """
worker_processes {workers}; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{ worker_connections 512; }}
http {{ access_log off; sendfile off; include {folder}/sites/*; }}
"""
DEBIAN = pathlib.Path("/etc/nginx/nginx.conf")
# What its include of sites finds. A connection's thousand requests, the default, are fewer than bench_http_load asks on one.
SITE = """
keepalive_requests 1000000; {more}
client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
server {{ listen 127.0.0.1:{port}; root {root}; }}
"""
PEERS = {"aio threads": {"more": "aio threads;"}, "two workers": {"workers": 2}}


def as_debian_sets_it(where, user, workers):
    """The packaged file, but for its folders, its user and how many workers there are."""
    text = DEBIAN.read_text()
    for theirs, ours in (("user www-data;", user), ("worker_processes auto;", f"worker_processes {workers};"), ("pid /run/nginx.pid;", f"pid {where}/pid;"),
                         ("/var/log/nginx/", f"{where}/"), ("/etc/nginx/sites-enabled/", f"{where}/sites/")):
        if theirs not in text:
            raise Trouble(f"{DEBIAN} is not as it is packaged: there is no {theirs}")
        text = text.replace(theirs, ours)
    return text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ticks(pid):
    """Processor seconds and context switches of a process and of all below it, as /proc counts them."""
    seconds, switches = 0.0, 0
    with contextlib.suppress(OSError):
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for thread in os.listdir(f"/proc/{pid}/task"):
            switches += sum(int(line.split()[1]) for line in open(f"/proc/{pid}/task/{thread}/status") if "ctxt_switches" in line)
            for child in open(f"/proc/{pid}/task/{thread}/children").read().split():
                below = ticks(int(child))
                seconds, switches = seconds + below[0], switches + below[1]
    return seconds, switches


class Server:
    """nginx with one configuration, plain or with its shadow chains."""

    def __init__(self, where, root, port, ours, sendfile, workers=1, more=""):
        self.port = port
        (where / "sites").mkdir(parents=True, exist_ok=True)
        user = "user root;" if os.geteuid() == 0 else ""
        config = where / "nginx.conf"
        config.write_text(as_debian_sets_it(where, user, workers) if sendfile else CONFIG.format(folder=where, user=user, workers=workers))
        (where / "sites" / "bench").write_text(SITE.format(folder=where, port=self.port, root=root, more=more))
        (where / "access.log").unlink(missing_ok=True)
        words = [program("nginx"), "-c", config, "-e", where / "error.log", "-g", "daemon off;"]
        if ours:
            words = beside(SPEC, ["--param", f"PORT={self.port}", "--param", f"docroot={root}/**"], words, where / "summary.json")
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return self
            except OSError:
                time.sleep(0.01)  # nginx says nowhere that it listens
        self.__exit__()
        raise Trouble(f"nginx does not answer: {self.errors.decode(errors='replace')}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.errors = self.process.communicate()[1]


class Nginx(Section):
    name = "nginx"

    def __init__(self, quick):
        super().__init__(quick)
        self.files = QUICK_FILES if quick else FILES
        self.rounds = QUICK_ROUNDS if quick else ROUNDS
        self.seed = 0
        self.port = free_port()  # one for all: it is a parameter of the spec, which is compiled anew for another

    def missing(self):
        return None if program("nginx") else "nginx is not installed"

    def sources(self):
        path = folder(f"unmodified/www-{self.files}")
        if len(os.listdir(path)) != self.files:
            progress(f"{self.files:,} files for nginx …")
            output_of([RELEASE / "bin" / "bench_http_load", "--files", self.files, "--bytes", BYTES, "--make", path])
            output_of(["sync", "-f", path])
        return path

    def ask(self, root, connections, cold, ours, sendfile, kib=None, files=None, **settings):
        files = files or self.files
        if cold:
            forget(*(root / f"f{i}" for i in range(self.files)))
        self.seed += 1
        with Server(folder("unmodified") / "nginx", root, self.port, ours, sendfile, **settings) as server:
            words = [RELEASE / "bin" / "bench_http_load", "--port", server.port, "--files", files, "--bytes", BYTES, "--connections", connections, "--seed", self.seed]
            if not cold:  # what a server costs once it has started: its start is a row of its own
                output_of(words)
            before = ticks(server.process.pid)
            found = json.loads(with_read_ahead(root, kib, lambda: output_of(words)))
            after = ticks(server.process.pid)
        self.check(found["wrong"] == 0 and found["requests"] == files, f"nginx: {found}")
        return Sample(found["seconds"], after[0] - before[0], after[1] - before[1])

    def run(self, volume, path):
        settings = QUICK_SETTINGS if self.quick else SETTINGS
        try:
            as_debian_sets_it("", "", 1)
        except (OSError, Trouble) as trouble:
            left = [each for each in settings if not each[1]]
            self.notes.append(f"nginx, {volume}: {len(settings) - len(left)} of {len(settings)} settings skipped, those as Debian sets it: {trouble}")
            settings = left
        for connections, sendfile in settings:
            self.compare(volume, path, connections, sendfile)

    def compare(self, volume, root, connections, sendfile):
        what = f"nginx {connections} connections, {'as Debian sets it' if sendfile else 'sendfile off'}, {volume}"
        contenders = {"cold": {}, "ours": {"ours": True}, "warm": {"cold": False}, "warm ours": {"cold": False, "ours": True}, "warm again": {"cold": False}, **PEERS}
        self.kib = None if self.quick else best_read_ahead(root, lambda: self.ask(root, connections, True, False, sendfile, files=TRIED_FILES))
        if self.kib is not None:
            contenders["read-ahead"] = {"kib": self.kib}
        samples = {name: [] for name in contenders}
        for turn in range(self.rounds):
            for name in turned(contenders, turn):
                settings = contenders[name]
                progress(f"{what}, round {turn + 1} of {self.rounds}: {name} …")
                # Whoever comes before a warm run may have left it cold.
                if not settings.get("cold", True):
                    self.warm(root)
                samples[name].append(self.ask(root, connections, **{"cold": True, "ours": False, "sendfile": sendfile, **settings}))
        self.report(what, volume, samples)
        self.notes.append(f"{what}: {load()}")

    def warm(self, root):
        bring([root / f"f{i}" for i in range(self.files)])

    def report(self, what, volume, samples):
        self.rows.append(rate_row(what, samples, "ours", "cold", "cold", self.files, 3.0 if volume == "cloud" else None))
        if volume == "local":
            self.rows.append(share_row(f"{what}, share closed", samples, "ours", 0.6, "wanted", 1.0, self.files))
        for name in PEERS:
            self.rows.append(rate_row(what, samples, "ours", name, f"its own {name}", self.files, 1.0 if volume == "local" else None))
        if self.kib is not None:
            self.rows.append(rate_row(what, samples, "ours", "read-ahead", f"kernel read-ahead at its best: {self.kib} KiB", self.files))
        self.rows.append(rate_row(f"{what}, warm", samples, "warm ours", "warm", "warm", self.files, goal_of_warm(samples, "warm", "warm again")))
        self.rows.append(rate_row(f"{what}, warm, A/A", samples, "warm again", "warm", "warm (both plain)", self.files))
