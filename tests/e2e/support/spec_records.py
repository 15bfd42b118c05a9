"""The model of records and of text rules: where a field lies in a block and what it holds, and what a rule finds in bytes."""
from spec_functions import ALL, Ended, Unknown, leb128, malformed_unless, sqlite_varint, wrap, zigzag


class View:
    """A record at an offset of a block; a field is looked at when it is used."""
    def __init__(self, record, block, at):
        self.record, self.block, self.at = record, block, at
        self.by_name = {field.name: field for field in record.named()}
        # Padding need not be in the block, unless the record has one size, which is looked at as a whole.
        malformed_unless(at + (record.size or 0) <= len(block))
        for field in record.fields:
            if self.certain(field) and field.name != "_":
                malformed_unless(at + field.fixed + field.size <= len(block))
        for field in record.fields:
            if field.values:
                malformed_unless(self.get(field.name) in field.values)
        for number, field in enumerate(record.fields):
            if field.kind == "skip" and isinstance(field.at, int) and field.fixed is None and number > 0:
                self.skipped(field)

    def skipped(self, field):
        """What stands behind `_: at N` may not be bytes of the fields before it. Whether these are there is looked at only where they may reach so far."""
        try:
            end = self.end_of(self.before(field))
        except Ended:
            raise Unknown from None
        malformed_unless(end <= self.at + field.at)

    @staticmethod
    def certain(field):
        return field.fixed is not None and field.size > 0 and field.when is None

    def masked(self, masked):
        return self.get(masked.name) & masked.mask

    def there(self, field):
        return field.when is None or self.masked(field.when) == 0

    def before(self, field):
        return self.record.fields[self.record.fields.index(field) - 1]

    def place(self, field):
        return self.at + (field.at if isinstance(field.at, int) else self.masked(field.at))

    def start(self, field):
        if field.at is not None:
            return self.place(field)
        return self.at + field.fixed if field.fixed is not None else self.end_of(self.before(field))

    def end_of(self, field):
        if field.kind != "skip":
            return self.start(field) + self.size(field)
        place = self.place(field)
        if not isinstance(field.at, int):  # else that was looked at when the view was made
            malformed_unless((self.at + field.fixed if field.fixed is not None else self.end_of(self.before(field))) <= place)
        return place

    def size(self, field):
        if not self.there(field):
            return 0
        if field.size:
            return field.size
        if field.kind == "counted":
            return self.masked(field.count)
        if field.kind == "array":
            return self.elements(field) * field.width
        if field.kind == "varint":
            return self.varint(field)[1]
        if field.kind == "record":
            return self.inner(field, checked=False).end() - self.start(field)
        return len(self.get(field.name)) + 1  # a cstr with what ends it

    def end(self):
        """Behind the last field, which has to be there like any that is used."""
        if self.record.size is not None:
            return self.at + self.record.size
        last = self.record.fields[-1]
        if last.kind not in ("padding", "bits", "skip", "record") and self.there(last):
            self.get(last.name)
        return self.end_of(last)

    def inner(self, field, checked=True):
        """The record in this one. Its `in` is looked at where one of its fields is read."""
        if checked:
            return View(field.inner, self.block, self.start(field))
        view = View.__new__(View)
        view.record, view.block, view.at = field.inner, self.block, self.start(field)
        view.by_name = {each.name: each for each in field.inner.named()}
        for number, each in enumerate(field.inner.fields):
            if each.kind == "skip" and isinstance(each.at, int) and each.fixed is None and number > 0:
                view.skipped(each)
        return view

    def present(self, there):
        """What the bytes that a field lies in have to be."""
        malformed_unless(there)

    def elements(self, field):
        if field.count is None:
            return field.limit
        count = self.masked(field.count)
        malformed_unless(count <= field.limit)
        return count

    def varint(self, field):
        return (sqlite_varint if field.form == "sqlite" else leb128)(self.block, self.start(field))

    def get(self, name):
        field = self.by_name[name]
        if field.kind == "let":
            return wrap(self.get(field.source) * field.factor + 1, field.signed)
        malformed_unless(self.there(field))
        if field.kind == "varint":
            value = self.varint(field)[0]
            return zigzag(value) if field.form == "zigzag" else value
        if field.kind == "cstr":
            return self.cstr(field)
        if field.kind == "record":
            return self.inner(field)
        start = self.start(field)
        data = self.block[start:start + self.size(field)]
        self.present(len(data) == self.size(field) and start <= len(self.block))
        if field.kind in ("bytes", "counted"):
            return data
        if field.kind == "array" and field.inner:
            return [View(field.inner, self.block, start + at) for at in range(0, len(data), field.width)]
        if field.kind == "array":
            return [self.integer(field, data[at:at + field.width]) for at in range(0, len(data), field.width)]
        return self.integer(field, data)

    def cstr(self, field):
        start = self.start(field)
        self.present(start <= len(self.block))
        end = self.block.find(field.stop, start, start + field.limit + 1)
        self.present(end >= 0 or start + field.limit + 1 <= len(self.block))
        malformed_unless(end >= 0)
        return self.block[start:end]

    @staticmethod
    def integer(field, data):
        return int.from_bytes(data, field.order, signed=field.signed)


class Short(Exception):
    """More has to come before anything can be said."""


class Arriving(View):
    """Of a record at the begin of a stream: how long it is, as soon as the fields that say so have come."""
    LONGEST = 10  # of numbers whose length is their own

    def __init__(self, record, block, at):
        self.record, self.block, self.at = record, block, at
        self.by_name = {field.name: field for field in record.named()}

    def present(self, there):
        if not there:
            raise Short

    def varint(self, field):
        try:
            return super().varint(field)
        except Ended:
            self.present(self.start(field) + self.LONGEST <= len(self.block))
            raise

    def end(self):
        return self.end_of(self.record.fields[-1])


def digits(data):
    """How many it begins with, 0 if they are more than a number has, or one of more than 64 bits."""
    length = next((at for at, byte in enumerate(data) if not 48 <= byte <= 57), len(data))
    return length if length <= 20 and int(data[:length] or b"0") <= ALL else 0


def word(data):
    return next((at for at, byte in enumerate(data) if byte in b" \t\r\n"), len(data))


def length_of(item, following, data):
    """How many bytes of data the item takes, None if they are not what it is."""
    if item.kind in ("literal", "choice"):
        return max((len(w) for w in item.words if data.startswith(w)), default=None)
    if item.kind == "rest":
        return min(len(data), item.limit)
    if item.kind == "int":
        return digits(data) or None
    length = word(data) if item.kind == "word" else data.find(following.words[0])
    return length if 1 <= length <= item.limit else None


def several(item, following, data):
    """(what they are, how many bytes of data they take), None if there are too few of them."""
    # Tokens are all that stands before the literal.
    end = data.find(following.words[0]) if item.of == "token" else len(data)
    found, at, last = [], 0, 0
    while end >= 0 and len(found) < item.times[1]:
        before = data[at:end].find(item.separator)
        piece = data[at:end if before < 0 else at + before]
        length = {"token": len, "word": word, "int": digits}[item.of](piece)
        if not 1 <= length <= item.limit:
            if item.of != "token" and found:
                raise Unknown
            return None
        found.append(int(piece[:length]) if item.of == "int" else piece[:length])
        last = at + length
        if not data[last:end].startswith(item.separator):
            break
        at = last + len(item.separator)
    if len(found) < item.times[0] or (item.of == "token" and last != end):
        return None
    return found, last


def match(rule, data):
    """What the rule's names stand for, None if the bytes are not what it describes."""
    found = {}
    for at, item in enumerate(rule.items):
        following = rule.items[at + 1] if at + 1 < len(rule.items) else None
        if item.kind == "several":
            those = several(item, following, data)
            if those is None:
                return None
            found[item.name], length = those
        else:
            length = length_of(item, following, data)
            if length is None:
                return None
            found[item.name] = int(data[:length]) if item.kind == "int" else data[:length]
        data = data[length:]
    return found
