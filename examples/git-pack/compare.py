#!/usr/bin/env python3
"""compare.py app.bpf.o PACK.idx: looks up every object of a pack, and one that it has not, and compares with what `git verify-pack -v`
says."""
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "bindings" / "python"))
import chainio  # noqa: E402

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    artifact, names = sys.argv[1:]
    pack = str(pathlib.Path(names).with_suffix(".pack"))
    listed = subprocess.run(["git", "verify-pack", "-v", names], capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"{names}: git does not take it for the index of a pack: {listed.stderr.strip()}; give …/objects/pack/pack-….idx")
    objects = {}
    for words in map(str.split, listed.stdout.splitlines()):
        if len(words) in (5, 7) and words[1] in KINDS:
            depth = int(words[5]) if len(words) == 7 else 0
            objects[bytes.fromhex(words[0])] = (KINDS[words[1]], int(words[2]), depth, int(words[4]))
    objects[bytes(20)] = None
    wrong = 0
    with chainio.open(artifact) as app:
        files = {"names": app.file(names, "index"), "pack": app.file(pack, "data")}
        for row, result in app.map("look", ({**files, "id": name} for name in objects)):
            want = objects[row["id"]]
            if result.outcome != ("ok" if want else "not_found") or (want and struct.unpack("<4Q", result.value) != want):
                print(f"{row['id'].hex()}: {result}, git says {want}")
                wrong += 1
    print(f"{len(objects) - 1} objects, {wrong} of them not as git says")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
