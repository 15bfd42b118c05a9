#!/usr/bin/env python3
"""The chain that std/rocksdb_shadow.chain goes on with: it reads all that lies behind the data of a table which LevelDB or RocksDB wrote."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import BUILD, KEEP, Run, finish, skip  # noqa: E402
from std_sstable import Table, hex_of, numbers  # noqa: E402

SEED = 20271
PIECE, MOST = 65536, 4 << 20
LEVEL_FOOTER, ROCKS_FOOTER = 48, 53
ROCKS_MAGIC = bytes.fromhex("f7cff485b741e288")  # what ends a table of RocksDB


def begin_of_tail(table):
    """The first byte behind the data: the lowest place that the footer and the meta index name."""
    footer = table[-ROCKS_FOOTER + 1:] if table.endswith(ROCKS_MAGIC) else table[-LEVEL_FOOTER:]
    (meta, size, index, _), _ = numbers(footer, 4)
    entries, lowest = table[meta:meta + size], min(meta, index)
    entries = entries[:len(entries) - 4 - 4 * int.from_bytes(entries[-4:], "little")]
    while entries:
        (_, rest, length), entries = numbers(entries, 3)
        (place, _), _ = numbers(entries[rest:rest + length], 2)
        lowest, entries = min(lowest, place), entries[rest + length:]
    return lowest


def check_large(run):
    """More than 5 MiB behind the data, of which MOST says how many are read."""
    table = Table(run, "rocksdb_table", ["16", "16", "5", "crc32c", "plain"])
    table.write(f"put {hex_of(b'key%08d' % n)} -" for n in range(250_000))  # each with a block, and so an entry of the index, of its own
    table.finish()
    table.read([])
    whole = table.path.read_bytes()
    behind = len(whole) - begin_of_tail(whole)
    run.true(f"{behind} bytes", behind > 5 << 20, "that is not large")
    for options, most in (([], MOST), (["-D", "MOST=64MiB"], 64 << 20)):
        pieces = (min(behind, most) + PIECE - 1) // PIECE
        answer = run.call("tail", {"table": table.path}, {}, [{}], spec=run.compile(options))[0]
        run.same(f"{pieces} pieces of {behind} bytes", (answer.outcome, answer.value, answer.hops), ("ok", 1, 2 + pieces))


def main():
    known = {"leveldb_table": [], "rocksdb_table": ["5", "crc32c"]}
    programs = {name: arguments for name, arguments in known.items() if (BUILD / "tests" / name).exists()}
    if not programs:
        skip("neither libleveldb-dev nor librocksdb-dev is installed")
    for name in known.keys() - programs:
        print(f"skipped: lib{name.partition('_')[0]}-dev is not installed")
    run, rng = Run("std/rocksdb_shadow.chain"), random.Random(SEED)
    for program, arguments in programs.items():
        for keys, block in ((200, "512"), (60000, "256")):
            table = Table(run, program, [block, "16", *arguments])
            table.write(f"put {hex_of(b'key%08d' % n)} {hex_of(rng.randbytes(80))}" for n in range(keys))
            table.finish()
            table.read([])
            whole = table.path.read_bytes()
            behind = len(whole) - max(begin_of_tail(whole), len(whole) - MOST)
            pieces = (behind + PIECE - 1) // PIECE
            what = f"{program} of {keys} keys"
            answer = run.call("tail", {"table": table.path}, {}, [{}], label=what)[0]
            run.same(f"{what}: {behind} bytes", (answer.outcome, answer.value, answer.hops), ("ok", 1, 2 + pieces))
            run.true(f"{what}: {pieces} pieces", (pieces > 1) == (keys > 1000), "one table has more than one, the other has not")
    bad = run.folder / "bad.sst"
    bad.write_bytes(bytes(4096))
    run.same("no table", run.call("tail", {"table": bad}, {}, [{}])[0].outcome, "malformed")
    if "rocksdb_table" in programs and not KEEP:  # the calls above are those that are kept
        check_large(run)
    finish(run)


if __name__ == "__main__":
    main()
