#!/usr/bin/env python3
"""chainio call, inspect and chainio-runtime's service, on a tree that this script writes."""
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
import started  # noqa: E402
from runs import expect  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SPEC = """
app kv { files pages = "*.idx"  class fast { priority 0 slo p99 1ms } }
record Node { kind: u16le  count: u16le  pad: u32le  keys: u64le[31]  ptrs: u64le[31] }
chain lookup(index: file pages, key: u64) in class fast -> u64 hops 8 {
  step walk(n: Node at 0 for 504 in index) {
    let i = n.keys[0..n.count].upper_bound(key)
    if i == 0 { fail too_small }
    if n.kind == 1 { if n.keys[i - 1] != key { fail not_found }  return n.ptrs[i - 1] }
    goto walk at n.ptrs[i - 1]
  }
}
chain piece(index: file pages, at: u32, tag: bytes(max 8)) -> bytes(max 16) hops 1 {
  step all(b: block at at for 16 in index) { if b[0..tag.length] != tag { fail not_found }  return b }
}
chain named(index: file pages, name: u64, self: u64) -> u64 hops 1 {
  step all(b: block at 0 for 16 in index) { return name + self }
}
chain ahead on read(pages) as r { prefetch r.file at r.offset for 4KiB }
"""


def node(kind, entries):
    keys = [k for k, _ in entries] + [0] * (31 - len(entries))
    ptrs = [p for _, p in entries] + [0] * (31 - len(entries))
    return struct.pack("<HHI31Q31Q", kind, len(entries), 0, *keys, *ptrs)


def write_tree(path):
    """Two levels: 30 leaves of 30 keys; key k (a multiple of 3) has the value 7 k."""
    keys = [3 * i for i in range(1, 901)]
    leaves = [keys[i:i + 30] for i in range(0, 900, 30)]
    data = node(0, [(leaf[0], 504 * (i + 1)) for i, leaf in enumerate(leaves)])
    path.write_bytes(data + b"".join(node(1, [(k, 7 * k) for k in leaf]) for leaf in leaves))
    return keys


def run(*args, stdin=None, tool="chainio"):
    return runs.tool(tool, *args, stdin=stdin)


def test_call(app, tree, keys, folder):
    call = lambda *args, **kw: run("call", app, *args, **kw)
    expect("one value", call("lookup", "--file", f"index={tree}", "--key", 42), (0, "294\n", ""))
    expect("hexadecimal, by --NAME=VALUE", call("lookup", f"--index={tree}", "--key=0x2a"), (0, "294\n", ""))
    expect("interpreted, plain preads", call("lookup", "--file", tree, "--key", 42, "--interpret", "--no-ring"), (0, "294\n", ""))
    expect("direct", call("lookup", "--file", tree, "--key", 42, "--direct", "--quiet")[:2], (0, "294\n"))
    expect("looking before sleeping", call("lookup", "--file", tree, "--key", 42, "--direct", "--spin", 1000, "--summary", "--engine=user"),
           lambda r: r[:2] == (0, "294\n") and "2 by io_uring" in r[2] and "0 by pread" in r[2] and ", looks 1000 us for completions before it sleeps)" in r[2])
    expect("a chain that fails", call("lookup", "--file", tree, "--key", 43),
           lambda r: r[0] == 1 and r[1] == "" and "ended with not_found" in r[2])
    expect("the chain's own word", call("lookup", "--file", tree, "--key", 1), lambda r: r[0] == 1 and "too_small" in r[2])
    code, out, _ = call("lookup", "--file", tree, "--key", 42, "--json")
    expect("json", (code, {k: v for k, v in json.loads(out).items() if k != "ns"}), (0, {"outcome": "ok", "value": 294, "hops": 2}))
    raw = subprocess.run([BUILD / "bin" / "chainio", "call", app, "piece", "--file", tree, "--at", "0", "--tag", "hex:0000", "--output", "raw"],
                         capture_output=True, timeout=60)
    expect("raw bytes", raw.stdout, tree.read_bytes()[:16])
    expect("bytes as hexadecimal", call("piece", "--file", tree, "--at", 0, "--tag", "hex:0000", "--output", "hex"),
           (0, tree.read_bytes()[:16].hex() + "\n", ""))
    code, out, err = call("lookup", "--file", tree, "--keys", "-", "--in-flight", 32, stdin="".join(f"{k}\n" for k in keys) + "5\n")
    want = "".join(f"{k}\tok\t{7 * k}\n" for k in keys) + "5\tnot_found\t\n"
    expect("900 keys in order", (code, out), (1, want))
    expect("keys of a file without a name", call("lookup", "--file", tree, "--keys", ""), (2, "", "chainio call: --keys: the name is empty\n  hint: `chainio call --help` lists the options\n"))
    expect("keys that are not there", call("lookup", "--file", tree, "--keys", "/none"), (3, "", "chainio call: cannot read keys '/none': No such file or directory\n"))
    expect("a summary that counts", err, lambda e: "outcomes: ok 900 not_found 1" in e and "latency: p50" in e and "system calls:" in e)
    code, out, _ = call("lookup", "--file", tree, "--keys", "-", "--json", stdin="3\n6\n")
    expect("what reads met is in it as JSON, too", [json.loads(out.splitlines()[-1])["summary"]["reads"][name] for name in ("carried_on", "retries", "frame_waits")],
           [0, 0, 0])
    (folder / "keys").write_text("the head is read\n3\n6\n")
    with open(folder / "keys", "rb", buffering=0) as file:
        file.seek(len("the head is read\n"))
        done = subprocess.run([BUILD / "bin" / "chainio", "call", app, "lookup", "--file", tree, "--keys", "-", "--quiet"], stdin=file,
                              capture_output=True, text=True, timeout=60)
    expect("a file as standard input, from where it stands", done.stdout, "3\tok\t21\n6\tok\t42\n")
    (folder / "keys").write_text("0\thex:0000\n504\thex:01\n")
    expect("two parameters a line", call("piece", "--file", tree, "--keys", folder / "keys", "--output", "hex", "--quiet")[:2],
           (0, "".join(f"{k}\tok\t{tree.read_bytes()[o:o + 16].hex()}\n" for k, o in (("0\thex:0000", 0), ("504\thex:01", 504)))))
    noted = lambda many: (f"note: {many} of the keys that were not found end{'s' if many == 1 else ''} with a carriage return, as lines of Windows do; "
                          "it is a part of the key (`tr -d '\\r'` removes it)\n")
    for what, lines, many in (("none", "ab\n\0\0\n", 0), ("one", "ab\r\n\0\0\ncd\n", 1), ("all", "ab\r\ncd\r\n", 2)):
        for way in ((), ("--json",)):
            expect(f"a note of keys from Windows: {what} {way}", call("piece", "--file", tree, "--at", 0, "--keys", "-", *way, stdin=lines)[2],
                   lambda err: err.startswith(noted(many)) if many else "carriage" not in err)
    code, out, _ = call("piece", "--file", tree, "--at", 0, "--keys", "-", "--output", "hex", "--quiet", stdin="ab\n\ncd\r\n")
    expect("bytes are taken as they are, line by line", (code, [line.split("\t")[:2] for line in out.split("\n")]),
           (1, [["ab", "not_found"], ["", "ok"], ["cd"], ["", "not_found"], [""]]))  # reading text, Python ends a line at the \r too
    code, out, _ = call("piece", "--file", tree, "--at", 0, "--keys", "-", "--json", stdin="ab\n\n")
    expect("  in JSON, too, where a line is empty", (code, [json.loads(line).get("args") for line in out.splitlines()]), (1, ["ab", "", None]))
    odd = ["0\thex:0000", "0\t\\", '504\tab"é€']
    code, out, _ = call("piece", "--file", tree, "--keys", "-", "--json", stdin="".join(line + "\n" for line in odd))
    expect("  a line comes back as it was", [json.loads(line).get("args") for line in out.splitlines()], [*odd, None])
    raw = subprocess.run([BUILD / "bin" / "chainio", "call", app, "piece", "--file", tree, "--at", "0", "--keys", "-", "--json"], input=b"\xff\n", capture_output=True,
                         timeout=60).stdout
    expect("  or its bytes, where these are no UTF-8", [json.loads(raw.splitlines()[0]).get(key) for key in ("args", "args_hex")], [None, "ff"])
    expect("raw results of lines, and nothing of those that fail", subprocess.run(
        [BUILD / "bin" / "chainio", "call", app, "lookup", "--file", tree, "--keys", "-", "--output", "raw", "--quiet"], input=b"3\n4\n6\n", capture_output=True,
        timeout=60).stdout, struct.pack("<2Q", 21, 42))
    expect("numbers from a file of Windows", call("lookup", "--file", tree, "--keys", "-", "--quiet", stdin="3\r\n\r\n6\r\n")[:2],
           (0, "3\tok\t21\n6\tok\t42\n"))
    expect("a bad line is named", call("lookup", "--file", tree, "--keys", "-", stdin="3\nx\n"),
           lambda r: r[0] == 1 and r[1] == "3\tok\t21\n" and "-:2: 'x' for parameter 'key': an integer is wanted" in r[2])


def test_origin(app, tree, folder):
    """Where a run ends that does not end well: its step, the line, and the last read."""
    form = run(folder / "app.chain", "--emit=chain", tool="chainc")[1].splitlines()
    place = lambda word: f"kv.chain:{next(i for i, line in enumerate(form, 1) if word in line)} of the canonical form (chainc --emit=chain)"
    short = folder / "cut.idx"
    short.write_bytes(tree.read_bytes()[:600])
    bad = folder / "bad.idx"
    bad.write_bytes(struct.pack("<HH", 0, 32) + tree.read_bytes()[4:])
    last = lambda number, at: f"read {number} is the last: {{ file: index, at: {at}, for: 504 }}\n"
    for what, file, key, outcome, origin in (
        ("the chain's own word", tree, 1, "too_small: the chain's own word", f"lookup.walk at {place('fail too_small')}; {last(1, 0)}"),
        ("a key that is not there", tree, 43, "not_found: the chain looked and there is no such thing", f"lookup.walk at {place('fail not_found')}; {last(2, 504)}"),
        ("a number that is too large", bad, 3, "malformed: the bytes are not what the records say", f"lookup.walk at {place('let i = ')}; {last(1, 0)}"),
        ("a cut file", short, 2000, "short_read: the file ends inside the block", f"no step; {last(2, 504 * 23)}"),
    ):
        for ways in ((), ("--direct",), ("--interpret", "--no-ring")):
            expect(f"origin: {what} {ways}", run("call", app, "lookup", "--file", file, "--key", key, *ways),
                   lambda r: r[:2] == (1, "") and r[2].startswith(f"chainio call: 'lookup' ended with {outcome}\n  it comes from {origin}"))
        expect(f"origin: {what}, quietly", run("call", app, "lookup", "--file", file, "--key", key, "--quiet"), (1, "", f"chainio call: 'lookup' ended with {outcome}\n"))
    of = lambda file, key: json.loads(run("call", app, "lookup", "--file", file, "--key", key, "--json")[1]).get("origin")
    expect("origin: in JSON", of(tree, 1), {"step": "lookup.walk", "place": place("fail too_small"), "reads": 1, "last_read": {"file": "index", "at": 0, "for": 504}})
    expect("  of no step", of(short, 2000), {"reads": 2, "last_read": {"file": "index", "at": 504 * 23, "for": 504}})
    expect("  of what ends well", of(tree, 42), None)


def test_refusals(app, tree, folder):
    call = lambda *args: run("call", app, *args)
    for what, args, code, text in [
        ("chain", ("lokup",), 2, "did you mean 'lookup'?"),
        ("shadow chain", ("ahead",), 2, "is a shadow chain"),
        ("parameter", ("lookup", "--kye", 3), 2, "did you mean 'key'?"),
        ("missing parameter", ("lookup", "--file", tree), 2, "parameter 'key' is not given (--key VALUE)"),
        ("missing file", ("lookup", "--key", 3), 2, "--file index=PATH"),
        ("file", ("lookup", "--file", "/nonexistent/x", "--key", 3), 3, "No such file or directory"),
        ("width", ("piece", "--file", tree, "--at", 1 << 32, "--tag", ""), 2, "does not fit u32"),
        ("sign", ("lookup", "--file", tree, "--key=-3"), 2, "u64 has no negative values"),
        ("length", ("piece", "--file", tree, "--at", 0, "--tag", "123456789"), 2, "longer than 8 bytes"),
        ("engine", ("lookup", "--file", tree, "--key", 3, "--engine=kernel", "--interpret"), 2, "--engine=kernel goes neither with --no-ring nor with"),
        ("memory", ("lookup", "--file", tree, "--key", 3, "--memory", "255KiB"), 2, "the memory for blocks (--memory) must be at least 256 KiB"),
        ("spin", ("lookup", "--file", tree, "--key", 3, "--spin", 50, "--no-ring"), 2, "--spin goes not with --no-ring: a pread sleeps at once"),
    ]:
        expect(f"refused: {what}", call(*args), lambda r: r[0] == code and r[1] == "" and text in r[2])
    for what, files, why in (
        ("two for one", (tree, "/nonexistent/x"), f"--file is given twice, '{tree}' and '/nonexistent/x'; say what each is: --file NAME=PATH\n"),
        ("two for one, the first by its name", (f"index={tree}", "/nonexistent/x"), "'index' is given twice\n"),
        ("two for one, the last by its name", ("/nonexistent/x", f"index={tree}"), "'index' is given twice\n"),
        ("a path with a = in it", ("year=2026/a",), "chain 'lookup' has no parameter 'year'; the parameters are index, key; a path with a `=` in it has "
         "its name: --file index=PATH\n"),
        ("a name that is nearly right", ("inde=/a",), "chain 'lookup' has no parameter 'inde'; did you mean 'index'?\n"),
        ("an empty name", ("",), "--file: the name is empty\n  hint: `chainio call --help` lists the options\n"),
    ):
        expect(f"refused: files: {what}", call("lookup", "--key", 3, *(word for file in files for word in ("--file", file))), (2, "", f"chainio call: {why}"))
    expect("refused: files: two for one, by an option of its own", call("lookup", "--key", 3, "--index", tree, "--file", "/nonexistent/x"),
           (2, "", "chainio call: 'index' is given twice\n"))
    for value, why in (("-1", "is negative; give 0 or more bytes"), ("18446744073709551616", "is more than 64 bits hold; give a smaller size"), ("KiB", "is no size; give a number of bytes")):
        for tool, words, name in (("chainio", ("call", app, "lookup", "--file", tree, "--key", 3), "chainio call"), ("chainio-runtime", ("--spec", app, "--check"), "chainio-runtime")):
            expect(f"refused: {name} --memory {value}", run(*words, "--memory", value, tool=tool),
                   lambda r, say=f"{name}: --memory: '{value}' {why}, such as ": r[:2] == (2, "") and r[2].startswith(say) and r[2].endswith(f"\n  hint: `{name} --help` lists the options\n"))
    types = pathlib.Path("/sys/kernel/btf/vmlinux")
    if not types.exists():
        print("skipped: whether the kernel engine is refused: this kernel does not tell its types (BTF)")
    elif b"io_uring_bpf_ops" not in types.read_bytes():
        expect("refused: kernel engine", call("lookup", "--file", tree, "--key", 3, "--engine=kernel"),
               lambda r: r[0] == 3 and r[1] == "" and "has no io_uring_bpf_ops; the kernel engine needs Linux 7.1" in r[2])
    expect("refused: artifact", run("call", "/nonexistent.o", "lookup"), lambda r: r[0] == 3 and "No such file" in r[2])
    cut = folder / "cut.o"
    cut.write_bytes(app.read_bytes()[:1000])
    expect("refused: an artifact that is cut short", run("call", cut, "lookup"), lambda r: r[0] == 1 and "as when it is cut short; `chainc" in r[2])
    expect("refused: not an artifact", run("call", tree, "lookup"), lambda r: r[0] == 1 and "not an ELF file" in r[2])
    short = folder / "short.idx"
    short.write_bytes(tree.read_bytes()[:600])
    expect("a truncated file", call("lookup", "--file", short, "--key", 2000), lambda r: r[0] == 1 and "short_read" in r[2])
    (folder / "whole.chain").write_text('files any = "*"\nchain whole(f: file any) -> bytes(max 64) { step all(b: block at 0 for f.file_size) { return b } }\n'
                                        'chain perhaps(f: file any) -> bytes(max 64) { step all(b: block at 0 for (f.file_size == 0 ? 1 : f.file_size)) { return b } }\n')
    expect("chains that read whole files", run(folder / "whole.chain", "-o", folder / "whole.o", tool="chainc")[0], 0)
    (folder / "empty").touch()
    (folder / "five").write_text("fives")
    for ways in ((), ("--no-ring",), ("--interpret",), ("--interpret", "--no-ring")):
        for chain, outcome in (("whole", "malformed"), ("perhaps", "short_read")):
            expect(f"the whole of a file, {chain} {ways}", run("call", folder / "whole.o", chain, "--file", folder / "five", *ways)[:2], (0, "fives\n"))
            expect("  which is empty", run("call", folder / "whole.o", chain, "--file", folder / "empty", *ways), lambda r, outcome=outcome: r[:2] == (1, "") and f"ended with {outcome}: " in r[2])
    loop = folder / "loop.idx"
    loop.write_bytes(node(0, [(1, 0)]))
    expect("a cycle", call("lookup", "--file", loop, "--key", 5), lambda r: r[0] == 1 and "hop_limit" in r[2])


def test_runtime(app, tree, folder):
    code, out, _ = run("--spec", app, "--check", tool="chainio-runtime")
    rows = [line.split(None, 3) for line in out.splitlines()]
    expect("plan", (code, [row[:3] for row in rows if row[0] in ("chain", "slo")]),
           (0, [["chain", "lookup", "runs"], ["chain", "piece", "runs"], ["chain", "named", "runs"], ["chain", "ahead", "refused"], ["slo", "fast", "recorded"]]))
    for words, why in ((("--engine=user",), "as asked"), *(((option,), f"auto: the kernel engine is not tried with {option}") for option in ("--no-ring", "--interpret")),
                       (("--interface", "none"), "auto: the kernel engine is not tried with --interface")):
        expect(f"why the user engine runs: {words[0]}", run("--spec", app, "--check", *words, tool="chainio-runtime"),
               lambda r, why=why: r[0] == 0 and r[1].count(f"user engine ({why});") == 3)
    code, out, _ = run("--spec", app, "--check", tool="chainio-runtime")
    expect("why the user engine runs, once", (out.count("user engine (auto: the last line says why);"), out.count("; auto: "), out.splitlines()[-1].startswith("user engine: ")), (3, 1, True))
    reason = out.splitlines()[-1].split("; auto: ")[1]
    expect("  and in JSON, which has no such line", run("--spec", app, "--check", "--json", tool="chainio-runtime")[1].count(reason), 3)
    expect("a file and a port that are right", run("--spec", app, "--check", "--file", f"pages={tree}", tool="chainio-runtime")[0], 0)
    for what, words, code, part in (("a file that is not there", ("--file", f"pages={folder / 'none'}"), 3, "No such file or directory"),
                                    ("another class", ("--file", f"page={tree}"), 2, "there is no file class 'page'; did you mean 'pages'?"),
                                    ("a service that is not there", ("--port", "none=1"), 2, "there is no service 'none'")):
        expect(f"refused by --check: {what}", run("--spec", app, "--check", *words, tool="chainio-runtime"), lambda r, code=code, part=part: (r[0], r[1]) == (code, "") and part in r[2])
    expect("refused before the table", run("--spec", app, "--file", f"page={tree}", tool="chainio-runtime"), (2, "", "chainio-runtime: there is no file class 'page'; did you mean 'pages'?\n"))
    (folder / "echo.chain").write_text('service echo on tcp 7001 via uring { text Line { all: rest(max 64) } request { line: Line } on request { reply "yes\\n" } '
                                       'on malformed { reply "no\\n" } }\n')
    expect("a service", run(folder / "echo.chain", "-o", folder / "echo.o", tool="chainc")[0], 0)
    for words, port in (((), 7001), (("--port", "echo=7002"), 7002)):
        expect(f"its port: {port}", run("--spec", folder / "echo.o", "--check", *words, tool="chainio-runtime"), lambda r, port=port: r[0] == 0 and f"tcp {port} via uring" in r[1])
    expect("spins", run("--spec", app, "--check", "--spin", 50, tool="chainio-runtime"), lambda r: r[0] == 0 and ", looks 50 us for completions before it sleeps)" in r[1])
    expect("spins where it pays", run("--spec", app, "--check", "--spin", "auto", tool="chainio-runtime"),
           lambda r: r[0] == 0 and ", looks 50 us for completions before it sleeps where that pays)" in r[1])
    expect("refused: spin auto inside the kernel", run("--spec", app, "--spin", "auto", "--engine=kernel", tool="chainio-runtime"),
           lambda r: (r[0], r[2]) == (2, "chainio-runtime: --spin auto goes not with --engine=kernel: say how many microseconds\n"))
    expect("  as other numbers are read", run("--spec", app, "--check", "--spin", "0x32", tool="chainio-runtime"), lambda r: ", looks 50 us for" in r[1])
    for wrong in ("often", -1, 1_000_001, "50us", ""):
        expect(f"refused: spin {wrong!r}", run("--spec", app, "--check", "--spin", wrong, tool="chainio-runtime"),
               (2, "", f"chainio-runtime: --spin: '{wrong}' is neither `auto` nor 0 to 1000000 microseconds\n  hint: `chainio-runtime --help` lists the options\n"))
    expect("  or not", run("--spec", app, "--check", tool="chainio-runtime"), lambda r: "looks" not in r[1])
    expect("refused: spin", run("--spec", app, "--spin", 50, "--no-ring", tool="chainio-runtime"), lambda r: (r[0], r[2]) == (2, "chainio-runtime: --spin goes not with --no-ring: a pread sleeps at once\n"))
    for words in ((), ("--interface", "none")):  # what an interface takes comes on top
        expect("refused: memory", run("--spec", app, "--memory", "255KiB", *words, tool="chainio-runtime"),
               (2, "", "chainio-runtime: the memory for blocks (--memory) must be at least 256 KiB\n"))
    for option in ("--socket", "--spec"):
        expect(f"refused: {option} with an empty name", run("--spec", app, option, "", tool="chainio-runtime"),
               lambda r, option=option: (r[0], r[2]) == (2, f"chainio-runtime: {option}: the name is empty\n  hint: `chainio-runtime --help` lists the options\n"))
    expect("refused: what is left over, as it was given", run("--spec", app, "one", "two", "three", tool="chainio-runtime"),
           lambda r: (r[0], r[2]) == (2, "chainio-runtime: The following arguments were not expected: one two three\n  hint: `chainio-runtime --help` lists the options\n"))
    expect("refused: an interface that is given twice", run("--spec", app, "--interface", "va", "--interface", "vb", "--interface", "va", tool="chainio-runtime"),
           lambda r: (r[0], r[2]) == (2, "chainio-runtime: --interface is given twice for 'va'; keep one of the two\n"))
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    locked = "unlimited\n" if limit == resource.RLIM_INFINITY else f"{limit >> 10} KiB"
    expect("check-system", run("--check-system", tool="chainio-runtime"), lambda r: r[0] == 0 and "io_uring" in r[1] and f"RLIMIT_MEMLOCK is {locked}" in r[1])
    few = subprocess.run(["prlimit", "--nofile=100:100", BUILD / "bin" / "chainio-runtime", "--check-system", "--json"], capture_output=True, text=True)
    expect("check-system with few open files", next(fact for fact in json.loads(few.stdout) if fact["name"] == "io_uring"),
           lambda fact: fact["state"] == "limited" and fact["detail"].endswith(", unregistered files") and fact["remedy"].endswith(
               "the kernel refused a table of registered files: Too many open files (it has 256 places, and as many files have to be allowed to be open: `ulimit -n`)"))
    path = folder / "s"
    server = started.start([BUILD / "bin" / "chainio-runtime", "--spec", app, "--socket", path, "--file", f"pages={tree}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if line.startswith("serving"):
            break
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        lines = peer.makefile("rw")
        for i in range(300):
            lines.write(json.dumps({"id": i, "chain": "lookup", "args": {"key": 3 * (i + 1)}}) + "\n")
        lines.write('{"id": "p", "chain": "piece", "args": {"index": "tree.idx", "at": 0, "tag": {"hex": "0000"}}}\n')
        lines.write('{"id": "bad", "chain": "lookup", "args": {"kee": 1}}\nnonsense\n{"id": "s", "op": "stats"}\n')
        lines.flush()
        peer.shutdown(socket.SHUT_WR)
        answers = {json.dumps(a["id"]): a for a in map(json.loads, lines)}
    expect("300 answers", [answers[str(i)]["value"] for i in range(300)], [21 * (i + 1) for i in range(300)])
    expect("bytes", answers['"p"']["hex"], tree.read_bytes()[:16].hex())
    expect("a wrong request", answers['"bad"']["error"], lambda e: "has no parameter 'kee'" in e)
    expect("no JSON", answers["null"]["error"], lambda e: "one line with a JSON object" in e)
    expect("stats", answers['"s"']["stats"]["chains"][0]["chain"], "lookup")
    expect("chainio top says what shows these", run("top", server.pid, "--once"),
           (1, "", f"chainio top: process {server.pid} is a chainio-runtime, whose counters `chainio control SOCKET stats` prints; SOCKET is what it got as --socket\n"))
    second = run("--spec", app, "--socket", path, tool="chainio-runtime")
    expect("a second server is refused", (second[0], f"another process serves '{path}'; end that one, or give --socket another path" in second[2]), (3, True))
    for at, said in ((tree, f"'{tree}' exists and is not a socket; remove it, or give --socket another path"), ("/nowhere/s", "; make its folder first, or give --socket another path"),
                     ("/tmp/" + 103 * "s", f"--socket '/tmp/{103 * 's'}': the path of a socket has 1 to 107 characters; give a shorter one")):
        done = run("--spec", app, "--socket", at, "--file", f"pages={tree}", tool="chainio-runtime")
        expect(f"a socket at {at}", (done[0], done[2]), lambda got, said=said: got[0] == 3 and said in got[1])
    server.send_signal(signal.SIGTERM)
    expect("SIGTERM ends it", (server.wait(20), path.exists()), (0, False))
    # Not every file system says whether a read would wait.
    said = [line for line in server.stderr if not line.startswith("fallback no-nowait ")]
    expect("it says what it did", said, ["stopped after 301 answers\n"])


def test_sockets_of_others(folder, app):
    """A socket that does not say that nobody is there stays: it may be another user's, or of another kind."""
    closed = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all"] if os.geteuid() == 0 else []
    for what, kind, mode, why in (("that may not be asked", socket.SOCK_STREAM, 0, "Permission denied"),
                                  ("of datagrams", socket.SOCK_DGRAM, 0o600, "Protocol wrong type for socket")):
        path = folder / "other"
        with socket.socket(socket.AF_UNIX, kind) as other:
            other.bind(str(path))
            if kind == socket.SOCK_STREAM:
                other.listen()
            path.chmod(mode)
            done = subprocess.run([*closed, BUILD / "bin" / "chainio-runtime", "--spec", app, "--socket", path], capture_output=True, text=True, timeout=120)
            expect(f"a socket {what} is another's", (done.returncode, done.stderr.splitlines()[-1]),
                   (3, f"chainio-runtime: whether another process serves '{path}' cannot be asked: {why}; give --socket another path, or remove it if nobody does"))
            expect("  and stays", path.is_socket(), True)
        path.unlink()


def test_full_disk(app, tree, folder):
    """What cannot be printed is an error with its cause, whatever prints it."""
    store = folder / "full.store"
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", store, "--from", "-"], input=b"k\tv\n", check=True, capture_output=True)
    cause = ": No space left on device"
    for tool, *words in (("chainio", "inspect", app), ("chainio", "inspect", "--json", app), ("chainio", "outcomes"), ("chainio", "store", "check", store),
                         ("chainio", "store", "build", store, "--from", tree.with_name("one.tsv")), ("chainio", "--help"), ("chainio", "--version"),
                         ("chainio-runtime", "--spec", app, "--check"), ("chainio-runtime", "--check-system"), ("chainio-runtime", "--help")):
        tree.with_name("one.tsv").write_text("k\tv\n")
        with open("/dev/full", "w") as full:
            done = subprocess.run([BUILD / "bin" / tool, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        expect(f"full disk: {tool} {words[0]}", (done.returncode, done.stderr),
               lambda got, tool=tool: got[0] == 3 and f"{tool}: cannot write " in got[1] and cause in got[1])
    tree.with_name("many.keys").write_text("42\n" * 5000)  # results larger than a buffer are written, and lost, before the end
    for words in (("--key", "42"), ("--keys", tree.with_name("many.keys")), ("--keys", tree.with_name("many.keys"), "--json")):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BUILD / "bin" / "chainio", "call", app, "lookup", "--file", f"index={tree}", "--quiet", *words], stdout=full, stderr=subprocess.PIPE, text=True)
        expect(f"full disk: call {words}", (done.returncode, done.stderr), (3, "chainio call: cannot write the results: No space left on device\n"))


@contextlib.contextmanager
def built():
    """A folder of its own, with the artifact and the tree that its chains read; gives (folder, artifact, tree, keys)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        app, tree = folder / "app.bpf.o", folder / "tree.idx"
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", app], check=True)
        yield folder, app, tree, write_tree(tree)


def main():
    with built() as (folder, app, tree, keys):
        test_call(app, tree, keys, folder)
        test_origin(app, tree, folder)
        test_refusals(app, tree, folder)
        test_runtime(app, tree, folder)
        test_sockets_of_others(folder, app)
        test_full_disk(app, tree, folder)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
