"""The chains that random services call: some by hand, which mostly have a result, and random ones."""
from service_tree import Called
from spec_functions import Unknown, truncate
from spec_generator import random_chain
from spec_model import answer

MOST = 64 << 10  # of a block, and of a result

ROW = """chain row(f: file data, o: u16, n: u32) -> bytes(max 64KiB) hops 1 {
  step s(b: block at o for n in f) { return b }
}
"""
PICK = """chain pick(f: file data, k: u8, d: bytes(max 12)) -> i24 hops 1 {
  step s(b: block at k for 8 in f) {
    if d.length == 0 { fail not_found }
    if d.length == 2 { fail strange }
    if d == "full" { fail no_memory }
    return (b[0..3].int_be() as i24) + (d[0] as i64)
  }
}
"""
LIST = """chain list(f: file data, n: u8, k: i16) -> bytes(max 40) hops 6 {
  state { left: u8 = n }
  step s(b: block at (k as u64) & 511 for 9 in f) {
    if left == 7 { return }
    emit b[..left & 3], left, k
    if left & 3 == 0 { return }
    left = left - 1
    goto s at block.offset + 1 for 9
  }
}
"""
ODD = """chain odd(f: file data, n: u64) -> bool hops 1 {
  step s(b: block at n & 1023 for 1 in f) {
    if n % 5 == 4 { fail no_result }
    return (b[0] & 1) == 1
  }
}
"""


def row(data, offset, length):
    if not 1 <= length <= MOST:
        return "malformed", None
    return ("ok", data[offset:offset + length]) if offset + length <= len(data) else ("short_read", None)


def pick(data, at, name):
    if len(name) > 12:
        return "overflow", None
    if len(name) in (0, 2):
        return ("strange" if name else "not_found"), None
    if name == b"full":
        return "no_memory", None
    return "ok", truncate(int.from_bytes(data[at:at + 3], "big", signed=True) + name[0], 24, True)


def listed(data, left, k):
    at, said = k & 511, b""
    for _ in range(6):
        if left == 7:
            return "ok", said
        said += data[at:at + (left & 3)] + bytes([left]) + k.to_bytes(2, "little", signed=True)
        if len(said) > 40:
            return "overflow", None
        if left & 3 == 0:
            return "ok", said
        left, at = left - 1, at + 1
    return "hop_limit", None


def odd(data, number):
    return ("no_result", None) if number % 5 == 4 else ("ok", bool(data[number & 1023] & 1))


BY_HAND = [Called("row", (("u", 16), ("u", 32)), "y", row, ROW), Called("pick", (("u", 8), ("y", 12)), "i", pick, PICK),
           Called("list", (("u", 8), ("i", 16)), "y", listed, LIST), Called("odd", (("u", 64),), "b", odd, ODD)]


def random_called(seed):
    chain = random_chain(seed)

    def run(data, *given):
        arguments = dict(zip("pqtws", given))
        if len(arguments["s"]) > 20:
            return "overflow", None
        return answer(chain, data, arguments)
    return Called(chain.name, (("u", 64), ("i", 64), ("u", 8), ("i", 32), ("y", 20)), "y" if chain.result in "ye" else chain.result, run, chain.text)


def is_absent(outcome):
    """What an `else` is for; any other outcome is a failure of the request."""
    known = ("malformed", "overflow", "short_read", "io_error", "hop_limit", "no_memory", "cancelled", "fanout", "bad_argument", "unsupported")
    if outcome == "cancelled":
        raise Unknown
    return outcome not in known
