#!/usr/bin/env python3
"""compare.py app.bpf.o FILE.mmdb [COUNT]: looks up COUNT (20,000) addresses of the database's networks, at their borders and anywhere,
with the keys of their records, and compares with what MaxMind's own module says (`pip install maxminddb`)."""
import ipaddress
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "bindings" / "python"))
import chainio  # noqa: E402
import maxminddb  # noqa: E402

NUMBERS = {5, 6, 9, 10}
LITTLE = {7: "map of {}", 11: "list of {}", 14: "bool {}"}


def shown(value):
    """What a result of the chain stands for; of maps and lists their sizes."""
    kind, content = value[0], value[1:]
    if kind in NUMBERS:
        return int.from_bytes(content, "big")
    if kind in LITTLE:
        return LITTLE[kind].format(struct.unpack("<I", content)[0])
    if kind == 8:
        return struct.unpack(">i", content.rjust(4, b"\0"))[0]
    return {2: bytes.decode, 3: lambda b: struct.unpack(">d", b)[0], 4: bytearray, 15: lambda b: struct.unpack(">f", b)[0]}[kind](content)


def expected(value):
    if isinstance(value, bool):
        return f"bool {int(value)}"
    return f"map of {len(value)}" if isinstance(value, dict) else f"list of {len(value)}" if isinstance(value, list) else value


def paths(value, before=()):
    """All that is in a value, and what is not."""
    yield before, expected(value)
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        if str(key) and "." not in str(key):  # an empty path is the record
            yield from paths(inner, (*before, str(key)))
    yield (*before, "missing"), None


def addresses(database, count):
    version = database.metadata().ip_version
    yield from (ipaddress.IPv4Address(0), ipaddress.IPv4Address(2**32 - 1))
    if version == 6:
        yield from (ipaddress.IPv6Address(0), ipaddress.IPv6Address(2**128 - 1))
    for _ in range(count // 3):
        yield ipaddress.IPv4Address(random.getrandbits(32))
        if version == 6:
            yield ipaddress.IPv6Address(1 << 125 | random.getrandbits(125))
    # From one border to the next, from the first one on and from anywhere.
    most = 2**32 if version == 4 else 2**128
    for start in (0, *(random.randrange(most) >> random.choice([0, 96 if version == 6 else 8]) for _ in range(count // 300))):
        for _ in range(count // 6 if start == 0 else 30):
            address = ipaddress.IPv4Address(start) if version == 4 else ipaddress.IPv6Address(start)
            length = database.get_with_prefix_len(address)[1]
            start = (start | (most >> length) - 1) + 1
            yield from (address, type(address)(start - 1))
            if start == most:
                break


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    artifact, path = sys.argv[1:3]
    random.seed(1)
    wrong, found, wanted = 0, 0, {}
    with maxminddb.open_database(path) as database, chainio.open(artifact) as app:
        for address in addresses(database, int(sys.argv[3]) if len(sys.argv) == 4 else 20000):
            record = database.get(address)
            every = [((), None)] if record is None else list(paths(record))
            for keys, value in random.sample(every, min(len(every), 3)):
                wanted[address.packed, ".".join(keys).encode()] = value
        file = app.file(path)
        for row, result in app.map("get", ({"db": file, "address": address, "path": keys} for address, keys in wanted)):
            want = wanted[row["address"], row["path"]]
            found += want is not None
            if result.outcome != ("not_found" if want is None else "ok") or (want is not None and shown(result.value) != want):
                print(f"{ipaddress.ip_address(row['address'])} {row['path']}: {result}, it is {want}")
                wrong += 1
    print(f"{len(wanted)} values, of which {found} are there; {wrong} of them not as maxminddb says")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
