"""instructions, system calls and sleeps a lookup: the kernel engine beside the user engine, a hand-written io_uring loop and preads

Runs in a machine with Linux 7.2 that QEMU emulates (tools/vm --icount): its clock counts instructions, so that other load on
this machine changes nothing. Counted is all that its one processor does, interrupts too, less the turns of a process of the
lowest kind that takes the time in which it would be idle. A lookup walks a B+-tree of 512-byte pages, 6 or 16 dependent reads, on
an emulated NVMe disk, on null_blk, and in a file of ext4 on NVMe; every value is compared. The kernel engine runs as many chains as
are in flight in one system call, and one batch after the other; its peers begin the next lookup as soon as one has ended. With --spin it looks for completions and never sleeps: what that costs, and saves.
Then requests of a service over tcp, received, looked up in the same trees and answered, as many at once as there are connections: inside the kernel, by the
user engine, and by a loop of epoll_wait, recv, preads and send. What the process that asks executes is left out.
"""
import json
import statistics
import subprocess
import sys

from common import RELEASE, ROOT, WORK, Result, Row, Trouble, build, less_is_better, output_of, progress

# The short form takes a minute and a half on a quiet machine of two processors: half a minute boots, and another one the emulated verifier works on
# the programs that every run of the kernel engine loads.
MACHINE = ["7.2", "--icount", "--cpus", "1"]
UNAVAILABLE = 120  # of tools/vm
GOALS = {1: 1 / 0.95, 64: 1 / 1.05, 256: 1 / 1.05}  # by lookups in flight: the better peer's instructions over ours
GOAL_OF_PREAD = 1 / 0.8  # at 64
QUICK = ["--disk", "NVMe", "--disk", "null_blk", "--depth", "6", "--in-flight", "1,64", "--lookups", "64", "--rounds", "1"]
SLEEPS = "the same without --spin"
PEERS = {"user": "user engine", "uring": "hand-written io_uring loop"}


def compiled(source):
    WORK.mkdir(parents=True, exist_ok=True)
    spec = WORK / f"{source.stem}.bpf.o"
    output_of([RELEASE / "bin" / "chainc", source, "-o", spec])
    return spec


def run_guest(how, arguments, seconds):
    """The lines that were printed in the guest, of lookups and of requests of a service; `how`: quick or full."""
    spec = compiled(ROOT / "tests" / "bench" / "inkernel.chain")
    progress("in the guest …")
    command = [sys.executable, ROOT / "tools" / "vms" / "main.py", "--timeout", seconds, *MACHINE, "--", ROOT / "tests" / "bench" / "inkernel" / "guest.sh",
               RELEASE, spec, how, *arguments]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    progress("")
    if done.returncode == UNAVAILABLE:
        raise Trouble(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise Trouble(f"exit code {done.returncode} in the guest\n{done.stdout}{done.stderr}".rstrip())
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def counted(what, ours, peers, unit):
    """A row of the user engine's counts, of which there may be none."""
    return Row(what, ours, peers, PEERS["user"], unit, peers / ours if ours else 1.0)


def rows_of(disk, depth, flights, runs):
    """Of one number of lookups in flight; `runs` by contender."""
    what = f"{disk}, {depth} reads, {flights} in flight"
    ours = runs["kernel"]
    better = min(PEERS, key=lambda name: statistics.median(runs[name]["instructions"]))
    rows = [less_is_better(what, ours["instructions"], runs[better]["instructions"], PEERS[better], "instructions", GOALS.get(flights)),
            less_is_better(what, ours["instructions"], runs["pread"]["instructions"], "pread loop", "instructions",
                           GOAL_OF_PREAD if flights == 64 else None)]
    for unit, key in (("system calls", "syscalls"), ("voluntary switches", "switches")):
        rows.append(counted(what, ours[key], runs["user"][key], unit))
    return rows + spinning_rows(what, flights, ours, runs["spinning"])


def spinning_rows(what, flights, sleeps, spins):
    """What it costs, and what it saves, not to sleep."""
    rows = [less_is_better(f"{what}, --spin", spins["instructions"], sleeps["instructions"], SLEEPS, "instructions"),
            counted(f"{what}, --spin", spins["switches"] * flights, sleeps["switches"] * flights, "voluntary switches a batch")]
    rows[1].peer_name = SLEEPS
    return rows


def service_rows(lines):
    """Requests of a service, by disk, depth and number at once."""
    rows, runs = [], {}
    for line in lines:
        runs.setdefault((line["disk"], line["depth"], line["connections"]), {})[line["engine"]] = line
    for (disk, depth, connections), of in runs.items():
        what = f"service, {disk}, {depth} reads, {connections} request{'s' if connections > 1 else ''} at once"
        ours = of["kernel"]
        rows += [less_is_better(what, ours["instructions"], of["user"]["instructions"], PEERS["user"], "instructions", GOALS.get(connections)),
                 less_is_better(what, ours["instructions"], of["pread"]["instructions"], "pread loop", "instructions", GOAL_OF_PREAD if connections == 64 else None)]
        rows += [counted(what, ours[key], of["user"][key], unit) for unit, key in (("system calls", "syscalls"), ("voluntary switches", "switches"))]
    return rows


def run(quick):
    build("chainc", "bench_inkernel", "bench_inkernel_requests", "chainio-runtime")
    printed = run_guest("quick" if quick else "full", QUICK if quick else [], 7200)
    lines, requests = [line for line in printed if "contender" in line], [line for line in printed if "connections" in line]
    runs, reads_right, calls_right = {}, True, True
    for line in lines:
        of_disk = runs.setdefault((line["disk"], line["depth"]), {})
        of_disk.setdefault(line["in_flight"], {})[line["contender"]] = line
        reads_right = reads_right and line["reads"] == line["lookups"] * line["depth"]
        calls_right = calls_right and (line["contender"] not in ("kernel", "spinning") or abs(line["syscalls"] * line["in_flight"] - 1) < 1e-6)
    rows = []
    for (disk, depth), of_disk in runs.items():
        pread = next(of["pread"] for of in of_disk.values() if "pread" in of)
        for flights, contenders in of_disk.items():
            rows += rows_of(disk, depth, flights, {"pread": pread, **contenders})
    rows += service_rows(requests)
    most = max(row.ours for row in rows if row.unit == "voluntary switches a batch")
    lookups, wrong = sum(line["lookups"] for line in lines), sum(line["wrong"] for line in [*lines, *requests])
    one_call = all(line["enters"] == 1 for line in requests if line["engine"] == "kernel")
    notes = ["Linux 7.2 in QEMU, one processor, its clock counts instructions; 512-byte pages, O_DIRECT; figures are a lookup's, medians of the rounds",
             f"{lookups:,} lookups compared, {wrong} wrong; reads asked for: {'one a level by all' if reads_right else 'NOT ONE A LEVEL'}",
             f"system calls of the kernel engine: {'one' if calls_right else 'NOT ONE'} for all lookups in flight",
             f"with --spin at most {most:g} voluntary switches a batch (goal: 1); what the processor does meanwhile is counted, as long as the emulated disk takes",
             f"requests of a service: {sum(line['requests'] for line in requests):,} compared; system calls of the kernel engine: {'one' if one_call else 'NOT ONE'} for all of them", ""]
    return Result("inkernel", bool(rows) and wrong == 0 and reads_right and calls_right and one_call, rows, notes)
