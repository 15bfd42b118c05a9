#!/usr/bin/env python3
"""Every library artifact: interpreter, native code and BPF agree on random blocks and on mutated real pages, of which each program
takes some to its end: what only ever fails says little of the rest of a program.
CHAINIO_SOAK=1 runs at least 100,000 blocks of each library; CHAINIO_SEED another seed."""
import collections
import functools
import os
import pathlib
import random
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from spec_functions import crc32c  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SOAK = bool(os.environ.get("CHAINIO_SOAK"))
SEED = os.environ.get("CHAINIO_SEED", "20260")


def as_pages(folder, name, blocks):
    """Each as a page of its own, as a chain reads it."""
    pages = []
    for number, block in enumerate(blocks):
        page = folder / f"{name}{number}"
        page.write_bytes(block)
        pages.append(f"{page}:{len(block)}")
    return pages


def sqlite_pages(folder, page_size):
    path = folder / f"p{page_size}.db"
    path.unlink(missing_ok=True)
    rng = random.Random(page_size)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA page_size={page_size}")
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n, w TEXT, d BLOB)")
        db.execute("CREATE INDEX n ON t(n)")
        db.execute("CREATE INDEX w ON t(w)")
        rows = ((i, rng.choice((i, -i, i + 0.5, None)), "key%d" % i, rng.randbytes(rng.randrange(200))) for i in range(1, 3000))
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    db.close()
    # Its header and the roots of its trees more often than one in all pages.
    roots = folder / f"roots{page_size}.db"
    roots.write_bytes(path.read_bytes()[:4 * page_size])
    return [f"{path}:{page_size}", *[f"{roots}:{page_size}"] * 8]


def node_pages(folder):
    path = folder / "tree.idx"
    subprocess.run([sys.executable, str(ROOT / "examples" / "btree" / "make_tree.py"), str(path)], check=True)
    return [f"{path}:512"]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def table_blocks(folder):
    """Each block of a table as a page of its own, with its trailer, as the chain reads it; and the footer."""
    path = folder / "fruit.ldb"
    subprocess.run([sys.executable, str(ROOT / "examples" / "leveldb" / "make_table.py"), str(path)], check=True)
    data = path.read_bytes()
    _, at = varint(data, len(data) - 48)
    _, at = varint(data, at)
    index, at = varint(data, at)
    size, _ = varint(data, at)
    blocks = [data[index:index + size + 5], data[-53:]]
    restarts = struct.unpack_from("<I", data, index + size - 4)[0]
    for i in range(restarts):
        entry = index + struct.unpack_from("<I", data, index + size - 4 - 4 * (restarts - i))[0]
        _, entry = varint(data, entry)
        unshared, entry = varint(data, entry)
        _, entry = varint(data, entry)
        begin, entry = varint(data, entry + unshared)
        length, _ = varint(data, entry)
        blocks.append(data[begin:begin + length + 5])
    # RocksDB's meta index, whose checksum an initial state does not ask for.
    name = b"rocksdb.properties"
    meta = bytes((0, len(name), 3)) + name + b"\x80\x02\x40" + struct.pack("<II", 0, 1) + bytes(5)
    return as_pages(folder, "block", [*blocks, *[meta] * 2])


def zigzag(value):
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def kafka_pages(folder):
    """Batches of a log, also one by one, and entries of its index."""
    batches = []
    for base in range(1000, 1400, 10):
        records = b""
        for delta in range(10):
            body = b"\x00" + zigzag(delta) + zigzag(delta) + zigzag(3) + b"key" + zigzag(8) + b"value%03d" % delta + zigzag(0)
            records += zigzag(len(body)) + body
        summed = struct.pack(">hiqqqhii", 0, 9, 0, 0, -1, -1, -1, 10) + records
        batches.append(struct.pack(">qiibI", base, 49 + len(records), 0, 2, crc32c(summed)) + summed)
    (folder / "a.log").write_bytes(b"".join(batches))
    (folder / "a.index").write_bytes(b"".join(struct.pack(">II", 10 * i + 9, 150 * i) for i in range(1024)))
    return [f"{folder}/a.log:4096", f"{folder}/a.log:16384", f"{folder}/a.index:4096", *as_pages(folder, "batch", batches[:2] * 2)]


def column_pages(folder):
    (folder / "a.bin").write_bytes(b"".join(bytes(16) + struct.pack("<BII", method, 509, 500) + bytes(500) for method in (2, 0x82, 0x90) * 20))
    (folder / "a.mrk").write_bytes(b"".join(struct.pack("<QQ", 525 * i, 64 * i) for i in range(100)))
    return [f"{folder}/a.bin:525", f"{folder}/a.bin:25", f"{folder}/a.mrk:16"]


def store_pages(folder):
    """The header, buckets, an item, and one that has a table of pieces with the last of these; what the chain knows of its header, and keys."""
    path = folder / "a.store"
    lines = "".join(f"key{i}\tvalue{i}\t{i}\n" for i in range(60)) + f"long\t{'v' * 70000}\t7\n"
    subprocess.run([str(BUILD / "bin" / "chainio"), "store", "build", str(path), "--from", "-"], input=lines, text=True, check=True, capture_output=True)
    data = path.read_bytes()
    buckets, _, index = struct.unpack_from("<QQQ", data, 32)
    at = data.index(b"key7value7") - 24
    table = data.index(b"long", 4096) - 24
    place, *sums = struct.unpack_from("<Q8xII", data, table + 28)
    long = data[table:table + 28 + 24]
    blocks = [data[:4096], data[at:at + 34], long, data[place + 61440:place + 70000], *[data[index + 512 * i:index + 512 * i + 512] for i in range(buckets)]]
    return as_pages(folder, "stored", [*blocks, *blocks[:4] * 2]), [
        f"store.buckets={buckets}", f"store.index={index}", "store.seed=0", "number=0,1,2", f"tag={sums[1]}"], [
        f"key={b'key7'.hex()},{b'long'.hex()}", f"text={b'key7'.hex()},{b'long'.hex()}", f"cas={long[16:24].hex()}"]


def leaf_pages(folder):
    """Leaves of a PostgreSQL B-tree: 300 rows, each tenth a posting list of five."""
    pages = b""
    for leaf in range(8):
        page = bytearray(8192)
        lower, upper = 24, 8176
        for row in range(300 if leaf else 0):
            rows = [struct.pack("<HHH", 0, 100 * leaf + row + i, 1 + i) for i in range(5 if row % 10 == 0 else 1)]
            if len(rows) == 1:
                item = rows[0] + struct.pack("<HQ", 16, row)
            else:
                item = struct.pack("<HHHHQ", 0, 16, 0x2000 | len(rows), 0x2000 | 46, row) + b"".join(rows) + b"\0\0"
            upper -= len(item)
            page[upper:upper + len(item)] = item
            struct.pack_into("<I", page, lower, upper | 1 << 15 | len(item) << 17)
            lower += 4
        struct.pack_into("<HHHH", page, 12, lower, upper, 8176, 8196)
        struct.pack_into("<IIIHH", page, 8176, leaf, leaf + 2 if leaf < 7 else 0, 0, 1, 0)
        pages += page
    (folder / "leaves").write_bytes(pages)
    return [f"{folder}/leaves:8192"]


def requests(folder):
    heads = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /docs/?x=1 HTTP/1.1\r\n\r\n", b"GET /docs/a%20b.html?page=2&x HTTP/1.0\r\n\r\n",
             b"GET /" + b"long/" * 60 + b"index.html HTTP/1.1\r\n\r\n", b"HEAD /x HTTP/1.1\r\n\r\n", b"POST /form HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b"]
    return as_pages(folder, "request", heads)


# What has nothing of its own to compare here, and why.
ELSEWHERE = {
    "kv": "its chains are those of store; where handlers stop and what they reply is compared by tests/unit/service/test_library.cpp",
    "memcached_binary": "as kv",
    "redis": "as kv",
    "postgresql_leaf": "postgresql_shadow is three of it",
}

# Programs that no case here takes to their end, and why.
UNREACHED = {("memcached", "item_of.item"): "its key is what the steps before have put into the state",
             ("http_store", "item_of.item"): "as that of memcached",
             ("sstable", "get.halve"): "it looks between two places that the steps before have put into the state"}


def blocks_for(spec):
    """Of each program: the shadow libraries have one each, the others seven and more."""
    if not SOAK:
        return "500"
    return "100000" if spec.endswith("_shadow") or spec == "http" else "15000"


def sqlite_arguments(page_size):
    return [f"db.page_size={page_size}", f"db.usable={page_size},{page_size - 32}", "db.encoding=1,0,2", "root=1,2,3", "rowid=1,77,2999,-5",
            "key=1,-77,2999,5000"]


def runs(folder):
    """A library, pages, numbers and bytes for what its chains are asked; and options of chainc, for chains that are off without."""
    for page_size in (512, 4096, 65536):
        yield "sqlite", sqlite_pages(folder, page_size), sqlite_arguments(page_size), []
    yield "btree", node_pages(folder), ["key=0,10,9600,9599", "low=0,5,300", "high=10,700,9600", "tag=0,15,30,64"], []
    fruit = [f"key={b'fruit/007'.hex()},{b'fruit/150'.hex()}"]
    yield "sstable", table_blocks(folder), ["table.file_size=53,5000"], fruit
    pages, numbers, keys = store_pages(folder)
    yield "store", pages, numbers, keys
    yield "memcached", pages, [*numbers, "base64=0,1"], keys
    yield "http_store", pages, [*numbers, "escapes=0,1"], [*keys, f"path={b'key7'.hex()},{b'k%65y%37'.hex()},{b'long'.hex()},{b'%6'.hex()}"]
    yield "kafka", kafka_pages(folder), ["base=1000", "offset=1000,1005,1399,1400", "log.file_size=6000,100000", "index.file_size=0,4096,8192"], []
    yield "clickhouse_marks", column_pages(folder), ["granule=0,5,99", "part=0,1", "count=1,3", "column.file_size=31500", "marks.file_size=1600"], []
    reads = [*sqlite_arguments(4096), "r.page_size=4096", "r.usable=4096"]
    yield "sqlite_shadow", sqlite_pages(folder, 4096), reads, []
    yield "sqlite_shadow", sqlite_pages(folder, 4096), reads, [], "-DTABLE_ROOT=2", "-DSCANS=1", "-DJOIN_ROOT=2", "-DJOIN_WIDTH=4", "-DJOIN_COLUMN=1"
    for options in [], ["-DGRANULES=1"]:
        yield "clickhouse_shadow", [f"{folder}/a.mrk:16", f"{folder}/a.mrk:48"], [], [], *options
    for options in [], ["-DLARGE=100"]:
        yield "rocksdb_shadow", table_blocks(folder), ["table.file_size=53,5000", "r.file_size=5000,1000000", "r.read_ahead=0"], fruit, *options
    yield "postgresql_shadow", leaf_pages(folder), [], []
    yield "http", requests(folder), [], []


def never_ended(outcomes):
    """Programs of which no case came to its end; of a shadow chain (no step is named): to a prefetch. What is imported has a line of its own."""
    for (spec, each), counts in outcomes.items():
        ends = ("ok", "result", "prefetch") if "." in each else ("prefetch",)
        if each.count(".") < 2 and not any(counts[end] for end in ends) and (spec, each) not in UNREACHED:
            yield f"{spec}: no case takes {each} to its end: {dict(counts)}"


ROW = re.compile(r"(\S+) +\d+ +\d+ +\d+ ((?: \S+ \d+)+)$")


def outcomes_of(output):
    """Of each program in chainio-diff's table."""
    rows = filter(None, map(ROW.match, output.splitlines()))
    return {row[1]: collections.Counter({name: int(count) for name, count in zip(*[iter(row[2].split())] * 2)}) for row in rows}


def compare(program, artifact, spec, pages, numbers, texts):
    """Whether the engines agree, and how the programs ended."""
    command = [str(program), str(artifact), "--blocks", blocks_for(spec), "--seed", SEED, "--quiet"]
    for option, values in ("--page", pages), ("--arg", numbers), ("--bytes", texts):
        command += [word for value in values for word in (option, value)]
    done = subprocess.run(command, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("skipped: "):
            print(f"skipped: {spec}: {line.removeprefix('skipped: ')}")
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    print(f"{spec}: {last}", flush=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr)
    return done.returncode == 0, outcomes_of(done.stdout)


def main():
    failed = 0
    libraries = ROOT / "stdlib-chains"
    missing = {path.stem for path in (libraries / "std").glob("*.chain")} - ELSEWHERE.keys()
    program = BUILD / "bin" / "chainio-diff"
    if not program.exists():
        program = BUILD / "tests" / "chainio-diff"
    outcomes = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        @functools.cache
        def compiled(spec, *options):
            artifact = folder / f"{spec}{''.join(options)}.bpf.o"
            words = [str(BUILD / "bin" / "chainc"), str(libraries / "std" / f"{spec}.chain"), "-I", str(libraries), "-o", str(artifact), *options]
            subprocess.run(words, check=True)
            return artifact

        for spec, pages, numbers, texts, *options in runs(folder):
            missing.discard(spec)
            agreed, ended = compare(program, compiled(spec, *options), spec, pages, numbers, texts)
            failed += not agreed
            for each, counts in ended.items():
                outcomes[spec, each] += counts
    for line in never_ended(outcomes):
        failed += 1
        print(line)
    for spec in sorted(missing):
        failed += 1
        print(f"std/{spec}.chain is compared nowhere: give it a line in runs(), or say in ELSEWHERE why it needs none")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
