#!/usr/bin/env python3
"""make_database.py FOLDER: writes databases in MaxMind's format, in which a record says what a network is: FOLDER/city.mmdb of IPv6
and IPv4 networks with records of 24 bits, FOLDER/city28.mmdb and FOLDER/city32.mmdb the same with longer ones, FOLDER/four.mmdb of
IPv4 alone."""
import ipaddress
import pathlib
import struct
import sys

POINTER, TEXT, DOUBLE, U16, U32, MAP, I32, U64, ARRAY, BOOL = 1, 2, 3, 5, 6, 7, 8, 9, 11, 14
CITIES = {
    "81.2.69.0/24": {
        "city": {"names": {"de": "London", "en": "London", "ja": "ロンドン"}},
        "country": {"geoname_id": 2635167, "iso_code": "GB"},
        "location": {"latitude": 51.5142, "longitude": -0.0931, "accuracy_radius": ("u16", 10), "offset": ("i32", -1)},
        "subdivisions": [{"iso_code": "ENG"}, {"iso_code": "LND", "names": {"en": "Greater London"}}],
        "traits": {"is_anycast": True, "is_proxy": False, "network": ("u64", 1 << 40)},
    },
    "81.2.70.0/25": {"country": {"iso_code": "GB"}, "note": "n" * 5000, "after": "behind what is long"},
    "89.160.20.112/28": {"country": {"geoname_id": 2661886, "iso_code": "SE"}, "empty": "", "none": {}, "zero": 0},
    "255.255.255.255/32": {"country": {"iso_code": "ZZ"}},
    "2001:218::/32": {"country": {"iso_code": "JP"}, "many": {f"key{i:04d}": i for i in range(3000)}},
    "2001:219::1/128": {"list": list(range(400))},
}


def head(kind, size):
    first, more = (kind << 5, b"") if kind < 8 else (0, bytes([kind - 7]))
    if size < 29:
        return bytes([first | size]) + more
    if size < 285:
        return bytes([first | 29]) + more + bytes([size - 29])
    return bytes([first | 30]) + more + struct.pack(">H", size - 285)


def number(kind, value):
    stored = value.to_bytes(8, "big").lstrip(b"\0")
    return head(kind, len(stored)) + stored


def pointer(at):
    if at < 2048:
        return bytes([0x20 | at >> 8, at & 255])
    at -= 2048
    return bytes([0x28 | at >> 16]) + struct.pack(">H", at & 0xFFFF)


class Values:
    """The data section. Each key stands there once; other maps point to it."""

    def __init__(self):
        self.data, self.known = bytearray(), {}

    def key(self, text):
        if text in self.known:
            self.data += pointer(self.known[text])
        else:
            self.known[text] = len(self.data)
            self.add(text)

    def add(self, value):
        at = len(self.data)
        if isinstance(value, dict):
            self.data += head(MAP, len(value))
            for key, inner in value.items():
                self.key(key)
                self.add(inner)
        elif isinstance(value, list):
            self.data += head(ARRAY, len(value))
            for inner in value:
                self.add(inner)
        elif isinstance(value, bool):
            self.data += head(BOOL, int(value))
        elif isinstance(value, str):
            self.data += head(TEXT, len(value.encode())) + value.encode()
        elif isinstance(value, float):
            self.data += head(DOUBLE, 8) + struct.pack(">d", value)
        elif isinstance(value, tuple) and value[0] == "i32":
            self.data += head(I32, 4) + struct.pack(">i", value[1])
        else:
            kind, value = value if isinstance(value, tuple) else ("u32", value)
            self.data += number({"u16": U16, "u32": U32, "u64": U64}[kind], value)
        return at


def node(left, right, bits):
    if bits == 28:
        middle = left >> 24 << 4 | right >> 24
        return (left & 0xFFFFFF).to_bytes(3, "big") + bytes([middle]) + (right & 0xFFFFFF).to_bytes(3, "big")
    return left.to_bytes(bits // 8, "big") + right.to_bytes(bits // 8, "big")


def database(networks, version, bits):
    tree, values = [[None, None]], Values()
    for text, record in networks.items():
        network = ipaddress.ip_network(text)
        at, length = int(network.network_address), network.prefixlen
        total = 32 if version == 4 else 128
        length += total - network.max_prefixlen
        here = 0
        for i in range(length):
            right = at >> (total - 1 - i) & 1
            if i + 1 == length:
                tree[here][right] = ("data", values.add(record))
            else:
                if tree[here][right] is None:
                    tree[here][right] = len(tree)
                    tree.append([None, None])
                here = tree[here][right]
    number_of = {None: len(tree)}
    nodes = b"".join(
        node(*[number_of[None] if r is None else len(tree) + 16 + r[1] if isinstance(r, tuple) else r for r in both], bits) for both in tree)
    about = Values()
    about.add({
        "binary_format_major_version": ("u16", 2), "binary_format_minor_version": ("u16", 0), "build_epoch": ("u64", 1700000000),
        "database_type": "Example-City", "description": {"en": "Networks of an example"}, "ip_version": ("u16", version),
        "languages": ["de", "en", "ja"], "node_count": len(tree), "record_size": ("u16", bits)})
    return nodes + bytes(16) + bytes(values.data) + b"\xab\xcd\xefMaxMind.com" + bytes(about.data)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    for name, bits in (("city", 24), ("city28", 28), ("city32", 32)):
        (folder / f"{name}.mmdb").write_bytes(database(CITIES, 6, bits))
    four = {network: record for network, record in CITIES.items() if ":" not in network}
    (folder / "four.mmdb").write_bytes(database(four, 4, 24))


if __name__ == "__main__":
    main()
