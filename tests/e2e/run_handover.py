#!/usr/bin/env python3
"""The launcher, which starts a program, becomes chainio-run once there is more to do: what a caller can see of that, and what a kill leaves."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from run_process import PYTHON, SAYS, SPEC, until
from runs import CHAINC, CHAINIO, expect

# Opens what matches when it is told to, and says which signals came.
PATIENT = SAYS.replace("import os,", "import os, select,") + """
def got(number, frame): say("got", signal.Signals(number).name)
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)
for number in (signal.SIGUSR1, signal.SIGRTMIN, signal.SIGCHLD): signal.signal(number, got)
say("ready")
while True:
    ready = select.select([0, came], [], [])[0]
    if came in ready: os.read(came, 1)
    else:
        told = os.read(0, 100)
        if b"open\\n" in told: open("a.note", "rb", buffering=0).read(100); say("opened")
        if b"end\\n" in told: sys.exit(5)
        if told == b"": break
"""


def is_now(pid, name):
    """Waits until the process executes the program of that name, and says how many threads it has."""
    deadline = time.monotonic() + runs.LONGEST
    while pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name != name and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(os.listdir(f"/proc/{pid}/task"))


def test_handover(folder):
    """A spec from the cache: nothing is made before the program has opened what matches; then it is, in the same process."""
    spec, file = ["--spec", "good.chain"], folder.path / "handover.json"
    p = folder.start([*spec, "--json", "--summary", file], [PYTHON, "-c", PATIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    until(p.stdout, "ready")
    expect("before a match there is the launcher, of one thread", is_now(p.pid, "chainio"), 1)
    for matched in (False, True):
        if matched:
            p.stdin.write("open\n")
            until(p.stdout, "opened")
            p.send_signal(signal.SIGRTMIN)  # perhaps while one program becomes the other
            expect("a signal at the handover is passed on", until(p.stdout, "got"), "got SIGRTMIN")
            is_now(p.pid, "chainio-run")
        p.send_signal(signal.SIGUSR1)
        expect(f"{'after' if matched else 'before'} it a signal is passed on", until(p.stdout, "got"), "got SIGUSR1")
        done = subprocess.run([CHAINIO, "top", str(p.pid), "--once", "--json"], capture_output=True, text=True, timeout=runs.LONGEST)
        expect("and top sees the run", (done.returncode, [c["name"] for c in json.loads(done.stdout or "{}").get("chains", [])]), (0, ["ahead"]))
    p.stdin.write("end\n")
    p.stdin.close()
    expect("it ends as the program does", (p.wait(runs.LONGEST), runs.left_overs(p.pid)), (5, []))
    p.stdout.close()
    expect("what was read before there was a server counts", json.loads(file.read_text())["classes"][0]["reads"], 1)
    done, summary = folder.summarized(spec, [PYTHON, "-c", PATIENT], input=b"end\n")
    expect("without a match there is a summary all the same", (done.returncode, [c["name"] for c in summary["chains"]], summary["notes"]),
           lambda r: r[:2] == (5, ["ahead"]) and any("nothing that the program opened" in note for note in r[2]))
    p = folder.start([*spec, "--quiet"], [PYTHON, "-c", PATIENT, "a.note"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    until(p.stdout, "ready")
    is_now(p.pid, "chainio-run")
    expect("a program whose argument matches has its server before it opens anything", pathlib.Path(os.readlink(f"/proc/{p.pid}/exe")).name, "chainio-run")
    p.stdin.write("end\n")
    p.stdin.close()
    expect("which ends as the program does", (p.wait(runs.LONGEST), runs.left_overs(p.pid)), (5, []))
    p.stdout.close()
    folder.environment["CHAINIO_STARTED"] = f"{os.getpid()} 0 0 0 0 /dev/null"
    done = folder.run(["--spec", "good.o", "--quiet"], ["sh", "-c", "exit 6"])
    del folder.environment["CHAINIO_STARTED"]
    expect("a variable that came from elsewhere means nothing", done.returncode, 6)
    expect("an option that only the whole program knows", folder.run([*spec, "--in-flight", "8", "--quiet"], ["sh", "-c", "exit 7"]).returncode, 7)
    expect("a wrong one", folder.run([*spec, "--in-flight", "0"], ["true"]).returncode, 2)


def test_folder(folder):
    """The folder that chainio was started in is not kept busy, unless the summary is to lie there."""
    for spec in ("good.o", "good.chain"):
        for summary, stays in ((None, False), (folder.path / "absolute.json", False), ("/dev/stderr", False), ("relative.json", True)):
            options = ["--spec", spec, *(["--summary", summary] if summary else ["--quiet"])]
            p = folder.start(options, [PYTHON, "-c", PATIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
            until(p.stdout, "ready")
            p.stdin.write("open\n")
            until(p.stdout, "opened")
            server, here = [], str(folder.path.resolve())
            deadline = time.monotonic() + runs.LONGEST
            is_now(p.pid, "chainio-run")
            while time.monotonic() < deadline and [os.readlink(f"/proc/{number}/cwd") for number in server] != ["/"]:
                server = runs.servers_of(p.pid)
            while time.monotonic() < deadline and not stays and os.readlink(f"/proc/{p.pid}/cwd") != "/":
                time.sleep(0.005)
            folders = [os.readlink(f"/proc/{number}/cwd") for number in (p.pid, *server, *runs.programs_of(p.pid))]
            expect(f"{spec}, a summary to {summary}: the folders of chainio, its server and the program", folders, [here if stays else "/", "/", here])
            p.stdin.write("end\n")
            p.stdin.close()
            expect("  it ends as the program does", p.wait(runs.LONGEST), 5)
            p.stdout.close()
            if summary and summary != "/dev/stderr":
                expect("  and the summary is where it should be", (folder.path / summary).exists(), True)
                (folder.path / summary).unlink()


# In the place of chainio-run: whether the run's folder is locked, and what it would become.
BETWEEN = """#!/bin/sh
region="${CHAINIO_STARTED#* * * * * }"
flock -n -E 9 "${region%%/region}" true
echo $? >> between
exec %s/bin/chainio-run "$@"
"""


def test_lock_at_handover(folder):
    """Those who cannot see the process know by its lock that the run's folder is in use: also while one program becomes the other."""
    place = folder.path / "bin"
    place.mkdir()
    shutil.copy(CHAINIO, place / "chainio")
    (place / "chainio-run").write_text(BETWEEN % runs.BUILD.resolve())
    (place / "chainio-run").chmod(0o755)
    own = {**folder.environment, "PATH": f"{runs.BUILD.resolve()}/bin:{os.environ['PATH']}"}
    fds = [PYTHON, "-c", "import os; open('a.note').read(); print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"]
    command = [place / "chainio", "run", "--spec", "good.chain", "--library", runs.BUILD / "lib" / "libchainio.so", "--summary", "between.txt", "--", *fds]
    for _ in range(2):
        (folder.path / "between").write_text("")
        done = subprocess.run(command, env=own, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("the folder is locked at the handover, by nothing that the program has", (done.returncode, done.stdout, (folder.path / "between").read_text()),
           (0, b"[0, 1, 2]\n", "9\n"))


def came_up(trace):
    """Waits until the server's process is there."""
    deadline = time.monotonic() + runs.LONGEST
    while "chainio-server" not in trace.read_text() and time.monotonic() < deadline:
        time.sleep(0.005)


def ends_of_servers(trace):
    """How strace saw the servers' processes end."""
    servers = re.findall(r'^(\d+) +prctl\(PR_SET_NAME, "chainio-server"', trace, flags=re.M)
    return [end for pid in servers for end in re.findall(rf"^{pid} +\+\+\+ (.*) \+\+\+$", trace, flags=re.M)]


def test_quiet(folder):
    """Nobody asks the server of a quiet run what there was: it is not waited for, however long it would take."""
    for name, options, ending in (("that says nothing", ["--quiet"], "killed by SIGKILL"), ("whose summary is wanted", ["--quiet", "--summary", "quiet.txt"], "exited with 0")):
        for how, more in (("started beside its program", []), ("started before it", ["--in-flight", "8"])):
            trace = folder.path / "quiet.trace"
            command = ["strace", "-f", "-o", trace, "-e", "trace=prctl", CHAINIO, "run", "--spec", "good.chain", *options, *more, "--", PYTHON, "-c", PATIENT, "a.note"]
            p = folder.launch(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            until(p.stdout, "ready")
            p.stdin.write("open\n")
            until(p.stdout, "opened")
            came_up(trace)
            p.stdin.write("end\n")
            p.stdin.close()
            expect(f"a run {name}: it ends as the program does", p.wait(runs.LONGEST), 5)
            p.stdout.close()
            expect(f"  and its server, {how}", ends_of_servers(trace.read_text()), [ending])


def is_held(path):
    """Whether somebody of the run holds the lock on its folder."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def test_killed(folder):
    """Whatever chainio is when it is killed, the program goes on, and the next run takes away what was left."""
    for words, name in (([], "chainio"), (["a.note"], "chainio-run")):
        p = folder.start(["--spec", "good.chain", "--quiet"], [PYTHON, "-c", PATIENT, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        until(p.stdout, "ready")
        is_now(p.pid, name)
        p.kill()
        p.wait(runs.LONGEST)
        p.stdin.write("open\n")
        expect(f"{name} is killed: the program reads on", until(p.stdout, "opened"), "opened")
        p.stdin.write("end\n")
        p.stdin.close()
        expect("  and ends", p.stdout.read(), "")
        p.stdout.close()
        # Its server may still be ending. And the next run of another test may have been quicker.
        netns.until("nobody has it any more", lambda: not any(map(is_held, runs.left_overs(p.pid))))
        expect("  the next run removes what was left", (folder.run(["--spec", "good.chain", "--quiet"], ["true"]).returncode, runs.left_overs(p.pid)), (0, []))


def test_follow_earlier(folder, spec):
    """Children that chainio has from before it was executed are not waited for, but what the program leaves behind is."""
    (folder.path / "out").unlink(missing_ok=True)
    for earlier in ("sleep 1000 &", "sleep 1000 & sleep 1000 &"):
        shell = f'{earlier} echo $!; exec "$@"'
        reading, writing = os.pipe()
        rest = f"sleep 1000 & echo $!; (read line <&{reading}; cat a.note > out) & echo $$; exit 4"
        command = ["sh", "-c", shell, "sh", *folder.command([*spec, "--quiet", "--follow"], ["sh", "-c", rest])]
        with folder.launch(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True, pass_fds=[reading]) as p:
            os.close(reading)
            try:
                last = pathlib.Path("/proc", p.stdout.readline().strip(), "comm")
                some = int(p.stdout.readline())
                program = pathlib.Path("/proc", p.stdout.readline().strip())
                netns.until("--follow: the program ends first", lambda: not program.exists())
                os.kill(some, signal.SIGKILL)
                # By chainio, which so has looked at what else is left, or by whoever has it after chainio.
                netns.until("  some of its rest ends and is collected", lambda: not pathlib.Path("/proc", str(some)).exists())
                expect("  the last of the rest is waited for", p.poll(), None)
                os.write(writing, b"go on\n")
                expect("--follow ends before a child that was there earlier", p.wait(runs.LONGEST / 4), 4)
                netns.until("  which goes on", lambda: last.read_text() == "sleep\n")
                expect("  and not before the last of the run", len((folder.path / "out").read_text()), 100_000)
            except (subprocess.TimeoutExpired, OSError, AssertionError) as error:
                expect("--follow ends with the last of the run, and no child that was there earlier", repr(error), "as it should")
            finally:
                os.close(writing)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
        (folder.path / "out").unlink(missing_ok=True)


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        subprocess.run([CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        folder.run(["--spec", "good.chain"], ["true"])  # from then on it comes from the cache
        for test in (test_handover, test_folder, test_lock_at_handover, test_quiet, test_killed):
            test(folder)
        for spec in (["--spec", "good.o"], ["--spec", "good.chain"]):
            test_follow_earlier(folder, spec)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
