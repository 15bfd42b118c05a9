"""check_map.py MAP CANONICAL SOURCE: `goto walk` and `step walk` of the canonical form lead to where the source has them."""
import json
import sys

mapping, canonical, source = json.load(open(sys.argv[1])), open(sys.argv[2]).read().split("\n"), open(sys.argv[3]).read().split("\n")
root = next(entry for entry in mapping["files"] if entry["canonical"] == "small.chain")
assert root["source"] == sys.argv[3], root["source"]
found = 0
for row in root["lines"]:
    here, there = canonical[row["canonical"] - 1], source[row["line"] - 1]
    for word in ("goto", "walk", "let", "return", "lookup"):
        if here.strip().startswith((word, "step " + word, "chain " + word)):
            assert word in there, (here, there)
            assert len(there) >= row["column"] >= 1
            found += 1
assert found >= 4, f"only {found} lines were compared"
