#!/usr/bin/env python3
"""Whatever system call of chainio and of what it becomes fails: the program runs, once, ends as ever, and nothing of the run is left."""
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import faults
import runs
from run_process import SPEC
from runs import expect

SCRIPT = "#!/bin/sh\necho once >> ran\ncat a.note\nexit 5\n"  # without an argument, which chainio would look at beside what it does
SOME = 16  # of the calls, by chance; the other ones have to wait for another run of this test, or for CHAINIO_SOAK
TOLD_NOTHING = "chainio: there is no memory for what chainio-run has to be told; the program goes on plain\n"


def run(folder, *strace, options=()):
    """How the program ended, what it did, and what is there of the run behind it; and what was said."""
    ran = folder.path / "ran"
    ran.write_text("")
    command = ["strace", "-qq", "-o", folder.path / "log", *strace, *folder.command(["--spec", "good.chain", *options], ["./script"])]
    done = subprocess.run(command, env=folder.environment, cwd=folder.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=runs.LONGEST)
    left = sorted(os.listdir(folder.environment["XDG_RUNTIME_DIR"]))
    return (done.returncode, len(done.stdout), ran.read_text(), left), done.stderr.decode()


GOOD = (5, 100_000, "once\n", [])


def parts(folder):
    """The calls of the launcher; those of what it becomes, from where it maps the run's memory on: before that its loader works."""
    how, said = run(folder)
    made = faults.calls(folder.path / "log")
    becomes = [index for index, call in enumerate(made) if call.name == "execve"][1]
    maps = next(index for index, call in enumerate(made) if index > becomes and '/region"' in call.line)
    expect("without errors", (how, "1 process" in said), (GOOD, True))
    loaded = next((index for index, call in enumerate(made[:becomes]) if "RLIMIT_STACK" in call.line), 0)  # static: there is no loader
    return made[loaded:becomes], made[maps:]


def test_telling(folder, launcher):
    """Of a program that it was not told of, chainio-run would start another one."""
    started = next(index for index, call in enumerate(launcher) if call.name == "clone")
    asked = [call for call in launcher[started:] if call.name == "mmap"]
    if not asked:
        print("skipped: the launcher asks for no memory once the program is there, as one that is not linked to musl")
        return
    last = asked[-1]
    how, said = run(folder, *last.fails_with("ENOMEM"))
    expect("no memory for the handover", how, GOOD)
    expect("  which is said, where there was none", said, lambda text: text == TOLD_NOTHING or "1 process" in text)


def test_mapping(folder, rest):
    """A chainio-run that cannot map the run's memory says why, and takes that away."""
    end = next(index for index, call in enumerate(rest) if call.name in ("pipe2", "waitid"))
    tried = 0
    for call in rest[:end]:
        error, text = {"openat": ("EMFILE", "Too many open files"), "open": ("EMFILE", "Too many open files"),
                       "mmap": ("ENOMEM", "Cannot allocate memory; a limit of address space (ulimit -v) counts here, too")}.get(call.name, (None, None))
        if error is None:
            continue
        how, said = run(folder, *call.fails_with(error))
        note = f"/region: cannot be mapped: {text}\n"
        expect(f"{call.name} {call.number} of the run's memory: {error}", (how, "note: the server ended early: " in said and note in said), (GOOD, True))
        tried += 1
    expect("  of both files, each opened and mapped", tried, 4)


def test_server(folder, rest):
    pipes = [call for call in rest if call.name == "pipe2"]
    how, said = run(folder, *pipes[0].fails_with("EMFILE"))
    note = "note: the server ended early: there can be no process for the server: Too many open files; the limit of open files (`ulimit -n`) is met: raise it\n"
    expect("no descriptor for the server", (how, note in said), (GOOD, True))


def test_artifact(folder):
    """An artifact that cannot be read is no source."""
    subprocess.run([runs.CHAINC, folder.path / "good.chain", "-o", folder.path / "good.o"], check=True)
    command = ["strace", "-qq", "-o", folder.path / "log", *folder.command(["--spec", "good.o"], ["true"])]
    subprocess.run(command, env=folder.environment, cwd=folder.path, check=True, capture_output=True, timeout=runs.LONGEST)
    made = faults.calls(folder.path / "log")
    opened = next(index for index, call in enumerate(made) if call.name == "openat" and '"good.o"' in call.line)
    first = next(call for call in made[opened:] if call.name == "pread64")
    done = subprocess.run([*command[:4], *first.fails_with("EIO"), *command[4:]], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("an artifact of which nothing can be read", (done.returncode, done.stderr), (3, b"chainio run: cannot read the spec `good.o`: Input/output error\n"))


def test_helper(folder):
    """What looks for a program's system calls does not read that program's input, nor write to its output."""
    for number, why in ((1, "its file cannot be read"), (2, "chainio-sites does not run")):
        how, said = run(folder, "-f", "-e", f"inject=dup3:error=EBUSY:when={number}", options=["--rewrite"])
        expect(f"a helper without its own {'input' if number == 1 else 'output'}", (how, why in said), (GOOD, True))


def test_each(folder, made):
    """Any of them, others from run to run."""
    seed = random.randrange(1 << 32)
    tries = [call for call in made if call.name in faults.ERRORS]
    chosen, bad = tries if "CHAINIO_SOAK" in os.environ else random.Random(seed).sample(tries, SOME), []
    for call in chosen:
        how, said = run(folder, *call.fails_with(faults.ERRORS[call.name]))
        if how != GOOD or not said:
            bad.append((call.line[:100], faults.ERRORS[call.name], how, said[:300]))
    print(f"      {len(chosen)} of {len(tries)} calls failed, seed {seed}")
    expect("whichever call fails, the program runs once, and something is said", bad, [])


def main():
    if why := faults.why_not():
        print(f"skipped: {why}")
        return 77
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "script").write_text(SCRIPT)
        (folder.path / "script").chmod(0o755)
        (folder.path / "a.note").write_bytes(os.urandom(100_000))
        folder.environment["XDG_RUNTIME_DIR"] = str(folder.path / "run")
        (folder.path / "run").mkdir()
        folder.run(["--spec", "good.chain"], ["true"])  # so that the spec is in the cache
        launcher, rest = parts(folder)
        test_telling(folder, launcher)
        test_mapping(folder, rest)
        test_server(folder, rest)
        test_artifact(folder)
        test_helper(folder)
        test_each(folder, [*launcher[1:], *(call for call in rest if call.name in ("pipe2", "clone", "pidfd_open", "mmap"))])
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
