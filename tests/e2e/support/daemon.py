"""A spec and a file of rows whose replies say of which edition and of which file they are, and chainio-runtime serving them."""
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import netns
import started
from runs import BUILD, expect

# A reply names the edition of the spec in front and behind: it is of one edition or something is wrong.
SPEC = """
const LONG = 7777
app kv {{ files rows = "*.rows" {{ immutable }}  class fast {{ priority 0 }} }}
chain row(file: file rows, number: u32) in class fast -> bytes(max 64KiB) hops 1 {{
  step s(b: block at number * 1000 for 1000 in file) {{ return b }}
}}
chain long(file: file rows) -> bytes(max 64KiB) hops 1 {{
  step s(b: block at 0 for 60000 in file) {{ return b }}
}}
service {service} on tcp {port} via uring in class fast {{
  text Row {{ "row " number: int "{end}" }}
  request {{ line: Row }}
  on request {{
    if request.line.number == LONG {{
      let v = long(rows["a.rows"]) else fail not_found
      reply "{name} " v v v v " {name}\\n"
    }} else {{
      let v = row(rows["a.rows"], request.line.number as u32) else fail not_found
      reply "{name} " v[0..12] " {name}\\n"
    }}
  }}
  on failure {{ reply "{name} sorry {name}\\n" }}
}}
"""
ROWS, LONG = 500, 7777
# Where a test needs a spec's own ports, the address is nobody else's, so that what runs beside takes none of them.
OWN = f"127.{os.getpid() >> 16 & 0xff | 0x80}.{os.getpid() >> 8 & 0xff}.{os.getpid() & 0xff}"
PORTS = 7001, 7002


class NotServed(AssertionError):
    """The daemon has ended before it served."""

    def __init__(self, code, said):
        super().__init__(f"it ended with {code} before it served: {said}")
        self.code = code


def row(number, content):
    return (b"%c%09d  " % (content, number)).ljust(1000, b".")


def write_rows(folder, content):
    """Another file under the name, in one step."""
    fresh = folder / "a.rows.new"
    fresh.write_bytes(b"".join(row(n, content) for n in range(ROWS)))
    fresh.rename(folder / "a.rows")


def compiled(folder, name, end="\\n", service="lines", port=7001):
    source = folder / f"{name}.chain"
    source.write_text(SPEC.format(name=name, end=end, service=service, port=port))
    subprocess.run([BUILD / "bin" / "chainc", source, "-o", folder / f"{name}.o"], check=True)
    return (folder / f"{name}.o").read_bytes()


@functools.cache  # clients that check what they get under load ask for few, again and again
def answer(name, number, content=ord("a")):
    if number == LONG:
        whole = b"".join(row(n, content) for n in range(60)) * 4
    elif number < ROWS:
        whole = row(number, content)[:12]
    else:
        whole = b"sorry"
    return b"%s %s %s\n" % (name, whole, name)


@contextlib.contextmanager
def halted(process):
    """It does nothing meanwhile, so that it finds all that is sent to it at once."""
    process.send_signal(signal.SIGSTOP)
    status = pathlib.Path(f"/proc/{process.pid}/stat")
    netns.until("it is stopped", lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def ended_behind(server, send):
    """Its exit code where it finds what is sent and the SIGTERM at once."""
    with halted(server.process):
        send()
        server.process.send_signal(signal.SIGTERM)
    return server.ended()


def control(path, request):
    """What a daemon answers at its socket."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(60)
        asked.connect(str(path))
        asked.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(asked.makefile().readline())


class Daemon:
    """chainio-runtime over an artifact and the file beside it, once it serves; `ports` by service and transport."""
    FILE = "rows", "a.rows"  # its class, its name; None: there is no file

    def __init__(self, artifact, *options, prefix=(), file=None, **more):
        """`file` is for one server what FILE is for all; `more` is for Popen."""
        self.folder = artifact.parent
        self.path = self.folder / f"control-{time.monotonic_ns()}"
        named = file or self.FILE
        given = ["--file", f"{named[0]}={self.folder / named[1]}"] if named else []
        command = [*prefix, BUILD / "bin" / "chainio-runtime", "--spec", artifact, *given, "--socket", self.path, *options]
        self.process = started.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", **more)
        self.said, self.ports = [], {}
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.match(r"service (\S+) at (udp|tcp) \S+ port (\d+):", line):
                self.ports[found[1], found[2]] = int(found[3])
            if line.startswith("serving at"):
                break
        else:
            raise NotServed(self.process.wait(timeout=60), "".join(self.said))
        self.rest = started.rest_of(self.process.stderr, self.said)

    def control(self, request):
        return control(self.path, request)

    def all_stats(self):
        return self.control({"op": "stats"})["stats"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self):
        """Its exit code, once it has ended; what it has not given back comes with it."""
        code = self.process.wait(timeout=60)
        self.rest.join()
        leaked = [line for line in self.said if "has not given back" in line]
        return f"{code}, and {leaked}" if leaked else code


class Server(Daemon):
    """Of one service over tcp. Port 0: the kernel chooses; None: that of the spec."""
    def __init__(self, folder, *options, prefix=(), address="127.0.0.1", service="lines", port=0):
        chosen = [] if port is None else ["--port", f"{service}={port}"]
        super().__init__(folder / "app.o", "--bind", address, *chosen, *options, prefix=prefix)
        self.address = address
        self.port = next((number for (_, transport), number in self.ports.items() if transport == "tcp"), port)

    def connect(self):
        return socket.create_connection((self.address, self.port), timeout=60)

    def stats(self):
        return self.all_stats()

    def wait_for(self, what, holds):
        until = time.monotonic() + 60
        while not holds(stats := self.stats()) and time.monotonic() < until:
            time.sleep(0.005)
        expect(what, holds(stats), True)
        return stats

    def stuck(self, requests):
        """A client who takes nothing of the replies, once its socket takes no more: then nothing is sent, however often one looks."""
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(60)
        slow.connect((self.address, self.port))
        slow.sendall(requests)
        sent, same = 0, 0
        while same < 10:
            now = self.stats()["services"][0]["bytes_out"]
            same = same + 1 if now == sent and now != 0 else 0
            sent = now
            time.sleep(0.1)
        return slow

    def use(self, artifact):
        """The artifact in the place of the one before, without a word to the server."""
        fresh = self.folder / "app.o.new"
        fresh.write_bytes(artifact)
        fresh.rename(self.folder / "app.o")

    def resident_kib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def receive(sock, length):
    data = bytearray()
    while len(data) < length and (got := sock.recv(min(1 << 16, length - len(data)))):
        data += got
    return bytes(data)


def receive_line(sock):
    data = bytearray()
    while not data.endswith(b"\n") and (got := sock.recv(1 << 16)):
        data += got
    return bytes(data)


def everything(sock):
    data = bytearray()
    while got := sock.recv(1 << 16):
        data += got
    return bytes(data)


def asked_whole(sock, request):
    """What comes until the server closes, behind all of a request that is sent meanwhile."""
    def send():
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
    sender = threading.Thread(target=send)
    sender.start()
    data = everything(sock)
    sender.join()
    return data


def with_editions(*tests):
    """Runs each with a folder, whose app.o and rows are those of the first edition, and with the artifacts of both."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        artifacts = {name: compiled(folder, name) for name in "AB"}
        for test in tests:
            write_rows(folder, ord("a"))
            (folder / "app.o").write_bytes(artifacts["A"])
            test(folder, artifacts)
