"""Runs the suites of tools/check one after the other and sums them up."""
import atexit
import contextlib
import fcntl
import os
import signal
import sys

import build
import clang
import kernel
import report
import scripts
import static
import unit
import vm
from report import LOGS, Outcome, Suite, print_suite, timed

# In the order in which they run: builds before what needs them.
SUITES = {
    "style": static.style,
    "rules": static.programs,
    "build-release": lambda: build.build("release"),
    "unit-release": lambda: unit.unit("release"),
    "lit": scripts.lit,
    "e2e": scripts.e2e,
    "vm": vm.vm,
    "build-asan": lambda: build.build("asan"),
    "unit-asan": lambda: unit.unit("asan"),
    "fuzz": scripts.fuzz,
    "build-tsan": lambda: build.build("tsan"),
    "unit-tsan": lambda: unit.unit("tsan"),
    "tidy": static.tidy,
}

# What a suite runs is built before it, also where it is named alone: what is there may be of yesterday's sources.
NEEDS = {
    "unit-release": ("build-release",), "lit": ("build-release",), "e2e": ("build-release",), "vm": ("build-release",), "tidy": ("build-release",),
    "unit-asan": ("build-asan",), "fuzz": ("build-release", "build-asan"), "unit-tsan": ("build-tsan",),
}
# Of variables that tests and their tools hear, those that are for the check itself; the others may have tests left out that nobody counts.
HEARD = ("CHAINIO_SOAK", "CHAINIO_SEED", "CHAINIO_FUZZ_SECONDS", "CHAINIO_SETUP_SECONDS", "CHAINIO_FORCE_SOURCE", "CHAINIO_MIRROR", "CHAINIO_SECURITY_MIRROR",
         "CHAINIO_VM_CACHE", "CHAINIO_VM_QEMU")
FOR_TESTS = ("CHAINIO_", "GTEST_", "LIT_")


def guarded(name, function):
    """A suite that breaks is a failure of that suite; the others still run."""
    def call():
        try:
            return function()
        except Exception as error:  # whatever it was, it must show in the counts
            return [Outcome(name, "failed", f"{type(error).__name__}: {error}")]
    return timed(name, call)


def summary(suites):
    print("\nsuite           passed failed skipped   seconds  of processors")
    for suite in suites:
        print(f"{suite.name:<14} {suite.count('passed'):>7} {suite.count('failed'):>6} {suite.count('skipped'):>7} {suite.seconds:>9.1f} {suite.worked:>14.0f}")
    print(f"{'in all':<14} {'':>7} {'':>6} {'':>7} {sum(suite.seconds for suite in suites):>9.1f} {sum(suite.worked for suite in suites):>14.0f}")
    skipped = [(suite.name, outcome) for suite in suites for outcome in suite.outcomes if outcome.state == "skipped"]
    for name, outcome in skipped:
        print(f"skipped: {name}: {outcome.name}: {outcome.text}")
    for suite in suites:
        for outcome in suite.outcomes:
            if outcome.state == "failed":
                print(f"failed: {suite.name}: {outcome.name}")
    counts = [sum(suite.count(state) for suite in suites) for state in ("passed", "failed", "skipped")]
    print(f"logs: {LOGS}")
    print("{} passed, {} failed, {} skipped".format(*counts), flush=True)
    return 1 if counts[1] else 0


def stop(number, _):
    """What runs takes back what it has made; a second signal kills it."""
    report.stop_all(signal.SIGKILL if report.stopped else signal.SIGTERM)
    raise SystemExit(128 + number)


def go_on(*_):
    """What a shell starts in the background ignores ctrl-C, below nohup the end of the terminal as well. The programs that tests send these to would inherit
    that, but not a handler, nor a timer."""


def hear_signals():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is not go_on:
            signal.signal(number, go_on if signal.getsignal(number) == signal.SIG_IGN else stop)
    # One that comes between Python's look for signals and the wait behind it, as the second of two may, is seen at the next.
    signal.signal(signal.SIGALRM, go_on)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # the interpreter has no handlers any more before it ends, and an alarm would be its end


def with_builds(names):
    """The suites in their order, behind the builds that they need."""
    found = []
    for name in names:
        found += [build for build in NEEDS.get(name, ()) if build not in found]
        if name in NEEDS or name not in found:
            found.append(name)
    return found


def forget_environment():
    for name in [name for name in os.environ if name.startswith(FOR_TESTS) and name not in HEARD]:
        print(f"tools/check: {name}={os.environ.pop(name)} is left out: all tests run")


@contextlib.contextmanager
def alone():
    """Builds and logs are those of one check at a time; another one in the same clone waits."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tools/check: another one runs in this clone: waiting for its end …", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(names):
    suites = [Suite("setup", [Outcome("setup", "passed")], float(os.environ.get("CHAINIO_SETUP_SECONDS", "0")))]
    watch = kernel.Watch()
    for name in names:
        suites.append(guarded(name, SUITES[name]))
        print_suite(suites[-1])
    suites.append(guarded("kernel-log", watch.outcomes))
    print_suite(suites[-1])
    return summary(suites)


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(SUITES))
        return 0
    unknown = [name for name in arguments if name not in SUITES]
    if unknown:
        print(f"tools/check: no suite {', '.join(unknown)}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    hear_signals()
    forget_environment()
    with alone():
        clang.prepare()
        return run(with_builds(arguments or list(SUITES)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
