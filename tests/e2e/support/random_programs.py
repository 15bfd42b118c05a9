"""Runs random programs plain and beside shadow chains, and compares what they logged and left behind."""
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess

import started
from chains import BUILD, ROOT, skip
from runs import take_back

PROGRAM = BUILD / "bin" / "chainio-random-program"
CHAINIO = BUILD / "bin" / "chainio"
PORT_TAKEN = 75

# Most words of the files are small numbers: each read names many other places, the file beside it and a web server's files.
SPEC = """
app random {{
  match exe "chainio-random-program"
  match exe "cat"
  files  data  = "*.dat" {{ root "{root}" }}
  files  other = "*.idx"
  files  fixed = "*.imm" {{ immutable }}
  files  named = "{root}/**" {{ root "{root}" }}
  socket web   = tcp port {port}
}}
record Word {{ at: u64le }}
text Get {{ "GET " path: token(max 200) " HTTP/1." rest: rest(max 200) }}
chain walk(f: file data, from: u64) -> u64 hops 4 {{
  step one(b: block at from % 16384 for 8) {{
    if block.offset > 8192 {{ return b.uint_le() }}
    goto one at b.uint_le() % 16384
  }}
}}
chain places on read(data) as r {{ for w in r.records(Word, max 64) {{ prefetch r.file at w.at % 32768 for 4KiB }} }}
chain further on read(data) as r {{ prefetch r.file at r.offset + r.length for 16KiB }}
chain beside on read(other) as r {{ prefetch data.sibling(r, ".dat") }}
chain walks on read(data) as r {{ for w in r.records(Word, max 8) {{ prefetch via walk(r.file, w.at) }} }}
chain fixed_places on read(fixed) as r {{ for w in r.records(Word, max 64) {{ prefetch r.file at w.at % 102400 for 8KiB }} }}
chain whole on open(data) as r {{ prefetch r.file at 0 for 32KiB }}
chain ahead on ready(web) as c {{ when c.text(Get) as g {{ prefetch named[g.path] }} }}
"""
# What some batches add: a function of the program itself says which file it may be about to read.
PROBE = """
probe step = uprobe "chainio-random-program:chainio_random_step" (file: cstr(max 100))
chain stepped on probe(step) as p {{ prefetch data[p.file] at 0 for 16KiB }}
"""
# All of a file that reads with O_DIRECT may be served from.
SERVED = """
chain fixed_whole on open(fixed) as r {{ prefetch r.file at 0 for 128KiB }}
"""
# How the programs of a batch are run, what their spec has besides, and what they are told.
KINDS = {"all on": ["--no-gate"], "gated": [], "rewritten": ["--rewrite"], "probed": [], "served": ["--no-gate"]}
SPECS = {"probed": PROBE, "served": SERVED}
ARGUMENTS = {"served": ["--served"]}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_network():
    """Words that give a command a network of its own, to whose ports no client of another test comes; none where that cannot be had, and why."""
    words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    done = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (words, None) if done.returncode == 0 else ([], done.stderr.strip())


class Beside:
    """`chainio run` with a spec that matches what the programs of `folder` do."""
    def __init__(self, folder):
        if not PROGRAM.exists():
            skip(f"{PROGRAM} was not built")
        self.folder = folder
        self.totals = {}
        self.by_kind = {kind: {} for kind in KINDS}
        reasons = ("rewritten", cannot_rewrite()), ("probed", cannot_probe()), ("served", cannot_serve(folder))
        self.skipped = {kind: reason for kind, reason in reasons if reason}
        self.network, self.shares_network = own_network()
        self.notes = {}
        self.new_port()

    def new_port(self):
        self.port = free_port()
        self.specs = {kind: self.make_spec(kind, SPEC + text) for kind, text in {"random": "", **SPECS}.items()}

    def make_spec(self, name, text):
        source, spec = self.folder / f"{name}.chain", self.folder / f"{name}.bpf.o"
        source.write_text(text.format(root=self.folder / "beside" / "files", port=self.port))
        subprocess.run([BUILD / "bin" / "chainc", source, "-I", ROOT / "stdlib-chains", "-o", spec], check=True)
        return spec

    def words(self, command, kind="all on"):
        return [CHAINIO, "run", "--spec", self.specs.get(kind, self.specs["random"]), *KINDS[kind], "--json", "--summary", self.folder / "summary.json", "--", *command]

    def count(self, kind="all on"):
        """Adds up what the summary of the last run says, to prove that the chains were at work."""
        path = self.folder / "summary.json"
        if not path.exists():
            return
        summary = json.loads(path.read_text())
        path.unlink()
        for chain in summary.get("chains", []):
            for key, value in chain.items():
                if isinstance(value, int):
                    self.totals[key] = self.totals.get(key, 0) + value
                    self.by_kind[kind][key] = self.by_kind[kind].get(key, 0) + value
            if chain["name"] == "ahead" and kind == "all on":
                # What programs ran themselves: all that they did not leave to the server. With a gate there are others.
                self.by_kind[kind]["itself"] = self.by_kind[kind].get("itself", 0) + chain["runs"] - sum(summary["left"].values())
            if chain["name"] == "stepped":
                self.by_kind[kind]["stepped"] = self.by_kind[kind].get("stepped", 0) + chain["runs"]
        for key, value in summary.get("rewritten", {}).items():
            self.by_kind[kind][key] = self.by_kind[kind].get(key, 0) + value
        for note in summary.get("notes", []):
            kind_of_note = re.sub(r"\d+ times|once|\d+", "n", str(note))
            self.notes[kind_of_note] = self.notes.get(kind_of_note, 0) + 1

    def idle(self):
        """Of the kinds that ran, those whose own part did nothing, and which: they would prove nothing."""
        own = {"all on": "fetches", "gated": "gate_changes", "rewritten": "calls", "probed": "stepped", "served": "served"}
        return {kind: f"no {own[kind]}" for kind, counts in self.by_kind.items() if counts and counts.get(own[kind], 0) == 0}


def cannot_rewrite():
    return None if platform.machine() == "x86_64" else "system calls are rewritten on x86-64 only"


def cannot_probe():
    privileges = 1 << 38 | 1 << 39  # CAP_PERFMON, CAP_BPF
    status = pathlib.Path("/proc/self/status").read_text()
    if int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) & privileges != privileges:
        return "attaching probes takes CAP_BPF and CAP_PERFMON"
    return None if os.path.exists("/sys/kernel/btf/vmlinux") else "attaching probes takes the kernel's BTF"


def cannot_serve(folder):
    path = folder / "direct"
    path.touch()
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return "this file system has no O_DIRECT"
    return None


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def execute(words, **options):
    """Exit code and output; a program that hangs is ended and says so."""
    process = started.start(words, end_by=take_back, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **options)
    try:
        output = process.communicate(timeout=240)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session is ours: nobody else is in it
        output = process.communicate()[0] + b"\nended after 240 s"
    return process.returncode, output.decode(errors="replace")


def content(path):
    """What a file is, in a form that can be compared."""
    info = path.lstat()
    kind = stat.S_IFMT(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return kind, os.readlink(path)
    if not stat.S_ISREG(info.st_mode):
        return kind, stat.S_IMODE(info.st_mode)
    return kind, stat.S_IMODE(info.st_mode), info.st_size, info.st_nlink, hashlib.sha256(path.read_bytes()).hexdigest()


def tree(folder):
    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*")}


def first_difference(one, two):
    """In words, or None. Logs are compared line by line, since they say what happened."""
    left, right = tree(one), tree(two)
    names = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    names.sort(key=lambda name: not name.endswith("log"))
    if not names:
        return None
    name = names[0]
    logs = [(folder / name).read_text(errors="replace").splitlines() if (folder / name).is_file() else [] for folder in (one, two)]
    if name.endswith("log") and all(logs):
        at = next((i for i, pair in enumerate(zip(*logs)) if pair[0] != pair[1]), min(map(len, logs)))
        before = "\n".join(logs[0][max(0, at - 6):at])
        return f"{name}, line {at + 1}, after\n{before}\nplain:  {logs[0][at:at + 2]}\nbeside: {logs[1][at:at + 2]}"
    return f"{name}: plain {left.get(name)}, beside {right.get(name)} ({len(names)} files differ)"


def file_chunks(total, most):
    return [min(most, total - at) for at in range(0, total, most)]


def run_batch(beside, seed, count, kind="all on"):
    """The same programs both ways, in folders whose names are alike; None or what differs."""
    for _ in range(5):
        words = [PROGRAM, "--seed", seed, "--count", count, "--port", beside.port, *ARGUMENTS.get(kind, []), "--out"]
        plain, other = fresh(beside.folder / "plain" / "files"), fresh(beside.folder / "beside" / "files")
        first = execute([*beside.network, *words, plain])
        second = execute([*beside.network, *beside.words([*words, other], kind)]) if first[0] != PORT_TAKEN else first
        if PORT_TAKEN not in (first[0], second[0]):
            break
        beside.new_port()
    beside.count(kind)
    if first[0] != 0:
        return f"the plain program itself ended with {first[0]}: {first[1]}"
    if first != second:
        return f"plain: exit code {first[0]}\n{first[1]}\nbeside: exit code {second[0]}\n{second[1]}"
    return first_difference(plain, other)
