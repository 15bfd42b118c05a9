"""What a suite gives back, and how it is printed."""
import contextlib
import dataclasses
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOGS = ROOT / "build" / "check"
JOBS = len(os.sched_getaffinity(0))
LONG = 30  # seconds
TO_END = 60  # seconds that what is stopped has
SHARED_NAMES = "\nSources that are read as one unit share what they name in namespaces without a name: CONTRIBUTING.md"
PATIENCE = 60 if os.environ.get("CHAINIO_SOAK") == "1" else 1  # how much longer than in a check a suite may take


@dataclasses.dataclass
class Outcome:
    name: str
    state: str  # "passed", "failed" or "skipped"
    text: str = ""  # the output of a failure, the reason of a skip
    seconds: float = 0


@dataclasses.dataclass
class Suite:
    name: str
    outcomes: list
    seconds: float
    worked: float = 0  # seconds of processors

    def count(self, state):
        return sum(1 for outcome in self.outcomes if outcome.state == state)


running = set()
stopped = False


def tell(process, number):
    """Sends a signal to what a process of ours and those that it has started belong to."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def stop_all(number=signal.SIGTERM):
    """Nothing is begun any more, and what runs is asked to end, and killed where it does not."""
    global stopped
    stopped = True
    for process in list(running):
        if process.returncode is None:  # else its number may be another one's by now
            tell(process, number)
    if number != signal.SIGKILL:
        later = threading.Timer(TO_END, stop_all, (signal.SIGKILL,))
        later.daemon = True
        later.start()


def ended(command, seconds, **options):
    """Its exit code. Before it is killed it is asked to end, so that it takes back what it has made. In a session of its own it hears signals from us
    only, and not from a terminal that is closed while it may have to go on."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        running.add(process)
        try:
            if stopped:
                raise InterruptedError("the check is stopped")
            return process.wait(seconds)
        except BaseException:
            process.terminate()
            try:
                process.wait(TO_END)
            except subprocess.TimeoutExpired:
                tell(process, signal.SIGKILL)
            raise
        finally:
            running.discard(process)


def heard(command, seconds, **options):
    """Its exit code, what it has printed and what it has said, where these are read apart. A timeout is exit code 124."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            code, late = ended(command, seconds, stdout=out, stderr=err, **{"stdin": subprocess.DEVNULL, **options}), ""
        except subprocess.TimeoutExpired:
            code, late = 124, f"\nstopped: still running after {seconds} s\n"
        for stream in (out, err):
            stream.seek(0)
        return code, out.read(), err.read() + late


def run(command, log, timeout=600, **options):
    """Runs a command with its output in build/check/LOG; gives (exit code, output). A timeout is exit code 124."""
    path = LOGS / log
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        try:
            code = ended(command, timeout * PATIENCE, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=options.pop("cwd", ROOT), **options)
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped: still running after {timeout * PATIENCE} s\n".encode())
            code = 124
        except OSError as error:
            out.write(f"{command[0]}: {error}\n".encode())
            code = 127
    return code, path.read_text(errors="replace")


def one(name, command, log, timeout=600, **options):
    """A command as one outcome: exit code 0 passes, 77 skips with the reason on its last line, all else fails."""
    start = time.monotonic()
    code, output = run(command, log, timeout, **options)
    seconds = time.monotonic() - start
    if code == 77:
        lines = [line for line in output.splitlines() if line.strip()] or ["no reason given"]
        return Outcome(name, "skipped", lines[-1], seconds)
    if code == 0:
        return Outcome(name, "passed", "", seconds)
    return Outcome(name, "failed", f"exit code {code}\n{output}", seconds)


def tail(text, lines=60):
    all_lines = text.rstrip().splitlines()
    cut = len(all_lines) - lines
    return "\n".join(([f"… {cut} lines before, see the log"] if cut > 0 else []) + all_lines[-lines:])


def print_suite(suite):
    """One line when all is well, and one for each that took long; the output of each failure when it is not."""
    print(f"{suite.name:<14} {suite.count('passed'):>6} passed {suite.count('failed'):>4} failed "
          f"{suite.count('skipped'):>4} skipped {suite.seconds:>8.1f} s, {suite.worked:.0f} of processors", flush=True)
    for outcome in sorted(suite.outcomes, key=lambda outcome: -outcome.seconds):
        if outcome.seconds > LONG:
            print(f"    {outcome.seconds:>6.0f} s  {outcome.name}", flush=True)
    for outcome in suite.outcomes:
        if outcome.state == "failed":
            print(f"--- {suite.name}: {outcome.name}\n{tail(outcome.text)}\n---", flush=True)


def worked():
    """Seconds of processors that ended children and theirs have had; others' load lengthens these less than it does the time that passes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(name, function):
    """Runs a suite's function, which gives a list of outcomes."""
    print(f"{name:<14} running …", end="\r" if os.isatty(1) else "\n", flush=True)
    start, before = time.monotonic(), worked()
    outcomes = function()
    return Suite(name, outcomes, time.monotonic() - start, worked() - before)
