"""Random records and text rules for random chains."""
from spec_tree import Field, Item, Masked, Record, TextRule

OF_ONE_SIZE = ["int"] * 5 + ["bits", "bytes", "bytes", "array", "let", "padding", "skip", "placed"]
KINDS = OF_ONE_SIZE + ["counted", "array", "varint", "cstr", "record", "records"]
MAY_BE_ABSENT = ("int", "bytes", "bits", "counted", "array", "varint", "cstr", "record")
LITERALS = {'"a"': b"a", '"ab"': b"ab", '"b"': b"b", '" "': b" ", '"1"': b"1", '"\\0"': b"\0"}
CHOICES = ["a", "ab", "abb", "b", "0", "00", "01", "1"]


def integer_type(width, signed, order):
    suffix = "" if width == 1 else "le" if order == "little" else "be"
    return f"{'i' if signed else 'u'}{width * 8}{suffix}"


class RecordMaker:
    """Makes one record, field by field; a field may depend on integers before it that are always there."""
    only_fixed = False  # nothing depends on anything: the record has one size

    def __init__(self, rng, name, only_fixed=False):
        self.rng, self.record, self.offset, self.only_fixed = rng, Record(name), 0, only_fixed
        self.furthest = 0
        # At least one integer, so that there is something to compute with.
        self.add("int")
        for _ in range(rng.randrange(1, 8)):
            self.add(rng.choice(OF_ONE_SIZE if only_fixed else KINDS))
        # A record ends where its last field ends.
        if self.offset is not None and self.offset < self.furthest:
            self.skip_to(self.furthest)
        self.record.size = self.offset

    def sources(self, signed=(False,)):
        return [field for field in self.record.fields if field.kind in ("int", "varint") and field.when is None and field.signed in signed]

    def add(self, kind):
        if kind == "counted" and not self.sources():
            kind = "int"
        name = f"{self.record.name.lower()}_{len(self.record.lines)}"
        field = Field(name, kind)
        getattr(self, "make_" + kind)(field)
        if field.kind in ("let", "skip"):
            return
        self.sometimes(field)
        self.place(field)
        self.record.fields.append(field)

    def sometimes(self, field):
        if self.only_fixed or not self.sources() or field.values:
            return
        # Whoever looks at what is not there learns nothing else any more.
        if field.kind in MAY_BE_ABSENT and self.rng.random() < 0.15:
            field.when = Masked(self.rng.choice(self.sources()).name, self.rng.choice([1, 2, 3, 128, 192]))

    def place(self, field):
        line = f"{field.name}: {field.text}"
        if field.at is not None:
            line += f" at {field.at if isinstance(field.at, int) else field.at.text}"
            self.offset = field.at if isinstance(field.at, int) else None
        if field.when:
            line += f" when {field.when.name} & {field.when.mask} == 0"
        self.record.lines.append(line)
        field.fixed = self.offset
        self.offset = self.offset + field.size if self.offset is not None and field.size and not field.when else None
        if field.size and field.fixed is not None:
            self.furthest = max(self.furthest, field.fixed + field.size)

    def skip_to(self, at):
        """`_: at N`, where that is not behind N already."""
        if isinstance(at, int) and self.offset is not None:
            at = max(at, self.offset)
        self.record.lines.append(f"_: at {at if isinstance(at, int) else at.text}")
        self.record.fields.append(Field("_", "skip", at=at, fixed=self.offset))
        self.offset = at if isinstance(at, int) else None

    def masked(self, masks):
        return Masked(self.rng.choice(self.sources()).name, self.rng.choice(masks))

    def make_int(self, field):
        field.width = field.size = self.rng.randrange(1, 9)
        field.signed, field.order = self.rng.random() < 0.4, self.rng.choice(["little", "big"])
        field.text = integer_type(field.width, field.signed, field.order)
        # Few: most blocks have something else there. Which of an array's elements are looked at is nobody's business.
        if field.width == 1 and not self.only_fixed and self.rng.random() < 0.05:
            field.values = tuple(sorted(self.rng.sample(range(9), 7)))
            field.text += " in { " + ", ".join(f"{value} {field.name}_{value}" for value in field.values) + " }"

    def make_bits(self, field):
        field.width = field.size = self.rng.choice([1, 2, 3, 4, 8])
        field.order, at, parts, inner = self.rng.choice(["little", "big"]), 0, [], []
        while at < field.width * 8:
            width = self.rng.randrange(1, field.width * 8 - at + 1)
            name = f"q{at}" if not parts or self.rng.random() < 0.5 else "_"
            if name != "_":
                parts.append((name, at, width))
            inner.append(f"{name}: {width}")
            at += width
        field.parts = tuple(parts)
        field.text = f"bits {integer_type(field.width, False, field.order)} {{ {'  '.join(inner)} }}"

    def make_bytes(self, field):
        field.size = self.rng.randrange(1, 20)
        field.text = f"bytes({field.size})"

    def make_padding(self, field):
        field.name, field.size = "_", self.rng.randrange(1, 5)
        field.text = f"bytes({field.size})"

    def make_counted(self, field):
        field.count = self.masked([3, 7, 15])
        field.text = f"bytes({field.count.text})"

    def make_array(self, field):
        field.width, field.signed = self.rng.choice([1, 1, 2, 2, 3, 4, 5, 8]), self.rng.random() < 0.5
        field.order = self.rng.choice(["little", "big"])
        element = integer_type(field.width, field.signed, field.order)
        self.of_many(field, element)

    def of_many(self, field, element):
        if not self.only_fixed and self.sources() and self.rng.random() < 0.8:
            field.count, field.limit = self.masked([3, 7, 7, 15]), self.rng.choice([7, 20, 100, 255])
            field.text = f"{element}[{field.count.text} max {field.limit}]"
        else:
            field.limit = self.rng.randrange(1, 9)
            field.size, field.text = field.limit * field.width, f"{element}[{field.limit}]"

    def make_placed(self, field):
        """An integer at a place of its own, which may be one before it."""
        field.kind = "int"
        self.make_int(field)
        field.at = self.rng.randrange(60)
        if not self.only_fixed and self.sources() and self.rng.random() < 0.5:
            field.at = self.masked([7, 31, 63])

    def make_skip(self, field):
        field.kind = "skip"
        if not self.only_fixed and self.sources() and self.rng.random() < 0.4:
            self.skip_to(self.masked([31, 63]))
        else:
            self.skip_to(self.rng.choice([40, 80, 120, 200]) if self.offset is None else self.offset + self.rng.randrange(9))

    def make_record(self, field):
        field.inner = random_record(self.rng, f"{self.record.name}n{len(self.record.lines)}", depth=1)
        field.text, field.size = field.inner.name, field.inner.size or 0

    def make_records(self, field):
        field.kind = "array"
        field.inner = RecordMaker(self.rng, f"{self.record.name}m{len(self.record.lines)}", only_fixed=True).record
        field.width = field.inner.size
        self.of_many(field, field.inner.name)

    def make_varint(self, field):
        field.form = self.rng.choice(["leb128", "zigzag", "sqlite"])
        field.signed, field.text = field.form == "zigzag", "varint_" + field.form

    def make_cstr(self, field):
        field.limit = self.rng.randrange(1, 30)
        field.stop = self.rng.choice([b"\0", b"\0", b"\n", b":", b"a"])
        by = {b"\0": "", b"\n": ' by "\\n"'}.get(field.stop, f' by "{field.stop.decode()}"')
        field.text = f"cstr(max {field.limit}{by})"

    def make_let(self, field):
        if not self.sources((False, True)):
            return
        source = self.rng.choice(self.sources((False, True)))
        field.source, field.factor, field.signed = source.name, self.rng.randrange(1, 100), source.signed
        self.record.lets.append(field)
        self.record.lines.append(f"let {field.name} = {field.source} * {field.factor} + 1")


def random_record(rng, name, depth=0):
    """Of depth 1: one without records in it."""
    while True:
        record = RecordMaker(rng, name).record
        if depth == 0 or not (record.nested() or record.of_records()):
            return record


def literal(text):
    return Item("literal", text, words=(LITERALS[text],))


def random_item(rng, kind, name):
    if kind == "literal":
        return literal(rng.choice(list(LITERALS)))
    if kind == "int":
        return Item(kind, f"{name}: int", name)
    if kind == "choice":
        words = rng.sample(CHOICES, 3)
        listed = " | ".join(f'"{w}"' for w in words)
        return Item(kind, f"{name}: ({listed})", name, words=tuple(w.encode() for w in words))
    limit = rng.choice([1, 2, 5, 30])
    return Item(kind, f"{name}: {kind}(max {limit})", name, limit)


def may_follow(before, item):
    """Whether something can match both: what cannot is refused (CH0207)."""
    first, second = before.of or before.kind, item.of or item.kind
    begins = [word[:1] for word in item.words]
    if first == "int":
        return second != "int" and not (begins and all(byte.isdigit() for byte in begins))
    if first == "word" and before.separator[:1] in b" \t\r\n":
        return second not in ("word", "int") and not (begins and all(byte not in b" \t\r\n" for byte in begins))
    return True


def random_rule(rng, name):
    """What a token ends at has to be a literal, and two of them are one."""
    items = []
    for number in range(rng.randrange(2, 6)):
        before = items[-1] if items else None
        while True:
            kinds = ["int", "word", "choice", "token"] + (["literal"] if not before or before.kind != "literal" else [])
            kind = "literal" if before and before.kind == "token" else rng.choice(kinds)
            item = random_item(rng, kind, f"c{number}")
            if not before or may_follow(before, item):
                break
        items.append(item)
    if items[-1].kind == "token":
        items.append(literal('"b"'))
    elif rng.random() < 0.2:
        items.append(random_item(rng, "rest", "c_rest"))
    return TextRule(name, tuple(items))
