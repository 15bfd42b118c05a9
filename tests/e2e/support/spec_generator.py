"""Random chains: the same seed gives the same one, and every one reads at most four blocks."""
import random

from spec_expressions import Expressions, arithmetic, choose, constant, local, masked
from spec_shapes import random_record, random_rule
from spec_tree import Chain, Expr, Function, Record, Step, Stmt, indented, lines_of

DEPTH = 3  # of expressions, and of blocks within each other
STATE_BITS = {"su": ("u", 8), "si": ("i", 24), "sw": ("u", 64)}
STATE_ROOM = 40


SW = Expr("u", "sw", "state", ("sw",))


def as_signed(expr):
    return Expr("i", f"({expr.text} as i64)", "cast", (True, 64, expr))


def noted_value(expr):
    """An integer without a sign that is another one when the value is."""
    if expr.type == "i":
        return Expr("u", f"({expr.text} as u64)", "cast", (False, 64, expr))
    if expr.type == "b":
        return choose(expr, constant(1, "u"), constant(0, "u"))
    if expr.type == "y":
        return Expr("u", f"crc32c({expr.text})", "hash", ("crc32c", expr))
    return expr


def braced(head, *bodies):
    """`head { … } else { … }`"""
    lines = [f"{head} {{", *indented(lines_of(bodies[0]))]
    for body in bodies[1:]:
        lines += ["} else {", *indented(lines_of(body))]
    return (*lines, "}")


class Statements(Expressions):
    def __init__(self, rng, prefix):
        super().__init__(rng, prefix)
        self.records = [random_record(rng, f"R{letter}{prefix}") for letter in "AB"]
        self.rules = [random_rule(rng, f"T{letter}{prefix}") for letter in "AB"]
        self.variables, self.loops = [], 0
        # e: bytes that are emitted.
        self.result, self.result_bits = rng.choice("uuuiiiyee"), rng.choice([8, 16, 24, 32, 64, 64, 64, 64, 64, 64])
        simple = [(self.let, 4), (self.let_bytes, 1), (self.variable, 2), (self.assign, 3), (self.state, 1), (self.state_bytes, 1), (self.record, 1),
                  (self.let_view, 1), (self.extreme_of, 2), (self.buffer, 1), (self.fill, 1), (self.find, 1), (self.find_byte, 1), (self.start, 1)]
        compound = [(self.branch, 3), (self.loop, 2), (self.match, 1), (self.match_whole, 1), (self.pieces, 1), (self.captures, 1), (self.each_record, 1)]
        if self.result == "e":
            simple += [(self.emit, 4), (self.project, 2)]
        self.simple = [maker for maker, times in simple for _ in range(times)]
        self.compound = [maker for maker, times in compound for _ in range(times)]

    def block(self, depth, count):
        """What it names is known only within it. Some statements have nothing to work on: it may have less than `count`."""
        kept = [(names, len(names)) for names in (self.scope, self.variables, self.views, self.buffers)]
        known = len(self.scope)
        body = []
        while count > 0 and not (body and body[-1].ends):
            stmt = self.statement(depth)
            body += [stmt] if stmt else []
            count -= 1
        body[len(body) - (1 if body and body[-1].ends else 0):0] = self.noted(self.scope[known:])
        for names, length in kept:
            del names[length:]
        return body

    def noted(self, named):
        """Takes what is named here into account in the state, of which the result is made: what nothing depends on may be wrong unseen."""
        total = arithmetic("u", "*", SW, constant(31, "u"))
        for expr in named:
            total = arithmetic("u", "^", total, noted_value(expr))
        return [self.set_state("sw", total)] if named else []

    def inner(self, depth, named=(), views=()):
        """A block of one to three statements that may use what is named here; never an empty one."""
        self.scope += named
        self.views += views
        body = self.block(depth - 1, self.rng.randrange(1, 4))
        if not body:
            body = [self.let(0)]
            self.scope.pop()
        del self.scope[len(self.scope) - len(named):]
        del self.views[len(self.views) - len(views):]
        return body

    def looped(self, depth, named=(), views=()):
        self.loops += 1
        body = self.inner(depth, named, views)
        self.loops -= 1
        return body

    def statement(self, depth):
        if depth < DEPTH and self.rng.random() < 0.05:
            return self.leave(depth)
        makers = self.simple + (self.compound if depth > 0 else [])
        return self.rng.choice(makers)(depth)

    def typed(self, kind):
        return self.truth(DEPTH) if kind == "b" else self.integer(kind, DEPTH)

    def let(self, _):
        kind, name = self.rng.choice("uib"), self.name("v")
        expr = self.typed(kind)
        self.scope.append(local(name, kind, bits=expr.bits))
        return Stmt((f"let {name} = {expr.text}",), "let", (name, expr))

    def let_bytes(self, _):
        """Few of a variable's bytes: the compiler refuses such a name once the variable may have changed (CH0262)."""
        expr, name = self.bytes(DEPTH), self.name("v")
        if expr.place == "literal" or (expr.place == "state" and self.rng.random() < 0.6):
            return None
        self.scope.append(local(name, "y", expr.place))
        return Stmt((f"let {name} = {expr.text}",), "let", (name, expr))

    def variable(self, _):
        kind, name = self.rng.choice("uib"), self.name("v")
        expr, bits, declared = self.typed(kind), 64, ""
        if kind != "b" and self.rng.random() < 0.5:
            bits = self.rng.choice([8, 16, 24, 32, 64])
            declared = f": {kind}{bits}"
        self.scope.append(local(name, kind, bits=bits))
        self.variables.append((name, kind, bits))
        return self.set_to(f"var {name}{declared}", name, kind, bits, expr)

    @staticmethod
    def set_to(left, name, kind, bits, expr):
        if kind == "b":
            return Stmt((f"{left} = {expr.text}",), "let", (name, expr))
        return Stmt((f"{left} = {expr.text}",), "set_integer", (name, bits, kind == "i", expr))

    def assign(self, _):
        if not self.variables:
            return None
        name, kind, bits = self.rng.choice(self.variables)
        return self.set_to(name, name, kind, bits, self.typed(kind))

    def state(self, _):
        name = self.rng.choice(list(STATE_BITS))
        expr = self.integer(STATE_BITS[name][0], DEPTH)
        if name == "sw":
            expr = arithmetic("u", "+", expr, SW)  # what is noted there stays
        return self.set_state(name, expr)

    @staticmethod
    def set_state(name, expr):
        kind, bits = STATE_BITS[name]
        return Stmt((f"{name} = {expr.text}",), "set_state", (name, bits, kind == "i", expr))

    def state_bytes(self, _):
        if self.rng.random() < 0.2:
            expr, mask = self.integer("u", 0), self.rng.choice([0, 1, 7])
            return Stmt((f"sb.truncate({expr.text} & {mask})",), "shorten", (expr, mask))
        return self.filled("state", "sb", STATE_ROOM)

    def filled(self, names, name, room):
        """The language keeps buffers apart: none is filled from the state."""
        if self.rng.random() < 0.3:
            kind, bits = self.rng.choice("ui"), self.rng.choice([8, 16, 24, 32])  # no more than each of them holds
            number = self.integer(kind, DEPTH)
            return Stmt((f"{name}.append(({number.text}) as {kind}{bits})",), "append_number", (names, name, room, bits, number))
        expr, word = self.bytes(DEPTH), self.rng.choice(["set", "append"])
        if expr.place == "state":
            return None
        return Stmt((f"{name}.{word}({expr.text})",), "fill", (names, name, room, word == "append", expr))

    def buffer(self, _):
        name, room = self.name("k"), self.rng.choice([4, 16, 60])
        self.buffers.append((name, room))
        return Stmt((f"var {name}: bytes(max {room})",), "no_bytes", (name,))

    def fill(self, _):
        return self.filled("locals", *self.rng.choice(self.buffers)) if self.buffers else None

    def record(self, _):
        record, name, at = self.rng.choice(self.records), self.name("w"), masked(self.integer("u", 1), self.rng.choice([15, 63, 255]))
        self.views.append((name, record))
        return Stmt((f"let {name} = block.record({record.name}, {at.text})",), "record", (name, record, at))

    def let_view(self, _):
        """An element, or a choice between two views of one record."""
        name = self.name("w")
        if self.record_arrays() and self.rng.random() < 0.6:
            array, record = self.rng.choice(self.record_arrays())
            array, index, mask = self.sliced(array), self.integer("u", 0), self.rng.choice([0, 0, 1, 3])
            expr = Expr("v", f"{array.text}[{index.text} & {mask}]", "element", (array, index, mask))
        else:
            path, record = self.rng.choice(self.all_views())
            other = self.rng.choice([each for each, of in self.all_views() if of is record])
            expr = choose(self.truth(1), Expr("v", path, "view", (path,)), Expr("v", other, "view", (other,)))
        self.views.append((name, record))
        return Stmt((f"let {name} = {expr.text}",), "let", (name, expr))

    def extreme_of(self, _):
        if not self.arrays() + self.record_arrays():
            return None
        array, of = self.rng.choice(self.arrays() + self.record_arrays())
        name, word, outcome = self.name("v"), self.rng.choice(["min", "max"]), "empty_one"
        kind = self.rng.choice("ui") if isinstance(of, Record) else of
        mapped = self.mapped(self.sliced(array), of, 2, word, kind)
        self.scope.append(local(name, kind, bits=mapped.bits))
        return Stmt((f"let {name} = {mapped.text} else fail {outcome}",), "extreme", (name, word, mapped, outcome))

    def find(self, _):
        if not self.arrays() + self.record_arrays():
            return None
        array, key, by = self.searched(2)
        name, outcome = self.name("v"), self.rng.choice(["absent", "malformed"])
        self.scope.append(local(name, "u"))
        return Stmt((f"let {name} = {array.text}.find({key.text}{by.text if by else ''}) else fail {outcome}",), "find", (name, by or array, key, outcome))

    def emit(self, _):
        values = [self.bytes(2) if kind == "y" else self.decided(kind) if self.rng.random() < 0.3 else self.typed(kind)
                  for kind in self.rng.choices("uuuiiy", k=self.rng.randrange(1, 4))]
        return Stmt((f"emit {', '.join(value.text for value in values)}",), "emit", (tuple(values),))

    def project(self, _):
        arrays = self.arrays() + self.record_arrays()
        if not arrays:
            return None
        array, of = self.rng.choice(arrays)
        array = self.sliced(array)
        array = self.filtered(array, of, 2) if self.rng.random() < 0.5 else array
        made = [self.lambda_of(of, self.rng.choice("ui"), 2, array.bits) for _ in range(self.rng.randrange(1, 3))]
        return Stmt((f"{array.text}.project({', '.join(f'{name} => {body.text}' for name, body in made)})",), "project", (array, made))

    def find_byte(self, _):
        data, byte, name = self.bytes(2), self.integer("u", 0), self.name("v")
        wanted = (f"{byte.text} as u8", byte) if self.rng.random() < 0.5 else (self.rng.choice(["0", '"a"', "0xff"]), None)
        outcome = self.rng.choice(["absent", "malformed"])
        self.scope.append(local(name, "u"))
        constant_byte = {"0": 0, '"a"': 97, "0xff": 255}.get(wanted[0])
        return Stmt((f"let {name} = {data.text}.find({wanted[0]}) else fail {outcome}",), "find_byte", (name, data, wanted[1], constant_byte, outcome))

    def start(self, _):
        piece, name = self.of_the_block([1, 8, 30]), self.name("v")
        self.scope.append(local(name, "u"))
        return Stmt((f"let {name} = {piece.text}.offset",), "let", (name, Expr("u", "", "start", (piece,))))

    def branch(self, depth):
        condition, bodies = self.truth(DEPTH), [self.inner(depth)]
        if self.rng.random() < 0.5:
            bodies.append(self.inner(depth))
        return Stmt(braced(f"if {condition.text}", *bodies), "if", (condition, bodies[0], bodies[1] if bodies[1:] else []))

    def loop(self, depth):
        name = self.name("i")
        arrays = self.arrays() + self.record_arrays()
        if arrays and self.rng.random() < 0.5:
            array, of = self.rng.choice(arrays)
            most = self.rng.randrange(1, 9)
            array = self.sliced(array)
            array = self.filtered(array, of, DEPTH) if self.rng.random() < 0.5 else array
            if isinstance(of, Record):
                body = self.looped(depth, views=[(name, of)])
            else:
                body = self.looped(depth, [local(name, of, bits=array.bits)])
            return Stmt(braced(f"for {name} in {array.text} max {most}", body), "for_elements", (name, array, most, body))
        low, high, most = masked(self.integer("u", 1), 7), masked(self.integer("u", 1), self.rng.choice([7, 7, 7, 15])), 7
        body = self.looped(depth, [local(name, "u")])
        return Stmt(braced(f"for {name} in range({low.text}, {high.text}) max {most}", body), "for_range", (name, low, high, most, body))

    def match(self, depth):
        expr, mask = self.integer("u", DEPTH), self.rng.choice([1, 3, 7])
        values = self.rng.sample(range(mask + 1), min(mask + 1, 3))
        arms, otherwise = {value: self.inner(depth) for value in values}, self.inner(depth)
        lines = [f"match {expr.text} & {mask} {{"]
        for value, body in [*arms.items(), ("else", otherwise)]:
            lines += indented(braced(str(value), body))
        return Stmt((*lines, "}"), "match", (expr, mask, arms, otherwise))

    def match_whole(self, depth):
        """Of bytes, or of an integer that may have a sign."""
        if self.rng.random() < 0.5:
            expr, texts = self.bytes(1), self.rng.sample(["", "0", "a", "b1", "00"], 2)
            if expr.place == "literal":
                return None
            values = {text.encode(): f'"{text}"' for text in texts}
        else:
            expr = self.integer("i", 1)
            if expr.bits != 64:
                return None
            values = {each.args[0]: each.text for each in (self.constant("i") for _ in range(3))}
        arms = {value: (text, self.inner(depth)) for value, text in values.items()}
        otherwise, lines = self.inner(depth), [f"match {expr.text} {{"]
        for text, body in [*arms.values(), ("else", otherwise)]:
            lines += indented(braced(text, body))
        return Stmt((*lines, "}"), "match_whole", (expr, {value: body for value, (_, body) in arms.items()}, otherwise))

    def pieces(self, depth):
        data, name, limit, most = self.bytes(2, "block"), self.name("x"), self.rng.choice([8, 40, 40, 40]), self.rng.choice([1, 3, 9])
        text, separator = self.rng.choice([(" ", b" "), ("0", b"0"), ("1", b"1"), ("\\0", b"\0")])
        body = self.looped(depth, [local(name, "y", "block")])
        return Stmt(braced(f'for {name} in {data.text}.split("{text}", {limit}, max {most})', body), "for_pieces",
                    (name, data, separator, limit, most, body))

    def captures(self, depth):
        data, name, rule = self.bytes(1, "block"), self.name("m"), self.rng.choice(self.rules)
        named = [Expr("u" if item.kind == "int" else "y", f"{name}.{item.name}", "capture", (name, item.name), "" if item.kind == "int" else "block")
                 for item in rule.items if item.name]
        body = self.inner(depth, named)
        return Stmt(braced(f"when {data.text}.text({rule.name}) as {name}", body), "when_text", (name, data, rule, body))

    def each_record(self, depth):
        piece, record, name, most = self.of_the_block([30, 100, 200]), self.rng.choice(self.records), self.name("w"), self.rng.choice([1, 1, 2, 8])
        body = self.looped(depth, views=[(name, record)])
        return Stmt(braced(f"for {name} in {piece.text}.records({record.name}, max {most})", body), "for_records", (name, piece, record, most, body))

    def leave(self, _):
        """The end of a block: of the loop or of the chain."""
        word = self.rng.choice(["fail", "return", "goto"] + ["break", "continue"] * (self.loops > 0))
        if word == "fail":
            outcome = self.rng.choice(["not_found", "strange", "malformed"])
            return Stmt((f"fail {outcome}",), "fail", (outcome,), True)
        if word in ("break", "continue"):
            return Stmt((word,), word, (), True)
        return self.give_back() if word == "return" else self.go_on()

    def give_back(self):
        if self.result == "e":
            return Stmt(("emit sw", "return"), "return_emitted", (SW,), True)
        if self.result == "y":
            expr = self.bytes(DEPTH)
            return Stmt((f"return {expr.text}",), "return", (expr,), True)
        noted = arithmetic("u", "^", SW, noted_value(Expr("y", "sb", "state", ("sb",))))
        expr = arithmetic(self.result, "^", self.integer(self.result, DEPTH), noted if self.result == "u" else as_signed(noted))
        return Stmt((f"return {expr.text}",), "return_integer", (self.result_bits, self.result == "i", expr), True)

    def go_on(self):
        step, at, tag = self.rng.choice(["one", "two"]), masked(self.integer("u", 2), 2047), self.integer("u", 1)
        length = masked(self.integer("u", 1), 255)
        length = Expr("u", f"({length.text}) + 64", "arithmetic", (False, "+", length, constant(64, "u")))
        return Stmt((f"goto {step} at {at.text} for {length.text} tag {tag.text}",), "goto", (step, at, length, tag), True)

    def random_step(self, name, at):
        view, record = f"v_{name}", self.rng.choice(self.records)
        self.views = [(view, record)]
        body = self.block(DEPTH, self.rng.randrange(3, 9))
        if not body or not body[-1].ends:
            body.append(self.give_back() if name == "two" or self.rng.random() < 0.5 else self.go_on())
        return Step(name, view, record, at, body)


def function_body(rng, parameters, kind, depth):
    if depth == 0 or rng.random() < 0.2:
        return local(rng.choice(parameters), kind)
    left, right = (function_body(rng, parameters, kind, depth - 1) for _ in range(2))
    if rng.random() < 0.15:
        return choose(Expr("b", f"({left.text} < {right.text})", "compare", ("<", left, right)), right, left)
    return arithmetic(kind, rng.choice("+-*&|^"), left, right)


def bytes_function(rng, name):
    """Of bytes, and of how to look at them."""
    data, number = local(f"{name}_a", "y"), local(f"{name}_b", "u")
    first = Expressions.first(data, rng.randrange(9))
    values = [Expr("u", f"{first.text}.uint_be()", "integer", (False, "big", first)), Expr("u", f"{data.text}.length", "length", (data,)),
              Expr("u", f"xxh64({data.text}, {number.text})", "hash", ("xxh64", data, number)), number,
              Expr("u", f"{data.text}[{number.text} & 1]", "element", (data, number, 1), bits=8)]
    left, right, other = rng.choices(values, k=3)
    body = choose(Expr("b", f"({left.text} < {right.text})", "compare", ("<", left, right)), right, other)
    return Function(name, (data.text, number.text), "u", body, True)


def random_function(rng, name):
    if rng.random() < 0.3:
        return bytes_function(rng, name)
    kind, parameters = rng.choice("ui"), (f"{name}_a", f"{name}_b")
    return Function(name, parameters, kind, function_body(rng, parameters, kind, 3))


def random_chain(seed):
    rng = random.Random(seed)
    made = Statements(rng, str(seed))
    made.functions = [random_function(rng, f"f{seed}_{number}") for number in range(3)]
    steps = {name: made.random_step(name, at) for name, at in (("one", "p & 1023"), ("two", "7"))}
    return Chain(f"c{seed}", made.result, made.result_bits, made.records, made.rules, made.functions, steps)


def random_arguments(seed, count):
    rng = random.Random(-seed - 1)

    def word():
        return rng.choice([rng.randrange(16), rng.randrange(1 << 64), (1 << 64) - 1, 1 << 63, rng.randrange(1 << 32)])

    def signed(bits):
        value = word() & ((1 << bits) - 1)
        return value - (1 << bits) if value >> (bits - 1) else value

    return [{"p": word(), "q": signed(64), "t": rng.randrange(256), "w": signed(32), "s": bytes(rng.choices(b"01ab9", k=rng.randrange(21)))}
            for _ in range(count)]


def random_file(seed):
    """Mostly small numbers and digits, which records and rules accept."""
    rng = random.Random(seed)
    return bytes(rng.choice([rng.randrange(256), rng.randrange(8), 48 + rng.randrange(10), 0]) for _ in range(2200))
