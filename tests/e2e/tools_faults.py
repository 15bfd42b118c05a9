#!/usr/bin/env python3
"""Whatever read or write of chainc, chainio store or chainio test fails: what is there in the end is whole or as before, and what failed is said."""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import faults
import runs
from runs import CHAINC, CHAINIO, expect

SPEC = 'app kv { files f = "*.rows" }\nchain get(file: file f) -> bytes(4) hops 1 { step s(b: block at 0 for 64 in file) { return b[0..4] } }\n'
SUITE = "spec: app.chain\nfiles:\n  rows: { hex: 6162636465666768 }\ncases:\n  - { name: short, chain: get, files: { file: rows }, expect: { outcome: short_read } }\n"
# By call, what a disk says that is full, over its quota or broken.
ERRORS = {"read": ["EIO", "EINTR"], "pread64": ["EIO", "EINTR"], "openat": ["EMFILE", "EIO"], "write": ["EIO", "ENOSPC", "EDQUOT", "EINTR"], "pwrite64": ["EIO", "ENOSPC", "EINTR"],
          "fsync": ["EIO", "ENOSPC"], "rename": ["EIO", "ENOSPC"], "ftruncate": ["EIO", "ENOSPC"], "mmap": ["ENOMEM"], "memfd_create": ["ENOMEM"], "fchmod": ["EIO"]}
SOME = 6  # of each program's, by chance; the other ones have to wait for another run of this test, or for CHAINIO_SOAK


class Tool:
    def __init__(self, folder, name, words, output):
        self.folder, self.name, self.words, self.output = folder, name, words, output
        self.environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
        self.before = (folder / output).read_bytes() if output else b""

    def run(self, *strace):
        """How it ended, what it made, what it said, and what it left."""
        for file in (self.folder / "out").iterdir():
            file.unlink()
        if self.output:
            (self.folder / "out" / "made").write_bytes(self.before)
        command = ["strace", "-qq", "-o", self.folder / "log", *strace, *self.words]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=runs.LONGEST)
        made = (self.folder / "out" / "made").read_bytes() if self.output else b""
        left = [file.name for place in ("out", "tmp") for file in (self.folder / place).iterdir() if file.name != "made"]
        return done.returncode, made, done.stderr.decode(errors="replace"), left

    def calls(self):
        """What it makes, from where its loader has ended: that reads and sets its own limit of the stack."""
        made = faults.calls(self.folder / "log")
        begins = next((index for index, call in enumerate(made) if "RLIMIT_STACK" in call.line), 0)
        # Where standard error fails there is nobody to tell; what cannot be removed is left.
        return [call for call in made[begins:] if call.name in ERRORS and not call.line.startswith(("write(2,", "write(1,")) and "O_DIRECTORY" not in call.line]


def test_each(tool):
    code, whole, said, left = tool.run()
    expect(f"{tool.name} without errors", (code, said, left), (0, "", []))
    seed = random.randrange(1 << 32)
    tries = [(call, error) for call in tool.calls() for error in ERRORS[call.name]]
    chosen, bad, refused = tries if "CHAINIO_SOAK" in os.environ else random.Random(seed).sample(tries, SOME), [], 0
    for call, error in chosen:
        code, made, said, left = tool.run(*call.fails_with(error))
        refused += code != 0
        if left or (made != whole if code == 0 else code != 3 or not said or made != tool.before):
            bad.append((call.line[:100], error, code, len(made), said[:300], left))
    print(f"      {len(chosen)} of {len(tries)} errors, {refused} of which ended it; seed {seed}")
    expect("  whichever call fails, what it makes is whole or as before", bad, [])


def test_read_back(tool):
    """What is read back before it is written for good."""
    tool.run()
    last = [call for call in tool.calls() if call.name == "pread64"][-1]
    code, made, said, _ = tool.run(*last.fails_with("EIO"))
    text = "chainc: error[CH0600]: cannot read the artifact's ELF back: Input/output error\n"
    expect("an artifact that cannot be read back", (code, made == tool.before, said.startswith(text)), (3, True, True))


def test_compiled(tool):
    """What clang has written."""
    tool.run()
    calls = tool.calls()
    opened = next(index for index, call in enumerate(calls) if call.name == "openat" and "bpf.o" in call.line)
    first = next(call for call in calls[opened:] if call.name == "read")
    code, made, said, _ = tool.run(*first.fails_with("EIO"))
    text = "wrote nothing for the BPF programs, or nothing that can be read; is the disk of "
    expect("what clang has written cannot be read", (code, made == tool.before, text in said), (3, True, True))


def test_existing(tool):
    """Of a store that cannot be read nobody is told that it is none, and to be removed."""
    tool.run()
    opened = next(index for index, call in enumerate(tool.calls()) if call.name == "openat" and "out/made" in call.line)
    first = next(call for call in tool.calls()[opened:] if call.name == "pread64")
    code, made, said, _ = tool.run(*first.fails_with("EIO"))
    expect("a store in its place that cannot be read", (code, made == tool.before, said), (3, True, "chainio store: out/made: cannot be read: Input/output error\n"))


def test_suite(tool):
    tool.run()
    calls = tool.calls()
    opened = next(index for index, call in enumerate(calls) if call.name == "openat" and "app.test.yaml" in call.line)
    first = next(call for call in calls[opened:] if call.name == "read")
    code, _, said, _ = tool.run(*first.fails_with("EIO"))
    expect("a test file that cannot be read", (code, said), (3, "chainio test: app.test.yaml: cannot be read: Input/output error\n"))


def main():
    if why := faults.why_not():
        print(f"skipped: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for place in ("out", "tmp"):
            (folder / place).mkdir()
        (folder / "app.chain").write_text(SPEC)
        (folder / "app.test.yaml").write_text(SUITE)
        (folder / "old.o").write_text("what was there\n")
        (folder / "old.tsv").write_text("a\tb\n")
        (folder / "new.tsv").write_text("".join(f"key {number}\t{'x' * (number % 900)}\n" for number in range(3000)) + f"long\t{'y' * 200_000}\n")
        subprocess.run([CHAINIO, "store", "build", "--from", "old.tsv", "old.store"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        compiler = Tool(folder, "chainc", [CHAINC, "app.chain", "-o", "out/made"], "old.o")
        main_program = str(runs.BUILD / "bin" / "chainio-main")
        store = Tool(folder, "chainio store build", [main_program, "store", "build", "--from", "new.tsv", "--memory", "64KiB", "out/made"], "old.store")
        suite = Tool(folder, "chainio test", [main_program, "test", "app.test.yaml"], None)
        test_read_back(compiler)
        test_compiled(compiler)
        test_existing(store)
        test_suite(suite)
        for tool in (compiler, store):
            test_each(tool)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
