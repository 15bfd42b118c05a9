"""The kernel matrix: docs/kernels.md, and reading it back."""
import collections
import concurrent.futures
import os
import re
import sys
import tempfile

import archive
import plan
from place import CACHE, ROOT, Unavailable, last_line

PAGE = ROOT / "docs" / "kernels.md"
UNAVAILABLE = 120  # of tools/vm
HOST = "host"
LOOP = "kernel engine's loop"
REMEDY = "; `tools/vm matrix` writes docs/kernels.md anew"

HEAD = """# Kernels

Written by `tools/vm matrix`, which compiles every spec once on the host and loads its programs, and the runtime's own, under each kernel ([vm.md](vm.md)). `tools/check vm`
boots the same kernels and fails when a program loads where this page says that it does not, the other way round, or is missing here; and when a figure
is another one, under the releases and with the clang that are named here (else it says that they are others).

"""
ENGINES = """## Which engine runs

`chainio-runtime --check-system` under each kernel. The user engine needs 5.19 and runs every call chain on all of these. The kernel engine
([kernel-engine.md](kernel-engine.md)) needs `io_uring_bpf_ops`, which is looked for in the kernel's own types; without it `chainc --target=linux-X.Y` refuses `via kernel` (CH0322) for every X.Y below 7.1.

"""
LOOPS = """## The kernel engine's loops

What the kernel engine attaches to its ring: one `loop_step` program an artifact with call chains, with all of their steps in it, and another one (*services*, `.chainio.serve`)
where the kernel can answer services over tcp, with their handlers. Loaded as for 64 chains in flight or 64 connections, by kernels that have `io_uring_bpf_ops`; the limit is 1,000,000 instructions processed here, too.

"""
PROGRAMS = """## What the verifiers say

A cell is *instructions processed / most states of one instruction* from the verifier's log; its limit is 1,000,000 instructions. The figures belong
to the clang that compiled the programs ({clang}) and to the kernels above.

"""


def columns():
    return [*archive.LINES, HOST]


def title(column, release):
    return f"{release} (host)" if column == HOST else f"{column}"


def engine_rows(results):
    """A row a statement of --check-system that is about engines."""
    rows = ["| | " + " | ".join(title(c, results[c]["release"].text.strip()) for c in columns()) + " |", "|---|" + "---|" * len(columns())]
    rows.append("| release | " + " | ".join(results[c]["release"].text.strip() for c in columns()) + " |")
    for what in ("io_uring", "native steps", "BPF (chainc --verify)"):
        said = []
        for column in columns():
            match = re.search(rf"^(\w+) +{re.escape(what)}: (.*)$", results[column]["system"].text, re.M)
            said.append(f"{match[1]}: {match[2]}".replace("|", "\\|") if match else "not said")
        rows.append(f"| {what} | " + " | ".join(said) + " |")
    has = ["yes" if results[c]["kernel-engine"].code == 0 else "no" for c in columns()]
    rows.append("| `io_uring_bpf_ops` | " + " | ".join(has) + " |")
    rows.append("| engines of call chains | " + " | ".join(engines_of(results[c]["system"].text) for c in columns()) + " |")
    return rows


def engines_of(said):
    """The engines that --check-system says to run here."""
    found = [engine for engine, fact in (("user", "io_uring"), ("kernel", "kernel engine")) if re.search(rf"^(ok|limited) +{fact}:", said, re.M)]
    return ", ".join(found) or "none"


def cell(program):
    if program is None:
        return "not tried"
    if not program["loads"]:
        return "no: " + program["message"].replace("|", "\\|")
    return f"{program['processed']:,} / {program['most_states_per_instruction']}"


def program_tables(results):
    loaded = {column: plan.loads(results[column]) for column in columns()}
    by_spec = collections.defaultdict(list)
    for spec, program in loaded[HOST]:
        by_spec[spec].append(program)
    rows = []
    for spec, programs in by_spec.items():
        rows += [f"### {spec}", "", "| program | " + " | ".join(title(c, results[c]["release"].text.strip()) for c in columns()) + " |",
                 "|---|" + "---:|" * len(columns())]
        rows += [f"| {name} | " + " | ".join(cell(loaded[c].get((spec, name))) for c in columns()) + " |" for name in programs]
        rows.append("")
    return rows


def loop_cell(loop):
    if loop is None:
        return "not tried"
    return f"{loop['processed']:,}" if loop["loads"] else "no: " + loop["message"].replace("|", "\\|")


def loop_rows(results):
    """A row an artifact, a column a kernel that has loops."""
    loops = {column: found for column in columns() if (found := plan.loops(results[column]))}
    titles = [title(column, results[column]["release"].text.strip()) for column in loops]
    names = sorted({name for found in loops.values() for name in found})
    return ["| artifact | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles),
            *(f"| {name} | " + " | ".join(loop_cell(found.get(name)) for found in loops.values()) + " |" for name in names)]


def summary_rows(results):
    rows = ["| kernel | programs | load | most processed | by |", "|---|---:|---:|---:|---|"]
    for column in columns():
        loaded = plan.loads(results[column])
        good = {key: program for key, program in loaded.items() if program["loads"]}
        (spec, name), most = max(good.items(), key=lambda item: item[1]["processed"])
        rows.append(f"| {results[column]['release'].text.strip()} | {len(loaded)} | {len(good)} | {most['processed']:,} | {spec} {name} |")
    return rows


def render(results, compiler):
    text = HEAD + "\n".join(summary_rows(results)) + "\n\n" + ENGINES + "\n".join(engine_rows(results)) + "\n\n"
    text += LOOPS + "\n".join(loop_rows(results)) + "\n\n"
    return text + PROGRAMS.format(clang=compiler) + "\n".join(program_tables(results)).rstrip() + "\n"


def clang():
    return os.popen("clang-19 --version").readline().strip()


def claims(text):
    """{column: {(spec, program): cell}} as the page says it."""
    found, spec, names = collections.defaultdict(dict), None, []
    for line in text.splitlines():
        if line.startswith("### "):
            spec = line[4:]
        cells = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if spec and cells[:1] == ["program"]:
            names = [HOST if "(host)" in each else each for each in cells[1:]]
        elif spec and cells and not cells[0].startswith("---"):
            for column, said in zip(names, cells[1:]):
                found[column][spec, cells[0]] = said
    return found


def loop_claims(text):
    """{column: {artifact: cell of its loop}} as the page says it."""
    found, names = collections.defaultdict(dict), []
    for line in text.partition(LOOPS)[2].partition("\n## ")[0].splitlines():
        cells = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == ["artifact"]:
            names = [HOST if "(host)" in each else each for each in cells[1:]]
        elif cells and not cells[0].startswith("---"):
            for column, said in zip(names, cells[1:]):
                found[column][cells[0]] = said
    return found


def compared(column, checks, page):
    """{(spec, program): (what the kernel said, its cell, the page's cell)}; None where there is none of these."""
    said = claims(page)[column] | {(name, LOOP): cell for name, cell in loop_claims(page)[column].items()}
    found = {key: (program, cell(program)) for key, program in plan.loads(checks).items()}
    found |= {(name, LOOP): (loop, loop_cell(loop)) for name, loop in plan.loops(checks).items()}
    return {key: (*found.get(key, (None, None)), said.get(key)) for key in [*found, *(key for key in said if key not in found)]}


def contradictions(column, checks, page):
    """What the page says otherwise than the kernel, in words."""
    wrong = []
    for (spec, name), (program, _, said) in compared(column, checks, page).items():
        if said is None:
            wrong.append(f"{spec} {name}: docs/kernels.md does not name it under {column}{REMEDY}")
        elif program is None:
            wrong.append(f"{spec} {name}: docs/kernels.md names it, and no spec has it{REMEDY}")
        elif program["loads"] == said.startswith("no: "):
            wrong.append(f"{spec} {name}: docs/kernels.md says that it {'does not load' if program['loads'] else 'loads'} under {column}; "
                         f"the kernel says: {program.get('message', 'it loads')}")
    return wrong


def other_tools(column, checks, page):
    """Why figures of this kernel and this clang cannot be those of the page; empty when they have to be."""
    releases = re.search(r"^\| release \| (.*) \|$", page, re.M)
    written = dict(zip(columns(), releases[1].split(" | "))) if releases else {}
    release = checks["release"].text.strip()
    if written.get(column) != release:
        return f"docs/kernels.md has figures of {written.get(column)}, and this is {release}"
    return "" if f"({clang()})" in page else f"docs/kernels.md has figures of another clang than {clang()}"


def old_figures(column, checks, page):
    """Figures of the page that are others by now, in words."""
    return [f"{spec} {name}: docs/kernels.md says {said} under {column}; it is {now}{REMEDY}"
            for (spec, name), (program, now, said) in compared(column, checks, page).items()
            if program is not None and said is not None and program["loads"] and not said.startswith("no: ") and said != now]


def gather(folder, timeout):
    with concurrent.futures.ThreadPoolExecutor(plan.JOBS) as pool:
        guests = {line: pool.submit(plan.run_under, line, folder, "quick", timeout) for line in archive.LINES}
        answers = {HOST: plan.run_here(folder, "quick")} | {line: guest.result() for line, guest in guests.items()}
    for column, (code, checks, said) in answers.items():
        if code == UNAVAILABLE:
            raise Unavailable(last_line(said))
        if code != plan.COMPLETE or checks["verify"].code not in (0, 1):
            raise Unavailable(f"{column}: {checks['verify'].text if 'verify' in checks else said}")
    return {column: checks for column, (_, checks, _) in answers.items()}


def write(options):
    CACHE.mkdir(parents=True, exist_ok=True)
    for line in archive.LINES:
        archive.kernel_of(line, options.update)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="matrix-") as name:
        folder = CACHE / name
        wrong = plan.compile_all(folder)
        if wrong:
            print("vm: these specs do not compile:\n" + "\n".join(wrong), file=sys.stderr)
            return 1
        results = gather(folder, options.timeout)
    PAGE.write_text(render(results, clang()))
    print("\n".join(summary_rows(results)))
    return 0
