"""What the benchmarks share: rows and how they are printed, building, progress, medians."""
import dataclasses
import json
import operator
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RELEASE = ROOT / "build" / "release"
WORK = ROOT / "build" / "bench"


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
    output_of(["cmake", "--build", "--preset", "release", "--parallel", os.cpu_count() or 1, "--target", *targets], cwd=ROOT)
    progress("")


def spread(values):
    return f"{number(min(values))}-{number(max(values))}"


def more_is_better(what, ours, peers, peer_name, unit, goal=None, paired=True):
    """A row from the values of all rounds: medians, and the median of the rounds' ratios, or the medians' ratio where no round pairs with another."""
    mine, theirs = statistics.median(ours), statistics.median(peers)
    paired = paired and len(ours) == len(peers) and all(peers)
    ratio = statistics.median(map(operator.truediv, ours, peers)) if paired else mine / theirs
    return Row(what, mine, theirs, peer_name, unit, ratio, goal, f"{spread(ours)} / {spread(peers)}")


def less_is_better(what, ours, peers, peer_name, unit, goal=None, paired=True):
    row = more_is_better(what, ours, peers, peer_name, unit, goal, paired)
    row.ratio = 1 / row.ratio if row.ratio else 1.0
    return row


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def print_json(result):
    rows = [{"what": row.what, "ours": round(row.ours, 6), "peer": round(row.peer, 6), "peer_name": row.peer_name,
             "unit": row.unit, "ratio": round(row.ratio, 4), "goal": row.goal, "spread": row.spread} for row in result.rows]
    print(json.dumps({"bench": result.bench, "verified": result.verified, "rows": rows}))


def print_table(result):
    print("\n".join(result.notes))
    cells = [("what", "ours", "peer", "peer is", "unit", "ratio", "goal", "spread (ours / peer)")]
    for row in result.rows:
        goal = "" if row.goal is None else f"{row.goal:g} {'met' if row.ratio >= row.goal else 'MISSED'}"
        cells.append((row.what, number(row.ours), number(row.peer), row.peer_name, row.unit, f"{row.ratio:.2f}x", goal, row.spread))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        print("  ".join(text.rjust(width) if column in (1, 2, 5) else text.ljust(width)
                        for column, (text, width) in enumerate(zip(line, widths))).rstrip())
    print("verified: every value is the right one" if result.verified else "NOT VERIFIED: see the lines above")
