#!/usr/bin/env python3
"""db_bench's direct reads beside std/rocksdb_shadow.chain: every key is found, every block's checksum is right, and indexes were served."""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import ROOT, expect

KEYS, GETS, TRIES = 100_000, 400, 3
# Filters and indexes are blocks like others, in a cache too small for them.
COMMON = [f"--num={KEYS}", "--value_size=200", "--key_size=16", "--bloom_bits=10", "--cache_index_and_filter_blocks=1", "--cache_size=65536",
          "--compression_type=none", "--disable_auto_compactions=1", "--write_buffer_size=67108864"]


def found(text):
    match = re.search(r"readrandom.*\((\d+) of (\d+) found\)", text)
    return match and match.groups()


def main():
    db_bench = shutil.which("db_bench")
    if not db_bench:
        print("skip: db_bench (package rocksdb-tools) is not installed")
        sys.exit(77)
    with runs.Folder() as folder:
        at = [f"--db={folder.path / 'db'}", *COMMON]
        subprocess.run([db_bench, "--benchmarks=fillseq,flush", "--disable_wal=1", *at], check=True, capture_output=True, timeout=runs.LONGEST)
        read = [db_bench, "--benchmarks=readrandom", "--use_existing_db=1", "--readonly=1", "--use_direct_reads=1", f"--reads={GETS}", "--threads=2", *at]
        plain = subprocess.run(read, capture_output=True, text=True, timeout=runs.LONGEST)
        if found(plain.stdout) is None:
            print("skip: db_bench does not read directly here:", (plain.stdout + plain.stderr)[-300:])
            sys.exit(77)
        spec = ["--spec", "std/rocksdb_shadow.chain", "-I", ROOT / "stdlib-chains"]
        for turn in range(TRIES):  # a server that a loaded machine starts late serves nothing
            done, summary = folder.summarized(spec, [*read, f"--seed={turn + 1}"])
            expect("what db_bench finds", (done.returncode, found(done.stdout.decode())), (0, found(plain.stdout)))
            if summary["classes"][0]["served"] != 0:
                break
        expect("reads were served", summary["classes"][0], lambda c: c["served"] > 0)
        expect("by the chain that fetches what lies behind a filter", runs.chain(summary, "behind_filter"), lambda c: c["fetches"] > 0 and c["failed"] == 0)
        expect("and the one that keeps filters", runs.chain(summary, "filter_again"), lambda c: c["fetches"] > 0 and c["failed"] == 0)
        expect("no fetch failed", [note for note in summary["notes"] if "fail" in note], [])
    sys.exit(1 if runs.failures else 0)


if __name__ == "__main__":
    main()
