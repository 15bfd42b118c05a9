"""Suites that are programs of their own: lit, end-to-end scripts and fuzz targets."""
import concurrent.futures
import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import tempfile

import clang
from disks import is_memory
from report import JOBS, LOGS, ROOT, Outcome, one, run
from seeds import make_seeds

FUZZ_SECONDS = int(os.environ.get("CHAINIO_FUZZ_SECONDS", "10"))
# They take minutes on a slow machine, and begin, so that none of them is left over at the end with nothing beside it.
FIRST = ("bench_prints_json", "std_sqlite_shadow.py", "std_sqlite.py", "std_kafka.py", "std_sstable.py", "store.py")
SOAK = os.environ.get("CHAINIO_SOAK") == "1"
SCRIPT_SECONDS = 10_800 if SOAK else 600
CORPORA = ROOT / "build" / "corpora"


def lit(venv=ROOT / "build" / "venv"):
    report = LOGS / "lit.json"
    report.unlink(missing_ok=True)
    code, output = run([str(venv / "bin" / "lit"), "-v", f"-j{JOBS}", "-o", str(report), "tests/lit"], "lit.log", timeout=1200,
                       env={**clang.for_tests(), "CHAINIO_BUILD": str(ROOT / "build" / "release")})
    if not report.exists():
        return [Outcome("lit", "failed", f"exit code {code}, no report\n{output}")]
    states = {"PASS": "passed", "FLAKYPASS": "failed", "XFAIL": "passed", "UNSUPPORTED": "skipped"}
    outcomes = []
    for test in json.loads(report.read_text())["tests"]:
        state = states.get(test["code"], "failed")
        text = test.get("output", "").strip()
        outcomes.append(Outcome(test["name"], state, text or "unsupported here"))
    if code != 0 and not any(outcome.state == "failed" for outcome in outcomes):
        outcomes.append(Outcome("lit", "failed", f"exit code {code}, and no test has failed\n{output}"))
    return outcomes or [Outcome("lit", "failed", "no tests found in tests/lit")]


def with_parts(outcome, log):
    """Of a script that passed, what it says to have left out counts as well: lines that begin with `skip`."""
    if outcome.state != "passed":
        return [outcome]
    left_out = re.findall(r"^skip(?:ped)?:? +(.+)", (LOGS / log).read_text(errors="replace"), flags=re.M)
    return [outcome, *(Outcome(f"{outcome.name}, a part", "skipped", reason) for reason in left_out)]


@functools.cache
def place_of_scratch(usual):
    """The usual folder for temporary files, or else a short name of one on a disk: paths of sockets in it have 107 characters at most."""
    there = [folder for folder in (usual, "/var/tmp", str(ROOT / "build")) if os.access(folder, os.W_OK | os.X_OK)]
    return next((folder for folder in there if not is_memory(folder)), usual)


@contextlib.contextmanager
def surroundings(suite):
    """The environment of a script, with a temporary folder of its own, which is gone afterwards."""
    scratch = tempfile.mkdtemp(prefix=f"chainio-{suite}-", dir=place_of_scratch(tempfile.gettempdir()))
    os.chmod(scratch, 0o711)  # programs that a test runs as another user pass through it
    try:
        yield {**clang.for_tests(), "CHAINIO_ROOT": str(ROOT), "CHAINIO_BUILD": str(ROOT / "build" / "release"), "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_script(path, suite="e2e", timeout=SCRIPT_SECONDS):
    log = f"{suite}/{path.name}.log"
    with surroundings(suite) as env:
        return with_parts(one(path.name, [str(path)], log, timeout=timeout, env=env), log)


def scripts_of(folder):
    """Its programs, and a failure for each that nobody would run."""
    files = sorted(p for p in folder.glob("*") if p.is_file())
    found = [p for p in files if os.access(p, os.X_OK)]
    left_out = [Outcome(p.name, "failed", f"{p} begins with #! and is not executable: chmod +x") for p in files if p not in found and p.read_bytes()[:2] == b"#!"]
    return found, left_out


def e2e():
    scripts, left_out = scripts_of(ROOT / "tests" / "e2e")
    if not scripts:
        return [Outcome("e2e", "failed", "no executable files in tests/e2e")]
    scripts.sort(key=lambda path: (path.name not in FIRST, path.name))
    # They wait for programs and the disk for half of their time.
    with concurrent.futures.ThreadPoolExecutor(JOBS + 2) as pool:
        return [*left_out, *itertools.chain(*pool.map(run_script, scripts))]


@contextlib.contextmanager
def corpus_of(name):
    """Where a fuzzer puts what it goes on from. That of a soak is kept, so that the next one does not find it all again."""
    if not SOAK:
        with tempfile.TemporaryDirectory(prefix="chainio-fuzz-") as folder:
            yield folder
        return
    (CORPORA / name).mkdir(parents=True, exist_ok=True)
    yield str(CORPORA / name)


def run_fuzzer(program, made_seeds):
    seeds = [path for path in (ROOT / "tests" / "fuzz" / "seeds" / program.name, made_seeds / program.name)
             if path.is_dir() and any(path.iterdir())]
    if not seeds:
        return Outcome(program.name, "failed", f"no seeds: put some small inputs into tests/fuzz/seeds/{program.name}")
    found = LOGS / "fuzz" / program.name
    found.mkdir(parents=True, exist_ok=True)
    # libFuzzer's own exit code for what it finds is 77, with which programs here say that they skip.
    command = [str(program), f"-seed={os.environ.get('CHAINIO_SEED', '1')}", "-error_exitcode=1", "-timeout_exitcode=1", "-timeout=60", "-rss_limit_mb=3000", "-print_final_stats=1", f"-artifact_prefix={found}/"]
    words = ROOT / "tests" / "fuzz" / f"{program.name}.dict"
    if words.exists():
        command.append(f"-dict={words}")
    log = f"fuzz/{program.name}.log"
    for seconds in (FUZZ_SECONDS, 4 * FUZZ_SECONDS, 16 * FUZZ_SECONDS):  # on a busy machine the seeds alone may take all of the first
        with corpus_of(program.name) as corpus:
            outcome = one(program.name, [*command, f"-max_total_time={seconds}", corpus, *map(str, seeds)], log, timeout=seconds + 300)
        if outcome.state != "passed" or (outcome := fuzzed(outcome, log)).state == "passed":
            break
    return outcome


def fuzzed(outcome, log):
    """Of a target that found nothing: whether it has made an input itself. It begins with the empty one and its seeds, some of them twice."""
    said = (LOGS / log).read_text(errors="replace")
    begun, executed = re.search(r"^#(\d+)\s+INITED ", said, flags=re.M), re.search(r"^stat::number_of_executed_units: (\d+)$", said, flags=re.M)
    if begun and executed and int(executed[1]) > int(begun[1]):
        return outcome
    return Outcome(outcome.name, "failed", f"it has made no input of its own\n{said}", outcome.seconds)


def fuzz():
    programs = sorted(p for p in (ROOT / "build" / "asan" / "fuzz").glob("fuzz_*") if os.access(p, os.X_OK))
    if not programs:
        return [Outcome("fuzz", "failed", "no fuzz targets were built")]
    made_seeds = make_seeds()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda program: run_fuzzer(program, made_seeds), programs))
