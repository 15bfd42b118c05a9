"""Constants that are computed: what the compiler makes of them has to be what docs/language.md says of constants, or what a run makes of the same values."""
from spec_tree import Expr

LOWEST, HIGHEST = -(1 << 63), (1 << 64) - 1
SMALL = [0, 1, 2, 3, 5, 7, 8, 63, 255, 256, 65535, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def divided(left, right):
    """Towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


EXACT = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "/": divided, "%": lambda a, b: a - divided(a, b) * b,
}


def exact(rng, depth):
    """(text, value): without a type, so that nothing wraps, and every part exists."""
    while True:
        text, value = tried(rng, depth)
        if LOWEST <= value <= HIGHEST:
            return text, value


def tried(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        value = rng.choice([*SMALL, rng.randrange(100), rng.randrange(1 << 64)])
        return (f"{value:#x}" if rng.random() < 0.2 else str(value)), value
    way = rng.random()
    if way < 0.15:
        text, value = exact(rng, depth - 1)
        return f"-({text})", -value
    if way < 0.2:
        # `~` of what is not negative has 64 bits.
        text, value = exact(rng, depth - 1)
        return (f"~({text})", ~value) if value < 0 else (text, value)
    (left, a), (right, b) = exact(rng, depth - 1), exact(rng, depth - 1)
    if way < 0.3 and (a < 0) == (b < 0):  # else the choice has a sign, also where what is chosen has none
        op = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        held = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[op]
        return f"({left} {op} {right} ? {left} : {right})", a if held else b
    if way < 0.4:
        word = rng.choice(["min", "max"])
        return f"{word}({left}, {right})", {"min": min, "max": max}[word](a, b)
    op = rng.choice(list(EXACT))
    if op in ("<<", ">>"):
        right, b = str(b % 64), b % 64
    if op in ("/", "%") and b == 0:
        right, b = "3", 3
    return f"({left} {op} {right})", EXACT[op](a, b)


def exact_constant(rng, kind):
    """One that exists among the integers of this kind."""
    while True:
        text, value = exact(rng, rng.randrange(1, 4))
        if (0 <= value) if kind == "u" else (value <= (1 << 63) - 1):
            return Expr(kind, f"({text})", "constant", (value,))


def typed_constant(rng, kind, value=None):
    """One with a type: what is computed of such wraps as it does at run time."""
    bits = rng.choice([8, 16, 24, 32, 40, 56, 64, 64])
    if value is None:
        value = rng.choice([*SMALL, rng.randrange(1 << 64)])
    of = Expr("u", str(value), "constant", (value,))
    return Expr(kind, f"({value} as {kind}{bits})", "cast", (kind == "i", bits, of), bits=bits)
