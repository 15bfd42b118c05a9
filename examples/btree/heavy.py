#!/usr/bin/env python3
"""Many range sums at once from Python: python3 heavy.py app.bpf.o tree.idx [WEIGHT]. Prints low, high, count and sum of each range."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "bindings" / "python"))
import chainio  # noqa: E402  (found through the path above when it is not installed)


def main(artifact, tree, weight=5):
    with chainio.open(artifact, in_flight=8) as app:
        file = app.file(tree)
        ranges = [{"tree": file, "low": low, "high": low + 500, "weight": int(weight)} for low in range(0, 5000, 500)]
        answers = {row["low"]: result for row, result in app.map("heavy", ranges)}
        for row in ranges:
            result = answers[row["low"]]
            if result.outcome != "ok":
                sys.exit(f"{row['low']}: the chain ended with {result.outcome}")
            count, total = struct.unpack("<QQ", result.value)
            print(row["low"], row["high"], count, total)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
