"""memcached, and ours over a store of the same items."""
import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import time

import started
from daemon import Daemon, everything
from store_lines import lines_of

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
AT_ONCE = 1 << 16  # bytes that a socket takes of who reads nothing meanwhile, whatever the server does


def items(rng):
    out = {b"a": (5, b"abc"), b"empty": (0, b""), b"k" * 250: (1, b"long key"), b"long": (7, rng.randbytes(64000))}
    for number in range(2000):
        out[b"key%d" % number] = (rng.choice((0, 1, 0xFFFFFFFF)), rng.randbytes(rng.choice((0, 10, 100, 1000, 5000))))
    return out


def store_of(folder, held):
    store = folder / "main.store"
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", store, "--from", "-"], input=lines_of(held), check=True, stdout=subprocess.DEVNULL)
    return store


def damaged_store(folder, store, held):
    """A copy in which one byte of one item's value is another, and that item's key."""
    data = bytearray(store.read_bytes())
    key = next(key for key, (_, value) in held.items() if len(value) == 1000)
    data[data.index(held[key][1])] ^= 1
    bad = folder / "bad.store"
    bad.write_bytes(data)
    return bad, key


def of_library(folder, service, *params):
    """The artifact of a service of the library. A script that starts it again does not compile it again."""
    artifact = folder / f"{''.join([service, *params])}.o"
    if not artifact.exists():
        source = ROOT / "stdlib-chains" / "std" / f"{service}.chain"
        subprocess.run([BUILD / "bin" / "chainc", source, "-I", ROOT / "stdlib-chains", "-o", artifact, *params], check=True)
    return artifact


class Ours(Daemon):
    """A service of the library over a store."""
    def __init__(self, folder, store, *params, service="memcached"):
        super().__init__(of_library(folder, service, *params), "--bind", "127.0.0.1", "--port", f"{service}=0", file=("values", store))
        self.port = self.ports[service, "tcp"]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def connected(path, process):
    """To a server at a socket of a path, which comes up meanwhile."""
    until = time.monotonic() + 60
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        try:
            sock.connect(str(path))
            return sock
        except OSError:
            sock.close()
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.01)


class AtPath:
    """A server of others at a socket of a path."""
    def __init__(self, path, command, **options):
        self.path = path
        self.process = started.start(command, **options)

    def connect(self):
        return connected(self.path, self.process)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class Theirs(AtPath):
    """memcached, with the same items."""
    def __init__(self, folder, held):
        path = folder / "theirs"
        super().__init__(path, ["memcached", "-u", "root", "-s", path, "-m", "512", "-I", "1m"])
        stored = talk(self, b"".join(b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(value), value) for key, (flags, value) in held.items()) + b"quit\r\n")
        assert stored == b"STORED\r\n" * len(held), stored[:200]


def talk(server, requests):
    """What comes back until the server closes."""
    with server.connect() as sock:
        if len(requests) <= AT_ONCE:
            send_all(sock, requests)
            return everything(sock)
        sender = threading.Thread(target=send_all, args=(sock, requests))
        sender.start()
        data = everything(sock)
        sender.join()
        return data


def send_all(sock, requests):
    with contextlib.suppress(ConnectionError):  # the rest is nothing to a server that closes
        sock.sendall(requests)
