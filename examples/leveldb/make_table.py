#!/usr/bin/env python3
"""make_table.py FILE: a small LevelDB table of the keys fruit/000 … fruit/199, in blocks of some 400 bytes, written as LevelDB
does: prefixes shared between restart points, internal keys, CRC-32C. Every key whose number ends in 5 was deleted."""
import struct
import sys

INTERVAL = 16
VALUE, DELETION = 1, 0
TABLE = []
for i in range(256):
    crc = i
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    TABLE.append(crc)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def block(entries, interval):
    data, restarts, before = bytearray(), [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval == 0:
            restarts.append(len(data))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    restarts = restarts or [0]
    return bytes(data) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def write_block(out, data):
    handle = varint(out.tell()) + varint(len(data))
    out.write(data + b"\x00" + struct.pack("<I", masked_crc32c(data + b"\x00")))
    return handle


def internal(key, sequence, kind):
    return key + struct.pack("<Q", sequence << 8 | kind)


entries = []
for number in range(200):
    key = b"fruit/%03d" % number
    if number % 10 == 5:
        entries.append((internal(key, 1000 + number, DELETION), b""))
    entries.append((internal(key, 1 + number, VALUE), b"value of %d" % number))
if len(sys.argv) != 2:
    sys.exit(__doc__)
with open(sys.argv[1], "wb") as out:
    index = []
    for start in range(0, len(entries), 20):
        some = entries[start:start + 20]
        index.append((some[-1][0], write_block(out, block(some, INTERVAL))))
    meta = write_block(out, block([], INTERVAL))
    footer = meta + write_block(out, block(index, 1))
    out.write(footer.ljust(40, b"\x00") + struct.pack("<Q", 0xDB4775248B80FB57))
