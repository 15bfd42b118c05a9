"""What the rows of unmodified programs share: runs that are measured, folders that are forgotten, shares of a gap."""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

from common import RELEASE, WORK, Row, Trouble, number, spread

CHAINIO = RELEASE / "bin" / "chainio"
PIECE, READERS = 256 << 10, 8
READ_AHEADS = (0, 64, 512, 8192)  # KiB; which one suits best is tried in each run
TRIES = 3  # of each


@dataclasses.dataclass
class Sample:
    """One run of something: what it took, and what it cost."""
    seconds: float
    cpu: float = 0.0       # seconds of all its processes, the server of the shadow chains included
    switches: int = 0
    correct: bool = True


class Section:
    """One program's rows. `missing()` says in words why it cannot run here, or nothing."""
    name = ""
    of_volume = True  # whether its rows depend on the volume

    def __init__(self, quick):
        self.quick = quick
        self.rows = []
        self.notes = []
        self.correct = True

    def missing(self):
        return None

    def run(self, volume, path):
        """Rows from the files below `path` of the volume, which is `local` or `cloud`."""
        raise NotImplementedError

    def sources(self):
        """The folder whose files are read; made when it is not there yet."""
        raise NotImplementedError

    def check(self, holds, what):
        if not holds:
            self.correct = False
            self.notes.append(f"WRONG: {what}")


def forget(*paths):
    """Takes files out of the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def bring(paths):
    """Reads files into the page cache, in pieces of 256 KiB, eight at a time; how many seconds it took."""
    pieces = iter([(path, begin) for path in paths for begin in range(0, os.path.getsize(path), PIECE)])
    turn = threading.Lock()

    def read_some():
        room, last, fd = bytearray(PIECE), None, -1
        while True:
            with turn:
                path, begin = next(pieces, (None, 0))
            if path != last:
                if fd >= 0:
                    os.close(fd)
                last, fd = path, os.open(path, os.O_RDONLY) if path else -1
            if path is None:
                return
            os.preadv(fd, [room], begin)

    readers = [threading.Thread(target=read_some) for _ in range(READERS)]
    begun = time.monotonic()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return time.monotonic() - begun


def measured(words, **options):
    """Output of a command that must succeed, and what it and all whom it waited for cost."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(list(map(str, words)), stdout=output, stderr=subprocess.PIPE, stdin=options.pop("stdin", subprocess.DEVNULL), **options)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode != 0:
        raise Trouble(f"{' '.join(map(str, words))}: exit code {process.returncode}\n{text}{errors.decode(errors='replace')}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_nvcsw + usage.ru_nivcsw


@contextlib.contextmanager
def knowing(program, *words, what):
    """One of our helpers that is told what will be read, and waits; it brings it into memory from when what the caller is given is called."""
    with subprocess.Popen(list(map(str, (RELEASE / "bin" / program, *words))), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as helper:
        helper.stdin.write(what)
        helper.stdin.flush()
        if helper.stdout.readline() != "ready\n":
            raise Trouble(f"{program} did not start")
        yield helper.stdin.close


def beside(spec, options, words, summary=None):
    """The command with its shadow chains."""
    command = [CHAINIO, "run", "--spec", spec, *options, "--json"]
    command += ["--summary", summary] if summary else ["--quiet"]
    return [*command, "--", *words]


def hits_of(path):
    """What the summary of a run says of its chains, in one line."""
    with contextlib.suppress(OSError, ValueError):
        chains = json.loads(pathlib.Path(path).read_text())["chains"]
        return "; ".join(f"{c['name']}: {c.get('hits', 0)} hits, {c.get('late', 0)} late, {c.get('wasted', 0)} wasted" for c in chains if c.get("runs"))
    return "no summary"


def median(samples, what="seconds"):
    return statistics.median(getattr(sample, what) for sample in samples)


def share(cold, warm, ours):
    """How much of the way from cold to warm was gone."""
    return (cold - ours) / (cold - warm) if cold > warm else 0.0


def shares(samples, who):
    return [share(*times) for times in zip(*([s.seconds for s in samples[name]] for name in ("cold", "warm", who)))]


def cost(samples, queries=1):
    """Processor time and context switches of one query."""
    return f"{number(1000 * median(samples, 'cpu') / queries)} ms, {number(median(samples, 'switches') / queries)} sw"


def time_row(what, samples, ours, peer, peer_name, unit="s", goal=None, queries=1):
    """Less is better; the ratio is that of the medians."""
    mine, theirs = median(samples[ours]), median(samples[peer])
    seen = f"{spread([s.seconds for s in samples[ours]])} / {spread([s.seconds for s in samples[peer]])}"
    cpu = f"; a query: {cost(samples[ours], queries)} / {cost(samples[peer], queries)}"
    return Row(what, mine, theirs, peer_name, unit, theirs / mine, goal, seen + cpu)


def share_row(what, samples, ours, peer, peer_name, goal=None, queries=1):
    """Shares of the gap: those of ours and of somebody who knows all, or of a number that is wanted."""
    mine = statistics.median(shares(samples, ours))
    theirs = statistics.median(shares(samples, peer)) if isinstance(peer, str) else peer
    costs = [cost(samples[name], queries) for name in (ours, peer) if isinstance(name, str)]
    seen = f"{spread(shares(samples, ours))}; a query: {' / '.join(costs)}"
    return Row(what, mine, theirs, peer_name, "of the gap", mine / theirs if theirs else 0.0, goal, seen)


def rate_row(what, samples, ours, peer, peer_name, count, goal=None):
    """More is better: `count` requests a round; the ratio is that of the medians."""
    rates = {name: [count / sample.seconds for sample in samples[name]] for name in (ours, peer)}
    mine, theirs = (count / median(samples[name]) for name in (ours, peer))
    costs = " / ".join(f"{number(1e6 * median(samples[name], 'cpu') / count)} us, {number(median(samples[name], 'switches') / count)} sw" for name in (ours, peer))
    return Row(what, mine, theirs, peer_name, "requests/s", mine / theirs, goal, f"{spread(rates[ours])} / {spread(rates[peer])}; a request: {costs}")


def goal_of_warm(samples, plain, again):
    """The ratio of what has nothing to win: within 2 %, or within what plain and plain are apart in the median round."""
    ratios = [second.seconds / first.seconds for first, second in zip(samples[plain], samples[again])]
    apart = [1 - min(ratio, 1 / ratio) for ratio in ratios]
    return round(1 - max(0.02, statistics.median(apart)), 3)


@contextlib.contextmanager
def read_ahead(path, kib):
    """The kernel reads so far ahead on the volume of the path; what it was before comes back."""
    device = os.stat(path).st_dev
    places = [pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")]
    partition = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if partition.exists():
        places.append(partition.resolve().parent / "queue" / "read_ahead_kb")
    place = next((each for each in places if os.access(each, os.W_OK)), None)
    if place is None:
        raise Trouble(f"the kernel's read-ahead for {path} cannot be set here")
    before = place.read_text()
    try:
        place.write_text(str(kib))
        yield
    finally:
        place.write_text(before)


def best_read_ahead(path, run):
    """Which read-ahead suits cold runs best, in KiB, by their median; nothing where it cannot be set. `run` gives a sample."""
    found = {kib: [] for kib in READ_AHEADS}
    try:
        for turn in range(TRIES):
            for kib in turned(READ_AHEADS, turn):
                with read_ahead(path, kib):
                    found[kib].append(run())
    except (OSError, Trouble):
        return None
    return min(found, key=lambda kib: median(found[kib]))


def with_read_ahead(path, kib, run):
    """A run at this read-ahead; at that of the volume for none."""
    with read_ahead(path, kib) if kib is not None else contextlib.nullcontext():
        return run()


def turned(names, turn):
    """The order of a round: each name comes first in its turn, forwards in one round and backwards in the next."""
    names = list(names)
    begin = turn // 2 % len(names)
    order = names[begin:] + names[:begin]
    return order if turn % 2 == 0 else order[::-1]


def folder(name):
    path = WORK / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def program(name, *more_paths):
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(["/usr/sbin", "/sbin", *more_paths]))


def load():
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
