#!/usr/bin/env python3
"""std/kafka.chain against Kafka's own storage classes, on segments that they wrote."""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from chains import ROOT, Run, finish, skip  # noqa: E402

SEED = 20263
RECORD_BATCH = 64 << 10  # as in kafka.chain
FIXTURE = ROOT / "tests" / "fixtures" / "kafka"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def jars():
    """The broker's classes, fetched once into build/; without the network the test cannot run."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            skip(f"this machine has no {program} (default-jdk-headless, maven)")
    folder = ROOT / "build" / "kafka"
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="kafka-", dir=ROOT / "build") as scratch:  # so that a half of them never looks like all
            made = subprocess.run(["mvn", "-q", "-B", "-f", str(FIXTURE / "pom.xml"), PLUGIN, f"-Dmaven.repo.local={scratch}/repository",
                                   f"-DoutputDirectory={scratch}/jars", "-DincludeScope=runtime"], capture_output=True, text=True)
            if made.returncode != 0:
                skip("Maven cannot fetch Kafka's classes: " + (made.stdout.strip().splitlines() or ["no network?"])[0])
            os.rename(f"{scratch}/jars", folder)
    return folder


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


def check_segment(run, name, files, base, batches_of, records, compressed):
    offsets = sorted(batches_of)
    asked = [{"offset": offset} for offset in offsets]
    log = files["log"].read_bytes()
    fixed = {"base": base}
    for offset, answer in zip(offsets, run.call("locate", files, fixed, asked)):
        batch = batches_of[offset]
        run.same(f"{name}: locate {offset}", (answer.outcome, answer.value), ("not_found", None) if batch is None else ("ok", struct.pack("<4Q", *batch)))
    for offset, answer in zip(offsets, run.call("fetch", files, fixed, asked)):
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


def main():
    classes = jars()
    run = Run("std/kafka.chain")
    rng = random.Random(SEED)
    files, active, batches_of, records = write_segment(run, classes, "plain", 5_000_000_000, 700, "none")
    check_segment(run, "plain", files, 5_000_000_000, batches_of, records, False)
    check_segment(run, "active index", {**files, "index": active}, 5_000_000_000, batches_of, records, False)
    check_damage(run, files, 5_000_000_000, batches_of, rng)
    files, _, batches_of, records = write_segment(run, classes, "one", 0, 1, "none")
    check_segment(run, "one batch", files, 0, batches_of, records, False)
    files, _, batches_of, records = write_segment(run, classes, "lz4", 77, 150, "lz4")
    check_segment(run, "lz4", files, 77, batches_of, records, True)
    finish(run)


if __name__ == "__main__":
    main()
