"""Random constant expressions, folded by chainc and by the rules of docs/language.md over Python's integers:
constants.py CHAINC FIRST_SEED LAST_SEED. What one refuses the other has to refuse, and the values have to be equal."""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

LOW, TOP, WORD = -(1 << 63), (1 << 64) - 1, 1 << 64
NUMBERS = [0, 1, 2, 3, 7, 8, 63, 127, 255, 256, 4095, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, TOP]
EACH = 200  # expressions of one spec


class Refused(Exception):
    pass


def signed(v):
    return (v & TOP) - (WORD if v >> 63 & 1 else 0)


class Number:
    """kind: `free` (exact, without a type), `mask` (made by ~: unsigned until it meets something signed), `u`, `i`."""

    def __init__(self, kind, value):
        if kind == "free" and not LOW <= value <= TOP:
            raise Refused
        self.kind = kind
        self.value = value if kind == "free" else signed(value) if kind == "i" else value & TOP

    def is_signed(self):
        return self.kind == "i" or (self.kind == "free" and self.value < 0)

    def typed(self, as_signed):
        """As one of the integers that it meets."""
        if self.kind == "free":
            if not (LOW <= self.value < 1 << 63 if as_signed else self.value >= 0):
                raise Refused
        elif self.kind == "mask":
            return Number("i" if as_signed else "u", self.value)
        elif (self.kind == "i") != as_signed:
            raise Refused
        return Number("i" if as_signed else "u", self.value)


def both(a, b):
    """Two constants that meet, of which not both are free: of one type."""
    fixed = [n for n in (a, b) if n.kind in "ui"] or [n for n in (a, b) if n.is_signed()]
    as_signed = fixed[0].is_signed() if fixed else False
    return a.typed(as_signed), b.typed(as_signed)


def towards_zero(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPUTE = {
    "*": lambda a, b: a * b,
    "/": towards_zero,
    "%": lambda a, b: a - towards_zero(a, b) * b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
    "|": lambda a, b: a | b,
}
COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def binary(op, a, b):
    if op in ("<<", ">>"):
        if b.is_signed() or b.value >= 64:
            raise Refused
        if a.kind == "free":
            return Number("free", COMPUTE[op](a.value, b.value))
        return Number("u" if a.kind == "mask" and op == ">>" else a.kind, COMPUTE[op](a.value, b.value))
    if op in "/%" and b.value == 0:
        raise Refused
    if a.kind == "free" and b.kind == "free":
        return Number("free", COMPUTE[op](a.value, b.value))
    keeps = op in "&^|" and all(n.kind in ("free", "mask") for n in (a, b))
    x, y = both(a, b)
    if op in "/%" and x.kind == "i":
        raise Refused
    return Number("mask" if keeps and x.kind == "u" else x.kind, COMPUTE[op](x.value, y.value))


def compare(op, a, b):
    x, y = (a, b) if a.kind == "free" and b.kind == "free" else both(a, b)
    return COMPARE[op](x.value, y.value)


def unary(op, a):
    if op == "~":
        if a.kind == "free":
            return Number("mask", ~a.value) if a.value >= 0 else Number("free", ~a.value)
        return Number(a.kind, ~a.value)
    if a.kind in ("u", "mask"):
        raise Refused
    return Number(a.kind, -a.value)


def cast(a, sign, bits):
    v = a.value & ((1 << bits) - 1)
    return Number(sign, v - (1 << bits) if sign == "i" and v >> (bits - 1) else v)


def expression(r, depth):
    """(text, its value as a function, which may refuse)"""
    if depth == 0 or r.random() < 0.1:
        n = r.choice(NUMBERS) if r.random() < 0.6 else r.randrange(1 << r.randrange(1, 64))
        return str(n), lambda: Number("free", n)
    which = r.random()
    a, value_a = expression(r, depth - 1)
    if which < 0.25:
        op = r.choice("~-")
        return f"{op}({a})", lambda: unary(op, value_a())
    if which < 0.35:
        sign, bits = r.choice("ui"), r.choice([8, 16, 24, 48, 64])
        return f"(({a}) as {sign}{bits})", lambda: cast(value_a(), sign, bits)
    b, value_b = (str(n := r.randrange(70)), lambda: Number("free", n)) if which < 0.5 else expression(r, depth - 1)
    op = r.choice(["<<", ">>"]) if which < 0.5 else r.choice(["*", "/", "%", "+", "-", "&", "^", "|", "&", "|"])
    return f"({a} {op} {b})", lambda: binary(op, value_a(), value_b())


def result_of(r, depth):
    """A chain's result: (its type, text, its bits as a function)"""
    a, value_a = expression(r, depth)
    if r.random() < 0.15:
        op = r.choice(list(COMPARE))
        b, value_b = expression(r, depth)
        return "u64", f"{a} {op} {b} ? 1 : 0", lambda: int(compare(op, value_a(), value_b()))
    as_signed = r.random() < 0.5
    return "i64" if as_signed else "u64", a, lambda: value_a().typed(as_signed).value & TOP


def wanted(value):
    try:
        return value()
    except Refused:
        return None


def compiled(chainc, folder, lines):
    spec = pathlib.Path(folder, "c.chain")
    spec.write_text("\n".join(lines) + "\n")
    ran = subprocess.run([chainc, "--emit=ir", "-o", "-", spec], capture_output=True, text=True, check=False)
    refused = {int(line) for line in re.findall(r"c\.chain:(\d+):\d+: error", ran.stderr)}
    values = {int(i): int(v, 0) & TOP for i, v in re.findall(r"step c(\d+)\.s \{\s*return (\S+)\s*\}", ran.stdout)}
    return ran.returncode, refused, values


def main():
    chainc, seeds = sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3]) + 1)
    checked = [0, 0]
    for seed in seeds:
        r = random.Random(seed)
        good, bad = [], []
        for _ in range(EACH):
            kind, text, value = result_of(r, r.randrange(1, 6))
            bits = wanted(value)
            into = bad if bits is None else good
            into.append((f"chain c{len(into)}(f: file p) -> {kind} {{ step s(b: block at 0 for 8) {{ return {text} }} }}", bits))
        with tempfile.TemporaryDirectory() as folder:
            code, refused, values = compiled(chainc, folder, ['files p = "*"', *(line for line, _ in good)])
            for i, (line, bits) in enumerate(good):
                if i + 2 in refused or (code == 0 and values.get(i) != bits):
                    sys.exit(f"seed {seed}: {line}\n  chainc: {'refused' if i + 2 in refused else values.get(i)}, wanted {bits}")
            if code != 0:
                sys.exit(f"seed {seed}: exit code {code}")
            for at in range(0, len(bad), 10):  # chainc shows so many errors at most
                part = bad[at : at + 10]
                code, refused, _ = compiled(chainc, folder, ['files p = "*"', *(line for line, _ in part)])
                for i, (line, _) in enumerate(part):
                    if i + 2 not in refused:
                        sys.exit(f"seed {seed}: {line}\n  chainc: accepted, wanted a refusal")
        checked[0] += len(good)
        checked[1] += len(bad)
    print(f"{checked[0]} values, {checked[1]} refusals")
    return not (checked[0] and checked[1])


if __name__ == "__main__":
    sys.exit(main())
