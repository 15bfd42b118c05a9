"""What a random service replies, in Python: what docs/language.md and docs/services.md say, without the runtime's help."""
import collections

from service_chains import is_absent
from spec_functions import Ended, Unknown, malformed_unless, truncate
from spec_model import Break, Run
from spec_records import Arriving, Short, View, match

FILE = b"random.dat"
LARGEST_FRAME = 131072  # of a ring's
DATAGRAM, DATAGRAMS, ONE_DATAGRAM, HELD = 1400, 64, 65507, 9216  # bytes: of one of a reply, how many of it, of a reply in one, of a request
MOST_SKIPPED = (1 << 31) - 1
WIDTHS = {"u8": (1, "little"), "u16le": (2, "little"), "u16be": (2, "big"), "u32le": (4, "little"), "u32be": (4, "big"),
          "u64le": (8, "little"), "u64be": (8, "big")}


def written(value, form):
    if not form:
        return value
    if form == "dec":
        return b"%d" % value
    if form == "hex":
        return b"%x" % (value & ((1 << 64) - 1))
    width, order = WIDTHS[form]
    return truncate(value, 8 * width, False).to_bytes(width, order)


class TooLong(Exception):
    pass


class Nested:
    """A record at the beginning of another one, which is looked at when it is used."""
    def __init__(self, record, block):
        self.record, self.block = record, block

    def get(self, name):
        return View(self.record, self.block, 0).get(name)

    def length(self, name):
        field = next(field for field in self.record.fields if field.name == name)
        return field.size // max(field.width, 1)


class HandlerRun(Run):
    """One handler over one request; `reply` is what all of the request's handlers have said."""
    def __init__(self, block, data, reply):
        super().__init__(block, {}, {}, {"sw": 0})
        self.data, self.reply = data, reply

    def bind(self, request):
        at = 0
        if request.nested:
            self.locals["head"] = Nested(request.nested, self.block)
            at = request.nested_size
        if request.record:
            self.locals["request"] = View(request.record, self.block, at)
            # Without a line nobody asks where the fields end.
            at = self.locals["request"].end() if request.rule else at
        if request.rule:
            found = match(request.rule, self.block[at:])
            malformed_unless(found is not None)
            self.locals["line"] = found

    def value_length(self, operand):
        """How many there are of what has one size is known without a look at it."""
        if operand.op == "field" and isinstance(nested := self.locals.get(operand.args[0]), Nested):
            return nested.length(operand.args[1])
        return super().value_length(operand)

    def do_reply(self, parts):
        self.reply.add(b"".join([written(self.value(part), form) for part, form in parts]))

    def do_skip(self, expr, mask):
        self.reply.skips += self.value(expr) & mask

    def do_for_records(self, name, piece, record, most, body):
        self.each(name, self.records_of(record, self.value(piece), most), body)

    @staticmethod
    def records_of(record, piece, most):
        start = 0
        for _ in range(most):
            if start >= len(piece):
                return
            view = View(record, piece, start)
            following = view.end()
            malformed_unless(following <= len(piece))
            if following == start:
                raise Unknown
            yield view
            start = following

    def called(self, chain, file, given, closes):
        """(is there, value); `closes`: any failure is the end of the connection."""
        values = [value if kind == "y" else truncate(value, bits, kind == "i") for (kind, bits), value in zip(chain.parameters, map(self.value, given))]
        if file is not None and (name := self.value(file)) != FILE:
            if not name:
                raise Unknown
            outcome, value = "not_found", None
        else:
            outcome, value = chain.run(self.data, *values)
        if outcome == "ok":
            return True, value
        if closes:
            raise Ended("torn")
        if not is_absent(outcome):
            raise Ended("failed")
        return False, None

    def do_call_let(self, name, call, otherwise):
        there, value = self.called(*call)
        if not there:
            self.body([otherwise])
        self.locals[name] = value

    def do_call_when(self, name, call, body):
        there, value = self.called(*call)
        if there:
            self.locals[name] = value
            self.body(body)

    def do_call_reply(self, call, before, form):
        there, value = self.called(*call)
        if not there:
            raise Ended("no_result")
        self.reply.add(before + written(value, form))


class Reply:
    def __init__(self, most):
        self.most, self.bytes, self.skips = most, b"", 0

    def add(self, more):
        self.bytes += more
        if self.most is not None and len(self.bytes) > self.most:
            raise TooLong


class Model:
    """Of one service over one transport."""
    def __init__(self, service, transport, data, request_bytes):
        self.service, self.transport, self.data, self.request_bytes = service, transport, data, request_bytes
        self.request = service.requests["udp" if transport == "ring" else transport]
        self.counts = collections.Counter()

    def run(self, event, block, reply):
        """How it ends: ok, close, torn, malformed or any other outcome."""
        run = HandlerRun(block, self.data, reply)
        try:
            if event == "request":
                run.bind(self.request)
            run.body(self.service.handlers[event])
        except Ended as ended:
            return ended.outcome
        return "ok"

    def answer(self, block, most=None, begin="request"):
        """(reply, bytes to skip, whether the connection ends)"""
        self.counts["requests"] += 1
        reply, counted = Reply(most), "answered"
        try:
            outcome = self.run("request", block, reply) if begin == "request" else "malformed"
            if outcome == "torn":
                self.counts["torn"] += 1
                counted = "failed"
                if self.transport == "tcp":
                    self.counts[counted] += 1
                    return reply.bytes, reply.skips, True
                reply.bytes = b""
        except TooLong:
            reply.bytes, outcome = b"", "too_long"
            self.counts["too long"] += 1
        self.counts["skipping"] += reply.skips != 0
        if outcome in ("ok", "close"):
            self.counts[counted] += 1
            return reply.bytes, reply.skips, outcome == "close"
        was_failed = outcome != "malformed"
        counted = "failed" if was_failed else "malformed"
        event = "failure" if was_failed and "failure" in self.service.handlers else "malformed"
        if event not in self.service.handlers:
            self.counts[counted] += 1
            return reply.bytes, reply.skips, True
        outcome = self.said_of(event, block, reply)
        if outcome not in ("ok", "close"):
            counted = "failed"
            if event == "malformed" and not was_failed and "failure" in self.service.handlers:
                outcome = self.said_of("failure", block, reply)
        self.counts[counted] += 1
        return reply.bytes, reply.skips, outcome != "ok"

    def said_of(self, event, block, reply):
        try:
            outcome = self.run(event, block, reply)
        except TooLong:
            raise Unknown from None
        if outcome == "torn":
            raise Unknown
        return outcome

    def stream(self, sent):
        """What a client gets that sends this over tcp, and no more; and at what byte the connection ends, if before its end."""
        said, at = b"", 0
        while at < len(sent):
            length, too_long = self.cut(sent[at:])
            if length is None:
                break
            reply, skips, closes = self.answer(sent[at:at + length], None, "malformed" if too_long else "request")
            said += reply
            if closes or too_long or skips > MOST_SKIPPED:
                self.counts["closed"] += 1
                return said, at + length
            at += length + skips
        return said, None

    def cut(self, rest):
        """The length of the first request, None if it is not whole, and whether it is too long."""
        size, end, most = self.request.size, self.request.end, self.request_bytes
        if size is None:
            try:
                size = Arriving(self.request.record, rest, self.request.nested_size).end()
            except Short:
                return (len(rest), True) if len(rest) >= most else (None, False)
            except Ended:
                return len(rest), True
            if size + len(end) > most or size + len(end) == 0:
                return len(rest), True
            self.counts["measured"] += 1
        found = rest.find(end, size) if end else size if len(rest) >= size else -1
        if found >= 0 and found + len(end) <= most:
            return found + len(end), False
        return (len(rest), True) if len(rest) >= most else (None, False)

    def datagrams(self, sent):
        """What a client gets that sends this in one datagram."""
        if len(sent) > HELD and self.transport != "ring":
            return self.in_datagrams(sent[:HELD], *self.whole(sent[:HELD], "malformed"))[0]
        # The fields in front are those of each of its requests.
        size = self.request.size
        several = bool(self.request.end) and size is not None
        front, rest, got, first = (sent[:size], sent[size:], [], True) if several else (sent, b"", [], True)
        while first or rest:
            found = rest.find(self.request.end) if several else -1
            length = found + len(self.request.end) if found >= 0 else len(rest)
            block = front + rest[:length]
            # Of what came over a network too long, nothing is run; by a ring nothing comes that is too long to be looked at.
            too_long = self.transport == "ring" and len(block) > self.request_bytes
            replies, skips, closes = self.in_datagrams(block, *self.whole(block, "malformed" if too_long else "request"))
            got += replies
            if closes or skips > MOST_SKIPPED:
                break
            rest, first = rest[length + skips:], False
        if self.transport == "ring" and sum(map(len, got)) > LARGEST_FRAME:
            raise Unknown
        return got

    def whole(self, block, begin="request"):
        head = self.head(block, 0, 1)
        most = ONE_DATAGRAM if self.service.head is None else DATAGRAMS * (DATAGRAM - len(head or b""))
        if self.transport == "ring":
            most = LARGEST_FRAME - len(head or b"")
        return self.answer(block, most, begin)

    def in_datagrams(self, block, reply, skips, closes):
        if not reply:
            return [], skips, closes
        if self.service.head is None:
            return [reply], skips, closes
        one = self.head(block, 0, 1)
        if one is None:
            return [], skips, closes
        if self.transport == "ring":
            return [one + reply], skips, closes
        pieces = self.pieces(block, reply, len(one))
        self.counts["cut"] += len(pieces) > 1
        return [self.head(block, number, len(pieces)) + piece for number, piece in enumerate(pieces)], skips, closes

    def pieces(self, block, reply, longest):
        """As long as the longest of what they begin with leaves room for."""
        room = DATAGRAM - longest
        pieces = [reply[at:at + room] for at in range(0, len(reply), room)]
        found = max(len(self.head(block, number, len(pieces))) for number in range(len(pieces)))
        return pieces if len(pieces) == 1 or found <= longest else self.pieces(block, reply, found)

    def of_request(self, block, name):
        """The request's own fields need not be whole; a record in it is checked as any."""
        if name == "head":
            return Nested(self.request.nested, block)
        view = View.__new__(View)
        view.record, view.block, view.at = self.request.record, block, self.request.nested_size
        view.by_name = {field.name: field for field in view.record.named()}
        return view

    def head(self, block, number, count):
        """None when a field that it names is not there."""
        said = b""
        for part, form in self.service.head or []:
            if part.op == "of_datagram":
                value = {"number": number, "count": count}[part.args[0]]
            elif part.op == "constant":
                value = part.args[0]
            else:
                try:
                    value = self.of_request(block, part.args[0]).get(part.args[1])
                except Ended:
                    return None
            said += written(value, form)
        return said
