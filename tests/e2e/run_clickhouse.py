#!/usr/bin/env python3
"""clickhouse-server, unmodified, beside std/clickhouse_shadow.chain: over the same cold parts every answer is, byte for byte, what it is without."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import clickhouse
import runs
from runs import chain, drop_from_memory, expect

ROWS = 600_000
TABLE = """CREATE TABLE items (id UInt64, day Date, price UInt32, weight Float64, text String) ENGINE = MergeTree(day, id, 1024)"""
FILL = f"""INSERT INTO items SELECT number, toDate('2001-01-01') + intHash64(number) % 100, intHash32(number) % 100000, intHash32(number + 1) / 7.,
substring(concat(hex(intHash64(number)), hex(intHash64(number + 1))), 1, 5 + number % 27) FROM system.numbers LIMIT {ROWS}"""
QUERIES = [
    "SELECT count(), sum(length(text)), groupBitXor(cityHash64(id, day, price, weight, text)) FROM items",
    "SELECT sum(price) FROM items WHERE day >= toDate('2001-02-01') AND day < toDate('2001-03-01') AND price % 10 < 3",
    "SELECT day, count(), max(price), min(text) FROM items GROUP BY day ORDER BY day",
    "SELECT * FROM items WHERE id % 1000 = 7 ORDER BY id",
    *(f"SELECT * FROM items WHERE id = {n}" for n in (0, 12_345, ROWS - 1, ROWS)),
]


def columns(folder):
    return [path for end in ("bin", "mrk") for path in (folder / "data" / "data").rglob(f"*.{end}")]


def main():
    if not clickhouse.program():
        print("skipped: clickhouse-server is not installed")
        sys.exit(77)
    with runs.Folder() as folder:
        data, file = folder.path / "server", folder.path / "summary.json"
        with clickhouse.Server(data) as server:
            for query in (TABLE, FILL, "OPTIMIZE TABLE items"):
                server.query(query)
        drop_from_memory(*columns(data))
        with clickhouse.Server(data) as server:
            plain = [server.query(query) for query in QUERIES]
        drop_from_memory(*columns(data))
        prefix = folder.command(["--spec", "std/clickhouse_shadow.chain", "--json", "--summary", file], [])
        with clickhouse.Server(data, prefix, folder.environment) as server:
            beside = [server.query(query) for query in QUERIES]
        summary = json.loads(file.read_text())
        for query, before, after in zip(QUERIES, plain, beside):
            expect(f"{query[:70]} …", after, before)
        expect("which are answers", [answer.count(b"\n") for answer in plain], [1, 1, 100, ROWS // 1000, 1, 1, 1, 0])
        expect("it did not run plain", summary["plain"], None)
        seen = {each["name"]: each for each in summary["classes"]}
        expect("the spec has matched columns and marks", seen, lambda found: all(found[name]["opened"] > 0 and found[name]["reads"] > 0 for name in ("columns", "marks")))
        expect("marks of cold columns were asked for", chain(summary, "marks_of_column"), lambda c: c["runs"] > 0 and c["fetches"] + c["cached"] > 0 and c["failed"] == 0)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
