#!/usr/bin/env python3
"""Mixed load over tcp across a veth pair while clients are killed, the interface goes down and up, the spec is reloaded and the file is replaced, by a seed.

Some seconds in a check, ten minutes in tools/soak. CHAINIO_SEED=N: another sequence of events."""
import errno
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from daemon import LONG, ROWS, Server, answer, compiled, receive_line, write_rows  # noqa: E402
from runs import expect  # noqa: E402

SOAK = os.environ.get("CHAINIO_SOAK") == "1"
SECONDS = 600 if SOAK else 10
SEED = int(os.environ.get("CHAINIO_SEED", "20266"))
CLIENTS = 5
CONTENTS = b"abcdef"


def checked(sock, numbers, answered):
    """Asks and reads; what is wrong, in words."""
    sock.sendall(b"".join(b"row %d\n" % number for number in numbers))
    data, lines = b"", []
    while len(lines) < len(numbers):
        got = sock.recv(1 << 16)
        if not got:
            return f"closed after {len(lines)} of {len(numbers)} replies"
        *more, data = (data + got).split(b"\n")
        lines += more
    for number, line in zip(numbers, lines):
        # The edition and the file are any that there were, and the same in all of the reply.
        name, content = line[:1], line[2:3]
        if name not in b"AB" or (number < ROWS or number == LONG) and content not in CONTENTS:
            return f"{number}: {line[:60]!r}"
        if line + b"\n" != answer(name, number, content[0]):
            return f"{number}: {line[:40]!r}…{line[-40:]!r} ({len(line)})"
        answered[0] += 1
    return data and f"more than was asked for: {data[:60]!r}"


def connected(address, port):
    """While the interface is down there is no way to anybody."""
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((address, port), timeout=60)
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def client(address, port, seed):
    """Until its standard input ends."""
    rng, answered = random.Random(seed), [0]
    os.set_blocking(0, False)
    sock = connected(address, port)
    wrong, last = "", False
    while not wrong and not last:
        last = ended()
        numbers = [rng.choice((*(rng.randrange(ROWS) for _ in range(30)), ROWS, LONG)) for _ in range(rng.randrange(1, 20))]
        wrong = checked(sock, numbers, answered)
        if rng.random() < 0.05:
            sock.close()
            sock = connected(address, port)
    sock.close()
    print(json.dumps({"answered": answered[0], "wrong": str(wrong or "")}))


def ended():
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


class Scene:
    def __init__(self, folder, pair, artifacts):
        self.folder, self.pair, self.artifacts, self.rng = folder, pair, artifacts, random.Random(SEED)
        write_rows(folder, CONTENTS[0])
        (folder / "app.o").write_bytes(artifacts["A"])
        self.server = Server(folder, prefix=pair.command(pair.there), address="10.9.0.2")
        self.clients, self.did, self.started = [], {}, 0
        for _ in range(CLIENTS):
            self.start_client()

    def start_client(self):
        self.started += 1
        words = self.pair.command(self.pair.here, sys.executable, __file__, "client", "10.9.0.2", self.server.port, SEED + self.started)
        self.clients.append(started.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def kill_client(self):
        killed = self.clients.pop(self.rng.randrange(len(self.clients)))
        killed.kill()
        killed.communicate()
        self.start_client()

    def interface(self):
        netns.ip("link", "set", "va", "down", namespace=self.pair.here)
        time.sleep(self.rng.uniform(0.05, 0.5))  # how long it is down is the event
        netns.ip("link", "set", "va", "up", namespace=self.pair.here)

    def reload(self):
        self.server.use(self.artifacts[self.rng.choice("AB")])
        if self.rng.random() < 0.3:
            self.server.process.send_signal(signal.SIGHUP)
        elif "edition" not in (said := self.server.control({"op": "reload"})):
            expect("a reload is done", said, "an edition")

    def refuse(self):
        self.server.use(b"no artifact")
        if "error" not in (said := self.server.control({"op": "reload"})):
            expect("what is no artifact is refused", said, "an error")

    def replace(self):
        write_rows(self.folder, self.rng.choice(CONTENTS))

    def vanish(self):
        """A client that is gone in the middle of a request, and one in the middle of a reply."""
        with netns.inside(self.pair.here):
            half, long = (socket.create_connection(("10.9.0.2", self.server.port), timeout=60) for _ in range(2))
        half.sendall(b"row 1")
        long.sendall(b"row %d\n" % LONG * 20)
        half.close()
        long.close()

    def act(self):
        """One event after the other; each kind once before any by chance."""
        kinds = [self.kill_client, self.interface, self.reload, self.replace, self.refuse, self.vanish]
        first = list(kinds)
        end, early = time.monotonic() + SECONDS, None
        while time.monotonic() < end or first:
            event = first.pop() if first else self.rng.choice([*kinds, self.reload, self.reload])
            event()
            self.did[event.__name__] = self.did.get(event.__name__, 0) + 1
            time.sleep(self.rng.uniform(0, 0.1))
            if early is None and not first and time.monotonic() > end - SECONDS * 3 / 4:
                early = self.settled()
        return early

    def settled(self):
        """KiB resident once the edition before has ended."""
        self.server.wait_for("the edition before ends", lambda stats: not stats["before_runs"])
        return self.server.resident_kib()

    def end(self, early):
        self.server.use(self.artifacts["A"])
        results = []
        for each in self.clients:
            out, err = each.communicate("", timeout=120)
            results.append(json.loads(out) if out else {"answered": 0, "wrong": err[-500:]})
        expect("no wrong byte, no lost request", [each["wrong"] for each in results if each["wrong"]], [])
        expect("every client was served", min(each["answered"] for each in results), lambda least: least > 0)
        stats = self.server.wait_for("no connection and no edition is left",
                                     lambda s: s["services"][0]["connections"] == 0 and not s["before_runs"])
        service = stats["services"][0]
        expect("every request came to its end, or its client was gone", service["requests"] - service["answered"] - service["failed"],
               lambda left: 0 <= left <= self.did["kill_client"] + 2 * self.did["vanish"])
        expect("nothing was shed, refused, malformed or too long",
               [service[what] for what in ("shed", "refused", "malformed", "too_long")], [0] * 4)
        expect("as many reloads as were asked for", stats["reloads"]["done"], lambda done: done >= (100 if SOAK else 1))
        expect("no frame leaked", stats["leaked_frames"], 0)
        late = self.server.resident_kib()
        expect("memory is flat", late - early, lambda grown: grown < 8 << 10)
        with netns.inside(self.pair.here):
            sock = socket.create_connection(("10.9.0.2", self.server.port), timeout=60)
        sock.sendall(b"row 1\n")
        line = receive_line(sock)
        expect("it serves on", line, answer(line[:1], 1, line[2]))
        sock.close()
        print(f"      seed {SEED}: {service['requests']} requests, {stats['reloads']['done']} reloads ({stats['reloads']['for_files']} for files), "
              f"{stats['reloads']['refused']} refused, {self.did}; KiB resident {early}, then {late}")
        expect("ends", self.server.stop(), 0)

    def kill(self):
        for process in (*self.clients, self.server.process):
            if process.poll() is None:
                process.kill()
                process.wait()


def main():
    if sys.argv[1:2] == ["client"]:
        return client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    if reason := netns.why_not():
        print(f"skipped: the mixed load: {reason}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair(mtu=1500, queues=1) as pair:
        folder = pathlib.Path(name)
        artifacts = {name: compiled(folder, name) for name in "AB"}
        scene = Scene(folder, pair, artifacts)
        try:
            scene.end(scene.act())
        finally:
            scene.kill()
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
