#!/usr/bin/env python3
"""make_environment.py FILE: writes an LMDB environment as LMDB 0.9 lays it out: a main database with 3,000 keys, values on overflow
pages among them, and the databases `words` (several values of a key), `numbers` (integer keys) and `nothing` (no keys)."""
import struct
import sys

PAGE, NO_ROOT = 4096, (1 << 64) - 1
BRANCH, LEAF, META, SUB = 1, 2, 8, 0x40
BIG, TREE, SEVERAL = 1, 2, 4
DUPSORT, INTEGER_KEY = 4, 8


def node(key, data=b"", flags=0, size=None, child=None):
    low = child if child is not None else len(data) if size is None else size
    made = struct.pack("<HHHH", low & 0xFFFF, low >> 16 & 0xFFFF, low >> 32 & 0xFFFF if child is not None else flags, len(key)) + key + data
    return made + bytes(len(made) & 1)


def page(number, flags, nodes, size=PAGE):
    """Where the nodes begin stands at the front, in order; they themselves stand at the end, the first one last."""
    places, at = [], size
    for each in nodes:
        at -= len(each)
        places.append(at)
    end = 16 + 2 * len(nodes)
    front = struct.pack(f"<QHHHH{len(nodes)}H", number, 0, flags, end, at, *places)
    return front + bytes(at - end) + b"".join(reversed(nodes))


class Environment:
    def __init__(self):
        self.pages = [b"", b""]

    def add(self, flags, nodes):
        self.pages.append(page(len(self.pages), flags, nodes))
        return len(self.pages) - 1

    def overflow(self, value):
        number, count = len(self.pages), (16 + len(value) + PAGE - 1) // PAGE
        whole = struct.pack("<QHHI", number, 0, 4, count) + value
        whole = whole.ljust(count * PAGE, b"\0")
        self.pages += [whole[i * PAGE : (i + 1) * PAGE] for i in range(count)]
        return number

    def database(self, items, flags=0):
        """`items`: (key, value, flags of the node), in the order of the keys. Gives what describes the database."""
        level, depth, leaves = [], 0, 0
        nodes, first, room = [], None, PAGE - 16
        for key, value, kind in items:
            if kind == 0 and len(key) + len(value) > 2000:
                made = node(key, struct.pack("<Q", self.overflow(value)), BIG, len(value))
            else:
                made = node(key, value, kind, 0 if kind == BIG else None)
            if len(made) + 2 > room:
                level.append((first, self.add(LEAF, nodes)))
                nodes, room = [], PAGE - 16
            if not nodes:
                first = key
            nodes.append(made)
            room -= len(made) + 2
        if nodes:
            level.append((first, self.add(LEAF, nodes)))
        leaves, depth = len(level), 1 if level else 0
        while len(level) > 1:
            above = []
            fewer = 20 if len(level) % 20 != 1 else 19  # a branch has two nodes or more
            for at in range(0, len(level), fewer):
                some = level[at : at + fewer]
                nodes = [node(b"" if i == 0 else key, child=number) for i, (key, number) in enumerate(some)]
                above.append((some[0][0], self.add(BRANCH, nodes)))
            level, depth = above, depth + 1
        root = level[0][1] if level else NO_ROOT
        return struct.pack("<IHHQQQQQ", 0, flags, depth, 0, leaves, 0, len(items), root)

    def meta(self, number, transaction, main):
        free = struct.pack("<IHHQQQQQ", PAGE, INTEGER_KEY, 0, 0, 0, 0, 0, NO_ROOT)
        body = struct.pack("<QHHI", number, 0, META, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 30) + free + main
        body += struct.pack("<QQ", len(self.pages) - 1, transaction)
        self.pages[number] = body.ljust(PAGE, b"\0")


def several(values):
    """The values of one key, as the page within its node."""
    nodes = [node(value) for value in sorted(values)]
    return page(0, LEAF | SUB, nodes, 16 + sum(len(each) + 2 for each in nodes))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    env = Environment()
    words = env.database([(b"many", several([b"one", b"two", b"three"]), SEVERAL), (b"single", b"one", 0)], DUPSORT)
    numbers = env.database([(struct.pack("<Q", i * 1000), b"number %d" % (i * 1000), 0) for i in range(500)], INTEGER_KEY)
    items = {b"key%04d" % i: (b"value %d" % i, 0) for i in range(3000)}
    items |= {b"emptied": (struct.pack("<Q", env.overflow(b"")), BIG)}
    items |= {b"large": (bytes(range(256)) * 40, 0), b"longest": (b"x" * 65536, 0), b"longer": (b"x" * 65537, 0), b"empty": (b"", 0)}
    items |= {b"words": (words, TREE), b"numbers": (numbers, TREE), b"nothing": (env.database([]), TREE)}
    before = env.database([(b"key0000", b"of an older transaction", 0)])
    newest = env.database([(key, *items[key]) for key in sorted(items)])
    env.meta(0, 8, newest)
    env.meta(1, 7, before)
    with open(sys.argv[1], "wb") as file:
        file.write(b"".join(env.pages))


if __name__ == "__main__":
    main()
