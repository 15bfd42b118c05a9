"""coverage.py LIT_FOLDER < `chainc --explain list`: fails and names each code that no test expects."""
import pathlib
import re
import sys

# Not reachable from a spec; the reason stands beside it.
UNREACHABLE = {
    "CH0509": "it takes a file of another user: tests/e2e/tools_given.py",
    "CH0606": "a defect of chainc itself",
}
FEWEST_REFUSALS = 60

catalogue = dict(re.match(r"(CH\d+)\s+(\w+)", line).groups() for line in sys.stdin)
folder = pathlib.Path(sys.argv[1])
expected = set()
for path in folder.rglob("*"):
    if path.is_file() and "Output" not in path.parts and path.suffix in (".chain", ".yaml", ".test", ".expected"):
        for line in path.read_bytes().decode(errors="replace").split("\n"):
            expected.update("CH" + digits for digits in re.findall(r"(?:error|warning|note)\[CH(\d+)\]", line))
missing = sorted(set(catalogue) - expected - set(UNREACHABLE))
unknown = sorted(expected - set(catalogue))
for code in missing:
    print(f"no test expects {code}")
for code in unknown:
    print(f"a test expects {code}, which is not in the catalogue")
refusals = sum(1 for code, severity in catalogue.items() if severity == "error" and code in expected)
print(f"{refusals} refusals with tests, {len(catalogue)} codes")
sys.exit(bool(missing or unknown or refusals < FEWEST_REFUSALS))
