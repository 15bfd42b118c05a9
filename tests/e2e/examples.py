#!/usr/bin/env python3
"""Every example: its tests pass in every engine, and its .chain and .yaml forms compile to the same bytes."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
CHAINC, CHAINIO = str(BUILD / "bin" / "chainc"), str(BUILD / "bin" / "chainio")
failures = []


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def check(what, done, holds=True):
    if done.returncode != 0 or not holds:
        failures.append(what)
        print(f"FAILED: {what}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return False
    return True


def same_bytes(spec, folder):
    """The YAML form is what chainc makes of the spec today, and means the same to the last byte."""
    written = spec.with_suffix(".yaml")
    printed = run([CHAINC, spec, "--emit=yaml"])
    if not check(f"{spec}: --emit=yaml", printed):
        return
    if not written.exists() or written.read_text() != printed.stdout:
        failures.append(f"{written} is not what `chainc {spec} --emit=yaml` prints")
        print(failures[-1])
    artifacts = []
    for form in (spec, written):
        out = folder / f"{form.suffix[1:]}.o"
        if not check(f"compile {form}", run([CHAINC, form, "-o", out])):
            return
        artifacts.append(out.read_bytes())
    if artifacts[0] != artifacts[1]:
        failures.append(f"{spec} and {written} do not give the same bytes")
        print(failures[-1])


def main():
    os.chdir(ROOT)
    tests = sorted(pathlib.Path("examples").glob("*/app.test.yaml"))
    folders = sorted(path.parent for path in pathlib.Path("examples").glob("*/app.chain"))
    assert [test.parent for test in tests] == folders and len(folders) >= 5, "every example has tests"
    with tempfile.TemporaryDirectory() as name:
        for folder in folders:
            assert (folder / "README.md").exists(), f"{folder} has no README.md"
            done = run([CHAINIO, "test", folder / "app.test.yaml"])
            last = done.stdout.rstrip().splitlines()[-1:] or [""]
            if check(f"chainio test {folder}", done, " 0 failed, 0 skipped" in last[0]):
                print(f"{folder}: {last[0]}")
            same_bytes(folder / "app.chain", pathlib.Path(name))
    # The lit configuration that the documentation offers to users.
    lit = ROOT / "build" / "venv" / "bin" / "lit"
    found = str(lit) if lit.exists() else shutil.which("lit")
    if found:
        with tempfile.TemporaryDirectory() as name:
            check("lit -v examples", run([found, "-v", "examples"], env={**os.environ, "CHAINIO_BUILD": str(BUILD), "LIT_OUTPUT": name}))
    else:
        print("note: lit is not installed; examples/*.lit did not run")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
