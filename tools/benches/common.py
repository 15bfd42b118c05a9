"""What the benchmarks share: rows and how they are printed, building, progress, medians."""
import dataclasses
import json
import operator
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RELEASE = ROOT / "build" / "release"
WORK = ROOT / "build" / "bench"
PROCESSORS = sorted(os.sched_getaffinity(0))  # which may be some of the machine's


class Trouble(Exception):
    """Something that keeps a benchmark from running, in words for the user."""


@dataclasses.dataclass
class Row:
    what: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float  # above 1: we are better
    goal: float | None = None
    spread: str = ""  # table only: lowest to highest of the rounds, ours and the peer's
    valid: bool = True  # whether what it was measured on was what it should be


@dataclasses.dataclass
class Result:
    bench: str
    verified: bool
    rows: list
    notes: list  # lines above the table


def progress(text):
    """A line on stderr that the next one overwrites; nothing when stderr is no terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def output_of(command, **options):
    """What a command prints; its own words when it fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    except OSError as error:
        raise Trouble(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise Trouble(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def build(*targets):
    progress(f"building {' '.join(targets)} (the first time takes some minutes) …")
    if not (RELEASE / "build.ninja").exists():
        output_of(["cmake", "--preset", "release"], cwd=ROOT)
    output_of(["cmake", "--build", "--preset", "release", "--parallel", len(PROCESSORS), "--target", *targets], cwd=ROOT)
    progress("")


def rounds_of(usual):
    """Of a benchmark. CHAINIO_BENCH_ROUNDS is for who looks at the form of its rows and not at their figures."""
    wanted = os.environ.get("CHAINIO_BENCH_ROUNDS", str(usual))
    if not re.fullmatch("[1-9][0-9]{0,3}", wanted):
        raise Trouble(f"CHAINIO_BENCH_ROUNDS is '{wanted}'; give a number of rounds, 1 to 9999")
    return int(wanted)


def spread(values):
    return f"{number(min(values))}-{number(max(values))}"


def more_is_better(what, ours, peers, peer_name, unit, goal=None, paired=True):
    """A row from the values of all rounds: medians, and the median of the rounds' ratios, or the medians' ratio where no round pairs with another.

    Beside a peer that has done nothing it is not valid."""
    mine, theirs = statistics.median(ours), statistics.median(peers)
    paired = paired and len(ours) == len(peers) and all(peers)
    ratio = statistics.median(map(operator.truediv, ours, peers)) if paired else mine / theirs if theirs else 0.0
    return Row(what, mine, theirs, peer_name, unit, ratio, goal, f"{spread(ours)} / {spread(peers)}", valid=theirs != 0)


def less_is_better(what, ours, peers, peer_name, unit, goal=None, paired=True):
    row = more_is_better(what, ours, peers, peer_name, unit, goal, paired)
    row.ratio = 1 / row.ratio if row.ratio else float(row.ours == 0)
    row.valid = row.valid or row.ours == 0  # both have needed nothing
    return row


def silent(*of_contenders):
    """The contenders that had no answer in one of their runs: what they did is neither right nor a row."""
    return sorted(", ".join(map(str, key)) for runs in of_contenders for key, many in runs.items() if any(each["answers"] == 0 for each in many))


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def print_json(result):
    rows = [{"what": row.what, "ours": round(row.ours, 6), "peer": round(row.peer, 6), "peer_name": row.peer_name,
             "unit": row.unit, "ratio": round(row.ratio, 4), "goal": row.goal, "spread": row.spread, "valid": row.valid} for row in result.rows]
    print(json.dumps({"bench": result.bench, "verified": result.verified, "rows": rows}))


def goal_of(row):
    """What the table says of a row's goal."""
    if not row.valid:
        return "INVALID"
    return "" if row.goal is None else f"{row.goal:g} {'met' if row.ratio >= row.goal else 'MISSED'}"


def print_table(result):
    print("\n".join(result.notes))
    cells = [("what", "ours", "peer", "peer is", "unit", "ratio", "goal", "spread (ours / peer)")]
    for row in result.rows:
        cells.append((row.what, number(row.ours), number(row.peer), row.peer_name, row.unit, f"{row.ratio:.2f}x", goal_of(row), row.spread))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        print("  ".join(text.rjust(width) if column in (1, 2, 5) else text.ljust(width)
                        for column, (text, width) in enumerate(zip(line, widths))).rstrip())
    print("verified: every value is the right one" if result.verified else "NOT VERIFIED: see the lines above")
