"""What is run in the guests for the kernel matrix and for the suite `vm`: artifacts compiled on the host, one script there."""
import concurrent.futures
import dataclasses
import json
import os
import re
import sys
import tempfile

import guest
from place import ROOT, last_line

sys.path.append(str(ROOT / "tools" / "checks"))
import clang  # noqa: E402
from report import JOBS, PATIENCE, heard  # noqa: E402
from scripts import surroundings  # noqa: E402

BUILD = ROOT / "build" / "release"
SCRIPT = ROOT / "tests" / "vm" / "guest.sh"
HARD_CASES = {"hard_cases": ["hard_cases.chain"], "bounds": ["bounds.chain"], "region": ["bounds.chain", "-D", "READ=57344"],
              "sockets": ["sockets.chain"], "endpoints": ["endpoints.chain"], "outside": ["outside.chain"],
              "chainless": ["chainless.chain"], "classes": ["classes.chain"], "services_tcp": ["-"]}
OBJECTS = {"chainio_xdp": "bpf-templates/chainio_xdp.bpf.c, of every service via xdp"}  # as tests/vm/guest.sh has them loaded
SHARED = "shared interface"  # under every kernel in the soak, else under 6.12
KERNEL_ENGINE = ["engines", "random chains", "hard cases", "auto", "sockets"]  # checks where the kernel has that engine
SOAK = os.environ.get("CHAINIO_SOAK") == "1"
RANDOM_ARTIFACTS = 100 if SOAK else 3
ALL = "soak" if SOAK else "all"
COMPLETE = 7  # what the script ends with
LIMIT = 1200 * PATIENCE  # seconds of anything on the host, which has the guests beside it
FETCH = 3600  # seconds for a kernel to be fetched, or to be waited for while another one does it


@dataclasses.dataclass
class Check:
    """What one command in the guest said."""
    name: str
    code: int
    text: str
    seconds: int = 0


def specs():
    """{name: spec} of the library, the examples, and the spec that uses what those may not."""
    found = {f"std/{path.stem}": path for path in sorted((ROOT / "stdlib-chains" / "std").glob("*.chain"))}
    found |= {f"examples/{path.parent.name}": path for path in sorted((ROOT / "examples").glob("*/app.chain"))}
    return found | {"templates": ROOT / "tests" / "vm" / "templates.chain"}


def compile_all(folder):
    """Compiles every spec into the folder; gives the complaints of those that do not compile."""
    def compile_one(named):
        name, path = named
        out = folder / (name.replace("/", "-") + ".bpf.o")
        code, _, said = heard([BUILD / "bin" / "chainc", path, "-I", ROOT / "stdlib-chains", "-o", out], LIMIT, env=clang.for_tests())
        return f"{name}: {said}" if code != 0 else ""

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return [wrong for wrong in pool.map(compile_one, specs().items()) if wrong]


def call_chains(path):
    """The chains of a spec that are called, those that only a shadow chain goes on with among them."""
    return re.findall(r"^chain (\w+)\(", path.read_text(), re.M)


def run_of_tests(command, **more):
    """A script of tests/e2e as its suite runs it: exit code, what it has printed, what it has said."""
    with surroundings("vm") as environment:
        return heard(command, LIMIT, env=environment | more)


def keep_calls(folder):
    """Has the tests of the library and of examples keep a call of every chain, with its files and the chains' names, and compiles the hard cases;
    gives the complaints, and {spec: why this machine cannot call its chains}."""
    skipped = {}

    def keep(name, script):
        kept = folder / "calls" / name.replace("/", "-")
        kept.mkdir(parents=True)
        code, printed, said = run_of_tests([sys.executable, script], CHAINIO_KEEP_CALLS=str(kept))
        if code == 77:
            skipped[name] = last_line(printed)
            return ""
        (kept / "chains").write_text("\n".join(call_chains(specs()[name])))
        return f"{script.name}: {printed}{said}" if code else ""

    of_spec = {name: path for path in sorted((ROOT / "tests" / "e2e").glob("*.py")) for name in re.findall(r'Run\("(std/\w+|examples/[\w-]+)(?:/app)?\.chain"', path.read_text())}
    wrong = [f"{name}: no script of tests/e2e calls its chains by Run(), so that engines cannot be compared on it"
             for name, path in specs().items() if name.startswith("std/") and call_chains(path) and name not in of_spec]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        wrong += [said for said in pool.map(keep, *zip(*of_spec.items())) if said]
    return wrong + compile_hard_cases(folder / "calls") + prepare_shared(folder / "shared"), skipped


def compile_hard_cases(folder):
    """Compiles what tests/vm/hard_cases and tests/vm/sockets run; gives the complaints."""
    wrong = []
    services = re.search(r'^SPEC = """\n(.*?)^"""', (ROOT / "tests" / "e2e" / "services_tcp.py").read_text(), re.M | re.S)[1].replace("\\\\", "\\")
    for name, (source, *options) in HARD_CASES.items():
        path = source if source == "-" else ROOT / "tests" / "vm" / source
        with tempfile.TemporaryFile("w+") as text:
            text.write(services)
            text.seek(0)
            code, _, said = heard([BUILD / "bin" / "chainc", path, *options, "-o", folder / f"{name}.bpf.o"], LIMIT, stdin=text, env=clang.for_tests())
        wrong += [said] if code else []
    return wrong


def prepare_shared(folder):
    """Has tests/e2e/xdp_shared.py compile what it runs in the guests; gives the complaints."""
    folder.mkdir()
    code, printed, said = run_of_tests([sys.executable, ROOT / "tests" / "e2e" / "xdp_shared.py", "prepare", folder])
    return [f"xdp_shared.py: {printed}{said}"] if code else []


def make_random(folder):
    """Compiles random chains; gives the complaints."""
    out, seed = folder / "random", os.environ.get("CHAINIO_SEED", "20270")
    out.mkdir()
    (out / "seed").write_text(seed)
    code, _, said = heard([BUILD / "bin" / "chainio-chains", "make", out, "--seed", seed, "--artifacts", str(RANDOM_ARTIFACTS)], LIMIT, env=clang.for_tests())
    return [f"random chains: {said}"] if code else []


def spec_of(artifact):
    """The name of the spec that an artifact's path stands for, or of what the runtime brings along."""
    stem = artifact.rsplit("/", 1)[-1].removesuffix(".bpf.o")
    if stem in OBJECTS:
        return OBJECTS[stem]
    return next(name for name in specs() if name.replace("/", "-") == stem)


def checks_of(text):
    """The checks in the guest's output."""
    parts = re.findall(r"^=== (.*)\n((?:.*\n)*?)--- \1 (\d+) (\d+)$", text, re.M)
    return {name: Check(name, int(code), said, int(seconds)) for name, said, code, seconds in parts}


def has_kernel_engine(line):
    return tuple(map(int, line.split("."))) >= (7, 1)


def guest_command(folder, how):
    return ["sh", str(SCRIPT), str(BUILD), str(folder), how]


def expected(line):
    """The names of the checks that the script runs under a kernel."""
    shared = [SHARED] if SOAK or line == "6.12" else []
    return (KERNEL_ENGINE if has_kernel_engine(line) else []) + shared + ["release", "verify", "system", "kernel-engine"] + [f"differential {name.replace('/', '-')}" for name in specs()]


def run_under(line, folder, how, timeout, console=None):
    """Boots a kernel and runs the script in it: (exit code, checks, what it said about itself)."""
    command = [sys.executable, str(ROOT / "tools" / "vms" / "main.py"), "--timeout", str(timeout), "--show", str(folder),
               *(["--console", str(console)] if console else []), line, "--", *guest_command(folder, how)]
    code, printed, said = heard(command, guest.BOOTS * timeout + FETCH)
    return code, checks_of(printed), said


def run_here(folder, how):
    code, printed, said = heard(guest_command(folder, how), LIMIT)
    return code, checks_of(printed), said


def artifacts(checks):
    """(spec, what was said of it) from the check `verify`, and from those that load programs to run them."""
    for check in checks.values():
        for line in check.text.splitlines() if check.name.startswith(("verify", "differential")) else ():
            if line.startswith("{"):
                artifact = json.loads(line)
                yield spec_of(artifact["artifact"]), artifact


def loads(checks):
    """{(spec, program): what the verifier said}"""
    return {(spec, program["program"]): program for spec, artifact in artifacts(checks) for program in artifact["programs"]}


def loops(checks):
    """{spec: what the verifier said of the kernel engine's loop}, where the kernel can load one; the one that answers services beside it."""
    found = {}
    for spec, artifact in artifacts(checks):
        found |= {name: artifact[key] for name, key in ((spec, "loop"), (f"{spec}: services", "server")) if artifact.get(key)}
    return found
