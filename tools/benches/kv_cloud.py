"""Misses on the emulated cloud volume, whose reads take long and of which it answers many at once

How much whoever keeps many reads on their way can win over whoever waits for each is the disk's: this volume answers some eight times as many 4 KiB reads at
depth 64 as at depth 1 (volumes.py), and says so in the same run. The rows are of servers that have been asked for a while: the service's index, one read more
for the first item of each bucket, has come into memory by then. Servers by hand need none.
"""
import contextlib

import volumes
from common import Trouble, less_is_better, more_is_better, progress
from kv_servers import FIXED, PREAD, XDP, by_hand, load, ours

GOALS = {PREAD: 8.0, FIXED: 1.05}
GOALS_AT = 32
WARM, QUICK_WARM = 6.0, 0.5  # seconds at the most requests on their way


def start(stack, pair_of, volume, folder, items, controls):
    """The contenders by name. Their files are those of the local rows, seen through the volume."""
    flat = ("--file", volume / "flat")
    plain = pair_of("c")
    servers = {XDP: ours(pair_of("v"), folder, "disk", 9001, controls / "cloud", data=volume), PREAD: by_hand(plain, "serve-pread", 9002, items, *flat),
               FIXED: by_hand(plain, "serve-fixed", 9003, items, *flat)}
    for server in servers.values():
        stack.callback(server.stop)
    for server in servers.values():
        server.wait()
    return servers


def measure(servers, items, rounds, seconds, outstanding, warm):
    """The runs by requests on their way and name."""
    runs = {}
    load(servers[XDP], items, "--seconds", warm, "--outstanding", max(outstanding), how="udp")
    for turn in range(rounds):
        for count in outstanding:
            for name in list(servers)[::1 if turn % 2 == 0 else -1]:
                progress(f"round {turn + 1} of {rounds}: misses, cloud volume, {count}, {name} …")
                run = load(servers[name], items, "--seconds", seconds, "--seed", turn, "--outstanding", count, how="udp")
                runs.setdefault((count, name), []).append(run)
    return runs


def run(pair_of, folder, items, controls, rounds, seconds, outstanding, warm=WARM):
    """The runs, whether they are valid, and lines about the volume; no run where none can be mounted."""
    with contextlib.ExitStack() as stack:
        try:
            volume = stack.enter_context(volumes.Cloud(folder)).path
        except Trouble as trouble:
            return {}, True, [f"cloud volume: skipped: {trouble}"]
        found = volumes.measure(volume / "flat")
        servers = start(stack, pair_of, volume, folder, items, controls)
        runs = measure(servers, items, rounds, seconds, outstanding, warm)
        servers[XDP].came_by_xdp()
        return runs, volumes.is_cloud(found), [volumes.describe("cloud", found)]


def rows(runs, valid):
    made = []
    for (count, peer), theirs in runs.items():
        if peer == XDP:
            continue
        mine, what = runs[count, XDP], f"misses, {count}, cloud volume, {XDP}"
        for make, value, title, unit in ((more_is_better, "rate", what, "requests/s"),
                                         (less_is_better, "cpu_us", f"{what}, server's processor", "us a request")):
            goal = GOALS[peer] if count == GOALS_AT and value == "rate" else None
            made.append(make(title, [each[value] for each in mine], [each[value] for each in theirs], peer, unit, goal, paired=False))
            made[-1].valid = made[-1].valid and valid
    return made
