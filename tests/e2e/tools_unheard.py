#!/usr/bin/env python3
"""Exit codes stay what they are where standard error is closed or full, and a daemon starts though nobody can be told with what it runs."""
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import started  # noqa: E402
from call_and_runtime import BUILD, built  # noqa: E402
from chainio_control import answering  # noqa: E402
from runs import expect  # noqa: E402

CASE = "  - { name: %s, chain: key, files: { f: app.chain }, args: { n: 0 }, expect: { value: 0 } }\n"


def ended(where, tool, *words, **options):
    """The exit code, and what was printed and said, of a program whose standard error goes `where`."""
    done = subprocess.run(["sh", "-c", f'exec "$@" {where}', "sh", BUILD / "bin" / tool, *map(str, words)], capture_output=True, timeout=runs.LONGEST, **options)
    return done.returncode, done.stdout, done.stderr.decode()


def same_unheard(what, code, *words, tool="chainio", said=None, **options):
    """It ends with `code` and says something, and does so whether that can be written or not."""
    heard = ended("", tool, *words, **options)
    expect(what, heard, lambda got: got[0] == code and (said or tool) in got[2])
    for where in ("2>&-", "2>/dev/full"):
        expect(f"  {where}", ended(where, tool, *words, **options), (code, heard[1], ""))


def test_call(app, tree, folder):
    lookup = "call", app, "lookup", "--file", tree
    same_unheard("a key that is not there", 1, *lookup, "--key", 43, said="ended with not_found")
    (folder / "keys").write_text("3\n6\n")
    same_unheard("keys that are all there, with a summary", 0, *lookup, "--keys", folder / "keys", said="outcomes: ok 2")
    (folder / "keys").write_text("3\n4\n")
    same_unheard("keys that are not all there", 1, *lookup, "--keys", folder / "keys", said="not_found 1")
    same_unheard("a key that is none", 1, *lookup, "--keys", app, said=" for parameter 'key'")
    same_unheard("a parameter that is not given", 2, *lookup)
    same_unheard("a chain that is not there", 2, "call", app, "lokup")
    same_unheard("neither an artifact nor a chain", 2, "call", said="an artifact and the name of a chain are wanted")
    same_unheard("options that go not together", 2, *lookup, "--spin", 5, "--no-ring")
    same_unheard("a file that is not there", 3, "call", app, "lookup", "--file", folder / "none", "--key", 3)


def test_store(folder):
    store, lines = folder / "a.store", folder / "lines"
    lines.write_text("k\tv\n")
    same_unheard("a store from nothing", 2, "store", "build", store)
    same_unheard("a store from a file that is not there", 3, "store", "build", store, "--from", folder / "none")
    runs.tool("chainio", "store", "build", store, "--from", lines)
    whole = store.read_bytes()
    store.write_bytes(whole[:-512])
    same_unheard("a damaged store", 1, "store", "check", store)
    if os.getuid() != 0:
        return print("skipped: a store whose rights cannot be handed on: only root gives files away")
    store.write_bytes(whole)
    folder.chmod(0o777)
    try:
        os.chown(store, 5678, 5678)
        subprocess.run([BUILD / "bin" / "chainio", "--version"], user=5678, group=5678, stdout=subprocess.DEVNULL)
        for where, said in (("", "the store before had what this one could not be given: "), ("2>&-", ""), ("2>/dev/full", "")):
            os.setxattr(store, "security.SMACK64", b"label")
            code, out, err = ended(where, "chainio", "store", "build", store, "--from", lines, user=5678, group=5678)
            expect(f"a store whose label cannot be handed on {where}", (code, out), lambda got: got[0] == 0 and b"1 item" in got[1])
            expect("  which is said where it can be", err, lambda err, said=said: said in err if said else err == "")
    except OSError as error:
        print(f"skipped: a label that another user may not set, or a program that he may not start: {error.strerror}")


def test_others(app, folder):
    for number, where in enumerate(("", "2>&-", "2>/dev/full")):
        with answering(folder / f"answers{number}", lambda peer: peer.sendall(json.dumps({"error": "refused"}).encode() + b"\n")) as path:
            expect(f"control: a refusal {where}", ended(where, "chainio", "control", path, "reload"), (1, b"", "" if where else "chainio control: refused\n"))
    same_unheard("control: nobody there", 3, "control", folder / "none", "stats")
    same_unheard("inspect: no artifact", 1, "inspect", folder / "lines")
    same_unheard("top: no run", 1, "top", os.getpid())
    same_unheard("run: no program", 2, "run", "--spec", "std/sqlite.chain", "--")
    same_unheard("a command that is not there", 2, "frob")
    same_unheard("an option that is not there", 2, "--frob")
    same_unheard("the daemon: an option that is not there", 2, "--frob", tool="chainio-runtime")
    same_unheard("the daemon: no spec", 2, tool="chainio-runtime")


def test_test(folder):
    """Of a test that fails, what is printed may be longer than a buffer: that it is lost as well makes no other code of it."""
    (folder / "app.chain").write_text('files any = "*"\nchain key(f: file any, n: u64) -> u64 { step s(b: block at 0 for 8) { return b.uint_le() + n } }\n')
    (folder / "app.test.yaml").write_text("spec: app.chain\ncases:\n" + "".join(CASE % f"'{'x' * 100} {number}'" for number in range(100)))
    (folder / "wrong.test.yaml").write_text("spec: none.chain\ncases:\n" + CASE % "one")
    same_unheard("test: no case", 1, "test", folder / "app.test.yaml", "--filter", "none")
    same_unheard("test: a spec that is not there", 1, "test", folder / "wrong.test.yaml")
    words = "test", folder / "app.test.yaml", "--engine", "interpreter"
    code, out, _ = ended("", "chainio", *words)
    expect("test: cases that fail", (code, len(out) > 8192), (1, True))
    for where in (">/dev/full", ">&-"):
        expect(f"  {where}", ended(where, "chainio", *words), (1, b"", ""))


def test_daemon(folder):
    chain = "chain c%d(f: file any, n: u64) -> u64 { step s(b: block at 0 for 8) { return b.uint_le() + n } }\n"
    (folder / "many.chain").write_text('files any = "*"\n' + "".join(chain % number for number in range(100)))
    expect("a spec of many chains", runs.tool("chainc", folder / "many.chain", "-o", folder / "many.o")[0], 0)
    words = "--spec", folder / "many.o"
    code, out, _ = ended("", "chainio-runtime", *words, "--check")
    expect("a plan that is longer than a buffer", (code, len(out) > 8192), (0, True))
    for where, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        expect(f"  --check {where}", ended(where, "chainio-runtime", *words, "--check"),
               lambda got, why=why: got[0] == 3 and f"chainio-runtime: cannot write standard output: {why}; " in got[2])
        command = ["sh", "-c", f'exec "$@" {where}', "sh", BUILD / "bin" / "chainio-runtime", *words, "--socket", folder / "socket"]
        with started.start(command, stderr=subprocess.PIPE, text=True) as server:
            said = next((line for line in server.stderr if line.startswith(("serving at ", "chainio-runtime: "))), "")
            expect(f"  the daemon serves {where}", said, f"serving at {folder / 'socket'}\n")
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
            expect("  and ends", server.wait(timeout=runs.LONGEST), 0)


def main():
    with built() as (folder, app, tree, _):
        test_call(app, tree, folder)
        test_store(folder)
        test_others(app, folder)
        test_test(folder)
        test_daemon(folder)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
