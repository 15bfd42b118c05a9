"""Random services: the same seed gives the same ones."""
import random

from service_tree import Request, Service, reply_text
from spec_expressions import arithmetic, constant, local
from spec_generator import DEPTH, Statements, as_signed, braced
from spec_shapes import LITERALS, RecordMaker, literal, may_follow, random_item, random_record, random_rule
from spec_tree import Expr, Item, Record, Stmt, TextRule

FORMS = ["dec", "dec", "hex", "u8", "u16le", "u16be", "u32le", "u32be", "u64le", "u64be"]
OF_ONE_SIZE = FORMS[3:]
ENDS = {'"\\n"': b"\n", '"\\r\\n"': b"\r\n", '"|"': b"|", '";;"': b";;", '"b"': b"b", '"aab"': b"aab"}
SEPARATORS = {'" "': b" ", '","': b",", '"::"': b"::"}
FIXED = ["int"] * 5 + ["bits", "bytes", "bytes", "array", "let", "padding", "equal", "skipped"]
ANY = FIXED + ["counted", "array", "array", "varint", "cstr"]
SKIPPED = [0, 0, 1, 7]


class RequestMaker(RecordMaker):
    """A record as RecordMaker's, also with what only one value is right for, and with places skipped to."""
    def __init__(self, rng, name, kinds, fixed, before=0):
        self.only_fixed, self.before = fixed, before  # bytes of the request that stand before its fields
        self.rng, self.record, self.offset, self.furthest = rng, Record(name), 0, 0
        for kind in ["int", *rng.choices(kinds, k=rng.randrange(7))]:
            self.add(kind)
        self.record.size = self.offset

    def add(self, kind):
        if kind in ("equal", "skipped") and self.offset is None:
            kind = "int"
        super().add(kind)

    def make_equal(self, field):
        if self.rng.random() < 0.5:
            field.kind = "int"
            self.make_int(field)
            if not field.values:
                bits = 8 * field.width
                value = self.rng.randrange(1 << bits) - (1 << (bits - 1) if field.signed else 0)
                field.values = (value,)
                field.text += f" == {value if value >= 0 else f'({value})'}"
            return
        field.kind, field.size = "bytes", self.rng.randrange(1, 5)
        field.values = (bytes(self.rng.choices(b"ab01", k=field.size)),)
        field.text = f'bytes({field.size}) == "{field.values[0].decode()}"'

    def make_skipped(self, field):
        field.kind, field.name, field.size = "padding", "_", self.rng.randrange(1, 9)
        field.text = f"at {self.before + self.offset + field.size}"


def several(rng, name):
    """A repeated capture."""
    of, (separator, sep) = rng.choice(["token", "token", "word", "int"]), rng.choice(list(SEPARATORS.items()))
    low = rng.choice([1, 1, 2])
    high, limit = low + rng.choice([0, 1, 5, 14]), 20 if of == "int" else rng.choice([1, 3, 30])
    text = f"{name}: {of}{'' if of == 'int' else f'(max {limit})'}[{low}..{high} by {separator}]"
    return Item("several", text, name, limit, of=of, times=(low, high), separator=sep)


def request_rule(rng, name, prefix):
    """(rule, what its requests end with over tcp)"""
    if rng.random() < 0.15:
        return TextRule(name, (Item("rest", f"{prefix}_all: rest(max 300)", f"{prefix}_all", 300),)), b"\n"
    items = []
    for number in range(rng.randrange(1, 6)):
        before = items[-1] if items else None
        if before and (before.kind == "token" or before.of == "token"):
            text = rng.choice(list(LITERALS))
            items.append(literal(text))
            continue
        while True:
            kind = rng.choice(["int", "word", "choice", "token", "several", "several"] + (["literal"] * 2 if not before or before.kind != "literal" else []))
            item = several(rng, f"{prefix}_{number}") if kind == "several" else random_item(rng, kind, f"{prefix}_{number}")
            if not before or may_follow(before, item):
                break
        items.append(item)
    needs_end = items[-1].kind == "token" or items[-1].of == "token"
    if not needs_end and rng.random() < 0.2:
        if rng.random() < 0.5:
            items.append(Item("rest", f"{prefix}_rest: rest(max 20)", f"{prefix}_rest", 20))
            return TextRule(name, tuple(items)), b"\n"
        if items[-1].kind != "literal":
            return TextRule(name, tuple(items)), b"\n"
    if items[-1].kind == "literal":
        items.pop()
    ends = [Item("literal", text, words=(end,)) for text, end in ENDS.items()]
    last = rng.choice([end for end in ends if not items or may_follow(items[-1], end)])
    return TextRule(name, (*items, last)), last.words[0]


class Handlers(Statements):
    """The statements of one service's handlers."""
    def __init__(self, rng, prefix, chains):
        super().__init__(rng, prefix)
        self.chains, self.repeats, self.begun, self.has_replied = chains, [], False, False
        self.records, self.rules = [random_record(rng, f"R{prefix}")], [random_rule(rng, f"T{prefix}")]
        simple = [(self.let, 3), (self.let_bytes, 1), (self.variable, 2), (self.assign, 3), (self.extreme_of, 1), (self.find, 1), (self.reply, 9),
                  (self.call_let, 4), (self.call_reply, 2)]
        compound = [(self.branch, 3), (self.loop, 2), (self.match, 1), (self.pieces, 2), (self.captures, 1), (self.each_record, 1), (self.call_when, 3),
                    (self.each_repeated, 3)]
        self.simple = [maker for maker, times in simple for _ in range(times)]
        self.compound = [maker for maker, times in compound for _ in range(times)]

    # ---- what a handler can name ----

    def named_integer(self, kind):
        named = [expr for expr in self.scope if expr.type == kind]
        if kind == "u":
            named.append(Expr("u", "sw", "state", ("sw",)))
        for view, record in self.views:
            for field in record.named():
                text = self.spelled(view, field.name)
                if field.kind in ("int", "varint", "let") and field.type == kind:
                    named += [Expr(kind, text, "field", (view, field.name))] * 2
                if field.kind == "bits" and kind == "u":
                    named += [Expr(kind, f"{text}.{part[0]}", "bits", (view, field.name, *part[1:])) for part in field.parts]
        # Of constants alone the compiler knows too much.
        return self.rng.choice(named) if named else as_signed(self.named_integer("u"))

    def spelled(self, view, name):
        """Fields of a request also stand for themselves."""
        if view == "request":
            return name if self.rng.random() < 0.5 else f"request.{name}"
        return f"{self.rng.choice(['', 'request.'])}{view}.{name}" if view == "head" else f"{view}.{name}"

    def arrays(self, kinds="ui"):
        return [(Expr("a", self.spelled(view, field.name), "field", (view, field.name)), field.type)
                for view, record in self.views for field in record.arrays() if field.type in kinds]

    def named_bytes(self):
        text = self.rng.choice(self.literals)
        named = [Expr("y", f'"{text}"', "constant", (text.encode(),), "literal")]
        named += [expr for expr in self.scope if expr.type == "y"]
        for view, record in self.views:
            for field in record.named():
                if field.kind in ("bytes", "counted", "cstr"):
                    named += [Expr("y", self.spelled(view, field.name), "field", (view, field.name), "block")] * 2
        for repeated, of in self.repeats:
            if of == "y":
                named.append(self.repeated_element(repeated, "y"))
        return named

    def repeated_element(self, repeated, kind):
        at = self.rng.choice([0, 0, 1, 2])
        return Expr(kind, f"{repeated.text}[{at}]", "element", (repeated, constant(at, "u"), 15), "block" if kind == "y" else "")

    def comparison(self, depth, of_bytes):
        if of_bytes and not any(data.place != "literal" for data in self.named_bytes()):
            of_bytes = False
        if of_bytes:
            op, left = self.rng.choice(["==", "!=", "<", "<=", ">", ">="]), self.bytes_of_run(depth)
            right = self.bytes(depth)
            return Expr("b", f"({left.text} {op} {right.text})", "compare", (op, left, right))
        return super().comparison(depth, False)

    def bytes_of_run(self, depth):
        while (data := self.bytes(depth)).place == "literal":
            pass
        return data

    def bytes_of_block(self, depth):
        found = [data for data in self.named_bytes() if data.place == "block"]
        return self.bytes(depth, "block") if found else None

    def of_array(self, kind, depth):
        if self.repeats and self.rng.random() < 0.5:
            repeated, of = self.rng.choice(self.repeats)
            if kind == "u" and of == "u" and self.rng.random() < 0.5:
                return self.repeated_element(repeated, "u")
            if kind == "u":
                return Expr("u", f"{repeated.text}.count()", "length", (repeated,))
        return super().of_array(kind, depth)

    # ---- statements of handlers alone ----

    def parts(self):
        return [self.part() for _ in range(self.rng.randrange(1, 5))]

    def part(self):
        if self.rng.random() < 0.5:
            return self.bytes(2), ""
        expr = self.integer(self.rng.choice("ui"), 2)
        return expr, self.rng.choice(FORMS)

    def reply(self, _):
        parts = self.parts()
        self.has_replied = True
        return Stmt((reply_text(parts),), "reply", (parts,))

    def chain_call(self, depth=1):
        """(the chain, text, what do_call_* wants of it)"""
        chain = self.rng.choice(self.chains)
        given = [self.bytes(depth) if kind == "y" else self.argument(chain, kind, bits, depth) for kind, bits in chain.parameters]
        way, file, named = self.rng.random(), None, 'data["random.dat"]'
        # The file of a constant name has to be there when the daemon starts.
        if way < 0.05 and (of_run := self.bytes(1)).place != "literal":
            file = of_run
            named = f"data[{file.text}]"
        return chain, f"{chain.name}({', '.join([named, *(each.text for each in given)])})", (chain, file, given)

    def argument(self, chain, kind, bits, depth):
        expr = self.integer(kind, depth)
        if bits < 64 and expr.op != "field":
            expr = arithmetic(kind, "^", expr, self.named_integer(kind))
        if chain.name == "row":
            # Most of it has to be in the file. Few replies have to be long: many times what a datagram holds, or more than all of them hold.
            mask, least = (1023, 0) if bits == 16 else self.rng.choice([(15, 1), (127, 1), (127, 1), (1023, 1380), (1023, 13000), (65535, 0), (0, 60000)])
            expr = arithmetic("u", "+", arithmetic("u", "&", expr, constant(mask, "u")), constant(least, "u"))
        return expr

    def known(self, chain, name):
        """How what the chain has is named."""
        return local(name, chain.result, f"result {name}" if chain.result == "y" else "")

    def call_let(self, _):
        chain, text, call = self.chain_call()
        name, closes = self.name("v"), False
        way = self.rng.choice(["fail", "fail", "malformed", "close"] + ["close"] * 3 * self.begun + ["break", "continue"] * 2 * (self.loops > 0))
        if way == "close" and not self.begun and (self.has_replied or self.loops):
            way = "fail"  # what becomes of it depends on the way that led here
        if way == "close":
            closes = self.begun
        outcome = {"fail": self.rng.choice(["not_found", "strange"]), "malformed": "malformed", "close": "close"}.get(way)
        otherwise = Stmt((f"fail {outcome}",), "fail", (outcome,), True) if outcome else Stmt((way,), way, (), True)
        self.scope.append(self.known(chain, name))
        return Stmt((f"let {name} = {text} else {otherwise.lines[0]}",), "call_let", (name, (*call, closes), otherwise))

    def call_when(self, depth):
        chain, text, call = self.chain_call()
        name = self.name("v")
        body = self.inner(depth, [self.known(chain, name)])
        return Stmt(braced(f"when {text} as {name}", body), "call_when", (name, (*call, False), body))

    def call_reply(self, _):
        chain, text, call = self.chain_call()
        if chain.result == "b":
            return None
        form = "" if chain.result == "y" else self.rng.choice(FORMS)
        word = self.rng.choice(["", "b10"])
        self.has_replied = True
        parts = [f'"{word}"', text + (f":{form}" if form else "")]
        return Stmt((f"reply {', '.join(parts)}",), "call_reply", ((*call, False), word.encode(), form))

    def each_repeated(self, depth):
        if not self.repeats:
            return None
        repeated, of = self.rng.choice(self.repeats)
        name, most = self.name("i"), self.rng.choice([1, 3, 16])
        body = self.looped(depth, [local(name, of, "block" if of == "y" else "")])
        return Stmt(braced(f"for {name} in {repeated.text} max {most}", body), "for_elements", (name, repeated, most, body))

    def pieces(self, depth):
        data = self.bytes_of_block(2)
        if data is None:
            return None
        name, limit, most = self.name("x"), self.rng.choice([8, 40, 300, 300]), self.rng.choice([1, 3, 9, 20])
        text, separator = self.rng.choice([(" ", b" "), (",", b","), ("1", b"1"), ("b", b"b")])
        body = self.looped(depth, [local(name, "y", "block")])
        return Stmt(braced(f'for {name} in {data.text}.split("{text}", {limit}, max {most})', body), "for_pieces",
                    (name, data, separator, limit, most, body))

    def captures(self, depth):
        return super().captures(depth) if self.bytes_of_block(1) else None

    def each_record(self, depth):
        piece = self.bytes_of_block(2)
        if piece is None:
            return None
        record, name, most = self.rng.choice(self.records), self.name("w"), self.rng.choice([1, 2, 8])
        body = self.looped(depth, views=[(name, record)])
        return Stmt(braced(f"for {name} in {piece.text}.records({record.name}, max {most})", body), "for_records", (name, piece, record, most, body))

    def leave(self, _):
        word = self.rng.choice(["fail"] + ["break", "continue"] * (self.loops > 0))
        if word != "fail":
            return Stmt((word,), word, (), True)
        outcome = self.rng.choice(["not_found", "strange", "malformed", "malformed", "close"])
        return Stmt((f"fail {outcome}",), "fail", (outcome,), True)

    # ---- handlers ----

    def handler(self, request, skips):
        """`request`: the names of one; None: there are none."""
        self.scope, self.views, self.variables, self.repeats, self.loops = [], [], [], [], 0
        self.has_replied = self.begun = False
        if request is not None:
            self.know(request)
        body = []
        if skips and self.rng.random() < 0.4:
            expr, mask = self.integer("u", 1), self.rng.choice(SKIPPED)
            # Few skip more than anything has.
            if self.rng.random() < 0.08:
                mask = (1 << 64) - 1
            body.append(Stmt((f"skip {expr.text} & {mask}",), "skip", (expr, mask)))
        if self.rng.random() < 0.4:
            parts = self.parts()
            body.append(Stmt((reply_text(parts),), "reply", (parts,)))
            self.has_replied = self.begun = True
        body += self.block(DEPTH if request is not None else 1, self.rng.randrange(2, 7) if request is not None else self.rng.randrange(1, 3))
        if not body[-1:] or not body[-1].ends:
            parts = [(Expr("u", "sw", "state", ("sw",)), "u32le"), (constant(10, "u"), "u8")]
            body.append(Stmt((reply_text(parts),), "reply", (parts,)))
        return body

    def know(self, request):
        if request.nested:
            self.views.append(("head", request.nested))
        if request.record:
            self.views.append(("request", request.record))
        for item in request.rule.items if request.rule else ():
            if not item.name:
                continue
            kind = "u" if "int" in (item.kind, item.of) else "y"
            place = "block" if kind == "y" else ""
            text = f"{self.rng.choice(['', 'request.'])}line.{item.name}"
            if item.kind == "several":
                self.repeats.append((Expr("a", text, "capture", ("line", item.name)), kind))
            else:
                self.scope.append(Expr(kind, text, "capture", ("line", item.name), place))


def random_request(rng, prefix, transports, rule, end):
    way = rng.choice(["fields", "line", "both", "both"])
    fixed = rng.random() < 0.4
    request = Request()
    if way != "line":
        if rng.random() < 0.3:
            request.nested = RequestMaker(rng, f"H{prefix}", FIXED, True).record
        request.record = RequestMaker(rng, f"q{prefix}", FIXED if fixed else ANY, fixed, request.nested_size).record
    if way != "fields":
        request.rule, request.end = rule, end
    return request


def random_head(rng, request):
    """What each datagram of a reply begins with."""
    parts = []
    for view, record in [("request", request.record), ("head", request.nested)]:
        for field in record.fields if record else []:
            if field.kind == "int" and field.fixed is not None and field.when is None and rng.random() < 0.6:
                text = f"request.{field.name}" if view == "request" else f"request.head.{field.name}"
                parts.append((Expr(field.type, text, "field", (view, field.name)), rng.choice(OF_ONE_SIZE)))
    parts = parts[:4]
    for name in ("number", "count"):
        if rng.random() < 0.8:
            parts.append((Expr("u", f"datagram.{name}", "of_datagram", (name,)), rng.choice(["u16be", "u16le", "u8", "u32be", "dec", "hex"])))
    return parts or [(constant(7, "u"), "u8")]


def random_service(seed, chains):
    rng, prefix = random.Random(f"service {seed}"), str(seed)
    made = Handlers(rng, prefix, chains)
    rule, end = request_rule(rng, f"L{prefix}", f"l{prefix}")
    transports = rng.choice([("tcp",), ("udp",), ("tcp", "udp"), ("tcp", "udp")])
    if len(transports) == 2 and rng.random() < 0.3:
        # They differ, and handlers may name what they share.
        tcp, udp = Request(rule=rule, end=end), Request(rule=rule, end=end)
        udp.record = RequestMaker(rng, f"q{prefix}", FIXED, True).record
        requests, shared = {"tcp": tcp, "udp": udp}, tcp
    else:
        shared = random_request(rng, prefix, transports, rule, end)
        requests = dict.fromkeys(transports, shared)
    skips = rng.random() < 0.5
    handlers = {"request": made.handler(shared, skips)}
    for event in ("malformed", "failure"):
        if rng.random() < 0.75:
            handlers[event] = made.handler(None, skips)
    head = random_head(rng, requests["udp"]) if "udp" in requests and rng.random() < 0.5 else None
    records = made.records + [request.nested for request in {id(each): each for each in requests.values()}.values() if request.nested]
    rules = made.rules + ([rule] if any(request.rule for request in requests.values()) else [])
    return Service(f"s{prefix}", requests, handlers, head, records, rules)
