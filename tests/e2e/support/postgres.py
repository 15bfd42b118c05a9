"""A PostgreSQL cluster of our own, in a folder, that is reached by a socket in that folder only."""
import functools
import glob
import os
import pathlib
import re
import signal
import subprocess
import time

import runs
import started

LONGEST = 120  # seconds that a start, a query or a stop may take on a loaded machine
# PostgreSQL refuses to run as root. In a user namespace in which we are somebody else it runs, and reads what we may read.
AS_SOMEBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
# wal_level: what a transaction writes into a table that it has made itself is not written twice.
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
autovacuum = off
wal_level = minimal
max_wal_senders = 0
"""


@functools.cache
def missing():
    """Why none can be started here, in words; nothing when one can."""
    if not binaries():
        return "PostgreSQL's server is not installed (package postgresql)"
    tried = subprocess.run([*AS_SOMEBODY, "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"root may not become somebody else for PostgreSQL here: {tried.stderr.strip()}"


def binaries():
    """The folder of the newest version's programs, none of which is on the path."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    return pathlib.Path(max(found, key=lambda path: int(re.search(r"/(\d+)/bin/", path)[1]))).parent if found else None


def command(program, *arguments):
    return [str(binaries() / program), *map(str, arguments)]


class Cluster:
    """Made by initdb when the folder holds none. Its socket and its log may be elsewhere."""

    def __init__(self, folder, more="", sockets=None):
        self.folder = pathlib.Path(folder)
        self.sockets = pathlib.Path(sockets or folder)
        self.data = self.folder / "data"
        if not (self.data / "PG_VERSION").exists():
            words = command("initdb", "-D", self.data, "-U", "chainio", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
            subprocess.run([*AS_SOMEBODY, *words], check=True, capture_output=True, timeout=LONGEST)
        (self.data / "postgresql.auto.conf").write_text(SETTINGS.format(folder=self.sockets) + more)

    def forget(self):
        """Takes what the databases hold out of the page cache; what the server has in its own memory stays there."""
        runs.drop_from_memory(*(self.data / "base").glob("*/*"))


class Server:
    """The cluster's postmaster, plain or behind a command before it."""

    def __init__(self, cluster, prefix=(), environment=None):
        self.cluster = cluster
        self.log = cluster.sockets / "log"
        words = [*AS_SOMEBODY, *map(str, prefix), *command("postgres", "-D", cluster.data)]
        with open(self.log, "ab") as log:
            self.process = started.start(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def __enter__(self):
        ready = command("pg_isready", "-q", "-h", self.cluster.sockets)
        deadline = time.monotonic() + LONGEST
        while self.process.poll() is None and time.monotonic() < deadline:
            if subprocess.run(ready).returncode == 0:
                return self
            time.sleep(0.02)  # it tells only a service manager that it listens
        self.__exit__()
        raise RuntimeError(f"PostgreSQL does not answer: {self.log.read_text()[-2000:]}")

    def __exit__(self, *_):
        """Ends it as `pg_ctl stop -m fast` does; its exit code stays in `process`."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def client(self):
        return command("psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", self.cluster.sockets, "-U", "chainio", "postgres")

    def query(self, sql):
        done = subprocess.run(self.client(), input=sql, capture_output=True, text=True, timeout=LONGEST)
        if done.returncode != 0:
            raise RuntimeError(f"{sql}: {done.stderr}")
        return done.stdout

    def file_of(self, relation):
        """Below the cluster's folder of data: base/5/16384."""
        return self.query(f"SELECT pg_relation_filepath('{relation}')").strip()


def parameters(cluster, table, index):
    """What std/postgresql_shadow.chain has to know of a table and an index, given as their files."""
    below = table.removeprefix("base/")
    segments = sum(1 for i in range(1, 8) if (cluster.data / f"{table}.{i}").exists())
    names = {"index": f"**/{index}", "heap": f"{cluster.data}/base/**", "HEAP": f'"{below}"', **{f"HEAP_{i}": f'"{below}.{i}"' for i in range(1, segments + 1)}}
    return [word for name, value in names.items() for word in ("--param", f"{name}={value}")]
