"""handler.py VIA: a service whose handler has 80 values that are all needed until its end."""
import sys

N = 80
values = "".join(f"    let w{i} = request.a[{i}] as u64 * {i + 3}\n" for i in range(N))
replies = "".join(f"    reply (w{i} + t):u64le (w{i} ^ t):u64le\n" for i in range(N))
print(f"""files pages = "*.idx" {{ immutable }}
chain lookup(f: file pages, key: u64) -> u64 hops 2 {{ step s(b: block at 0 for 16) {{ return key }} }}
service s on tcp 9100 via {sys.argv[1]} {{
  request {{ n: u8  a: u8[{N}] }}
  on request {{
    let v = lookup(pages["x"], request.n as u64) else fail not_found
{values}    let t = {" + ".join(f"w{i}" for i in range(N))} + v
{replies}  }}
  on failure {{ reply "FAIL\\n" }}
}}""")
