"""Boots a kernel under QEMU's software emulation with virtme-ng, and runs one command in it."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import archive
from place import CACHE, LOG, ROOT, Unavailable, last_line, locked

TIMED_OUT, GUEST_FAILED = 124, 125
BOOTS = 3  # of a machine that is gone before the command is begun
# One thread of QEMU runs the guest's processors in turns. With a thread for each, QEMU 7.2 may translate code in the moment in which another processor
# patches it, and goes on with what stood there: the kernel dies of an int3, when it boots or whenever it switches something on.
EMULATION = "-accel tcg,thread=single"
# What costs emulation most, and no test looks at. With ERMS, memory is copied and cleared byte by byte, each of which is an instruction; a fifth level
# of page tables is walked at each miss; mitigations are jumps that emulation cannot follow; and whose clock is an emulated device's has to ask that.
CPU, KERNEL = "max,-erms,-la57", ("mitigations=off", "tsc=nowatchdog")
COUNTED = "max", ()  # where instructions are what is measured, all is as a machine has it
WATCHDOG = 60  # seconds, half of what counts as a soft lockup: an emulated processor on a busy machine does a twentieth of a real one's work
DISK = 1 << 30  # bytes of each NVMe namespace; the files are sparse
KEPT = (pathlib.Path("/usr"), ROOT)  # what programs are loaded from: the guest keeps what it has read of it
HERE = pathlib.Path(__file__).resolve().parent


def virtme():
    """virtme-ng in an environment of its own, pinned by hash."""
    venv = ROOT / "build" / "vm" / "venv"
    wanted = HERE / "requirements.txt"
    stamp = venv / "requirements.txt"
    with locked(venv.name, venv.parent):
        if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
            return venv / "bin"
        shutil.rmtree(venv, ignore_errors=True)
        LOG.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PIP_CERT": os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")}
        for command in (["/usr/bin/python3", "-m", "venv", venv],
                        [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
                         "--no-deps", "-r", wanted]):
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                LOG.write_text(done.stdout + done.stderr)
                raise Unavailable(f"virtme-ng cannot be installed (whole output: {LOG}): {last_line(done.stderr)}")
        shutil.copy(wanted, stamp)
    return venv / "bin"


def qemu():
    program = os.environ.get("CHAINIO_VM_QEMU", "qemu-system-x86_64")
    found = shutil.which(program)
    if found is None:
        raise Unavailable(f"{program} is not installed here (Debian's package is qemu-system-x86)")
    if os.uname().machine != "x86_64":
        raise Unavailable(f"the kernels are for x86_64, and this machine is {os.uname().machine}: its programs cannot run in them")
    return found


def needed_tools():
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in ("modprobe", "depmod", "mkfs.ext4", "file") if shutil.which(name, path=path) is None]
    if missing:
        raise Unavailable(f"{', '.join(missing)} is missing here: run tools/setup")
    return path


class Guard:
    """A process that outlives us by a moment: when we are gone, whatever the reason, it ends the guest and its files."""

    def __init__(self, run):
        self.read_end, self.write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.write_end)
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            self.watch(run)
        os.close(self.read_end)

    def watch(self, run):
        group, ended = 0, False
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)  # who waits for the end of our output must not wait for this process
        while data := os.read(self.read_end, 64):
            ended = data.endswith(b"done\n")
            if not ended:
                group = int(data)
        if group and not ended:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(run, ignore_errors=True)
        os._exit(0)

    def tell(self, text):
        os.write(self.write_end, text)

    def close(self):
        os.close(self.write_end)
        os.waitpid(self.pid, 0)


def make_disks(run, path):
    for name in ("raw", "ext4"):
        with open(run / name, "wb") as disk:
            disk.truncate(DISK)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", run / "ext4"], check=True,
                   env={**os.environ, "PATH": path}, capture_output=True)


def wire():
    """Two NICs that are joined. Only with `iommu_platform` does the driver ask the kernel for addresses of memory, which AF_XDP's zero-copy mode takes."""
    ends = (f"-netdev hubport,hubid=1,id=wire{end} -device virtio-net-pci,netdev=wire{end},mac=52:54:00:00:00:0{end},disable-legacy=on,iommu_platform=on"
            for end in (1, 2))
    return " ".join(ends)


def kept():
    """The folders of KEPT, once more than as parts of the guest's root, of which it keeps nothing."""
    return " ".join(f"-fsdev local,id=kept{number},path={folder},security_model=none,readonly=on,multidevs=remap "
                    f"-device virtio-9p-pci,fsdev=kept{number},mount_tag=kept{number}" for number, folder in enumerate(KEPT))


def boot_command(kernel, run, options, program, busybox):
    cpu, words = COUNTED if options.icount else (CPU, KERNEL)
    disks = " ".join(f"-drive file={run}/{name},if=none,format=raw,cache=unsafe,id={name}" for name in ("raw", "ext4"))
    disks += " -device nvme,serial=chainio,id=nvme0 -device nvme-ns,drive=raw,nsid=1 -device nvme-ns,drive=ext4,nsid=2"
    disks += f" {wire()} {kept()}"
    if options.icount:
        disks += " -icount shift=0"  # an instruction is a nanosecond of the guest's clock
    command = ["vng", "--run", kernel / "vmlinuz", "--disable-kvm", "--disable-microvm", "--force-9p", "--user", "root", "--verbose",
               "--qemu", program, "--busybox", busybox, f"--qemu-opts={EMULATION} -cpu {cpu} {disks}", "--cpus", str(options.cpus), "--memory", options.memory,
               "--rwdir", str(run), "--cwd", "/", "--exec", shlex.join(["sh", f"{HERE}/guest.sh", str(run), *map(str, KEPT)])]
    for word in (f"watchdog_thresh={WATCHDOG}", *words):
        command += ["--append", word]
    # The guest has a /tmp and a /run of its own: what lies there on the host is shown to it by name.
    for folder in (ROOT, kernel, *options.show):
        if folder.parts[1] in ("tmp", "run"):
            command += ["--rodir", str(folder)]
    return [str(part) for part in command]


def pass_on(source, position, target):
    """Copies what the guest wrote since the last time."""
    if not source.exists():
        return position
    with open(source, "rb") as file:
        file.seek(position)
        data = file.read()
    target.buffer.write(data)
    target.flush()
    return position + len(data)


def follow(machine, run, limit):
    """Shows the command's output while it runs; gives false when the time is over."""
    end = time.monotonic() + limit
    out = err = 0
    while True:
        running = machine.poll() is None
        out = pass_on(run / "out", out, sys.stdout)
        err = pass_on(run / "err", err, sys.stderr)
        if not running:
            return True
        if time.monotonic() > end:
            return False
        try:
            machine.wait(0.2)
        except subprocess.TimeoutExpired:
            pass


def end(machine):
    try:
        os.killpg(machine.pid, signal.SIGKILL)  # the group lives as long as its first process is not waited for
    except ProcessLookupError:
        pass
    machine.wait()


def verdict(run, in_time, limit, console):
    if not in_time:
        print(f"vm: stopped: still running after {limit} s", file=sys.stderr)
        return TIMED_OUT
    try:
        code = int((run / "code").read_text())
    except (OSError, ValueError):
        code = None
    if code is not None and (run / "out").exists():
        return code
    disks = (run / "disks").read_text(errors="replace") if (run / "disks").exists() else ""
    tail = "\n".join((disks + console).splitlines()[-30:])
    print(f"{tail}\nvm: the guest ended without running the command; the end of its console is above", file=sys.stderr)
    return GUEST_FAILED


def needed():
    """What every guest is booted with besides its kernel: QEMU, the PATH of tools, virtme-ng, busybox."""
    return qemu(), needed_tools(), virtme(), archive.busybox()


def run(kernel, command, options):
    """Runs a command (a list of words) under a kernel; gives its exit code. The console goes to options.console when given."""
    program, path, tools, busybox = needed()
    for boot in range(1, BOOTS + 1):
        code, begun = boot_once(kernel, command, options, program, path, tools, busybox)
        if code != GUEST_FAILED or begun or boot == BOOTS:
            return code
        print(f"vm: nothing of the command was begun; boot {boot + 1} of {BOOTS} …", file=sys.stderr, flush=True)


def boot_once(kernel, command, options, program, path, tools, busybox):
    """The exit code, and whether the guest came as far as preparing for the command."""
    (CACHE / "runs").mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE / "runs"))
    guard = Guard(folder)
    try:
        make_disks(folder, path)
        (folder / "home").mkdir()
        (folder / "command").write_text(f"cd {shlex.quote(str(options.cwd))} && exec {shlex.join(command)}\n")
        environment = {**os.environ, "PATH": f"{tools}:{path}", "HOME": str(folder / "home"), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "home")}
        with open(folder / "console", "wb") as console:
            machine = subprocess.Popen(boot_command(kernel, folder, options, program, busybox), stdin=subprocess.DEVNULL, stdout=console,
                                       stderr=subprocess.STDOUT, start_new_session=True, env=environment)
            guard.tell(b"%d\n" % machine.pid)
            try:
                in_time = follow(machine, folder, options.timeout)
            finally:
                end(machine)
                guard.tell(b"done\n")
        console = (folder / "console").read_text(errors="replace")
        if options.console:
            pathlib.Path(options.console).write_text(console)
        return verdict(folder, in_time, options.timeout, console), (folder / "disks").exists()
    finally:
        guard.close()
