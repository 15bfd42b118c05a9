"""services over shared memory: beside the same service over loopback, memcached and redis over Unix sockets, an echo, and reads of one's own

One client process keeps 1, 8 or 32 requests on their way, and compares every byte of each reply. It has one processor and the server the other one, where
there are two; the rows `unpinned` leave both to the scheduler. Everybody sleeps where nothing is there, unless a row says that somebody spins: then that one
looks for 50 us before. Requests over a stream go out pipelined over one connection, all that are due in one piece; datagrams by sendmmsg and recvmmsg.
Hot: memcached's `get` of values of 1,000 bytes in memory, a few far more often than the others. Fixed: a number, and 60 bytes behind it, of a service that
runs no chain: the transport alone. Misses: reads past the page cache; who does not ask reads an item with one pread, or 32 at once by threads or io_uring.
"""
import contextlib

import rings_contenders as who
from common import Result, build, less_is_better, more_is_better, progress, rounds_of, silent
from kv_servers import read_through
from rings_contenders import (ECHO, ECHO_SPIN, MEMCACHED, MEMCACHED_FREE, MEMCACHED_SPIN, MEMCACHED_TCP, MEMCACHED_UDP, PREAD, REDIS, REDIS_SPIN, RING, RING_BOTH, RING_CLIENT,
                              RING_DAEMON, RING_FREE, TCP, UDP, URING)

HOT = 2000
# Seconds of asking before the first run of anybody is counted; of misses, until the service's index is in memory.
WARM, QUICK_WARM = {"hot": 0.5, "fixed": 0.5, "misses": 3.0}, {"hot": 0.1, "fixed": 0.1, "misses": 0.3}
PEERS = {"hot": {RING: (UDP, TCP, MEMCACHED, MEMCACHED_TCP, MEMCACHED_UDP, REDIS), RING_CLIENT: (RING, MEMCACHED_SPIN), RING_DAEMON: (RING,),
                 RING_BOTH: (RING, MEMCACHED_SPIN, REDIS_SPIN), RING_FREE: (RING, MEMCACHED_FREE)},
         "fixed": {RING: (UDP, TCP, ECHO), RING_BOTH: (RING, ECHO_SPIN), RING_FREE: (RING,)},
         "misses": {RING: (UDP, PREAD, URING), RING_BOTH: (RING, PREAD, URING)}}
# Of the section, who are asked by how many at once.
COUNTS = {"hot": (1, 8, 32), "fixed": (1, 8, 32), "misses": (1, 32)}
QUICK_COUNTS = {"hot": (1, 32), "fixed": (32,), "misses": (32,)}
VALUES = ((more_is_better, "rate", "", "requests/s"), (less_is_better, "p50_us", ", p50", "us"), (less_is_better, "p99_us", ", p99", "us"),
          (less_is_better, "server_us", ", server's processor", "us a request"), (less_is_better, "client_us", ", client's processor", "us a request"),
          (less_is_better, "switches", ", both", "context switches a request"))
# Who reads itself has no server.
VALUES_OF_OWN = (*VALUES[:3], (less_is_better, "both_us", ", both's processors", "us a request"), VALUES[-1])


def names_in(section):
    """Everybody who is in a row of it, each once."""
    return list(dict.fromkeys(name for service, peers in PEERS[section].items() for name in (service, *peers)))


def measure(contenders, folder, counts, rounds, seconds, warm):
    """The runs by section, requests on their way and name. Those that are compared follow one another, in the other order in every second round."""
    runs = {}
    for section, of_section in contenders.items():
        for name in names_in(section):
            progress(f"before the first round: {section}, {name} …")
            who.load(of_section[name], "--seconds", warm[section], outstanding=max(counts[section]))
    for turn in range(rounds):
        read_through(folder)
        for section, of_section in contenders.items():
            for count in counts[section]:
                for name in names_in(section)[::1 if turn % 2 == 0 else -1]:
                    progress(f"round {turn + 1} of {rounds}: {section}, {count}, {name} …")
                    runs.setdefault((section, count, name), []).append(who.load(of_section[name], "--seconds", seconds, "--seed", turn, outstanding=count))
    return runs


def rows_of(runs, counts):
    rows = []
    for section, services in PEERS.items():
        for count in counts[section]:
            for service, peers in services.items():
                for peer in peers:
                    ours, theirs = runs[section, count, service], runs[section, count, peer]
                    for make, value, words, unit in VALUES_OF_OWN if peer in (PREAD, URING) else VALUES:
                        rows.append(make(f"{section}, {count}, {service}{words}", [each[value] for each in ours], [each[value] for each in theirs], peer, unit))
    return rows


def placed():
    """Where everybody ran, in words."""
    if who.CLIENT == who.SERVERS:
        return "one processor for everybody"
    return f"clients on processor {who.CLIENT}, servers on processor {who.SERVERS}; `unpinned`: both where the scheduler wants"


def result_of(runs, rows, about):
    total = {what: sum(each[what] for many in runs.values() for each in many) for what in ("answers", "wrong", "lost")}
    without, by = silent(runs), sorted({name for (_, _, name), many in runs.items() if any(each["lost"] for each in many)})
    notes = [*about, *([f"without any answer: {'; '.join(without)}"] if without else []),
             f"{total['answers']:,} replies verified, {total['wrong']} wrong, {total['lost']} lost over UDP{', by ' + ', '.join(by) if by else ''}",
             "what the kernel does with a packet on loopback is done, and counted, at who sends it",
             f"spins: looks {who.SPIN_US} us before it sleeps; a client of a Unix socket or of a ring by the same rule", ""]
    return Result("rings", bool(rows) and total["wrong"] == 0 and not without, rows, notes)


def run(quick):
    build("bench_rings", "bench_kv", "chainio", "chainio-main", "chainio-runtime", "chainc")
    items, usual, seconds, counts = (20_000, 2, 0.15, QUICK_COUNTS) if quick else (200_000, 5, 1.0, COUNTS)
    rounds = rounds_of(usual)
    with contextlib.ExitStack() as stack:
        everybody = who.Everybody(stack, items, HOT)
        runs = measure(everybody.sections(), everybody.folder, counts, rounds, seconds, QUICK_WARM if quick else WARM)
    progress("")
    about = [placed(), f"{items:,} items of {who.VALUE} bytes, {HOT} of them hot; medians of {rounds} rounds of {seconds} s"]
    return result_of(runs, rows_of(runs, counts), about)
