"""Random expressions for random chains: each as it stands in a spec, and for the model."""
from spec_constants import exact_constant, typed_constant
from spec_tree import Expr, Record

EDGES = [0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
HIGH = [(1 << 64) - 1, 1 << 63, (1 << 64) - 256]
PARAMETERS = {"p": ("u", 64), "q": ("i", 64), "t": ("u", 8), "w": ("i", 32)}
STATES = {"su": ("u", 8), "si": ("i", 24), "sw": ("u", 64)}
OF_BLOCK = ("offset", "length", "tag")


def constant(value, kind):
    return Expr(kind, str(value) if value >= 0 else f"({value})", "constant", (value,))


def local(name, kind, place="", bits=64):
    return Expr(kind, name, "local", (name,), place, bits)


def arithmetic(kind, op, left, right):
    return Expr(kind, f"({left.text} {op} {right.text})", "arithmetic", (kind == "i", op, left, right))


def masked(operand, mask):
    """Stands without brackets, since the language binds `&` tighter than comparisons and ranges."""
    return Expr("u", f"{operand.text} & {mask}", "arithmetic", (False, "&", operand, constant(mask, "u")))


def choose(condition, left, right):
    return Expr(left.type, f"({condition.text} ? {left.text} : {right.text})", "choose", (condition, left, right), left.place, max(left.bits, right.bits))


class Expressions:
    """What can be said with the names of `scope`, with the records of `views` and with the functions."""
    def __init__(self, rng, prefix):
        self.rng, self.prefix, self.names = rng, prefix, 0
        self.scope, self.views, self.buffers, self.functions = [], [], [], []
        # Few, so that some specs have no other constant than the empty one.
        self.literals = rng.choices(["", "0", "ab", "b10a1"], k=rng.choice([1, 2]))
        integers = [(self.plain_arithmetic, 7), (self.division_or_cast, 2), (self.shift, 2), (self.unary, 1), (self.cast, 2), (self.extreme, 1),
                    (self.choice, 1), (self.of_bytes, 2), (self.of_array, 2), (self.of_records, 1), (self.call, 1), (self.bound, 1), (self.folded, 1)]
        self.integer_makers = [maker for maker, times in integers for _ in range(times)]

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.prefix}_{self.names}"

    def constant(self, kind):
        value = self.rng.choice([*EDGES, self.rng.randrange(1 << 16), self.rng.randrange(1 << 63)])
        if kind == "i" and self.rng.random() < 0.4:
            value = -value
        if kind == "u" and self.rng.random() < 0.1:
            value = self.rng.choice(HIGH)
        return exact_constant(self.rng, kind) if self.rng.random() < 0.2 else constant(value, kind)

    def folded(self, kind, depth):
        """The compiler computes one side of it, which has a type."""
        return arithmetic(kind, self.rng.choice("+^"), self.of_constants(kind, 3), self.named_integer(kind))

    def of_constants(self, kind, depth):
        if depth == 0 or self.rng.random() < 0.2:
            return typed_constant(self.rng, kind)
        way, left = self.rng.randrange(8), self.of_constants(kind, depth - 1)
        if way == 0:
            return Expr(kind, f"(~{left.text})", "invert", (kind == "i", left))
        if way == 1:
            bits = self.rng.choice([8, 24, 32, 48, 64])
            return Expr(kind, f"({left.text} as {kind}{bits})", "cast", (kind == "i", bits, left), bits=bits)
        if way == 2:
            return Expr(kind, *self.shifted(kind, left, constant(self.rng.randrange(64), "u")))
        right = self.of_constants(kind, depth - 1) if self.rng.random() < 0.7 else self.constant(kind)
        if way == 3:
            op = self.rng.choice(["==", "!=", "<", "<=", ">", ">="])
            return choose(Expr("b", f"({left.text} {op} {right.text})", "compare", (op, left, right)), left, right)
        if way == 4:
            word, op = self.rng.choice([("min", "least"), ("max", "greatest")])
            return Expr(kind, f"{word}({left.text}, {right.text})", op, (left, right), bits=max(left.bits, right.bits))
        if way == 5 and kind == "u":
            return self.divided(left, arithmetic("u", "|", right, typed_constant(self.rng, "u", 1)))
        return arithmetic(kind, self.rng.choice("+-*&|^"), left, right)

    def divided(self, left, right):
        op = self.rng.choice("/%")
        return Expr("u", f"({left.text} {op} {right.text})", "divide", (op, left, right))

    def or_constant(self, kind, depth, share):
        return self.constant(kind) if self.rng.random() < share else self.integer(kind, depth)

    def integer(self, kind, depth):
        if depth <= 0 or self.rng.random() < 0.15:
            return self.named_integer(kind)
        # Some have nothing to work on, such as an array.
        return self.rng.choice(self.integer_makers)(kind, depth - 1) or self.integer(kind, depth - 1)

    def named_integer(self, kind):
        named = [expr for expr in self.scope if expr.type == kind]
        named += [Expr(kind, name, "argument", (name,), bits=bits) for name, (of, bits) in PARAMETERS.items() if of == kind]
        named += [Expr(kind, name, "state", (name,), bits=bits) for name, (of, bits) in STATES.items() if of == kind]
        if kind == "u":
            named += [Expr(kind, f"block.{name}", "of_block", (name,)) for name in OF_BLOCK]
        for view, record in self.all_views():
            named += [expr for expr in self.integers_of(view, view, record) if expr.type == kind]
        return self.rng.choice(named)

    def all_views(self):
        """Those in them, too: of their names, one that has a dot is a field of one before."""
        return [each for view, record in self.views for each in [(view, record), *((f"{view}.{field.name}", field.inner) for field in record.nested())]]

    @staticmethod
    def integers_of(text, view, record):
        """As they are spelled behind `text`."""
        for field in record.named():
            if field.kind in ("int", "varint", "let"):
                yield from [Expr(field.type, f"{text}.{field.name}", "field", (view, field.name), bits=field.bits)] * 2
            if field.kind == "bits":
                for name, lowest, width in field.parts:
                    yield Expr("u", f"{text}.{field.name}.{name}", "bits", (view, field.name, lowest, width), bits=(width + 7) // 8 * 8)

    def plain_arithmetic(self, kind, depth):
        operands = [self.integer(kind, depth), self.or_constant(kind, depth, 0.3)]
        if self.rng.random() < 0.3:
            operands.reverse()
        return arithmetic(kind, self.rng.choice("+-*&|^"), *operands)

    def division_or_cast(self, kind, depth):
        if kind == "i":
            operand = self.integer(self.rng.choice("ui"), depth)
            return Expr("i", f"({operand.text} as i64)", "cast", (True, 64, operand))
        left, right = self.integer("u", depth), self.or_constant("u", depth, 0.4)
        if right.op != "constant" and self.rng.random() < 0.8:
            right = arithmetic("u", "|", right, constant(1, "u"))
        elif right.op == "constant" and right.args[0] == 0:
            right = constant(3, "u")
        return self.divided(left, right)

    def shift(self, kind, depth):
        op, left = self.rng.choice(["<<", ">>"]), self.integer(kind, depth)
        right = constant(self.rng.randrange(64), "u") if self.rng.random() < 0.5 else self.integer("u", depth)
        return Expr(kind, *self.shifted(kind, left, right, op))

    def shifted(self, kind, left, right, op=None):
        op = op or self.rng.choice(["<<", ">>"])
        return f"({left.text} {op} {right.text})", "shift", (kind == "i", op, left, right)

    def unary(self, kind, depth):
        operand = self.integer(kind, depth)
        if kind == "i" and self.rng.random() < 0.5:
            return Expr("i", f"(-({operand.text}))", "negate", (operand,))
        return Expr(kind, f"(~({operand.text}))", "invert", (kind == "i", operand))

    def cast(self, kind, depth):
        bits, operand = self.rng.choice([8, 16, 24, 32, 40, 48, 56, 64]), self.integer(self.rng.choice("ui"), depth)
        return Expr(kind, f"({operand.text} as {kind}{bits})", "cast", (kind == "i", bits, operand), bits=bits)

    def extreme(self, kind, depth):
        word, op = self.rng.choice([("min", "least"), ("max", "greatest")])
        left, right = self.integer(kind, depth), self.or_constant(kind, depth, 0.3)
        return Expr(kind, f"{word}({left.text}, {right.text})", op, (left, right), bits=max(left.bits, right.bits))

    def choice(self, kind, depth):
        if self.rng.random() < 0.1:
            return self.decided(kind)
        return choose(self.truth(depth), self.integer(kind, depth), self.or_constant(kind, depth, 0.3))

    def decided(self, kind):
        """Which side it is, the compiler knows; how wide it is, both say."""
        if self.rng.random() < 0.3:
            word, op = self.rng.choice([("min", "least"), ("max", "greatest")])
            left, right = typed_constant(self.rng, kind), typed_constant(self.rng, kind)
            return Expr(kind, f"{word}({left.text}, {right.text})", op, (left, right), bits=max(left.bits, right.bits))
        held = self.rng.choice(["true", "false"])
        sides = [self.named_integer(kind), self.rng.choice([self.named_integer(kind), typed_constant(self.rng, kind)])]
        return choose(Expr("b", held, "constant", (held == "true",)), *self.rng.sample(sides, 2))

    def call(self, kind, depth):
        functions = [function for function in self.functions if function.type == kind]
        if not functions:
            return None
        function = self.rng.choice(functions)
        given = [self.bytes(depth) if function.of_bytes else self.integer(kind, depth), self.integer(kind, depth)]
        return Expr(kind, f"{function.name}({given[0].text}, {given[1].text})", "call", (function, *given),
                    bits=function.bits(given))

    def of_bytes(self, kind, depth):
        data = self.bytes(depth)
        way = self.rng.choice(["length"] * 4 + ["element", "crc32c", "xxh64", "fnv1a", "decimal", "integer"]) if kind == "u" else "integer"
        if way == "integer":
            return self.integer_of(kind, data)
        if way == "length":
            return Expr("u", f"{data.text}.length", "length", (data,))
        if way == "element":
            index, mask = self.integer("u", 0), self.rng.choice([0, 0, 1, 7])
            return Expr("u", f"{data.text}[{index.text} & {mask}]", "element", (data, index, mask), bits=8)
        if way == "decimal":
            return Expr("u", f"{data.text}.decimal()", "hash", (way, data)) if self.rng.random() < 0.3 else None
        bits = 32 if way == "crc32c" else 64
        if way == "fnv1a" or self.rng.random() < 0.5:
            seed = self.integer("u", depth)
            return Expr("u", f"{way}({data.text}, {seed.text})", "hash", (way, data, seed), bits=bits)
        return Expr("u", f"{way}({data.text})", "hash", (way, data), bits=bits)

    def integer_of(self, kind, data):
        """The compiler wants to know that there are at most eight bytes, or asks the run when their number varies."""
        if data.op in ("slice", "first", "choose"):
            return None
        if self.rng.random() < 0.5:
            data = self.first(data, self.rng.randrange(9))
        elif data.text not in ("s", "sb"):
            return None
        order = self.rng.choice(["big", "little"])
        return Expr(kind, f"{data.text}.{'int' if kind == 'i' else 'uint'}_{order[0]}e()", "integer", (kind == "i", order, data))

    def arrays(self, kinds="ui"):
        """(Expr, type of the elements)"""
        return [(Expr("a", f"{view}.{field.name}", "field", (view, field.name), bits=field.bits), field.type)
                for view, record in self.all_views() for field in record.arrays() if field.type in kinds]

    def record_arrays(self):
        """(Expr, record of the elements)"""
        return [(Expr("a", f"{view}.{field.name}", "field", (view, field.name)), field.inner)
                for view, record in self.all_views() for field in record.of_records()]

    def sliced(self, array):
        """Sometimes a part of it, which some arrays are too short for."""
        if self.rng.random() < 0.8:
            return array
        low, length = masked(self.integer("u", 0), self.rng.choice([0, 0, 1])), self.rng.choice([0, 1, 1, 2])
        high = Expr("u", f"({low.text}) + {length}", "arithmetic", (False, "+", low, constant(length, "u")))
        if self.rng.random() < 0.4:
            high = None
        return Expr("a", f"{array.text}[{low.text}..{high.text if high else ''}]", "slice", (array, low, high), bits=array.bits)

    def lambda_of(self, of, wanted, depth, bits=64):
        """(name, body): what to do with an element of this type, or record."""
        name = self.name("c")
        if isinstance(of, Record):
            self.views.append((name, of))
        else:
            self.scope += [local(name, of, bits=bits)] * 2
        body = self.truth(depth) if wanted == "b" else self.integer(wanted, depth)
        if isinstance(of, Record):
            self.views.pop()
        else:
            del self.scope[-2:]
        return name, body

    def filtered(self, array, of, depth):
        name, condition = self.lambda_of(of, "b", depth, array.bits)
        return Expr("a", f"{array.text}.filter({name} => {condition.text})", "filter", (array, name, condition), bits=array.bits)

    def mapped(self, array, of, depth, word, wanted):
        name, body = self.lambda_of(of, wanted, depth, array.bits)
        return Expr("a", f"{array.text}.{word}({name} => {body.text})", "map", (array, name, body), bits=body.bits)

    def of_records(self, kind, depth):
        if not self.record_arrays():
            return None
        array, record = self.rng.choice(self.record_arrays())
        array = self.sliced(array)
        if kind == "u" and self.rng.random() < 0.3:
            return Expr("u", f"{array.text}.count()", "length", (array,))
        array = self.filtered(array, record, depth) if self.rng.random() < 0.4 else array
        summed = self.mapped(array, record, depth, "sum", kind)
        return Expr(kind, summed.text, "sum", (kind == "i", summed))

    def of_array(self, kind, depth):
        if kind == "u" and self.arrays() and self.rng.random() < 0.3:
            array, of = self.rng.choice(self.arrays())
            array = self.sliced(array)
            array = self.filtered(array, of, depth) if self.rng.random() < 0.5 else array
            return Expr("u", f"{array.text}.count()", "length", (array,))
        if not self.arrays(kind):
            return None
        array = self.sliced(self.rng.choice(self.arrays(kind))[0])
        way = self.rng.choice(["element", "sum", "of each", "filtered"])
        if way == "element":
            index, mask = self.integer("u", 0), self.rng.choice([0, 0, 1, 3])
            return Expr(kind, f"{array.text}[{index.text} & {mask}]", "element", (array, index, mask), bits=array.bits)
        if way == "sum":
            return Expr(kind, f"{array.text}.sum()", "sum", (kind == "i", array))
        if way == "filtered":
            array = self.filtered(array, kind, depth)
        summed = self.mapped(array, kind, depth, "sum", kind)
        return Expr(kind, summed.text, "sum", (kind == "i", summed))

    def bound(self, kind, depth):
        # Only few arrays are sorted, and of others nothing is known.
        if kind == "i" or not self.arrays() or self.rng.random() < 0.6:
            return None
        array, key, by = self.searched(depth)
        word = self.rng.choice(["lower_bound", "upper_bound"])
        return Expr("u", f"{array.text}.{word}({key.text}{by.text if by else ''})", word, (by or array, key))

    def searched(self, depth):
        """(an array, what to look for in it, how its elements are compared with that)"""
        arrays = self.arrays() + self.record_arrays()
        array, of = self.rng.choice(arrays)
        array, wanted = self.sliced(array), self.rng.choice("uui") if isinstance(of, Record) else of
        if isinstance(of, Record) or self.rng.random() < 0.2:
            by = self.mapped(array, of, 1, "", wanted)
            name, body = by.args[1:]
            return array, self.or_constant(wanted, depth, 0.4), Expr("a", f" by {name} => {body.text}", "keys", by.args)
        return array, self.or_constant(wanted, depth, 0.4), None

    def truth(self, depth):
        way = self.rng.randrange(10)
        if depth > 0 and way < 3:
            left, right = self.truth(depth - 1), self.truth(depth - 1)
            op, word = self.rng.choice([("&&", "and"), ("||", "or")])
            return Expr("b", f"({left.text} {op} {right.text})", word, (left, right))
        if depth > 0 and way == 3:
            operand = self.truth(depth - 1)
            return Expr("b", f"(!{operand.text})", "not", (operand,))
        if way == 4:
            return self.is_in(self.rng.choice("ui"), depth - 1)
        named = [expr for expr in self.scope if expr.type == "b"]
        if way == 5 and named:
            return self.rng.choice(named)
        return self.comparison(depth - 1, of_bytes=way == 6)

    def is_in(self, kind, depth):
        operand = self.integer(kind, depth)
        values = {expr.args[0]: expr.text for expr in (self.constant(kind) for _ in range(3))}
        return Expr("b", f"({operand.text} in ({', '.join(values.values())}))", "is_in", (operand, frozenset(values)))

    def comparison(self, depth, of_bytes):
        op, kind = self.rng.choice(["==", "!=", "<", "<=", ">", ">="]), self.rng.choice("ui")
        if of_bytes:
            left, right = self.bytes(depth), self.bytes(depth)
            if left.place == right.place == "literal":
                right = Expr("y", "s", "argument", ("s",), "args")
        else:
            left, right = self.integer(kind, depth), self.or_constant(kind, depth, 0.4)
        return Expr("b", f"({left.text} {op} {right.text})", "compare", (op, left, right))

    def named_bytes(self):
        literal = self.rng.choice(self.literals)
        named = [expr for expr in self.scope if expr.type == "y"]
        named += [Expr("y", "s", "argument", ("s",), "args"), Expr("y", "sb", "state", ("sb",), "state"), Expr("y", "block", "block", (), "block"),
                  Expr("y", f'"{literal}"', "constant", (literal.encode(),), "literal")]
        named += [local(name, "y", "state") for name, _ in self.buffers] * 2
        for view, record in self.all_views():
            for field in record.named():
                if field.kind in ("bytes", "counted", "cstr"):
                    named += [Expr("y", f"{view}.{field.name}", "field", (view, field.name), "block")] * 2
        return named

    def bytes(self, depth, place=None):
        """Of this place, if one is given: only such can be chosen between."""
        data = self.rng.choice([expr for expr in self.named_bytes() if place in (None, expr.place)])
        if data.op == "block" or (depth > 0 and data.place != "literal" and self.rng.random() < 0.4):
            return self.slice(data)
        if depth > 0 and self.rng.random() < 0.15:
            return choose(self.truth(depth - 1), data, self.bytes(0, data.place))
        return data

    def slice(self, data):
        """Of the block always one whose length is known: the whole of it may be too long for what takes it."""
        if data.op == "block":
            return self.fixed_slice(data, self.rng.choice([0, 1, 3, 15]), [1, 2, 4, 8, 9, 30])
        mask, way = self.rng.choice([0, 1, 1, 3]), self.rng.choice(["fixed", "from", "to", "first", "first"])
        if way == "first" and data.op != "slice":
            return self.first(data, self.rng.randrange(9))
        if way == "fixed":
            return self.fixed_slice(data, mask, [0, 1, 1, 2, 4, 9])
        edge = masked(self.integer("u", 0), mask)
        low, high = (edge, None) if way == "from" else (None, edge)
        return Expr("y", f"{data.text}[{low.text if low else ''}..{high.text if high else ''}]", "slice", (data, low, high), data.place)

    @staticmethod
    def first(data, most):
        """At most so many: unlike the others this is never malformed."""
        return Expr("y", f"{data.text}[..min({most}, {data.text}.length)]", "first", (data, most), data.place)

    def fixed_slice(self, data, mask, lengths):
        low, length = masked(self.integer("u", 0), mask), self.rng.choice(lengths)
        high = Expr("u", f"({low.text}) + {length}", "arithmetic", (False, "+", low, constant(length, "u")))
        return Expr("y", f"{data.text}[{low.text}..{high.text}]", "slice", (data, low, high), data.place)

    def of_the_block(self, lengths):
        """A slice of the block itself, whose offset is known."""
        return self.fixed_slice(Expr("y", "block", "block", (), "block"), 15, lengths)
