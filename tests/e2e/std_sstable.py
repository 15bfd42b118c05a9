#!/usr/bin/env python3
"""std/sstable.chain against LevelDB and RocksDB: tables that their libraries wrote, values that their libraries read."""
import os
import pathlib
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import started  # noqa: E402
from chains import BUILD, KEEP, Run, finish, skip  # noqa: E402
from spec_functions import crc32c  # noqa: E402

SEED = 20262
ALLOWED = {"ok", "not_found", "malformed", "overflow", "short_read", "compressed", "unsupported", "interval", "hop_limit"}

MOST_OF_SHORT = 6  # reads, where the index is read whole: footer, meta index, properties, index, its entries once more, data


def hex_of(data):
    return data.hex() or "-"


class Table:
    """Drives a writer program of tests/fixtures: puts, deletes, one table file, then the owner's answers."""
    def __init__(self, run, program, arguments):
        self.folder = run.folder / f"{program}-{'-'.join(arguments)}"
        self.process = started.start([BUILD / "tests" / program, self.folder, *arguments], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        self.path = None

    def write(self, lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))

    def finish(self):
        self.write(["finish"])
        self.process.stdin.flush()
        tables = []
        for line in self.process.stdout:
            if line == ".\n":
                break
            tables.append(line.split(" ", 1)[1].strip())
        assert len(tables) == 1, f"expected one table file, got {tables}"
        self.path = pathlib.Path(tables[0])

    def read(self, keys):
        """What the owner's library gives for the keys; None for one that it does not have. Ends the program."""
        output, _ = self.process.communicate("".join(f"get {hex_of(key)}\n" for key in keys))
        assert self.process.returncode == 0
        answers = []
        for line in output.splitlines():
            answers.append(None if line == "missing" else bytes.fromhex(line[6:].replace("-", "")))
        assert len(answers) == len(keys)
        return answers


def make_keys(rng, count):
    """Keys with long shared prefixes, keys that are prefixes of each other, and keys of bytes that text does not have."""
    keys = {b"", b"\x00", b"\xff" * 20, b"a", b"aa"}
    while len(keys) < count:
        style = rng.randrange(4)
        if style == 0:
            keys.add(b"user/%08d/name" % rng.randrange(10 * count))
        elif style == 1:
            keys.add(b"user/%d" % rng.randrange(10 * count))
        elif style == 2:
            keys.add(rng.randbytes(rng.randrange(1, 12)))
        else:
            keys.add(b"long/" + b"x" * rng.randrange(200) + b"%d" % rng.randrange(count))
    keys = {key for key in keys if len(key) <= 256}
    return sorted(keys)


def script_of(rng, keys):
    """Puts, overwrites and deletes; a snapshot in the middle keeps the versions before it in the table."""
    lines = []
    for key in keys:
        lines.append(f"put {hex_of(key)} {hex_of(rng.randbytes(rng.choice((0, 8, 30, 100, 900))))}")
    rng.shuffle(lines)
    lines.append("snapshot")
    for key in rng.sample(keys, len(keys) // 5):
        lines.append(f"put {hex_of(key)} {hex_of(b'newer' + rng.randbytes(20))}")
    for key in rng.sample(keys, len(keys) // 8):
        lines.append(f"delete {hex_of(key)}")
    return lines


def ask(run, what, spec, path, keys, owner, label=""):
    answers = run.call("get", {"table": path}, {}, [{"key": key} for key in keys], spec=spec, label=label)
    for key, wanted, answer in zip(keys, owner, answers):
        run.same(f"{what}: {key[:40]!r}", (answer.outcome, answer.value), ("not_found", None) if wanted is None else ("ok", wanted))
    return max(answer.hops for answer in answers)


def missing_keys(rng, keys):
    made = {b"\xff" * 21, b"zzz", b"user/", b"0"} | {key + b"\x00" for key in rng.sample(keys, 150)} | {key[:-1] for key in rng.sample(keys, 150)}
    return sorted(made)


def check_table(run, program, arguments, count, rng, spec, long_index=False, label=""):
    keys = make_keys(rng, count)
    table = Table(run, program, arguments)
    table.write(script_of(rng, keys))
    table.finish()
    asked = sorted(set(keys) | set(missing_keys(rng, keys)))
    asked = [key for key in asked if len(key) <= 256]
    owner = table.read(asked)
    reads = ask(run, f"{program} {' '.join(arguments)}", spec, table.path, asked, owner, label)
    run.same(f"{program} {' '.join(arguments)}: the index is searched where it lies", reads > MOST_OF_SHORT, long_index)
    return table.path, asked, owner


def check_damage(run, path, keys, owner, rng, spec, checked):
    """With checksums verified, damage is either noticed or did not touch what the key needs."""
    whole = path.read_bytes()
    bad = run.folder / "bad.sst"
    some = rng.sample(range(len(keys)), min(len(keys), 150))
    asked = [{"key": keys[i]} for i in some]
    for size in (0, 20, 60, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:size])
        outcomes = {a.outcome for a in run.call("get", {"table": bad}, {}, asked, spec=spec)}
        run.true(f"cut to {size} bytes", outcomes <= ALLOWED - {"ok", "not_found"}, f"outcomes {outcomes}")
    for number in range(20):
        damaged = bytearray(whole)
        for _ in range(1 + len(damaged) // 4000):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        bad.write_bytes(damaged)
        for i, answer in zip(some, run.call("get", {"table": bad}, {}, asked, spec=spec)):
            run.true(f"damaged table {number}", answer.outcome in ALLOWED, f"outcome {answer.outcome}")
            if checked and answer.outcome in ("ok", "not_found"):
                run.same(f"damaged table {number}, {keys[i][:30]!r}", answer.value, owner[i])


def checksum_of(block):
    """As it stands behind a block and its kind of compression."""
    checksum = crc32c(block)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xa282ead8) & 0xffffffff)


def numbers(data, count):
    """So many varints, and what comes behind them."""
    found = []
    for _ in range(count):
        shift = number = 0
        while True:
            byte, data = data[0], data[1:]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        found.append(number)
    return found, data


def check_empty(run, spec):
    """A table without entries, as LevelDB writes it: each block has one restart point and nothing there."""
    block = struct.pack("<II", 0, 1) + b"\0"
    block += checksum_of(block)
    handles = bytes((0, 8, len(block), 8))
    path = run.folder / "empty.ldb"
    path.write_bytes(2 * block + handles.ljust(40, b"\0") + struct.pack("<Q", 0xdb4775248b80fb57))
    run.same("a table without entries", [a.outcome for a in run.call("get", {"table": path}, {}, [{"key": key} for key in (b"", b"a", b"\xff" * 9)], spec=spec)], ["not_found"] * 3)


def check_refusals(run, rng, spec):
    for arguments, wanted in ((("4096", "16", "5", "crc32c", "lz4"), {"compressed"}), (("4096", "16", "5", "crc32c", "two-level"), {"unsupported"}),
                              (("4096", "16", "1", "crc32c", "two-level"), {"unsupported"}), (("4096", "16", "0", "crc32c", "two-level"), {"unsupported"}),
                              (("4096", "16", "5", "crc32c", "range"), {"unsupported"}), (("4096", "16", "1", "crc32c", "range"), {"unsupported"}),
                              (("4096", "16", "0", "crc32c", "range"), {"unsupported"}), (("4096", "16", "5", "crc32c", "reverse"), {"unsupported"}),
                              (("4096", "16", "0", "crc32c", "reverse"), {"unsupported"}),
                              (("4096", "16", "5", "crc32c", "hash"), {"unsupported"}), (("4096", "40", "5", "crc32c"), {"interval", "ok", "not_found"}),
                              (("131072", "16", "5", "crc32c"), {"overflow"}), (("64", "16", "5", "crc32c", "index-4000"), {"interval", "ok"}),
                              (("64", "16", "2", "crc32c", "index-4000"), {"interval", "ok"})):
        keys = [b"key%06d" % i for i in range(6000)]
        table = Table(run, "rocksdb_table", arguments)
        table.write(f"put {hex_of(key)} {hex_of(bytes(rng.randrange(60)))}" for key in keys)
        table.finish()
        owner = table.read(keys)
        answers = run.call("get", {"table": table.path}, {}, [{"key": key} for key in keys], spec=spec)
        outcomes = {a.outcome for a in answers}
        run.true(f"rocksdb {arguments}", outcomes <= wanted and outcomes - {"ok", "not_found"}, f"outcomes {outcomes}, expected {wanted}")
        for key, value, answer in zip(keys, owner, answers):
            if answer.outcome == "ok":
                run.same(f"rocksdb {arguments} {key}", answer.value, value)
            run.true(f"rocksdb {arguments} {key}", answer.outcome != "not_found", "a key that is there was not found")


def check_uncounted_ranges(run, spec):
    """RocksDB did not always have the property that counts deletions of ranges: with another name it is as if it were not there."""
    keys = [b"key%06d" % i for i in range(3000)]
    for version in "510":
        table = Table(run, "rocksdb_table", ["4096", "8", version, "crc32c", "range"])
        table.write(f"put {hex_of(key)} {hex_of(b'value')}" for key in keys)
        table.finish()
        run.same(f"deleted in format {version}", None in table.read(keys), True)
        old = bytearray(table.path.read_bytes())
        (place, size), _ = numbers(old[old.rindex(b"rocksdb.properties") + len(b"rocksdb.properties"):], 2)
        name = old.index(b"range-deletions", place, place + size)
        old[name:name + 15] = b"range-deletion2"
        old[place + size + 1:place + size + 5] = checksum_of(bytes(old[place:place + size + 1]))
        path = run.folder / "old.sst"
        path.write_bytes(old)
        run.same(f"uncounted deletions of format {version}", {a.outcome for a in run.call("get", {"table": path}, {}, [{"key": key} for key in keys], spec=spec)}, {"unsupported"})


def check_long_indexes(run, rng, spec):
    """Small blocks make an index long in a small table: of entries whose values are plain, delta-encoded, and some between restart points."""
    if (BUILD / "tests" / "leveldb_table").exists():
        check_table(run, "leveldb_table", ["64", "16"], 8000, rng, spec, True)
    if not (BUILD / "tests" / "rocksdb_table").exists():
        return
    for version, variant in (("5", "plain"), ("3", "plain"), ("2", "plain"), ("0", "plain"), ("5", "index-7"), ("2", "index-100")):
        arguments = ["64", "16", version, "crc32c", variant]
        path, keys, owner = check_table(run, "rocksdb_table", arguments, 8000 if variant == "index-7" else 5000, rng, spec, True)
        if version == "5":
            check_damage(run, path, keys, owner, rng, spec, False)
        if (version, variant) == ("5", "plain"):
            check_long_damage(run, path, keys, spec)
    # Of short ones the entries between restart points are read once more.
    for variant in ("index-2", "index-30"):
        check_table(run, "rocksdb_table", ["4096", "16", "5", "crc32c", variant], 1500, rng, spec)
        check_table(run, "rocksdb_table", ["4096", "16", "2", "crc32c", variant], 1500, rng, spec)
    check_long_keys(run, spec)


def check_long_damage(run, path, keys, spec):
    """No sum tells of damage to a long index, but its restart points have to be in order, and every search ends."""
    whole = path.read_bytes()
    (_, _, at, size), _ = numbers(whole[-52:], 4)
    count = struct.unpack_from("<I", whole, at + size - 4)[0]
    first = at + size - 4 - 4 * count
    asked = [{"key": key} for key in keys[::40]]
    bad = run.folder / "bad-index.sst"
    ordered = whole[first:first + 4 * count]
    backwards = b"".join(ordered[place:place + 4] for place in range(len(ordered) - 4, -4, -4))
    for what, place, patch, wanted in (("no restart points", at + size - 4, bytes(4), {"malformed"}), ("too many", at + size - 4, struct.pack("<I", size // 4), {"malformed"}),
                                       ("as many as can be", at + size - 4, struct.pack("<I", size // 4 - 1), {"malformed"}), ("the most", at + size - 4, b"\xff" * 4, {"malformed"}),
                                       ("compression", at + size, b"\1", {"compressed"}), ("the same restart points", first, bytes(4 * count), {"malformed", "interval"}),
                                       ("far ones", first, b"\xff" * 4 * count, {"malformed"}), ("backwards", first, backwards, {"malformed"}),
                                       ("entries of zeros", at, bytes(first - at), {"malformed"}), ("entries of ones", at, b"\xff" * (first - at), {"malformed"})):
        bad.write_bytes(whole[:place] + patch + whole[place + len(patch):])
        outcomes = {a.outcome for a in run.call("get", {"table": bad}, {}, asked, spec=spec)}
        run.true(f"a long index, {what}", outcomes <= wanted, f"outcomes {outcomes}, expected {wanted}")


def check_long_keys(run, spec):
    """A key of a long index that is longer than KEY is told from damage."""
    table = Table(run, "rocksdb_table", ["256", "16", "5", "crc32c"])
    table.write(f"put {hex_of(b'x' * 290 + b'%06d' % i)} {hex_of(b'value')}" for i in range(1000))
    table.finish()
    table.read([])
    run.same("keys longer than KEY", [a.outcome for a in run.call("get", {"table": table.path}, {}, [{"key": b"a"}, {"key": b"y"}], spec=spec)], ["overflow"] * 2)


def main():
    if not (BUILD / "tests" / "leveldb_table").exists() and not (BUILD / "tests" / "rocksdb_table").exists():
        skip("neither libleveldb-dev nor librocksdb-dev is installed")
    run = Run("std/sstable.chain")
    rng = random.Random(SEED)
    if KEEP and (BUILD / "tests" / "rocksdb_table").exists():
        # Other kernels repeat a get of either kind of index.
        for block, label in (("4096", "short"), ("64", "long")):
            check_table(run, "rocksdb_table", [block, "16", "5", "crc32c"], 1500, rng, run.artifact, label == "long", label)
        finish(run)
    if (BUILD / "tests" / "leveldb_table").exists():
        for arguments, count in ((("4096", "16"), 6000), (("256", "2"), 700), (("30000", "16"), 3000), (("4096", "1"), 1500)):
            path, keys, owner = check_table(run, "leveldb_table", list(arguments), count, rng, run.artifact)
            if arguments == ("4096", "16"):
                check_damage(run, path, keys, owner, rng, run.artifact, True)
    else:
        run.left_out("libleveldb-dev is not installed")
    if (BUILD / "tests" / "rocksdb_table").exists():
        for arguments, count in ((("4096", "16", "5", "crc32c"), 6000), (("4096", "16", "5", "xxh3"), 3000), (("4096", "16", "4", "xxhash64"), 2000),
                                 (("4096", "16", "3", "crc32c"), 2000), (("4096", "16", "2", "crc32c"), 2000),
                                 (("4096", "16", "1", "crc32c"), 2000), (("4096", "16", "0", "crc32c"), 2000), (("512", "4", "5", "crc32c"), 2000)):
            path, keys, owner = check_table(run, "rocksdb_table", list(arguments), count, rng, run.artifact)
            if arguments[0] == "4096" and arguments[2] in "520":
                check_damage(run, path, keys, owner, rng, run.artifact, arguments[3] == "crc32c")
        check_refusals(run, rng, run.artifact)
        check_uncounted_ranges(run, run.artifact)
    else:
        run.left_out("librocksdb-dev is not installed")
    check_long_indexes(run, rng, run.artifact)
    check_empty(run, run.artifact)
    finish(run)


if __name__ == "__main__":
    main()
