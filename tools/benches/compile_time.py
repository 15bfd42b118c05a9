"""what chainc takes on top of clang, for the SQLite library, and what its front end takes for 1,000 lines

clang alone means the very commands that chainc gives it, for the C that it emits, run again without chainc; at the same time
when chainc runs them at the same time. No cache is in the way. Every artifact is compared with the first one, byte for byte.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from common import RELEASE, ROOT, WORK, Result, Trouble, build, less_is_better, output_of, progress, rounds_of

CHAINC = RELEASE / "bin" / "chainc"
LIBRARY = ROOT / "stdlib-chains" / "std" / "sqlite.chain"
# Stands in for clang on the PATH: keeps the command and the folder that it runs in, then runs the real one.
RECORDER = """#!{python}
import json, os, shutil, subprocess, sys, time
words, number = sys.argv[1:], str(time.monotonic_ns())
kept = os.path.join({folder!r}, number)
# Outputs of clangs that run beside this one come and go.
shutil.copytree(os.getcwd(), kept, ignore=lambda _, names: [name for name in names if not name.endswith((".c", ".h"))])
begin = time.monotonic()
code = subprocess.run([{real!r}, *words]).returncode
if any(word.endswith(".c") for word in words):
    note = dict(words=[{real!r}, *words], folder=kept, begin=begin, end=time.monotonic())
    json.dump(note, open(kept + ".json", "w"))
sys.exit(code)
"""


def record(spec, folder):
    """The clang commands that one run of chainc gives, in the order of their start."""
    real = shutil.which("clang-19") or shutil.which("clang")
    if not real:
        raise Trouble("clang-19 is not on the PATH: run tools/setup")
    notes, bin_folder = folder / "notes", folder / "bin"
    notes.mkdir()
    bin_folder.mkdir()
    for name in ("clang-19", "clang"):
        (bin_folder / name).write_text(RECORDER.format(python=sys.executable, real=real, folder=str(notes)))
        (bin_folder / name).chmod(0o755)
    compile_with_chainc(spec, folder / "recorded.o", PATH=f"{bin_folder}:{os.environ['PATH']}")
    commands = sorted((json.loads(path.read_text()) for path in notes.glob("*.json")), key=lambda note: note["begin"])
    if not commands:
        raise Trouble("chainc ran no clang from the PATH")
    return commands


def clang_alone(commands):
    """Seconds of the recorded commands; together when chainc ran them together."""
    together = len(commands) > 1 and commands[1]["begin"] < commands[0]["end"]
    running, begin = [], time.monotonic()
    for command in commands:
        running.append(subprocess.Popen(command["words"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        cwd=command["folder"]))
        if not together:
            running[-1].wait()
    for process in running:
        if process.wait() != 0:
            raise Trouble(f"clang alone failed: {process.stderr.read().decode()}")
        process.stderr.close()
    return time.monotonic() - begin


def compile_with_chainc(spec, out, **environment):
    begin = time.monotonic()
    output_of([CHAINC, spec, "-I", ROOT / "stdlib-chains", "-o", out], env={**os.environ, **environment})
    return time.monotonic() - begin


def check_seconds(spec, report):
    """(the whole of chainc --check, the same less what it does behind the checks of names and types), as a process: without pipes,
    whose threads would be measured too."""
    begin = time.monotonic()
    child = os.posix_spawn(CHAINC, [CHAINC, "--check", "--time-report", spec], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 2, report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)])
    _, status = os.waitpid(child, 0)
    whole = time.monotonic() - begin
    if status != 0:
        raise Trouble(f"chainc --check {spec} ended with status {os.waitstatus_to_exitcode(status)}: {report.read_text()}")
    stages = {line.split()[0]: float(line.split()[1]) / 1000 for line in report.read_text().splitlines()}
    if not {"parse", "check", "lower", "passes"} <= stages.keys():
        raise Trouble(f"chainc --time-report names other stages than this benchmark expects: {', '.join(stages)}")
    return whole, whole - sum(seconds for stage, seconds in stages.items() if stage not in ("parse", "check"))


LONG_PART = """
# Part {n}: a tree of fixed-size nodes with values in a block of their own.
record Node{n} {{
  kind: u16le in {{ 0 inner{n}, 1 leaf{n} }}
  count: u16le
  _: u32le
  keys: u64le[31]
  ptrs: u64le[31]
}}
record Value{n} {{
  length: u16be
  bytes: bytes(length)
}}
chain lookup{n}(index: file pages, key: u64) -> bytes(max 512) hops 8 {{
  state {{ seen: u32 }}
  step walk(n: Node{n} at 0 for 512) {{
    seen = seen + 1
    let i = n.keys[0..min(n.count, 31)].upper_bound(key)
    if i == 0 {{ fail not_found }}
    if n.kind == leaf{n} {{
      if n.keys[i - 1] != key {{ fail not_found }}
      goto value at n.ptrs[i - 1]
    }}
    goto walk at n.ptrs[i - 1]
  }}
  step value(v: Value{n} for 512) {{
    return v.bytes
  }}
}}
"""


def long_spec(folder):
    """A spec of 1,000 lines, in a file."""
    text, n = 'files pages = "*.idx" { direct immutable }\n', 0
    while text.count("\n") + LONG_PART.count("\n") <= 1000:
        text += LONG_PART.format(n=n)
        n += 1
    text += "# The last lines are comments, so that it is 1,000.\n" * (1000 - text.count("\n"))
    path = folder / "thousand.chain"
    path.write_text(text)
    return path


def run(quick):
    build("chainc")
    WORK.mkdir(parents=True, exist_ok=True)
    rounds = rounds_of(5 if quick else 21)
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        folder = pathlib.Path(name)
        commands = record(LIBRARY, folder)
        thousand = long_spec(folder)
        ours, clang, checks, artifacts = [], [], [], set()
        for turn in range(rounds):
            progress(f"round {turn + 1} of {rounds} …")
            ours.append(compile_with_chainc(LIBRARY, folder / "out.o"))
            artifacts.add((folder / "out.o").read_bytes())
            clang.append(clang_alone(commands))
            checks += [check_seconds(thousand, folder / "stages") for _ in range(5)]
        progress("")
        lines = sum((pathlib.Path(command["folder"]) / word).read_text().count("\n")
                    for command in commands for word in command["words"] if word.endswith(".c"))
    rows = [
        less_is_better("SQLite library, chainc against clang alone", ours, clang, "clang alone", "s", round(1 / 1.3, 2)),
        less_is_better("SQLite library, chainc", ours, [1.5] * rounds, "limit", "s", 1.0),
        less_is_better("front end and checks of 1,000 lines", [1000 * front for _, front in checks], [20.0] * len(checks), "limit", "ms", 1.0),
        less_is_better("chainc --check of them, with lowering, passes and limits", [1000 * whole for whole, _ in checks], [20.0] * len(checks), "as above", "ms"),
    ]
    notes = [f"the SQLite library: {len(LIBRARY.read_text().splitlines())} lines of ChainIO, {len(commands)} runs of clang over {lines:,} lines of C in all; medians of {rounds} rounds",
             "clang is at its share when chainc takes at most 1.3 times as long: a ratio of 0.77", ""]
    return Result("compile", len(artifacts) == 1, rows, notes)
