"""Hot requests whose server receives what is sent to it with its own processor.

On a veth pair the kernel does with a packet what its receiver has to do where it was sent: the load generator's processor runs the XDP program that answers,
and takes each datagram through the stack for memcached. Between two machines the server does that. Here it does, too: the interface's NAPI runs as a thread
on the server's processor (which takes an XDP program; for memcached one that lets all pass), or the kernel sends packets there (RPS). Whoever has no program
is measured both ways.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from common import ROOT, Trouble, less_is_better, more_is_better, progress
from kv_servers import ECHO, GENERATOR, MEMCACHED, MEMCACHED_UDP, SERVERS, XDP, load

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import netns  # noqa: E402

AT_ONCE = 32  # requests on their way
THREAD, RPS = "a NAPI thread", "RPS"
WAYS = {XDP: (THREAD,), ECHO: (THREAD,), MEMCACHED_UDP: (THREAD, RPS), MEMCACHED: (THREAD, RPS)}
# What is wanted of the rate, of p99, of the processor.
GOALS = {MEMCACHED: (6.0, 3.0, 6.0), MEMCACHED_UDP: (6.0, 3.0, 6.0), ECHO: (0.8, None, None)}


def set_of_vb(pair, file, value):
    done = subprocess.run(pair.command(pair.there, "sh", "-c", f"echo {value} > /sys/class/net/vb/{file}"), capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"/sys/class/net/vb/{file} takes no {value}: {done.stderr.strip()}")


def mask(processor):
    """As the kernel reads it: 32 processors a word, the highest first."""
    return ",".join([f"{1 << processor % 32:x}", *["00000000"] * (processor // 32)])


def pin_threads():
    """The threads of interfaces named vb, of which only this process has any, to the servers' processor."""
    pinned = 0
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().startswith("napi/vb"):
                os.sched_setaffinity(int(comm.parent.name), {SERVERS})
                pinned += 1
    if pinned == 0:
        raise Trouble("the kernel has made no thread for vb, although it took `threaded`")


@contextlib.contextmanager
def received_there(pair, way, has_program, folder):
    """What reaches vb is received by the servers' processor."""
    with contextlib.ExitStack() as stack:
        if way == RPS:
            stack.callback(set_of_vb, pair, "queues/rx-0/rps_cpus", 0)
            set_of_vb(pair, "queues/rx-0/rps_cpus", mask(SERVERS))
        else:
            if not has_program:  # without one a veth has no NAPI
                stack.callback(netns.ip, "link", "set", "dev", "vb", "xdpdrv", "off", namespace=pair.there)
                netns.ip("link", "set", "dev", "vb", "xdpdrv", "obj", netns.passing(folder), "sec", "xdp.frags", namespace=pair.there)
            stack.callback(set_of_vb, pair, "threaded", 0)
            set_of_vb(pair, "threaded", 1)
            pin_threads()
        yield


def busy_us():
    """Time of the servers' processor that was not idle."""
    words = next(line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{SERVERS} "))
    user, nice, system, _, _, irq, softirq = map(int, words[1:8])
    return (user + nice + system + irq + softirq) * 1e6 / os.sysconf("SC_CLK_TCK")


def why_not():
    return "" if GENERATOR != SERVERS else "server and load generator have one processor here"


def measure(contenders, items, rounds, seconds, hot):
    """The runs by name and way."""
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name in list(WAYS)[::1 if turn % 2 == 0 else -1]:
                server, how = contenders[name]
                for way in WAYS[name]:
                    progress(f"round {turn + 1} of {rounds}: hot, {name}, received by {way} …")
                    with received_there(server.pair, way, name in (XDP, ECHO), pathlib.Path(folder)):
                        asked = ("--outstanding", AT_ONCE, "--hot", hot)
                        load(server, items, "--seconds", seconds / 2, *asked, how=how)  # fills what has aged
                        before = busy_us()
                        run = load(server, items, "--seconds", seconds, "--seed", turn, *asked, how=how)
                        run["cpu_us"] = (busy_us() - before) / max(run["answers"], 1)
                        runs.setdefault((name, way), []).append(run)
    return runs


def rows(runs):
    made = []
    ours = runs.get((XDP, THREAD), [])
    for (name, way), theirs in runs.items():
        if name == XDP:
            continue
        what, peer = f"hot, {AT_ONCE}, {XDP}, received by its server", name if name == ECHO else f"{name}, {way}"
        for make, value, unit, goal in ((more_is_better, "rate", "requests/s", GOALS[name][0]), (less_is_better, "p99_us", "us", GOALS[name][1]),
                                        (less_is_better, "cpu_us", "us a request", GOALS[name][2])):
            title = {"rate": what, "p99_us": f"{what}, p99", "cpu_us": f"{what}, server's processor"}[value]
            made.append(make(title, [each[value] for each in ours], [each[value] for each in theirs], peer, unit, goal, paired=False))
    return made
