#!/usr/bin/env python3
"""Programs whose reads with O_DIRECT are served from memory see what they would see without: results, errors and bytes."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import expect

FIXTURE = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "served" / "reads.c"
COMPILER = shutil.which("clang-19") or shutil.which("cc")
# All of the file, whatever was read of it.
SPEC = """app reads { files fixed = "*.fix" { immutable } }
chain whole on read(fixed) as r { prefetch r.file at 0 for 1MiB }
"""
PAGES = 180
MEMORY = "/dev/shm"


def fill(folder):
    """Files whose pages all differ, the last of them cut, which have not changed for a while."""
    for name, seed in (("a.fix", 1), ("b.fix", 2)):
        pages = [bytes((page * 7 + seed * 13 + at * (page % 5 + 1)) % 251 for at in range(4096)) for page in range(PAGES)]
        (folder / name).write_bytes(b"".join(pages) + b"end" * 300)
    runs.drop_from_memory(folder / "a.fix", folder / "b.fix")


def plain(folder, program, mode):
    fill(folder.path)
    done = subprocess.run([program, mode], cwd=folder.path, capture_output=True, timeout=runs.LONGEST, stdin=subprocess.DEVNULL)
    if done.returncode == 77:
        print("skipped: this file system has no O_DIRECT")
        sys.exit(77)
    return done


def served(summary):
    return (summary or {}).get("classes", [{}])[0].get("served", 0)


def behind_the_end(done):
    return [line for line in done.stderr.decode().splitlines() if line.startswith("zeros behind the end")]


def test_mode(folder, program, mode, least):
    before = plain(folder, program, mode)
    for _ in runs.tries():
        fill(folder.path)
        done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate"], [program, mode])
        same = done.stdout == before.stdout
        if not same or served(summary) >= least:
            break
    expect(f"{mode}: what the program sees", (done.returncode, done.stdout.decode().splitlines()), (before.returncode, before.stdout.decode().splitlines()))
    if mode == "places":
        expect("places: what is behind the end", behind_the_end(done), behind_the_end(before))
    expect(f"{mode}: at least {least} reads were served", summary, lambda s: served(s) >= least)
    return summary


def test_killed(folder, program):
    before = plain(folder, program, "orphaned")
    fill(folder.path)
    with folder.start(["--spec", "reads.chain", "--quiet"], [program, "orphaned"], stdout=subprocess.PIPE) as run:
        out = run.stdout.read()  # to its end, beyond that of the server
    expect("the server is killed: what the program sees", (run.returncode, out.decode().splitlines()), (-9, before.stdout.decode().splitlines()))
    for left in runs.left_overs(run.pid):
        shutil.rmtree(left, ignore_errors=True)  # a run beside clears up as well


def test_refused(folder, program):
    done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate"], [program, "ringed"])
    if b"ring 0" not in done.stderr:
        print("note: no io_uring here:", done.stderr.decode().strip())
    else:
        expect("beside an io_uring nothing is served", summary, lambda s: served(s) == 0 and any("io_uring" in note for note in s["notes"]))
    fill(folder.path)
    done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate", "--served", "0"], [program, "places"])
    expect("no memory: nothing is served, and the summary says why", summary,
           lambda s: served(s) == 0 and any("--served 0" in note for note in s["notes"]))


def prepared(folder):
    (folder.path / "reads.chain").write_text(SPEC)
    program = str(folder.path / "reads")
    subprocess.run([COMPILER, "-O1", "-pthread", str(FIXTURE), "-o", program], check=True)
    return program


def has_direct_reads(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_in_memory():
    """A file system that copies leaves what is behind the end of a file as it was."""
    if not os.path.isdir(MEMORY):
        return print(f"note: there is no {MEMORY}")
    with runs.Folder(MEMORY) as folder:
        program = prepared(folder)
        if not has_direct_reads(program):
            return print(f"note: {MEMORY} has no O_DIRECT, Linux 6.6 has")
        test_mode(folder, program, "places", 8)


def main():
    with runs.Folder() as folder:
        program = prepared(folder)
        summary = test_mode(folder, program, "places", 8)
        expect("the chain knows of it", runs.chain(summary, "whole"), lambda c: 0 < c["served"] <= c["hits"] + c["late"])
        test_mode(folder, program, "fortified", 70)
        test_mode(folder, program, "copies", 5000)
        summary = test_mode(folder, program, "changes", 3)
        expect("that the file has changed is told", summary["notes"], lambda notes: any("though its class is immutable" in note for note in notes))
        test_mode(folder, program, "replaced", 2)
        test_mode(folder, program, "interrupted", 5000)
        test_killed(folder, program)
        test_refused(folder, program)
        explained = folder.run(["--spec", "reads.chain", "--explain"], [program, "places"])
        expect("--explain says it", explained.stderr.decode(), lambda text: "a.fix" in text and "memory that its reads are served from" in text and "served" in text)
    test_in_memory()
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
