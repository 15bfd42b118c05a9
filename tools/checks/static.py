"""Suites that read the source only: format, clang-tidy, arrows, lengths and links."""
import concurrent.futures
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shlex
import subprocess

import includes
import run_lines
from report import JOBS, LOGS, ROOT, SHARED_NAMES, Outcome, one, run

TIDY_GROUP = 26  # files that clang-tidy reads at a time
# Sources that include CLI11 are read together: for each of its functions that takes a string clang-tidy goes through all of the unit.
CLI = "cli_"
WITH_NEXT = ("-isystem", "-idirafter", "-include")  # flags of two words
LEFT_OUT = re.compile(r"""\b(?:print\(|echo )[^"']*["'](?!skip).*\b(?:not|never) (?:tried|run|looked at|tested|compared)\b""")
ALONE = None if os.environ.get("CHAINIO_SOAK") == "1" else 12  # sources that are compiled alone; None: all


def names():
    """Files that git knows; all below the root, without what is built, when this is no clone."""
    listed = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [name for name in listed.stdout.split("\0") if name]
    found = []
    for folder, folders, files in os.walk(ROOT):
        if pathlib.Path(folder) == ROOT:
            folders[:] = [each for each in folders if each != "build"]
        found += [(pathlib.Path(folder) / file).relative_to(ROOT).as_posix() for file in files]
    return found


def tracked(*patterns):
    """The files of the sources that match; a `*` crosses folders, as it does for git. A pattern without any is out of date, and would check nothing."""
    there = sorted(ROOT / name for name in names() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
    files = [path for path in there if path.is_file()]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(path.relative_to(ROOT).as_posix(), pattern) for path in files):
            raise ValueError(f"no file matches {pattern}")
    return files


def style():
    files = [str(path) for path in tracked("*.h", "*.cpp", "*.c")]
    return [one("clang-format", ["clang-format-19", "--dry-run", "-Werror", *files], "format.log")]


def programs():
    """The repository's own checkers, each a program in tools/."""
    own = [one(name, [str(ROOT / "tools" / name)], f"{name}.log") for name in ("arrows", "lengths", "links")]
    return [*own, unused_usings(), unincluded(), lost_codes(), uncounted_parts(), unlicensed_templates(), throwing_prints()]


def unlicensed_templates():
    """What goes into other people's BPF objects says under which licences it may."""
    licence = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
    without = [path.name for path in tracked("bpf-templates/*") if licence not in path.open().readline()]
    return Outcome("licences", "failed" if without else "passed", "\n".join(f"{name}: its first line lacks {licence}" for name in without))


def throwing_prints():
    """What is said is no reason to end otherwise where it cannot be written, nor is it one for a daemon not to start."""
    complaints = []
    for path in tracked("compiler/*.h", "compiler/*.cpp", "runtime/*.h", "runtime/*.cpp", "tools/*.h", "tools/*.cpp"):
        text = path.read_text()
        for found in re.finditer(r"\b(?:fmt|std)::(?:v?print|println)\((?!\))", text):
            complaints.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}: {found[0][:-1]} throws where it cannot write; "
                              "tools/chainio/printed.h has print_out and say")
    return Outcome("prints", "failed" if complaints else "passed", "\n".join(complaints))


def unincluded():
    complaints = list(includes.missing(ROOT, [path for path in tracked("*.h", "*.cpp") if "bpf-templates" not in path.parts]))
    return Outcome("includes", "failed" if complaints else "passed", "\n".join(complaints))


def lost_codes():
    tests = [path for path in tracked("tests/lit/*", "examples/*") if path.suffix in run_lines.SUFFIXES]
    complaints = list(run_lines.lost(ROOT, tests))
    return Outcome("RUN lines", "failed" if complaints else "passed", "\n".join(complaints))


def uncounted_parts():
    """What a script leaves out is counted by the line that begins with `skipped: `; one that says it in other words is not."""
    complaints = [f"{path.relative_to(ROOT)}:{number}: a part that is left out is counted where it says `skipped: WHAT: REASON`"
                  for path in tracked("tests/e2e/*", "tests/vm/*") for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
                  if LEFT_OUT.search(line)]
    return Outcome("parts left out", "failed" if complaints else "passed", "\n".join(complaints))


def unused_usings():
    """`using NAMESPACE::NAME;` in a file that says NAME nowhere else. clang-tidy has a check for it, but not for files read as one unit."""
    complaints = []
    for path in tracked("*.h", "*.cpp"):
        text = path.read_text()
        for found in re.finditer(r"^\s*using [\w:]+::(\w+);", text, re.M):
            if len(re.findall(rf"\b{found[1]}\b", text)) == 1:
                complaints.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start(1)) + 1}: {found[1]} is not used")
    return Outcome("using", "failed" if complaints else "passed", "\n".join(complaints))


def included(path):
    """A source in a unit, which may hold several programs: each `main` has a name of its own."""
    line = f'#include "{path}"\n'
    return line if path.name != "main.cpp" else f"#define main main_{hashlib.sha256(bytes(path)).hexdigest()[:8]}\n{line}#undef main\n"


def tidied(name, paths, flags):
    """What clang-tidy has against these files, read as one unit; empty: nothing. Files of one folder have names of their own, since most are compiled as
    one; where those of several folders have the same ones the halves are read."""
    unit = LOGS / "tidy" / f"{name}.cpp"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text("".join(map(included, paths)))
    command = ["clang-tidy-19", "--quiet", f"--config-file={ROOT}/.clang-tidy", str(unit), "--", *flags]
    code, output = run(command, f"tidy/{name}.log", timeout=900)
    if code == 0:
        return ""
    is_no_unit = "[clang-diagnostic-error]" in output
    if not is_no_unit or len({path.parent for path in paths}) == 1:
        return (output or f"exit code {code}") + (SHARED_NAMES if is_no_unit else "")
    middle = len(paths) // 2
    return tidied(f"{name}.1", paths[:middle], flags) + tidied(f"{name}.2", paths[middle:], flags)


def tidy_group(name, paths, flags, common):
    """Reads files of one directory as one unit, since nearly all the work is in the headers that they share. A group whose texts,
    headers and rules have not changed since it was found clean is not read again."""
    digest = hashlib.sha256(common + b"".join(p.read_bytes() for p in paths)).hexdigest()
    stamp = LOGS / "tidy" / f"{name}.clean"
    if stamp.exists() and stamp.read_text() == digest:
        return Outcome(name, "passed")
    complaints = tidied(name, paths, flags)
    if complaints:
        return Outcome(name, "failed", complaints)
    stamp.write_text(digest)
    return Outcome(name, "passed")


def flags_of(entry):
    """The compiler's flags without the compiler, its launcher, the source and the object."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    return [word for word in words[first:words.index("-o")] if word != "-c"]


def entries_of(database):
    """How each source is compiled; of those that are compiled as one unit, how that is."""
    entries = {}
    for entry in json.loads(database.read_text()):
        unit = pathlib.Path(entry["file"])
        sources = re.findall(r'^#include "(.+)"$', unit.read_text(), re.M) if unit.parent.name == "Unity" else [entry["file"]]
        entries |= dict.fromkeys(sources, entry)
    return entries


def nearest(entries, path):
    """How a source is compiled that lies in the same folder, or else in one above: of what cmake does not compile itself, or not here."""
    return next(entry for folder in path.parents for source, entry in sorted(entries.items()) if folder in pathlib.Path(source).parents)


def compiled_alone(entries, pool):
    """Sources of the compiler's libraries, which are compiled as units, some of them each by itself, since it should include what it uses:
    others whenever one changes."""
    units = {source: entry for source, entry in sorted(entries.items()) if source != entry["file"] and source.startswith(f"{ROOT}/compiler/")}
    digest = hashlib.sha256(b"".join(pathlib.Path(source).read_bytes() for source in units)).hexdigest()
    if not units:  # CHAINIO_UNITY is OFF
        return [Outcome("every source is compiled alone", "passed")]
    count = len(units) if ALONE is None else min(ALONE, len(units))
    chosen = random.Random(os.environ.get("CHAINIO_SEED", digest)).sample(list(units), count)

    def compiled(source):
        name = pathlib.Path(source).relative_to(ROOT).as_posix().replace("/", "_")
        return one(f"{name} alone", ["clang++-19", *flags_of(units[source]), "-fsyntax-only", source], f"tidy/{name}.alone.log")

    found = list(pool.map(compiled, chosen))
    failed = [outcome for outcome in found if outcome.state != "passed"]
    return failed or [Outcome(f"{len(found)} of {len(units)} sources alone", "passed")]


def together(*all_flags):
    """What several programs are compiled with, each flag once."""
    flags = {}
    for words in map(iter, all_flags):
        flags |= {(word, next(words)) if word in WITH_NEXT else (word,): None for word in words}
    return tuple(word for flag in flags for word in flag)


def go_together(some, others):
    """Whether they lie in other folders: programs of the same one may each have what the other one has."""
    return not {path.parent for path in some} & {path.parent for path in others}


def tidy_groups(folders):
    """(name, sources, flags): those of one program, at most TIDY_GROUP at a time; of few of one tree with those of other programs."""
    groups, small = [], {}
    for (folder, _, flags), paths in sorted(folders.items()):
        if len(paths) > TIDY_GROUP // 2:
            size = math.ceil(len(paths) / math.ceil(len(paths) / TIDY_GROUP))  # of parts that are alike
            groups += [(f"{folder}_{len(groups)}_{at}", paths[at:at + size], flags) for at in range(0, len(paths), size)]
            continue
        bins = small.setdefault(folder.partition("_")[0], [])
        fits = next((i for i, (has, _) in enumerate(bins) if len(has) + len(paths) <= TIDY_GROUP and go_together(has, paths)), None)
        if fits is None:
            bins.append((paths, flags))
        else:
            bins[fits] = bins[fits][0] + paths, together(bins[fits][1], flags)
    groups += [(f"{tree}_small_{i}", paths, flags) for tree, bins in small.items() for i, (paths, flags) in enumerate(bins)]
    return sorted(groups, key=lambda group: not group[0].startswith(CLI))  # those that take longest begin


def tidy():
    """Our own translation units, as release compiles them; tests are left to the compiler's warnings."""
    database = ROOT / "build" / "release" / "compile_commands.json"
    if not database.exists():
        return [Outcome("clang-tidy", "failed", "build/release/compile_commands.json is missing: the build failed")]
    entries = entries_of(database)
    folders = {}
    for path in tracked("compiler/*.cpp", "runtime/*.cpp", "tools/*.cpp"):
        entry = entries.get(str(path)) or nearest(entries, path)
        # Sources of two programs may each have what the other one has.
        program = re.search(r"CMakeFiles/([^/]+)\.dir/", entry["command"])[1]
        name = path.parent.relative_to(ROOT).as_posix().replace("/", "_")
        if any(header.startswith("CLI/") for header in includes.reached(ROOT, path, set())):
            name = CLI + name
        folders.setdefault((name, program, tuple(flags_of(entry))), []).append(path)
    groups = tidy_groups(folders)
    common = b"".join(p.read_bytes() for p in [*tracked("*.h"), ROOT / ".clang-tidy"])
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda group: tidy_group(*group, common), groups)) + compiled_alone(entries, pool)
