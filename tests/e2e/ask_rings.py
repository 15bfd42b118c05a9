#!/usr/bin/env python3
"""Asking over shared memory from a shell, from Python and from C, beside a server whose replies are what requests ask for (tests/support/ring_peer.cpp), and beside the daemon."""
import contextlib
import errno
import json
import os
import pathlib
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import runs  # noqa: E402
from runs import BUILD, ROOT, expect, raised, tool  # noqa: E402

SAID = re.compile("^chainio ask: ")
ESCAPES = "there are \\t, \\n, \\r, \\0, \\xHH, and \\\\ for a backslash; in text:… there are none"
UNANSWERED = "it does not understand the request, or has no time for it"


@contextlib.contextmanager
def peer():
    """A server, and where it is."""
    with subprocess.Popen([BUILD / "tests" / "ring_peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        path = process.stdout.readline().strip()
        try:
            yield path
        finally:
            process.stdin.close()
            expect("the server ends well", process.wait(timeout=runs.LONGEST), 0)


def ask(*words, stdin=None):
    """The exit code, what was printed and what was said."""
    code, printed, said = tool("chainio", "ask", *words, stdin=stdin)
    return code, printed, SAID.sub("", said)


def test_shell(path):
    for what, request, words, wanted in (
        ("text", "hello", (), (0, "[hello]\n", "")),
        ("escapes", r"a\r\n\t\0\xfe\\", (), (0, "[a\\x0d\\n\\t\\x00\\xfe\\\\]\n", "")),
        ("text without escapes", r"text:hex:\q", (), (0, "[hex:\\\\q]\n", "")),
        ("hexadecimal", "hex:6100fF", ("--output", "hex"), (0, "5b6100ff5d\n", "")),
        ("nothing", "", (), (0, "[]\n", "")),
        ("as it is", r"a\n", ("--output", "raw"), (0, "[a\n]", "")),
        ("an escape that is none", r"a\q", (), (2, "", f"'\\q' is no escape: {ESCAPES}\n")),
        ("half an escape", r"a\x1", (), (2, "", f"'\\x1' is no escape: {ESCAPES}\n")),
        ("half a byte", "hex:abc", (), (2, "", "hexadecimal bytes come in pairs of digits\n")),
        ("no digits", "hex:abxx", (), (2, "", "'xx' is no hexadecimal byte; text that begins so is written as text:hex:…\n")),
        ("no reply", "none", (), (1, "", f"'echo' has given no reply: {UNANSWERED}\n")),
        ("the server's end", "gone", (), (3, "", f"the server of '{path}' is gone; start chainio-runtime again\n")),
        ("a late reply", "hold", ("--timeout-ms", "20"), (3, "", f"'{path}' has not replied within 20 ms; --timeout-ms waits longer, and `chainio control SOCKET stats` says what it does\n")),
    ):
        expect(f"shell: {what}", ask(path, "echo", request, *words), wanted)
    expect("shell: a word like an option", ask(path, "echo", "--", "--lines"), (0, "[--lines]\n", ""))
    expect("shell: standard input", ask(path, "echo", "-", stdin="a\\n\n"), (0, "[a\\\\n\\n]\n", ""))
    expect("shell: a long one", ask(path, "echo", "-", "--output", "raw", stdin="y" * 131070), (0, "[" + "y" * 131070 + "]", ""))
    expect("shell: too long a one", ask(path, "echo", "-", stdin="y" * 131073), (1, "", "standard input is no request: it has more than 131072 bytes, and no request has\n"))
    code, printed, said = ask(path, "echo", r"\xff", "--json")
    one = json.loads(printed)
    expect("shell: JSON", (code, one.pop("ns") > 0, one, said), (0, True, {"outcome": "ok", "hex": "5bff5d", "text": None}, ""))
    code, printed, said = ask(path, "echo", "none", "--json")
    expect("shell: JSON without a reply", (code, {**json.loads(printed), "ns": 1}, said), (1, {"outcome": "unanswered", "ns": 1}, ""))


def test_files(path):
    """Standard files that cannot be read or written."""
    for words, stdin in (("x",), None), (("--lines",), "a\nb\n"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BUILD / "bin" / "chainio", "ask", path, "echo", *words], input=stdin, stdout=full, stderr=subprocess.PIPE, text=True, timeout=runs.LONGEST)
        expect(f"a full disk: {words[0]}", (done.returncode, done.stderr), (3, "chainio ask: cannot write the replies: No space left on device\n"))
    for words, said in (("-", "cannot read standard input: Bad file descriptor"), ("--lines", "cannot read keys '-': Bad file descriptor")):
        done = subprocess.run(["sh", "-c", '"$@" <&-', "sh", BUILD / "bin" / "chainio", "ask", path, "echo", words], capture_output=True, text=True, timeout=runs.LONGEST)
        expect(f"no standard input: {words}", (done.returncode, done.stdout, done.stderr), (3, "", f"chainio ask: {said}\n"))


def test_places(path, folder):
    """What cannot be asked."""
    nobody = "is it what chainio-runtime got as --rings, and does that run?"
    expect("no such service", ask(path, "away", "x"), (3, "", f"'{path}' refuses: there is no service 'away'; there is 'echo'\n"))
    expect("no answer", ask(path, "mute", "x", "--timeout-ms", 20), (3, "", f"'{path}' has not answered within 20 ms; is its chainio-runtime stopped?\n"))
    expect("no such file", ask(folder / "none", "x", "x"), (3, "", f"nobody answers at '{folder}/none': No such file or directory; {nobody}\n"))
    (folder / "file").write_text("x")
    expect("no socket", ask(folder / "file", "x", "x"), (3, "", f"nobody answers at '{folder}/file': Connection refused; start chainio-runtime with --rings {folder}/file\n"))
    long = f"{folder}/{'x' * 108}"
    expect("too long a path", ask(long, "x", "x"), lambda got: got[0] == 2 and got[2].startswith(f"'{long}' is too long for the path of a socket"))
    expect("too long a name", ask(path, "x" * 256, "x"), (2, "", "the name of a service has 1 to 255 bytes, not 256\n"))
    hint = "  hint: `chainio ask --help` lists the options\n"
    expect("no request", ask(path, "echo"), (2, "", "a request is wanted: text, hex:00ff, - for standard input, or --lines for many\n"))
    expect("two ways to ask", ask(path, "echo", "x", "--lines"), (2, "", f"request excludes --lines\n{hint}"))
    expect("no name of a service", ask(path, "", "x"), (2, "", f"service: the name is empty\n{hint}"))


def test_lines(path):
    expect("lines: in their order", ask(path, "echo", "--lines", stdin="a\nhold\nnone\n\\xffb\\r\n\n"),
           (1, "a\tok\t[a]\nhold\tok\theld\nnone\tunanswered\t\n\\xffb\\r\tok\t[\\xffb\\x0d]\n\tok\t[]\n", ""))
    expect("lines: raw", ask(path, "echo", "--lines", "--output", "raw", stdin="a\nnone\nb"), (1, "[a][b]", ""))
    expect("lines: none", ask(path, "echo", "--lines", stdin=""), (0, "", ""))
    expect("lines: one that is no request", ask(path, "echo", "--lines", stdin="a\n\\q\nb\n"), (1, "a\tok\t[a]\n", f"standard input:2: '\\q' is no escape: {ESCAPES}\n"))
    expect("lines: one that is too long", ask(path, "echo", "--lines", stdin="a\n" + "x" * 131073), (1, "a\tok\t[a]\n", "standard input:2: the request is too long: it has more than 131072 bytes, and no request has\n"))
    code, printed, _ = ask(path, "echo", "--lines", "--json", stdin="a\nnone\n")
    expect("lines: JSON", (code, [{**json.loads(line), "ns": 0} for line in printed.splitlines()]),
           (1, [{"request": "a", "outcome": "ok", "hex": "5b615d", "text": "[a]", "ns": 0}, {"request": "none", "outcome": "unanswered", "ns": 0}]))
    many = [str(i) for i in range(20000)]
    for words in ((), ("--in-flight", 1024), ("--in-flight", 3, "--spin", 20)):
        code, printed, said = ask(path, "echo", "--lines", *words, stdin="\n".join(many))
        expect(f"lines: many {words}", (code, printed.splitlines() == [f"{one}\tok\t[{one}]" for one in many], said), (0, True, ""))
    with subprocess.Popen([BUILD / "bin" / "chainio", "ask", path, "echo", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        replies = []
        for word in ("one", "two"):  # the second depends on the reply to the first
            process.stdin.write(word + "\n")
            process.stdin.flush()
            replies.append(process.stdout.readline())
        process.stdin.close()
        expect("lines: one by one", (replies, process.wait(timeout=runs.LONGEST)), (["one\tok\t[one]\n", "two\tok\t[two]\n"], 0))


def test_python(chainio_ring, path):
    with chainio_ring.open(path, "echo", in_flight=4, longest=600) as ring:
        expect("python: a call", (ring.call(b"a\0b"), ring.call("text"), ring.call(bytearray(b"")), ring.call("none")), (b"[a\0b]", b"[text]", b"[]", None))
        expect("python: its longest", ring.longest, 1024)
        for tag in ("a", None, ("b", 1)):
            ring.submit(b"x", tag)
        ring.submit(b"none", "last")
        got = []
        while ring.in_flight:
            got += ring.reap()
        expect("python: tags", got, [("a", b"[x]"), (None, b"[x]"), (("b", 1), b"[x]"), ("last", None)])
        expect("python: nothing to wait for", ring.reap(), [])
        ring.submit(b"hold", "held")
        expect("python: no reply in time", ring.reap(0.01), [])
        expect("python: a call amid others", ring.call(b"c"), b"[c]")
        expect("  whose replies stay", (ring.in_flight, ring.reap(), ring.in_flight), (1, [("held", b"held")], 0))
        expect("python: the time of a call", raised(lambda: ring.call(b"hold", timeout=0.01)), lambda error: isinstance(error, TimeoutError) and error.strerror == "no reply has come within 0.01 s")
        expect("  is nobody's reply", (ring.call(b"d"), ring.in_flight, ring.reap(0)), (b"[d]", 0, []))
        for what, call, kind, text in (
            ("a number", lambda: ring.call(7), TypeError, "a request is text or bytes, such as b'get a\\r\\n', not 7"),
            ("too many bytes", lambda: ring.call(b"x" * 1025), OSError, "[Errno 90] a request has at most 1024 bytes, not 1025: open with a larger `longest`"),
            ("a copy", lambda: pickle.dumps(ring), TypeError, "an open service can be neither copied nor pickled; open it again"),
        ):
            error = raised(call)
            expect(f"python: {what}", (isinstance(error, kind), str(error)), (True, text))
        for i in range(4):
            ring.submit("hold" if i == 0 else b"x", i)
        expect("python: too many", str(raised(lambda: ring.submit(b"x"))), "[Errno 16] all frames are on their way: reap some, or open with more in_flight")
        got = []
        while ring.in_flight:
            got += ring.reap()
        expect("  and all come back", sorted(tag for tag, _ in got), [0, 1, 2, 3])


def test_events(chainio_ring, path):
    with chainio_ring.open(path, "echo") as ring:
        readable = lambda seconds: bool(select.select([ring], [], [], seconds)[0])
        ring.submit(b"hold", 1)
        expect("python: not readable yet", (ring.fileno() >= 0, ring.reap(0), readable(0)), (True, [], False))
        ring.submit(b"x", 2)
        got = []
        while len(got) < 2:
            if not expect("python: readable", readable(runs.LONGEST), True):
                return
            got += ring.reap(0)
        expect("python: both came", sorted(got), [(1, b"held"), (2, b"[x]")])
        expect("python: and no more", (ring.reap(0), readable(0)), ([], False))
        ring.submit(b"gone")
        expect("python: the server's end is readable", readable(runs.LONGEST), True)
        expect("  and an error", raised(lambda: ring.reap()), lambda error: isinstance(error, BrokenPipeError) and error.strerror == "the server is gone: open another one once it runs again")


class Interrupted(Exception):
    pass


def test_signals(chainio_ring, path):
    def interrupt(*_):
        raise Interrupted
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with chainio_ring.open(path, "echo") as ring:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            expect("python: a signal's handler is heard", type(raised(lambda: ring.call(b"hold"))), Interrupted)
            expect("  and the reply is nobody's", (ring.call(b"x"), ring.in_flight, ring.reap(0)), (b"[x]", 0, []))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_python_errors(chainio_ring, path, folder):
    for what, call, kind, text in (
        ("no such file", lambda: chainio_ring.open(folder / "none", "echo"), FileNotFoundError, f"nobody answers at '{folder}/none'"),
        ("a service that is not there", lambda: chainio_ring.open(path, "away"), ConnectionRefusedError, f"'{path}' refuses: there is no service 'away'"),
        ("no answer", lambda: chainio_ring.open(path, "mute", open_timeout=0.02), TimeoutError, f"'{path}' has not answered within 20 ms"),
        ("too many in flight", lambda: chainio_ring.open(path, "echo", in_flight=1025), OSError, "in_flight is at most 1024"),
        ("too long", lambda: chainio_ring.open(path, "echo", longest=1 << 20), OSError, "longest is at most 131072 bytes"),
        ("too patient", lambda: chainio_ring.open(path, "echo", open_timeout=4000), OSError, "open_timeout in ms is at most 3600000"),
    ):
        error = raised(call)
        expect(f"python: {what}", (isinstance(error, chainio_ring.ChainioError), isinstance(error, kind), getattr(error, "strerror", "").startswith(text)), (True, True, True))
    ring = chainio_ring.open(path, "echo")
    ring.close()
    ring.close()
    for call in (lambda: ring.call(b"x"), lambda: ring.reap(0), lambda: ring.fileno(), lambda: ring.submit(b"x")):
        expect("python: a service that is closed", getattr(raised(call), "errno", None), errno.EBADF)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / "rings.md").read_text(), re.M | re.S)


def in_folder(folder, *words, **more):
    """A run of what stands on the page: its exit code, what it has printed, and what it has said."""
    given = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "runtime" / "bindings" / "python")}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=runs.LONGEST, env=given, **more)
    return done.returncode, done.stdout, done.stderr


def test_page(chainio_ring, folder):
    """Commands and programs of docs/rings.md, as they are printed, beside the daemon."""
    commands = blocks("sh")[0].splitlines()
    starts = next(i for i, line in enumerate(commands) if line.startswith("chainio-runtime"))
    expect("the page's commands", in_folder(folder, "sh", "-ec", "\n".join(commands[:starts])), lambda got: got[0] == 0)
    expect("the page's daemon", commands[starts], "chainio-runtime --spec memcached.o --file values=main.store --rings main.rings &")
    server = daemon.Daemon(folder / "memcached.o", "--rings", folder / "main.rings", "--port", "memcached=0", "--bind", "127.0.0.1", file=("values", "main.store"))
    try:
        expect("the page's request", in_folder(folder, "sh", "-ec", commands[starts + 1]), (0, "\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00VALUE hello 0 5\\x0d\\nworld\\x0d\\nEND\\x0d\\n\n", ""))
        no_service = "by rings those with a `udp` endpoint are reached; those that have one are: memcached"
        expect("a service that is not there", ask(folder / "main.rings", "memcachd", "x"), (3, "", f"'{folder}/main.rings' refuses: there is no service 'memcachd'; {no_service}\n"))
        expect("what no service understands", ask(folder / "main.rings", "memcached", "x"), (1, "", f"'memcached' has given no reply: {UNANSWERED}\n"))
        (folder / "ask.py").write_text(blocks("python")[0])
        header, found = b"\0\0\0\0\0\1\0\0", b"VALUE hello 0 5\r\nworld\r\nEND\r\n"
        code, printed, said = in_folder(folder, sys.executable, "ask.py")
        want = [repr(header + found), f"hello {header + found!r}", f"world {header + b'END' + bytes([13, 10])!r}"]
        expect("the Python program", (code, printed.splitlines()[0], sorted(printed.splitlines()[1:]), said), (0, want[0], want[1:], ""))
        test_c_program(folder)
        test_end_of_daemon(chainio_ring, server, folder, header + b"get hello\r\n", header + found)
    finally:
        server.process.kill()
        server.process.wait(timeout=runs.LONGEST)


def test_c_program(folder):
    if not shutil.which("cc"):
        print("skipped: the C program of docs/rings.md: there is no cc")
        return
    (folder / "ask.c").write_text(blocks("c")[0])
    (folder / "build").mkdir()
    (folder / "runtime").symlink_to(ROOT / "runtime")
    (folder / "build" / "release").symlink_to(BUILD)
    in_clone = next(line for line in "".join(blocks("sh")).splitlines() if "-rpath" in line)
    expect("the C program compiles", in_folder(folder, "sh", "-ec", in_clone + " -std=c11 -Wall -Wextra -Wpedantic -Werror"), (0, "", ""))
    for below in ([], ["valgrind", "-q", "--error-exitcode=9"]) if shutil.which("valgrind") else ([],):
        code, printed, said = in_folder(folder, *below, "./ask")
        replies = sorted(re.findall(r"(\w+): (.*?END)\n", printed, re.S))
        expect(f"  and runs {' '.join(below[:1])}", (code, replies, said), (0, [("hello", "VALUE hello 0 5\nworld\nEND"), ("nobody", "END"), ("world", "END")], ""))


def test_end_of_daemon(chainio_ring, server, folder, request, reply):
    """What it has taken it answers, and its clients hear of its end."""
    with chainio_ring.open(folder / "main.rings", "memcached") as ring:
        for i in range(50):
            ring.submit(request, i)
        server.process.terminate()
        got = []
        while ring.in_flight:
            got += ring.reap(runs.LONGEST)
        expect("the end of the daemon: all are answered", (sorted(tag for tag, _ in got), {each for _, each in got}), (list(range(50)), {reply}))
        expect("  and it ends", server.process.wait(timeout=runs.LONGEST), 0)
        expect("  and is gone", raised(lambda: ring.call(request)), lambda error: isinstance(error, BrokenPipeError))
    expect("  for who comes later", ask(folder / "main.rings", "memcached", "x"), lambda got: got[0] == 3 and got[2].startswith(f"nobody answers at '{folder}/main.rings': "))


def test_long_replies(folder):
    """Those that are longer than any datagram."""
    value = "0123456789" * 12000
    (folder / "long.tsv").write_text(f"long\t{value}\n")
    expect("a store", tool("chainio", "store", "build", folder / "long.store", "--from", folder / "long.tsv"), lambda got: got[0] == 0)
    expect("a service of long replies", tool("chainc", "std/kv.chain", "-DKEY=4", "-o", folder / "kv.o"), (0, "", ""))
    server = daemon.Daemon(folder / "kv.o", "--rings", folder / "kv.rings", "--port", "kv=0", "--bind", "127.0.0.1", file=("values", "long.store"))
    try:
        code, printed, said = ask(folder / "kv.rings", "kv", r"\0\0\0\0\0\0\0\x07long", "--output", "hex")
        expect("a long reply", (code, bytes.fromhex(printed) == bytes([0] * 7 + [7, 0, 0, 0, 1]) + len(value).to_bytes(4, "big") + value.encode(), said), (0, True, ""))
    finally:
        server.process.kill()
        server.process.wait(timeout=runs.LONGEST)


def test_man_page():
    pages = re.findall(r"^CHAINIO_RING_API .*?(chainio_ring_\w+)\(", (ROOT / "runtime" / "bindings" / "include" / "chainio-ring.h").read_text(), re.M)
    man = (ROOT / "runtime" / "bindings" / "man" / "chainio_ring.3").read_text()
    missing = [name for name in pages if f"{name}(" not in man or not (ROOT / "runtime" / "bindings" / "man" / f"{name}.3").exists()]
    expect("each function is in the man page", (len(pages), missing), (11, []))


def main():
    if not (BUILD / "tests" / "ring_peer").exists():
        print("skipped: tests/ring_peer is not built")
        return 77
    os.environ["CHAINIO_RING_LIBRARY"] = str(BUILD / "lib" / "libchainio-ring.so.0")
    sys.path.insert(0, str(ROOT / "runtime" / "bindings" / "python"))
    import chainio_ring
    with peer() as path, tempfile.TemporaryDirectory(prefix="chainio-ask-") as name:
        folder = pathlib.Path(name)
        test_shell(path)
        test_files(path)
        test_places(path, folder)
        test_lines(path)
        test_python(chainio_ring, path)
        test_events(chainio_ring, path)
        test_signals(chainio_ring, path)
        test_python_errors(chainio_ring, path, folder)
        test_page(chainio_ring, folder)
        test_long_replies(folder)
        test_man_page()
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
