#!/usr/bin/env python3
"""The unit as it is installed, under a systemd that is PID 1 of namespaces: it starts, answers, reloads, drains and is started again; it has what it is given
and no more, with the drop-in for `via xdp` too, and what is closed to it breaks neither io_uring nor BPF nor AF_XDP."""
import fcntl
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon
import manager
import netns
import runs
from daemon import everything
from runs import BUILD, expect
from runtime_unit import DROP_IN, SPEC, UNIT

ADDRESS, LATE, PORT = "10.9.0.2", "10.9.0.77", 7001
TRIES = 7  # more than systemd would have made by default
OPTIONS = "--file rows=/etc/chainio/a.rows --memory 1MiB --in-flight 8"  # within the limit of locked memory, which not everybody may raise
# LimitMEMLOCK=infinity cannot be had everywhere; this has no limit either.
UNLIMITED = """[Service]
CapabilityBoundingSet=CAP_IPC_LOCK
AmbientCapabilities=CAP_IPC_LOCK
"""
# What the daemon says would go to a journal, which nobody keeps here. If it were started all the same, nobody else is to be ended for its memory.
HEARD = """[Service]
StandardError=file:/run/chainio-big.said
OOMScoreAdjust=1000
"""
# For calls by programs of a user, as docs/services.md has it.
THEIRS = "[Service]\nDynamicUser=no\nUser=daemon\n"
CALL = """import socket
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect("/run/chainio/theirs/control")
    sock.sendall(b'{"chain": "row", "args": {"number": 7}}\\n')
    print(sock.makefile().readline()[:45])"""
GIVEN = ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON"]
NUMBERS = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_IPC_LOCK": 14, "CAP_PERFMON": 38, "CAP_BPF": 39}


def compiled(folder, to, text):
    source = folder / f"{to.stem}.chain"
    source.write_text(text)
    subprocess.run([BUILD / "bin" / "chainc", source, "-o", to], check=True)


def may_lock_memory():
    """Whether a manager that is started here can lift the limit of its services."""
    return subprocess.run(["prlimit", "--memlock=unlimited:unlimited", "true"], capture_output=True).returncode == 0


def more_than_is_left():
    """MiB of memory that the machine has, and of which some are in use, whatever other programs free meanwhile; None: too few are."""
    known = {name: int(kib) for name, kib in re.findall(r"^(\w+): +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), flags=re.M)}
    left, all_ = known["MemAvailable"] + known["SwapFree"], known["MemTotal"]
    return (all_ >> 10) - 256 if all_ - left >= 768 << 10 else None


def prepared(folder):
    """What an administrator writes, and what `ninja install` puts where the unit looks for it."""
    files, units = folder / "files", folder / "units"
    program = pathlib.Path(re.search(r"^ExecStart=(\S+)", UNIT.read_text(), flags=re.M)[1])
    for path in (files / "etc" / "chainio", units / "chainio@fast.service.d", units / "chainio@big.service.d", units / "chainio@theirs.service.d", files / program.parent.relative_to("/")):
        path.mkdir(parents=True)
    shutil.copy(BUILD / "bin" / "chainio-runtime", files / program.relative_to("/"))
    shutil.copy(UNIT, units)
    shutil.copy(DROP_IN, units / "chainio@fast.service.d")
    if not may_lock_memory():
        (units / "chainio@fast.service.d" / "memory.conf").write_text(UNLIMITED)
    here = files / "etc" / "chainio"
    compiled(folder, here / "kv.o", SPEC)
    compiled(folder, here / "next.o", SPEC.replace("reply v", 'reply "next " v'))
    compiled(folder, here / "fast.o", SPEC.replace("tcp 7001 via uring", "udp 7001 via xdp"))
    (here / "a.rows").write_bytes(b"".join((b"%09d " % n) * 100 for n in range(100)))
    (here / "kv.conf").write_text(f"OPTIONS={OPTIONS}\n")
    for name, address in (("late", LATE), ("wrong", "10.9.0.777")):
        shutil.copy(here / "kv.o", here / f"{name}.o")
        (here / f"{name}.conf").write_text(f"OPTIONS={OPTIONS} --bind {address}\n")
    (here / "fast.conf").write_text(f"OPTIONS={OPTIONS} --interface vb\n")
    shutil.copy(here / "kv.o", here / "big.o")
    (units / "chainio@big.service.d" / "heard.conf").write_text(HEARD)
    compiled(folder, here / "theirs.o", SPEC.partition("service")[0])
    shutil.copy(here / "kv.conf", here / "theirs.conf")
    (units / "chainio@theirs.service.d" / "user.conf").write_text(THEIRS)
    return files, units, ["/etc", f"/{program.parts[1]}"]


def connected(pair, address=ADDRESS):
    with netns.inside(pair.here):
        return socket.create_connection((address, PORT), timeout=netns.PATIENCE)


def asked(pair, number, address=ADDRESS):
    with connected(pair, address) as sock:
        sock.sendall(b"row %d\n" % number)
        return sock.makefile("rb").readline()


def test_closed(systemd, unit, given):
    """What the kernel says of the process, its file system and its devices."""
    pid, = systemd.shown(unit, "MainPID")
    text = (systemd.root / "proc" / pid / "status").read_text()
    mask = sum(1 << NUMBERS[name] for name in given)
    expect(f"its capabilities are {given}", {name: int(value, 16) for name, value in re.findall(r"(Cap\w+):\s+(\w+)", text)},
           {f"Cap{kind}": mask for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")})
    expect("it gains none by a program that it starts, and its calls are filtered", re.findall(r"(?:NoNewPrivs|Seccomp):\s+(\d)", text), ["1", "2"])
    users = [int(user) for user in re.search(r"Uid:\s+(.*)", text)[1].split()]
    expect("it is a user of its own", users, lambda found: len(set(found)) == 1 and 61184 <= found[0] <= 65519)
    root = systemd.root / "proc" / pid / "root"
    read_only = lambda path: bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    expect("/etc, which others may write to, it may not", (read_only(systemd.root / "etc"), read_only(root / "etc")), (False, True))
    devices = {path.name for path in (root / "dev").iterdir() if path.is_block_device() or path.name in ("mem", "kmsg", "fuse")}
    expect("it sees no disk, nor the kernel's messages or memory", devices, set())
    expect("it sees how much memory is left", (root / "proc" / "meminfo").exists(), True)


def test_service(systemd, pair):
    unit = "chainio@kv"
    expect("systemctl start", systemd.systemctl("start", unit), (0, ""))
    state = systemd.shown(unit, "ActiveState", "StatusText", "MainPID")
    expect("it is active, and says of what", state[:2], lambda s: s[0] == "active" and s[1].startswith("edition 1 of"))
    expect("it answers", asked(pair, 7), b"000000007 \n")
    test_closed(systemd, unit, [])
    stats = daemon.control(systemd.root / "run/chainio/kv/control", {"op": "stats"})["stats"]
    # The file lies on an overlay here, of which the kernel cannot be asked that.
    expect("nothing falls back: it has its io_uring", [each for each in stats["fallbacks"] if each["name"] != "no-nowait"], [])
    print("reload")
    before = connected(pair)
    (systemd.root / "etc/chainio/next.o").rename(systemd.root / "etc/chainio/kv.o")
    expect("systemctl reload", systemd.systemctl("reload", unit), (0, ""))
    netns.until("the next edition runs", lambda: systemd.shown(unit, "StatusText")[0].startswith("edition 2 of"))
    expect("by the same process", systemd.shown(unit, "ActiveState", "MainPID"), ["active", state[2]])
    expect("it answers by the new artifact", asked(pair, 8), b"next 000000008 \n")
    before.sendall(b"row 9\n")
    expect("and on the connection of before", before.makefile("rb").readline(), b"next 000000009 \n")
    before.close()
    print("it is killed")
    expect("systemctl kill", systemd.systemctl("kill", "--kill-whom=main", "--signal=KILL", unit), (0, ""))
    netns.until("it is started again", lambda: (lambda now: now[0] == "active" and now[1] not in ("0", state[2]))(systemd.shown(unit, "ActiveState", "MainPID")))
    expect("and answers", asked(pair, 7), b"next 000000007 \n")
    print("stop")
    with connected(pair) as sock:
        sock.sendall(b"".join(b"row %d\n" % (n % 100) for n in range(300)))
        netns.until("all has come", lambda: int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder) == 0)
        expect("systemctl stop", systemd.systemctl("stop", unit), (0, ""))
        expect("what had come is answered, and then the connection ends", everything(sock), b"".join(b"next %09d \n" % (n % 100) for n in range(300)))
    expect("it ended well", systemd.shown(unit, "ActiveState", "Result"), ["inactive", "success"])
    expect("its folder is gone", (systemd.root / "run/chainio/kv").exists(), False)


def test_late(systemd, pair):
    """An address that comes later is waited for; what is no address is not."""
    unit = "chainio@late"
    print("an address to listen at that is not there yet")
    expect("systemctl start says that it failed", systemd.systemctl("start", unit)[0], 1)
    netns.until("it is started again and again", lambda: int(systemd.shown(unit, "NRestarts")[0]) >= TRIES)
    netns.ip("addr", "add", f"{LATE}/24", "dev", "vb", namespace=pair.there)
    netns.until("it serves once the address is there", lambda: systemd.shown(unit, "ActiveState") == ["active"])
    expect("and answers", asked(pair, 7, LATE), b"000000007 \n")
    expect("systemctl stop", systemd.systemctl("stop", unit), (0, ""))
    netns.ip("addr", "del", f"{LATE}/24", "dev", "vb", namespace=pair.there)
    expect("what is no address is refused", systemd.systemctl("start", "chainio@wrong")[0], 1)
    expect("and not tried again", systemd.shown("chainio@wrong", "ActiveState", "Result", "NRestarts"), ["failed", "exit-code", "0"])


def test_memory(systemd):
    """More memory than is left is refused, before the kernel would end somebody for it."""
    print("more memory than there is left")
    if (mib := more_than_is_left()) is None:
        return print("skipped: more memory than there is left: nearly all of this machine's is free")
    if runs.failures:
        return print("skipped: more memory than there is left: what is wrong may be that it is taken")
    (systemd.root / "etc/chainio/big.conf").write_text(f"OPTIONS=--file rows=/etc/chainio/a.rows --memory {mib}MiB\n")
    expect("systemctl start says that it failed", systemd.systemctl("start", "chainio@big")[0], 1)
    said = (systemd.root / "run/chainio-big.said").read_text()
    expect("as it is refused", said, lambda text: re.search(r"\(--memory\).* are more than the \d+ MiB that are left for it of this machine's", text))
    expect("systemctl stop", systemd.systemctl("stop", "chainio@big"), (0, ""))


def test_calls_of_a_user(systemd):
    """Of a spec without services: the socket is the unit's user's, and other users' programs may not call."""
    unit = "chainio@theirs"
    print("calls by programs of a user")
    expect("systemctl start", systemd.systemctl("start", unit), (0, ""))
    for user, said in (("daemon", '{"id":null,"outcome":"ok","hex":"303030303030'), ("nobody", "")):
        done = subprocess.run(["nsenter", "-t", str(systemd.init), "-a", "setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", "/usr/bin/python3", "-c", CALL],
                              capture_output=True, text=True, timeout=runs.LONGEST)
        expect(f"  by one of {user}", (done.stdout.strip(), "PermissionError" in done.stderr), (said, not said))
    expect("systemctl stop", systemd.systemctl("stop", unit), (0, ""))


def test_xdp(systemd, pair):
    unit = "chainio@fast"
    print("with the drop-in for xdp")
    expect("systemctl start", systemd.systemctl("start", unit), (0, ""))
    test_closed(systemd, unit, GIVEN if may_lock_memory() else [*GIVEN, "CAP_IPC_LOCK"])
    with netns.udp(pair.here) as client:
        client.connect((ADDRESS, PORT))
        client.send(b"row 7\n")
        expect("it answers", client.recv(100), b"000000007 \n")
    stats = daemon.control(systemd.root / "run/chainio/fast/control", {"op": "stats"})["stats"]
    expect("nothing falls back but what a veth has not", {each["name"] for each in stats["fallbacks"]} - {"no-nowait"}, {"xdp-copy"})
    expect("by AF_XDP, from its XDP program on", [(side["name"], side["received"]) for side in stats["interfaces"]], [("vb", 1)])
    expect("which is attached", "xdp" in pair.link(pair.there, "vb"), True)
    expect("systemctl stop", systemd.systemctl("stop", unit), (0, ""))
    expect("it ended well, and the program is gone", (systemd.shown(unit, "ActiveState", "Result"), "xdp" in pair.link(pair.there, "vb")), (["inactive", "success"], False))


def main():
    if why := netns.why_not() or manager.why_not():
        print(f"skipped: the systemd unit under a systemd: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair(mtu=1500) as pair:
        folder = pathlib.Path(name)
        files, units, tops = prepared(folder)
        with manager.Manager(folder, files, units, tops, pair.there) as systemd:
            test_service(systemd, pair)
            test_late(systemd, pair)
            test_memory(systemd)
            test_calls_of_a_user(systemd)
            test_xdp(systemd, pair)
            if runs.failures:
                print(systemd.log.read_text(errors="replace")[-4000:])
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
