#!/usr/bin/env python3
"""std/kafka.chain against Kafka's own storage classes, on segments that they wrote."""
import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import ROOT, Run, finish  # noqa: E402
from spec_functions import crc32c  # noqa: E402

SEED = 20263
RECORD_BATCH = 64 << 10  # as in kafka.chain
FIXTURE = ROOT / "tests" / "fixtures" / "kafka"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def jars():
    """The broker's classes, fetched once into build/, and what is missing to have them, as the network."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            return None, f"this machine has no {program} (default-jdk-headless, maven)"
    folder = ROOT / "build" / "kafka"
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="kafka-", dir=ROOT / "build") as scratch:  # so that a half of them never looks like all
            made = subprocess.run(["mvn", "-q", "-B", "-f", str(FIXTURE / "pom.xml"), PLUGIN, f"-Dmaven.repo.local={scratch}/repository",
                                   f"-DoutputDirectory={scratch}/jars", "-DincludeScope=runtime"], capture_output=True, text=True)
            if made.returncode != 0:
                return None, "Maven cannot fetch Kafka's classes: " + (made.stdout.strip().splitlines() or ["no network?"])[0]
            os.rename(f"{scratch}/jars", folder)
    return folder, None


def write_segment(run, classes, name, base, batches, compression):
    folder = run.folder / name
    folder.mkdir()
    command = ["java", "-Xshare:auto", "-cp", str(classes / "*"), str(FIXTURE / "WriteSegment.java"), str(folder), str(base), str(batches), str(SEED), compression]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    batches_of, records, active = {}, {}, None
    for line in output.splitlines():
        words = line.split()
        if words[0] == "copied":
            active = folder / words[1].rsplit("/", 1)[1]
        elif words[0] == "locate":
            batches_of[int(words[1])] = None if words[2] == "missing" else tuple(map(int, words[2:]))
        else:
            records[int(words[1])] = None if words[2] == "null" else bytes.fromhex(words[2][1:])
    index = folder / f"{base:020}.index"
    return {"index": index, "log": folder / f"{base:020}.log"}, active, batches_of, records


def some_of_each(offsets, batches_of):
    """The first, a middle and the last one of each batch, as a whole batch comes for each, and all that are missing."""
    found = []
    for batch, many in itertools.groupby(offsets, batches_of.get):
        many = list(many)
        found += many if batch is None else sorted({many[0], many[len(many) // 2], many[-1]})
    return found


def check_segment(run, name, files, base, batches_of, records, compressed):
    offsets = sorted(batches_of)
    asked = [{"offset": offset} for offset in offsets]
    log = files["log"].read_bytes()
    fixed = {"base": base}
    for offset, answer in zip(offsets, run.call("locate", files, fixed, asked)):
        batch = batches_of[offset]
        run.same(f"{name}: locate {offset}", (answer.outcome, answer.value), ("not_found", None) if batch is None else ("ok", struct.pack("<4Q", *batch)))
    some = some_of_each(offsets, batches_of)
    for offset, answer in zip(some, run.call("fetch", files, fixed, [{"offset": offset} for offset in some])):
        batch = batches_of[offset]
        wanted = ("not_found", None) if batch is None else ("ok", log[batch[0]:batch[0] + batch[1]])
        run.same(f"{name}: fetch {offset}", (answer.outcome, answer.value), wanted)
    for offset, answer in zip(offsets, run.call("record", files, fixed, asked)):
        if batches_of[offset] is not None and batches_of[offset][1] <= RECORD_BATCH and compressed:
            wanted = ("compressed", None)
        elif batches_of[offset] is not None and batches_of[offset][1] > RECORD_BATCH:
            wanted = ("overflow", None)
        elif offset not in records:
            wanted = ("not_found", None)
        else:
            wanted = ("null_value", None) if records[offset] is None else ("ok", records[offset])
        run.same(f"{name}: record {offset}", (answer.outcome, answer.value), wanted)
    below = run.call("locate", files, fixed, [{"offset": base - 1}] if base > 0 else [])
    run.same(f"{name}: below the base", {a.outcome for a in below} - {"not_found"}, set())


def check_damage(run, files, base, batches_of, rng):
    allowed = {"ok", "not_found", "malformed", "overflow", "short_read", "hop_limit", "old_format", "compressed", "null_value"}
    offsets = rng.sample(sorted(batches_of), 200)
    asked = [{"offset": offset} for offset in offsets]
    log, index = files["log"].read_bytes(), files["index"].read_bytes()
    bad = {"log": run.folder / "bad.log", "index": run.folder / "bad.index"}
    bad["log"].write_bytes(b"")
    bad["index"].write_bytes(b"")
    run.same("an empty segment", {a.outcome for a in run.call("locate", bad, {"base": base}, asked)}, {"short_read"})
    for number in range(10):
        changed = bytearray(log)
        for _ in range(len(changed) // 3000):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        bad["log"].write_bytes(changed)
        changed = bytearray(index)
        for _ in range(len(changed) // 100):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        bad["index"].write_bytes(changed)
        for chain in ("locate", "fetch", "record"):
            answers = run.call(chain, bad, {"base": base}, asked)
            run.true(f"damaged segment {number}, {chain}", {a.outcome for a in answers} <= allowed, f"outcomes {({a.outcome for a in answers})}")
    # A batch that came whole is unchanged: its checksum was verified.
    good = {log[b[0]:b[0] + b[1]] for b in batches_of.values() if b}
    header_free = {batch[21:] for batch in good}
    for answer in run.call("fetch", bad, {"base": base}, asked):
        if answer.outcome == "ok":
            run.true("a damaged batch is noticed", answer.value[21:] in header_free, "a changed batch passed")


def compacted_batch(base, deltas):
    """Of the offsets behind the base only these are left, each with its number as the value."""
    records = b""
    for delta in deltas:
        value = b"%d" % delta
        body = bytes([0, 0, 2 * delta, 1, 2 * len(value)]) + value + b"\0"  # attributes, time, offset, no key, the value, no headers
        records += bytes([2 * len(body)]) + body
    rest = struct.pack(">HIQQqhiI", 0, deltas[-1], 0, 0, -1, -1, -1, len(deltas)) + records
    return struct.pack(">QIIBI", base, 9 + len(rest), 0, 2, crc32c(rest)) + rest


def check_compacted(run):
    """A batch of as many records as are looked through at most, of which compaction has taken some between them."""
    files = {"log": run.folder / "compacted.log", "index": run.folder / "compacted.index"}
    files["log"].write_bytes(compacted_batch(100, [0, 2, 4, 6]))
    files["index"].write_bytes(bytes(8))
    asked = [{"offset": 100 + delta} for delta in range(7)]
    for most in (3, 4, 5):
        got = [(answer.outcome, answer.value) for answer in run.call("record", files, {"base": 100}, asked, run.compile(["-D", f"RECORDS={most}"]))]
        missing = ("not_found" if most >= 4 else "overflow", None)
        wanted = [missing if delta % 2 or delta // 2 >= most else ("ok", b"%d" % delta) for delta in range(7)]
        run.same(f"a compacted batch of 4 records, of which {most} are looked through", got, wanted)


def check_ends(run, files, base, batches_of):
    """Behind the last batch: zeros are nothing, and what begins and does not go on is cut."""
    batches = sorted({batch for batch in batches_of.values() if batch})
    position, size, _, last = batches[-1]
    log = files["log"].read_bytes()
    assert position + size == len(log)
    other = {"log": run.folder / "end.log", "index": files["index"]}
    far = [{"offset": offset} for offset in (last, last + 1, base + 0xffffffff, base + (1 << 40))]
    for what, tail in (("nothing", b""), ("zeros", bytes(8192)), ("few zeros", bytes(64)), ("hardly any zeros", bytes(12)), ("less than a header of zeros", bytes(60))):
        other["log"].write_bytes(log + tail)
        for chain in ("locate", "fetch", "record"):
            got = [answer.outcome for answer in run.call(chain, other, {"base": base}, far)]
            run.same(f"{chain} with {what} behind the last batch", got[1:], ["not_found"] * 3)
            run.true(f"{chain} of the last batch, with {what} behind it", got[0] not in ("not_found", "short_read", "malformed"), got[0])
    for left in (1, 30, 60, 61, size - 1):
        other["log"].write_bytes(log[:position + left])
        for chain in ("locate", "fetch", "record"):
            run.same(f"{chain} of a batch of which {left} bytes are there", run.call(chain, other, {"base": base}, [{"offset": last}])[0].outcome, "short_read")
    # So long a log that whoever begins to scan it at its beginning does not get to its end; each batch has an entry.
    size, count = 4096, 500
    batch = lambda number: struct.pack(">QIIBIHI", base + number, size - 12, 0, 2, 0, 0, 0).ljust(size, b"\1")
    long_one = {"log": run.folder / "long.log", "index": run.folder / "preallocated.index"}
    long_one["log"].write_bytes(b"".join(map(batch, range(count))))
    long_one["index"].write_bytes(b"".join(struct.pack(">II", number, number * size) for number in range(1, count)) + bytes(24_000))
    asked = [0, 1, count - 1, count, 0xfffffffe, 0xffffffff, 1 << 32, 1 << 40]
    got = run.call("locate", long_one, {"base": base}, [{"offset": base + number} for number in asked])
    for number, answer in zip(asked, got):
        wanted = ("ok", struct.pack("<4Q", number * size, size, base + number, base + number)) if number < count else ("not_found", None)
        run.same(f"{number} in a preallocated index", (answer.outcome, answer.value), wanted)


def record(number, key, value):
    """With lengths of at most 63 bytes, whose zigzag is one byte."""
    body = bytes((0, 0, 2 * number, 2 * len(key))) + key + bytes((2 * len(value),)) + value + b"\0"
    return bytes((2 * len(body),)) + body


def batch(base, records, attributes=0):
    body = struct.pack(">HIQQQHII", attributes, len(records) - 1, 0, 0, 7, 0, 0, len(records)) + b"".join(records)
    return struct.pack(">QIIBI", base, len(body) + 9, 0, 2, crc32c(body)) + body


def check_markers(run):
    """What ends a transaction has an offset and is a batch, but no record that a consumer would see."""
    marker = record(0, struct.pack(">HH", 0, 0), struct.pack(">HI", 0, 9))
    batches = [batch(0, [record(0, b"k", b"one"), record(1, b"k", b"two")], 0x10), batch(2, [marker], 0x30), batch(3, [record(0, b"k", b"three")])]
    files = {"index": run.folder / "markers.index", "log": run.folder / "markers.log"}
    files["index"].write_bytes(b"")
    files["log"].write_bytes(b"".join(batches))
    asked = [{"offset": offset} for offset in range(4)]
    run.same("records beside a marker", [(a.outcome, a.value) for a in run.call("record", files, {"base": 0}, asked)],
             [("ok", b"one"), ("ok", b"two"), ("not_found", None), ("ok", b"three")])
    run.same("batches beside a marker", [a.value for a in run.call("fetch", files, {"base": 0}, asked)], [batches[0], *batches])


def check_cut(run):
    """Of a log that ends within its last batch nobody knows what stood behind: only what is before is answered."""
    batches = [batch(0, [record(0, b"k", b"one"), record(1, b"k", b"two")]), batch(2, [record(0, b"k", b"three")])]
    whole = b"".join(batches)
    files = {"index": run.folder / "cut.index", "log": run.folder / "cut.log"}
    for entries in (0, 1):  # with an entry for the last batch the search goes there, without one the scan
        files["index"].write_bytes(entries * struct.pack(">II", 2, len(batches[0])))
        for size in range(len(batches[0]) + 1, len(whole) + 1):
            files["log"].write_bytes(whole[:size])
            for chain in ("locate", "fetch", "record"):
                got = [answer.outcome for answer in run.call(chain, files, {"base": 0}, [{"offset": offset} for offset in (0, 1, 2, 3, 99)])]
                wanted = ["ok", "ok", "short_read", "short_read", "short_read"] if size < len(whole) else ["ok", "ok", "ok", "not_found", "not_found"]
                run.same(f"{chain} in {size} of {len(whole)} bytes, {entries} entries", got, wanted)


def check_follower(run):
    """A follower of a broker before 4.0: it appends what it fetches, 1 MiB of batches, with one entry in the index."""
    size, appends, batches = 4096, 4, 255
    one = [struct.pack(">QIIBIHI", 10 * n, size - 12, 0, 2, 0, 0, 9).ljust(size, b"\1") for n in range(appends * batches)]
    files = {"index": run.folder / "follower.index", "log": run.folder / "follower.log"}
    files["log"].write_bytes(b"".join(one))
    files["index"].write_bytes(b"".join(struct.pack(">II", 10 * batches * (n + 1) - 1, n * batches * size) for n in range(1, appends)))
    for answer, n in zip(run.call("locate", files, {"base": 0}, [{"offset": 10 * n + 3} for n in range(len(one))]), range(len(one))):
        run.same(f"batch {n} of a follower", (answer.outcome, answer.value), ("ok", struct.pack("<4Q", n * size, size, 10 * n, 10 * n + 9)))
    few = run.compile(["-D", "HOPS=20"])
    last = run.call("locate", files, {"base": 0}, [{"offset": 10 * len(one) - 1}], spec=few)
    run.same("fewer hops than it takes", last[0].outcome, "hop_limit")


def check_broker(run, classes):
    rng = random.Random(SEED)
    files, active, batches_of, records = write_segment(run, classes, "plain", 5_000_000_000, 700, "none")
    check_segment(run, "plain", files, 5_000_000_000, batches_of, records, False)
    check_segment(run, "active index", {**files, "index": active}, 5_000_000_000, batches_of, records, False)
    check_ends(run, files, 5_000_000_000, batches_of)
    check_compacted(run)
    check_damage(run, files, 5_000_000_000, batches_of, rng)
    files, _, batches_of, records = write_segment(run, classes, "one", 0, 1, "none")
    check_segment(run, "one batch", files, 0, batches_of, records, False)
    files, _, batches_of, records = write_segment(run, classes, "lz4", 77, 150, "lz4")
    check_segment(run, "lz4", files, 77, batches_of, records, True)


def main():
    run = Run("std/kafka.chain")
    classes, missing = jars()
    if classes:
        check_broker(run, classes)
    else:
        print(f"skip what Kafka's own classes write and read: {missing}")
    check_markers(run)
    check_cut(run)
    check_follower(run)
    finish(run)


if __name__ == "__main__":
    main()
