"""within.py REPORT: what the verifier found is within the report's bounds and under a quarter of the kernel's limit."""
import json
import sys

report = json.load(open(sys.argv[1]))
for program in report["programs"]:
    assert program["verifier_processed"] <= 250_000, program
    assert program["verifier_stack"] <= program["stack"] <= report["limits"]["stack"], program
    assert 0 < program["instructions"] <= report["limits"]["instructions"], program
