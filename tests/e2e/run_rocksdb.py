#!/usr/bin/env python3
"""RocksDB's own programs beside std/rocksdb_shadow.chain: db_bench finds every key and has indexes served, and of ldb all keys and values are what they are without."""
import pathlib
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import ROOT, drop_from_memory, expect

KEYS, GETS = 100_000, 400
SEED = 20265
SPEC = ["--spec", "std/rocksdb_shadow.chain", "-I", ROOT / "stdlib-chains"]
# Filters and indexes are blocks like others, in a cache too small for them.
COMMON = [f"--num={KEYS}", "--value_size=200", "--key_size=16", "--bloom_bits=10", "--cache_index_and_filter_blocks=1", "--cache_size=65536",
          "--compression_type=none", "--disable_auto_compactions=1", "--write_buffer_size=67108864"]


def found(text):
    match = re.search(r"readrandom.*\((\d+) of (\d+) found\)", text)
    return match and match.groups()


def answers(folder, program, asked, tables, least_served):
    """What the program says plain and beside the chains."""
    plain = subprocess.run(program, input=asked, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    for _ in runs.tries():
        drop_from_memory(*tables)
        done, summary = folder.summarized(SPEC, program, input=asked)
        same = (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
        if not same or summary["classes"][0]["served"] >= least_served:
            break
    return plain, same, summary


def test_values(folder):
    """All keys and values, in a row and one by one, by reads of the page cache and by direct ones."""
    ldb = shutil.which("ldb")
    if not ldb:
        print("skipped: ldb (package rocksdb-tools) is not installed, values are not compared")
        return
    tables = sorted((folder.path / "db").glob("*.sst"))
    choose = random.Random(SEED)
    gets = "".join(f"get 0x{choose.randrange(KEYS):016X}{'30' * 8}\n" for _ in range(10 * GETS))
    for way, direct, least_served in (("from the page cache", "false", 0), ("directly", "true", 1)):
        for options in (folder.path / "db").glob("OPTIONS-*"):  # which ldb goes by
            options.write_text(re.sub("use_direct_reads=.*", f"use_direct_reads={direct}", options.read_text()))
        for what, asked, lines, served in (("scan", b"", KEYS, least_served), ("query", gets.encode(), 10 * GETS, 0)):
            plain, same, summary = answers(folder, [ldb, f"--db={folder.path / 'db'}", "--hex", what], asked, tables, served)
            expect(f"ldb {what}, {way}: it says all keys and values", (plain.returncode, plain.stdout.count(b"\n"), summary["plain"]), (0, lines, None))
            expect("  and the same beside the chains", same, True)
            expect("  which saw its reads", summary["classes"][0], lambda c: c["reads"] > 20 and c["served"] >= served)


def main():
    db_bench = shutil.which("db_bench")
    if not db_bench:
        print("skipped: db_bench (package rocksdb-tools) is not installed")
        sys.exit(77)
    with runs.Folder() as folder:
        at = [f"--db={folder.path / 'db'}", *COMMON]
        subprocess.run([db_bench, "--benchmarks=fillseq,flush", "--disable_wal=1", *at], check=True, capture_output=True, timeout=runs.LONGEST)
        read = [db_bench, "--benchmarks=readrandom", "--use_existing_db=1", "--readonly=1", "--use_direct_reads=1", f"--reads={GETS}", "--threads=2", *at]
        plain = subprocess.run(read, capture_output=True, text=True, timeout=runs.LONGEST)
        if found(plain.stdout) is None:
            print("skipped: db_bench does not read directly here:", (plain.stdout + plain.stderr)[-300:])
            sys.exit(77)
        for turn in runs.tries():  # a server that a loaded machine starts late serves nothing
            done, summary = folder.summarized(SPEC, [*read, f"--seed={turn + 1}"])
            expect("what db_bench finds", (done.returncode, found(done.stdout.decode())), (0, found(plain.stdout)))
            if summary["classes"][0]["served"] != 0 and all(runs.chain(summary, name)["fetches"] != 0 for name in ("behind_filter", "filter_again")):
                break
        expect("reads were served", summary["classes"][0], lambda c: c["served"] > 0)
        expect("by the chain that fetches what lies behind a filter", runs.chain(summary, "behind_filter"), lambda c: c["fetches"] > 0 and c["failed"] == 0)
        expect("and the one that keeps filters", runs.chain(summary, "filter_again"), lambda c: c["fetches"] > 0 and c["failed"] == 0)
        expect("no fetch failed", [note for note in summary["notes"] if "could not be read" in note or "not kept" in note], [])
        test_values(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
