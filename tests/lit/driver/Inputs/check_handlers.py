"""check_handlers.py REPORT: the figures of --report=json on handled.chain."""
import json
import sys

report = json.load(open(sys.argv[1]))
handlers = {handler["name"]: handler["instructions"] for handler in report["handlers"]}
assert list(handlers) == ["kv.udp", "kv.tcp", "kv.failure"], handlers
# Fifty rounds of one loop, and one of the loop that calls a chain in each.
assert handlers["kv.udp"] == handlers["kv.tcp"] and 3000 <= handlers["kv.udp"] <= 5000, handlers
assert 0 < handlers["kv.failure"] < 200, handlers
assert not set(handlers) & {program["name"] for program in report["programs"]}, report
