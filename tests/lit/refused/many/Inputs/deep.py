"""Prints a spec whose declarations name each other COUNT deep: deep.py KIND COUNT."""
import sys

kind, count = sys.argv[1], int(sys.argv[2])
numbers = range(count)
step = "chain c(f: file p) -> u64 {{ step s({} at 0 for 4096) {{ return {} }} }}"
lines = ['files p = "*.db"']
if kind == "constants":  # each names the next one
    lines += [f"const c{i} = c{i + 1} + 1" for i in numbers] + [f"const c{count} = 1", step.format("b: block", "c0")]
elif kind == "ordered":  # the same, in an order in which each is known
    lines += ["const c0 = 1"] + [f"const c{i + 1} = c{i} + 1" for i in numbers] + [step.format("b: block", f"c{count}")]
elif kind == "functions":
    lines += ["fn f(x) = x + 1"] + [f"const c{i} = f(c{i + 1})" for i in numbers]
    lines += [f"const c{count} = 1", step.format("b: block", "c0")]
elif kind == "records":
    lines += [f"record R{i} {{ x: R{i + 1} }}" for i in numbers]
    lines += [f"record R{count} {{ y: u8 }}", step.format("r: R0", "r.end")]
elif kind == "inner":  # the innermost comes first
    lines += [f"record R{count} {{ y: cstr(max 5) }}"] + [f"record R{i} {{ x: R{i + 1} }}" for i in reversed(numbers)]
    lines += [step.format("r: R0", "r.end")]
elif kind == "derived":
    lines += ["record R {", "  x0: u8"] + [f"  let x{i + 1} = x{i} + 1" for i in numbers]
    lines += ["}", step.format("r: R", f"r.x{count}")]
elif kind == "conditions":
    lines += ["record R {", "  x0: u8"] + [f"  x{i + 1}: u8 when x{i} == 1" for i in numbers]
    lines += ["}", step.format("r: R", f"r.x{count}")]
elif kind == "places":
    lines += ["record R {", "  x0: u8"] + [f"  x{i + 1}: u8 at x{i}" for i in numbers]
    lines += ["}", step.format("r: R", f"r.x{count}")]
elif kind == "lengths":
    lines += ["record R {", "  x0: u8"] + [f"  b{i}: bytes(x{i})  x{i + 1}: u8" for i in numbers]
    lines += ["}", step.format("r: R", f"r.x{count}")]
elif kind == "varints":  # nothing names another field, and each place depends on all before
    lines += ["record R {"] + [f"  x{i}: varint_leb128" for i in numbers]
    lines += ["}", step.format("r: R", f"r.x{count - 1}")]
elif kind == "values":  # a run of fields that take no bytes
    lines += ["record R {", "  v: cstr(max 3)"] + [f"  let x{i} = 1" for i in numbers] + ["  z: u8"]
    lines += ["}", step.format("r: R", "r.z")]
print("\n".join(lines))
