#!/usr/bin/env python3
"""The daemon under clients of its control socket, and under circumstances, that are not as they should be: it goes on, and serves as quickly as before."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import resource
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import netns
import runs
import started
from refused_call import IO_URING_SETUP, refuse
from runs import expect

SPEC = daemon.SPEC.replace("service {service}", """chain first(rows: file rows) -> u8 hops 1 {{
  step s(b: block at 0 for 1 in rows) {{ return b[0] }}
}}
service {service}""")

NO_ROOM = "files may not be as large as the block memory, {} KiB (ulimit -f): raise the limit, or take less"


def connected(server):
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(server.path))  # waits for a place in the backlog, which one with a time limit would not
    made.settimeout(netns.PATIENCE)
    return made


def listens(path):
    """Whether somebody takes connections there: the name of a socket is in its folder before that."""
    with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
        asking.connect(str(path))
        return True
    return False


def asked(server, line):
    with connected(server) as control:
        control.sendall(line)
        return json.loads(control.makefile().readline())


def seconds_of_processor(server):
    words = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def share_of_processor(server, seconds=1.0):
    before, begin = seconds_of_processor(server), time.monotonic()
    time.sleep(seconds)
    return (seconds_of_processor(server) - before) / (time.monotonic() - begin)


def test_requests(server):
    for levels in (40, 400_000):
        expect(f"an id of {levels} levels", asked(server, b'{"op":"stats","id":' + b"[" * levels + b"]" * levels + b"}\n"),
               {"id": None, "error": "a request has at most 32 levels of objects and lists"})
    expect("an id that is a list", asked(server, b'{"op":"stats","id":[1]}\n'), {"id": None, "error": 'an "id" is a string or a number'})
    expect("ids that are none, a number, a string", [asked(server, b'{"op":"invalidate"%s}\n' % id_)["id"] for id_ in (b"", b',"id":1.5', b',"id":"x"')],
           [None, 1.5, "x"])
    expect("a number for a file", asked(server, b'{"chain":"first","args":{"rows":4}}\n')["error"], "parameter 'rows': the name of a file is wanted, as a string")
    expect("a call", asked(server, b'{"chain":"first","id":2}\n')["value"], ord("a"))


def test_many_lines(server):
    """A client that sends short lines without an end leaves the services their time."""
    def rounds(seconds):
        taken, end = [], time.monotonic() + seconds
        with server.connect() as sock:
            while time.monotonic() < end:
                begin = time.monotonic()
                sock.sendall(b"row 3\n")
                daemon.receive_line(sock)
                taken.append(time.monotonic() - begin)
        return statistics.median(taken)

    stop = threading.Event()

    def flood():
        with connected(server) as control:
            control.setblocking(False)
            lines = b"\n" * 60_000 + b'{"id":1}\n' * 500
            while not stop.is_set():
                try:
                    control.send(lines)
                except BlockingIOError:
                    pass
                try:
                    control.recv(1 << 20)
                except BlockingIOError:
                    pass

    for _ in runs.tries():  # others may have the processors in one of the seconds and not in the other
        stop.clear()
        before = rounds(1.0)
        flooding = threading.Thread(target=flood)
        flooding.start()
        time.sleep(0.3)
        beside = rounds(1.0)
        went_on = flooding.is_alive()
        stop.set()
        flooding.join()
        times = beside / max(before, rounds(1.0))
        if times < 100 or not went_on:
            break
    expect("lines come in a flood", went_on, True)
    expect("  beside which a request takes some times as long as alone", times, lambda times: times < 100)


def test_pipelined(server):
    """Ten thousand lines of one client are all answered, in the order of those that are answered at once."""
    with connected(server) as control:
        threading.Thread(target=control.sendall, args=(b"".join(b'{"op":"x","id":%d}\n' % i for i in range(10_000)),)).start()
        with control.makefile() as answers:
            expect("ten thousand lines at once", [json.loads(answers.readline())["id"] for _ in range(10_000)] == list(range(10_000)), True)
    with connected(server) as control:
        control.sendall(b'{"chain":"first","id":1}\n' * 3000)
        control.shutdown(socket.SHUT_WR)
        expect("calls of a client that has sent all it wants to", len(daemon.everything(control).splitlines()), 3000)


def test_long_line_behind_others(server):
    """A line without an end is refused also where whole ones were in front of it, and its place is free again."""
    with connected(server) as control:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is closed before all is sent
            control.sendall(b"\n" * 60_000 + b"x" * (3 << 20))
        expect("3 MiB without an end behind short lines", json.loads(control.makefile().readline()), {"id": None, "error": "a line is longer than 1 MiB"})
        netns.until("  its place is free", lambda: server.all_stats()["clients"] == 1)
    for more, refused in ((0, False), (1, True)):
        with connected(server) as control:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                control.sendall(b"x" * ((1 << 20) + more) + b"\n")
            expect(f"a whole line of 1 MiB and {more}", json.loads(control.makefile().readline())["error"] == "a line is longer than 1 MiB", refused)


def test_overload(server):
    """While requests of the services have all chains, calls wait and the rest is answered."""
    stop = threading.Event()

    def load():
        heap = b"".join(b"row %d\n" % number for number in range(200))
        length = sum(len(daemon.answer(b"one", number, ord("a"))) for number in range(200))
        with server.connect() as sock:
            while not stop.is_set():
                sock.sendall(heap)
                daemon.receive(sock, length)

    def asked():
        return server.stats()["services"][0]["requests"]

    loading = [threading.Thread(target=load) for _ in range(4)]
    for each in loading:
        each.start()
    for op in ("stats", "invalidate") * 5:
        before = asked()
        expect(f"under load, {op}", server.control({"op": op}), lambda answer: "error" not in answer)
        netns.until("the load goes on", lambda: asked() > before)
    stop.set()
    for each in loading:
        each.join()


def test_hung_up(server):
    """A client that is gone while a reload that it asked for waits."""
    held = server.connect()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    before = server.all_stats()["services"][0]["bytes_out"]
    held.sendall(b"row 7777\n" * 100)  # is not read: the edition before the next one goes on
    netns.until("it is being answered", lambda: server.all_stats()["services"][0]["bytes_out"] > before)
    server.control({"op": "reload"})
    with connected(server) as gone:
        gone.sendall(b'{"op":"reload"}\n')
        time.sleep(0.2)
    expect("the edition before runs still", server.all_stats()["before_runs"], True)
    expect("one that hung up while it waits: share of a processor", share_of_processor(server), lambda share: share < 0.1)
    edition = server.all_stats()["edition"]
    held.close()
    netns.until("what it asked for is done all the same", lambda: server.all_stats()["edition"] == edition + 1)


def waiting(sock):
    """Bytes that have come and were not read."""
    return int.from_bytes(fcntl.ioctl(sock, termios.FIONREAD, bytes(4)), sys.byteorder)


def grows_no_more(sock):
    before = waiting(sock)
    time.sleep(0.5)
    return waiting(sock) == before


def test_end(server):
    """The five seconds for clients to take their answers are that by the clock, however often they ask; one that hung up is not waited for."""
    with connected(server) as slow, connected(server) as gone:
        slow.sendall(b'{"op":"stats","id":1}\n' * 2000)
        netns.until("no more answers find room", lambda: waiting(slow) > 0 and grows_no_more(slow))
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        gone.close()
        expect("a client that takes no answers: ends", server.process.wait(timeout=60), 0)
        expect("  after seconds", time.monotonic() - begin, lambda seconds: 4 < seconds < 30)
    server.rest.join()


def filled(writing):
    """Leaves a pipe no room; how many bytes that took."""
    os.set_blocking(writing, False)
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += os.write(writing, b"-" * 4096)
    os.set_blocking(writing, True)
    return full


def test_end_at_the_start(folder):
    """A connection and SIGTERM of which the daemon hears at once, as it waits until somebody reads what it says: the client has its answers."""
    reading, writing = os.pipe()
    full = filled(writing)
    command = [runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}", "--bind", daemon.OWN]
    with started.start(command, stdout=subprocess.DEVNULL, stderr=writing) as process, socket.socket() as sock:
        os.close(writing)
        sock.settimeout(netns.PATIENCE)
        netns.until("it listens", lambda: sock.connect_ex((daemon.OWN, daemon.PORTS[0])) == 0)
        sock.sendall(b"row 3\n" * 300)
        process.send_signal(signal.SIGTERM)
        with open(reading, "rb") as said:
            said.read(full)
            expect("what was sent before it was told to end is answered", daemon.everything(sock), daemon.answer(b"one", 3) * 300)
            sock.close()
            said.read()
        expect("  and it ends", process.wait(timeout=60), 0)


def test_nobody_listens(folder):
    """What is said is lost where the disk is full or nobody reads it; the daemon goes on."""
    def heard_by(what, **streams):
        path = folder / "unheard"
        with started.start([runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}", "--bind", "127.0.0.1",
                               "--port", "lines=0", "--socket", path], **streams) as process:
            netns.until("it serves", lambda: listens(path))
            if process.stderr is not None:
                process.stderr.close()
            server = types.SimpleNamespace(path=path)
            for edition in (2, 3):
                expect(f"{what}: edition {edition}", asked(server, b'{"op":"reload"}\n'), {"id": None, "edition": edition})
                netns.until("the one before has ended", lambda: not asked(server, b'{"op":"stats"}\n')["stats"]["before_runs"])
            process.send_signal(signal.SIGTERM)
            expect("  ends", process.wait(timeout=60), 0)

    with open("/dev/full", "wb") as full:
        heard_by("a full disk", stdout=full, stderr=full)
    heard_by("a pipe that nobody reads", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    closed = "exec " + shlex.join(map(str, (runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}", "--bind",
                                            "127.0.0.1", "--port", "lines=0", "--socket", folder / "closed"))) + " <&- >&- 2>&-"
    with started.start(["sh", "-c", closed]) as process:
        netns.until("it serves", lambda: listens(folder / "closed"))
        where = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)]
        expect("started without standard files: nothing else has their numbers", where, ["/dev/null"] * 3)
        process.send_signal(signal.SIGTERM)
        expect("  ends", process.wait(timeout=60), 0)


def test_nobody_reads(folder):
    """Who is to read what is said, and does not for a while, is not waited for once the daemon serves."""
    reading, writing = os.pipe()
    path = folder / "unread"
    with started.start([runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}", "--bind", "127.0.0.1",
                           "--port", "lines=0", "--socket", path], stdout=subprocess.DEVNULL, stderr=writing) as process, open(reading, "rb") as said:
        while not said.readline().startswith(b"serving at"):
            pass
        full = filled(writing)
        server = types.SimpleNamespace(path=path)
        expect("nobody reads: a reload, which is said", asked(server, b'{"op":"reload"}\n'), {"id": None, "edition": 2})
        expect("  and what comes behind it", asked(server, b'{"op":"stats"}\n')["stats"]["edition"], 2)
        expect("  what was said is lost", len(said.read(full).strip(b"-")), 0)
        process.send_signal(signal.SIGTERM)
        os.close(writing)
        expect("  what is said when somebody reads again is not", said.read().startswith(b"stopped after "), True)
        expect("  ends", process.wait(timeout=60), 0)


def test_file_size(folder):
    """Files may be as long as the limit (`ulimit -f`): what would be longer is said, and ends nobody (SIGXFSZ)."""
    path, said = folder / "limited", folder / "said"
    with open(said, "wb") as log, started.start([runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}",
                                                    "--bind", "127.0.0.1", "--port", "lines=0", "--socket", path], stdout=subprocess.DEVNULL, stderr=log) as process:
        netns.until("it serves", lambda: listens(path))
        log.flush()
        hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (said.stat().st_size, hard))
        server = types.SimpleNamespace(path=path)
        expect("a reload without room for memory, nor in the log for why", asked(server, b'{"op":"reload"}\n')["error"], lambda error: error.endswith(NO_ROOM.format(8192)))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        expect("  the daemon goes on, and reloads where there is room", asked(server, b'{"op":"reload"}\n'), {"id": None, "edition": 2})
        process.send_signal(signal.SIGTERM)
        expect("  ends", process.wait(timeout=60), 0)
    limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    command = [runs.BUILD / "bin" / "chainio", "call", folder / "app.o", "first", "--file", folder / "a.rows"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    expect("a call has no room for memory", (done.returncode, done.stderr), (3, f"chainio call: {NO_ROOM.format(2048)}\n"))


def test_call_without_output(folder):
    call = shlex.join(map(str, (runs.BUILD / "bin" / "chainio", "call", folder / "app.o", "first", "--file", folder / "a.rows")))
    inspect = shlex.join(map(str, (runs.BUILD / "bin" / "chainio", "inspect", folder / "app.o")))
    for where, why in (("/dev/null", None), ("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")):
        for command, said in ((call, f"chainio call: cannot write the results: {why}\n"),
                              (inspect, f"chainio: cannot write standard output: {why}; free some space, or redirect it elsewhere\n")):
            done = subprocess.run(["sh", "-c", f"{command} >{where}"], capture_output=True, text=True)
            expect(f"what goes to {where}", (done.returncode, done.stderr), (3, said) if why else (0, ""))


def test_names_of_bytes(folder):
    """The name of a file need not be UTF-8."""
    name = os.fsdecode(b"ma\xe4n.rows")
    (folder / name).write_bytes((folder / "a.rows").read_bytes())
    server = daemon.Server(folder, "--file", f"rows={folder / name}")
    os.replace(folder / "a.rows", folder / name)
    daemon.write_rows(folder, ord("a"))
    netns.until("it is opened anew", lambda: server.all_stats()["reloads"]["done"] >= 1)
    expect("what is said of it", server.all_stats()["reloads"]["last"], lambda last: "ma\ufffdn.rows" in last or "a.rows" in last)
    (folder / name).unlink()
    expect("a reload that misses it", server.control({"op": "reload"})["error"], lambda error: "ma\ufffdn.rows" in error)
    expect("ends", server.stop(), 0)


def test_all_files_are_looked_at(folder):
    """`invalidate` is not acknowledged while a reply comes from a file that was replaced, whatever became of others."""
    class OfTwo(daemon.Server):
        FILE = "rows", "first.rows"

    (folder / "first.rows").write_bytes(b"x" * 1000)
    server = OfTwo(folder, "--file", f"rows={folder / 'a.rows'}")
    (folder / "first.rows").unlink()
    daemon.write_rows(folder, ord("b"))
    for which in ("one file is gone, the other one replaced", "asked again"):
        expect(which, server.control({"op": "invalidate"}).get("error", "acknowledged"), lambda error: "first.rows" in error)
    (folder / "first.rows.new").write_bytes(b"x" * 1000)
    (folder / "first.rows.new").rename(folder / "first.rows")
    expect("both are there", server.control({"op": "invalidate"}), {"id": None, "edition": 2})
    with server.connect() as sock:
        sock.sendall(b"row 3\n")
        expect("  and replies are of the newer one", daemon.receive_line(sock), daemon.answer(b"one", 3, ord("b")))
    expect("ends", server.stop(), 0)


def test_limits(folder):
    """At a limit the daemon waits, instead of trying again and again; where it could not have its connections, it does not start."""
    server = daemon.Server(folder)
    many = [connected(server) for _ in range(260)]
    expect("more control clients than may be: share of a processor", share_of_processor(server), lambda share: share < 0.1)
    for each in many:
        each.close()
    netns.until("they are gone", lambda: server.all_stats()["clients"] < 3)
    expect("ends", server.stop(), 0)
    before, after = daemon.PORTS
    (folder / "app.o").write_bytes(daemon.compiled(folder, "one", port=before))
    server = daemon.Server(folder, port=None, address=daemon.OWN)
    server.use(daemon.compiled(folder, "one", port=after))
    with netns.without_descriptor(server.process.pid, left=30):
        server.control({"op": "reload"})  # the listener of another port has the limit that is there when it begins
        netns.until("the one before has ended", lambda: not server.all_stats()["before_runs"])
        connections = [socket.create_connection((daemon.OWN, after), timeout=netns.PATIENCE) for _ in range(60)]
        expect("no descriptor is left: share of a processor", share_of_processor(server), lambda share: share < 0.1)
    for each in connections:
        each.sendall(b"row 3\n")
    expect("then all are served", [daemon.receive_line(each) for each in connections], [daemon.answer(b"one", 3, ord("b"))] * 60)
    expect("  and it was said", [each["name"] for each in server.all_stats()["fallbacks"]], lambda names: "accept-waits" in names)
    for each in connections:
        each.close()
    expect("ends", server.stop(), 0)
    server = daemon.Server(folder, "--interface", "nope0")
    expect("an interface that no service is for", [each["name"] for each in server.all_stats()["fallbacks"]], ["xdp-unused"])
    expect("ends", server.stop(), 0)


def test_too_few_open_files(folder):
    """At the start, and at a reload from a spec of chains to one of services."""
    # Root may raise the hard limit, unless it has no capability for it.
    limited = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"] if os.geteuid() == 0 else []
    (folder / "chains.chain").write_text('app kv { files rows = "*.rows" { immutable } }\n'
                                         'chain row(file: file rows) -> bytes(max 64) hops 1 { step s(b: block at 0 for 12 in file) { return b } }\n')
    services = (folder / "app.o").read_bytes()
    subprocess.run([runs.BUILD / "bin" / "chainc", folder / "chains.chain", "-o", folder / "app.o"], check=True)
    server = daemon.Server(folder, port=None, prefix=[*limited, "prlimit", "--nofile=400:400"])
    server.use(services)
    expect("a reload to services that have too few", server.control({"op": "reload"}).get("error", "done"), lambda said: "1024 connections want 1666 open files, and this process may have 400: raise its limit" in said)
    expect("ends", server.stop(), 0)
    (folder / "app.o").write_bytes(services)
    command = [*limited, "prlimit", "--nofile=300:300", runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    expect("too few open files to start with", (done.returncode, done.stderr),
           (3, "chainio-runtime: 1024 connections want 1666 open files, and this process may have 300: raise its limit (`ulimit -n 1666`, "
               "LimitNOFILE= of a systemd unit), or give fewer --connections\n"))


def test_refused_at_the_start(folder):
    """Addresses that cannot be listened at, and more memory than there is: with what to do."""
    command = [runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}"]
    megabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    memory = "{} MiB of block memory (--memory) and 0 MiB for the caches of file classes are more than this machine's {} MiB; ask for less"
    link = "Invalid argument; an address of a single link wants its interface: --bind fe80::1%eth0"
    for words, said in ((("--bind", "fe80::1"), f"service 'lines': cannot listen at tcp fe80::1 port 1: {link}"),
                        (("--bind", "fe80::1%none"), "service 'lines': 'fe80::1%none': there is no interface 'none'; `ip link` lists them"),
                        (("--bind", "::1%lo"), "service 'lines': '::1%lo' is no address; only those of a single link (fe80::1%eth0) name an interface"),
                        (("--bind", "192.0.2.7"), "service 'lines': cannot listen at tcp 192.0.2.7 port 1: Cannot assign requested address; no interface has that "
                                                  "address: `ip addr` lists what --bind can be"),
                        (("--memory", f"{megabytes + 1}MiB"), memory.format(megabytes + 1, megabytes)),
                        (("--memory", str(2 ** 64 - 1)), memory.format(2 ** 44 - 1, megabytes))):
        done = subprocess.run([*map(str, command), "--port", "lines=1", *words], capture_output=True, text=True)
        expect(f"refused: {' '.join(words)}", (done.returncode, done.stderr), (3, f"chainio-runtime: {said}\n"))
    if int(pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) > 1:
        limited = ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-all"] if os.geteuid() == 0 else []
        done = subprocess.run([*limited, *map(str, command), "--bind", "127.0.0.1", "--port", "lines=1"], capture_output=True, text=True)
        expect("refused: a port below 1024", (done.returncode, done.stderr),
               (3, "chainio-runtime: service 'lines': cannot listen at tcp 127.0.0.1 port 1: Permission denied; ports below 1024 are for CAP_NET_BIND_SERVICE: have it, "
                   "or take another port (--port SERVICE=PORT)\n"))


def test_hidden_memory(folder):
    """Where nobody can say how much memory is left, nothing is refused for that, and it is told of."""
    hidden = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /proc/meminfo && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
        return print("skipped: without /proc/meminfo: it cannot be hidden here")
    server = daemon.Server(folder, prefix=hidden)
    expect("without /proc/meminfo it is said that more memory than is left is not refused",
           [each["reason"] for each in server.all_stats()["fallbacks"] if each["name"] == "memory-unknown"],
           ["'/proc/meminfo' does not say what is left of this machine's memory (ProcSubset=pid of a systemd unit hides it), so that more than that is not refused"])
    expect("ends", server.stop(), 0)
    server = daemon.Server(folder)
    expect("with it, nothing is", [each for each in server.all_stats()["fallbacks"] if each["name"] == "memory-unknown"], [])
    expect("ends", server.stop(), 0)


def test_no_ring(folder):
    """Where there is no io_uring, services are refused by --check as they are at the start; call chains are not."""
    command = [runs.BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--file", f"rows={folder / 'a.rows'}"]
    for error, why in ((errno.ENOMEM, "Cannot allocate memory (raise RLIMIT_MEMLOCK, `ulimit -l`)"),
                       (errno.EPERM, "Operation not permitted (sysctl kernel.io_uring_disabled, or a seccomp filter such as a container's)")):
        def run(*words):
            return subprocess.run([*command, *words], capture_output=True, text=True, timeout=runs.LONGEST, preexec_fn=lambda: refuse(IO_URING_SETUP, error))
        rows = [(row["kind"], row["state"], row["why"]) for row in json.loads(run("--check", "--json").stdout) if row["kind"] in ("chain", "service")]
        expect(f"no io_uring, {errno.errorcode[error]}: --check", rows, lambda rows: [row[:2] for row in rows] == [("chain", "runs")] * (len(rows) - 1) + [("service", "refused")]
               and rows[-1][2].endswith(f": io_uring cannot be set up: {why}"))
        done = run("--port", "lines=0")
        expect("  and the start", (done.returncode, done.stderr), (3, f"chainio-runtime: io_uring cannot be set up: {why}\n"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        daemon.SPEC = SPEC
        daemon.write_rows(folder, ord("a"))
        (folder / "app.o").write_bytes(daemon.compiled(folder, "one"))
        server = daemon.Server(folder)
        test_requests(server)
        test_many_lines(server)
        test_pipelined(server)
        test_long_line_behind_others(server)
        test_hung_up(server)
        test_end(server)
        server = daemon.Server(folder, "--in-flight", "1")
        test_overload(server)
        expect("ends", server.stop(), 0)
        test_end_at_the_start(folder)
        test_nobody_listens(folder)
        test_nobody_reads(folder)
        test_file_size(folder)
        test_call_without_output(folder)
        test_names_of_bytes(folder)
        test_all_files_are_looked_at(folder)
        test_limits(folder)
        test_too_few_open_files(folder)
        test_refused_at_the_start(folder)
        test_hidden_memory(folder)
        test_no_ring(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
