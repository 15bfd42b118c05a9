#!/usr/bin/env python3
"""A file system that does not answer any more, as one of a network whose server is gone: the daemon serves on what lies elsewhere, and ends when it is to."""
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import fuse_file  # noqa: E402
import netns  # noqa: E402
import runs  # noqa: E402
from daemon import Daemon, receive_line, row, write_rows  # noqa: E402
from runs import BUILD, expect  # noqa: E402

SPEC = """
app kv { files rows = "*.rows" { immutable }  files far = "*.far" { immutable } }
chain row(file: file rows, number: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at number * 1000 for 1000 in file) { return b }
}
chain distant(file: file far) -> bytes(max 64) hops 1 { step s(b: block at 0 for 12 in file) { return b } }
service lines on tcp 7001 via uring {
  text Row { "row " number: int "\\n" }
  request { line: Row }
  on request {
    let v = row(rows["a.rows"], request.line.number as u32) else fail not_found
    reply v[0..12] "\\n"
  }
}
"""


NO_THREADS = """
#include <errno.h>
#include <pthread.h>
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) { return EAGAIN; }
"""


class Slow(fuse_file.Taking):
    """A server that needs longer for each look at a file than there is between two looks, once it is to."""
    def __init__(self):
        super().__init__()
        self.seconds = 0

    def took(self, what):
        if what == fuse_file.GETATTR:
            time.sleep(self.seconds)


@contextlib.contextmanager
def served(folder, taking, prefix=()):
    """A daemon over two files, and a connection to it. `taking`: whether the file system of the other file takes requests."""
    with fuse_file.fuse_file(folder / "a.far", row(0, ord("f")), lambda offset: 0, taking=taking):
        # That nothing is to be written at its end is known from now on: nobody who closes it waits for the server.
        expect("it is a file", (folder / "a.far").read_bytes(), row(0, ord("f")))
        server = Daemon(folder / "app.o", "--file", f"far={folder / 'a.far'}", "--bind", "127.0.0.1", "--port", "lines=0", prefix=prefix)
        with socket.create_connection(("127.0.0.1", server.ports["lines", "tcp"]), timeout=60) as sock:
            expect("it answers", asked(sock, 1), row(1, ord("a"))[:12] + b"\n")
            yield server, sock


RELOAD = "a reload is not prepared after 5 seconds, as where a file system does not answer; until it is, what was opened is read further\n"


def look(folder):
    return f"'{folder / 'a.far'}': its file system has not answered for 5 seconds; until it does, no file is looked at, and what was opened is read further\n"


def asked(sock, number):
    sock.sendall(b"row %d\n" % number)
    return receive_line(sock)


@contextlib.contextmanager
def control(server, *requests):
    """The answers to requests that need not have any soon, by a connection of their own."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(server.path))
        sock.sendall(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        yield map(json.loads, sock.makefile())


def stop_while_one_waits(server, what):
    with control(server, {"op": what, "id": 1}, {"op": "stats", "id": 2}) as answers:
        expect("somebody waits for another one", next(answers)["id"], 2)
        server.process.send_signal(signal.SIGTERM)
        expect("who is told that the daemon stops", next(answers), {"id": 1, "error": "the daemon stops"})


def ended(server):
    """Its last words, or the exit code of one that was not to end so."""
    code = server.process.wait(timeout=60)
    server.rest.join()
    return code or server.said[-1]


def test_look(folder):
    """It is only looked whether the file is still the same one."""
    print("a look at the files")
    taking = fuse_file.Taking()
    with served(folder, taking) as (server, sock):
        taking.end()
        expect("a look is kept waiting", taking.left.wait(60), True)
        netns.until("which is said", lambda: look(folder) in server.said)
        expect("what lies elsewhere is answered", asked(sock, 2), row(2, ord("a"))[:12] + b"\n")
        with control(server, {"op": "invalidate", "id": 1}, {"op": "stats", "id": 2}) as answers:
            expect("who asks whether files are others waits", next(answers)["id"], 2)
            write_rows(folder, ord("b"))
            taking.go_on()
            expect("until it answers again; then the file that was replaced meanwhile is opened", next(answers), {"id": 1, "edition": 2})
        expect("  and read", asked(sock, 2), row(2, ord("b"))[:12] + b"\n")
        expect("the look was told of once", server.said.count(look(folder)), 1)
        taking.end()
        expect("another look is kept waiting", taking.left.wait(60), True)
        stop_while_one_waits(server, "invalidate")
        expect("it ends", ended(server), "stopped after 3 answers\n")


def test_slow_without_a_thread(folder):
    """Looks that no thread can be had for take longer than there is between two of them: requests have their turn in between."""
    print("slow looks without a thread")
    (folder / "none.c").write_text(NO_THREADS)
    subprocess.run(["clang-19", "-shared", "-fPIC", folder / "none.c", "-o", folder / "none.so"], check=True)
    taking = Slow()
    with served(folder, taking, ["env", f"LD_PRELOAD={folder / 'none.so'}"]) as (server, sock):
        taking.seconds = 1.5
        netns.until("looks wait", lambda: any("fallback looks-wait" in line for line in server.said))
        expect("it answers", [asked(sock, number) == row(number, ord("a"))[:12] + b"\n" for number in (1, 2)], [True, True])
        expect("  on the control socket as well", server.control({"op": "invalidate", "id": 1}), {"id": 1, "edition": 1})
        taking.seconds = 0
        server.process.send_signal(signal.SIGTERM)
        expect("it ends", ended(server), "stopped after 3 answers\n")


def test_reload(folder):
    """The files are to be opened anew."""
    print("a reload")
    taking = fuse_file.Taking()
    with served(folder, taking) as (server, sock):
        taking.end(fuse_file.OPEN)
        with control(server, {"op": "reload", "id": 1}) as answers:
            expect("the file is not opened", taking.left.wait(60), True)
            netns.until("which is said", lambda: RELOAD in server.said)
            expect("what lies elsewhere is answered", asked(sock, 2), row(2, ord("a"))[:12] + b"\n")
            taking.go_on()
            expect("once it answers again the next edition runs", next(answers), {"id": 1, "edition": 2})
        netns.until("the edition before has ended", lambda: not server.all_stats()["before_runs"])
        taking.end()
        stop_while_one_waits(server, "reload")
        expect("it ends, and says what is given up", ended(server), "stopped after 2 answers; a reload is given up, whose edition is not prepared\n")


def main():
    if why := fuse_file.why_not():
        print(f"skipped: a file system that does not answer: {why}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        for test in (test_look, test_slow_without_a_thread, test_reload):
            write_rows(folder, ord("a"))
            test(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
