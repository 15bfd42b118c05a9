#!/usr/bin/env python3
"""What chainio top and the summary show on a terminal: pages that fit, also when its size changes, and names that do nothing to it."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
import started
from runs import CHAINIO, expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n'
CLEAR = b"\x1b[H\x1b[2J"
LAST = "  notes .* [mun]?s"  # what the last line of a page is, where there is room for it
PROGRAM = "f = open('a.note', 'rb', buffering=0); f.read(100); print('runs', flush=True); input()"


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def fill(side):
    """Leaves no room in a terminal for what is written to it next."""
    os.set_blocking(side, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(side, b"-" * 100)
    os.set_blocking(side, True)


def next_pages(terminal, *lasts):
    """What stood before, and as many pages as there are patterns: the last of them has come whole once it ends with a line of its own pattern."""
    data, end = b"", time.monotonic() + runs.LONGEST
    whole = re.compile(rf"(\A|\n){lasts[-1]}\Z")
    while time.monotonic() < end:
        before, *pages = data.split(CLEAR)
        pages = [page.decode(errors="replace") for page in pages]
        if len(pages) > len(lasts) or len(pages) == len(lasts) and whole.search(pages[-1]):
            return before, [page.split("\r\n") for page in pages]
        if select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            data += os.read(terminal, 1 << 16)
    raise TimeoutError(f"no {len(lasts)} whole pages: {data}")


def next_page(terminal, last):
    """The lines of the page that comes next."""
    before, pages = next_pages(terminal, last)
    expect("  the page takes the place of the one before", (len(pages), before), (1, b""))
    return pages[-1]


@contextlib.contextmanager
def looked_at(folder):
    """A run whose program waits for its input, once its server has heard of all that it has done."""
    run = folder.start(["--spec", "good.chain", "--quiet"], [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()

    def heard_of():
        done = subprocess.run([CHAINIO, "top", str(run.pid), "--once", "--json"], capture_output=True, text=True, timeout=runs.LONGEST)
        figures = json.loads(done.stdout or "{}")
        return done.returncode == 0 and figures["processes"] == 1 and figures["chains"][0]["cached"] == 1  # the last that is counted
    try:
        netns.until("the server has heard of the program", heard_of)
        yield run
    finally:
        run.communicate(b"\n", timeout=runs.LONGEST)


@contextlib.contextmanager
def watching(run, full=False):
    """A `top` whose pages come once an hour, so that what is shown meanwhile is of another size only, and its terminal, 200 columns wide; `full` of other things."""
    terminal, side = pty.openpty()
    resize(terminal, 24, 200)
    if full:
        fill(side)
    top = started.start([CHAINIO, "top", str(run.pid), "--interval", "3600"], stdin=side, stdout=side, stderr=side)
    try:
        yield top, terminal
    finally:
        top.kill()
        top.wait()
        os.close(side)
        os.close(terminal)


def test_sizes(folder):
    with looked_at(folder) as run, watching(run) as (top, terminal):
        whole = next_page(terminal, LAST)
        expect("the first page comes at once, and whole", (len(whole), whole[0].startswith(f"chainio run {run.pid}: 1 process")), (5, True))
        for rows, columns, lines, last in ((24, 20, 5, whole[4][:20]), (3, 20, 3, "(3 lines more)"), (1, 7, 1, whole[0][:7]), (24, 200, 5, whole[4])):
            resize(terminal, rows, columns)
            top.send_signal(signal.SIGWINCH)
            got = next_page(terminal, re.escape(last))
            expect(f"{columns} x {rows}", (len(got), max(map(len, got)) <= columns), (lines, True))
            expect("  the begin of its lines", [line for line, all_ in zip(got, whole) if not all_.startswith(line)], ["(3 lines more)"] if rows == 3 else [])
        top.send_signal(signal.SIGINT)
        expect("ctrl-C ends it", top.wait(timeout=runs.LONGEST), 0)


def sleeps_hearing_of(pid, number):
    """Whether the process has a handler for the signal by now, and sleeps."""
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return status["State"].startswith("S") and int(status["SigCgt"], 16) >> number - 1 & 1


def test_sizes_amid_a_page(folder):
    """A size that changes while a page is on its way is not forgotten until the next page, an hour later."""
    with looked_at(folder) as run, watching(run, full=True) as (top, terminal):
        netns.until("it waits for the terminal to have room", lambda: sleeps_hearing_of(top.pid, signal.SIGWINCH))
        resize(terminal, 24, 20)
        top.send_signal(signal.SIGWINCH)
        filler, pages = next_pages(terminal, LAST, "  notes.{13}")
        expect("a page in the size before, and one in the new size", (set(filler), [(len(page), max(map(len, page)) <= 20) for page in pages]),
               (set(b"-"), [(5, False), (5, True)]))


def test_end(folder):
    """Pages come once an hour, and the run ends before the next."""
    with contextlib.ExitStack() as ends:
        with looked_at(folder) as run:
            top, terminal = ends.enter_context(watching(run))
            next_page(terminal, LAST)
        filler, pages = next_pages(terminal, "the run has ended\r\n")
        expect("a last page, as soon as the run has ended", (filler, [page[-2:] for page in pages]), (b"", [["the run has ended", ""]]))
        expect("  which is the end of it", top.wait(timeout=runs.LONGEST), 0)


def test_names(folder):
    name = "a\x1b[31m\r\n.note"
    (folder.path / name).write_bytes(b"n" * 100)
    done = folder.run(["--spec", "good.chain", "--explain"], ["cat", name])
    said = done.stderr.decode()
    expect("a name with an escape and an end of line, in the summary", (done.returncode, "\x1b" in said, "\r" in said), (0, False, False))
    expect("  is one line of it", [line for line in said.splitlines() if "x1b" in line], lambda lines: len(lines) == 1 and r"a\x1b[31m\x0d\x0a.note" in lines[0])
    shown = [folder.start(["--spec", "good.chain", "--quiet"], [sys.executable, "-c", PROGRAM, "\x1b[31m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for run in shown:
        run.stdout.readline()
    for words in (["--once"], ["--once", "--json"], ["--interval", "0.1"]):
        done = subprocess.run([CHAINIO, "top", str(shown[0].pid), *words], stdout=open("/dev/full", "wb"), stderr=subprocess.PIPE, text=True, timeout=runs.LONGEST)
        expect(f"nowhere to write, {words}", (done.returncode, done.stderr),
               (3, "chainio top: cannot write standard output: No space left on device; free some space, or redirect it elsewhere\n"))
    done = subprocess.run([CHAINIO, "top", str(shown[0].pid), "--interval", "nan"], capture_output=True, text=True, timeout=runs.LONGEST)
    expect("no number of seconds", (done.returncode, done.stdout, "--interval: nan is no number of seconds" in done.stderr), (2, "", True))
    several = subprocess.run([CHAINIO, "top", "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
    expect("words of a command line, in the list of runs", (several.returncode, "\x1b" in several.stderr, several.stderr.count(r"\x1b[31m") >= 2), (1, False, True))
    for run in shown:
        run.communicate(b"\n", timeout=runs.LONGEST)


def test_another_user():
    """Root's name without its powers may look at no process of another user."""
    if os.geteuid() != 0:
        print("skipped: another user's process: only root can start one")
        return
    with started.start(["sleep", runs.LONGEST], user=65534, group=65534, extra_groups=[]) as other:
        for who, remedy in ((["--bounding-set=-all", "--inh-caps=-all"], ", as it lacks a capability"),
                            (["--reuid=65533", "--regid=65533", "--clear-groups"], "; be the user that started it, or root")):
            done = subprocess.run(["setpriv", *who, CHAINIO, "top", str(other.pid), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
            expect("another user's process", (done.returncode, done.stderr), (1, f"chainio top: this user may not look at process {other.pid}{remedy}\n"))
        other.kill()


def test_contained(folder):
    """Runs with mounts and process numbers of their own, as in containers, are found from outside by the numbers that they have there."""
    own = folder.path / "private"
    own.mkdir(mode=0o700)
    for what, more in (("mounts", []), ("mounts and numbers", ["--pid", "--fork", "--kill-child", "--mount-proc"])):
        inside = ["unshare", "--map-root-user", "--mount", *more, "sh", "-c", f'mount -t tmpfs none {own} && exec "$@"', "sh"]
        tried = subprocess.run([*inside, "true"], capture_output=True, text=True, timeout=runs.LONGEST)
        if tried.returncode != 0:
            print(f"skipped: a run with {what} of its own: {tried.stderr.strip()}")
            continue
        command = folder.command(["--spec", "good.chain", "--quiet"], [sys.executable, "-c", PROGRAM])
        run = folder.launch([*inside, *command], env={**folder.environment, "XDG_RUNTIME_DIR": str(own)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        run.stdout.readline()

        def of_run(run=run):
            # Of several of a name the one above them: what it starts has its name for a moment.
            return {runs.name_of(pid): pid for pid in (*started.below(run.pid), run.pid)}
        netns.until("the launcher has become what serves it", lambda: "chainio-run" in of_run())
        server, program = of_run()["chainio-run"], next(pid for name, pid in of_run().items() if name.startswith("python"))

        def top(*words):
            done = subprocess.run([CHAINIO, "top", *map(str, words), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
            return done.returncode, done.stdout + done.stderr
        expect(f"a run with {what} of its own, by itself", top(server), lambda done, server=server: done[0] == 0 and done[1].startswith(f"chainio run {server}: "))
        expect("  by its program", top(program), lambda done, server=server: done[0] == 0 and done[1].startswith(f"chainio run {server}: "))
        expect("  among all, once", re.findall(rf"^(?:chainio run |  ){server}[: ]", top()[1], flags=re.M), lambda found: len(found) == 1)
        expect("  the region is nowhere else", list(own.iterdir()), [])
        run.communicate(b"\n", timeout=runs.LONGEST)


def test_ended(folder):
    """A program goes on when chainio was killed, and there is no run to look at. What is left of it somebody else's next run removes where they have one place."""
    own = folder.path / "own"
    own.mkdir(mode=0o700)
    folder.environment["XDG_RUNTIME_DIR"] = str(own)
    run = folder.start(["--spec", "good.chain", "--quiet"], [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()
    program = runs.programs_of(run.pid)[0]
    run.kill()
    run.wait()

    def top():
        return subprocess.run([CHAINIO, "top", str(program), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
    netns.until("its server has ended", lambda: top().returncode == 1)
    expect("a run that has ended", top().stderr, f"chainio top: the `chainio run` that process {program} belongs to has ended; it runs plain\n")
    run.communicate(b"\n", timeout=runs.LONGEST)


def test_without_its_server(folder):
    """A run goes on when its server alone was killed, and there is nothing to watch: which is said of it, and not that there is no such run."""
    with looked_at(folder) as run:
        program = runs.programs_of(run.pid)[0]
        server = next(pid for pid in started.below(run.pid) if runs.name_of(pid) == "chainio-server")
        os.kill(server, signal.SIGKILL)

        def top(*words):
            return subprocess.run([CHAINIO, "top", *map(str, words), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
        netns.until("chainio has heard that its server has ended", lambda: top(run.pid).returncode == 1)
        for who in run.pid, program:
            expect("a run without its server", top(who).stderr, "chainio top: the server of the `chainio run` that process "
                   f"{who} belongs to has ended: what the run goes on with is plain; its summary comes at its end\n")
        # Other tests have runs of their own at the same time.
        expect("  among all", top(), lambda done: "no `chainio run`" not in done.stderr)


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        folder.run(["--spec", "good.chain"], ["true"])  # fills the cache
        test_sizes(folder)
        test_sizes_amid_a_page(folder)
        test_end(folder)
        test_names(folder)
        test_another_user()
        test_contained(folder)
        test_without_its_server(folder)
        test_ended(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
