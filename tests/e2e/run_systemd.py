#!/usr/bin/env python3
"""A unit whose program chainio runs, by the drop-in of docs/run.md, under a systemd that is PID 1 of namespaces: systemd hears of the program that it is ready,
and the program hears once that it is to end."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import manager
import netns
import runs
from runs import BUILD, CHAINC, ROOT, expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n'
# A program that is to be ready, and to end, within 30 seconds. Nothing but its drop-in says that chainio runs it.
UNIT = """[Service]
Type=notify
ExecStart=/usr/local/bin/shop
TimeoutStartSec=30
TimeoutStopSec=30
"""
# Of the signals that wait the kernel gives the one with the lowest number first: none that has come before the one that ends this is left.
PROGRAM = """#!/usr/bin/python3
import os, pathlib, signal, socket
ASKED, LAST = signal.SIGTERM, signal.SIGRTMIN
signal.pthread_sigmask(signal.SIG_BLOCK, {ASKED, LAST})
open("/etc/chainio/a.note", "rb", buffering=0).read(100)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
    name = os.environ["NOTIFY_SOCKET"]
    manager.sendto(b"READY=1\\nSTATUS=sells", "\\0" + name[1:] if name[0] == "@" else name)
with open("/run/heard", "w", buffering=1) as heard:
    while (info := signal.sigwaitinfo({ASKED, LAST})).si_signo == ASKED:
        print("of chainio" if info.si_pid == os.getppid() else f"of process {info.si_pid}", file=heard)
    print("no more", file=heard)
"""


def drop_in():
    """The one of the page."""
    text = (ROOT / "docs" / "run.md").read_text()
    return re.search(r"^## Under systemd\n.*?^```ini\n(.*?)^```$", text, flags=re.M | re.S)[1]


def prepared(folder):
    """What an administrator writes, and what `ninja install` puts where the drop-in looks for it."""
    files, units = folder / "files", folder / "units"
    local, here = files / "usr" / "local", files / "etc" / "chainio"
    for path in (local / "bin", local / "lib", here, units / "shop.service.d"):
        path.mkdir(parents=True)
    for name in ("bin/chainio", "bin/chainio-run", "lib/libchainio.so"):
        shutil.copy(BUILD / name, local / name)
    (folder / "shop.chain").write_text(SPEC)
    subprocess.run([CHAINC, folder / "shop.chain", "-o", here / "shop.o"], check=True, timeout=runs.LONGEST)
    (here / "a.note").write_bytes(b"n" * 100_000)
    (local / "bin" / "shop").write_text(PROGRAM)
    (local / "bin" / "shop").chmod(0o755)
    (units / "shop.service").write_text(UNIT)
    (units / "shop.service.d" / "override.conf").write_text(drop_in())
    return files, units, ["/etc", "/usr"]


def name_of(systemd, pid):
    return (systemd.root / "proc" / pid / "comm").read_text().rstrip("\n")


def test_unit(systemd):
    if not expect("systemctl start", systemd.systemctl("start", "shop"), (0, "")):
        return
    pid, *state = systemd.shown("shop", "MainPID", "ActiveState", "StatusText")
    expect("the program is ready, and says of what", state, ["active", "sells"])
    expect("the main process is chainio", name_of(systemd, pid), lambda name: name in runs.OURS)
    heard = systemd.root / "run" / "heard"
    expect("systemctl stop", systemd.systemctl("stop", "--no-block", "shop"), (0, ""))
    netns.until("the program has heard of it", lambda: heard.read_text() != "")
    expect("one more signal, behind all others", systemd.systemctl("kill", "--kill-whom=main", "--signal=RTMIN", "shop"), (0, ""))
    netns.until("the unit has ended", lambda: systemd.shown("shop", "ActiveState") in (["inactive"], ["failed"]))
    expect("it ended well", systemd.shown("shop", "ActiveState", "Result"), ["inactive", "success"])
    expect("the program was asked once to end", heard.read_text().splitlines(), ["of chainio", "no more"])


def main():
    if why := netns.why_not() or manager.why_not():
        print(f"skipped: a unit with chainio run under a systemd: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name, netns.Pair(mtu=1500) as pair:
        folder = pathlib.Path(name)
        files, units, tops = prepared(folder)
        with manager.Manager(folder, files, units, tops, pair.there) as systemd:
            test_unit(systemd)
            if runs.failures:
                print(systemd.log.read_text(errors="replace")[-4000:])
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
