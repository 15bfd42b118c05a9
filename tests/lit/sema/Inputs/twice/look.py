"""Looks at the configurations of imported-twice.test: which names each list has."""
import json
import sys

ways, names, numbers, app, sockets = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])


def expect(config, what, wanted):
    found = [each if isinstance(each, str) else each["name"] for each in config[what]]
    assert found == wanted, f"{what}: {found}, not {wanted}"


for config, chains in ((ways, ["ahead"]), (names, ["a.ahead", "b.ahead"])):
    expect(config, "chains", chains)
    expect(config, "match_exe", ["kv*"])
    expect(config, "sockets", ["peers"])
    expect(config, "classes", ["meta"])
    assert config["batch"] == {"min": 4, "max": 32, "adapt": True}, config["batch"]
    assert all(chain["source"] == "peers" and chain["class"] == "meta" for chain in config["chains"]), config["chains"]
expect(numbers, "classes", ["meta", "meta"])
assert [each["weight"] for each in numbers["classes"]] == [2, 3], numbers["classes"]
assert app["app"] == "kv" and app["match_exe"] == ["kv*"], app
expect(sockets, "sockets", ["own", "other"])
assert [chain["source"] for chain in sockets["chains"]] == ["own", "other", "own"], sockets["chains"]
