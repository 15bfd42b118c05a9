#!/usr/bin/env python3
"""What docs/language.md says of single constructs holds in each engine: chains over a few bytes, by `chainio test`.

Random specs (random_specs.py) have no constructs whose use has to fit; those stand here.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

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
        sys.exit(run(folder, "exact", EXACT, bytes(i % 256 for i in range(512)), exact_cases()))


if __name__ == "__main__":
    main()
