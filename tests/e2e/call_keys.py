#!/usr/bin/env python3
"""chainio call --keys as a part of a pipeline: who reads its results ends, who writes its keys waits for them, and what is no key ends it."""
import os
import pathlib
import resource
import select
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import started  # noqa: E402
from call_and_runtime import BUILD, built  # noqa: E402
from runs import expect  # noqa: E402

MOST = 16 << 20  # bytes that a line may have


def command(app, tree, *words):
    return [BUILD / "bin" / "chainio", "call", app, "lookup", "--file", tree, "--quiet", "--keys", "-", *words]


def test_nobody_reads(app, tree):
    """Where SIGPIPE is ignored, as systemd has it, that the reader has ended is the end of keys that have none."""
    reading, writing = os.pipe()
    with started.start(["yes", "42"], stdout=subprocess.PIPE) as keys:
        with started.start(command(app, tree), stdin=keys.stdout, stdout=writing, stderr=subprocess.PIPE, text=True, restore_signals=False) as call:
            keys.stdout.close()
            os.close(writing)
            expect("keys without an end", os.read(reading, 10), b"42\tok\t294\n")
            os.close(reading)
            expect("  end with their reader", (call.wait(timeout=runs.LONGEST), call.stderr.read()), (3, "chainio call: cannot write the results: Broken pipe\n"))


class Asked:
    """A call whose keys come one by one."""
    def __init__(self, app, tree, *words, waits=True):
        reading, self.keys = os.pipe()
        os.set_blocking(reading, waits)
        self.call = started.start(command(app, tree, *words), stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(reading)

    def ask(self, text, answers=1):
        """Writes the text; the next lines that are printed, while the keys have not ended."""
        os.write(self.keys, text)
        said = b""
        while said.count(b"\n") < answers and select.select([self.call.stdout], [], [], runs.LONGEST)[0]:
            if not (more := os.read(self.call.stdout.fileno(), 1 << 16)):
                break
            said += more
        return said

    def end(self):
        """The exit code, what else is printed, and what is said."""
        os.close(self.keys)
        out, err = self.call.communicate(timeout=runs.LONGEST)
        return self.call.returncode, out, err.decode()


def test_one_by_one(app, tree):
    """What has been asked is answered before more is waited for."""
    for what, words, waits in (("", (), True), (" by pread", ("--no-ring",), True), (", one run at a time", ("--in-flight", 1), True), (" of who does not wait", (), False)):
        call = Asked(app, tree, *words, waits=waits)
        with call.call:
            expect(f"a key{what}", call.ask(b"42\n"), b"42\tok\t294\n")
            expect("  the next one, and the begin of another", call.ask(b"3\n6"), b"3\tok\t21\n")
            expect("  its end", call.ask(b"3\n"), b"63\tok\t441\n")
            expect("  several, with an empty line", call.ask(b"6\n\n4\n9\n", 3), b"6\tok\t42\n4\tnot_found\t\n9\tok\t63\n")
            many = range(3, 2403, 3)
            expect("  more than are in flight", call.ask("".join(f"{key}\n" for key in many).encode(), len(many)), "".join(f"{key}\tok\t{7 * key}\n" for key in many).encode())
            os.write(call.keys, b"42")
            expect("  the last one, whose line does not end", call.end(), (1, b"42\tok\t294\n", ""))


def test_lines_of_no_end(app, tree):
    """A line that is no key, or that there is no memory for, is not the end of the keys."""
    line = b"1" * (MOST + (1 << 20))
    for behind in (b"", b"\n42\n"):
        done = subprocess.run(command(app, tree), input=b"3\n" + line + behind, capture_output=True, timeout=runs.LONGEST)
        expect("a line that is too long", (done.returncode, done.stdout, done.stderr), (1, b"3\tok\t21\n", b"chainio call: -:2: the line is longer than 16 MiB, as no parameters are\n"))
    call = Asked(app, tree)
    with call.call:
        expect("memory is short behind a key", call.ask(b"42\n"), b"42\tok\t294\n")
        pages = int(pathlib.Path(f"/proc/{call.call.pid}/statm").read_text().split()[0])
        resource.prlimit(call.call.pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), resource.RLIM_INFINITY))
        try:
            while True:
                os.write(call.keys, b"1" * (1 << 16))
        except BrokenPipeError:
            pass
        expect("  which a line does not find", call.end(), (3, b"", "chainio call: cannot read keys '-': Cannot allocate memory\n"))


def main():
    with built() as (_, app, tree, _):
        test_nobody_reads(app, tree)
        test_one_by_one(app, tree)
        test_lines_of_no_end(app, tree)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
