"""The arithmetic of the language, written once more: integers of 64 bits, hashes, and integers of varying length in bytes."""
import struct

ALL = (1 << 64) - 1


class Ended(Exception):
    """A chain that has an outcome; `value` is what it returns when that is ok."""
    def __init__(self, outcome, value=None):
        super().__init__(outcome)
        self.outcome, self.value = outcome, value


class Unknown(Exception):
    """The language does not say what becomes of this, so nothing is compared."""


def malformed_unless(holds):
    if not holds:
        raise Ended("malformed")


def truncate(value, bits, signed):
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def wrap(value, signed):
    return truncate(value, 64, signed)


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = crc_table()


def crc32c(data, seed=0):
    crc = ~seed & 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def fnv1a(data, seed):
    value = 0xCBF29CE484222325 ^ seed
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & ALL
    return value


PRIMES = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)


def rotated(value, bits):
    return ((value << bits) | (value >> (64 - bits))) & ALL


def xxh64_round(lane, word):
    return rotated((lane + word * PRIMES[1]) & ALL, 31) * PRIMES[0] & ALL


def xxh64_stripes(data, seed):
    """Of the whole stripes of 32 bytes, of which there is at least one."""
    lanes = [(seed + more) & ALL for more in (PRIMES[0] + PRIMES[1], PRIMES[1], 0, -PRIMES[0])]
    for at in range(0, len(data) - 31, 32):
        lanes = [xxh64_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
    value = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & ALL
    for lane in lanes:
        value = ((value ^ xxh64_round(0, lane)) * PRIMES[0] + PRIMES[3]) & ALL
    return value


def xxh64(data, seed=0):
    value = xxh64_stripes(data, seed) if len(data) >= 32 else seed + PRIMES[4]
    value = (value + len(data)) & ALL
    at = len(data) & ~31
    while at + 8 <= len(data):
        word = struct.unpack_from("<Q", data, at)[0]
        value = (rotated(value ^ xxh64_round(0, word), 27) * PRIMES[0] + PRIMES[3]) & ALL
        at += 8
    if at + 4 <= len(data):
        word = struct.unpack_from("<I", data, at)[0]
        value = (rotated(value ^ (word * PRIMES[0] & ALL), 23) * PRIMES[1] + PRIMES[2]) & ALL
        at += 4
    for byte in data[at:]:
        value = rotated(value ^ (byte * PRIMES[4] & ALL), 11) * PRIMES[0] & ALL
    value = (value ^ (value >> 33)) * PRIMES[1] & ALL
    value = (value ^ (value >> 29)) * PRIMES[2] & ALL
    return value ^ (value >> 32)


def decimal(data):
    malformed_unless(1 <= len(data) <= 20 and all(48 <= byte <= 57 for byte in data))
    malformed_unless(int(data) <= ALL)
    return int(data)


def leb128(data, at):
    """(value, size)"""
    value = size = 0
    while True:
        malformed_unless(at + size < len(data))
        byte = data[at + size]
        malformed_unless(size < 9 or byte <= 1)
        value |= (byte & 127) << (7 * size)
        size += 1
        if byte < 128:
            return value, size


def sqlite_varint(data, at):
    """(value, size): the highest bits come first, and the ninth byte has eight of them."""
    value = size = 0
    while True:
        malformed_unless(at + size < len(data))
        byte = data[at + size]
        size += 1
        if size == 9:
            return (value << 8 | byte) & ALL, size
        value = value << 7 | byte & 127
        if byte < 128:
            return value, size


def zigzag(value):
    return wrap((value >> 1) ^ -(value & 1), True)
