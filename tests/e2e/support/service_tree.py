"""What a random service consists of: each part knows how it stands in a spec, and what the model (service_model.py) shall do with it."""
import dataclasses

from spec_tree import Chain, Record, TextRule, indented, lines_of


@dataclasses.dataclass
class Request:
    record: Record = None
    rule: TextRule = None  # of the field `line`, the last one
    end: bytes = b""  # of a request over tcp, behind the record
    nested: Record = None  # of the field `head`, the first one

    @property
    def size(self):
        """Of the fields before the line, None if it varies."""
        record = self.record
        if record is None:
            return self.nested_size
        last = record.fields[-1]
        known = last.fixed is not None and last.size and not last.when
        return self.nested_size + last.fixed + last.size if known else None

    @property
    def nested_size(self):
        return sum(field.size for field in self.nested.fields) if self.nested else 0

    @property
    def lines(self):
        return ([f"head: {self.nested.name}"] if self.nested else []) + (self.record.lines if self.record else []) + ([f"line: {self.rule.name}"] if self.rule else [])


@dataclasses.dataclass
class Service:
    name: str
    requests: dict  # by transport; the same one twice: that of both
    handlers: dict  # statements by the event: request, malformed, failure
    head: list  # parts of what each datagram begins with: (Expr or the name of the datagram's number, format); None: nothing
    records: list
    rules: list

    @property
    def text(self):
        transports = list(self.requests)
        lines = [f"service {self.name} on {', '.join(f'{transport} {7001 + number} via uring' for number, transport in enumerate(transports))} {{"]
        lines += indented([rule.text.rstrip() for rule in self.rules])
        one = len({id(request) for request in self.requests.values()}) == 1
        for transport in transports[:1] if one else transports:
            lines += indented([f"request{'' if one else ' ' + transport} {{", *indented(self.requests[transport].lines), "}"])
        for event, body in self.handlers.items():
            lines += indented([f"on {event} {{", "  var sw: u64 = 0", *indented(lines_of(body)), "}"])
        if self.head is not None:
            lines += indented([f"on datagram {{ {reply_text(self.head)} }}"])
        return "".join(record.text for record in self.records) + "\n".join(lines) + "\n}\n"


def reply_text(parts):
    return "reply " + ", ".join(part.text + (f":{form}" if form else "") for part, form in parts)


@dataclasses.dataclass
class Called:
    """A chain that handlers call: its name, its parameters behind the file, and the type of what it has for a result."""
    name: str
    parameters: tuple  # (type, bits) each
    result: str
    run: object  # what it does with the file's bytes and the values of the parameters: (outcome, value)
    text: str
