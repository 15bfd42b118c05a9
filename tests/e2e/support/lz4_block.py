"""Decompresses one LZ4 block, as ClickHouse stores them."""


def length_of(data, at, nibble):
    length = nibble
    while nibble == 15:
        byte = data[at]
        at += 1
        length += byte
        if byte != 255:
            break
    return length, at


def decompress(data, raw_size):
    out = bytearray()
    at = 0
    while at < len(data):
        token = data[at]
        literals, at = length_of(data, at + 1, token >> 4)
        out += data[at:at + literals]
        at += literals
        if at >= len(data):
            break
        back = data[at] | data[at + 1] << 8
        match, at = length_of(data, at + 2, token & 15)
        match += 4
        start = len(out) - back
        piece = out[start:start + match]
        out += (piece * -(-match // len(piece)))[:match]  # it goes on into what it writes
    assert len(out) == raw_size, f"{len(out)} bytes instead of {raw_size}"
    return bytes(out)
