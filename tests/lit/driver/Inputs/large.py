"""large.py KIND [COUNT]: a spec whose only step is too large in one way, or has COUNT of something."""
import sys

HEAD = 'app t { files p = "*" }\nrecord R { a: u64le[512] }\nchain c(f: file p) -> u64 {\n  step s(r: R at 0 for 4096) {\n'
kind = sys.argv[1]
count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
many = ", ".join(str(i * 3) for i in range(count))
lines = []
if kind == "variables":
    lines += [f"var v{i} = r.a[{i}]" for i in range(200)]
    lines += ["for x in r.a max 8 {"] + [f"v{i} = v{i} * x + v{(i + 1) % 200}" for i in range(200)] + ["}"]
    lines += ["return " + " ^ ".join(f"v{i}" for i in range(200))]
elif kind == "nesting":
    lines += ["var t = 0", " else ".join(f"if r.a[0] == {i} {{ t = t ^ r.a[{i}] }}" for i in range(230)), "return t"]
elif kind == "stack":
    lines += [f"let v{i} = r.a[r.a[{i}] & 511] * {i + 3}" for i in range(200)]
    lines += ["return " + " ^ ".join(f"(v{i} * v{(i * 7 + 1) % 200})" for i in range(200))]
elif kind == "calls":
    lines += ["return " + "min(" * 120 + "r.a[0]" + "".join(f", r.a[{i}])" for i in range(120))]
elif kind == "strings":
    HEAD = HEAD.replace("-> u64", "-> bytes(max 40002)")
    lines += [f'if r.a[0] == {i} {{ return "{i:02}{"x" * 40000}" }}' for i in range(30)] + ['return "none"']
elif kind == "additions":
    lines += ["var t = r.a[0]"] + [f"t = t + {i + 3}" for i in range(25000)] + ["return t"]
elif kind == "header":
    fields = "".join(f"  f{i}: u8\n" for i in range(8200))
    HEAD = f'app t {{ files p = "*" {{ header H }} }}\nrecord H {{\n{fields}}}\nchain c(f: file p) -> u64 {{\n  step s(b: block at 0 for 8) {{\n'
    lines += ["return f.f8199"]
elif kind == "derived":
    fields = "".join(f"  let x{i} = {i}\n" for i in range(8192))
    HEAD = f'app t {{ files p = "*" {{ header H }} }}\nrecord H {{\n  a: u8\n{fields}}}\nchain c(f: file p) -> u64 {{\n  step s(b: block at 0 for 8) {{\n'
    lines += ["return f.x8191"]
elif kind == "fields":  # the last one has the number that stands for the mark of a place
    HEAD = f'app t {{ files p = "*" {{ header H }} }}\nrecord H {{\n{"  _: u8" * 65532}\n  x: u8\n}}\nchain c(f: file p) -> u64 {{\n  step s(b: block at 0 for 8) {{\n'
    lines += ["return f.x"]
elif kind == "classes":
    print("".join(f'files f{i} = "*.{i}"\n' for i in range(65537)) + "chain c(f: file f65536) -> u64 { step s(b: block at 0 for 8) { return 0 } }")
    sys.exit()
elif kind == "sockets":  # the first two are one
    sockets = [f"socket s{i} = {'tcp' if i < 65535 else 'udp'} port {i % 65535 + 1}" for i in range(65537)]
    print("\n".join(["socket again = tcp port 1", *sockets]))
    sys.exit()
elif kind == "branches":  # each of 40 fields needs another one of the two before it on either side
    fields = "".join(f"  let a{i} = x == {i} ? a{i - 1} + y[{i}] : b{i - 1}\n  let b{i} = x == {i} ? b{i - 1} * y[{i}] : a{i - 1}\n" for i in range(1, 41))
    HEAD = HEAD.replace("a: u64le[512]", f"x: u8  y: u8[200]\n  let a0 = x as u64\n  let b0 = y[0] as u64\n{fields}")
    lines += ["return r.a40"]
elif kind == "records":  # each of 40 records holds two of the one before it
    records = "".join(f"record R{i} {{ a: R{i - 1}  b: R{i - 1} }}\n" for i in range(1, 41))
    HEAD = HEAD.replace("record R { a: u64le[512] }\n", f"record R0 {{ n: u8  text: bytes(n) }}\n{records}record R {{ inner: R40  last: u8 }}\n")
    lines += ["return r.last"]
elif kind == "whole":  # none of 120 chains is too large
    one = " ^ ".join(f"(t * {i + 3} + r.a[{i}])" for i in range(200))
    body = " + ".join(f"mix(r.a[{i}], r)" for i in range(8))
    chains = "".join(f"chain c{n}(f: file p) -> u64 {{ step s(r: R at 0 for 4096) {{ return {body} }} }}\n" for n in range(120))
    print(f'app t {{ files p = "*" }}\nrecord R {{ a: u64le[512] }}\nfn mix(t, r) = {one}\n{chains}')
    sys.exit()
elif kind == "set":
    lines += [f"if r.a[0] in ({many}) {{ return 1 }}", "return 0"]
elif kind == "patterns":
    lines += [f"match r.a[0] {{ {many} {{ return 1 }} else {{ return 0 }} }}"]
elif kind == "texts":
    HEAD = HEAD.replace("u64le[512]", "bytes(4096)")
    lines += ["match r.a[0..4] { " + ", ".join(f'"{i:04x}"' for i in range(count)) + " { return 1 } else { return 0 } }"]
elif kind == "present":
    HEAD = HEAD.replace("a: u64le[512]", f"k: u64le  a: u8 when k in ({many})")
    lines += ["return r.a as u64"]
elif kind == "lets":
    lets = "".join(f"  let v{i} = v{i - 1} ^ {i}\n" for i in range(1, count))
    HEAD = HEAD.replace("chain c", f"fn f(x) {{\n  let v0 = x ^ 7\n{lets}  v{count - 1}\n}}\nchain c")
    lines += ["return f(r.a[0])"]
elif kind == "else_ifs":  # each of 60 has 250, and the next one in its last `else`
    for i in range(60):
        lines += [" else ".join(f"if r.a[{i}] == {j} {{ t = {j} }}" for j in range(count)) + " else {"]
    lines = ["var t = 0", *lines, "t = 1" + " }" * 60, "return t"]
elif kind == "arms":  # the same of `match`; what ends the step takes no level of a program
    for i in range(60):
        lines += [f"match r.a[{i}] {{ " + " ".join(f"{j} {{ return {j} }}" for j in range(count)) + " else {"]
    lines += ["return 1" + " } }" * 60]
elif kind == "elifs":
    print("- files: p\n  glob: '*'\n- chain: c\n  params:\n    f: file p\n  returns: u64\n  steps:\n  - step: s\n    view: b\n    record: block\n    at: 0\n    for: 8\n    do:")
    for i in range(3):
        parts = "".join(f"\n{'  ' * i}      - {{if: b.byte({i}) == {j}, then: return {j}}}" for j in range(count))
        print(f"{'  ' * i}    - if: b.byte({i}) == 255\n{'  ' * i}      then: return 1\n{'  ' * i}      elif:{parts}\n{'  ' * i}      else:")
    print("          - return 2")
    sys.exit()
elif kind == "operations":
    lines += ["var t = 0"] + [f"t = (t ^ r.a[(t + {i}) & 511]) * {i + 3}" for i in range(25000)] + ["return t"]
print(HEAD + "".join(f"    {line}\n" for line in lines) + "  }\n}")
