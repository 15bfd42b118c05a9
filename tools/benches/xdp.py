"""UDP round trips between two network namespaces: AF_XDP at both ends against recvmmsg and sendmmsg at both ends

All ends look a while before they sleep, every answer is verified, and each pair of contenders runs right after one another, in an order that turns around
from round to round. The server and the client each want a processor of their own.
"""
import contextlib
import json
import os
import subprocess
import sys

from common import RELEASE, ROOT, Result, Trouble, build, less_is_better, more_is_better, progress, rounds_of, silent

sys.path.insert(0, str(ROOT / "tests" / "e2e" / "support"))
import netns  # noqa: E402

OUTSTANDING = (1, 64)
PORT = 9000


@contextlib.contextmanager
def server(pair, kind):
    """The server on vb; the namespace's frames for it stay declared as long as it lives."""
    words = ["serve", "--interface", "vb", "--port", PORT] if kind == "xdp" else ["serve-udp", "--own", f"10.9.0.2:{PORT}"]
    process = subprocess.Popen(pair.command(pair.there, RELEASE / "bin" / "bench_xdp", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        mode = process.stdout.readline().strip()
        if not mode:
            raise Trouble(process.stderr.read().strip())
        yield mode
    finally:
        process.terminate()
        process.communicate()
    if process.returncode != 0:
        raise Trouble(f"the server over {kind} ended with {process.returncode}: frames leaked")


def ping(pair, kind, outstanding, seconds):
    words = ["--own", "10.9.0.1:7000", "--peer", f"10.9.0.2:{PORT}", "--outstanding", outstanding, "--seconds", seconds]
    if kind == "xdp":
        words = ["ping", "--interface", "va", "--port", 7000, "--peer-mac", pair.mac["vb"], *words]
    else:
        words = ["ping-udp", *words]
    done = subprocess.run(pair.command(pair.here, RELEASE / "bin" / "bench_xdp", *words), capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise Trouble(done.stderr.strip())
    return json.loads(done.stdout)


def run(quick):
    reason = netns.why_not()
    if reason:
        raise Trouble(reason)
    build("bench_xdp")
    rounds, seconds = (rounds_of(5), 0.4) if quick else (rounds_of(15), 1.0)
    runs, modes = {}, {}
    with netns.Pair(mtu=1500, queues=1) as pair:
        for turn in range(rounds):
            for outstanding in OUTSTANDING:
                for kind in ("xdp", "udp") if turn % 2 == 0 else ("udp", "xdp"):
                    progress(f"round {turn + 1} of {rounds}: {kind}, {outstanding} outstanding …")
                    with server(pair, kind) as modes[kind]:
                        runs.setdefault((kind, outstanding), []).append(ping(pair, kind, outstanding, seconds))
    progress("")
    rows, peer = [], "recvmmsg + sendmmsg"
    for outstanding in OUTSTANDING:
        def of(kind, value):
            return [value(each) for each in runs[kind, outstanding]]
        rate = (lambda each: each["answers"] / each["seconds"])
        # What a round's neighbour did to it is in the spread.
        goal = 2.0 if outstanding > 1 else None
        rows.append(more_is_better(f"{outstanding} outstanding", of("xdp", rate), of("udp", rate), peer, "answers/s", goal, paired=False))
        for what in ("p50_us", "p99_us"):
            rows.append(less_is_better(f"{outstanding} outstanding, {what[:3]}", of("xdp", lambda e: e[what]), of("udp", lambda e: e[what]), peer, "us", paired=False))
    answers, wrong = (sum(each[what] for many in runs.values() for each in many) for what in ("answers", "wrong"))
    notes = [modes["xdp"], f"{os.cpu_count()} processors; 64 bytes; medians of {rounds} rounds; {answers:,} answers verified, {wrong} wrong", ""]
    without = silent(runs)
    if without:
        notes.insert(0, f"without any answer: {'; '.join(without)}")
    return Result("xdp", wrong == 0 and not without, rows, notes)
