#!/usr/bin/env python3
"""Programs whose reads with O_DIRECT are served from memory see what they would see without: results, errors and bytes."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from rings import LIBURING
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
    if folder.parent != pathlib.Path(MEMORY):
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
    with folder.start(["--spec", "reads.chain", "--quiet", "--no-gate"], [program, "orphaned", runs.LONGEST], stdout=subprocess.PIPE) as run:
        out = run.stdout.read()  # to its end, beyond that of the server
    expect("the server is killed: what the program sees", (run.returncode, out.decode().splitlines()), (-9, before.stdout.decode().splitlines()))
    for left in runs.left_overs(run.pid):
        shutil.rmtree(left, ignore_errors=True)  # a run beside clears up as well


def test_refused(folder, program):
    done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate"], [program, "ringed"])
    if b"ring 0" not in done.stderr:
        print("skipped: no io_uring here:", done.stderr.decode().strip())
    else:
        expect("beside an io_uring nothing is served", summary, lambda s: served(s) == 0 and any("io_uring" in note for note in s["notes"]))
    fill(folder.path)
    done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate", "--served", "0"], [program, "places"])
    expect("no memory: nothing is served, and the summary says why", summary,
           lambda s: served(s) == 0 and any("--served 0" in note for note in s["notes"]))


BY_VECTORS = """import mmap, os
fd, room = os.open("a.fix", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
for i in range(180 * 20): os.preadv(fd, [room], 4096 * (i % 180))
"""


def test_vectors(folder):
    for _ in runs.tries():
        fill(folder.path)
        done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate"], [sys.executable, "-c", BY_VECTORS])
        said = [note for note in summary["notes"] if "none was served" in note]
        if said:
            break
    expect("vectors are not served, and the summary says so", (done.returncode, served(summary), said), lambda r: r[:2] == (0, 0) and len(r[2]) == 1 and "only `pread` is" in r[2][0])


# Reads, sets up a ring by a library, and reads on for much less time than the server takes until it looks for rings again.
RINGED = """#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int io_uring_queue_init(unsigned, void*, unsigned);
static int ring[128];
static int reads(int fd, char* to, int count) {
    for (int i = 0; i < count; i++) if (pread(fd, to, 4096, 4096L * (i % 180)) != 4096) return 0;
    return 1;
}
int main(int count, char** words) {
    char* to = aligned_alloc(4096, 4096);
    const int fd = open("a.fix", O_RDONLY | O_DIRECT), first = atoi(words[1]), more = atoi(words[2]);
    if (fd < 0 || !reads(fd, to, first)) return 1;
    return io_uring_queue_init(4, ring, 0) < 0 ? 77 : !reads(fd, to, more);
}
"""


def test_ringed_later(folder):
    """A ring that a library of the program sets up is named however short the program lives, and nothing is served from then on."""
    for name, text, options in (("librings.so", LIBURING, ["-shared", "-fPIC"]), ("later", RINGED, ["-Wl,--no-as-needed", "./librings.so", "-Wl,-rpath,$ORIGIN"])):
        (folder.path / "later.c").write_text(text)
        subprocess.run([COMPILER, "-O1", "-w", "later.c", *options, "-o", name], cwd=folder.path, check=True)
    first, more = 1000, 6000  # of the first all have room in a ring
    for _ in runs.tries():
        fill(folder.path)
        done, summary = folder.summarized(["--spec", "reads.chain", "--no-gate"], ["./later", first, more])
        if done.returncode == 77:
            return print("skipped: no io_uring here")
        if done.returncode != 0 or served(summary) >= 8:
            break
    expect("a ring of a library is named", (done.returncode, summary["notes"]), lambda r: r[0] == 0 and any("io_uring" in note for note in r[1]))
    expect(f"of {first} reads before it and {more} behind it at most the first are served", served(summary), lambda n: 8 <= n <= first)


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
        return print(f"skipped: there is no {MEMORY}")
    with runs.Folder(MEMORY) as folder:
        program = prepared(folder)
        if not has_direct_reads(program):
            return print(f"skipped: {MEMORY} has no O_DIRECT, Linux 6.6 has")
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
        test_ringed_later(folder)
        test_vectors(folder)
        explained = folder.run(["--spec", "reads.chain", "--explain"], [program, "places"])
        expect("--explain says it", explained.stderr.decode(), lambda text: "a.fix" in text and "memory that its reads are served from" in text and "served" in text)
    test_in_memory()
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
