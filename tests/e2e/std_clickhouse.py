#!/usr/bin/env python3
"""std/clickhouse_marks.chain against a ClickHouse server, on the columns that it wrote."""
import functools
import os
import pathlib
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import clickhouse  # noqa: E402
from chains import Run, finish  # noqa: E402
from lz4_block import decompress  # noqa: E402

SEED = 20264
PART = 65536
GRANULE = 512
ROWS = 512 * 700 + 77
STORED, LZ4 = 0x02, 0x82


@functools.cache  # a block holds several granules
def raw_of(block):
    method, size, raw_size = struct.unpack_from("<BII", block, 16)
    assert size + 16 == len(block) and method == LZ4
    return decompress(block[25:], raw_size)


def stored_block(raw):
    return bytes(16) + struct.pack("<BII", STORED, len(raw) + 9, len(raw)) + raw


def blocks_of(data):
    """(offset, size, decompressed size) of each block of a .bin."""
    found, at = [], 0
    while at < len(data):
        size, raw_size = struct.unpack_from("<II", data, at + 17)
        found.append((at, size + 16, raw_size))
        at += size + 16
    return found


def check_marks(run, name, files, marks, column):
    count = len(marks)
    asked = [{"granule": n} for n in list(range(count)) + [count, count + 1, 1 << 40, (1 << 64) - 1]]
    wanted = [struct.pack("<QQ", *mark) for mark in marks]
    for key, answer in zip(asked, run.call("mark", {"marks": files["marks"]}, {}, asked)):
        n = key["granule"]
        run.same(f"{name}: mark {n}", (answer.outcome, answer.value), ("ok", wanted[n]) if n < count else ("short_read", None))
    starts = {offset: size for offset, size, _ in blocks_of(column)}
    asked = [{"granule": n, "count": c} for n in range(0, count, 7) for c in (1, 2, 30, count)]
    for key, answer in zip(asked, run.call("byte_range", files, {}, asked)):
        n, last = key["granule"], key["granule"] + key["count"]
        end = len(column) if last >= count else marks[last][0] + (starts[marks[last][0]] if marks[last][1] else 0)
        run.same(f"{name}: byte_range {key}", (answer.outcome, answer.value), ("ok", struct.pack("<3Q", marks[n][0], end, marks[n][1])))


def all_parts(run, chain, files, count, spec=None):
    """Of each granule the outcome and all parts together, the last of which is the first that has fewer than PART bytes or is not there."""
    found, left, part = {n: ("ok", b"") for n in range(count)}, list(range(count)), 0
    while left:
        again = []
        for n, answer in zip(left, run.call(chain, files, {}, [{"granule": n, "part": part} for n in left], spec=spec)):
            if answer.outcome == "ok":
                found[n] = "ok", found[n][1] + answer.value
                again += [n] if len(answer.value) == PART else []
            elif answer.outcome != "not_found" or part == 0:
                found[n] = answer.outcome, None
        left, part = again, part + 1
    return list(found.values())


def check_values(run, name, files, marks, granules):
    """The granule's first rows, out of the block that the chain gives, are what the server selects."""
    for n, (outcome, block) in enumerate(all_parts(run, "compressed_block", files, len(marks))):
        if not run.same(f"{name}: block {n}", outcome, "ok"):
            continue
        raw = raw_of(block)[marks[n][1]:][:len(granules[n])]
        run.true(f"{name}: granule {n}", raw and granules[n].startswith(raw), "the values are not what the server selects")
    for outcome, _ in all_parts(run, "plain", files, min(len(marks), 5)):
        run.same(f"{name}: plain", outcome, "compressed")


def check_blocks(run, name, files, column):
    blocks = blocks_of(column)
    for start, count in ((0, 0), (0, 1), (0, 200), (3, 20), (len(blocks) - 2, 1000), (0, 1000)):
        wanted = b"".join(struct.pack("<3Q", *block) for block in blocks[start:start + count])
        for answer in run.call("blocks", {"column": files["column"]}, {"count": count}, [{"start": blocks[start][0]}]):
            run.same(f"{name}: {count} blocks from {start}", (answer.outcome, answer.value), ("ok", wanted))


def check_stored(run, marks, column, name):
    """This server only writes compressed blocks; the same column is stored as they would be without compression, marks in .mrk2."""
    rows, new_offset, whole = {}, {}, b""
    for offset, size, _ in blocks_of(column):
        raw = raw_of(column[offset:offset + size])
        new_offset[offset] = len(whole)
        rows[offset] = raw
        whole += stored_block(raw)
    mark_file, bin_file = run.folder / "stored.mrk2", run.folder / "stored.bin"
    mark_file.write_bytes(b"".join(struct.pack("<3Q", new_offset[offset], skip, GRANULE) for offset, skip in marks))
    bin_file.write_bytes(whole)
    files = {"marks": mark_file, "column": bin_file}
    asked = [{"granule": n} for n in range(len(marks))]
    wide = run.compile(["-D", "STRIDE=24"])
    for n, answer in enumerate(all_parts(run, "plain", files, len(marks), spec=wide)):
        offset, skip = marks[n]
        run.same(f"{name}: stored granule {n}", answer, ("ok", rows[offset][skip:]))
    for n, answer in enumerate(run.call("mark", {"marks": mark_file}, {}, asked, spec=wide)):
        run.same(f"{name}: mark {n} of .mrk2", answer.value, struct.pack("<3Q", new_offset[marks[n][0]], marks[n][1], GRANULE))


def check_codecs(run, name, files, marks, column):
    """This server knows no CODEC of a column; its blocks get the methods of Multiple, Delta, DoubleDelta and others."""
    changed, methods = bytearray(column), {}
    for number, (offset, _, _) in enumerate(blocks_of(column)):
        methods[offset] = changed[offset + 16] = (0x91, 0x92, 0x94, 0x9a, 0x90)[number % 5]
    run.same(f"{name}: methods", len(set(methods.values())), 5)
    codecs = {"marks": files["marks"], "column": run.folder / "codecs.bin"}
    codecs["column"].write_bytes(changed)
    sizes = {offset: size for offset, size, _ in blocks_of(column)}
    for n, answer in enumerate(all_parts(run, "compressed_block", codecs, len(marks))):
        offset = marks[n][0]
        run.same(f"{name}: block {n} of method {methods[offset]:#x}", answer, ("ok", bytes(changed[offset:offset + sizes[offset]])))
    for outcome, _ in all_parts(run, "plain", codecs, len(marks)):
        run.same(f"{name}: plain of a codec", outcome, "compressed")
    check_marks(run, f"{name} with codecs", codecs, marks, changed)
    check_blocks(run, f"{name} with codecs", codecs, changed)


def check_damage(run, files, count, rng):
    allowed = {"ok", "malformed", "short_read", "overflow", "hop_limit", "compressed", "not_found"}
    asked = [{"granule": n, "part": n % 2} for n in range(count)]
    for number in range(8):
        bad = {}
        for key, path in files.items():
            data = bytearray(path.read_bytes())
            for _ in range(max(30, len(data) // 300)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            bad[key] = run.folder / f"bad-{key}"
            bad[key].write_bytes(data)
        for chain in ("compressed_block", "plain"):
            outcomes = {a.outcome for a in run.call(chain, bad, {}, asked)}
            run.true(f"damaged column {number}, {chain}", outcomes <= allowed, f"outcomes {outcomes}")
        outcomes = {a.outcome for a in run.call("blocks", {"column": bad["column"]}, {"count": 1000}, [{"start": 0}])}
        run.true(f"damaged column {number}, blocks", outcomes <= allowed, f"outcomes {outcomes}")


def check_cut_column(run):
    """A column that was cut anywhere has no list of blocks that looks whole."""
    blocks = [stored_block(bytes(size)) for size in (40, 0, 7)]
    ends = [sum(map(len, blocks[:count])) for count in range(4)]
    whole, path = b"".join(blocks), run.folder / "cut.bin"
    for size in range(1, len(whole) + 1):
        path.write_bytes(whole[:size])
        for count in (1, 2, 3, 100):
            there = sum(end <= size for end in ends[1:])
            wanted = b"".join(struct.pack("<3Q", ends[n], len(blocks[n]), len(blocks[n]) - 25) for n in range(min(there, count)))
            answer = run.call("blocks", {"column": path}, {"count": count}, [{"start": 0}])[0]
            run.same(f"{count} blocks in {size} of {len(whole)} bytes", (answer.outcome, answer.value), ("ok", wanted) if count <= there or size == ends[there] else ("short_read", None))


def check_damaged_marks(run):
    """Whatever a mark says, no byte of a block's header is given, and no range ends before it begins or behind the column."""
    raw, path = b"abcdefghij", run.folder / "ten.bin"
    files = {"marks": run.folder / "damaged.mrk", "column": path}
    path.write_bytes(stored_block(raw) + stored_block(raw))
    one = len(stored_block(raw))
    for skip in (0, 9, 10, 11, 1 << 32, (1 << 63) - 1, (1 << 64) - 25, (1 << 64) - 9, (1 << 64) - 1):
        files["marks"].write_bytes(struct.pack("<QQ", 0, skip))
        answers = run.call("plain", files, {}, [{"granule": 0, "part": part} for part in (0, 1)])
        for answer, wanted in zip(answers, (("ok", raw[skip:]), ("not_found", None))):
            run.same(f"plain of {skip}", (answer.outcome, answer.value), wanted if skip <= 10 else ("malformed", None))
    for begin, last, skip, wanted in ((0, one, 0, one), (0, one, 5, 2 * one), (0, 2 * one, 0, 2 * one), (one, 0, 0, "malformed"), (one, 0, 5, "malformed"), (0, 2 * one + 1, 0, "short_read"),
                                      (0, 2 * one - 30, 5, "short_read"), (0, 1 << 63, 5, "malformed"), (2 * one + 1, None, 0, "short_read"), (one, None, 0, 2 * one)):
        files["marks"].write_bytes(struct.pack("<QQ", begin, 3) + (b"" if last is None else struct.pack("<QQ", last, skip)))
        answer = run.call("byte_range", files, {}, [{"granule": 0, "count": 1}])[0]
        run.same(f"a range from {begin} to {last}, {skip}", (answer.outcome, answer.value), ("ok", struct.pack("<3Q", begin, wanted, 3)) if isinstance(wanted, int) else (wanted, None))


def check_parts(run):
    """Blocks whose ends lie at, before and behind those of parts."""
    files = {"marks": run.folder / "parts.mrk", "column": run.folder / "parts.bin"}
    for size in (0, 1, PART - 26, PART - 25, PART - 24, PART - 1, PART, PART + 1, 3 * PART - 25, 3 * PART, 3 * PART + 7):
        block = stored_block(random.Random(size).randbytes(size))
        files["column"].write_bytes(b"before" + block)
        for skip in {min(size, skip) for skip in (0, 1, 7, PART, size)}:
            files["marks"].write_bytes(struct.pack("<QQ", 6, skip))
            for chain, bytes_ in (("compressed_block", block), ("plain", block[25 + skip:])):
                asked = [{"granule": 0, "part": part} for part in (0, 1, 2, 3, 4, (1 << 32) - 1)]
                for key, answer in zip(asked, run.call(chain, files, {}, asked)):
                    part = key["part"]
                    wanted = bytes_[part * PART:][:PART]
                    run.same(f"{chain} of {size} bytes from {skip}, part {part}", (answer.outcome, answer.value), ("ok", wanted) if wanted or part == 0 else ("not_found", None))


def string_ends(values):
    """Where each string of a column ends; those of this test are shorter than 128 bytes."""
    ends = [0]
    while ends[-1] < len(values):
        ends.append(ends[-1] + 1 + values[ends[-1]])
    return ends


def check_defaults(run):
    """Blocks and granules of ClickHouse's own sizes, most of which have more bytes than one part."""
    granule, rows = 8192, 8192 * 12 + 5
    with clickhouse.Server(run.folder / "defaults", blocks="") as server:
        server.query("CREATE TABLE d (id UInt64, h UInt64, s String) ENGINE = MergeTree() ORDER BY id")
        server.query(f"INSERT INTO d SELECT number, intHash64(number), hex(intHash64(number)) FROM system.numbers LIMIT {rows}")
        part = pathlib.Path(server.query("SELECT path FROM system.parts WHERE table = 'd' AND active").decode().strip())
        for name in ("id", "h", "s"):
            values = server.query(f"SELECT {name} FROM d ORDER BY id FORMAT RowBinary")
            ends = string_ends(values) if name == "s" else range(0, len(values) + 1, 8)
            granules = [values[ends[n]:ends[min(n + granule, rows)]] for n in range(0, rows, granule)]
            files = {"marks": part / f"{name}.mrk", "column": part / f"{name}.bin"}
            data, column = files["marks"].read_bytes(), files["column"].read_bytes()
            marks = [struct.unpack_from("<QQ", data, at) for at in range(0, len(data), 16)]
            run.same(f"{name}: granules of default settings", len(marks), len(granules))
            run.same(f"{name}: blocks of more than one part", max(size for _, size, _ in blocks_of(column)) > PART, name != "id")
            check_marks(run, name, files, marks, column)
            check_values(run, name, files, marks, granules)
            check_blocks(run, name, files, column)
            check_stored(run, marks, column, name)


def check_server(run):
    rng = random.Random(SEED)
    with clickhouse.Server(run.folder / "server") as server:
        server.query(f"CREATE TABLE t (id UInt64, v UInt64, w UInt32) ENGINE = MergeTree() ORDER BY id SETTINGS index_granularity = {GRANULE}")
        server.query(f"INSERT INTO t SELECT number, intHash64(number), toUInt32(number / 100) FROM system.numbers LIMIT {ROWS}")
        server.query("OPTIMIZE TABLE t FINAL")
        part = pathlib.Path(server.query("SELECT path FROM system.parts WHERE table = 't' AND active").decode().strip())
        for name, width in (("v", 8), ("w", 4), ("id", 8)):
            values = server.query(f"SELECT {name} FROM t ORDER BY id FORMAT RowBinary")
            files = {"marks": part / f"{name}.mrk", "column": part / f"{name}.bin"}
            data = files["marks"].read_bytes()
            marks = [struct.unpack_from("<QQ", data, at) for at in range(0, len(data), 16)]
            column = files["column"].read_bytes()
            run.same(f"{name}: granules", len(marks), (ROWS + GRANULE - 1) // GRANULE)
            check_marks(run, name, files, marks, column)
            check_values(run, name, files, marks, [values[n:n + GRANULE * width] for n in range(0, len(values), GRANULE * width)])
            check_blocks(run, name, files, column)
            if name == "w":
                check_stored(run, marks, column, name)
                check_codecs(run, name, files, marks, column)
                check_damage(run, files, len(marks), rng)
        run.note(f"ClickHouse {server.version()}")


def main():
    run = Run("std/clickhouse_marks.chain")
    if clickhouse.program() is None:
        run.left_out("this machine has no clickhouse-server (Debian 12 packages it)")
    else:
        check_server(run)
        check_defaults(run)
    check_parts(run)
    check_cut_column(run)
    check_damaged_marks(run)
    finish(run)


if __name__ == "__main__":
    main()
