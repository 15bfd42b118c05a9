#!/usr/bin/env python3
"""What the tools are given: numbers are whole and decimal, an output that is too long for its file or has no place leaves nothing behind, what is
replaced keeps its owner, and an error is short and ends with the status of its kind."""
import os
import pathlib
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import netns  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from runs import BUILD, expect, tool  # noqa: E402

SPEC = 'files any = "*"\nchain key(f: file any, n: u64) -> u64 { step s(b: block at 0 for 8) { return b.uint_le() + n } }\n'


def build(*words, stdin=None):
    return tool("chainio", "store", "build", *words, stdin=stdin)


def limited(folder, bytes_, name, *words):
    """With files of at most so many bytes; temporary files come into the folder, too."""
    done = subprocess.run([BUILD / "bin" / name, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120,
                          env=os.environ | {"TMPDIR": str(folder)}, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_)))
    return done.returncode, done.stdout, done.stderr


def test_numbers(folder):
    lines = folder / "lines"
    lines.write_text("a\t1\n")
    for given, seed in (("010", 10), ("0x10", 16), ("0", 0), (str(2 ** 64 - 1), 2 ** 64 - 1)):
        expect(f"--seed {given}", build(folder / "s", "--from", lines, "--seed", given), lambda r, seed=seed: r[0] == 0 and f", seed {seed}\n" in r[1])
    for wrong in ("-1", str(2 ** 64), "9" * 30, "", "1.5", "0x", "1 "):
        expect(f"refused: --seed {wrong!r}", build(folder / "s", "--from", lines, "--seed", wrong),
               (2, "", f"chainio store build: --seed: Value {wrong} not in range 0 to {2 ** 64 - 1}\n  hint: `chainio store build --help` lists the options\n"))
    words = ("--spec", folder / "app.o", "--check", "--in-flight")
    expect("zeros in front of a decimal number", tool("chainio-runtime", *words, "08")[0], 0)
    expect("refused: a number that is in range in octal alone", tool("chainio-runtime", *words, "065537"), lambda r: r[0] == 2 and "Value 065537 not in range 1 to 65536" in r[2])
    for words in (("store", "frob"), ("--frob",), ("store", "build", "--frob")):
        expect(f"refused by its name: {words[-1]}", tool("chainio", *words), lambda r, word=words[-1]: r[0] == 2 and f"The following argument was not expected: {word}\n" in r[2])


def test_no_value(folder):
    """`--option=` is an option whose value is empty, and what stands behind it is none of it."""
    refused = (("chainc", ("--check", folder / "app.chain"), {"--source-map": "the name of a file is empty", "--target": "the value is empty", "--explain": "the value is empty",
                                                              "--stdlib": "the value is empty", "--clang": "the value is empty", "--emit": " not in {ast"}, "-Werror"),
               ("chainc", ("-MD", "-o", folder / "none.o", folder / "app.chain"), {"--deps-file": "the name of a file is empty"}, "--verify"),
               ("chainio-runtime", ("--spec", folder / "app.o"), {"--interface": "the name is empty", "--socket": "the name is empty", "--in-flight": "Value  not in range 1 to 65536"}, "--check"),
               ("chainio", ("test", folder / "a.test.yaml"), {"--filter": "the name is empty"}, folder / "b.test.yaml"),
               ("chainio", ("call", folder / "app.o", "key", "--n", "1"), {"--output": " not in {raw", "--file": "the name is empty"}, f"--file={folder / 'app.o'}"),
               ("chainio", ("store", "build", folder / "none"), {"--query": "the query is empty", "--from": "the name is empty"}, "--allow-empty"))
    for name, words, options, behind in refused:
        for option, why in options.items():
            done = tool(name, *words, f"{option}=", behind, cwd=folder)
            expect(f"refused: {name} {option}=", done, lambda r, option=option, why=why: (r[0], r[1]) == (2, "") and f": {option}: {why}" in r[2] and r[2].count("\n") == 2)
    done = tool("chainio", "run", "--spec=std/sqlite.chain", "--summary=", "--strict", "--", "/bin/true", cwd=folder)
    expect("refused: chainio run --summary=", done, lambda r: (r[0], r[2].split("\n")[0]) == (2, "chainio run: --summary: the name is empty"))
    expect("  which leaves no file of the next word's name", [name.name for name in folder.iterdir() if name.name.startswith(("-", "none"))], [])
    flags = {"chainc": ("--check", "--fmt", "--report", "--verify"), "chainio-runtime": ("--check", "--json"), "chainio": ("--json",)}
    for name, options in flags.items():
        words = {"chainc": (folder / "app.chain",), "chainio-runtime": ("--spec", folder / "app.o"), "chainio": ("call", folder / "app.o", "key", "--n", "1")}[name]
        for option in options:
            expect(f"refused: {name} {option}=", tool(name, *words, f"{option}=", cwd=folder),
                   lambda r, option=option: (r[0], r[1]) == (2, "") and f"{option}: nothing stands behind the =" in r[2])
    if (BUILD / "bin" / "cloud-volume").exists():
        (folder / "mountpoint").mkdir()
        done = tool("cloud-volume", folder / "mountpoint", folder, "--delay-us=", "5")
        expect("refused: cloud-volume --delay-us=", done, lambda r: (r[0], r[1]) == (2, "") and r[2].startswith("cloud-volume: --delay-us: Value  not in range"))
    (folder / "bytes.chain").write_text('files any = "*"\nchain length(f: file any, b: bytes(max 8)) -> u64 { step s(x: block at 0 for 8) { return b.length } }\n')
    expect("a spec with bytes", tool("chainc", folder / "bytes.chain", "-o", folder / "bytes.o")[0], 0)
    expect("a parameter's value may be empty", tool("chainio", "call", folder / "bytes.o", "length", "--b=", "--file", folder / "app.o"), (0, "0\n", ""))
    expect("and what is behind `--` is the program's own", tool("chainio", "run", "--spec=std/sqlite.chain", "--quiet", "--", "/bin/echo", "--summary=", "a"), (0, "--summary= a\n", ""))


def test_too_long(folder):
    source = "# c\n" * 9000 + SPEC
    (folder / "long.chain").write_text("const  A = 1\n" + source)
    before = sorted(folder.iterdir())
    expect("a spec that is formatted", limited(folder, 20 << 10, "chainc", "--fmt", "--in-place", "long.chain"), lambda r: r[0] == 3 and "File too large" in r[2])
    expect("  stays", ((folder / "long.chain").read_text(), sorted(folder.iterdir())), ("const  A = 1\n" + source, before))
    expect("an artifact", limited(folder, 20 << 10, "chainc", "app.chain", "-o", "x.o"), lambda r: r[0] == 3 and "File too large" in r[2])
    expect("  of which nothing is there", sorted(folder.iterdir()), before)
    (folder / "big").write_text("".join(f"{i}\t{'x' * 100}\n" for i in range(2000)))
    before = sorted(folder.iterdir())
    expect("a store", limited(folder, 10 << 10, "chainio-main", "store", "build", "l.store", "--from", "big"), lambda r: r[0] == 3 and "File too large" in r[2])
    expect("  of which nothing is there", sorted(folder.iterdir()), before)


def test_no_place(folder):
    made = folder / "made.o"
    for option, words in (("--source-map", ("--source-map",)), ("-MF", ("-MD", "-MF"))):
        expect(f"{option} that cannot be written", tool("chainc", *words, folder / "none" / "m", folder / "app.chain", "-o", made),
               lambda r, option=option: r[0] == 3 and r[2].endswith(f"hint: choose another place with `{option} FILE`\n"))
        expect("  leaves no artifact", made.exists(), False)


def test_owner(folder):
    if os.getuid() != 0:
        return print("skipped: owners of files: only root gives files away")
    source = folder / "owned.chain"
    source.write_text("const   A=1\n")
    source.chmod(0o640)
    os.chown(source, 1234, 2345)
    expect("a file of somebody else is formatted", tool("chainc", "--fmt", "--in-place", source)[0], 0)
    info = source.stat()
    expect("  and stays his", (info.st_uid, info.st_gid, info.st_mode & 0o7777, source.read_text()), (1234, 2345, 0o640, "const A = 1\n"))


ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def access_list(owner, named, group, mask, others):
    """A list of whom a file is for, in the kernel's form; `named` is what user 3456 may."""
    entries = ((0x01, owner, 2 ** 32 - 1), (0x02, named, 3456), (0x04, group, 2 ** 32 - 1), (0x10, mask, 2 ** 32 - 1), (0x20, others, 2 ** 32 - 1))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def list_of(path):
    return os.getxattr(path, ACCESS) if ACCESS in os.listxattr(path) else None


def test_access_lists(folder):
    here = folder / "lists"
    here.mkdir()
    source, listed = here / "listed.chain", access_list(6, 4, 0, 4, 0)
    source.write_text("const   A=1\n")
    try:
        os.setxattr(source, ACCESS, listed)
    except OSError as error:
        return print(f"skipped: files for users by name: {error.strerror}")
    expect("a file for a user by name is formatted", tool("chainc", "--fmt", "--in-place", source)[0], 0)
    expect("  and is for him, and for no group", (list_of(source), source.stat().st_mode & 0o777, source.read_text()), (listed, 0o640, "const A = 1\n"))
    plain = here / "plain.chain"
    plain.write_text("const   A=1\n")
    plain.chmod(0o640)
    os.setxattr(here, DEFAULT, access_list(7, 7, 7, 7, 0))
    expect("a file in a folder whose new files are for somebody", tool("chainc", "--fmt", "--in-place", plain)[0], 0)
    expect("  is not for him", (list_of(plain), plain.stat().st_mode & 0o777, plain.read_text()), (None, 0o640, "const A = 1\n"))


def test_attributes(folder):
    """What may not be handed on is named."""
    source, target = folder / "plain.chain", folder / "labelled.chain"
    source.write_text("const   A=1\n")
    target.write_text("")
    try:
        os.setxattr(target, "security.SMACK64", b"label")
        os.chown(target, 5678, 5678)
        folder.chmod(0o777)
        done = subprocess.run([BUILD / "bin" / "chainc", "--fmt", source, "-o", target], capture_output=True, text=True, timeout=runs.LONGEST, user=5678, group=5678)
    except OSError as error:
        return print(f"skipped: a label that its owner may not set: {error.strerror}")
    expect("a label that is lost is named", (done.returncode, done.stderr, target.read_text()),
           lambda got: (got[0], got[2]) == (0, "const A = 1\n") and "warning[CH0509]: " in got[1] and "the attribute security.SMACK64: Operation not permitted" in got[1])


def test_group(folder):
    """Who may not give files away keeps a group of his own, and opens the file to no other one."""
    if os.getuid() != 0:
        return print("skipped: files of other groups: only root makes them")
    here = folder / "groups"
    here.mkdir()
    here.chmod(0o777)
    folder.chmod(0o755)
    (here / "new.chain").write_text("const   A=1\n")
    for groups, mode, wanted in (((2345,), 0o640, (5678, 2345, 0o640)), ((), 0o460, (5678, 5678, 0o400)), ((), 0o664, (5678, 5678, 0o644))):
        target = here / f"{mode:o}.chain"
        target.write_text("")
        os.chown(target, 1234, 2345)
        target.chmod(mode)
        try:
            done = subprocess.run([BUILD / "bin" / "chainc", "--fmt", here / "new.chain", "-o", target], capture_output=True, text=True, timeout=runs.LONGEST,
                                  user=5678, group=5678, extra_groups=groups)
        except PermissionError as error:
            return print(f"skipped: files that others replace: {error}")
        info = target.stat()
        expect(f"a file of mode {mode:o} that somebody else replaces", (done.returncode, done.stderr, info.st_uid, info.st_gid, info.st_mode & 0o7777), (0, "", *wanted))


def test_store_input(folder):
    with sqlite3.connect(folder / "a.db") as db:
        db.execute("CREATE TABLE t(key, value)")
    for query in ("select json('{'), 2", "select abs(-9223372036854775808), 2"):
        expect(f"a query that cannot be done: {query}", build(folder / "q", "--from-sqlite", folder / "a.db", "--query", query), lambda r: r[0] == 1 and ": row 1: " in r[2])
    mark = b"\xef\xbb\xbf"
    for text, items in ((mark, 0), (mark + b"a\t1\n", 1), (mark[:2], None), (mark + b"\n", None), (b"\n" + mark, None)):
        (folder / "marked").write_bytes(text)
        done = build(folder / "m", "--from", folder / "marked", "--allow-empty")
        expect(f"{text}", done, lambda r, items=items: (r[0] == 1) if items is None else r[0] == 0 and f"{items} item" in r[1])
    with started.start([BUILD / "bin" / "chainio", "store", "build", folder / "p", "--from", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as pieces:
        for byte in mark + b"k\tv\n":
            pieces.stdin.write(bytes([byte]))
        out, _ = pieces.communicate(timeout=60)
    expect("a mark that comes byte by byte", (pieces.returncode, b"1 item" in out), (0, True))


def test_interrupted(folder):
    """While a command runs, and behind it, when what it has started in the background still writes."""
    for name, command in (("amid", "touch \"$SPEC_DIR/amid\"; exec sleep 600"), ("behind", "sleep 600 & touch \"$SPEC_DIR/behind\"")):
        (folder / "a.test.yaml").write_text(f"spec: app.chain\ncommands: {command}\n"
                                            "cases:\n  - { name: one, chain: key, files: { f: app.chain }, args: { n: 1 }, expect: { value: 1 } }\n")
        # A signal that is ignored, as SIGINT is behind the & of a script, stays so.
        with started.start([BUILD / "bin" / "chainio", "test", folder / "a.test.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as test:
            netns.until("the command runs", (folder / name).exists)
            test.send_signal(signal.SIGINT)
            said = test.communicate(timeout=runs.LONGEST)[1]
        expect(f"a test that is interrupted {name} a command says nothing else", (test.returncode, said), (-signal.SIGINT, "chainio test: interrupted\n"))


def test_long_line(folder):
    done = tool("chainio", "call", folder / "app.o", "key", "--file", folder / "app.o", "--keys", "-", stdin="é" * 1_500_000 + "\n")
    expect("a long line is named by its begin", done, lambda r: r[0] == 1 and f"'{'é' * 100}…' for parameter 'n': an integer is wanted" in r[2] and len(r[2]) < 1000)


def test_no_memory(folder):
    """Whatever a limit of address space has no room for, nobody is told the name of a class."""
    (folder / "a.tsv").write_text("a\tb\n")
    for name, words in (("chainio-main", ["store", "build", "--from", "a.tsv", "a.store"]), ("chainio-runtime", ["--spec", "app.o", "--check"])):
        said = set()
        for size in range(8, 40):
            done = subprocess.run([BUILD / "bin" / name, *words], cwd=folder, capture_output=True, text=True, timeout=runs.LONGEST,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20)))
            said.add((done.returncode, done.stderr) if done.returncode == 3 else done.returncode)
        expect(f"{name} without memory", [each for each in said if "bad_alloc" in str(each)], [])
        if name == "chainio-main":
            expect("  which is said", (3, "chainio: out of memory; a limit of address space (`ulimit -v`) counts here, too\n") in said, True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        expect("a spec", tool("chainc", folder / "app.chain", "-o", folder / "app.o")[0], 0)
        for test in (test_numbers, test_no_value, test_too_long, test_no_place, test_owner, test_access_lists, test_attributes, test_group, test_store_input, test_interrupted, test_long_line, test_no_memory):
            test(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
