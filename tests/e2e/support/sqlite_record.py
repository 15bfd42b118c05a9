"""SQLite's record format, read independently of the chains: what a payload must decode to."""
import struct


def varint(data, at):
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    return value << 8 | data[at + 8], at + 9


def column(serial, data):
    if serial == 0:
        return None
    if serial == 7:
        return struct.unpack(">d", data)[0]
    if serial in (8, 9):
        return serial - 8
    if serial < 7:
        return int.from_bytes(data, "big", signed=True)
    return bytes(data) if serial % 2 == 0 else data.decode()


def size(serial):
    if serial >= 12:
        return (serial - 12) // 2
    return (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[serial]


def decode(payload):
    """The columns of a payload; an assertion fails when it is not exactly one record."""
    header, at = varint(payload, 0)
    serials = []
    while at < header:
        serial, at = varint(payload, at)
        serials.append(serial)
    assert at == header
    columns = []
    for serial in serials:
        columns.append(column(serial, payload[at:at + size(serial)]))
        at += size(serial)
    assert at == len(payload), f"{len(payload) - at} bytes follow the record"
    return tuple(columns)


def integer_bytes(value):
    if value in (0, 1):
        return 0
    for count in (1, 2, 3, 4, 6, 8):
        if -(1 << 8 * count - 1) <= value < 1 << 8 * count - 1:
            return count
    raise ValueError(value)


def varint_bytes(value):
    return next(count for count in range(1, 10) if count == 9 or value < 1 << 7 * count)


def record_layout(columns, real_columns=()):
    """Bytes of a record's header and of each of its columns. A real column keeps a number without a fraction as an integer."""
    header, sizes = 0, []
    for number, value in enumerate(columns):
        if number in real_columns and isinstance(value, float) and value.is_integer() and abs(value) < 1 << 47:
            value = int(value)
        if value is None:
            serial, count = 0, 0
        elif isinstance(value, int):
            serial, count = 1, integer_bytes(value)
        elif isinstance(value, float):
            serial, count = 7, 8
        else:
            count = len(value.encode() if isinstance(value, str) else value)
            serial = 2 * count + 12
        header += varint_bytes(serial)
        sizes.append(count)
    return header + varint_bytes(header + varint_bytes(header)), sizes


def stored_size(columns, real_columns=()):
    """Bytes of the record of these columns."""
    header, sizes = record_layout(columns, real_columns)
    return header + sum(sizes)


def local_in_table(size, usable):
    """How many of a record's bytes lie on its page of a table; the rest is on overflow pages (section 1.6 of SQLite's file format)."""
    most, least = usable - 35, (usable - 12) * 32 // 255 - 23
    if size <= most:
        return size
    local = least + (size - least) % (usable - 4)
    return local if local <= most else least
