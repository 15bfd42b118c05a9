"""Runs chains by the command line and counts what was compared."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import ending  # noqa: F401

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SHOWN = 20  # differences printed; all are counted
USUAL = 64  # keys that `chainio call` has in flight
# A folder that keeps the files and the first call of every chain, for tests/vm/engines_agree to repeat under another kernel; then that is all.
# Of a script that labels calls, the first with each label too.
KEEP = os.environ.get("CHAINIO_KEEP_CALLS")


@dataclasses.dataclass
class Answer:
    outcome: str
    value: object  # bytes or int; None unless the outcome is ok
    hops: int


def skip(reason):
    print(reason)
    sys.exit(77)


def encode(value):
    return str(value) if isinstance(value, int) else "hex:" + bytes(value).hex()


class Run:
    """A temporary folder, a compiled spec, and the count of comparisons."""
    def __init__(self, spec):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="chainio-std-", dir=KEEP))
        self.spec = ROOT / "stdlib-chains" / spec if spec.startswith("std/") else ROOT / spec
        self.compared = self.different = self.calls = 0
        self.labelled = False
        self.artifact = self.compile([])

    def compile(self, options):
        made = self.folder / f"spec{len(list(self.folder.glob('*.bpf.o')))}.bpf.o"
        subprocess.run([str(BUILD / "bin" / "chainc"), str(self.spec), "-I", str(ROOT / "stdlib-chains"), "-o", str(made), *options], check=True)
        return made

    def call(self, chain, files, fixed, keys, spec=None, label=""):
        """One Answer a key. `fixed` are the arguments that all keys share; a key is a dict of the others: one empty key where there are none."""
        if not keys:
            return []
        command = [str(BUILD / "bin" / "chainio"), "call", str(spec or self.artifact), chain, "--json", *(["--keys", "-"] if keys != [{}] else [])]
        for name, path in files.items():
            command += ["--file", f"{name}={path}"]
        for name, value in fixed.items():
            command += ["--arg", f"{name}={encode(value)}"]
        # A line holds the remaining parameters in the order in which the chain declares them; so do the keys of the tests.
        lines = "".join("\t".join(map(encode, key.values())) + "\n" for key in keys)
        self.keep(command[1:], lines, label)
        # Never more are in flight than there are keys: by less memory, which the kernel takes and gives back for each call.
        few = ["--in-flight", str(len(keys))] if keys != [{}] and len(keys) < USUAL else []
        done = subprocess.run([*command, *few], input=lines, capture_output=True, text=True)
        answers = [self.answer(line) for line in map(json.loads, done.stdout.splitlines()) if "outcome" in line]
        if done.returncode not in (0, 1) or len(answers) != len(keys):
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}, {len(answers)} answers to {len(keys)} keys: {done.stderr[-2000:]}")
        self.calls += len(keys)
        return answers

    def keep(self, arguments, lines, label):
        if not KEEP:
            return
        kept = self.folder / f"{arguments[2]}{'@' + label if label else ''}.call"
        if not kept.exists() or len(kept.with_suffix(".keys").read_text().splitlines()) < 2 < len(lines.splitlines()):
            kept.with_suffix(".keys").write_text(lines)
            kept.write_text("\n".join(arguments))
        self.labelled |= bool(label)
        if not self.labelled and not self.not_kept():
            sys.exit(0)

    def not_kept(self):
        """Chains of the spec without a kept call."""
        inspected = subprocess.run([str(BUILD / "bin" / "chainio"), "inspect", str(self.artifact)], capture_output=True, text=True, check=True)
        return set(re.findall(r"^chain +(\w+)\(", inspected.stdout, re.M)) - {path.stem.partition("@")[0] for path in self.folder.glob("*.call")}

    @staticmethod
    def answer(line):
        value = bytes.fromhex(line["hex"]) if "hex" in line else line.get("value")
        return Answer(line["outcome"], value, line["hops"])

    def same(self, what, got, wanted):
        if got == wanted:  # whose text nobody reads, and it may be long
            return self.true(what, True, "")
        return self.true(what, False, f"{str(got)[:200]} instead of {str(wanted)[:200]}")

    def true(self, what, holds, why):
        self.compared += 1
        if not holds:
            self.different += 1
            if self.different <= SHOWN:
                print(f"DIFFERENT: {what}: {why}")
        return bool(holds)

    def note(self, text):
        print(f"note: {text}")

    def left_out(self, text):
        """tools/check counts it."""
        print(f"skipped: {text}")


def finish(run):
    """Sums up and ends the script."""
    if KEEP:
        sys.exit(f"no call of {', '.join(sorted(run.not_kept()))} to keep" if run.not_kept() else 0)
    shutil.rmtree(run.folder, ignore_errors=True)
    print(f"{run.spec.name}: {run.calls} calls, {run.compared} comparisons, {run.different} different")
    sys.exit(1 if run.different or run.compared == 0 else 0)
