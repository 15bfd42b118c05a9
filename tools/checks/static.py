"""Suites that read the source only: format, clang-tidy, arrows, lengths and links."""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess

from report import JOBS, LOGS, ROOT, Outcome, one, run

TIDY_GROUP = 20  # files that clang-tidy reads at a time


def tracked(*patterns):
    """Files that git knows and that match; all files below the root when this is no clone."""
    listed = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        return sorted(p for pattern in patterns for p in ROOT.rglob(pattern) if "build" not in p.relative_to(ROOT).parts)
    return sorted(ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def style():
    files = [str(path) for path in tracked("*.h", "*.cpp", "*.c")]
    return [one("clang-format", ["clang-format-19", "--dry-run", "-Werror", *files], "format.log")]


def programs():
    """The repository's own checkers, each a program in tools/."""
    own = [one(name, [str(ROOT / "tools" / name)], f"{name}.log") for name in ("arrows", "lengths", "links")]
    return [*own, unused_usings(), unlicensed_templates()]


def unlicensed_templates():
    """What goes into other people's BPF objects says under which licences it may."""
    licence = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
    without = [path.name for path in tracked("bpf-templates/*") if licence not in path.open().readline()]
    return Outcome("licences", "failed" if without else "passed", "\n".join(f"{name}: its first line lacks {licence}" for name in without))


def unused_usings():
    """`using NAMESPACE::NAME;` in a file that says NAME nowhere else. clang-tidy has a check for it, but not for files read as one unit."""
    complaints = []
    for path in tracked("*.h", "*.cpp"):
        text = path.read_text()
        for found in re.finditer(r"^\s*using [\w:]+::(\w+);", text, re.M):
            if len(re.findall(rf"\b{found[1]}\b", text)) == 1:
                complaints.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start(1)) + 1}: {found[1]} is not used")
    return Outcome("using", "failed" if complaints else "passed", "\n".join(complaints))


def tidied(name, paths, flags):
    """What clang-tidy has against these files, read as one unit; empty: nothing. Files that are right one by one may use the same
    names: where a unit is not right its halves are read."""
    unit = LOGS / "tidy" / f"{name}.cpp"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text("".join(f'#include "{path}"\n' for path in paths))
    command = ["clang-tidy-19", "--quiet", f"--config-file={ROOT}/.clang-tidy", str(unit), "--", *flags]
    code, output = run(command, f"tidy/{name}.log", timeout=900)
    if code == 0:
        return ""
    if len(paths) == 1:
        return output or f"exit code {code}"
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
        folders.setdefault((path.parent.relative_to(ROOT).as_posix().replace("/", "_"), program, tuple(flags_of(entry))), []).append(path)
    groups = [(f"{folder}_{at // TIDY_GROUP}_{number}", paths[at:at + TIDY_GROUP], flags)
              for number, ((folder, _, flags), paths) in enumerate(sorted(folders.items())) for at in range(0, len(paths), TIDY_GROUP)]
    common = b"".join(p.read_bytes() for p in [*tracked("*.h"), ROOT / ".clang-tidy"])
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda group: tidy_group(*group, common), groups))
