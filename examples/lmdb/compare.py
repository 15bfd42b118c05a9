#!/usr/bin/env python3
"""compare.py app.bpf.o FILE.mdb: looks up every key of an environment, and keys beside them, in the main database and in those whose
names are in it, and compares with what LMDB says (`pip install lmdb`)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "bindings" / "python"))
import chainio  # noqa: E402
import lmdb  # noqa: E402

LONGEST = 65536


def databases(env):
    """Those of names that are one, and the main one, for which there is no name."""
    yield "", None
    with env.begin() as read:
        names = [bytes(key) for key, _ in read.cursor()]
    for name in names:
        try:
            yield name.decode(), env.open_db(name, create=False)
        except (lmdb.Error, UnicodeDecodeError):
            pass  # a key of the main database


def near(key, integers):
    if integers:
        number = int.from_bytes(key, "little")
        return [other.to_bytes(len(key), "little") for other in (number - 1, number + 1) if 0 <= other < 1 << 8 * len(key)]
    return [other for other in (key + b"\0", key[:-1], key[:-1] + bytes([key[-1] ^ 1])) if 0 < len(other) <= 511]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    artifact, path = sys.argv[1:]
    wanted, wrong = {}, 0
    with lmdb.open(path, subdir=False, readonly=True, lock=False, max_dbs=126) as env:
        every = list(databases(env))
        names = {name.encode() for name, _ in every}
        for name, database in every:
            with env.begin(db=database) as read:
                integers = bool(database and database.flags(read).get("integerkey")) if database else False
                keys = [bytes(key) for key in read.cursor().iternext(values=False)]
                for key in keys:
                    for each in (key, *near(key, integers)):
                        if not (name == "" and each in names):
                            wanted[name.encode(), each] = read.get(each)
    with chainio.open(artifact) as app:
        file = app.file(path)
        for row, result in app.map("get", ({"env": file, "database": name, "key": key} for name, key in wanted)):
            want = wanted[row["database"], row["key"]]
            outcome = "not_found" if want is None else "overflow" if len(want) > LONGEST else "ok"
            if result.outcome != outcome or (outcome == "ok" and result.value != want):
                print(f"{row['database']} {row['key']}: {result}, LMDB says {want}")
                wrong += 1
    print(f"{len(wanted)} keys of {len(every)} databases, {wrong} of them not as LMDB says")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
