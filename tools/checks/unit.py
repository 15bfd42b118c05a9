"""Runs the GoogleTest programs of a preset and counts their cases."""
import concurrent.futures
import json
import os
import pathlib
import re

import build
import clang
from report import JOBS, LOGS, Outcome, run

# They take longest, and begin, so that none of them is left over at the end with nothing beside it.
FIRST = ("test_service", "test_store", "test_passes", "test_shadow")
SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1:history_size=4",
}


def skip_reasons(output):
    """GoogleTest 1.12 leaves the reason out of its JSON: it stands in the output after `Skipped`."""
    reasons, lines = {}, output.splitlines()
    name = ""
    for number, line in enumerate(lines):
        started = re.match(r"\[ RUN      \] (\S+)", line)
        if started:
            name = started.group(1)
        if line.endswith(": Skipped") and number + 1 < len(lines):
            reasons[name] = lines[number + 1].strip()
    return reasons


def cases_of(program, report, code, output):
    """One outcome a case; a program that gave no report, or failed without a failed case, is a failure of its own."""
    if not report.exists():
        return [Outcome(program, "failed", f"exit code {code}, no report\n{output}")]
    outcomes, reasons = [], skip_reasons(output)
    for group in json.loads(report.read_text())["testsuites"]:
        for case in group["testsuite"]:
            name = f"{group['name']}.{case['name']}"
            if case.get("failures"):
                text = "\n".join(failure["failure"] for failure in case["failures"])
                outcomes.append(Outcome(f"{program} {name}", "failed", text))
            elif case.get("result") == "SKIPPED" or case.get("skipped"):
                outcomes.append(Outcome(f"{program} {name}", "skipped", reasons.get(name, "no reason given")))
            elif case.get("status") == "RUN":
                outcomes.append(Outcome(f"{program} {name}", "passed"))
    if not outcomes:
        outcomes.append(Outcome(program, "failed", "the program has no cases"))
    if code != 0 and not any(outcome.state == "failed" for outcome in outcomes):
        outcomes.append(Outcome(program, "failed", f"exit code {code}\n{output}"))
    return outcomes


def run_program(preset, program):
    name = os.path.basename(program)
    report = LOGS / f"unit-{preset}" / f"{name}.json"
    report.unlink(missing_ok=True)
    if not pathlib.Path(program).exists():
        return [Outcome(name, "failed", f"{program} was not built")]
    code, output = run([program, f"--gtest_output=json:{report}", "--gtest_color=no"], f"unit-{preset}/{name}.log",
                       timeout=1200, env={**clang.for_tests(), **SANITIZERS})
    return cases_of(name, report, code, output)


def unit(preset):
    programs = sorted((program for _, program in build.unit_tests(preset)), key=lambda program: os.path.basename(program) not in FIRST)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return [outcome for found in pool.map(lambda p: run_program(preset, p), programs) for outcome in found]
