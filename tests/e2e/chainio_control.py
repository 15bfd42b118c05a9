#!/usr/bin/env python3
"""chainio control asks a daemon, or whoever listens where one should; and what a terminal would obey is shown by all programs."""
import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import started  # noqa: E402
from call_and_runtime import BUILD, built, run  # noqa: E402
from runs import expect  # noqa: E402


@contextlib.contextmanager
def answering(path, answer):
    """A socket at `path` whose first caller is answered."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(runs.LONGEST)

        def serve():
            with listener.accept()[0] as peer:
                peer.recv(4096)
                answer(peer)
        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join()


def endless(peer):
    with contextlib.suppress(OSError):  # the caller has gone
        while True:
            peer.sendall(b"{" * (1 << 20))


def dribble(peer):
    """A piece whenever the caller has not gone for a while: 5 s of them, and the end."""
    for _ in range(25):
        if select.select([peer], [], [], 0.2)[0]:
            return
        peer.sendall(b" ")
    peer.sendall(b'{"stats": {}}\n')


def test_control(folder):
    """`chainio control` gives up in time also where it is not let in."""
    path = folder / "full"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        waiting = []
        try:
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(str(path))
        except BlockingIOError:
            pass  # no more are let in
        expect("control: a daemon that takes nobody", run("control", path, "stats", "--timeout", 1), (3, "", f"chainio control: '{path}' has not answered within 1 s\n"))
        for each in waiting:
            each.close()
    answers = ((json.dumps({"error": "cannot open 'a\x1b[2J\nb'"}), "cannot open 'a\\x1b[2J\\x0ab'"), ("\x1b[2J", "no chainio-runtime answers so: \\x1b[2J"),
               ("[1]", "no chainio-runtime answers so: [1]"), ('{"error":5}', 'no chainio-runtime answers so: {"error":5}'),
               ('{"error":"no","edition":"1"}', "no"))
    for number, (answer, said) in enumerate(answers):
        with answering(folder / f"answers{number}", lambda peer, answer=answer: peer.sendall(answer.encode() + b"\n")) as path:
            expect("control: an error of any bytes", run("control", path, "reload"), (1, "", f"chainio control: {said}\n"))
    with answering(folder / "endless", endless) as path:
        expect("control: an answer without an end", run("control", path, "stats"), (3, "", f"chainio control: '{path}' answers without an end; no chainio-runtime does\n"))
    with answering(folder / "dribbles", dribble) as path:
        expect("control: an answer that comes in too many pieces", run("control", path, "stats", "--timeout", 1), (3, "", f"chainio control: '{path}' has not answered within 1 s\n"))


def test_not_allowed(folder):
    """A socket that is another user's is there, though it does not let this one in."""
    limited = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all"] if os.geteuid() == 0 else []
    path = folder / "another's"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        path.chmod(0)
        done = subprocess.run([*limited, BUILD / "bin" / "chainio", "control", path, "stats"], capture_output=True, text=True, timeout=runs.LONGEST)
    expect("control: a socket of another user", (done.returncode, done.stdout, done.stderr),
           (3, "", f"chainio control: this user may not ask at '{path}': Permission denied; be the user that started chainio-runtime, or root\n"))


def test_odd_names(app, tree, folder):
    """What a terminal would obey is shown, in whatever name."""
    odd, shown = folder / "no\x1b[31m\u202e", f"{folder}/no\\x1b[31m\\xe2\\x80\\xae"
    expect("control: an odd path", run("control", odd, "stats"),
           (3, "", f"chainio control: nobody answers at '{shown}': No such file or directory; is it what chainio-runtime got as --socket?\n"))
    for tool, words in (("chainio", ("call", odd, "lookup")), ("chainio", ("inspect", odd)), ("chainio", ("store", "check", odd)), ("chainio-runtime", ("--spec", odd))):
        expect(f"{tool} {words[0]}: an odd path", run(*words, tool=tool), lambda r: (r[0], r[1]) == (3, "") and "\x1b" not in r[2] and shown in r[2])
    kept, path = folder / "kept\x1b[31m.o", folder / "odd\x1b"
    kept.write_bytes(app.read_bytes())
    server = started.start([BUILD / "bin" / "chainio-runtime", "--spec", kept, "--socket", path, "--file", f"pages={tree}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = next(line for line in server.stderr if line.startswith("serving"))
    expect("the daemon's socket", said, f"serving at {folder}/odd\\x1b\n")
    kept.unlink()
    gone = f"cannot read artifact '{folder}/kept\\x1b[31m.o': No such file or directory\n"
    expect("control: an odd path in the daemon's error", run("control", path, "reload"), (1, "", f"chainio control: {gone.strip()}; edition 1 goes on\n"))
    server.send_signal(signal.SIGTERM)
    expect("the daemon's own error", (server.wait(20), server.stderr.read().splitlines(keepends=True)[0]), (0, f"edition 1 goes on, the reload (asked to) is refused: {gone}"))


def test_odd_words(app, folder):
    """The same in the words of command lines, in test files, and in what specs and other programs have named."""
    odd, shown = "no\x1b[31m", "no\\x1b[31m"
    for tool, words, code, said in (
            ("chainio", (odd,), 2, f"chainio: there is no command '{shown}'"), ("chainio", ("call", app, odd), 2, f"has no chain '{shown}'"),
            ("chainio", ("call", app, "lookup", "--arg", odd), 2, f"--arg wants NAME=VALUE, not '{shown}'"),
            ("chainio", ("call", app, "lookup", "--arg", f"{odd}=1", "--arg", f"{odd}=2"), 2, f"'{shown}' is given twice"),
            ("chainio", ("call", app, "lookup", f"--{odd}"), 2, f"--{shown} wants a value"), ("chainio", ("call", app, "lookup", odd), 2, f"'{shown}' is one word too many"),
            ("chainio", ("call", "--engine", odd), 2, f"--engine: {shown} not in"), ("chainio", ("inspect", app, odd), 2, f"not expected: {shown}\n"),
            ("chainio-runtime", (odd,), 2, f"not expected: {shown}\n"), ("chainio", ("test", folder / odd), 3, f"chainio test: {folder}/{shown}: cannot be read")):
        expect(f"{tool} {words[0]!r}: an odd word, {said}", run(*words, tool=tool), lambda r, code=code, said=said: r[0] == code and "\x1b" not in r[1] + r[2] and said in r[2])
    (folder / "odd.chain").write_bytes(b'files odd = "/x/\x1b[31m*" { root "/x" index "\x1b[32m" }\nchain c(f: file odd) -> u32 { step s(b: block at 0 for 4) { return b.uint_le() } }\n')
    expect("a spec with an odd pattern", run(folder / "odd.chain", "-o", folder / "odd.o", tool="chainc")[0], 0)
    expect("inspect: an odd pattern", run("inspect", folder / "odd.o"),
           lambda r: r[0] == 0 and 'files   odd = "/x/\\x1b[31m*" root "/x" index "\\x1b[32m"\n' in r[1] and r[1].count("\n") > 5)
    quoted = json.dumps(odd)
    cases = f"files: {{ {quoted}: {{ zeros: 4 }} }}\ncases:\n- {{ name: {quoted}, chain: c, files: {{ f: %s }}, expect: {{ value: 1, reads: [] }} }}\n"
    for what, text, code, said in (
            ("a case and a file", "spec: odd.chain\n" + cases % quoted, 1, f"FAIL {shown}\n"), ("a file that is not there", "spec: odd.chain\n" + cases % json.dumps("un" + odd), 1, f"/un{shown}: "),
            ("a spec", f"spec: {quoted}\n" + cases % quoted, 1, f"does not compile `{shown}`:\n"), ("a program", f"spec: odd.chain\nneeds: [{quoted}]\n" + cases % quoted, 0, f"skip {shown}: this machine has no {shown}\n"),
            ("a command", "spec: odd.chain\ncommands: [\"printf 'a\\\\033b\\\\nc'; exit 3\"]\n" + cases % quoted, 1, "ends with exit code 3:\na\\x1bb\nc\n"),
            ("a key", f"spec: odd.chain\n{quoted}: 1\n" + cases % quoted, 1, shown)):
        (folder / "odd.test.yaml").write_text(text)
        expect(f"test: {what} of an odd name", run("test", folder / "odd.test.yaml", "--engine", "interpreter"), lambda r, code=code, said=said: r[0] == code and "\x1b" not in r[1] + r[2] and said in r[1] + r[2])
    (folder / odd).mkdir()
    (folder / odd / "odd.test.yaml").write_text("spec: ../odd.chain\n" + cases % quoted)
    for words, said in ((("--list",), f"{folder}/{shown}/odd.test.yaml:4: {shown}\n"), ((), f"the case stands at {folder}/{shown}/odd.test.yaml:4\n"), (("--filter", "\x1b[33m"), "contains '\\x1b[33m'")):
        expect(f"test {words}: an odd path", run("test", folder / odd / "odd.test.yaml", *words), lambda r, said=said: "\x1b" not in r[1] + r[2] and said in r[1] + r[2])


def main():
    with built() as (folder, app, tree, _):
        test_control(folder)
        test_not_allowed(folder)
        test_odd_names(app, tree, folder)
        test_odd_words(app, folder)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
