#!/usr/bin/env python3
"""Every library artifact: interpreter, native code and BPF agree on random blocks and on mutated real pages.
CHAINIO_SOAK=1 runs at least 100,000 blocks of each library; CHAINIO_SEED another seed."""
import os
import pathlib
import random
import sqlite3
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
SOAK = bool(os.environ.get("CHAINIO_SOAK"))
SEED = os.environ.get("CHAINIO_SEED", "20260")


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
    return [f"{path}:{page_size}"]


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
    pages = []
    for number, block in enumerate(blocks):
        page = folder / f"block{number}"
        page.write_bytes(block)
        pages.append(f"{page}:{len(block)}")
    return pages


def zigzag(value):
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def kafka_pages(folder):
    """Batches of a log and entries of its index; the checksums are wrong, which the damaged ones' would be as well."""
    log = b""
    for base in range(1000, 1400, 10):
        records = b""
        for delta in range(10):
            body = b"\x00" + zigzag(delta) + zigzag(delta) + zigzag(3) + b"key" + zigzag(8) + b"value%03d" % delta + zigzag(0)
            records += zigzag(len(body)) + body
        log += struct.pack(">qiibIhiqqqhii", base, 49 + len(records), 0, 2, 0, 0, 9, 0, 0, -1, -1, -1, 10) + records
    (folder / "a.log").write_bytes(log)
    (folder / "a.index").write_bytes(b"".join(struct.pack(">II", 10 * i + 9, 150 * i) for i in range(1024)))
    return [f"{folder}/a.log:4096", f"{folder}/a.log:16384", f"{folder}/a.index:4096"]


def column_pages(folder):
    (folder / "a.bin").write_bytes(b"".join(bytes(16) + struct.pack("<BII", method, 509, 500) + bytes(500) for method in (2, 0x82, 0x90) * 20))
    (folder / "a.mrk").write_bytes(b"".join(struct.pack("<QQ", 525 * i, 64 * i) for i in range(100)))
    return [f"{folder}/a.bin:525", f"{folder}/a.bin:25", f"{folder}/a.mrk:16"]


def store_pages(folder):
    """Buckets and items of a store, and what the chain knows of its header."""
    path = folder / "a.store"
    lines = "".join(f"key{i}\tvalue{i}\t{i}\n" for i in range(300))
    subprocess.run([str(BUILD / "bin" / "chainio"), "store", "build", str(path), "--from", "-"], input=lines, text=True, check=True, capture_output=True)
    data = path.read_bytes()
    buckets, _, index = struct.unpack_from("<QQQ", data, 32)
    pages = []
    for number in range(buckets):
        page = folder / f"bucket{number}"
        page.write_bytes(data[index + 512 * number:index + 512 * number + 512])
        pages.append(f"{page}:512")
    size = 24 + len("key0value0")
    (folder / "item").write_bytes(data[4096:4096 + size])
    return pages + [f"{folder}/item:{size}"], [f"store.buckets={buckets}", f"store.index={index}", "store.seed=0"]


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


# What has nothing of its own to compare here, and why.
ELSEWHERE = {
    "kv": "its chains are those of store; where handlers stop and what they reply is compared by tests/unit/service/test_library.cpp",
    "memcached_binary": "as kv",
    "http_store": "as kv",
    "redis": "as kv",
    "postgresql_leaf": "postgresql_shadow is three of it",
}


def blocks_for(spec):
    """Of each program: the shadow libraries have one each, the others seven and more."""
    if not SOAK:
        return "500"
    return "100000" if spec.endswith("_shadow") or spec == "http" else "15000"


def sqlite_arguments(page_size):
    return [f"db.page_size={page_size}", f"db.usable={page_size},{page_size - 32}", "db.encoding=1,0,2", "root=1,2,3", "rowid=1,77,2999,-5",
            "key=1,-77,2999,5000"]


def runs(folder):
    for page_size in (512, 4096, 65536):
        yield "sqlite", sqlite_pages(folder, page_size), sqlite_arguments(page_size)
    yield "btree", node_pages(folder), ["key=0,10,9600,9599", "low=0,5,300", "high=10,700,9600", "tag=0,15,30,64"]
    yield "sstable", table_blocks(folder), ["table.file_size=53,5000"]
    yield "store", *store_pages(folder)
    pages, arguments = store_pages(folder)
    yield "memcached", pages, [*arguments, "base64=0,1"]
    yield "kafka", kafka_pages(folder), ["base=1000", "offset=1000,1005,1399,1400", "log.file_size=6000,100000", "index.file_size=0,4096,8192"]
    yield "clickhouse_marks", column_pages(folder), ["granule=0,5,99", "count=1,3", "column.file_size=31500", "marks.file_size=1600"]
    yield "sqlite_shadow", sqlite_pages(folder, 4096), []
    yield "clickhouse_shadow", [f"{folder}/a.mrk:16"], []
    yield "rocksdb_shadow", table_blocks(folder), ["table.file_size=53,5000", "r.file_size=5000,1000000"]
    yield "postgresql_shadow", leaf_pages(folder), []
    yield "http", [], []


def main():
    failed = 0
    missing = {path.stem for path in (ROOT / "stdlib-chains" / "std").glob("*.chain")} - ELSEWHERE.keys()
    program = BUILD / "bin" / "chainio-diff"
    if not program.exists():
        program = BUILD / "tests" / "chainio-diff"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number, (spec, pages, arguments) in enumerate(runs(folder)):
            missing.discard(spec)
            artifact = folder / f"{number}.bpf.o"
            source = ROOT / "stdlib-chains" / "std" / f"{spec}.chain"
            subprocess.run([str(BUILD / "bin" / "chainc"), str(source), "-I", str(ROOT / "stdlib-chains"), "-o", str(artifact)], check=True)
            command = [str(program), str(artifact), "--blocks", blocks_for(spec), "--seed", SEED, "--quiet"]
            for page in pages:
                command += ["--page", page]
            for argument in arguments:
                command += ["--arg", argument]
            done = subprocess.run(command, capture_output=True, text=True)
            for line in done.stdout.splitlines():
                if line.startswith("skipped: "):
                    print(f"skipped: {spec}: {line.removeprefix('skipped: ')}")
            last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
            print(f"{spec}: {last}", flush=True)
            if done.returncode != 0:
                failed += 1
                print(done.stdout + done.stderr)
    for spec in sorted(missing):
        failed += 1
        print(f"std/{spec}.chain is compared nowhere: give it a line in runs(), or say in ELSEWHERE why it needs none")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
