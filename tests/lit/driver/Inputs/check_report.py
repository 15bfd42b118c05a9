"""check_report.py REPORT: the figures of --report=json on small.chain are there and within the limits."""
import json
import sys

report = json.load(open(sys.argv[1]))
programs = {program["name"]: program for program in report["programs"]}
assert {"lookup.entry", "lookup.walk"} <= set(programs), programs
for program in programs.values():
    assert 0 < program["instructions"] <= report["limits"]["instructions"], program
    assert 0 <= program["stack"] <= report["limits"]["stack"], program
# A search over four keys, bounds checks and a multiplication: more than a handful, far from thousands.
assert 20 <= programs["lookup.walk"]["instructions"] <= 3000, programs["lookup.walk"]
(chain,) = report["chains"]
assert (chain["name"], chain["hops"], chain["in_flight"], chain["largest_read"]) == ("lookup", 8, 1, 512), chain
assert chain["memory"] >= report["io_bytes"] + chain["in_flight"] * chain["largest_read"], chain
