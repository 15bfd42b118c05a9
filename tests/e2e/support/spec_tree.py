"""What a random chain consists of: each part knows how it stands in a spec, and what the model (spec_model.py) shall do with it.

Types of expressions: `u` and `i` are integers of 64 bits, without and with a sign, `b` is a truth value and `y` are bytes.
"""
import dataclasses

ROOM = 600  # of a result


@dataclasses.dataclass(frozen=True)
class Expr:
    type: str
    text: str
    op: str  # the model's Run.value_OP(*args)
    args: tuple = ()
    place: str = ""  # of bytes: block, args, state or literal; the language treats them differently
    bits: int = 64  # of integers: what `emit` writes


@dataclasses.dataclass(frozen=True)
class Stmt:
    lines: tuple
    op: str  # the model's Run.do_OP(*args)
    args: tuple = ()
    ends: bool = False  # what follows in the same block would never run


@dataclasses.dataclass(frozen=True)
class Masked:
    """A field of the same record, or some of its bits: as long is a later field, or so decided is whether it is there."""
    name: str
    mask: int

    @property
    def text(self):
        return f"({self.name} & {self.mask})"


@dataclasses.dataclass(eq=False)  # two paddings may look the same and stand in different places
class Field:
    name: str  # _: padding
    kind: str  # int, bits, bytes, padding, skip (`_: at N`), counted (bytes), array, varint, cstr, record or let
    text: str = ""
    width: int = 0  # of the integer or of an element, in bytes
    signed: bool = False
    order: str = "little"
    size: int = 0  # in bytes where that is known, else 0
    count: object = None  # Masked; None: `limit` elements
    limit: int = 0
    form: str = ""  # of a varint
    stop: bytes = b"\0"  # behind a cstr
    parts: tuple = ()  # of bits: (name, lowest bit, width)
    values: tuple = ()  # the only ones that it may have
    when: Masked = None  # it is there when these bits are 0
    source: str = ""  # a let is source * factor + 1
    factor: int = 0
    fixed: int = None  # the offset, unless a field before it has no fixed size
    at: object = None  # the place that it says itself: a number, or Masked
    inner: object = None  # the Record that it is, or of which its elements are

    @property
    def type(self):
        return "i" if self.signed else "u"

    @property
    def bits(self):
        return 8 * self.width if self.kind in ("int", "array") else 64


@dataclasses.dataclass
class Record:
    name: str
    fields: list = dataclasses.field(default_factory=list)  # those that take up bytes
    lets: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)
    size: int = None  # in bytes, where the end has a fixed place

    def named(self):
        return [field for field in self.fields + self.lets if field.name != "_"]

    def arrays(self):
        return [field for field in self.fields if field.kind == "array" and not field.inner]

    def of_records(self):
        return [field for field in self.fields if field.kind == "array" and field.inner]

    def nested(self):
        return [field for field in self.fields if field.kind == "record"]

    @property
    def text(self):
        inner = {id(field.inner): field.inner.text for field in self.fields if field.inner}
        return "".join(inner.values()) + f"record {self.name} {{\n  " + "\n  ".join(self.lines) + "\n}\n"


@dataclasses.dataclass(frozen=True)
class Item:
    """A part of a text rule."""
    kind: str  # literal, int, word, token, choice, rest or several
    text: str
    name: str = ""
    limit: int = 0
    words: tuple = ()  # of a choice; of a literal its one
    of: str = ""  # of several: int, word or token
    times: tuple = ()  # and how many of them at least and at most
    separator: bytes = b""


@dataclasses.dataclass(frozen=True)
class TextRule:
    name: str
    items: tuple

    @property
    def text(self):
        return f"text {self.name} {{ {' '.join(item.text for item in self.items)} }}\n"


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple
    type: str
    body: Expr
    of_bytes: bool = False  # the first parameter is bytes

    def bits(self, given):
        """How wide its value is where it is called with these."""
        return bits_of(self.body, dict(zip(self.parameters, (each.bits for each in given))))

    @property
    def text(self):
        return f"fn {self.name}({', '.join(self.parameters)}) = {self.body.text}\n"


def bits_of(expr, parameters):
    if expr.op == "local":
        return parameters.get(expr.args[0], expr.bits)
    return max(bits_of(side, parameters) for side in expr.args[1:]) if expr.op == "choose" else expr.bits


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    view: str
    record: Record
    at: str
    body: list


@dataclasses.dataclass
class Chain:
    name: str
    result: str  # the type of its expression
    bits: int  # how wide an integer result is
    records: list
    rules: list
    functions: list
    steps: dict

    @property
    def text(self):
        returned = f"bytes(max {ROOM})" if self.result in "ye" else f"{self.result}{self.bits}"
        lines = [f"chain {self.name}(f: file data, p: u64, q: i64, t: u8, w: i32, s: bytes(max 20)) -> {returned} hops 4 {{",
                 "  state { su: u8 = p  si: i24 = q  sw: u64  sb: bytes(max 40) }"]
        for step in self.steps.values():
            lines += [f"  step {step.name}({step.view}: {step.record.name} at {step.at} for 300) {{",
                      *indented(indented(lines_of(step.body))), "  }"]
        named = "".join(part.text for part in [*self.records, *self.rules, *self.functions])
        return named + "\n".join(lines) + "\n}\n"


def lines_of(body):
    return [line for stmt in body for line in stmt.lines]


def indented(lines):
    return ["  " + line for line in lines]
