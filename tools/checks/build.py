"""Configures and builds the presets. Builds go one after the other, each with all cores."""
import json
import os
import pathlib
import subprocess

from report import JOBS, LOGS, ROOT, SHARED_NAMES, Outcome, run

# Threads live in the runtime only; the compiler is built under ThreadSanitizer as far as these tests link it.
TSAN_MODULES = ("shim", "spec", "umem", "ipc", "rings", "ring", "metrics", "engine", "api", "probe", "shadow", "net", "service")


def configure(preset):
    # The fuzz targets want the same sanitizers as the asan preset: one tree serves both and is compiled once.
    fuzz = ["-DCHAINIO_FUZZ=ON"] if preset == "asan" else []
    return run(["cmake", "--preset", preset, *fuzz], f"configure-{preset}.log")


def unit_tests(preset):
    """(module, program path) of every unit test of a configured preset that this preset runs."""
    tree = ROOT / "build" / preset
    listed = subprocess.run(["ctest", "--test-dir", str(tree), "--show-only=json-v1"], capture_output=True, text=True, check=True)
    found = []
    for test in json.loads(listed.stdout)["tests"]:
        program = test.get("command", [""])[0] or str(tree / "tests" / test["name"])
        folder = next((p["value"] for p in test.get("properties", []) if p["name"] == "WORKING_DIRECTORY"), "")
        module = os.path.basename(folder)
        if preset != "tsan" or module in TSAN_MODULES:
            found.append((module, program))
    gone = set(TSAN_MODULES) - {pathlib.Path(folder).name for folder in (ROOT / "tests" / "unit").iterdir()}
    if gone:
        raise ValueError(f"tests/unit has no folder {', '.join(sorted(gone))}, which TSAN_MODULES names")
    return sorted(set(found))


def targets_of(preset):
    """Names to build: everything for release, else the unit tests and what they need; asan has the fuzz targets as well."""
    if preset == "release":
        return []
    tests = [os.path.basename(program) for _, program in unit_tests(preset)]
    return tests + (["fuzzers"] if preset == "asan" else [])


def build(preset):
    code, output = configure(preset)
    if code == 0:
        command = ["cmake", "--build", "--preset", preset, "--parallel", str(JOBS)]
        names = targets_of(preset)
        if names:
            command += ["--target", *names]
        code, output = run(command, f"build-{preset}.log", timeout=3600)
        if code != 0 and "/Unity/unity_" in output:
            output += SHARED_NAMES
    if code != 0:
        return [Outcome(preset, "failed", f"{output}\nlog: {LOGS}/build-{preset}.log")]
    return [Outcome(preset, "passed")]
