#!/usr/bin/env python3
"""chainio test itself: a case that holds is ok, each one that does not is FAIL and says why, whatever kind of expectation it is."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import started  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SPEC = """
files pages = "*.p"
record Pair { key: u16le   value: u32be }
chain find(db: file pages, key: u16) -> u32 hops 4 {
  step look(b: block at 0 for 12 in db) {
    for p in block.records(Pair, max 2) {
      if p.key == key { return p.value }
    }
    if key == 99 { fail ninety_nine }
    goto look at block.offset + 12
  }
}
chain text(db: file pages, size: u16) -> bytes(max 64) hops 1 {
  step all(b: block at 0 for size in db) { return block[0..size] }
}
chain whole(db: file pages) -> bytes(max 64) hops 1 {
  step all(b: block at 0 for db.file_size in db) { return b }
}
chain perhaps(db: file pages) -> bytes(max 64) hops 1 {
  step all(b: block at 0 for (db.file_size == 0 ? 1 : db.file_size) in db) { return b }
}
chain again(db: file pages, size: u16) -> u32 hops 2 {
  step first(b: block at 0 for 2 in db) { goto second at 0 for size }
  step second(b: block) { return b.length }
}
text Number { "N " n: int }
text List { "L " all: int[1..4 by ","] }
chain number(db: file pages) -> u64 hops 1 {
  step all(b: block at 0 for db.file_size in db) {
    let line = b.text(Number) else fail no_number
    return line.n
  }
}
chain last(db: file pages) -> u64 hops 1 {
  step all(b: block at 0 for db.file_size in db) {
    let line = b.text(List) else fail no_list
    return line.all[line.all.count() - 1]
  }
}
files rooted = "/srv/*.p" { root "/srv" }
socket peers = tcp port 4321
chain waiting on ready(peers) as c {
  if c.length > 4095 { prefetch rooted["a.p"] at 0 for 1 }
}
chain ahead on read(pages) as r {
  for p in r.records(Pair, max 8) { prefetch r.file at p.key for p.value }
}
chain known on read(pages) as r {
  mark r.file at r.offset + 12 with r.mark + 1
  mark r.file via find(r.file, r.mark as u16)
  if r.mark == 9 { mark r.file with 0 } else { mark r.file at 2 via find(r.file, 3) }
  if r.mark == 7 { prefetch r.file at r.mark for 4 }
  if r.last_mark == 5 { prefetch r.file at r.last_mark for r.mark }
}
chain nowhere on read(pages) as r {
  mark r.file at r.mark - 1 with 5
  mark r.file at r.mark - 1 via find(r.file, 3)
  mark r.file at 0xffffffffffffffff with 6
  mark r.file at r.offset - 2 with 7
  if r.mark == 9 { prefetch r.file at r.mark for 4 }
}
fn behind(e) = e.offset + e.length + e.mark + twice(e)
fn twice(e) { let first = e[0]  first + e.record(Pair).key + e.file.file_size }
chain passed on read(pages) as r { prefetch r.file at behind(r) for 4 }
record Sized { file_size: u32le  first: u32le }
files sized = "*.s" { header Sized }
chain first(db: file sized) -> u32 {
  step all(b: block at 4 for 4 in db) { return b.uint_le() }
}
chain of_it on read(sized) as r { prefetch r.file at r.file.first for r.file.file_size }
record Mark { mark: u32le == 7 }
files marks = "*.m" { header Mark }
chain marked(db: file marks) -> u32 {
  step all(b: block at 4 for 4 in db) { return b.uint_le() }
}
record Said { let five = 5  let file_size = 3 }
files said = "*.n" { header Said }
chain derived(db: file said) -> u32 {
  step all(b: block at 0 for 1 in db) { return b.byte(0) + db.five }
}
files under = "/srv/*" { root "/srv" }
probe hint = uprobe "program:hint" (page: u32, name: cstr(max 8))
chain hinted on probe(hint) as h { prefetch under[h.name] at h.page * 512 for 512 }
chain wide(db: file pages, n: u64, s: i64, b: i8) -> i64 {
  step all(x: block at 0 for 1 in db) { if n == 5 { return 0 } else { return s + b } }
}
"""
FILES = """
files:
  pairs: [{ u16le: 1, u32be: 100 }, { u16le: 2, u32be: 200 }, { u16le: 3, u32be: 300 }, { u16le: 4, u32be: 400 }]
  cut: { of: pairs, size: 18 }
  changed: { of: pairs, patch: [{ at: 2, bytes: { u32be: 7 } }] }
  words: { text: hello world }
  twenty: { text: N 00000000000000000007 }
  more: { text: N 000000000000000000007 }
  longer: { text: N 123456789012345678901 }
  list: { text: "L 1,2,00000000000000000007" }
  longlist: { text: "L 1,2,000000000000000000007,4" }
  empty: { zeros: 0 }
  whole: { u32le: [16, 7, 0, 0] }
  torn: { of: whole, size: 12 }
cases:
"""
CASES = [
    # (case, None when it holds, else a part of the reason)
    ("chain: find, files: {db: pairs}, args: {key: 2}, expect: {value: 200, read_count: 1}", None),
    ("chain: find, files: {db: pairs}, args: {key: 4}, expect: {value: 400, reads: [{file: db, at: 0, for: 12}, {at: 12}]}", None),
    ("chain: find, files: {db: pairs}, args: {key: 9}, expect: {outcome: short_read}", None),
    ("chain: find, files: {db: pairs}, args: {key: 99}, expect: {outcome: ninety_nine}", None),
    ("chain: find, files: {db: changed}, args: {key: 1}, expect: {value: 7}", None),
    ("chain: find, files: {db: cut}, args: {key: 3}, expect: {outcome: short_read}", None),
    ("chain: first, files: {db: whole}, expect: {value: 7}", None),
    ("chain: first, files: {db: torn}, expect: {outcome: short_read, read_count: 0}", None),  # as no engine opens it
    ("chain: derived, files: {db: twenty}, expect: {value: 83}", None),
    ("chain: derived, files: {db: empty}, expect: {outcome: short_read, read_count: 0}", None),
    ("chain: text, files: {db: words}, args: {size: 5}, expect: {bytes: hello, length: 5, starts_with: he}", None),
    ("chain: whole, files: {db: words}, expect: {bytes: hello world}", None),
    ("chain: whole, files: {db: empty}, expect: {outcome: malformed, read_count: 0}", None),
    ("chain: perhaps, files: {db: words}, expect: {bytes: hello world}", None),
    ("chain: perhaps, files: {db: empty}, expect: {outcome: short_read}", None),
    ("chain: number, files: {db: twenty}, expect: {value: 7}", None),
    ("chain: number, files: {db: more}, expect: {outcome: no_number}", None),
    ("chain: number, files: {db: longer}, expect: {outcome: no_number}", None),
    ("chain: last, files: {db: list}, expect: {value: 7}", None),
    ("chain: last, files: {db: longlist}, expect: {outcome: no_list}", None),
    ("chain: again, files: {db: words}, args: {size: 3}, expect: {value: 3}", None),
    ("chain: again, files: {db: words}, args: {size: 0}, expect: {outcome: malformed, read_count: 1}", None),
    ("chain: ahead, event: {file: pairs, at: 0, for: 12}, expect: {prefetches: [{same: true, at: 1, for: 100}, {at: 2}]}", None),
    ("chain: hinted, args: {page: 3, name: abc}, expect: {prefetches: [{files: under, path: abc, at: 1536, for: 512}]}", None),
    ("chain: hinted, args: {page: 3, name: abcdefghi}, expect: {prefetch_count: 1}", "'name' takes at most 8 bytes, not 9"),
    ("chain: hinted, args: {page: 3}, expect: {prefetch_count: 1}", "the case gives no value for 'name'"),
    ("chain: known, event: {file: pairs, at: 0, for: 12, mark: 7}, expect: {prefetches: [{mark: 8, at: 12}, {mark_via: find, args: [7], at: 0xffffffffffffffff}, {mark_via: find, args: [3], at: 2}, {at: 7}]}", None),
    ("chain: known, event: {file: pairs, at: 0, for: 12}, expect: {prefetches: [{mark: 1, at: 12}, {mark_via: find, args: [0]}, {mark_via: find, at: 2}]}", None),
    ("chain: known, event: {file: pairs, at: 0, for: 12, mark: 9, last_mark: 5}, expect: {prefetches: [{}, {}, {mark: 0}, {at: 5, for: 9}]}", None),
    ("chain: known, event: {file: pairs, at: 0, for: 12, mark: 9}, expect: {prefetches: [{}, {}, {mark: 0, at: 0xffffffffffffffff}]}", None),
    ("chain: known, event: {file: pairs, at: 0, for: 12}, expect: {prefetches: [{mark: 2}, {}, {}]}", "{ mark: 1, at: 12 }"),
    ("chain: known, event: {file: pairs, at: 0, for: 12}, expect: {prefetches: [{}, {mark_via: known}, {}]}", "{ mark_via: find, args: [0], at: "),
    ("chain: passed, event: {file: pairs, at: 6, for: 6, mark: 100}, expect: {prefetches: [{at: 140, for: 4}]}", None),
    ("chain: nowhere, event: {file: pairs, at: 0, for: 12}, expect: {prefetches: [{mark: 7, at: 0xfffffffffffffffe}]}", None),
    ("chain: nowhere, event: {file: pairs, at: 0, for: 12, mark: 1}, expect: {prefetches: [{mark: 5, at: 0}, {mark_via: find, args: [3], at: 0}, {mark: 7}]}", None),
    ("chain: of_it, event: {file: whole, at: 8, for: 8}, expect: {prefetches: [{same: true, at: 7, for: 16}]}", None),
    ("chain: of_it, event: {file: torn, at: 0, for: 8}, expect: {outcome: short_read, prefetch_count: 0}", None),  # nor is a run's chain shown it
    ("chain: hinted, event: {file: pairs, at: 0, for: 12}, expect: {prefetch_count: 1}", "give its arguments as `args`"),
    ("chain: find, files: {db: pairs}, args: {key: 2}, expect: {value: 201}", "value is 200, expected 201"),
    ("chain: find, files: {db: pairs}, args: {key: 2}, expect: {outcome: not_found}", "outcome is ok, expected not_found"),
    ("chain: find, files: {db: pairs}, args: {key: 4}, expect: {value: 400, read_count: 1}", "2 reads, expected 1"),
    ("chain: find, files: {db: pairs}, args: {key: 4}, expect: {reads: [{at: 0}]}", "2 reads, expected 1"),
    ("chain: text, files: {db: words}, args: {size: 5}, expect: {bytes: help}", "differ from byte 3 on"),
    ("chain: text, files: {db: words}, args: {size: 70000}, expect: {length: 5}", "does not fit 'size'"),
    ("chain: wide, files: {db: words}, args: {n: 0xffffffffffffffff, s: -9223372036854775808, b: 127}, expect: {value: -9223372036854775681}", None),
    ("chain: wide, files: {db: words}, args: {n: -0, s: 0x7fffffffffffffff, b: -128}, expect: {value: 9223372036854775679}", None),
    ("chain: wide, files: {db: words}, args: {n: -1, s: 0, b: 0}, expect: {value: 0}", "-1 does not fit 'n', which has no negative values"),
    ("chain: wide, files: {db: words}, args: {n: 0, s: 0xffffffffffffffff, b: 0}, expect: {value: -1}", "18446744073709551615 does not fit 's', which has 64 bits with a sign"),
    ("chain: wide, files: {db: words}, args: {n: 0, s: 0, b: 128}, expect: {value: 128}", "128 does not fit 'b', which has 8 bits with a sign"),
    ("chain: wide, files: {db: words}, args: {n: 0, s: 0, b: -129}, expect: {value: 0}", "-129 does not fit 'b', which has 8 bits with a sign"),
    ("chain: wide, files: {db: words}, args: {n: -18446744073709551615, s: 0, b: 0}, expect: {value: 0}", "'n' takes an integer"),
    ("chain: find, files: {db: pairs}, args: {kye: 2}, expect: {value: 200}", "did you mean 'key'?"),
    ("chain: find, files: {}, args: {key: 2}, expect: {value: 200}", "gives no file for 'db'"),
    ("chain: find, files: {db: pairs}, args: {key: 99}, expect: {value: 1}",
     "ninety_nine comes from find.look at {folder}/app.chain:9; read 1 is the last: { file: db, at: 0, for: 12 }"),
    ("chain: find, files: {db: pairs}, args: {key: 9}, expect: {value: 1}",
     "short_read comes from no step; read 3 is the last: { file: db, at: 24, for: 12 }"),
    ("chain: marked, files: {db: words}, expect: {value: 1}", "malformed comes from header.marks"),
    ("chain: fnd, files: {db: pairs}, args: {key: 2}, expect: {value: 200}", "did you mean 'find'?"),
    ("chain: ahead, event: {file: pairs, at: 0, for: 12}, expect: {prefetch_count: 3}", "2 prefetches, expected 3"),
    ("chain: waiting, event: {bytes: {zeros: 4096}}, expect: {prefetch_count: 1}", None),
    ("chain: waiting, event: {bytes: {zeros: 4097}}, expect: {prefetch_count: 1}",
     "a chain sees at most 4096 bytes of what waits on a socket, and these are 4097; give the first"),
    ("chain: ahead, event: {bytes: {zeros: 4097}}, expect: {prefetch_count: 0}", None),
    ("chain: ahead, args: {key: 1}, expect: {prefetch_count: 3}", "give the `event`"),
]


def run(folder, *arguments, **environment):
    done = subprocess.run([str(BUILD / "bin" / "chainio"), "test", *arguments], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def check(what, holds, shown):
    if not holds:
        print(f"FAILED: {what}\n{shown}")
        sys.exit(1)


# Compiles, and changes one number in the native code alone: whoever runs that code sees another offset.
LYING_CHAINC = f'''#!{sys.executable}
import struct, subprocess, sys
subprocess.run([{str(BUILD / "bin" / "chainc")!r}, *sys.argv[1:]], check=True)
path = sys.argv[sys.argv.index("-o") + 1]
data = bytearray(open(path, "rb").read())
(table,), (count, names) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<HH", data, 0x3c)
headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
for name, _, _, _, at, size in headers:
    if not data[headers[names][4] + name:].startswith(b".chainio.native."):
        continue
    code = data[at:at + size - 4]
    assert code.count(struct.pack("<I", 0x12345678)) > 0, "the native code does not hold the number as it stands in the spec"
    code = code.replace(struct.pack("<I", 0x12345678), struct.pack("<I", 0x12345600))
    sum = 0xffffffff
    for byte in code:
        sum ^= byte
        for _ in range(8):
            sum = sum >> 1 ^ (0x82f63b78 if sum & 1 else 0)
    data[at:at + size] = code + struct.pack("<I", sum ^ 0xffffffff)
open(path, "wb").write(data)
'''
FAR = """files pages = "*.p"
chain far on read(pages) as r { prefetch r.file at 0x12345678 for 512 }
"""


def shadow_chains_run_natively(folder):
    (folder / "far.chain").write_text(FAR)
    (folder / "far.test.yaml").write_text("spec: far.chain\nfiles: {some: {text: abc}}\ncases:\n  - {name: far, chain: far, "
                                          "event: {file: some, at: 0, for: 3}, expect: {prefetches: [{at: 0x12345678, for: 512}]}}\n")
    code, out, err = run(folder, "far.test.yaml")
    check("the shadow chain's case holds", code == 0, out + err)
    (folder / "lying").write_text(LYING_CHAINC)
    (folder / "lying").chmod(0o755)
    code, out, err = run(folder, "far.test.yaml", CHAINC=str(folder / "lying"))
    check("native code of a shadow chain that differs is found", code == 1 and "native" in out and str(0x12345600) in out, out + err)
    code, out, err = run(folder, "--engine", "interpreter", "far.test.yaml", CHAINC=str(folder / "lying"))
    check("the interpreter does not use it", code == 0, out + err)


def each_difference_once(folder):
    """However many engines it is in, which stand before it."""
    (folder / "more.chain").write_text('files pages = "*.p"\nchain more on read(pages) as r { for i in range(0, 3) { prefetch r.file at 512 for 512 } }\n')
    (folder / "more.test.yaml").write_text("spec: more.chain\nfiles: {some: {text: abc}}\ncases:\n  - {name: more, chain: more, "
                                           "event: {file: some, at: 0, for: 3}, expect: {prefetches: [{at: 512, for: 512}]}}\n")
    _, out, err = run(folder, "--engine", "interpreter", "--engine", "native", "more.test.yaml")
    want = ["FAIL more", "       interpreter, native: 3 prefetches, expected 1", *["       interpreter, native: one more prefetch: { same: true, at: 512, for: 512 }"] * 2,
            "       the case stands at more.test.yaml:4", "0 passed, 1 failed, 0 skipped"]
    check("each difference stands there once", out.splitlines()[1:] == want, out + err)


def places_of_a_finished_artifact(folder):
    """It has no lines but those of the canonical form, whose file is called as the app, or main."""
    subprocess.run([str(BUILD / "bin" / "chainc"), "app.chain", "-o", "app.bpf.o"], cwd=folder, check=True)
    (folder / "finished.test.yaml").write_text("spec: app.bpf.o\nfiles: {some: {zeros: 24}}\ncases:\n  - {name: at, chain: find, "
                                               "files: {db: some}, args: {key: 99}, expect: {value: 1}}\n")
    form = subprocess.run([str(BUILD / "bin" / "chainc"), "app.chain", "--emit=chain"], cwd=folder, capture_output=True, text=True)
    line = next(i for i, text in enumerate(form.stdout.splitlines(), 1) if "fail ninety_nine" in text)
    _, out, err = run(folder, "finished.test.yaml")
    want = f"ninety_nine comes from find.look at main.chain:{line} of the canonical form (chainc --emit=chain); read 1 "
    check("a finished artifact's place is one of the canonical form", want in out, out + err)


def map_of_its_own(folder):
    (folder / "mapped.test.yaml").write_text("spec: app.chain\noptions: [--source-map, own.map]\nfiles: {some: {zeros: 24}}\ncases:\n"
                                             "  - {name: at, chain: find, files: {db: some}, args: {key: 99}, expect: {outcome: ninety_nine}}\n")
    code, out, err = run(folder, "mapped.test.yaml")
    check("a suite may have a map of lines written", code == 0 and (folder / "own.map").exists(), out + err)


def silently_dropped(folder):
    """Of a key that is given twice one value alone would count, and cases of the other would never run."""
    head = "spec: app.chain\nfiles: {some: {zeros: 24}, other: {of: some}}\n"
    good = "cases: [{chain: find, files: {db: some}, args: {key: 0}, expect: {value: 0}}]\n"
    bad = "cases: [{chain: find, files: {db: some}, args: {key: 0}, expect: {value: 1}}]\n"
    twice = "the key '{}' is given twice; keep one of them"
    for text, place, why in ((head + good + bad, "4:1", twice.format("cases")), (head + "files: {}\n" + good, "3:1", twice.format("files")),
                             (head + good.replace("key: 0", "key: 0, key: 1"), "3:57", twice.format("key")),
                             (head + good.replace("db: some", "db: some, db: other"), "3:41", twice.format("db")),
                             (head + good.replace("value: 0", "value: 0, value: 1"), "3:77", twice.format("value")),
                             (head.replace("other:", "some:") + good, "2:28", twice.format("some")),
                             (head.replace("of: some", "of: some, patch: 3") + good, "2:53",
                              "patch is a list of { at, bytes }; write [{ at: 8, bytes: { hex: ff } }]")):
        (folder / "twice.test.yaml").write_text(text)
        code, out, err = run(folder, "twice.test.yaml")
        check("what would be dropped is refused", (code, err) == (1, f"chainio test: twice.test.yaml:{place}: {why}\n"), text + out + err)


def outcomes_that_are_none(folder):
    """A misspelt one is the test file's mistake, and no chain's."""
    head = "spec: app.chain\nfiles: {some: {zeros: 24}}\n"
    case = "cases: [{chain: find, files: {db: some}, args: {key: 0}, expect: {outcome: WORD}}]\n"
    words = ("ok, malformed, not_found, overflow, short_read, io_error, hop_limit, no_memory, cancelled, no_result, fanout, bad_argument, unsupported, "
             "ninety_nine, no_number, no_list")
    for text, place, why in ((head + case.replace("WORD", "not_fund"), "3:76", "no chain of the spec ends with 'not_fund'; did you mean 'not_found'?"),
                             (head + case.replace("WORD", "ninety_nin"), "3:76", "no chain of the spec ends with 'ninety_nin'; did you mean 'ninety_nine'?"),
                             (head + case.replace("WORD", "zebra"), "3:76", f"no chain of the spec ends with 'zebra'; there are {words}"),
                             (head + "cases: []\n", "3:8", "the list of `cases` is empty, so that nothing is tested; a case is { chain: …, expect: … }"),
                             (head, "1:1", "a test file has a list of `cases`")):
        (folder / "word.test.yaml").write_text(text)
        code, out, err = run(folder, "word.test.yaml")
        check("what is no outcome is refused", (code, err) == (1, f"chainio test: word.test.yaml:{place}: {why}\n"), text + out + err)


def members(group):
    """Processes of a group that have not ended."""
    listed = subprocess.run(["ps", "-e", "-o", "pgid=,stat=,args="], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(group) and not line.split()[1].startswith("Z")]


def number_of_child(reader, tool):
    """What the first of its children has said."""
    said, end = b"", time.monotonic() + 60
    while b"\n" not in said:
        if tool.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"it runs nothing: {tool.args}, which {'runs' if tool.returncode is None else f'ended with {tool.returncode}'}")
        with contextlib.suppress(BlockingIOError):
            said += os.read(reader, 100)
        time.sleep(0.005)
    return int(said.split()[0])


# Told to end, it starts something before it hears of it, as a shell may and all that calls posix_spawn: signals are blocked then.
LATE = f"""#!{sys.executable}
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with open("PIPE", "w") as pipe: pipe.write(f"{{os.getpid()}}\\n")
while signal.SIGTERM not in signal.sigpending(): time.sleep(0.001)
os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ, setsigmask=[])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
"""


def interrupted(folder):
    """A signal ends the tool and what it runs, and nothing is left; each child says its number on a pipe when it runs."""
    work, pipe = folder / "work", folder / "running"
    work.mkdir()
    os.mkfifo(pipe)
    for name, text in (("slow", f"#!/bin/sh\necho $$ > {pipe}\nsleep 1000\ntrue\n"), ("late", LATE.replace("PIPE", str(pipe)))):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        (folder / f"{name}.test.yaml").write_text(f"spec: app.chain\ncommands: {folder}/{name}\ncases: [{{chain: find, expect: {{value: 1}}}}]\n")
        for command in (["chainio", "test", f"{name}.test.yaml"], ["chainc", "app.chain", "--clang", str(folder / name), "--native=none", "-o", "interrupted.o"]):
            for number in (signal.SIGTERM, signal.SIGINT):
                interrupted_by(number, f"{command[0]} that runs {name}", command, folder)


def interrupted_by(number, what, command, folder):
    work = folder / "work"
    reader = os.open(folder / "running", os.O_RDONLY | os.O_NONBLOCK)
    # A signal that is ignored, as SIGINT is behind the & of a script, stays so.
    tool = started.start([BUILD / "bin" / command[0], *command[1:]], cwd=folder, env={**os.environ, "TMPDIR": str(work)},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    group = os.getpgid(number_of_child(reader, tool))  # chainc runs several at once
    check(f"{what} has a folder while it runs", len(list(work.iterdir())) == 1, list(work.iterdir()))
    tool.send_signal(number)
    try:
        code = tool.wait(60)
    except subprocess.TimeoutExpired:
        code = "not in time"
    end = time.monotonic() + 60  # what was killed may need a while to be gone
    while members(group) and time.monotonic() < end:
        time.sleep(0.01)
    if left := members(group):
        os.killpg(group, signal.SIGKILL)  # nobody else ends it
    check(f"{what} ends by the signal {number}", code == -number, f"{code}; of what it runs there is still {left}")
    check(f"{what} leaves nothing behind", not list(work.iterdir()) and not (folder / "interrupted.o").exists(), list(work.iterdir()))
    check(f"{what} ends what it runs", not left, left)
    os.close(reader)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        temporary = folder / "temporary"  # of what this script runs, and of nobody else
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        (folder / "app.chain").write_text(SPEC)
        text = "spec: app.chain\n" + FILES + "".join(f"  - {{name: case {i}, {case}}}\n" for i, (case, _) in enumerate(CASES))
        (folder / "app.test.yaml").write_text(text)
        good = sum(reason is None for _, reason in CASES)
        code, out, err = run(folder, "app.test.yaml")
        check("the last line counts", out.rstrip().endswith(f"{good} passed, {len(CASES) - good} failed, 0 skipped"), out + err)
        check("a failure is exit code 1", code == 1, out)
        blocks = {}
        for line in out.splitlines():
            if line.startswith(("ok ", "FAIL")):
                blocks[line[5:]] = [line[:4].strip()]
            elif line.startswith("       ") and blocks:
                blocks[next(reversed(blocks))].append(line)
        for i, (case, reason) in enumerate(CASES):
            block = blocks[f"case {i}"]
            check(f"case {i}: {case}", block[0] == ("ok" if reason is None else "FAIL"), "\n".join(block))
            check(f"case {i} says why: {case}", reason is None or any(reason.replace("{folder}", name) in line for line in block), "\n".join(block))
        for engine in ("interpreter", "native"):
            code, out, _ = run(folder, "--engine", engine, "--filter", "case 0", "app.test.yaml")
            check(f"only {engine}", code == 0 and f"every case in {engine}\n" in out and "1 passed, 0 failed" in out, out)
        code, out, err = run(folder, "--filter", "no such case", "app.test.yaml")
        check("a filter that nothing meets", code == 1 and "no case's name contains" in err, out + err)
        for name_has, wanted in (("case 1", [1, *range(10, 20)]), ("no such case", [])):
            code, out, err = run(folder, "--list", "--filter", name_has, "app.test.yaml")
            listed = [line.split(": ", 1)[1] for line in out.splitlines()]
            check(f"only cases with '{name_has}' are listed", listed == [f"case {number}" for number in wanted], out)
            check("and none is an error", (code, "no case's name contains" in err) == ((0, False) if wanted else (1, True)), err)
        (folder / "skip.test.yaml").write_text("spec: app.chain\nneeds: no-such-program\ncases: [{chain: find, expect: {value: 1}}]\n")
        code, out, _ = run(folder, "skip.test.yaml")
        check("a file that needs what is not here is skipped with its reason", code == 0 and "has no no-such-program" in out and "0 passed, 0 failed, 1 skipped" in out, out)
        for text, place, why in (("spec: app.chain\ncases:\n\t- {chain: find}\n", "3:2", "indent with blanks, not with tabs"),
                                 ("spec: app.chain\ncases:\n  - chain: find\n\texpect: {value: 1}\n", "4:1", "indent with blanks, not with tabs"),
                                 ("spec: app.chain\nneeds: a: b\n", "2:9", "texts with `: ` or ` #` in them, or that begin with a sign, stand in quotes")):
            (folder / "text.test.yaml").write_text(text)
            code, out, err = run(folder, "text.test.yaml")
            check("what is no YAML is said with its remedy",
                  code == 1 and err.startswith(f"chainio test: text.test.yaml:{place}: this is not YAML: ") and err.endswith(f"; {why}\n"), text + out + err)
        (folder / "wrong.test.yaml").write_text("spec: absent.chain\ncases: [{chain: find, expect: {value: 1}}]\n")
        code, out, err = run(folder, "wrong.test.yaml", "skip.test.yaml")
        check("a spec that does not compile fails the run, the other files still run", code == 1 and "absent.chain" in err and "1 skipped" in out, out + err)
        code, out, err = run(folder, "none.test.yaml", "skip.test.yaml")
        check("a file that is not there is exit code 3 with the cause, the other files still run",
              code == 3 and "none.test.yaml: cannot be read: No such file or directory" in err and "1 skipped" in out, out + err)
        (folder / "directory").mkdir()
        code, out, err = run(folder, "directory", "skip.test.yaml")
        check("a directory is named as one with exit code 3, the other files still run",
              (code, err) == (3, "chainio test: directory: is a directory, not a test file; name a file in it\n") and "1 skipped" in out, out + err)
        code, out, err = run(folder, "app.chain")
        check("a spec in the place of its test file is named as one",
              (code, err) == (1, "chainio test: app.chain: is a spec; name its test file, which is YAML with `spec: app.chain` and its cases\n"), out + err)
        silently_dropped(folder)
        outcomes_that_are_none(folder)
        each_difference_once(folder)
        places_of_a_finished_artifact(folder)
        map_of_its_own(folder)
        shadow_chains_run_natively(folder)
        interrupted(folder)
        code, out, err = run(folder, "skip.test.yaml", TMPDIR="/no/folder")
        check("no place for temporary files is said with the remedy", code == 3 and re.fullmatch(
            r"chainio test: cannot make a temporary folder /no/folder/chainio-test-\w+: No such file or directory; "
            r"set TMPDIR to a folder that can be written\n", err), out + err)
        left = list(temporary.iterdir())
        check("no temporary folder is left", not left, str(left))
    print(f"{len(CASES)} cases, each as expected")


if __name__ == "__main__":
    main()
