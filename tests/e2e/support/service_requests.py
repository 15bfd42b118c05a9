"""Random requests to random services: mostly of good form, and others cut, longer or changed."""
from spec_functions import Ended
from spec_records import View

TEXT = b"ab01 ,9:"


def sources(view, so_far):
    """The view over what has been made of the record."""
    view.block = bytes(so_far) + bytes(64)
    return view


def random_field(rng, field, view, so_far):
    view = sources(view, so_far)
    if not view.there(field):
        return b""
    if field.values and rng.random() < 0.97:
        value = rng.choice(field.values)
        return value if isinstance(value, bytes) else value.to_bytes(field.width, field.order, signed=field.signed)
    if field.kind == "int":
        return rng.choice([rng.randbytes(field.width), rng.randrange(1 << min(4, 8 * field.width)).to_bytes(field.width, field.order)])
    if field.kind == "varint":
        return bytes([rng.randrange(128)]) if rng.random() < 0.7 else bytes([rng.randrange(128, 256) for _ in range(rng.randrange(10))]) + b"\1"
    if field.kind == "cstr":
        return bytes(rng.choices(TEXT, k=rng.randrange(field.limit + 1))).replace(field.stop, b"-") + field.stop
    size = field.size
    if field.kind == "counted":
        size = view.masked(field.count)
    elif field.kind == "array" and field.count:
        size = view.masked(field.count) * field.width
    return bytes(rng.choices(TEXT, k=size)) if rng.random() < 0.5 else rng.randbytes(size)


def random_fields(rng, record):
    if record is None:
        return b""
    view = View.__new__(View)
    view.record, view.at, view.by_name = record, 0, {field.name: field for field in record.named()}
    made = bytearray()
    try:
        for field in record.fields:
            made += random_field(rng, field, view, made)
    except Ended:
        pass  # an array has more elements than it may have: what follows has no place
    return bytes(made)


def random_item(rng, item):
    if item.kind in ("literal", "choice"):
        return rng.choice(item.words)
    if item.kind == "int":
        return random_number(rng, rng.choice([rng.randrange(10), rng.randrange(1 << 64), rng.randrange(100000), 0]))
    if item.kind == "several":
        pieces = [random_piece(rng, item.of, item.limit) for _ in range(rng.randrange(item.times[0], item.times[1] + 1))]
        return item.separator.join(pieces)
    return random_piece(rng, item.kind, item.limit)


def random_number(rng, value):
    """Zeros before it are digits, too, of which a number has at most 20."""
    return b"%0*d" % (rng.randrange(18, 24) if rng.random() < 0.03 else 0, value)


def random_piece(rng, kind, limit):
    if kind == "int":
        return random_number(rng, rng.randrange(1000))
    text = b"a01x9" if kind in ("token", "word") else TEXT
    if rng.random() < 0.05:
        return b"random.dat"[:limit]
    return bytes(rng.choices(text, k=rng.randrange(1, min(limit, 40) + 1)))


def random_line(rng, request):
    if not request.rule:
        return b""
    line = b"".join(random_item(rng, item) for item in request.rule.items)
    return line if line.endswith(request.end) and request.rule.items[-1].kind == "literal" else line + request.end


def changed(rng, data):
    way = rng.choice(["cut", "longer", "byte", "bytes"])
    if way == "cut":
        return data[:rng.randrange(len(data) + 1)]
    if way == "longer":
        at = rng.randrange(len(data) + 1)
        return data[:at] + bytes(rng.choices(TEXT, k=rng.choice([1, 2, 30]))) + data[at:]
    data = bytearray(data)
    for _ in range(1 if way == "byte" else 4):
        if data:
            data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), *TEXT])
    return bytes(data)


def random_request(rng, request):
    fields = random_fields(rng, request.nested) + random_fields(rng, request.record)
    if rng.random() < 0.2:
        return changed(rng, fields + random_line(rng, request))
    return fields + random_line(rng, request)


def random_datagram(rng, request):
    """Of several requests, if it may have them."""
    made = random_request(rng, request)
    if request.rule and request.size is not None and rng.random() < 0.4:
        for _ in range(rng.randrange(1, 5)):
            made += random_line(rng, request) if rng.random() < 0.85 else changed(rng, random_line(rng, request))
    if rng.random() < 0.01:
        made += bytes(rng.choices(TEXT, k=9216))
    return made
