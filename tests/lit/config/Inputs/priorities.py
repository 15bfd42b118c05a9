"""priorities.py CONFIG: the priorities of the chains, and those of the services; 4 is that of what has no class."""
import json
import sys

config = json.load(open(sys.argv[1], encoding="utf-8"))
of_class = {each["name"]: each["priority"] for each in config["classes"]}
print(*({of_class.get(each.get("class"), 4) for each in config[kind]} or set() for kind in ("chains", "services")))
