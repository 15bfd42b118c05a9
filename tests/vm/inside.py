"""What the scripts need that run in a guest and ask services which the kernel engine answers. A script's arguments: BUILD FOLDER [CASE…]"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

BUILD, FOLDER, *ONLY = sys.argv[1:]
ROWS = 200
PATIENCE = 180  # seconds
GET, BIG, FIND, SAY, END, NO = range(1, 7)
done = []


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"failed: {what}: {got!r:.600} instead of {wanted!r:.600}")


def until(condition, what, shown=lambda: ""):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"failed: {what}{shown()}")
        time.sleep(0.02)


def case(function):
    if not ONLY or function.__name__ in ONLY:
        done.append(function)
    return function


def row(number):
    return struct.pack(">II", number, number * 3).ljust(1000, bytes([number % 251]))


def ask(op, number=0, name=b"00000000"):
    return struct.pack(">BI8s", op, number, name)


def attached():
    return "struct_ops" in subprocess.run(["bpftool", "link", "list"], capture_output=True, text=True, check=True).stdout


class Server:
    """One chainio-runtime; `inside` says which services its kernel engine has to answer."""

    def __init__(self, folder, engine, *options, artifact="sockets", ports=("binary", "lines", "inside"), inside=("binary", "inside"),
                 file="rows=a.rows"):
        self.path = f"{folder}/control-{time.monotonic_ns()}"
        file_class, _, file_name = file.partition("=")
        command = [f"{folder}/chainio-runtime", "--spec", f"{FOLDER}/{artifact}.bpf.o", "--bind", "127.0.0.1", "--file", f"{file_class}={folder}/{file_name}", "--socket",
                   self.path, "--engine", engine, *[word for name in ports for word in ("--port", f"{name}=0")], *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said, self.ports, answered_inside = [], {}, set()
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.match(r"service (\S+) at tcp \S+ port (\d+): (.*)", line):
                self.ports[found[1]] = int(found[2])
                if "accept, receive, handler and send inside it" in found[3]:
                    answered_inside.add(found[1])
            if line.startswith("serving at"):
                break
        self.rest = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self.rest.start()
        wanted = set(inside) if engine == "kernel" else set()
        if answered_inside != wanted:
            self.process.kill()
        same(f"services inside: {self.said}", answered_inside, wanted)

    def connect(self, service="binary", receive=0):
        sock = socket.socket()
        sock.settimeout(PATIENCE)
        if receive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        sock.connect(("127.0.0.1", self.ports[service]))
        return sock

    def control(self, request):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(self.path)
            control.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(control.makefile().readline())

    def stats(self):
        return self.control({"op": "stats"})["stats"]

    def counter(self, name, service="binary"):
        return next(entry for entry in self.stats()["services"] if entry["name"] == service)[name]

    def wait_for(self, name, value):
        until(lambda: self.counter(name) == value, f"{name} does not become {value}: ", lambda: self.stats()["services"])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self):
        code = self.process.wait(timeout=PATIENCE)
        self.rest.join()
        return code


@contextlib.contextmanager
def serving(folder, engine, *options, **more):
    server = Server(folder, engine, *options, **more)
    try:
        yield server
        same("the end", server.stop(), 0)
    finally:
        server.process.kill()
        server.ended()


def everything(sock):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while got := sock.recv(1 << 16):
            data += got
    return data


def receive(sock, length):
    data = b""
    while len(data) < length and (got := sock.recv(length - len(data))):
        data += got
    return data


def asked(server, request, service="binary"):
    """What the server answers until it closes; the request goes out while answers come in."""
    with server.connect(service) as sock:
        def send():
            with contextlib.suppress(OSError):
                sock.sendall(request)
                sock.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        data = everything(sock)
        sender.join()
    return data


def gone(sock):
    """The peer resets."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def keep_asking(sock, stop, results):
    """Heaps of ten requests until the server ends; whether each reply came whole."""
    wanted = b"".join(struct.pack(">H", 1000) + row(n) for n in range(10))
    while not stop.is_set():
        try:
            sock.sendall(b"".join(ask(GET, n) for n in range(10)))
            data = receive(sock, len(wanted))
        except OSError as error:
            return results.append(f"{error}")
        if data != wanted:
            return results.append("whole" if wanted.startswith(data) and len(data) % 1002 == 0 else f"cut: {len(data)}")
    results.append("stopped")


@contextlib.contextmanager
def load(server, clients=8):
    stop, results = threading.Event(), []
    # On a busy machine a thread may begin only after the end.
    threads = [threading.Thread(target=keep_asking, args=(server.connect(), stop, results), daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    until(lambda: server.counter("answered") >= 300 and server.counter("connections") >= clients, "nothing is answered")
    try:
        yield results
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def main():
    with tempfile.TemporaryDirectory(dir=os.environ["CHAINIO_VM_EXT4"]) as folder:
        shutil.copy(f"{BUILD}/bin/chainio-runtime", folder)  # the host's file system is slow in the guest
        pathlib.Path(folder, "a.rows").write_bytes(b"".join(row(n) for n in range(ROWS)))
        for function in done:
            begun = time.monotonic()
            function(folder)
            print(f"ok {function.__name__} {time.monotonic() - begun:.1f} s", flush=True)
    print(f"{len(done)} cases of services inside the kernel")
