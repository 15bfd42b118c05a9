"""library.py PAGE FOLDER: compares the page's section of each spec with the spec's syntax tree, FOLDER/NAME, in both directions."""
import pathlib
import re
import sys

UNITS = {"KiB": (1 << 10, "bytes"), "MiB": (1 << 20, "bytes"), "s": (10**9, "ns"), "ms": (10**6, "ns")}
# Outcomes that a chain may have without a `fail`.
OF_ANY_CHAIN = {"malformed", "short_read", "hop_limit"}


def plain_value(text):
    """A default as a syntax tree has it: sizes in bytes, times in nanoseconds."""
    sized = re.fullmatch(r"(\d+)(KiB|MiB|s|ms)", text)
    return f"{int(sized[1]) * UNITS[sized[2]][0]}:{UNITS[sized[2]][1]}" if sized else text


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


def written(section):
    """Chains with their reads, services, parameters with their defaults, and outcomes of a section."""
    found = {"chain": set(), "service": set(), "parameter": set(), "outcome": set()}
    kind = None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            kind = None
        elif cells[0] in found:
            kind = cells[0]
        elif kind == "parameter" and codes(cells[0]):
            names, defaults = codes(cells[0]), [plain_value(value) for value in codes(cells[1])]
            found[kind].update(zip(names, defaults if len(defaults) == len(names) else defaults[:1] * len(names)))
        elif kind == "chain" and codes(cells[0]):
            found[kind].add((codes(cells[0])[0], cells[1].strip("`")))
        elif kind:
            found[kind].update(codes(cells[0]))
    return found


def declared(tree):
    """The same of a spec."""
    found = {"chain": set(), "service": set(), "parameter": set(), "outcome": set()}
    in_chain = False
    for line in tree.splitlines():
        line = re.sub(r" @\d+:\d+$", "", line)
        if not line.startswith(" "):
            in_chain = line.startswith("chain ")
        if line.startswith("param "):
            found["parameter"].add(re.match(r'param (?:files )?(\w+) = ("[^"]*"|\S+)', line).groups())
        elif line.startswith("service "):
            found["service"].add(re.match(r"service (.*?)(?: in class \w+)?$", line)[1])
        elif in_chain and line.startswith("chain "):
            text, _, hops = re.sub(r"( as \w+)?( in class \w+)?(?=$| ->)", "", line.removeprefix("chain ")).partition(" hops ")
            found["chain"].add((text, hops))
        if in_chain:
            found["outcome"].update(re.findall(r"\bfail (\w+)", line))
    return found


sections = dict(re.findall(r"^### std/(\w+)\n(.*?)(?=^#|\Z)", pathlib.Path(sys.argv[1]).read_text(), re.M | re.S))
trees = {path.name: path.read_text() for path in pathlib.Path(sys.argv[2]).iterdir()}
complaints = [f"std/{name}: {'no section' if name in trees else 'no such spec'}" for name in sections.keys() ^ trees.keys()]
for name in sorted(sections.keys() & trees.keys()):
    page, spec = written(sections[name]), declared(trees[name])
    called = [text for text, _ in spec["chain"] if " on " not in text]
    # Chains that read for shadow chains have no outcome that anybody sees.
    if len(called) < len(spec["chain"]):
        spec["outcome"].clear()
    else:
        spec["outcome"] = spec["outcome"] - OF_ANY_CHAIN
        page["outcome"] = page["outcome"] - OF_ANY_CHAIN
    for kind, things in spec.items():
        complaints += [f"std/{name}: the page has no {kind} {thing}" for thing in sorted(things - page[kind])]
        complaints += [f"std/{name} has no {kind} {thing}" for thing in sorted(page[kind] - things)]
print(f"{len(trees)} specs")
print("\n".join(complaints))
sys.exit(bool(complaints) or len(trees) < 17)
