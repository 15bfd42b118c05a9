#!/usr/bin/env python3
"""The Python binding, on the tree of call_and_runtime.py."""
import copy
import gc
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from call_and_runtime import BUILD, ROOT, built, run  # noqa: E402
from runs import expect  # noqa: E402


def test_python(app, tree, keys):
    library = BUILD / "lib" / "libchainio-call.so.0"
    if not library.exists():
        print(f"skipped: the Python binding: {library} is not built")
        return
    os.environ["CHAINIO_CALL_LIBRARY"] = str(library)
    sys.path.insert(0, str(ROOT / "runtime" / "bindings" / "python"))
    import chainio
    with chainio.open(app, max_files=2, memory=1 << 20) as handle:
        expect("python: memory", handle.engine, lambda said: "1024 KiB of block memory" in said)
        first, second = handle.file(tree), handle.file(tree)
        try:
            handle.file(tree)
            expect("python: three files of two", "none", "ChainioError")
        except chainio.ChainioError as refused:
            expect("python: three files of two", refused.strerror,
                   f"file '{tree}': all 2 file slots are in use (max_files); close one, or open the artifact with more")
        handle.close_file(first)
        expect("python: a file in the place of one that was closed", handle.call("lookup", index=handle.file(tree), key=42).value, 294)
        handle.close_file(second)
        try:
            handle.close_file(second)
            expect("python: a file that is closed twice", "none", "ChainioError")
        except chainio.ChainioError as refused:
            expect("python: a file that is closed twice", refused.strerror, "no such file is open")
    with chainio.open(app, in_flight=16) as handle:
        index = handle.file(tree)
        expect("python: call", handle.call("lookup", index=index, key=42)[:3], ("ok", 294, 2))
        expect("python: parameters `name` and `self`", handle.call("named", index=index, name=40, self=2).value, 42)
        expect("python: bytes", handle.call("piece", index=index, at=0, tag=b"\0\0").value, tree.read_bytes()[:16])
        for _ in range(100):  # more than are open at once
            handle.close_file(handle.file(tree))
        rows = [{"index": index, "key": k} for k in keys]
        got = {row["key"]: result.value for row, result in handle.map("lookup", rows)}
        expect("python: map", got, {k: 7 * k for k in keys})

        def failing():
            yield from rows[:5]
            raise EOFError
        try:
            list(handle.map("lookup", failing()))
            expect("python: an error among the rows", "none", "EOFError")
        except EOFError:
            pass  # five chains were in flight
        again = {row["key"]: result.value for row, result in handle.map("lookup", rows[::-1])}
        expect("python: map after one that ended early", again, {k: 7 * k for k in keys})
        for what, values, error in (("too large", {"key": 1 << 64}, OverflowError), ("below", {"key": -1}, OverflowError),
                                    ("a path for a file", {"index": str(tree)}, TypeError)):
            try:
                handle.call("lookup", **{"index": index, "key": 42, **values})
                expect(f"python: {what}", "none", error.__name__)
            except error as refused:
                expect(f"python: {what}", str(refused), lambda e: "of chain 'lookup'" in e)
        for value in ("x", 2.0, None):
            try:
                handle.call("lookup", index=index, key=value)
                expect(f"python: {value!r} for an integer", "none", "TypeError")
            except TypeError as refused:
                expect(f"python: {value!r} for an integer", str(refused),
                       f"parameter 'key' of chain 'lookup': {value!r} is no integer; an integer is wanted, such as 42")

        for value in (3, None, [1, 2]):
            try:
                handle.call("piece", index=index, at=0, tag=value)
                expect(f"python: {value!r} for bytes", "none", "TypeError")
            except TypeError as refused:
                expect(f"python: {value!r} for bytes", str(refused),
                       f"parameter 'tag' of chain 'piece': {value!r} is no text and no bytes; these are wanted, such as b'42'")
        alike = [handle.call("piece", index=index, at=0, tag=value).value for value in ("ab", b"ab", bytearray(b"ab"), memoryview(b"ab"))]
        expect("python: text and bytes of every kind", alike, [alike[0]] * 4)

        class Integer:
            def __index__(self):
                return 42
        expect("python: an integer of another library", handle.call("lookup", index=index, key=Integer()).value, 294)
        try:
            handle.call("lokup")
            expect("python: refusal", "none", "an error")
        except chainio.ChainioError as error:
            expect("python: refusal", str(error), lambda e: "did you mean 'lookup'?" in e)


def refusal(call):
    """What is raised, as its type's name and its text; where nothing is, what is returned."""
    returned = []
    error = runs.raised(lambda: returned.append(call()))
    return ("none", *returned) if error is None else (type(error).__name__, str(error))


def test_python_misuse(app, tree, keys):
    """What a program gets wrong is an exception that says so: no signal, no other file's value, no row that is left out."""
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("skipped: what Python programs get wrong: the library is not built")
        return
    import chainio
    closed = chainio.open(app)
    index = closed.file(tree)
    closed.call("lookup", index=index, key=42)
    amid = closed.map("lookup", [{"index": index, "key": key} for key in keys])
    next(amid)
    closed.close()
    for what, call in (("call", lambda: closed.call("lookup", index=index, key=42)), ("map", lambda: list(amid)), ("file", lambda: closed.file(tree)),
                       ("close_file", lambda: closed.close_file(index)), ("engine", lambda: closed.engine), ("close", closed.close)):
        wanted = ("none", None) if what == "close" else ("ChainioError", "[Errno 9] the artifact is closed; open it again")
        expect(f"python: {what} after the end", refusal(call), wanted)
    for option, value, most in (("in_flight", -1, (1 << 32) - 1), ("max_files", (1 << 32) + 1, (1 << 32) - 1), ("memory", 1 << 64, (1 << 64) - 1)):
        expect(f"python: {option}={value}", refusal(lambda: chainio.open(app, **{option: value})), ("OverflowError", f"{option}: {value} is not between 0 and {most}"))
    expect("python: an artifact with a zero byte", refusal(lambda: chainio.open(f"{app}\0x")), ("ValueError", f"the path '{app}\\x00x' has a zero byte in it"))
    with chainio.open(app, in_flight=0) as handle:
        index = handle.file(tree)
        row, odd, shown = {"index": index, "key": 42}, f"{app}-\u00e4".encode() + b"\xff", f"{app}-\u00e4\\xff"
        expect("python: 0 is as many as C's 0", handle.call("lookup", **row).value, 294)
        for what, call, wanted in (
            ("a file with a zero byte", lambda: handle.file(f"{tree}\0x"), ("ValueError", f"the path '{tree}\\x00x' has a zero byte in it")),
            ("a chain with a zero byte", lambda: handle.call("lookup\0", **row), ("ValueError", "the name of a chain, 'lookup\\x00', has a zero byte in it")),
            ("a chain that is no text", lambda: handle.call(3), ("TypeError", "the name of a chain is a text, not 3")),
            ("a class that is no text", lambda: handle.file(tree, 3), ("TypeError", "the name of a file class is a text, not 3")),
            ("a number for a file", lambda: handle.close_file(3), ("TypeError", "3 is no file; give what `file()` returned")),
            ("a row that is none", lambda: list(handle.map("lookup", [row, None, row])), ("TypeError", "a row of chain 'lookup' is a dict of its parameters, not None")),
            ("less than no row in flight", lambda: list(handle.map("lookup", [row], in_flight=-1)), ("OverflowError", f"in_flight: -1 is not between 0 and {(1 << 32) - 1}")),
            ("an artifact whose name is no UTF-8", lambda: chainio.open(odd), ("ChainioError", f"[Errno 2] cannot read artifact '{shown}': No such file or directory")),
            ("a file whose name is no UTF-8", lambda: handle.file(odd), ("ChainioError", f"[Errno 2] file '{shown}' for class 'pages': No such file or directory")),
            ("a copy", lambda: copy.copy(handle), ("TypeError", "an open artifact can be neither copied nor pickled; open it again")),
        ):
            expect(f"python: {what}", refusal(call), wanted)
    before = len(os.listdir("/proc/self/fd"))
    chainio.open(app).file(tree)
    expect("python: what nobody holds is closed", len(os.listdir("/proc/self/fd")), before)

    def leave():
        held = chainio.open(app)
        held._start("lookup", {"index": held.file(tree), "key": 42}, chainio._Map())
        held.itself = held
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    gc.collect()
    expect("python:   with a chain in flight too, by another thread", len(os.listdir("/proc/self/fd")), before)


def test_python_within(app, tree, keys):
    """Calls and maps amid a map, by one thread and by several: each has its own results."""
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("skipped: Python's calls within a map: the library is not built")
        return
    import chainio
    with chainio.open(app, in_flight=16) as handle:
        index = handle.file(tree, direct=True)
        rows = lambda some: [{"index": index, "key": key} for key in some]
        got = [(row["key"], result.value, handle.call("lookup", index=index, key=row["key"]).value) for row, result in handle.map("lookup", rows(keys))]
        expect("python: a call amid a map", sorted(got), [(key, 7 * key, 7 * key) for key in keys])
        pairs = [(one["key"], first.value, other["key"], second.value) for (one, first), (other, second)
                 in zip(handle.map("lookup", rows(keys[:400])), handle.map("lookup", rows(keys[400:])))]
        expect("python: two maps by turns", len([1 for one, first, other, second in pairs if (first, second) == (7 * one, 7 * other)]), 400)
        said = []

        def elsewhere():
            said.extend(refusal(lambda: [result.value for _, result in handle.map("lookup", rows(keys[:20]))]) for _ in range(20))
        threads = [threading.Thread(target=elsewhere) for _ in range(4)]
        for thread in threads:
            thread.start()
        here = [row["key"] for _ in range(20) for row, result in handle.map("lookup", rows(keys[:100])) if result.value != 7 * row["key"]]
        for thread in threads:
            thread.join()
        expect("python: the thread that has it goes on", here, [])
        refused = ("ChainioError", "[Errno 5] io_uring_enter: File exists (an engine belongs to the thread that reaped first)")
        # What the first thread's reap brings along is theirs all the same.
        expect("python: others are refused, or have what is theirs", [one for one in said if one != refused and (one[0], sorted(one[1])) != ("none", [7 * key for key in keys[:20]])], [])


def test_python_interrupted(app, tree, keys):
    """Ctrl-C right behind a chain's beginning, or before it, and a refusal: later calls know nothing of it."""
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("skipped: Python programs that are interrupted: the library is not built")
        return
    import chainio
    with chainio.open(app, in_flight=16) as handle:
        index = handle.file(tree)
        submit = handle._lib.chainio_submit
        got = []
        for begins in (True, False):
            def interrupted(*arguments):
                if begins:
                    submit(*arguments)
                raise KeyboardInterrupt
            other = handle.map("lookup", [{"index": index, "key": key} for key in keys[:8]], in_flight=4)
            first = next(other)
            handle._lib.chainio_submit = interrupted
            try:
                handle.call("lookup", index=index, key=keys[3])
            except KeyboardInterrupt:
                pass
            handle._lib.chainio_submit = submit
            rest = [first, *other]
            got.append((sorted(result.value for _, result in rest), handle.call("lookup", index=index, key=42).value, len(handle._running)))
        expect("python: what goes on behind Ctrl-C", got, [([7 * key for key in keys[:8]], 294, 0)] * 2)
        refused = refusal(lambda: handle.call("piece", index=index, at=0, tag=bytes(4096)))
        expect("python: of a refusal nothing is left", (refused[0], len(handle._running)), ("ChainioError", 0))


def test_python_long_text(app, tree):
    """A text of 4 GiB, of which C would see the length's low half alone; its bytes take no memory here, nor count for any limit of it."""
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("skipped: Python's long texts: the library is not built")
        return
    import chainio

    class Text(str):
        def encode(self, *_):
            return memoryview(mmap.mmap(-1, (1 << 32) + 2, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ))
    with chainio.open(app) as handle:
        index = handle.file(tree)
        for text in (Text("ab"), Text("ab").encode()):
            expect("python: 4 GiB of text", refusal(lambda: handle.call("piece", index=index, at=0, tag=text)),
                   ("OverflowError", f"parameter 'tag' of chain 'piece': {(1 << 32) + 2} bytes are too many"))


def test_python_library(app, folder):
    """Where the binding looks for its library, and what it says when it is not there."""
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("skipped: the Python binding's library: it is not built")
        return
    binding = pathlib.Path("runtime/bindings/python/chainio.py")
    tree = folder / "sources"
    (tree / "build").mkdir(parents=True)
    prefix = folder / "prefix"
    installed = prefix / "share" / "chainio" / "python" / "chainio.py"
    for place in (tree / binding, installed):
        place.parent.mkdir(parents=True)
        place.write_bytes((ROOT / binding).read_bytes())

    # Python 3.12 is the first whose pathlib finds links that lead nowhere, as the module glob always has.
    finds_all = "import glob, pathlib\npathlib.Path.glob = lambda folder, pattern: map(pathlib.Path, glob.glob(str(folder / pattern)))\n"

    def opened(place=tree / binding, **extra):
        environment = {name: value for name, value in os.environ.items() if name != "CHAINIO_CALL_LIBRARY"} | extra
        program = finds_all + f"import chainio\ntry:\n    chainio.open({str(app)!r})\n    print('opened')\nexcept chainio.ChainioError as error:\n    print(error)"
        return subprocess.run([sys.executable, "-c", program], cwd=place.parent, env=environment, capture_output=True, text=True, timeout=60).stdout

    remedy = "; install ChainIO (cmake --install build/release, then ldconfig), or name the library in CHAINIO_CALL_LIBRARY\n"
    expect("python: the named library is not there", opened(CHAINIO_CALL_LIBRARY="/no/library"),
           lambda text: text.startswith("libchainio-call cannot be loaded (/no/library") and text.endswith(remedy))
    (tree / "build" / "release").symlink_to(BUILD)
    expect("python: the library of the build tree beside it", opened(), "opened\n")
    gone = tree / "build" / "gone" / "lib" / "libchainio-call.so.0"
    gone.parent.mkdir(parents=True)
    gone.symlink_to("nothing")
    expect("python:   and of one whose library is gone", opened(), "opened\n")
    expect("python: a named library beside that", opened(CHAINIO_CALL_LIBRARY=str(BUILD / "lib" / "libchainio-call.so.0")), "opened\n")
    for name in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
        library = prefix / name / "libchainio-call.so.0"
        library.symlink_to(BUILD / "lib" / "libchainio-call.so.0")
        expect(f"python: installed below a prefix of its own, in {name}", opened(installed), "opened\n")
        library.unlink()


def test_python_example(folder):
    """examples/btree/heavy.py prints what the same chain gives on the command line."""
    library = BUILD / "lib" / "libchainio-call.so.0"
    if not library.exists():
        print(f"skipped: examples/btree/heavy.py: {library} is not built")
        return
    example, app, tree = ROOT / "examples" / "btree", folder / "btree.bpf.o", folder / "btree.idx"
    subprocess.run([sys.executable, example / "make_tree.py", tree], check=True)
    subprocess.run([BUILD / "bin" / "chainc", example / "app.chain", "-I", ROOT / "stdlib-chains", "-o", app], check=True, capture_output=True)
    out = subprocess.run([sys.executable, example / "heavy.py", app, tree], capture_output=True, text=True, timeout=60,
                         env=os.environ | {"CHAINIO_CALL_LIBRARY": str(library)})
    rows = [tuple(map(int, line.split())) for line in out.stdout.splitlines()]
    expect("python example: ranges", [row[:2] for row in rows], [(low, low + 500) for low in range(0, 5000, 500)])
    for low, high, count, total in rows[:3]:
        got = run("call", app, "heavy", "--file", f"tree={tree}", "--low", low, "--high", high, "--weight", 5, "--output", "hex")[1]
        expect(f"python example: {low}", struct.pack("<QQ", count, total).hex(), got.strip())
        expect(f"python example: {low} is not empty", count > 0, True)


def main():
    with built() as (folder, app, tree, keys):
        test_python(app, tree, keys)
        test_python_misuse(app, tree, keys)
        test_python_within(app, tree, keys)
        test_python_interrupted(app, tree, keys)
        test_python_long_text(app, tree)
        test_python_library(app, folder)
        test_python_example(folder)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
