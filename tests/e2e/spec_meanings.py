#!/usr/bin/env python3
"""What docs/language.md says of single constructs holds in each engine: chains over a few bytes, by `chainio test`.

Random specs (random_specs.py) have no constructs whose use has to fit; those stand here.
"""
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import spec_functions  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))

# A chain that emits `bytes(N)` ends well with N bytes alone, wherever it ends.
EXACT = """
files data = "*.x"
chain falls(f: file data, n: u64) -> bytes(8) {
  step s(w: block at 0 for 512 in f) {
    emit n as u32
    if n == 2 { emit n as u32 }
  }
}
chain returns(f: file data, n: u64) -> bytes(8) {
  step s(w: block at 0 for 512 in f) {
    if n == 2 {
      emit n
      return
    }
    if n == 1 { return }
    emit n as u32
    return
  }
}
chain loops(f: file data, n: u64) -> bytes(8) {
  step s(w: block at 0 for 512 in f) {
    for i in range(0, n) max 8 { emit i as u16 }
    return
  }
}
chain leaves(f: file data, n: u64) -> bytes(8) {
  step s(w: block at 0 for 512 in f) {
    for i in range(0, n) max 8 {
      if i == 1 { break }
      if i == 0 {
        emit n
        if n == 3 { return }
        continue
      }
    }
  }
}
chain goes(f: file data, n: u64) -> bytes(8) hops 8 {
  step s(w: block at 0 for 64 in f) {
    emit n as u16
    if block.offset / 64 + 1 < n { goto s at block.offset + 64 }
  }
}
chain queues(f: file data, n: u64) -> bytes(8) hops 8 {
  step s(w: block at 0 for 64 in f) {
    for i in range(0, n) max 8 { next t at i * 64 for 64 }
  }
  step t(w: block) { emit n as u16 }
  done { if n == 3 { emit 7 as u16 } }
}
chain some(f: file data, n: u64) -> bytes(8) {
  step s(w: block at 0 for 512 in f) { emit w[0..n] }
}
chain said(f: file data, n: u64) -> bytes(8) {
  state { k: u64 }
  step s(w: block at 0 for 512 in f) { k = n }
  done {
    if k == 3 { return }
    emit k
  }
}
"""

# Where a field is may be computed from the file's bytes, which say anything: it is where they say, or nowhere. Of each chain,
# `n` is where the record begins.
PLACES = """
files data = "*.x"
record Pair { x: u8  y: u8 }
record At { p: u64le  v: u8 at p }
record Behind { p: u64le  a: u8 at p  v: u8 }
record Absent { p: u64le  a: u8 at p when p == 1  b: u8  v: u8 }
record Nested { p: u64le  r: Pair at p  v: u8 }
record Gap { p: u64le  _: at p  v: u8 }
record Gaps { p: u64le  text: cstr(max 8)  _: at p  _: at p + 1  v: u8 }
record Still { p: u64le  text: cstr(max 8)  _: at 12  v: u8 }
record Room { p: u64le  text: cstr(max 8)  _: at 17  v: u8 }
record Row { n: u8  a: bytes(n)  _: at 8 }
record Loose { n: u8  a: bytes(n)  _: at 8  text: cstr(max 8) }
record Around { row: Loose  v: u8 }
record Small { p: u8  _: bytes(7)  v: u8 at p }
record First { a: u8 when block.length == 512  v: u8 }
record Fixed { v: u8 at 3 when block.length == 512 }
chain at_(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(At).v } }
chain at_end(f: file data, n: u64) -> u64 { step s(w: block at 0 for 512 in f) { return n.as(At).end } }
chain behind(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Behind).v } }
chain absent(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Absent).v } }
chain nested(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Nested).v } }
chain gap(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Gap).v } }
chain gap_end(f: file data, n: u64) -> u64 { step s(w: block at 0 for 512 in f) { return block.record(Gap, n).end } }
chain gaps(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Gaps).v } }
chain still(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Still).v } }
chain still_p(f: file data, n: u64) -> u64 { step s(w: block at 0 for 512 in f) { return n.as(Still).p } }
chain room(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Room).v } }
chain row(f: file data, n: u64) -> u64 { step s(w: block at 0 for 512 in f) { return n.as(Row).size } }
chain rows(f: file data, n: u64) -> u64 { step s(w: block at 0 for 512 in f) { return w[n..n + 8].records(Row, max 1).sum(r => r.n) } }
chain around(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Around).v } }
chain small(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Small).v } }
chain first(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(First).v } }
chain fixed(f: file data, n: u64) -> u8 { step s(w: block at 0 for 512 in f) { return n.as(Fixed).v } }
chain begins(f: file data, n: u64) -> u8 { step s(r: Behind at n for 512 in f) { return r.v } }
"""
# The records' places: a good one, some in front of the record or of all, some behind the block, one between 0 and the gap's.
STORED = [40, 2**64 - 8, 2**64 - 1, 2**64 - 3, 2**63, 600, 9, 4]

# The order of a chain's reads, and what becomes of those that are queued when it ends.
ORDER = """
files data = "*.x"
chain order(f: file data, n: u64) -> bytes(max 64) hops 16 {
  step s(w: block at 0 for 8 in f) {
    next leaf at 8 for 8 tag 1
    next leaf at 16 for 8 tag 2
    goto leaf at 24 for 8 tag 3
  }
  step leaf(w: block) {
    emit block.tag as u8
    if block.tag == n { return }
    if block.tag < 3 { goto leaf at 32 for 8 tag block.tag + 10 }
  }
  done { emit 99 as u8 }
}
"""

# What the seed of a hash does. `n` is where the bytes are cut in two.
SEEDS = """
files data = "*.x"
chain crc_goes_on(f: file data, n: u64) -> bool {
  step s(w: block at 0 for 64 in f) { return crc32c(w[n..], crc32c(w[0..n])) == crc32c(w) }
}
chain fnv_goes_on(f: file data, n: u64) -> bool {
  step s(w: block at 0 for 64 in f) { return fnv1a(w[n..], fnv1a(w[0..n])) == fnv1a(w) }
}
chain fnv_goes_on_so(f: file data, n: u64) -> bool {
  step s(w: block at 0 for 64 in f) { return fnv1a(w[n..], fnv1a(w[0..n]) ^ 0xcbf29ce484222325) == fnv1a(w) }
}
chain fnv_of_nothing(f: file data, n: u64) -> u64 { step s(w: block at 0 for 64 in f) { return fnv1a(w[0..0], n) } }
chain xxh_of_nothing(f: file data, n: u64) -> u64 { step s(w: block at 0 for 64 in f) { return xxh64(w[0..0], n) } }
"""


# Constants divide towards zero, also negative ones.
QUOTIENTS = """
files data = "*.x"
const HALF = 7 / -2
chain constants(f: file data, n: u64) -> i64 {
  step s(w: block at 0 for 8 in f) {
    if n == 0 { return HALF }
    return n == 1 ? -7 % 2 : n == 2 ? 7 % -2 : -8 / -3
  }
}
"""

# How wide an integer is that the compiler knows is what its sides are together, as where the run chooses.
WIDTHS = """
files data = "*.x"
record Pair { a: u8  b: u32le }
param WIDE = true
const SMALL = 5 as u8
const LARGE = 1000 as u16
chain widths(f: file data, n: u64) -> bytes(max 64) {
  step s(w: Pair at 0 for 8 in f) {
    if n == 0 { emit min(SMALL, LARGE), max(SMALL, LARGE), min(SMALL, 5), max(7 as u8, 5) }
    if n == 1 { emit WIDE ? w.a : w.b, WIDE ? SMALL : LARGE, WIDE ? w.b : w.a }
    if n == 2 { emit min(w.a, SMALL), min(w.a, LARGE), min(w.a, 5), n == 2 ? w.a : w.b }
    return
  }
}
"""

# Loops in more loops than have functions of their own in BPF.
DEEP = """
files data = "*.x"
chain deep(f: file data, n: u64) -> u64 {
  step s(w: block at 0 for 8 in f) {
    var sum = 0
    for a in range(0, 2) {
      for b in range(0, 2) {
        for c in range(0, 2) {
          for d in range(0, 2) {
            for e in range(0, 3) {
              for g in range(0, 3) {
                if g == n { continue }
                if e == n + 1 { break }
                sum = sum * 3 + g + 1
              }
              if e == n { continue }
              if d == n { break }
              sum = sum * 5 + a + b + c + d + e
            }
          }
        }
      }
    }
    return sum
  }
}
"""

# Integers of each width, hashes of each length, and numbers that end with the block or with 64 bits.
INTEGERS = [(width, sign, order) for width in range(1, 9) for sign in "ui" for order in (("",) if width == 1 else ("le", "be"))]
NUMBERS = f"""
files data = "*.x"
record Integers {{
  {"  ".join(f"{sign}{8 * width}{order}_: {sign}{8 * width}{order}" for width, sign, order in INTEGERS)}
}}
record Most {{ v: varint_sqlite }}
record Least {{ v: varint_leb128 }}
chain integers(f: file data, n: u64) -> u64 {{
  step s(r: Integers at 0 for 200 in f) {{
    match n {{
      {" ".join(f"{k} {{ return r.{sign}{8 * width}{order}_ as u64 }}" for k, (width, sign, order) in enumerate(INTEGERS))}
    }}
    fail not_found
  }}
}}
chain crc(f: file data, n: u64) -> u64 {{ step s(w: block at 0 for 200 in f) {{ return crc32c(w[3..3 + n], 9) }} }}
chain xxh(f: file data, n: u64) -> u64 {{ step s(w: block at 0 for 200 in f) {{ return xxh64(w[3..3 + n], 9) }} }}
chain fnv(f: file data, n: u64) -> u64 {{ step s(w: block at 0 for 200 in f) {{ return fnv1a(w[3..3 + n], 9) }} }}
chain most(f: file data, n: u64) -> u64 {{ step s(r: Most at 200 for n in f) {{ return r.v }} }}
chain least(f: file data, n: u64) -> u64 {{ step s(r: Least at 216 for n in f) {{ return r.v }} }}
chain decimals(f: file data, n: u64) -> u64 {{
  step s(w: block at 256 + 32 * n for 32 in f) {{ return w[1..1 + w[0]].decimal() }}
}}
"""
DECIMALS = ["0", "18446744073709551615", "18446744073709551616", "18446744073709551619", "18446744073709551620", "99999999999999999999",
            "00000000000000000007", "000000000000000000007", "", "1x", "184467440737095516150"]


def little(width, *numbers):
    return {"bytes": {"hex": b"".join(number.to_bytes(width, "little") for number in numbers).hex()}}


def exact_cases():
    malformed, overflow = {"outcome": "malformed"}, {"outcome": "overflow"}
    return {
        "falls": {1: malformed, 2: little(4, 2, 2)},
        "returns": {1: malformed, 2: little(8, 2), 3: malformed},
        "loops": {0: malformed, 3: malformed, 4: little(2, 0, 1, 2, 3), 5: overflow},
        "leaves": {0: malformed, 1: little(8, 1), 2: little(8, 2), 3: little(8, 3)},
        "goes": {1: malformed, 3: malformed, 4: little(2, 4, 4, 4, 4), 5: overflow},
        "queues": {0: malformed, 2: malformed, 3: little(2, 3, 3, 3, 7), 4: little(2, 4, 4, 4, 4), 5: overflow},
        "some": {0: malformed, 7: malformed, 8: little(1, *range(8)), 9: overflow},
        "said": {2: little(8, 2), 3: malformed},
    }


def places_data():
    """At 8 * k, the k-th number; then bytes that say where they are."""
    head = b"".join(number.to_bytes(8, "little") for number in STORED)
    return head + bytes(i % 251 for i in range(len(head), 1024))


def places_cases():
    data, malformed = places_data(), {"outcome": "malformed"}
    cases = {}

    def say(chain, behind, sound=lambda n, p: True):
        """The chain gives the byte `behind` bytes behind the place, if that is one of the block."""
        for k, p in enumerate(STORED):
            n = 8 * k
            there = sound(n, p) and n + p + behind < 512
            cases.setdefault(chain, {})[n] = {"value": data[n + p + behind]} if there else malformed

    def zero(n):
        return data.index(0, n + 8)

    say("at_", 0)
    say("behind", 1)
    say("absent", 1)
    say("nested", 2)
    say("gap", 0, lambda n, p: p >= 8)
    say("gaps", 1, lambda n, p: zero(n) <= n + 16 and p >= zero(n) + 1 - n)
    for k, p in enumerate(STORED):
        n, far = 8 * k, p >= 2**63
        cases["small"] = cases.get("small", {}) | {n: {"value": data[n + p % 256]} if n + p % 256 < 512 else malformed}
        # Where the place is constant, nothing of such a record is given.
        close, short = zero(n) < n + 12, data[n] < 8
        cases["still"] = cases.get("still", {}) | {n: {"value": data[n + 12]} if close else malformed}
        cases["still_p"] = cases.get("still_p", {}) | {n: {"value": p} if close else malformed}
        cases["room"] = cases.get("room", {}) | {n: {"value": data[n + 17]}}
        cases["row"] = cases.get("row", {}) | {n: {"value": 8} if short else malformed}
        cases["rows"] = cases.get("rows", {}) | {n: {"value": data[n]} if short else malformed}
        cases["around"] = cases.get("around", {}) | {n: {"value": data[zero(n) + 1]} if short and zero(n) <= n + 16 else malformed}
        # Where nothing is read, a record may end behind the block.
        cases["at_end"] = cases.get("at_end", {}) | {n: malformed if far else {"value": n + p + 1}}
        cases["gap_end"] = cases.get("gap_end", {}) | {n: malformed if far or p < 8 else {"value": n + p + 1}}
        cases["begins"] = cases.get("begins", {}) | {n: malformed if p + 1 >= 512 else {"value": data[n + p + 1]}}
    for n in (0, 300, 510, 511, 512, 2**63, 2**64 - 4, 2**64 - 3, 2**64 - 1):
        cases["first"] = cases.get("first", {}) | {n: {"value": data[n + 1]} if n + 1 < 512 else malformed}
        cases["fixed"] = cases.get("fixed", {}) | {n: {"value": data[n + 3]} if n + 3 < 512 else malformed}
    return cases


def order_cases():
    # 11 and 12 are what the first two leaves went to. 99: the end of a chain that did not return.
    whole = [1, 2, 3, 11, 12]
    return {"order": {0: little(1, *whole, 99), **{last: little(1, *whole[:whole.index(last) + 1]) for last in whole}}}


def seeds_cases():
    yes, no, basis = {"value": 1}, {"value": 0}, 0xcbf29ce484222325
    return {
        "crc_goes_on": {n: yes for n in (0, 1, 8, 63, 64)},
        "fnv_goes_on": {n: no for n in (0, 1, 8, 63, 64)},
        "fnv_goes_on_so": {n: yes for n in (0, 1, 8, 63, 64)},
        "fnv_of_nothing": {n: {"value": basis ^ n} for n in (0, 1, basis)},
        # As the reference implementation (xxhsum) has them.
        "xxh_of_nothing": {0: {"value": 0xef46db3751d8e999}, 1: {"value": 0xd5afba1336a3be4b}},
    }


def widths_cases():
    def written(*numbers):
        return {"bytes": {"hex": b"".join(number.to_bytes(width, "little") for number, width in numbers).hex()}}

    long = 0x05040302
    return {0: written((5, 2), (1000, 2), (5, 8), (7, 8)), 1: written((1, 4), (5, 2), (long, 4)), 2: written((1, 1), (1, 2), (1, 8), (1, 4))}


def numbers_data():
    head = bytes((37 * i + 131) % 256 for i in range(200))
    varints = (b"\xff" * 16) + b"\x80" * 9 + b"\1"
    return (head + varints).ljust(256, b"\0") + b"".join((bytes([len(text)]) + text.encode()).ljust(32, b"5") for text in DECIMALS)


def numbers_cases():
    data, malformed, at, cases = numbers_data(), {"outcome": "malformed"}, 0, {}
    for k, (width, sign, order) in enumerate(INTEGERS):
        number = int.from_bytes(data[at:at + width], "big" if order == "be" else "little", signed=sign == "i")
        cases.setdefault("integers", {})[k] = {"value": number % 2**64}
        at += width
    for chain, sum_of in (("crc", spec_functions.crc32c), ("xxh", spec_functions.xxh64), ("fnv", spec_functions.fnv1a)):
        cases[chain] = {n: {"value": sum_of(data[3:3 + n], 9)} for n in [*range(42), 63, 64, 65, 127, 190]}
    cases["most"] = {n: {"value": 2**64 - 1} if n >= 9 else malformed for n in range(1, 12)}
    cases["least"] = {n: {"value": 2**63} if n >= 10 else malformed for n in range(1, 12)}
    good = [text.isdigit() and len(text) <= 20 and int(text) < 2**64 for text in DECIMALS]
    cases["decimals"] = {n: {"value": int(text)} if good[n] else malformed for n, text in enumerate(DECIMALS)}
    return cases


def deep(n):
    total = 0
    for outer in itertools.product(range(2), repeat=4):
        for e in range(3):
            for g in range(3):
                if g == n:
                    continue
                if e == n + 1:
                    break
                total = total * 3 + g + 1
            if e == n:
                continue
            if outer[3] == n:
                break
            total = total * 5 + sum(outer) + e
    return total % 2**64


def called(folder):
    """The same order by an engine, whose reads come as the disk gives them."""
    subprocess.run([BUILD / "bin" / "chainc", folder / "order.chain", "-o", folder / "order.o"], check=True)
    (folder / "many.x").write_bytes(bytes(64))
    failed = 0
    for ways in ((), ("--no-ring",), ("--direct", "--spin", "1")):
        for last, expected in order_cases()["order"].items():
            done = subprocess.run([BUILD / "bin" / "chainio", "call", folder / "order.o", "order", "--file", folder / "many.x", "--n", str(last),
                                   "--output", "hex", "--quiet", *ways], capture_output=True, text=True)
            if done.stdout != expected["bytes"]["hex"] + "\n":
                print(f"failed: order {last} {ways}: {done.stdout}{done.stderr}")
                failed = 1
    return failed


def run(folder, name, spec, data, cases):
    """How many of the cases do not hold in all engines."""
    (folder / f"{name}.chain").write_text(spec)
    (folder / f"{name}.x").write_bytes(data)
    listed = [{"name": f"{name}: {chain} {n}", "chain": chain, "files": {"f": "data"}, "args": {"n": n}, "expect": expected}
              for chain, each in cases.items() for n, expected in each.items()]
    # JSON is YAML.
    (folder / f"{name}.test.yaml").write_text(json.dumps({"spec": f"{name}.chain", "files": {"data": f"{name}.x"}, "cases": listed}))
    done = subprocess.run([BUILD / "bin" / "chainio", "test", folder / f"{name}.test.yaml"], capture_output=True, text=True, check=False)
    counts = re.search(r"^(\d+) passed, (\d+) failed, 0 skipped$", done.stdout, re.M)
    for note in re.findall(r"^not run: .*$", done.stdout, re.M):
        print(f"skipped: {note}")
    if counts and int(counts[1]) == len(listed) and done.returncode == 0:
        print(f"{name}: {len(listed)} cases")
        return 0
    print(f"failed: {name}: chainio test ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return 1


def main():
    with tempfile.TemporaryDirectory(prefix="chainio-spec-meanings-") as name:
        folder = pathlib.Path(name)
        failed = run(folder, "exact", EXACT, bytes(i % 256 for i in range(512)), exact_cases())
        failed += run(folder, "order", ORDER, bytes(64), order_cases()) + called(folder)
        failed += run(folder, "seeds", SEEDS, bytes(range(1, 65)), seeds_cases())
        failed += run(folder, "quotients", QUOTIENTS, bytes(8), {"constants": {n: {"value": value} for n, value in enumerate((-3, -1, 1, 2))}})
        failed += run(folder, "widths", WIDTHS, bytes(range(1, 9)), {"widths": widths_cases()})
        failed += run(folder, "deep", DEEP, bytes(8), {"deep": {n: {"value": deep(n)} for n in range(5)}})
        failed += run(folder, "numbers", NUMBERS, numbers_data(), numbers_cases())
        failed += run(folder, "places", PLACES, places_data(), places_cases())
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
