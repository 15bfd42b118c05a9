"""Suites that read the source only: format, clang-tidy, arrows, lengths and links."""
import concurrent.futures
import hashlib
import json
import subprocess

from report import JOBS, LOGS, ROOT, Outcome, one, run


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
    return [one(name, [str(ROOT / "tools" / name)], f"{name}.log") for name in ("arrows", "lengths", "links")]


def tidy_one(path, headers):
    """A file whose text, headers and rules have not changed since it was found clean is not read again."""
    digest = hashlib.sha256(headers + path.read_bytes()).hexdigest()
    name = path.relative_to(ROOT).as_posix()
    stamp = LOGS / "tidy" / (name.replace("/", "_") + ".clean")
    if stamp.exists() and stamp.read_text() == digest:
        return Outcome(name, "passed")
    code, output = run(["clang-tidy-19", "--quiet", "-p", "build/release", name], f"tidy/{name.replace('/', '_')}.log", timeout=600)
    if code != 0:
        return Outcome(name, "failed", output)
    stamp.write_text(digest)
    return Outcome(name, "passed")


def tidy():
    """Our own translation units, as release compiles them; tests are left to the compiler's warnings."""
    database = ROOT / "build" / "release" / "compile_commands.json"
    if not database.exists():
        return [Outcome("clang-tidy", "failed", "build/release/compile_commands.json is missing: the build failed")]
    compiled = {entry["file"] for entry in json.loads(database.read_text())}
    units = [p for p in tracked("compiler/*.cpp", "runtime/*.cpp", "tools/*.cpp") if str(p) in compiled]
    headers = b"".join(p.read_bytes() for p in [*tracked("*.h"), ROOT / ".clang-tidy"])
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda p: tidy_one(p, headers), units))
