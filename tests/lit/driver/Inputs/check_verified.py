"""check_verified.py REPORT: the bounds are at least what the verifier found."""
import json
import sys

report = json.load(open(sys.argv[1]))
assert report["programs"]
for program in report["programs"]:
    assert program["verifier_processed"] > 0, program
    assert program["stack"] >= program["verifier_stack"], program
