"""A systemd of its own: PID 1 of namespaces that end with it, over the machine's files, which it cannot write to."""
import os
import pathlib
import shlex
import signal
import subprocess

import netns
import started

SYSTEMD = next((path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if os.access(path, os.X_OK)), None)
UNSHARED = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--uts", "--ipc", "--mount-proc"]
# Those that any service waits for, without what a machine starts with them.
TARGETS = "sysinit", "basic", "shutdown", "network", "network-online", "multi-user"
# What is written lands in /run; the machine's units, sockets and temporary files are not to be seen.
PREPARE = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
cp -r {units}/. /run/systemd/system
for top in {tops}; do
    mkdir -p /run/over$top/upper /run/over$top/work
    mount -t overlay -o lowerdir=$top,upperdir=/run/over$top/upper,workdir=/run/over$top/work overlay $top
done
cp -r {files}/. /
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export container=chainio SYSTEMD_UNIT_PATH=/run/systemd/system SYSTEMD_GENERATOR_PATH=/run/none
exec {start}
"""


def cgroup():
    """Our group of the second hierarchy, which systemd can do with alone; nothing when that is not mounted."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    place = next((words[1] for words in mounts if words[2] == "cgroup2"), None)
    own = next((line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), None)
    return pathlib.Path(place + own) if place and own is not None else None


def why_not():
    """Why none can be started here; empty when one can."""
    if os.geteuid() != 0:
        return "a systemd of its own wants root"
    if not SYSTEMD:
        return "systemd is not installed"
    if not cgroup() or not cgroup().is_dir():
        return "there is no cgroup2 hierarchy"
    words = PREPARE.format(units="/var/empty", files="/var/empty", tops="/etc", start="true").replace("cp -r", ": cp -r")
    tried = subprocess.run([*UNSHARED, "--net", "sh", "-c", words], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"its namespaces cannot be made here: {tried.stderr.strip()}"


class Manager:
    """`files` holds what is to be at the root of the file system, below the folders `tops`; `units` what is to be among the units. It has the
    network of a namespace."""

    def __init__(self, folder, files, units, tops, network):
        for name in TARGETS:
            (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
        start = f"{SYSTEMD} --unit=multi-user.target --log-target=console --show-status=no"
        script = PREPARE.format(units=shlex.quote(str(units)), files=shlex.quote(str(files)), tops=" ".join(tops), start=start)
        self.group = cgroup() / f"chainio-{os.getpid()}"
        self.group.mkdir()
        self.log = folder / "systemd.log"
        inside = ["nsenter", f"--net=/run/netns/{network}"]
        words = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.group, *inside, *UNSHARED, "sh", "-c", script]
        with open(self.log, "wb") as log:
            self.process = started.start(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        try:
            netns.until("systemd is there", self.is_there)
        except BaseException:
            print(self.log.read_text(errors="replace")[-2000:])
            self.__exit__()
            raise
        return self

    def is_there(self):
        assert self.process.poll() is None, "it ended"
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.init = int(children[0]) if children else None
        if not self.init:
            return False
        # A machine that is run by systemd has such a socket of its own, as long as its /run is seen here.
        is_started = pathlib.Path(f"/proc/{self.init}/comm").read_text() == "systemd\n"
        return is_started and (self.root / "run/systemd/private").exists()

    @property
    def root(self):
        """Its file system; its processes are those of `proc` there."""
        return pathlib.Path(f"/proc/{self.init}/root")

    def __exit__(self, *_):
        """With PID 1 all others end; what it has mounted and changed is gone with the namespaces."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text().split() if children.exists() else []:
            os.kill(int(child), signal.SIGKILL)
        self.process.wait()
        folders = [self.group, *(path for path in self.group.rglob("*") if path.is_dir())]
        netns.until("its groups are empty", lambda: not any((folder / "cgroup.procs").read_text() for folder in folders))
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            folder.rmdir()

    def systemctl(self, *words):
        done = subprocess.run(["nsenter", "-t", str(self.init), "-a", "systemctl", "--no-pager", *map(str, words)], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def shown(self, unit, *names):
        said = dict(line.split("=", 1) for line in self.systemctl("show", *(f"--property={name}" for name in names), unit)[1].splitlines())
        return [said[name] for name in names]
