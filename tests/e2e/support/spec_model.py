"""Runs a random chain over a file in Python: what docs/language.md says, without the compiler's help."""
import bisect
import itertools
import operator

import spec_functions
from spec_functions import Ended, Unknown, malformed_unless, truncate, wrap
from spec_records import View, match
from spec_tree import ROOM

ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor}
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
HOPS, FIRST_LENGTH = 4, 300


class Break(Exception):
    pass


class Continue(Exception):
    pass


class Goto(Exception):
    def __init__(self, step, at, length, tag):
        super().__init__(step)
        self.read = step, at, length, tag


def answer(chain, data, arguments):
    """(outcome, value or None); raises Unknown where nothing says what it has to be."""
    emitted = bytearray()
    state = {"su": truncate(arguments["p"], 8, False), "si": truncate(arguments["q"], 24, True), "sw": 0, "sb": b""}
    read = "one", arguments["p"] & 1023, FIRST_LENGTH, 0
    for _ in range(HOPS):
        step, at, length, tag = read
        if at + length > len(data):
            return "short_read", None
        run = Run(data[at:at + length], {"offset": at, "length": length, "tag": tag}, arguments, state, emitted)
        try:
            run.step(chain.steps[step])
        except Goto as gone:
            read = gone.read
        except Ended as ended:
            return ended.outcome, ended.value
    return "hop_limit", None


class Values:
    """Expressions: value_OP gives what an Expr of this OP stands for."""
    def value(self, expr):
        return getattr(self, "value_" + expr.op)(*expr.args)

    def value_constant(self, value):
        return value

    def value_local(self, name):
        return self.locals[name]

    def value_argument(self, name):
        return self.arguments[name]

    def value_state(self, name):
        return self.state[name]

    def value_block(self):
        return self.block

    def value_of_block(self, name):
        return self.read[name]

    def view(self, path):
        """`v`, or `v.field` of a record in it."""
        name, *fields = path.split(".")
        view = self.locals[name]
        for field in fields:
            view = view.get(field)
        return view

    value_view = view

    def value_field(self, view, name):
        return self.view(view).get(name)

    def value_bits(self, view, name, lowest, width):
        return (self.view(view).get(name) >> lowest) & ((1 << width) - 1)

    def value_capture(self, found, name):
        return self.locals[found][name]

    def value_arithmetic(self, signed, op, left, right):
        return wrap(ARITHMETIC[op](self.value(left), self.value(right)), signed)

    def value_divide(self, op, left, right):
        left, right = self.value(left), self.value(right)
        malformed_unless(right != 0)
        return left // right if op == "/" else left % right

    def value_shift(self, signed, op, left, right):
        left, right = self.value(left), self.value(right) % 64
        return wrap(left << right, signed) if op == "<<" else left >> right

    def value_negate(self, operand):
        return wrap(-self.value(operand), True)

    def value_invert(self, signed, operand):
        return wrap(~self.value(operand), signed)

    def value_cast(self, signed, bits, operand):
        return truncate(self.value(operand), bits, signed)

    def value_least(self, left, right):
        return min(self.value(left), self.value(right))

    def value_greatest(self, left, right):
        return max(self.value(left), self.value(right))

    def value_choose(self, condition, left, right):
        return self.value(left) if self.value(condition) else self.value(right)

    def value_call(self, function, *given):
        self.locals.update(zip(function.parameters, [self.value(each) for each in given]))
        return self.value(function.body)

    def value_compare(self, op, left, right):
        return COMPARISONS[op](self.value(left), self.value(right))

    def value_is_in(self, operand, values):
        return self.value(operand) in values

    def value_and(self, left, right):
        return self.value(left) and self.value(right)

    def value_or(self, left, right):
        return self.value(left) or self.value(right)

    def value_not(self, operand):
        return not self.value(operand)

    def value_length(self, operand):
        return len(self.value(operand))

    def value_hash(self, name, *operands):
        return getattr(spec_functions, name)(*map(self.value, operands))

    def value_integer(self, signed, order, operand):
        data = self.value(operand)
        malformed_unless(len(data) <= 8)
        return int.from_bytes(data, order, signed=signed)

    def value_element(self, sequence, index, mask):
        index, sequence = self.value(index) & mask, self.value(sequence)
        malformed_unless(index < len(sequence))
        return sequence[index]

    def value_slice(self, operand, low, high):
        data, low = self.value(operand), self.value(low) if low else 0
        high = self.value(high) if high else len(data)
        malformed_unless(low <= high <= len(data))
        return data[low:high]

    def value_first(self, operand, most):
        return self.value(operand)[:most]

    def value_start(self, piece):
        """Of a slice of the block, from the block's first byte."""
        self.value(piece)
        return self.value(piece.args[1])

    def mapped(self, name, element, body):
        self.locals[name] = element
        return self.value(body)

    def value_filter(self, array, name, condition):
        return [element for element in self.value(array) if self.mapped(name, element, condition)]

    def value_sum(self, signed, array):
        return wrap(sum(self.value(array)), signed)

    def value_map(self, array, name, body):
        return [self.mapped(name, element, body) for element in self.value(array)]

    def value_keys(self, array, name, body):
        """What a search compares with: it looks at some of the elements alone."""
        elements = self.value(array)
        try:
            return [self.mapped(name, element, body) for element in elements]
        except Ended:
            raise Unknown from None

    def sorted_array(self, array):
        elements = self.value(array)
        if elements != sorted(elements):
            raise Unknown
        return elements

    def value_lower_bound(self, array, key):
        elements = self.sorted_array(array)
        return bisect.bisect_left(elements, self.value(key))

    def value_upper_bound(self, array, key):
        elements = self.sorted_array(array)
        return bisect.bisect_right(elements, self.value(key))


class Run(Values):
    """One step over one block: do_OP does a statement."""
    def __init__(self, block, read, arguments, state, emitted=None):
        self.block, self.read, self.arguments, self.state, self.emitted = block, read, arguments, state, emitted
        self.locals = {}

    def step(self, step):
        self.locals[step.view] = View(step.record, self.block, 0)
        self.body(step.body)

    def body(self, stmts):
        for stmt in stmts:
            getattr(self, "do_" + stmt.op)(*stmt.args)

    def do_let(self, name, expr):
        self.locals[name] = self.value(expr)

    def do_set_integer(self, name, bits, signed, expr):
        self.locals[name] = truncate(self.value(expr), bits, signed)

    def do_set_state(self, name, bits, signed, expr):
        self.state[name] = truncate(self.value(expr), bits, signed)

    def do_no_bytes(self, name):
        self.locals[name] = b""

    def do_fill(self, names, name, limit, appends, expr):
        """Names: `state` or `locals`."""
        names = getattr(self, names)
        data = (names[name] if appends else b"") + self.value(expr)
        if len(data) > limit:
            raise Ended("overflow")
        names[name] = data

    def do_append_number(self, names, name, limit, bits, number):
        names, written = getattr(self, names), (self.value(number) & (1 << bits) - 1).to_bytes(bits // 8, "little")
        if len(names[name]) + len(written) > limit:
            raise Ended("overflow")
        names[name] += written

    def do_shorten(self, expr, mask):
        length = self.value(expr) & mask
        malformed_unless(length <= len(self.state["sb"]))
        self.state["sb"] = self.state["sb"][:length]

    def do_if(self, condition, then, otherwise):
        self.body(then if self.value(condition) else otherwise)

    def do_match(self, expr, mask, arms, otherwise):
        self.body(arms.get(self.value(expr) & mask, otherwise))

    def do_match_whole(self, expr, arms, otherwise):
        self.body(arms.get(self.value(expr), otherwise))

    def do_emit(self, values):
        for value in values:
            self.emit(value)

    def emit(self, expr):
        value, width = self.value(expr), expr.bits // 8
        self.emitted += value if expr.type == "y" else (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        if len(self.emitted) > ROOM:
            raise Ended("overflow")

    def do_project(self, array, made):
        for element in self.one_by_one(array):
            for name, body in made:
                self.locals[name] = element
                self.emit(body)

    def each(self, name, elements, body):
        for element in elements:
            self.locals[name] = element
            try:
                self.body(body)
            except Break:
                return
            except Continue:
                pass

    def do_for_elements(self, name, array, most, body):
        self.each(name, itertools.islice(self.one_by_one(array), most), body)

    def one_by_one(self, array):
        """The elements of a filter are looked at when the loop comes to them, and none behind the last that it takes."""
        if array.op != "filter":
            return iter(self.value(array))
        of, name, condition = array.args
        return (element for element in self.one_by_one(of) if self.mapped(name, element, condition))

    def do_for_range(self, name, low, high, most, body):
        low, high = self.value(low), self.value(high)
        malformed_unless(high - low <= most)
        self.each(name, range(low, high), body)

    def do_for_pieces(self, name, expr, separator, limit, most, body):
        self.each(name, self.pieces(self.value(expr), separator, limit, most), body)

    @staticmethod
    def pieces(data, separator, limit, most):
        for piece in data.split(separator)[:most]:
            malformed_unless(len(piece) <= limit)  # when its turn comes: a break before it leaves the loop unharmed
            yield piece

    def do_for_records(self, name, piece, record, most, body):
        length = len(self.value(piece))
        self.each(name, self.records(record, self.value_start(piece), length, most), body)

    def records(self, record, start, length, most):
        end = start + length
        for _ in range(most):
            if start >= end:
                return
            view = View(record, self.block, start)
            following = view.end()
            malformed_unless(following <= end)
            if following == start:
                raise Unknown
            yield view
            start = following

    def do_record(self, name, record, at):
        self.locals[name] = View(record, self.block, self.value(at))

    def do_when_text(self, name, expr, rule, body):
        found = match(rule, self.value(expr))
        if found is not None:
            self.locals[name] = found
            self.body(body)

    def do_extreme(self, name, which, array, outcome):
        elements = self.value(array)
        if not elements:
            raise Ended(outcome)
        self.locals[name] = {"min": min, "max": max}[which](elements)

    def do_find(self, name, array, key, outcome):
        elements, key = self.sorted_array(array), self.value(key)
        if key not in elements:
            raise Ended(outcome)
        self.locals[name] = elements.index(key)

    def do_find_byte(self, name, data, byte, constant_byte, outcome):
        bytes_, wanted = self.value(data), constant_byte if byte is None else self.value(byte) & 255
        at = bytes_.find(bytes([wanted]))
        if at < 0:
            raise Ended(outcome)
        self.locals[name] = at

    def do_break(self):
        raise Break

    def do_continue(self):
        raise Continue

    def do_fail(self, outcome):
        raise Ended(outcome)

    def do_goto(self, step, at, length, tag):
        raise Goto(step, self.value(at), self.value(length), self.value(tag))

    def do_return_emitted(self, expr):
        self.emit(expr)
        raise Ended("ok", bytes(self.emitted))

    def do_return(self, expr):
        raise Ended("ok", self.value(expr))

    def do_return_integer(self, bits, signed, expr):
        raise Ended("ok", truncate(self.value(expr), bits, signed))
