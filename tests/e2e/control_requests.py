#!/usr/bin/env python3
"""Requests over the daemon's socket: a file is named so that it is that one, a string is its bytes whatever it begins with, a last line may lack its
end, and a daemon takes no socket away but its own."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import daemon  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from runs import BUILD, expect, tool  # noqa: E402

SPEC = """
files rows = "*.row" { immutable }
files none = "*.none"
chain first(file: file rows, n: u64) -> bytes(max 8) { step s(b: block at n for 8) { return b } }
chain given(file: file rows, key: bytes(max 8)) -> bytes(max 8) { step s(b: block at 0 for 8) { return key } }
chain of_none(file: file none) -> u64 { step s(b: block at 0 for 8) { return 0 } }
"""


def ask(path, *lines, end="\n"):
    """The answers to requests; behind the last one stands `end`, and then nothing is sent any more."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end).encode())
        peer.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in peer.makefile()]


def serve(spec, path, *files):
    server = started.start([BUILD / "bin" / "chainio-runtime", "--spec", spec, "--socket", path, *(word for file in files for word in ("--file", f"rows={file}"))],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if line.startswith("serving"):
            return server
    raise RuntimeError("the daemon did not start")


def end(server):
    server.send_signal(signal.SIGTERM)
    server.stderr.read()
    expect("  it ends", server.wait(60), 0)


def request(chain, **args):
    return {"chain": chain, "args": args}


def error(path, line):
    return ask(path, line)[0].get("error")


def test_files(spec, folder):
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / "i.row").write_text(name * 8)
    (folder / "i.row").write_text("z" * 8)
    (folder / "one.row").write_text("1" * 8)
    os.chdir(folder)
    path = folder / "s"
    server = serve(spec, path, "x/i.row", "y/i.row", "i.row", "one.row")
    for name, text in (("i.row", "z"), ("x/i.row", "x"), ("y/i.row", "y"), ("one.row", "1")):
        expect(f"the file {name}", ask(path, request("first", file=name, n=0))[0].get("text"), text * 8)
    expect("no name", error(path, request("first", n=0)), "parameter 'file': 4 files are open for class 'rows'; name one of them")
    expect("a class without files", error(path, request("of_none")), "parameter 'file': no file is open for class 'none'; start the daemon with --file none=PATH")
    expect("another name", error(path, request("first", file="q", n=0)),
           "parameter 'file': no file 'q' is open for class 'rows'; the open files are x/i.row, y/i.row, i.row, one.row")
    end(server)
    server = serve(spec, path, "x/i.row", "x/i.row")
    expect("a file that is open twice", ask(path, request("first", file="i.row", n=0))[0].get("text"), "x" * 8)
    end(server)
    server = serve(spec, path, "x/i.row", "y/i.row")
    expect("a name of two files", error(path, request("first", file="i.row", n=0)),
           "parameter 'file': several open files of class 'rows' are called 'i.row'; name one of them: x/i.row, y/i.row")
    end(server)


def test_many_files(spec, folder):
    files = [folder / f"{i}.row" for i in range(200)]
    for i, file in enumerate(files):
        file.write_text(f"{i:08}")
    path = folder / "s"
    server = serve(spec, path, *files)
    answers = ask(path, *({"id": i, **request("first", file=f"{i}.row", n=0)} for i in range(200)))
    expect("200 files", sorted((each["id"], each["text"]) for each in answers), [(i, f"{i:08}") for i in range(200)])
    end(server)
    words = [word for _ in range(4097) for word in ("--file", "rows=0.row")]
    expect("refused: more than 4,096", tool("chainio-runtime", "--spec", spec, "--check", *words),
           (2, "", "chainio-runtime: 4097 --file are given, where at most 4096 are opened\n"))


def test_classes_of_one_file(_, folder):
    """Their files are open beside those that --file gives, which take as many places as there are without them."""
    (folder / "fixed.cfg").write_text("f" * 8)
    (folder / "fixed.chain").write_text(f"""{SPEC}
files fixed = "{folder}/fixed.cfg"
chain of_fixed(file: file fixed) -> bytes(max 8) {{ step s(b: block at 0 for 8) {{ return b }} }}
""")
    expect("a spec with a class of one file", tool("chainc", folder / "fixed.chain", "-o", folder / "fixed.o")[0], 0)
    server = serve(folder / "fixed.o", folder / "s", *(folder / f"{i}.row" for i in range(64)))
    expect("64 files and that one", [ask(folder / "s", each)[0].get("text") for each in (request("first", file="63.row", n=0), request("of_fixed"))], ["00000063", "f" * 8])
    end(server)
    words = [word for _ in range(4096) for word in ("--file", "rows=0.row")]
    for what in ("--check", "--socket=s"):
        expect(f"refused: 4,096 and that one: {what}", tool("chainio-runtime", "--spec", folder / "fixed.o", what, *words),
               lambda got: (got[0], got[2]) == (2, "chainio-runtime: 4096 --file are given, and 1 more class is one file, where at most 4096 are opened\n"))


def test_bytes(spec, folder):
    path = folder / "s"
    server = serve(spec, path, folder / "one.row")
    for key, said in (("hex:41", b"hex:41"), ("text:A", b"text:A"), ("hex:zz", b"hex:zz"), ("", b""), ("é", "é".encode()), ({"hex": "00ff"}, b"\0\xff")):
        expect(f"the bytes of {key!r}", ask(path, request("given", key=key))[0].get("hex"), said.hex())
    expect("too many", error(path, request("given", key="123456789")), "'123456789' for parameter 'key': it is longer than 8 bytes")
    for wrong in (5, {"hex": 5}, {"hex": "00", "more": 1}, None):
        expect(f"refused: {wrong!r}", error(path, request("given", key=wrong)), "parameter 'key': a string or {\"hex\": \"…\"} is wanted")
    for digits, why in (("0", "hexadecimal bytes come in pairs of digits"), ("0g", "it has a character that is no hexadecimal digit"), ("00" * 9, "it is longer than 8 bytes")):
        expect(f"refused: {digits} as it was sent", error(path, request("given", key={"hex": digits})), f"'{digits}' for parameter 'key': {why}")
    for text, number in (("0", 0), ("0x0", 0), ("1", 1)):
        expect(f"a string for an integer: {text}", ask(path, request("first", n=text))[0].get("outcome"), "short_read" if number else "ok")
    expect("a large one", error(path, request("first", n="18446744073709551616")), "'18446744073709551616' for parameter 'n': it does not fit 64 bits")
    for wrong in (1 << 64, 1.5, True):
        expect(f"refused: {wrong!r}", error(path, request("first", n=wrong)), "parameter 'n': an integer of at most 64 bits is wanted")
    expect("refused: a chain that is no word", error(path, {"chain": 5}), '"chain" is the name of a chain, as a string')
    for given, id_ in (("-9223372036854775808", -1 << 63), ("18446744073709551615", (1 << 64) - 1), ("1.5", 1.5), ("null", None), ('"18446744073709551616"', str(1 << 64))):
        expect(f"the id {given}", ask(path, '{"op":"invalidate","id":%s}' % given)[0]["id"], id_)
    for given in ("18446744073709551616", "-9223372036854775809", "1e19"):
        expect(f"refused: the id {given}", ask(path, '{"op":"invalidate","id":%s}' % given),
               [{"id": None, "error": 'an "id" that is a number has at most 64 bits; give a longer one as a string'}])
    for line, id_, name in (('{"id":1,"op":"stats","id":2}', None, "id"), ('{"id":1,"op":"stats","op":"invalidate"}', 1, "op"),
                            ('{"id":1,"op":"stats","op":"stats","id":2}', None, "op"),
                            ('{"id":1,"chain":"first","args":{"n":0,"n":1}}', 1, "n"), ('{"id":1,"chain":"first","args":{"id":0,"id":1}}', 1, "id"), ('{"chain":"given","args":{"key":{"hex":"41","hex":"42"}},"id":1}', 1, "hex")):
        expect(f"refused: {name} twice", ask(path, line), [{"id": id_, "error": f"'{name}' is there twice; keep one of the two"}])
    expect("an object may have the names of one around it or beside it", ask(path, {"chain": "first", "args": {"chain": 5, "args": 5, "id": 5}})[0]["error"],
           lambda said: said.startswith("chain 'first' has no parameter 'args'"))
    for line, why in (({"id": 1, "op": "stats", "chain": "first"}, "a request with an \"op\" has no member 'chain'; the members are id, op"),
                      ({"id": 1, "chain": "first", "arg": {"n": 0}}, "a request has no member 'arg'; did you mean 'args'?"),
                      ({"id": 1, "ob": "stats"}, "a request has no member 'ob'; did you mean 'op'?"),
                      ({"id": 1, "timeout": 4}, "a request has no member 'timeout'; the members are id, chain, args, op")):
        expect(f"refused: {why}", ask(path, line), [{"id": 1, "error": why}])
    counted = ask(path, {"op": "stats"})[0]["stats"]["chains"]
    expect("counters of chains, which have no end", [(each["chain"], "seconds" in each) for each in counted], [("first", False), ("given", False), ("of_none", False)])
    expect("a last line without its end", ask(path, request("first", n=0), request("given", key="b"), end=""), lambda got: [each.get("text") for each in got] == ["1" * 8, "b"])
    expect("one that is cut", ask(path, '{"chain": "fir', end=""), lambda got: len(got) == 1 and "one line with a JSON object" in got[0]["error"])
    test_no_json(path)
    end(server)


def test_no_json(path):
    """Who puts lines together by hand is told where one is none."""
    for line, why in (("{'op': 'stats'}", "; byte 2 of this one is not what JSON has there"), ('{"op": "stats",}', "; byte 16 of this one is not what JSON has there"),
                      ('{"op": "stats"} {"op": "stats"}', "; byte 17 of this one is not what JSON has there"), ('{"op": "sta', "; this one ends before its object does"),
                      ('{"chain": "given", "args": {"key": "a\xff"}}', '; byte 38 of this one is no UTF-8: give bytes of any kind as {"hex": "…"}'),
                      ('{"id": 1e999, "op": "stats"}', "; this one has a number that is too large"), ("[1]", ""), ("5", "")):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            peer.sendall(line.encode("latin-1") + b"\n")
            expect(f"no request: {line}", json.loads(peer.makefile().readline()), {"id": None, "error": 'a request is one line with a JSON object: {"chain": …, "args": {…}}' + why})


def test_own_socket(spec, folder):
    path = folder / "s"
    first = serve(spec, path, folder / "one.row")
    path.unlink()
    second = serve(spec, path, folder / "one.row")
    end(first)
    expect("the other's socket stays", ask(path, request("first", n=0))[0].get("text"), "1" * 8)
    end(second)
    expect("its own does not", path.exists(), False)


def test_many_at_once(spec, folder):
    """Who does not wait is not refused because others have begun at the same time, and those for whom there is no connection yet have one later."""
    path = folder / "s"
    server = serve(spec, path, folder / "one.row")
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(300)]
        with daemon.halted(server):
            for number, peer in enumerate(peers):
                peer.setblocking(False)
                peer.connect(str(path))
                peer.settimeout(runs.LONGEST)
                peer.sendall(json.dumps({"id": number, **request("first", n=0)}).encode() + b"\n")
        answers = []
        for peer in peers:
            with peer:
                answers.append(json.loads(peer.makefile().readline()))
        expect("300 clients at once", [(each["id"], each.get("text")) for each in answers], [(number, "1" * 8) for number in range(300)])
    end(server)


def test_few_descriptors(spec, folder):
    # Root may raise the hard limit, unless it has no capability for it.
    limited = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"] if os.geteuid() == 0 else []
    words = [*limited, "prlimit", "--nofile=100:100", BUILD / "bin" / "chainio-runtime", "--spec", spec, "--file", "rows=one.row", "--socket", "s"]
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=runs.LONGEST)
    expect("too few descriptors, where there are no connections", (done.returncode, done.stderr),
           (3, "chainio-runtime: the daemon wants 386 open files, and this process may have 100: raise its limit (`ulimit -n 386`, LimitNOFILE= of a systemd unit)\n"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "spec.chain").write_text(SPEC)
        expect("a spec", tool("chainc", folder / "spec.chain", "-o", folder / "spec.o")[0], 0)
        for test in (test_files, test_many_files, test_classes_of_one_file, test_bytes, test_own_socket, test_many_at_once, test_few_descriptors):
            test(folder / "spec.o", folder)
        os.chdir("/")
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
