#!/usr/bin/env python3
"""Reloads of chainio-runtime under load: no request is lost or answered by two specs, what is refused changes nothing, and replaced files are noticed."""
import contextlib
import os
import pathlib
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import daemon  # noqa: E402
from daemon import LONG, ROWS, Server, answer, compiled, everything, receive, receive_line, row, with_editions, write_rows  # noqa: E402
from runs import BUILD, expect  # noqa: E402

SOAK = os.environ.get("CHAINIO_SOAK") == "1"
SEED = int(os.environ.get("CHAINIO_SEED", "4711"))
RELOADS = 1000 if SOAK else 100

class Load(threading.Thread):
    """Asks and checks until it is told to stop; every other client takes a new connection now and then."""
    def __init__(self, server, number):
        super().__init__()
        self.server, self.number, self.rng = server, number, random.Random(SEED + number)
        self.quit, self.answered, self.wrong, self.seen = threading.Event(), 0, [], set()

    def run(self):
        try:
            sock = self.server.connect()
            while not self.quit.is_set() and not self.wrong:
                self.ask(sock)
                if self.number % 2 and self.rng.random() < 0.1:
                    sock.close()
                    sock = self.server.connect()
            sock.close()
        except OSError as error:
            self.wrong.append(f"{error}")

    def ask(self, sock):
        numbers = [self.rng.choice((*(self.rng.randrange(ROWS) for _ in range(18)), ROWS, LONG))
                   for _ in range(self.rng.randrange(1, 12))]
        sock.sendall(b"".join(b"row %d\n" % number for number in numbers))
        for number in numbers:
            name = receive(sock, 1)
            want = answer(name, number)
            got = name + receive(sock, len(want) - 1)
            if got != want or name not in (b"A", b"B"):
                return self.wrong.append(f"{number}: {got[:40]!r}…{got[-40:]!r} ({len(got)})")
            self.seen.add(name)
            self.answered += 1


def test_load(folder, artifacts):
    server = Server(folder)
    clients = [Load(server, number) for number in range(6)]
    for client in clients:
        client.start()
    early = None
    for number in range(RELOADS):
        server.use(artifacts["BA"[number % 2]])
        before = sum(client.answered for client in clients)
        server.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 60
        while (stats := server.stats())["reloads"]["done"] <= number and time.monotonic() < until:
            time.sleep(0.002)
        while sum(client.answered for client in clients) == before and not any(c.wrong for c in clients) and time.monotonic() < until:
            time.sleep(0.001)
        if number == RELOADS // 4:
            server.wait_for("a quarter of the reloads", lambda s: not s["before_runs"])
            early = server.resident_kib(), server.descriptors()
    for client in clients:
        client.quit.set()
        client.join(60)
    expect("every reload was done", (stats["reloads"]["done"], stats["reloads"]["refused"], stats["edition"]), (RELOADS, 0, RELOADS + 1))
    expect("no wrong byte, no lost request", [client.wrong for client in clients if client.wrong], [])
    expect("under both specs", [client.seen for client in clients], [{b"A", b"B"}] * len(clients))
    answered = sum(client.answered for client in clients)
    stats = server.wait_for("what was before has ended", lambda s: not s["before_runs"] and s["services"][0]["connections"] == 0)
    service = stats["services"][0]
    expect("the counters go on over reloads, and all is accounted for",
           (service["requests"], service["answered"] + service["failed"], service["shed"], service["timeouts"], stats["leaked_frames"]),
           (answered, answered, 0, 0, 0))
    late = server.resident_kib(), server.descriptors()
    print(f"      {answered} requests, {RELOADS} reloads; KiB resident and descriptors after a quarter {early}, at the end {late}")
    expect("memory is flat", late[0] - early[0], lambda grown: grown < 8 << 10)
    # The connections of the clients were counted in the first of the two.
    expect("no descriptor is left", late[1], lambda left: left <= early[1])
    expect("ends", server.stop(), 0)


def answered_until_reloaded(server, sock, edition):
    """What a client gets that asks all the time, until the next edition is there."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(str(server.path))
        control.sendall(b'{"op": "reload", "id": 3}\n')
        answered = []
        while not select.select([control], [], [], 0)[0] and len(answered) < 1_000_000:
            sock.sendall(b"row %d\n" % (len(answered) % ROWS))
            answered.append(receive_line(sock))
        expect("the reload is done", control.recv(1000), b'{"id":3,"edition":%d}\n' % edition)
    return answered


def test_goes_on(folder, artifacts):
    """Requests are answered while the next edition's memory is taken, which is much here."""
    server = Server(folder, "--memory", "256MiB")
    sock, before, now = server.connect(), "B", "A"
    for number in runs.tries():  # this script may not be run itself for as long as that takes
        before, now = now, before
        server.use(artifacts[now])
        answered = answered_until_reloaded(server, sock, 2 + number)
        wrong = [got for number, got in enumerate(answered) if got not in (answer(b"A", number % ROWS), answer(b"B", number % ROWS))]
        expect("no request had a wrong answer", wrong, [])
        meanwhile = sum(got.startswith(before.encode()) for got in answered)
        server.wait_for("what was before has ended", lambda s: not s["before_runs"])
        # Without a thread of its own for the memory it would be one or two: those that were on their way.
        if meanwhile >= 10:
            break
    expect("requests were answered while it was prepared", meanwhile, lambda count: count >= 10)
    server.use(b"no artifact")
    expect("one that cannot be prepared is refused", server.control({"op": "reload", "id": 4}), lambda told: told["id"] == 4 and "not an ELF file" in told["error"])
    sock.sendall(b"row 3\n")
    expect("  and the edition goes on", receive_line(sock), answer(now.encode(), 3))
    server.use(artifacts[before])
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(str(server.path))
        control.sendall(b'{"op": "reload", "id": 5}\n{"op": "reload", "id": 6}\n{"op": "invalidate", "id": 7}\n')
        lines = control.makefile()
        expect("who asks again meanwhile is answered too", sorted(runs.json.loads(lines.readline())["id"] for _ in range(3)), [5, 6, 7])
        control.sendall(b'{"op": "reload", "id": 8}\n{"op": "stats", "id": 9}\n')
        told = [runs.json.loads(lines.readline())["id"]]  # 9, most likely: then the reload has begun, and has not ended
        server.process.send_signal(signal.SIGTERM)
        expect("who has asked when it is to stop is told", sorted([*told, runs.json.loads(lines.readline())["id"]]), [8, 9])
    sock.close()
    expect("it ends meanwhile", server.stop(), 0)


def without_memory(server, more):
    """What a reload says when the process may have that many KiB more than it has."""
    has = int(re.search(r"VmSize:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1])
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, ((has + more) << 10, resource.RLIM_INFINITY))
    told = server.control({"op": "reload"})
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return told.get("error")


def test_without_memory(folder, artifacts):
    """Wherever in a reload the memory ends, it is refused, and the edition before goes on; at the start it is said what takes too much."""
    server = Server(folder, "--connections", 16)
    sock = server.connect()
    refused = set()
    for more in range(256, 1 << 20, 512):
        said = without_memory(server, more)
        sock.sendall(b"row 2\n")
        if receive_line(sock) != answer(b"A", 2) or said is None:
            break
        refused.add(said.split(":")[0])
    expect("a reload with ever more memory is done in the end", (said, server.all_stats()["edition"]), (None, 2))
    expect("  and was refused before", refused,
           lambda told: "no memory for the requests of 16 connections, 64 at once; ask for fewer (--connections, --requests)" in told)
    sock.close()
    expect("ends", server.stop(), 0)
    try:
        expect("a start without the memory for requests", Server(folder, "--connections", 16, "--requests", 65535, prefix=["prlimit", f"--as={2 << 30}"]).stop(), "refused")
    except daemon.NotServed as refusal:
        expect("a start without the memory for requests", (refusal.code, str(refusal).split(": ", 1)[1]),
               (3, "chainio-runtime: no memory for the requests of 16 connections, 65535 at once; ask for fewer (--connections, --requests)\n"))


def test_order(folder, artifacts):
    """A reply that nobody takes yet is of the spec, and of the file, under which it began; what follows is of the next."""
    server = Server(folder, "--timeout", 60000)
    slow = server.stuck(b"row %d\n" % LONG * 40)
    idle = server.connect()
    server.use(artifacts["B"])
    expect("the control socket reloads", server.control({"op": "reload", "id": 9}), {"id": 9, "edition": 2})
    expect("and the edition before runs on", server.stats()["before_runs"], True)
    idle.sendall(b"row 3\n")
    expect("a connection from before is answered by the new spec", receive_line(idle), answer(b"B", 3))
    write_rows(folder, ord("b"))
    waits = "the next reload waits for edition 1 to end: requests, connections or reads of it go on\n"
    server.wait_for("that the file was replaced is said meanwhile, and what it waits for", lambda _: waits in server.said)
    expect("  in this order, and once", [line for line in server.said if line == waits or "replaced" in line], [f"'{folder / 'a.rows'}' was replaced\n", waits])
    expect("  while the edition before runs on", [server.stats()[name] for name in ("edition", "before_runs")], [2, True])
    got = [receive(slow, len(answer(b"A", LONG))) for _ in range(40)]
    names = [reply[:1] for reply in got]
    expect("each reply is whole, and of one file", [reply in (answer(name, LONG), answer(name, LONG, ord("b"))) for name, reply in zip(names, got)],
           [True] * 40)
    expect("the first of the old spec, the last of the new", (names == sorted(names), names[0], names[-1]), (True, b"A", b"B"))
    server.wait_for("the replaced file was noticed", lambda s: s["edition"] == 3 and not s["before_runs"])
    idle.sendall(b"row 4\n")
    expect("and is read", receive_line(idle), answer(b"B", 4, ord("b")))
    slow.close()
    idle.close()
    expect("ends", server.stop(), 0)


def test_files(folder, artifacts):
    server = Server(folder)
    sock = server.connect()

    def asked(number):
        sock.sendall(b"row %d\n" % number)
        return receive_line(sock)
    expect("as it is", asked(1), answer(b"A", 1))
    server.use(artifacts["B"])
    write_rows(folder, ord("c"))
    stats = server.wait_for("a replaced file is noticed", lambda s: s["reloads"]["for_files"] == 1)
    expect("which says so", stats["reloads"]["last"], lambda text: text.startswith("edition 2 of") and text.endswith("/a.rows' was replaced)"))
    expect("and takes the file alone, not the artifact", asked(1), answer(b"A", 1, ord("c")))
    with open(folder / "a.rows", "r+b") as file:
        file.write(b"".join(row(n, ord("d")) for n in range(ROWS)))
    stats = server.wait_for("so is one that was written to", lambda s: asked(1) == answer(b"A", 1, ord("d")) and s["edition"] > 2)
    edition, times = server.stats()["edition"], (folder / "a.rows").stat()
    with open(folder / "a.rows", "r+b") as file:
        file.write(b"".join(row(n, ord("g")) for n in range(ROWS)))
    os.utime(folder / "a.rows", ns=(times.st_atime_ns, times.st_mtime_ns))
    server.wait_for("and one whose time was put back, as by `cp -p`", lambda s: asked(1) == answer(b"A", 1, ord("g")) and s["edition"] > edition)
    (folder / "a.rows").unlink()
    server.wait_for("one that is gone", lambda s: any("what was opened is read further" in line for line in server.said))
    expect("is read further", asked(2), answer(b"A", 2, ord("g")))
    for _ in range(3):
        server.control({"op": "invalidate"})  # looks at once
    expect("which is said once, however often it is looked", sum("what was opened is read further" in line for line in server.said), 1)
    before = server.stats()["edition"]
    expect("but cannot be opened anew", server.control({"op": "reload"}), lambda a: "No such file" in a["error"])
    write_rows(folder, ord("e"))
    server.wait_for("until there is one", lambda s: s["edition"] == before + 1)
    expect("which is read", asked(2), answer(b"A", 2, ord("e")))
    sock.close()
    expect("ends", server.stop(), 0)


def a_taken_port(answer):
    return answer["error"] == (f"service 'kv': cannot listen at tcp {daemon.OWN} port {daemon.PORTS[1]}: Address already in use; "
                               "`ss -lntup` says who has it: end that one, or take another port (--port SERVICE=PORT)")


def never_silent(sock, when_it_sends):
    """What a client gets that sends more while it reads, until the server has ended its reading; not for ever."""
    over, data = threading.Event(), []

    def send():
        with contextlib.suppress(OSError):  # the connection ends below it
            while not over.is_set():
                sock.sendall(b"row 4;" * 1000)
    sender = threading.Thread(target=send)
    sender.start()
    data.append(sock.recv(1 << 16))
    teller = threading.Thread(target=when_it_sends)
    teller.start()
    until = time.monotonic() + 30
    while time.monotonic() < until and (got := sock.recv(1 << 16)):
        data.append(got)
    expect("  it is given up after a while", time.monotonic() < until, True)
    over.set()
    sock.shutdown(socket.SHUT_RDWR)
    for each in (sender, teller):
        each.join()
    return b"".join(data)


def test_endpoints(folder, artifacts):
    """Another port, another framing, another name: what cannot go over is answered and told."""
    port, other = daemon.PORTS
    first, moved = compiled(folder, "A", service="kv", port=port), compiled(folder, "B", service="kv", port=other)
    semicolons, renamed = compiled(folder, "A", end=";", service="kv", port=other), compiled(folder, "B", end=";", service="other", port=other)
    server = Server(folder)
    server.use(first)
    expect("an option for a service that is gone refuses", server.control({"op": "reload"}), lambda a: "there is no service 'lines'" in a["error"])
    expect("ends", server.stop(), 0)
    try:
        Server(folder)
        expect("as it does at the start", "it serves", "ended")
    except daemon.NotServed as ended:
        expect("as it does at the start", ended.code, 2)
    server = Server(folder, service="kv", port=None, address=daemon.OWN)
    server.port = port
    sock = server.connect()
    sock.sendall(b"row 1\nrow ")
    expect("at the first port", receive_line(sock), answer(b"A", 1))
    with socket.socket() as taken:
        taken.bind((daemon.OWN, other))
        taken.listen()
        server.use(moved)
        expect("a port that is taken refuses", server.control({"op": "reload"}), a_taken_port)
    sock.sendall(b"2\n")
    expect("and nothing has changed", receive_line(sock), answer(b"A", 2))
    sock.sendall(b"row ")
    expect("when it is free", server.control({"op": "reload"})["edition"], 2)
    sock.sendall(b"3\n")
    expect("half a request is gone on with under the new spec", receive_line(sock), answer(b"B", 3))
    try:
        server.connect().close()
        expect("the first port is closed", "open", "closed")
    except ConnectionRefusedError:
        pass
    server.port = other
    server.use(semicolons)
    expect("another framing", server.control({"op": "reload"})["edition"], 3)
    expect("ends the connections of the one before", everything(sock), b"")
    with server.connect() as fresh:
        fresh.sendall(b"row 4;")
        expect("for the others it is", receive_line(fresh), answer(b"A", 4))
        server.use(renamed)
        expect("another name", server.control({"op": "reload"})["edition"], 4)
        expect("ends them as well", everything(fresh), b"")
    with server.connect() as fresh:
        fresh.sendall(b"row 5;")
        expect("at the same port", receive_line(fresh), answer(b"B", 5))
    server.use(semicolons)
    with server.connect() as endless:
        rest = never_silent(endless, lambda: expect("a name that a client who never stops sending does not know", server.control({"op": "reload"})["edition"], 5))
        whole, over = answer(b"B", 4), len(rest) // len(answer(b"B", 4))
        expect("  what was answered is whole, and then it is told", (over > 0, rest == whole * over), (True, True))
    server.wait_for("  and the edition before ends", lambda s: not s["before_runs"])
    for wrong in (b"no artifact", artifacts["A"][:5000], b""):
        server.use(wrong)
        expect(f"{wrong[:12]!r} is refused", server.control({"op": "reload"}), lambda a: "error" in a)
    expect("and edition 5 runs", (server.stats()["edition"], server.stats()["reloads"]["refused"]), (5, 4))
    expect("ends", server.stop(), 0)
    told = [line.split(": ")[0] for line in server.said if line.startswith("service ")]
    expect("  each endpoint is told of when it comes, and not again with another framing", told,
           [f"service {name} at tcp {daemon.OWN} port {at}" for name, at in (("kv", port), ("kv", other), ("other", other), ("kv", other))])


def elsewhere(folder, name, endpoints):
    """An artifact whose service has other endpoints."""
    compiled(folder, name, service="kv")
    text = (folder / f"{name}.chain").read_text()
    (folder / f"{name}.chain").write_text(text.replace("tcp 7001 via uring", endpoints))
    subprocess.run([BUILD / "bin" / "chainc", folder / f"{name}.chain", "-o", folder / f"{name}.o"], check=True)
    return (folder / f"{name}.o").read_bytes()


def test_told_endpoints(folder, _):
    """One more at all addresses, whose name has a colon in it as well."""
    (folder / "app.o").write_bytes(elsewhere(folder, "A", "tcp 7001 via uring"))
    server = Server(folder, service="kv", address="::")
    server.use(elsewhere(folder, "B", "tcp 7001 via uring, tcp 7002 via uring"))
    expect("another endpoint", server.control({"op": "reload"}).get("edition"), 2)
    expect("ends", server.stop(), 0)
    told = [line.split(" port ")[0] for line in server.said if line.startswith("service ")]
    expect("  which is told of as the first one was", told, ["service kv at tcp ::"] * 2)


def of_fields(folder, fields, reply, before=""):
    """An artifact whose requests have these fields."""
    source = folder / "fields.chain"
    source.write_text(f"""{before}app kv {{ files rows = "*.rows" }}
service lines on tcp 7001 via uring {{
  request {{ {fields} }}
  on request {{ reply {reply} }}
}}
""")
    subprocess.run([BUILD / "bin" / "chainc", source, "-o", folder / "fields.o"], check=True)
    return (folder / "fields.o").read_bytes()


def test_measured(folder, artifacts):
    """Half a request that says itself how long it is: the newer spec goes on with it where it says so in the same way."""
    def measured(name, size, before=""):
        return of_fields(folder, f"size: u16be  body: bytes({size})", f'"{name}" body', before)
    (folder / "app.o").write_bytes(measured("A", "size"))
    server = Server(folder)
    sock = server.connect()
    sock.sendall(b"\0\3abc\0\4de")
    expect("a whole one", receive(sock, 4), b"Aabc")
    server.use(measured("B", "size", "# Elsewhere in the file.\n\n"))
    expect("the same size", server.control({"op": "reload"})["edition"], 2)
    sock.sendall(b"fg\0\5h")
    expect("  goes on under the new spec", receive(sock, 5), b"Bdefg")
    server.use(measured("C", "size + 1"))
    expect("another size", server.control({"op": "reload"})["edition"], 3)
    sock.sendall(b"ijkl")
    expect("  is answered by the one before, and ends", everything(sock), b"Bhijkl")
    with server.connect() as fresh:
        fresh.sendall(b"\0\3abcd")
        expect("  for others it is", receive(fresh, 5), b"Cabcd")
    expect("ends", server.stop(), 0)


def test_too_long(folder, artifacts):
    """A newer spec whose requests have no room."""
    (folder / "app.o").write_bytes(of_fields(folder, "all: bytes(8)", "request.all"))
    server = Server(folder, "--request-bytes", 8)
    sock = server.connect()
    sock.sendall(b"1234")
    server.use(of_fields(folder, "all: bytes(9)", "request.all"))
    expect("requests without room are refused", server.control({"op": "reload", "id": 1}),
           {"id": 1, "error": "service 'lines': its requests are longer than --request-bytes 8; give at least 9", "edition": 1})
    sock.sendall(b"5678")
    expect("  and the edition before serves on", receive(sock, 8), b"12345678")
    expect("ends", server.stop(), 0)


def test_measured_by_words(folder, artifacts):
    """What one spec compares with a word the newer one compares with another."""
    def measured(name, word):
        return of_fields(folder, f'kind: bytes(2)  more: bytes(2) when kind == "{word}"', f'"{name}" kind')
    (folder / "app.o").write_bytes(measured("A", "ab"))
    server = Server(folder)
    sock = server.connect()
    sock.sendall(b"xxab1")
    expect("one of a size, and half of one of another", receive(sock, 3), b"Axx")
    server.use(measured("B", "cd"))
    expect("another word", server.control({"op": "reload"})["edition"], 2)
    sock.sendall(b"2c")
    expect("  is answered by the one before, and ends", everything(sock), b"Aab")
    expect("ends", server.stop(), 0)


def test_ports_of_the_kernel(folder, artifacts):
    """A service may have several ports over tcp that the kernel has chosen: a reload keeps each of them."""
    compiled(folder, "A")
    text = (folder / "A.chain").read_text()
    (folder / "A.chain").write_text(text.replace("on tcp 7001 via uring", "on tcp 7001 via uring, tcp 7002 via uring"))
    subprocess.run([BUILD / "bin" / "chainc", folder / "A.chain", "-o", folder / "app.o"], check=True)
    server = Server(folder)
    ports = lambda: [each["port"] for each in server.stats()["services"]]
    before = ports()
    expect("there are two", len(set(before)), 2)
    for edition in (2, 3):
        expect("a reload", server.control({"op": "reload"})["edition"], edition)
        expect("  keeps both", ports(), before)
        for server.port in before:
            with server.connect() as sock:
                sock.sendall(b"row 1\n")
                expect("  and each answers", receive_line(sock), answer(b"A", 1))
    expect("ends", server.stop(), 0)
    try:
        Server(folder, port=daemon.PORTS[0])
        expect("--port gives them no number", "it serves", "ended")
    except daemon.NotServed as ended:
        expect("--port gives them no number", (ended.code, str(ended).endswith(
            "service 'lines' has 2 ports over tcp, of which --port can give a number to none: give 0, or other ports in the spec\n")), (2, True))


def test_refused_endpoints(folder, artifacts):
    """What a newer spec wants where it is not served is named, with the cause, and what can be served is."""
    port, other = daemon.PORTS
    (folder / "app.o").write_bytes(compiled(folder, "A", service="kv", port=port))
    server = Server(folder, service="kv", port=None, address=daemon.OWN)
    server.use(elsewhere(folder, "B", f"tcp {port} via kernel, tcp {other} via uring"))
    refused = f"service 'kv' is not served at tcp {port} via kernel: the size of its requests is not fixed; write `via uring`"
    expect("an endpoint that is refused", server.control({"op": "reload", "id": 1}), {"id": 1, "edition": 2, "refused": [refused]})
    expect("  is said to be", server.stats()["reloads"]["last"], f"edition 2 of '{folder / 'app.o'}' runs (asked to); {refused}")
    expect("  the others are served", [each["port"] for each in server.stats()["services"]], [other])
    server.use(elsewhere(folder, "B", f"tcp {port} via kernel"))
    expect("where all are, and there are chains, these are served", server.control({"op": "reload", "id": 2}), {"id": 2, "edition": 3, "refused": [refused]})
    expect("ends", server.stop(), 0)
    (folder / "alone.chain").write_text(f"""app kv {{ files rows = "*.rows" }}
service kv on tcp {port} via kernel {{
  text Line {{ word: word(max 8) "\\n" }}
  request {{ line: Line }}
  on request {{ reply request.line.word }}
}}
""")
    subprocess.run([BUILD / "bin" / "chainc", folder / "alone.chain", "-o", folder / "alone.o"], check=True)
    why = "the spec has no call chain, without which nothing runs inside the kernel; write `via uring`"
    wrong = (f"'{folder / 'app.o'}' has no call chain, and its services are refused, so there is nothing to serve; "
             f"service 'kv' is not served at tcp {port} via kernel: {why}")
    (folder / "app.o").write_bytes(compiled(folder, "A", service="kv", port=port))
    server = Server(folder, service="kv", port=None, address=daemon.OWN)
    server.use((folder / "alone.o").read_bytes())
    expect("where there is nothing else the reload is refused", server.control({"op": "reload", "id": 3}), {"id": 3, "error": wrong, "edition": 1})
    expect("ends", server.stop(), 0)
    try:
        Server(folder, service="kv", port=None, address=daemon.OWN)
        expect("so is the start", "it serves", "ended")
    except daemon.NotServed as ended:
        expect("so is the start", (ended.code, str(ended).split(": ", 1)[1]), (1, f"chainio-runtime: {wrong}\n"))


def main():
    with_editions(test_load, test_goes_on, test_without_memory, test_order, test_files, test_endpoints, test_told_endpoints, test_measured, test_too_long,
                  test_measured_by_words, test_ports_of_the_kernel, test_refused_endpoints)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
