"""memcached's protocol from disk and from memory, across veth pairs: chainio services against servers by hand and memcached

The service is std/memcached.chain by each of its ways: `udp via xdp`, `udp via uring` and `tcp via uring`; the servers by hand answer the same requests
over UDP, from a file that has an item a block, so that they need no index. Misses: O_DIRECT for the service and the servers by hand; what memcached's
extstore wrote is taken out of the page cache before each run. Hot: a few items far more often than the others, in the page cache and in memcached's memory.
In the closed loop so many requests are always on their way; in the open loop they are due at random times and late from then on; one that a server drops or
refuses counts as late by the second that is waited for it. Every reply is verified.
Misses also on the emulated cloud volume, where one can be mounted.
All datagrams are asked by AF_XDP. Server and load generator have a processor each where there are two.
"""
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile

import kv_apart
import kv_cloud
import xdp
from common import ROOT, Result, Trouble, build, less_is_better, more_is_better, progress, rounds_of, silent
from kv_servers import (ECHO, EXTSTORE, FIXED, FIXED_SPINS, MEMCACHED, MEMCACHED_UDP, MEMORY, PREAD, TCP, URING, VALUE, XDP, XDP_SPINS, files, fill, load, read_through, start)

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import netns  # noqa: E402

HOT = 2000
WARM, QUICK_WARM = 1.0, 0.1  # seconds of asking before a run in memory is counted
SOCKETS = "recvmmsg + sendmmsg"
ECHOES = 64  # datagrams on their way between the ends whose packets are counted
# Who is compared with whom, and what is wanted at GOALS_AT requests on their way: of the rate, of p99, of the server's processor.
GOALS_AT = 32
PEERS = {"misses": {XDP: {PREAD: (8.0, None, None), FIXED: (1.05, None, None), EXTSTORE: (None,) * 3},
                    XDP_SPINS: {PREAD: (8.0, None, None), FIXED: (None,) * 3, FIXED_SPINS: (1.05, None, None)}, URING: {PREAD: (None,) * 3, FIXED: (None,) * 3},
                    TCP: {EXTSTORE: (None,) * 3}},
         "hot": {XDP: {MEMCACHED: (6.0, 3.0, 6.0), MEMCACHED_UDP: (6.0, 3.0, 6.0), ECHO: (0.8, None, None)}, URING: {MEMCACHED_UDP: (None,) * 3},
                 TCP: {MEMCACHED: (None,) * 3, MEMORY: (None,) * 3}}}
OPEN = {"misses": {XDP: (PREAD, FIXED, EXTSTORE), XDP_SPINS: (PREAD, FIXED), URING: (PREAD, FIXED)}, "hot": {XDP: (MEMCACHED_UDP,), URING: (MEMCACHED_UDP,)}}
# The open loop asks half as often as this one answers in the closed loop.
PACE = {"misses": PREAD, "hot": MEMCACHED_UDP}


def measure(contenders, folder, items, rounds, seconds, outstanding, warm):
    """The runs by section, requests on their way (0: open loop) and name."""
    runs = {}

    def run(section, count, name, turn, *words):
        progress(f"round {turn + 1} of {rounds}: {section}, {count or 'open loop'}, {name} …")
        server, how = contenders[section][name]
        hot = ("--hot", HOT) if section == "hot" else ()
        if hot:  # what was kept in the driver has aged meanwhile
            load(server, items, "--seconds", warm, "--outstanding", 32, *hot, how=how)
        runs.setdefault((section, count, name), []).append(load(server, items, "--seconds", seconds, "--seed", turn, *hot, *words, how=how))
    load(contenders["hot"][TCP][0], items, "--seconds", seconds, "--outstanding", 32, "--hot", HOT)  # its items into the page cache
    for turn in range(rounds):
        read_through(folder)
        way = 1 if turn % 2 == 0 else -1
        for section, of_section in contenders.items():
            for count in outstanding:
                for name in list(of_section)[::way]:
                    run(section, count, name, turn, "--outstanding", count)
            rate = max(statistics.median(each["rate"] for each in runs[section, GOALS_AT, PACE[section]]) / 2, 100)
            asked = {*OPEN[section], *(peer for peers in OPEN[section].values() for peer in peers)}
            for name in sorted(asked)[::way]:
                run(section, 0, name, turn, "--outstanding", 128, "--rate", rate)
    return runs


def measure_packets(pair, rounds, seconds):
    """Datagrams between programs with AF_XDP at both ends, and with sockets at both."""
    runs = {}
    for turn in range(rounds):
        for kind in ("xdp", "udp") if turn % 2 == 0 else ("udp", "xdp"):
            progress(f"round {turn + 1} of {rounds}: packets by {kind} …")
            with xdp.server(pair, kind):
                runs.setdefault(kind, []).append(xdp.ping(pair, kind, ECHOES, seconds))
    return runs


def rows_of(runs, packets, outstanding):
    rows = []

    def row(make, what, ours, peers, value, peer, unit, goal):
        rows.append(make(what, [value(each) for each in ours], [value(each) for each in peers], peer, unit, goal, paired=False))

    def pick(name):
        return lambda each: each[name]
    for section, services in PEERS.items():
        for count in outstanding:
            for service, peers in services.items():
                for peer, goals in peers.items():
                    ours, theirs = runs[section, count, service], runs[section, count, peer]
                    rate, p99, busy = goals if count == GOALS_AT else (None, None, None)
                    what = f"{section}, {count}, {service}"
                    row(more_is_better, what, ours, theirs, pick("rate"), peer, "requests/s", rate)
                    if p99 is not None or peer == ECHO:  # below which no server's can be
                        row(less_is_better, f"{what}, p99", ours, theirs, pick("p99_us"), peer, "us", p99)
                    if peer != ECHO:  # which has no process
                        row(less_is_better, f"{what}, server's processor", ours, theirs, pick("cpu_us"), peer, "us a request", busy)
        for service, peers in OPEN[section].items():
            for peer in peers:
                for value in ("p50_us", "p99_us"):
                    row(less_is_better, f"{section}, open loop, {service}, {value[:3]}", runs[section, 0, service], runs[section, 0, peer], pick(value), peer, "us", None)
    row(more_is_better, f"packets, {ECHOES}, AF_XDP at both ends", packets["xdp"], packets["udp"], lambda each: each["answers"] / each["seconds"], SOCKETS,
        "answers/s", 2.0)
    return rows


def unanswered(runs):
    """Of the requests of the open loop, by section and name; their server's p99 is only as good as its share."""
    shares = []
    for (section, count, name), many in runs.items():
        without = sum(each["lost"] + each["refused"] for each in many)
        if count == 0 and without:
            shares.append(f"{section}, {name}: {without / (without + sum(each['answers'] for each in many)):.2%}")
    return "; ".join(shares) or "none"


def result_of(runs, apart, cloud, rows, about):
    """Whether all replies were right, and of every contender some came; `about` are the first lines."""
    total = {what: sum(each[what] for many in (*runs.values(), *apart.values(), *cloud.values()) for each in many) for what in ("answers", "wrong", "missing", "lost", "refused")}
    # Only an open loop asks for more than a server can have waiting; then it may say so instead of answering.
    refused_early = sum(each["refused"] for (_, count, _), many in runs.items() if count for each in many)
    refused_early += sum(each["refused"] for many in (*apart.values(), *cloud.values()) for each in many)

    def by(what):
        names = {name for (_, _, name), many in runs.items() if any(each[what] for each in many)}
        return ", by " + ", ".join(sorted(names)) if names else ""
    without = silent(runs, apart, cloud)
    notes = [*about, *([f"without any answer: {'; '.join(without)}"] if without else []),
             f"{total['answers']:,} replies verified, {total['wrong']} wrong, {total['missing']} not found, {total['lost']} lost over UDP{by('lost')}, {total['refused']} refused for overload{by('refused')}",
             f"open loop, requests without a reply, which count as a second: {unanswered(runs)}",
             "server's processor: the time of its threads; what the kernel does with a packet on a veth pair is done, and counted, at who sends it",
             f"received by its server: {kv_apart.why_not() or 'the same, done and counted at the server, by all that its processor did'}",
             f"`{ECHO}`: what this load generator gets from a driver that sends its requests back; `{MEMORY}`: from a small server over tcp that has every value ready", ""]
    return Result("kv", total["wrong"] + total["missing"] + refused_early == 0 and not without, rows, notes)


def run(quick):
    reason = netns.why_not()
    if reason:
        raise Trouble(reason)
    build("bench_kv", "bench_xdp", "chainio", "chainio-main", "chainio-runtime", "chainc")
    items, usual, seconds, outstanding = (20_000, 2, 0.3, (32,)) if quick else (200_000, 5, 1.5, (1, 8, 32, 128))
    rounds = rounds_of(usual)
    folder = files(items)
    with contextlib.ExitStack() as stack:
        def pair_of(name):
            return stack.enter_context(netns.Pair(mtu=1500, queues=1, name=name))
        packets = measure_packets(pair_of("p"), rounds, seconds)
        controls = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contenders = start(stack, pair_of, folder, items, controls)
        fill(contenders, items)
        runs = measure(contenders, folder, items, rounds, seconds, outstanding, QUICK_WARM if quick else WARM)
        cloud, valid, of_volume = kv_cloud.run(pair_of, folder, items, controls, rounds, seconds, outstanding, kv_cloud.QUICK_WARM if quick else kv_cloud.WARM)
        apart = {} if kv_apart.why_not() else kv_apart.measure(contenders["hot"], items, rounds, seconds, HOT)
        modes = [mode for of_section in contenders.values() for name in (XDP, XDP_SPINS) if name in of_section for mode in of_section[name][0].came_by_xdp()]
    progress("")
    about = [modes[0], *of_volume, f"{items:,} items of {VALUE} bytes, {HOT} of them hot; {os.cpu_count()} processors; medians of {rounds} rounds of {seconds} s"]
    return result_of(runs, apart, cloud, rows_of(runs, packets, outstanding) + kv_cloud.rows(cloud, valid) + kv_apart.rows(apart), about)
