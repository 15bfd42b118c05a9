#!/usr/bin/env python3
"""What programs in C and Python tell errors by, and that those of the documents run as they are printed."""
import errno
import os
import pathlib
import pickle
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from call_and_runtime import BUILD, ROOT, built  # noqa: E402
from runs import expect, raised  # noqa: E402


def test_errors_of_files(chainio, app, tree, folder):
    """Python's own classes find them, so that nobody makes a file anew which may only not be read."""
    (folder / "loop").symlink_to("loop")
    with chainio.open(app, max_files=1) as handle:
        index = handle.file(tree)
        for what, call, kind, number in (
            ("a file that is not there", lambda: handle.file(folder / "none"), FileNotFoundError, errno.ENOENT),
            ("a directory", lambda: handle.file(folder), IsADirectoryError, errno.EISDIR),
            ("a file below a file", lambda: handle.file(tree / "x"), NotADirectoryError, errno.ENOTDIR),
            ("a link to itself", lambda: handle.file(folder / "loop"), OSError, errno.ELOOP),
            ("one file too many", lambda: handle.file(tree), OSError, errno.EMFILE),
            ("a class that is not there", lambda: handle.file(tree, "page"), OSError, errno.EINVAL),
            ("an artifact that is not there", lambda: chainio.open(folder / "none"), FileNotFoundError, errno.ENOENT),
            ("an artifact that is none", lambda: chainio.open(tree), OSError, errno.EBADMSG),
            ("a chain that is not there", lambda: handle.call("lokup"), FileNotFoundError, errno.ENOENT),
        ):
            error = raised(call)
            expect(what, (isinstance(error, chainio.ChainioError), isinstance(error, kind), getattr(error, "errno", None)), (True, True, number))
        handle.close_file(index)
        expect("a file that is closed twice", getattr(raised(lambda: handle.close_file(index)), "errno", None), errno.EBADF)
    user = os.geteuid()
    app.chmod(0)
    if user == 0:
        os.seteuid(65534)
    error = raised(lambda: chainio.open(app))
    os.seteuid(user)
    app.chmod(0o600)
    expect("an artifact of somebody else", (isinstance(error, PermissionError), str(error)), (True, f"[Errno 13] cannot read artifact '{app}': Permission denied"))
    error = raised(lambda: chainio.open(folder))
    again = pickle.loads(pickle.dumps(error))
    expect("an error in another process", (type(again), again.errno, str(again)), (type(error), errno.EISDIR, str(error)))
    expect("  which had no number", str(pickle.loads(pickle.dumps(chainio.ChainioError("no library")))), "no library")


def test_words(chainio, app, tree):
    """What an error is about is called as Python calls it."""
    for what, options, text in (
        ("too many in flight", {"in_flight": 70000}, "[Errno 22] in_flight is at most 65536"),
        ("too little memory", {"memory": 1}, "[Errno 22] memory is at least 262144 bytes, or 0: as in_flight asks"),
        ("two engines", {"auto": True, "interpret": True}, "[Errno 22] of interpret, kernel and auto only one can be True"),
        ("two others", {"kernel": True, "interpret": True}, "[Errno 22] of interpret, kernel and auto only one can be True"),
        ("too long", {"spin_us": 1 << 30}, "[Errno 22] spin_us is at most 1000000"),
        ("too much memory", {"memory": 1 << 50}, "[Errno 12] 1073741824 MiB of block memory (memory) and "),
    ):
        expect(what, str(raised(lambda: chainio.open(app, **options))), lambda said: said.startswith(text))
    refused = raised(lambda: chainio.open(app, kernel=True))
    expect("no kernel engine", refused, lambda error: error is None or str(error).endswith("; the user engine (no kernel=True) runs every call chain"))
    expect("a path keeps its words", str(raised(lambda: chainio.open("/none/options->x"))), "[Errno 2] cannot read artifact '/none/options->x': No such file or directory")
    (tree.parent / "two.chain").write_text('files a = "*.a"\nfiles b = "*.b"\n' + "".join(
        f"chain of_{one}(f: file {one}) -> u64 hops 1 {{ step all(b: block at 0 for 8) {{ return b.uint_le() }} }}\n" for one in "ab"))
    subprocess.run([BUILD / "bin" / "chainc", tree.parent / "two.chain", "-o", tree.parent / "two.o"], check=True)
    with chainio.open(tree.parent / "two.o") as handle:
        expect("which of two classes", str(raised(lambda: handle.file(tree))), "[Errno 22] the artifact has several file classes; give file_class, one of 'a', 'b'")
        expect("  by the name that it has", handle.call("of_b", f=handle.file(tree, file_class="b")).outcome, "ok")


def test_misuse(chainio, app, tree):
    with chainio.open(app) as handle:
        index = handle.file(tree)
        for what, call, kind, text in (
            ("a parameter that is misspelt", lambda: handle.call("lookup", index=index, kye=42), TypeError, "chain 'lookup' has no parameter 'kye'; did you mean 'key'?"),
            ("one that is another", lambda: handle.call("lookup", index=index, colour=42), TypeError,
             "chain 'lookup' has no parameter 'colour'; the parameters are index, key"),
            ("one that is no text", lambda: list(handle.map("lookup", [{3: 4}])), TypeError, "chain 'lookup' has no parameter '3'; the parameters are index, key"),
            ("a truth for an integer", lambda: handle.call("lookup", index=index, key=True), TypeError,
             "parameter 'key' of chain 'lookup': True is no integer; an integer is wanted, such as 42"),
            ("no row in flight", lambda: list(handle.map("lookup", [{"index": index, "key": 42}], in_flight=0)), ValueError,
             "in_flight: with 0 rows in flight none is run; give 1 or more, or None for as many as the artifact was opened with"),
        ):
            error = raised(call)
            expect(what, (type(error), str(error)), (kind, text))
        for many in (1, 1000, None):
            expect(f"{many} in flight", [result.value for _, result in handle.map("lookup", [{"index": index, "key": 42}] * 3, in_flight=many)], [294] * 3)


def test_inspect(folder):
    (folder / "one.chain").write_text('files a = "*.a" { header H }\nrecord H { one: u8 }\n'
                                      "chain c(f: file a) -> u64 hops 2 { state { n: u8 } step s(b: block at 0 for 8) { n = n + f.one  return n } }\n")
    subprocess.run([BUILD / "bin" / "chainc", folder / "one.chain", "-o", folder / "one.o"], check=True)
    shown = subprocess.run([BUILD / "bin" / "chainio", "inspect", folder / "one.o"], capture_output=True, text=True).stdout
    expect("inspect: one byte of each", ("header of 1 byte: one\n" in shown, "steps: s; 1 byte of state\n" in shown), (True, True))


def test_debugging_information(library):
    """Of another version valgrind 3.19 ends every program that is linked to the library, whatever it does."""
    if not shutil.which("readelf"):
        print("skipped: the version of the library's debugging information: there is no readelf")
        return
    units = subprocess.run(["readelf", "-W", "--debug-dump=info", library], capture_output=True, text=True, check=True).stdout
    expect("versions of debugging information", set(re.findall(r"^ +Version: +(\d+)", units, re.M)) - {"4"}, set())
    for name in ("chainc", "chainio") if shutil.which("valgrind") else ():
        said = [subprocess.run([*below, BUILD / "bin" / name, "--version"], capture_output=True, text=True, timeout=runs.LONGEST) for below in ([], ["valgrind", "-q"])]
        expect(f"{name} below valgrind", *((done.returncode, done.stdout, done.stderr) for done in reversed(said)))


def blocks(page):
    """The code blocks of a page, each with its language."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def test_examples(folder):
    """The programs of docs/runtime.md, as they are printed, over what the README makes."""
    place = folder / "examples"
    place.mkdir()
    tool = lambda *words, **more: subprocess.run(list(map(str, words)), cwd=place, capture_output=True, text=True, timeout=runs.LONGEST, **more)
    spec = next(text for _, text in blocks("README.md") if text.startswith("files pages"))
    (place / "app.chain").write_text(spec)
    commands = next(text for language, text in blocks("README.md") if language == "sh" and "chainc app.chain -o app.bpf.o" in text)
    path = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    expect("the README's commands", tool("sh", "-ec", commands, env=path), lambda done: (done.returncode, done.stdout) == (0, "4200\n"))

    page = blocks("docs/runtime.md")
    ours = {language: text for language, text in page if language in ("c", "python")}
    if shutil.which("cc"):
        builds = next(text for language, text in page if language == "sh" and "cc app.c" in text)
        in_clone = next(line for line in builds.splitlines() if "-rpath" in line)
        (place / "build").mkdir()
        (place / "runtime").symlink_to(ROOT / "runtime")
        (place / "build" / "release").symlink_to(BUILD)
        (place / "app.c").write_text(ours["c"])
        done = tool("sh", "-ec", in_clone + " -std=c11 -Wall -Wextra -Wpedantic -Werror")
        if expect("the C program compiles", (done.returncode, done.stderr), (0, "")):
            done = tool("./app")
            said = (0, ["41: not_found, 0", "42: ok, 4200", "43: not_found, 0"], "")
            expect("  and runs", (done.returncode, sorted(done.stdout.splitlines()), done.stderr), said)
            if shutil.which("valgrind"):
                done = tool("valgrind", "-q", "--error-exitcode=9", "./app")
                expect("  and below valgrind", (done.returncode, sorted(done.stdout.splitlines()), done.stderr), said)
            else:
                print("skipped: the C program of docs/runtime.md below valgrind, which is not installed")
            (place / "main.idx").unlink()
            done = tool("./app")
            expect("  and says what is wrong", (done.returncode, done.stderr), (1, "file 'main.idx' for class 'pages': No such file or directory\n"))
    else:
        print("skipped: the C program of docs/runtime.md: there is no cc")

    (place / "get.chain").write_text(next(text for _, text in page if text.startswith("files index")))
    expect("the spec of two classes", tool(BUILD / "bin" / "chainc", "get.chain", "-o", "get.o").returncode, 0)
    values = [b"zero", b"one", b"two"]
    (place / "main.log").write_bytes(b"".join(values))
    (place / "main.ix").write_bytes(b"".join(struct.pack("<QQ", at, len(value)) for at, value in zip((0, 4, 7), values)))
    (place / "get.py").write_text(ours["python"])
    done = tool(sys.executable, "get.py", env={**os.environ, "PYTHONPATH": str(ROOT / "runtime" / "bindings" / "python")})
    first, *rest = done.stdout.splitlines()
    expect("the Python program", (done.returncode, first, sorted(rest), done.stderr), (0, "b'one'", ["0 ok b'zero' 2", "1 ok b'one' 2", "2 ok b'two' 2", "3 short_read None 1"], ""))
    pages = re.findall(r"^CHAINIO_API .*?(chainio_\w+)\(", (ROOT / "runtime" / "bindings" / "include" / "chainio.h").read_text(), re.M)
    missing = [name for name in pages if not (ROOT / "runtime" / "bindings" / "man" / f"{name}.3").exists()]
    expect("each function has a man page", (len(pages) > 15, missing), (True, []))


def main():
    library = BUILD / "lib" / "libchainio-call.so.0"
    if not library.exists():
        print(f"skipped: {library} is not built")
        return 77
    os.environ["CHAINIO_CALL_LIBRARY"] = str(library)
    sys.path.insert(0, str(ROOT / "runtime" / "bindings" / "python"))
    import chainio
    with built() as (folder, app, tree, _):
        test_errors_of_files(chainio, app, tree, folder)
        test_words(chainio, app, tree)
        test_misuse(chainio, app, tree)
        test_inspect(folder)
        test_debugging_information(library)
        test_examples(folder)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
