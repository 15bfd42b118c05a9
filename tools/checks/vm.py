"""Other kernels: boots each once and checks in it what docs/kernels.md says and that the engines agree."""
import concurrent.futures
import pathlib
import sys
import tempfile
import time

import kernel
from report import JOBS, LOGS, PATIENCE, ROOT, Outcome
from scripts import run_script

sys.path.insert(0, str(ROOT / "tools" / "vms"))
import archive  # noqa: E402
import matrix  # noqa: E402
import plan  # noqa: E402
from place import CACHE, last_line  # noqa: E402

SECONDS = 1200  # of one guest; a third of it when nothing else runs


def verified(line, checks, page):
    if "verify" not in checks:
        return Outcome(f"{line} verify", "failed", "the guest's answer has no such check")
    if checks["verify"].code not in (0, 1):
        return Outcome(f"{line} verify", "failed", checks["verify"].text)
    wrong = matrix.contradictions(line, checks, page)
    return Outcome(f"{line} verify", "failed" if wrong else "passed", "\n".join(wrong))


def figures(line, checks, page):
    """Instructions processed, which are the same whenever the same kernel looks at what the same clang compiled."""
    if "verify" not in checks or "release" not in checks:
        return Outcome(f"{line} figures", "failed", "the guest's answer has no such check")
    if why := matrix.other_tools(line, checks, page):
        return Outcome(f"{line} figures", "skipped", why)
    old = matrix.old_figures(line, checks, page)
    return Outcome(f"{line} figures", "failed" if old else "passed", "\n".join([f"{len(old)} figures are old", *old]) if old else "")


def of_host(folder, page):
    """The same of the kernel that runs here, when it is the one that the page has a column of."""
    code, checks, said = plan.run_here(folder, "quick")
    if code != plan.COMPLETE:
        return [Outcome(matrix.HOST, "failed", f"exit code {code}\n{said}")]
    if why := matrix.other_tools(matrix.HOST, checks, page):
        return [Outcome(f"{matrix.HOST} figures", "skipped", why)]
    return [verified(matrix.HOST, checks, page), figures(matrix.HOST, checks, page)]


def engine_claim(line, checks):
    """The compiler refuses `via kernel` below 7.1: true only where the kernel indeed lacks it."""
    expected = plan.has_kernel_engine(line)
    there = "kernel-engine" in checks and checks["kernel-engine"].code == 0
    return Outcome(f"{line} kernel engine", "passed" if there == expected else "failed",
                   f"io_uring_bpf_ops is {'there' if there else 'not there'}, and --target={'accepts' if expected else 'refuses'} `via kernel`")


def of_check(line, check):
    name = f"{line} {check.name}"
    last = last_line(check.text)
    if check.name.startswith("differential") and check.code == 0 and "4 engines" not in last:
        return Outcome(name, "failed", f"the programs did not run in the kernel\n{check.text}", check.seconds)
    return Outcome(name, "passed" if check.code == 0 else "failed", f"exit code {check.code}\n{check.text}", check.seconds)


def complaints(line, console):
    text = console.read_text(errors="replace") if console.exists() else ""
    return kernel.judged(f"{line} kernel log", text.splitlines())


def of_kernel(line, folder, page):
    start = time.monotonic()
    code, checks, said = plan.run_under(line, folder, plan.ALL, SECONDS * PATIENCE, LOGS / "vm" / f"{line}.console")
    (LOGS / "vm" / f"{line}.log").write_text("".join(f"=== {c.name}\n{c.text}--- {c.code}\n" for c in checks.values()) + said)
    if code == matrix.UNAVAILABLE:
        return [Outcome(line, "skipped", last_line(said))]
    outcomes = [verified(line, checks, page), figures(line, checks, page), engine_claim(line, checks), complaints(line, LOGS / "vm" / f"{line}.console")]
    for check in checks.values():
        if check.name.startswith("differential") or check.name in [*plan.KERNEL_ENGINE, plan.SHARED]:
            outcomes.append(of_check(line, check))
    outcomes.append(Outcome(f"{line}: the whole guest", "passed", "", time.monotonic() - start))
    missing = [name for name in plan.expected(line) if name not in checks]
    if code != plan.COMPLETE or missing:
        outcomes.append(Outcome(line, "failed", f"exit code {code}; no answer from: {', '.join(missing) or '-'}\n{said}"))
    return outcomes


def vm():
    page = pathlib.Path(matrix.PAGE).read_text()
    (LOGS / "vm").mkdir(parents=True, exist_ok=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="suite-") as name:
        folder = CACHE / name
        kept, skipped = plan.keep_calls(folder)
        wrong = plan.compile_all(folder) + kept + plan.make_random(folder)
        if wrong:
            return [Outcome("compile", "failed", "\n".join(wrong))]
        not_compared = [Outcome(f"engines on {spec}", "skipped", why) for spec, why in skipped.items()]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            # The newest kernel has most to do: it begins.
            found = pool.map(lambda line: of_kernel(line, folder, page), reversed(archive.LINES))
            tools = [pool.submit(run_script, ROOT / "tests" / "vm" / name, "vm", SECONDS) for name in ("claims_are_compared", "zero_copy", "machines_end", "bench_counts")]
            here = pool.submit(of_host, folder, page)
            return not_compared + here.result() + [outcome for tool in tools for outcome in tool.result()] + [outcome for outcomes in found for outcome in outcomes]
