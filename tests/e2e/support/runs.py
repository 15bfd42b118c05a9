"""Runs programs by `chainio run` and counts what was expected of them."""
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import started

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "checks"))
from disks import is_memory  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
CHAINIO, CHAINC = str(BUILD / "bin" / "chainio"), str(BUILD / "bin" / "chainc")
MAP_LOCKED = 0x2000  # of Linux on x86 and ARM
CACHESTAT = 451  # the number of this call, which Linux 6.5 has; Python has no name for it
LONGEST = 120  # seconds that anything here may take on a loaded machine
TO_DROP = 30  # seconds for a file's pages to leave memory, those that the kernel has at work among them
TO_END = 10  # seconds for a run whose program was killed
OURS = "chainio", "chainio-run", "chainio-server"  # processes of a run besides the program's
failures = []  # what was said of each
SAID_AGAIN = 10  # of them; the first are the causes, and a check prints the last lines of a script alone


def tries():
    """Numbers of runs of what the server has to be in time for. How often a loaded machine lets it come too late is not a number; it ends some time."""
    end, number = time.monotonic() + LONGEST / 2, 0
    while number == 0 or time.monotonic() < end:
        yield number
        number += 1


def expect(what, got, want):
    """`want` is the value, or a function that says whether the value is right."""
    right = want(got) if callable(want) else got == want
    if right:
        print(f"ok    {what}", flush=True)
    else:
        failed(f"FAIL  {what}\n      got {str(got)[:2000]}" + ("" if callable(want) else f"\n      want {str(want)[:2000]}"))
    return right


def failed(said):
    """What is wrong in other words than those of `expect`."""
    print(said, flush=True)
    failures.append(said)


def raised(call):
    """What is raised; None: nothing is."""
    try:
        call()
    except Exception as error:
        return error
    return None


def tool(name, *words, stdin=None, cwd=None):
    """A run of one of our programs, with no compiled specs of others: its exit code, what it has printed, and what it has said."""
    with tempfile.TemporaryDirectory(prefix="chainio-cache-") as cache:
        done = subprocess.run([BUILD / "bin" / name, *map(str, words)], input=stdin, cwd=cwd, capture_output=True, text=True, timeout=LONGEST,
                              env={**os.environ, "XDG_CACHE_HOME": cache})
    return done.returncode, done.stdout, done.stderr


def ended():
    """Says how the test has ended, and once more what was wrong; the exit status."""
    print(*(["FAILED", *failures[:SAID_AGAIN]] if failures else ["all ok"]), sep="\n")
    return 1 if failures else 0


class Folder:
    """A folder of the test's own, with a cache of compiled specs in it."""
    def __init__(self, beneath=None):
        self.beneath = beneath

    def __enter__(self):
        self.launched = []
        self.made = tempfile.TemporaryDirectory(prefix="chainio-run-", dir=self.beneath)
        self.path = pathlib.Path(self.made.name)
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")}
        for name in ("LD_PRELOAD", "CHAINIO_REGION"):
            self.environment.pop(name, None)
        return self

    def __exit__(self, *_):
        for process in self.launched:
            take_back(process)
        self.made.cleanup()

    def command(self, options, program):
        return [CHAINIO, "run", *map(str, options), "--", *map(str, program)]

    def launch(self, command, **more):
        """As subprocess.Popen, of what is or becomes `chainio run`: it ends before the folder does."""
        self.launched.append(started.start(command, end_by=take_back, **{"env": self.environment, "cwd": self.path, **more}))
        return self.launched[-1]

    def start(self, options, program, **more):
        return self.launch(self.command(options, program), **more)

    def run(self, options, program, input=None, **more):
        given = {"stdin": subprocess.DEVNULL if input is None else subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        with self.start(options, program, **given) as process:
            out, err = process.communicate(input, timeout=LONGEST)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def summarized(self, options, program, **more):
        """The run, and what its JSON summary says."""
        file = self.path / "summary.json"
        file.unlink(missing_ok=True)
        done = self.run([*options, "--json", "--summary", file], program, **more)
        return done, json.loads(file.read_text()) if file.exists() else None


def is_in_memory(fd):
    """Whether any page of the file is, or is on its way there: what is being read, as ahead of who has read, is not dropped, and comes later. A kernel
    that has no count of both is asked about the former alone."""
    size = os.fstat(fd).st_size
    if size == 0:
        return False
    libc = ctypes.CDLL(None)
    whole, counts = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if libc.syscall(ctypes.c_long(CACHESTAT), fd, whole, counts, 0) == 0:
        return counts[0] != 0
    libc.mmap.restype = ctypes.c_void_p
    there, length = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))(), ctypes.c_size_t(size)
    at = ctypes.c_void_p(libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0)))
    libc.mincore(at, length, there)
    libc.munmap(at, length)
    return any(page & 1 for page in bytes(there))


def drop_from_memory(*paths):
    """Takes files of ours out of the page cache. The kernel leaves in it what it has at work, so that it is asked again. What is mapped
    stays, and who goes on would take for cold what is not. Where the file system is memory itself, the rest of a script is skipped."""
    for path in paths:
        if is_memory(pathlib.Path(path).parent):
            if failures:
                raise TimeoutError(f"{path} stays in memory, as its file system is memory itself")
            print(f"skipped: files that are not in memory: the file system of {path} is memory itself; set TMPDIR to a folder on a disk")
            raise SystemExit(77)
        fd = os.open(path, os.O_RDONLY)
        end = time.monotonic() + TO_DROP
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            while is_in_memory(fd):
                if time.monotonic() > end:
                    raise TimeoutError(f"{path} stays in memory: it is mapped")
                time.sleep(0.001)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


@contextlib.contextmanager
def held_in_memory(*paths):
    """All of the files stays there meanwhile: the machines of this project lose some of the page cache now and then, with most of their memory free."""
    with contextlib.ExitStack() as held:
        for path in paths:
            file = held.enter_context(open(path, "rb"))
            held.enter_context(mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | MAP_LOCKED, prot=mmap.PROT_READ))
        yield


def left_overs(pid):
    """Folders of the run of that process which are still there."""
    bases = [pathlib.Path(base) for base in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp") if base]
    return [str(found) for base in bases if base.is_dir() for found in base.glob(f"chainio-run.{pid}.*")]


def take_back(process):
    """Kills a run's program, behind which chainio takes back what it has made and ends; and chainio itself where that is not all that it waits for."""
    end = time.monotonic() + TO_END
    while process.poll() is None and time.monotonic() < end:
        names = {pid: name_of(pid) for pid in (*started.below(process.pid), process.pid)}
        if not set(OURS) & set(names.values()):
            break
        for pid in [pid for pid, name in names.items() if name not in OURS and pid != process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    started.end(process)
    if process.returncode == -signal.SIGKILL:
        for path in left_overs(process.pid):
            shutil.rmtree(path, ignore_errors=True)


def name_of(pid):
    """Empty: it has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


def children_of(pid):
    """(number, name) of each child of its first thread."""
    try:
        numbers = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        numbers = []
    for number in numbers:
        if name := name_of(number):
            yield int(number), name


def servers_of(pid):
    """The server's process, if there is one, of the run of that process."""
    return [number for number, name in children_of(pid) if name == "chainio-server"]


def programs_of(pid):
    return [number for number, name in children_of(pid) if name != "chainio-server"]


def chain(summary, name):
    return next((each for each in summary["chains"] if each["name"] == name), None)
