#!/usr/bin/env python3
"""The systemd unit: it is well formed and closed, and the daemon needs nothing that it takes away: no capability, no system call, no writable code. With the
drop-in for `via xdp` it has four capabilities, one system call and two kinds of sockets more, and an interface is served with these."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from daemon import Daemon  # noqa: E402
from runs import BUILD, expect  # noqa: E402

UNIT = BUILD / "tools" / "chainio-runtime" / "chainio@.service"
DROP_IN = pathlib.Path(__file__).resolve().parents[2] / "tools" / "chainio-runtime" / "systemd" / "xdp.conf"
EXPOSURE, EXPOSURE_XDP = 15, 30  # in tenths: what `systemd-analyze security` may give at most
SPEC = """
app kv { files rows = "*.rows" { immutable } }
chain row(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 1000 for 1000 in file) { return b }
}
service lines on tcp 7001 via uring {
  text Row { "row " number: int "\\n" }
  request { line: Row }
  on request {
    let v = row(rows["a.rows"], request.line.number as u32) else fail not_found
    reply v[0..10] "\\n"
  }
  on malformed { reply "bad\\n" }
}
"""


def analyze(*words):
    done = subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_unit(folder):
    # The program is not installed where the unit will look for it.
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={BUILD}/bin/chainio-runtime", UNIT.read_text(), flags=re.M)
    unit = folder / "chainio@test.service"
    unit.write_text(text)
    expect("systemd has nothing to say of it", analyze("verify", "--man=no", unit), (0, ""))
    expect("it is closed", analyze("security", "--offline=true", f"--threshold={EXPOSURE}", unit), lambda r: r[0] == 0)


def test_installed(folder):
    """`cmake --install --prefix` says the place only then."""
    for prefix in ("/usr", folder / "there"):
        script = UNIT.parent / "cmake_install.cmake"
        done = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P", script], env=os.environ | {"DESTDIR": str(folder / "stage")},
                              capture_output=True, text=True, timeout=120)
        expect(f"installed below {prefix}", done.returncode, 0)
        unit = pathlib.Path(f"{folder}/stage{prefix}/lib/systemd/system/chainio@.service")
        expect("  the unit starts what is installed there", re.search(r"^ExecStart=(\S+)", unit.read_text(), re.M)[1], f"{prefix}/bin/chainio-runtime")
        expect("  which is there", pathlib.Path(f"{folder}/stage{prefix}/bin/chainio-runtime").exists(), True)


def test_drop_in(folder):
    made = folder / "chainio@test.service.d"
    made.mkdir()
    (made / "xdp.conf").write_text(DROP_IN.read_text())
    unit = folder / "chainio@test.service"
    expect("systemd has nothing to say of the drop-in", analyze("verify", "--man=no", unit), (0, ""))
    expect("with it, the unit is opened no further than it has to be", analyze("security", "--offline=true", f"--threshold={EXPOSURE_XDP}", unit), lambda r: r[0] == 0)
    expect("  and it is read", analyze("security", "--offline=true", f"--threshold={EXPOSURE}", unit), lambda r: r[0] != 0)


def lines_of(name):
    """The words of a setting in the unit and the drop-in."""
    return [line for text in (UNIT, DROP_IN) for line in re.findall(rf"^{name}=(.*)$", text.read_text(), flags=re.M)]


def members(name):
    """The system calls of a set, and of the sets in it."""
    calls = set()
    for word in re.findall(r"^ {4}(@?\w[\w-]*)", analyze("syscall-filter", name)[1], flags=re.M):
        calls |= members(word) if word.startswith("@") else {word}
    return calls


def members_of(line):
    return set().union(*(members(name) if name.startswith("@") else {name} for name in line.split()))


def allowed_calls(with_drop_in=False):
    calls = members("@default")
    for line in lines_of("SystemCallFilter") if with_drop_in else re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), flags=re.M):
        calls = calls - members_of(line[1:]) if line.startswith("~") else calls | members_of(line)
    return calls


def closed():
    """As the unit does it: no memory that was written may become code (PR_SET_MDWE; kernels before 6.3 do not know it)."""
    ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)


def asked(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(request)
        return sock.makefile("rb").readline()


class Server(Daemon):
    """Over loopback, in so little memory that two editions are within the usual limit of what is locked."""
    def __init__(self, folder, queue, **more):
        super().__init__(folder / "app.o", "--bind", "127.0.0.1", "--port", "lines=0", "--memory", "1MiB", "--in-flight", "8",
                         env=os.environ | {"NOTIFY_SOCKET": str(queue)}, **more)
        self.port = self.ports["lines", "tcp"]


def test_daemon(folder):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(folder / "notify"))
    manager.settimeout(60)
    trace = folder / "trace"
    privileges = []
    if os.geteuid() == 0:
        privileges = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]  # root's name, and none of its powers
    server = Server(folder, folder / "notify", prefix=["strace", "-f", "-qq", "-o", trace, *privileges], preexec_fn=closed)
    state = lambda: manager.recv(4096).decode()
    expect("it says that it is ready", state(), lambda text: text.startswith("READY=1\nSTATUS=edition 1 of"))
    expect("it serves", asked(server.port, b"row 7\n"), b"000000007 \n")
    expect("nothing falls back", [line for line in server.said if line.startswith("fallback")], [])
    expect("it reloads", server.control({"op": "reload", "id": 1}), {"id": 1, "edition": 2})
    expect("and says so", state(), lambda text: re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", text) is not None)
    expect("and what came of it", state(), lambda text: text.startswith("READY=1\nSTATUS=edition 2 of"))
    chainio = lambda *words: subprocess.run([BUILD / "bin" / "chainio", "control", *map(str, words)], capture_output=True, text=True, timeout=120)
    done = chainio(server.path, "stats")
    expect("chainio control: stats", (done.returncode, json.loads(done.stdout)["edition"]), (0, 2))
    (folder / "app.o").rename(folder / "kept.o")
    done = chainio(server.path, "reload")
    expect("chainio control: a reload that is refused", (done.returncode, done.stdout, done.stderr),
           (1, "", f"chainio control: cannot read artifact '{folder}/app.o': No such file or directory; edition 2 goes on\n"))
    state(), state()
    done = chainio(folder / "nothing", "stats")
    expect("chainio control: nobody", (done.returncode, done.stderr),
           (3, f"chainio control: nobody answers at '{folder}/nothing': No such file or directory; is it what chainio-runtime got as --socket?\n"))
    expect("it serves on", asked(server.port, b"row 8\n"), b"000000008 \n")
    expect("it counts", server.control({"op": "stats"})["stats"]["services"][0]["answered"], 2)
    pid = int(re.search(r"^(\d+) .*execve\(\S*bin/chainio-runtime", trace.read_text(), flags=re.M)[1])
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    if privileges:
        expect("without a capability", re.findall(r"Cap(?:Eff|Bnd|Prm):\s+(\d+)", status), ["0" * 16] * 3)
    os.kill(pid, signal.SIGTERM)
    expect("it says that it ends", state(), "STOPPING=1")
    expect("and ends", server.ended(), 0)
    manager.close()
    used = traced_calls(trace)
    expect("it calls what the unit allows", sorted(used - allowed_calls()), [])
    expect("of which were seen", used, lambda calls: {"io_uring_setup", "io_uring_register", "memfd_create", "accept4", "fcntl"} <= calls)


def test_full_queue(folder):
    """A manager that has no room for what the daemon says hears it later, and clients are answered meanwhile."""
    queue = folder / "full"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
        manager.bind(str(queue))
        manager.settimeout(60)
        others.setblocking(False)
        there = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                others.sendto(b"others", str(queue))
                there += 1
        server = Server(folder, queue)
        expect("it serves beside a manager that has no room", asked(server.port, b"row 7\n"), b"000000007 \n")
        expect("and reloads", server.control({"op": "reload", "id": 1}), {"id": 1, "edition": 2})
        expect("the manager has what others said before", {manager.recv(4096) for _ in range(there)}, {b"others"})
        expect("  and then how it is by now", manager.recv(4096).decode(), lambda text: text.startswith("READY=1\nSTATUS=edition 2 of"))
        server.process.terminate()
        expect("  and its end", manager.recv(4096), b"STOPPING=1")
        expect("it ends", server.ended(), 0)


def test_watchdog(folder):
    """A manager that ends who does not go on hears of a daemon that nobody asks anything."""
    place, path = folder / "watchdog", folder / "watchdog-control"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place))
        manager.settimeout(60)
        server = started.start([BUILD / "bin" / "chainio-runtime", "--spec", folder / "app.o", "--bind", "127.0.0.1", "--port", "lines=0", "--file", f"rows={folder / 'a.rows'}",
                                "--socket", path, "--memory", "1MiB", "--in-flight", "8"], env=os.environ | {"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "400000"},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expect("it is ready", manager.recv(4096), lambda said: said.startswith(b"READY=1\n"))
        expect("  and says again and again that it goes on", [manager.recv(4096) for _ in range(4)], [b"WATCHDOG=1"] * 4)
        server.terminate()
        expect("  and ends", server.wait(timeout=60), 0)


def traced_calls(trace):
    return set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]", run_of(trace), flags=re.M)) - {"resumed"}


def run_of(trace):
    """What was traced from where the daemon begins."""
    return re.split(r"execve\(\S*bin/chainio-runtime", trace.read_text(), maxsplit=1)[1]


def test_xdp(folder):
    """An interface is served with what the drop-in gives: root's name, and of its powers these only."""
    (folder / "xdp.chain").write_text(SPEC.replace("tcp 7001 via uring", "udp 7001 via xdp"))
    subprocess.run([BUILD / "bin" / "chainc", folder / "xdp.chain", "-o", folder / "xdp.o"], check=True)
    # CAP_IPC_LOCK is for the unit's LimitMEMLOCK=infinity, which cannot be had everywhere.
    wanted = [*" ".join(lines_of("CapabilityBoundingSet")).lower().replace("cap_", "").split(), "ipc_lock"]
    capabilities = "".join(f",+{name}" for name in wanted)
    trace = folder / "trace-xdp"
    with netns.Pair(mtu=1500) as pair:
        closed_in = pair.command(pair.there, "strace", "-f", "-qq", "-o", trace, "setpriv", f"--bounding-set=-all{capabilities}", "--inh-caps=-all", "--no-new-privs")
        server = Daemon(folder / "xdp.o", "--interface", "vb", prefix=closed_in)
        expect("served by the interface", "".join(server.said), lambda text: "xdp-refused" not in text)
        with netns.udp(pair.here) as client:
            client.connect(("10.9.0.2", 7001))
            client.send(b"row 7\n")
            expect("  it answers", client.recv(100), b"000000007 \n")
        pid = int(re.search(r"^(\d+) .*execve\(\S*bin/chainio-runtime", trace.read_text(), flags=re.M)[1])
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        expect("  with these capabilities", [bin(int(value, 16)).count("1") for value in re.findall(r"Cap(?:Eff|Bnd|Prm):\s+(\w+)", status)], [len(wanted)] * 3)
        os.kill(pid, signal.SIGTERM)
        expect("  it ends", server.ended(), 0)
    expect("  it calls what unit and drop-in allow", sorted(traced_calls(trace) - allowed_calls(True)), [])
    families = set(re.findall(r"socket\((AF_\w+)", run_of(trace)))
    expect("  and has no other sockets", (sorted(families - set(" ".join(lines_of("RestrictAddressFamilies")).split())), "AF_XDP" in families), ([], True))
    expect("  which the unit alone would not allow", ("bpf" in traced_calls(trace), "bpf" in allowed_calls()), (True, False))


def main():
    missing = [tool for tool in ("systemd-analyze", "strace", "setpriv") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: the systemd unit: this machine has no {', '.join(missing)}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        (folder / "a.rows").write_bytes(b"".join((b"%09d " % n) * 100 for n in range(100)))
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        test_unit(folder)
        test_installed(folder)
        test_drop_in(folder)
        test_full_queue(folder)
        test_watchdog(folder)
        test_daemon(folder)
        if why := netns.why_not():
            print(f"skipped: an interface with what the drop-in gives: {why}")
        else:
            test_xdp(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
