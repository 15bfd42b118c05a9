#!/usr/bin/env python3
"""chainio run beside a file system that stops answering: the run ends with its program all the same."""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
import silence
from runs import expect

SPEC = """files notes = "*.note"
chain ahead on read(notes) as r { prefetch r.file at 512KiB for 64KiB }
"""
# The first page names 40 others, and a walk reads each.
WALKS = """files notes = "*.note"
record Page { count: u32le  page: u32le[count max 64] }
chain reach(db: file notes, page: u32) -> u8 hops 2 { step there(p: Page at page * 4096 for 4096 in db) { return 1 } }
chain follow on read(notes) as r { for p in r.record(Page).page max 64 { prefetch via reach(r.file, p) } }
"""
NAMED = 40
NAMING = struct.pack(f"<{NAMED + 1}I", NAMED, *range(200, 200 + NAMED)).ljust(1 << 20, b"\0")
# Of the file system nothing is open in the program when it says that it has read.
PROGRAM = """import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for at in range(8): os.pread(fd, 4096, at * 4096)
os.close(fd)
print("read", flush=True)
if sys.argv[2:]: print(sum(map(len, iter(lambda: sys.stdin.buffer.read1(), b""))), flush=True)
os._exit(int(sys.argv[2]) if sys.stdin.readline() == "" else 1)
"""


def is_there(pid):
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def until(what, holds):
    end = time.monotonic() + runs.LONGEST
    while not holds():
        if time.monotonic() > end:
            return expect(what, "not in time", "")
        time.sleep(0.01)
    return True


def fetch_without_end(folder, spec):
    """What the server reads ahead does not come, nor when the program has ended."""
    mount = folder.path / "volume"
    mount.mkdir(exist_ok=True)
    with silence.Volume(mount, "a.note") as volume:
        volume.silent_from = 512 << 10
        run = folder.start(["--spec", *spec, "--no-gate"], [sys.executable, "-c", PROGRAM, mount / "a.note", "7"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(f"{spec[0]}, a fetch: the program has read", run.stdout.readline(), "read\n")
        expect("  what is fetched does not come", volume.asked.wait(runs.LONGEST), True)
        servers = runs.servers_of(run.pid)
        out, err = run.communicate(timeout=runs.LONGEST)
        expect("  the run ends as its program", (run.returncode, out), (7, "0\n"))
        expect("  and counts what was given up", re.search(r"note: fetches that had not ended a second after the program were given up \((\d+) times\)\n", err), lambda found: found and int(found[1]) > 0)
        expect("  leaves no folder", runs.left_overs(run.pid), [])
    for pid in servers:
        until("  its server is gone when the file system is", lambda pid=pid: not is_there(pid))


def walks_without_end(folder):
    """What many walks read ahead does not come: nobody waits for it when the program has ended."""
    mount = folder.path / "volume"
    mount.mkdir(exist_ok=True)
    (folder.path / "walks.chain").write_text(WALKS)
    with silence.Volume(mount, "a.note", NAMING, at_once=2 * NAMED) as volume:
        volume.silent_from = 512 << 10
        run = folder.start(["--spec", "walks.chain", "--no-gate", "--json"], [sys.executable, "-c", PROGRAM, mount / "a.note", "7"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect("walks: the program has read", run.stdout.readline(), "read\n")
        expect("  what they read does not come", volume.asked.wait(runs.LONGEST), True)
        servers = runs.servers_of(run.pid)
        out, err = run.communicate(timeout=runs.LONGEST)
        said = json.loads(err)
        expect("  the run ends as its program", (run.returncode, out, said["chains"][0]["walks"]), (7, "0\n", NAMED))
        expect("  and has waited for none of them", [note for note in said["notes"] if "given up" in note], [])
    for pid in servers:
        until("  its server is gone when the file system is", lambda pid=pid: not is_there(pid))


def with_silence(folder, spec, reads_on):
    """The server is stuck in a call when the program ends: it has nothing to fetch any more, but looks at the file again and again."""
    what = f"{spec[0]}, a request that is {'taken' if reads_on else 'left lying'}"
    mount = folder.path / "volume"
    mount.mkdir(exist_ok=True)
    with silence.Volume(mount, "a.note") as volume:
        run = folder.start(["--spec", *spec], [sys.executable, "-c", PROGRAM, mount / "a.note", "5"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(f"{what}: the program has read", run.stdout.readline(), "read\n")
        expect("  what is fetched has come", volume.read_far.wait(runs.LONGEST), True)
        expect("  its file is closed", volume.released.wait(runs.LONGEST), True)
        volume.be_silent(reads_on)
        expect("  its server asks something that is not answered", volume.asked.wait(runs.LONGEST), True)
        servers = runs.servers_of(run.pid)
        expect("  it has one server", len(servers), 1)
        out, err = run.communicate(timeout=runs.LONGEST)  # which ends its input, and waits for the end of what it says
        expect("  the run ends as its program", (run.returncode, out), (5, "0\n"))
        expect("  says so, with its figures", err, lambda text: "ended with 5" in text and "notes" in text)
        # What the server does just then is its own affair, and which call libc's fstat is.
        given_up = [f"note: 1 call was given up, which had not returned 5 s after the program's end: {call} of {mount}/a.note; " for call in ("newfstatat", "fstat", "close", "io_uring_enter")]
        expect("  names what was given up", err, lambda text: any(note in text for note in given_up))
        expect("  leaves no folder", runs.left_overs(run.pid), [])
    for pid in servers:
        until("  its server is gone when the file system is", lambda pid=pid: not is_there(pid))


def argument(folder, reads_on):
    """An argument names what does not answer, and the program does nothing with it: before there is a server."""
    what = f"an argument, a request that is {'taken' if reads_on else 'left lying'}"
    mount = folder.path / "volume"
    mount.mkdir(exist_ok=True)
    with silence.Volume(mount, "a.note") as volume:
        volume.be_silent(reads_on)
        run = folder.start(["--spec", "spec.chain"], ["sh", "-c", "cat; exit 8", "sh", mount / "a.note"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(f"{what}: it is looked at", volume.asked.wait(runs.LONGEST), True)
        out, err = run.communicate("on\n", timeout=runs.LONGEST)
        expect("  the run ends as its program", (run.returncode, out), (8, "on\n"))
        expect("  with a summary", err, lambda text: "sh ended with 8" in text)
        expect("  leaves no folder", runs.left_overs(run.pid), [])


def spec_gone(folder):
    """The spec itself lies where nobody answers any more when the server is to load it."""
    mount = folder.path / "volume"
    mount.mkdir(exist_ok=True)
    with silence.Volume(mount, "here.chain", SPEC.encode()) as volume:
        spec = ["--spec", mount / "here.chain"]
        folder.run([*spec, "--quiet"], ["true"])  # into the cache
        run = folder.start(spec, ["sh", "-c", "echo on; read line; cat b.note | wc -c; cat; exit 4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect("a spec: the program runs", run.stdout.readline(), "on\n")
        volume.be_silent(True)
        run.stdin.write("\n")
        run.stdin.flush()
        expect("  its server asks something that is not answered", volume.asked.wait(runs.LONGEST), True)
        out, err = run.communicate(timeout=runs.LONGEST)
        expect("  the run ends as its program", (run.returncode, out), (4, f"{1 << 20}\n"))
        expect("  names what was given up", err, lambda text: re.search(rf"note: 1 call was given up, which had not returned 10 s after the program's end: \w+ of {mount}/here.chain; ", text))
        expect("  leaves no folder", runs.left_overs(run.pid), [])


def server_killed(folder, spec):
    """A server that dies leaves a program whose end is still heard of."""
    run = folder.start(["--spec", *spec], [sys.executable, "-c", PROGRAM, folder.path / "b.note", "6"], stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect("a server that is killed: the program has read", run.stdout.readline(), "read\n")
    until("  it has a server", lambda: runs.servers_of(run.pid))
    os.kill(runs.servers_of(run.pid)[0], signal.SIGKILL)  # ours: started above
    out, err = run.communicate(timeout=runs.LONGEST)
    expect("  the run ends as its program", (run.returncode, out), (6, "0\n"))
    expect("  and says how the server ended", err, lambda text: "note: the server ended early: its process died of signal 9 (Killed)\n" in text)
    expect("  leaves no folder", runs.left_overs(run.pid), [])


def server_stopped(folder):
    """A server that somebody has stopped says nothing, and that is why."""
    run = folder.start(["--spec", "spec.chain"], [sys.executable, "-c", PROGRAM, folder.path / "b.note", "6"], stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect("a server that is stopped: the program has read", run.stdout.readline(), "read\n")
    until("  it has a server", lambda: runs.servers_of(run.pid))
    server = runs.servers_of(run.pid)[0]
    os.kill(server, signal.SIGSTOP)  # ours: started above
    out, err = run.communicate(timeout=runs.LONGEST)
    expect("  the run ends as its program", (run.returncode, out), (6, "0\n"))
    expect("  and says why the server said nothing", [line for line in err.splitlines() if "given up" in line],
           lambda lines: len(lines) == 1 and re.fullmatch(r"  note: the server was given up \d+ s after the program's end: a signal has stopped it \(SIGSTOP\); what else it had to say is lost", lines[0]))
    until("  the server is gone", lambda: not is_there(server))
    expect("  leaves no folder", runs.left_overs(run.pid), [])


def main():
    with runs.Folder() as folder:
        (folder.path / "spec.chain").write_text(SPEC)
        (folder.path / "b.note").write_bytes(bytes(1 << 20))
        subprocess.run([runs.CHAINC, "spec.chain", "-o", "spec.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        folder.run(["--spec", "spec.chain", "--quiet"], ["true"])  # into the cache
        for spec in (["spec.chain"], ["spec.o"]):
            server_killed(folder, spec)
        server_stopped(folder)
        why = silence.why_not()
        if why:
            print(f"skipped: a file system that does not answer: {why}")
            return
        spec_gone(folder)
        walks_without_end(folder)
        for reads_on in (True, False):
            argument(folder, reads_on)
        for spec in (["spec.chain"], ["spec.o"]):
            fetch_without_end(folder, spec)
            for reads_on in (True, False):
                with_silence(folder, spec, reads_on)


main()
sys.exit(runs.ended())
