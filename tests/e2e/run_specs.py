#!/usr/bin/env python3
"""What the library's shadow chains ask for, on blocks made here as ClickHouse, PostgreSQL and web clients write them."""
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import CHAINC, CHAINIO, expect

STD = runs.ROOT / "stdlib-chains" / "std"


def btree_leaf(rows, following):
    """A leaf of a PostgreSQL B-tree: `rows` are (page, item) pairs, or lists of such pairs for posting lists."""
    body, pointers = b"", []
    end = 8192 - 16
    for row in rows:
        if isinstance(row, list):
            tids = b"".join(struct.pack("<HHH", page >> 16, page & 0xffff, item) for page, item in row)
            tuple_ = struct.pack("<HHHH", 0, 16, 0x2000 | len(row), 0x2000 | (16 + len(tids))) + struct.pack("<q", 7) + tids
        else:
            tuple_ = struct.pack("<HHHH", row[0] >> 16, row[0] & 0xffff, row[1], 16) + struct.pack("<q", 7)
        tuple_ += b"\0" * (-len(tuple_) % 8)
        body = tuple_ + body
        pointers.append((end - len(body)) | 1 << 15 | len(tuple_) << 17)
    lower = 24 + 4 * len(pointers)
    page = struct.pack("<QHHHHHHI", 0, 0, 0, lower, end - len(body), end, 0x2004, 0) + struct.pack(f"<{len(pointers)}I", *pointers)
    return page + b"\0" * (end - len(body) - len(page)) + body + struct.pack("<IIIHH", 0, following, 0, 1, 0)


def case(name, chain, event, expected):
    return f"  - name: {name}\n    chain: {chain}\n    event: {event}\n    expect: {expected}\n"


def prefetches(*wanted):
    return "{ prefetches: [" + ", ".join(wanted) + "] }"


def check(folder, spec, params, files, cases):
    """One file of `chainio test` over a compiled spec."""
    params = [word for param in params for word in ("-D", param)]
    subprocess.run([CHAINC, STD / spec, *params, "-o", "spec.o"], cwd=folder, check=True, timeout=runs.LONGEST)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    listed = "".join(f"  {name}: {name}\n" for name in files)
    (folder / "spec.test.yaml").write_text("spec: spec.o\n" + (f"files:\n{listed}" if files else "") + "cases:\n" + "".join(cases))
    done = subprocess.run([CHAINIO, "test", "spec.test.yaml"], cwd=folder, capture_output=True, text=True, timeout=runs.LONGEST)
    last = (done.stdout.rstrip().splitlines() or [""])[-1]
    if not expect(f"{spec}: {len(cases)} cases", (done.returncode, " 0 failed" in last), (0, True)):
        print(done.stdout[-3000:], done.stderr[-3000:])


def main():
    with runs.Folder() as made:
        folder = made.path
        get = lambda path: '{ bytes: "GET ' + path + ' HTTP/1.1\\r\\nReferer: http://h/?a\\r\\n\\r\\n" }'
        page = lambda path: prefetches(f"{{ files: docroot, path: {path}, at: 0, for: 1048576 }}")
        check(folder, "http.chain", [], {}, [
            case("a path", "ahead_of_ready", get("/img/a.png"), page("/img/a.png")),
            case("a query", "ahead_of_ready", get("/img/a.png?size=3"), page("/img/a.png")),
            case("the root", "ahead_of_ready", get("/"), page("/")),  # of a folder the runtime opens the INDEX
            case("a folder", "ahead_of_ready", get("/docs/"), page("/docs/")),
            case("a folder with a query", "ahead_of_ready", get("/docs/?x=1/"), page("/docs/")),
            case("a folder's name", "ahead_of_ready", get("/docs"), page("/docs")),
            case("no GET", "ahead_of_ready", '{ bytes: "PUT / HTTP/1.1\\r\\n" }', "{ prefetch_count: 0 }")])
        marks = b"".join(struct.pack("<QQ", offset, 0) for offset in (0, 0, 70_000, 80_000, 140_000))
        marks2 = b"".join(struct.pack("<QQQ", offset, 0, 8192) for offset in (0, 65_536, 65_600))
        at = lambda offset: f"{{ files: columns, sibling: .bin, at: {offset}, for: 65536 }}"
        check(folder, "clickhouse_shadow.chain", ["GRANULES=1"], {"a.mrk": marks, "b.mrk2": marks2, "c.bin": b"\0" * 200_000}, [
            case("marks", "granules", "{ file: a.mrk }", prefetches(at(0), at(70_000), at(140_000))),
            case("marks with rows", "granules2", "{ file: b.mrk2 }", prefetches(at(0), at(65_536))),
            case("a piece of a scan", "more_of_column", "{ bytes: { zeros: 65536 }, at: 983040, total: 1048576 }", prefetches("{ same: true, at: 0, for: 9437184 }")),
            case("a granule", "more_of_column", "{ file: c.bin, at: 4096, for: 65536 }", "{ prefetch_count: 0 }"),
            case("a column behind a scan", "head_of_column", "{ file: c.bin, for: 0, total: 1048576 }", prefetches("{ same: true, at: 0, for: 8388608 }")),
            case("a column behind a granule", "head_of_column", "{ file: c.bin, for: 0, total: 65536 }", "{ prefetch_count: 0 }")])
        # Each of the three chains takes a third of a leaf's tuples.
        rows = [(5, 1), (5, 2), (70_000, 9), [(8, 1), (8, 2), (3, 1)], (200_000, 1), (300_000, 1)]
        heap = lambda number, path="5/77": f"{{ files: heap, path: {path}, at: {number * 8192}, for: 8192 }}"
        leaf = lambda name: f"{{ file: {name}, at: 0, for: 8192 }}"
        long_list = [[(number, 1) for number in range(130)], [(number, 1) for number in range(130, 260)], [(1, 1)]]
        check(folder, "postgresql_shadow.chain", ['HEAP="5/77"', 'HEAP_1="5/77.1"'],
              {"leaf": btree_leaf(rows, 0), "linked": btree_leaf([(5, 1)], 6), "long": btree_leaf(long_list, 0), "rest": b"\1" * 8192}, [
            case("a leaf", "first.rows", leaf("leaf"), prefetches(heap(5))),
            case("its second third, with a list of equal keys", "second.rows", leaf("leaf"), prefetches(heap(70_000), heap(8), heap(3))),
            case("rows of the table's second file, and of one without a name", "third.rows", leaf("leaf"), prefetches(heap(200_000 - 131_072, "5/77.1"))),
            case("the next leaf, by one chain", "first.rows", leaf("linked"), prefetches("{ same: true, at: 49152, for: 8192 }")),
            case("and not by others", "third.rows", leaf("linked"), prefetches(heap(5))),
            case("a list that takes a tenth of a page", "first.rows", leaf("long"), prefetches(*map(heap, range(130))))])
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
