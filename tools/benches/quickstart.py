"""tools/quickstart: 20,000 lookups in a real SQLite database, three ways, every value compared."""
import json
import os
import sys

from common import RELEASE, ROOT, WORK, Trouble, build, output_of, progress
from database import database, facts
from picture import svg, terminal

LOOKUPS = 20_000
# What is shown, the contender, lookups in flight.
WAYS = (
    ("sqlite3's own library", "sqlite", 1),
    ("a pread loop", "pread", 1),
    ("the chain, 1 in flight", "chain", 1),
    ("the chain, 64 in flight", "chain", 64),
)


def compile_spec():
    spec, out = ROOT / "tests" / "bench" / "lookup.chain", WORK / "lookup.bpf.o"
    output_of([RELEASE / "bin" / "chainc", spec, "-I", ROOT / "stdlib-chains", "-o", out])
    return out


def look_up(db, spec):
    results = []
    for title, contender, depth in WAYS:
        progress(f"{LOOKUPS:,} lookups: {title} …")
        result = json.loads(output_of([RELEASE / "bin" / "bench_lookup", contender, "--db", db, "--depth", depth, "--spec", spec,
                                       "--lookups", LOOKUPS, "--seed", 2026, "--latencies"]))
        results.append((title, result))
    progress("")
    return results


def print_table(results):
    slowest = max(result["seconds"] for _, result in results)
    print(f"{'':<26}{'seconds':>9}{'lookups/s':>12}{'':>8}{'p50 us':>10}{'p99 us':>10}{'device reads':>14}{'right values':>16}")
    for title, result in results:
        right = result["lookups"] - result["wrong"]
        print(f"{title:<26}{result['seconds']:>9.2f}{result['lookups'] / result['seconds']:>12,.0f}"
              f"{slowest / result['seconds']:>7.1f}x{result['p50_us']:>10,.0f}{result['p99_us']:>10,.0f}"
              f"{result['reads']:>14,}{right:>9,}/{result['lookups']:,}")


def show_command(db, spec, root, key):
    """One lookup with the command line, as a user would type it."""
    chainio, artifact, file = (os.path.relpath(path, ROOT) for path in (RELEASE / "bin" / "chainio", spec, db))
    command = [chainio, "call", artifact, "lookup", "--file", f"db={file}", "--root", root, "--rowid", key]
    print(f"\nOne of them by hand:\n  {' '.join(map(str, command))}\n  {output_of(command, cwd=ROOT).rstrip()}")


def main():
    build("programs", "bench_lookup")
    WORK.mkdir(parents=True, exist_ok=True)
    db, spec = database(), compile_spec()
    root, page_size, rows, pages = facts(db)
    print(f"{db.relative_to(ROOT)}: {rows:,} rows in {pages:,} pages of {page_size} bytes, made by sqlite3")
    print(f"{LOOKUPS:,} random rows by rowid; the file is opened with O_DIRECT, so every page comes from the device\n")
    results = look_up(db, spec)
    print_table(results)
    series = [(title, result["histogram"]) for title, result in results]
    print("\nHow long one lookup takes (each column: a step of the logarithmic scale; height: share of the lookups)")
    print(terminal(series))
    drawing = WORK / "quickstart.svg"
    drawing.write_text(svg(series, f"{LOOKUPS:,} lookups in a SQLite database of {rows:,} rows"))
    print(f"The picture: {drawing.relative_to(ROOT)}")
    show_command(db, spec, root, 42)
    print(f"All programs are in {(RELEASE / 'bin').relative_to(ROOT)}: put it on your PATH, or install them with `cmake --install {RELEASE.relative_to(ROOT)}`.")
    wrong = sum(result["wrong"] for _, result in results)
    reads = {result["reads"] for _, result in results}
    if wrong or len(reads) != 1:
        print(f"\nFAILED: {wrong} values were wrong; reads asked for: {sorted(reads)}")
        return 1
    print(f"\nverified: {len(results) * LOOKUPS:,} values compared with what sqlite3 stored, all right, by the same {reads.pop():,} reads each")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        print(f"tools/quickstart: {trouble}", file=sys.stderr)
        sys.exit(3)
