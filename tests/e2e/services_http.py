#!/usr/bin/python3
"""std/http_store.chain: values of a store by HTTP, asked by Python's client, by curl, by an nginx in front of it, and by hand: cut anywhere, several at once, with escapes, of bad form."""
import http.client
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import started  # noqa: E402
from memcached import Ours, connected, damaged_store, items, store_of  # noqa: E402

SEED = 20271
failures = compared = 0
OF_A_PATH = re.compile(rb"[a-zA-Z0-9]+")
# Keys that a path has to escape, some of which are the escapes of others.
TO_ESCAPE = [b"a b", b" ", b"100%", b"%61", b"%2561", b"a?b#c", b"?", b"a/b", "K\u00e4se \u20ac.txt".encode(), b"%", b"+", b"\0", b"\r\n", b"\xff" * 250, bytes(range(250)), bytes(range(6, 256)), b"long value"]


def expect(what, got, want):
    global failures, compared
    compared += 1
    if got != want:
        failures += 1
        print(f"FAIL  {what}\n      got {got!r:.600}\n      want {want!r:.600}", flush=True)


def talk(ours, sent, cuts=()):
    """What comes back to all of it, until the server closes or has nothing to add to what a last request gets."""
    with ours.connect() as sock:
        at = 0
        for end in [*cuts, len(sent)]:
            sock.sendall(sent[at:end])
            at = end
        sock.shutdown(1)
        data = b""
        while got := sock.recv(1 << 20):
            data += got
        return data


def answers(data):
    """(status, headers, body) of each reply; the bodies of those to HEAD have to be told apart by who asks."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        size = int(headers.get(b"Content-Length", 0))
        found.append((int(lines[0].split()[1]), headers, data[:size]))
        data = data[size:]
    return found


def statuses(ours, sent, cuts=()):
    return [status for status, _, _ in answers(talk(ours, sent, cuts))]


def of_connections(ours, sent):
    """With what each reply says of the connection."""
    return [(status, headers.get(b"Connection")) for status, headers, _ in answers(talk(ours, sent))]


def by_python(ours, held, rng):
    client = http.client.HTTPConnection("127.0.0.1", ours.port, timeout=60)
    connection = None
    for key in [b"a", b"empty", b"long", *rng.sample(sorted(held), 200), b"nothing"]:
        method = rng.choice(["GET", "GET", "HEAD"])
        client.request(method, "/" + key.decode())
        answer = client.getresponse()
        body, (_, value) = answer.read(), held.get(key, (0, b""))
        expect(f"{method} {key[:20]}", (answer.status, answer.getheader("Content-Length"), body),
               (200 if key in held else 404, str(len(value)), value if method == "GET" else b""))
        expect("  on one connection", client.sock is (connection or client.sock), True)
        connection = client.sock
        if answer.status == 200 and method == "GET":
            client.request("GET", "/" + key.decode() + "?query", headers={"if-none-MATCH": answer.getheader("ETag")})
            again = client.getresponse()
            expect("  not modified", (again.status, again.read(), again.getheader("ETag")), (304, b"", answer.getheader("ETag")))
    for method in ("POST", "PUT", "DELETE"):
        client.request(method, "/a", body=b"GET /a HTTP/1.1\r\n\r\n" * 5000 if method != "DELETE" else None)
        answer = client.getresponse()
        expect(method, (answer.status, answer.getheader("Allow"), answer.read()), (405, "GET, HEAD", b""))
        expect("  and its body is no request", client.sock is connection, True)
    client.close()


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n"
OF_GOOD_FORM = {
    b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n": 200, b"\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET /%61 HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /%61?%zz%% HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /a%3F HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET /" + b"%6b" * 250 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /" + b"%6B" * 251 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET /" + b"%6B" * 252 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET /" + b"%6B" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET /" + b"k" * 249 + b"%6b HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /%6b" + b"k" * 249 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /" + b"k" * 250 + b"%6b HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET /%6b" + b"k" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET /" + b"k" * 250 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /" + b"k" * 251 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET /a? HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET /?a HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET /??a HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"get /a HTTP/1.1\r\nHost: x\r\n\r\n": 405, b"HEADER /a HTTP/1.1\r\nHost: x\r\n\r\n": 405,
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc": 405, GET + b"content-LENGTH:  \t 3\r\n\r\nabc": 200, GET + b"Content-Length:3\r\n\r\nabc": 200, GET + b"Content-Length: 3 \t \r\n\r\nabc": 200,
    GET + b"X: " + b"y" * 8000 + b"\r\n\r\n": 200, GET + b"X: y\r\n" * 90 + b"\r\n": 200, GET + b"n" * 70 + b": x\r\n\r\n": 200, GET + b"n" * 256 + b":x\r\nX:\r\n\r\n": 200, GET + b"X:\r\n\r\n": 200, GET + b"X: a:b\r\n\r\n": 200, GET + b"If-None-Match: \"1\"\r\n\r\n": 200, GET + b"If-None-Match: *\r\n\r\n": 304, b"GET /b HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n": 404,
    b"GET /a HTTP/1.1\r\nhOST:\r\n\r\n": 200, b"GET /a HTTP/1.7\r\nHost: x\r\n\r\n": 200, b"GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n": 200,
    b"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET HTTPS://x:8080/a?q HTTP/1.1\r\nHost: y\r\n\r\n": 200, b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n": 404,
    b"GET http://x?/a HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"GET http://x/%61 HTTP/1.1\r\nHost: x\r\n\r\n": 200, b"GET http://x//a HTTP/1.1\r\nHost: x\r\n\r\n": 404, b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": 405, b"OPTIONS /a HTTP/1.1\r\nHost: x\r\n\r\n": 405,
    GET + b"Connection: keep-alive\r\n\r\n": 200, GET + b"Content+Length: 3\r\n\r\n": 200, GET + b"Connection: upgrade\r\n\r\n": 200, b"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n": 200, b"GET /b HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n": 404,
}
THAT_CLOSE = {
    b"GET /a HTTP/1.0\r\n\r\n": 200, b"GET /a HTTP/1.0\r\nConnection: keep-alive-not\r\n\r\n": 200, b"GET /b HTTP/1.0\r\n\r\n": 404, GET + b"Connection: close\r\n\r\n": 200, GET + b"CONNECTION:close\r\n\r\n": 200, GET + b"Connection: close, TE\r\n\r\n": 200, GET + b"Connection: TE, Close \r\n\r\n": 200,
    b"GET a HTTP/1.1\r\nHost: x\r\n\r\n": 400, **{b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target: 400 for target in (b"/%", b"/%6", b"/a%", b"/%6g", b"/%g1", b"/%%61", b"/%/1", b"/%6:", b"/%\x16\x11", b"/%61%6", b"*", b"x:/a", b"http:/a", b"http://", b"http:///a", b"http://?/a", b"ftp://x/a", b"httpx://x/a")},
    b"OPTIONS ** HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"OPTIONS a HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1.12\r\nHost: x\r\n\r\n": 400,
    b"GET /a\r\nHost: x\r\n\r\n": 400, b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"nonsense\r\n\r\n": 400, b"\x16\x03\x01\r\n\r\n": 400,
    GET + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 200, GET + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n": 200,
    GET + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc": 400, GET + b"Content-Length: 3, 3\r\n\r\nabc": 400, GET + b"Content-Length: +3\r\n\r\nabc": 400,
    GET + b"Content-Length : 3\r\n\r\nabc": 400, GET + b" Content-Length: 3\r\n\r\nabc": 400, GET + b"Content-Length\t: 3\r\n\r\nabc": 400, GET + b"\tContent-Length: 3\r\n\r\nabc": 400, GET + b"X: y\r\n" * 120 + b"\r\n": 400, GET + b"X: " + b"y" * 17000 + b"\r\n\r\n": 400,
    b"GET /a HTTP/1.1\r\n\r\n": 400, b"GET /a HTTP/1.1\r\nHosts: x\r\n\r\n": 400, b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n": 400, b"POST /a HTTP/1.1\r\n\r\n": 400,
    GET + b"Host: x\r\n\r\n": 400, GET + b"X: y\r\nhost: y\r\n\r\n": 400, b"GET /a HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n": 400,
    b"GET /a HTTP/1.1 junk junk\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1.1 \r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1.1\r\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1.0 junk\r\n\r\n": 400,
    b"GET /a HTTP/1.0\r\r\n\r\n": 400, b"GET /a HTTP/1.x\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1./\r\nHost: x\r\n\r\n": 400, b"GET /a HTTP/1.:\r\nHost: x\r\n\r\n": 400,
    b"GET /a HTTP/1.1\r\nHost: a\nContent-Length: 5\r\n\r\nabcde": 400, b"GET /a HTTP/1.1\nHost: a\r\n\r\n": 400, GET + b"X: y\n\r\n": 400, b"GET /a HTTP/1.1\nHost: a\n\nGET /a HTTP/1.1\nHost: a\n\n" + GET + b"\r\n": 400,
    b"\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n": 400, GET + b"Content-Length\r: 3\r\n\r\nabc": 400, GET + b"Content-Length: -3\r\n\r\nabc": 400, GET + b"Content-Length: -0\r\n\r\n": 400,
    b"GET /a HTTP/1.1Host: x\r\n\r\n": 400, b"GET /a HTTP/1.1A: b\r\nHost: x\r\n\r\n": 400,
    GET + b"nocolon\r\n\r\n": 400, GET + b"nocolon\r\nX: y\r\n\r\n": 400, GET + b": nameless\r\n\r\n": 400, GET + b"X: y\r\n folded\r\n\r\n": 400, GET + b"X: y\r\n\tfolded\r\nY: z\r\n\r\n": 400,
    GET + b"n" * 257 + b": x\r\n\r\n": 400, GET + b"Content\rLength: 3\r\n\r\n": 400, GET + b"X: a\rb\r\nY: z\r\n\r\n": 400, GET + b"X: a\rb\r\n\r\n": 400, GET + b"X: y\r\r\n\r\n": 400, GET + b"X: y\r\r\nY: z\r\n\r\n": 400,
    GET + b"\rX: y\r\n\r\n": 400, GET + b"\rX: y\r\nY: z\r\n\r\n": 400, GET + b"X: a\0b\r\n\r\n": 400, GET + b"X\0: b\r\n\r\n": 400, GET + b"\0: b\r\n\r\n": 400, b"GET /a\0 HTTP/1.1\r\nHost: x\r\n\r\n": 400, b"\0GET /a HTTP/1.1\r\nHost: x\r\n\r\n": 400,
    GET + b"Content-Length: 2147483648\r\n\r\nabc": 200, b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\nabc": 405, GET + b"Content-Length: 18446744073709551617\r\n\r\nabc": 400,
}


def by_hand(ours, rng):
    for sent, status in OF_GOOD_FORM.items():
        said = b"keep-alive" if b"HTTP/1.0" in sent else None
        expect(f"{sent[:60]}", of_connections(ours, sent + GET + b"\r\n"), [(status, said), (200, None)])
    for sent, status in THAT_CLOSE.items():
        expect(f"{sent[:60]} closes", of_connections(ours, sent + GET + b"\r\n"), [(status, b"close")])
    expect("half a request has no answer", talk(ours, GET), b"")
    those = list(OF_GOOD_FORM.items())
    for _ in range(60):
        chosen = rng.choices(those, k=rng.randrange(1, 30))
        sent = b"".join(one for one, _ in chosen)
        cuts = sorted(rng.sample(range(len(sent)), rng.choice((0, 1, 10))))
        expect("several, cut anywhere", statuses(ours, sent, cuts), [status for _, status in chosen])


def not_modified(ours):
    """If-None-Match: weak tags and lists count, and of what is no list of tags nothing does."""
    tag = answers(talk(ours, GET + b"\r\n"))[0][1][b"ETag"]
    digits = tag.strip(b'"')
    of_length = lambda size: b'"' + b"y" * (size - 4) + b'", '  # so that what comes behind it begins there
    for value, status in ((tag, 304), (b"W/" + tag, 304), (b"\t " + tag + b" \t", 304), (b"*", 304), (b'"1", ' + tag, 304), (b'"1",W/' + tag + b' , "x"', 304), (b'"a,b", "", ' + tag, 304),
                          (b", ".join([b'"1"'] * 15 + [tag]), 304), (b", ".join([b'"1"'] * 16 + [tag]), 200), (of_length(1024 - len(tag)) + tag + b', "1"', 304), (of_length(1025 - len(tag)) + tag, 200),
                          (of_length(1023 - len(digits)) + b'"' + digits + b'9"', 200), (b'"1"', 200), (b'W/"1"', 200), (b"", 200), (b"W/*", 200), (b"**", 200), (digits, 200), (b'"' + digits, 200),
                          (digits + b'"', 200), (b'"1"' + digits + b'"2"', 200), (b'"' + digits + b'x"', 200), (b'"x' + digits + b'"', 200), (b'"1"\r\nIf-None-Match: ' + tag, 304)):
        for method in (b"GET", b"HEAD"):
            head, _, body = talk(ours, method + b" /a HTTP/1.1\r\nHost: x\r\nif-none-match: " + value + b"\r\n\r\n").partition(b"\r\n\r\n")
            expect(f"{method} of {value[-60:]}", (int(head.split()[1]), tag in head, body != b""), (status, True, status == 200 and method == b"GET"))


def escaped(ours, odd, rng):
    """Any bytes are a key, with as few escapes as can be and with nothing else."""
    for key, (_, value) in odd.items():
        for path in (urllib.parse.quote(key, safe=""), urllib.parse.quote(key), "".join(f"%{byte:02x}" for byte in key), "".join(rng.choice(("%%%02x", "%%%02X")) % byte for byte in key)):
            for method in (b"GET", b"HEAD"):
                head, _, body = talk(ours, method + b" /%s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()).partition(b"\r\n\r\n")
                expect(f"{method} of {path[:60]}", (head.split(b" ")[1], b"Content-Length: %d" % len(value) in head, body), (b"200", True, value if method == b"GET" else b""))
    missing = [urllib.parse.quote(key + b"!") for key in odd if len(key) < 250]
    expect("keys that are not there", statuses(ours, b"".join(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode() for path in missing)), [404] * len(missing))


def undecoded(folder, store, held):
    """Where the keys are escaped themselves."""
    ours = Ours(folder, store, "-D", "DECODED=false", service="http_store")
    for path, status in (("a", 200), ("%61", 200), ("%2561", 200), ("%62", 404), ("100%", 200), ("%", 200), ("%zz", 404), ("k" * 250, 200), ("k" * 251, 404), ("%6b" * 250, 404)):
        found = answers(talk(ours, b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()))[0]
        expect(f"undecoded: {path[:40]}", (found[0], found[2]), (status, held[path.encode()][1] if status == 200 else b""))
    expect("ends", ours.stop(), 0)


def by_curl(ours, held):
    if not shutil.which("curl"):
        print("skipped: curl: it is not installed", flush=True)
        return
    url = f"http://127.0.0.1:{ours.port}/"
    done = subprocess.run(["curl", "-sS", "--max-time", "60", url + "a", url + "key7", url + "key8"], capture_output=True)
    expect("curl", (done.returncode, done.stdout), (0, held[b"a"][1] + held[b"key7"][1] + held[b"key8"][1]))
    done = subprocess.run(["curl", "-sS", "--max-time", "60", "-T", __file__, url + "a", "-o", "/dev/null", "-w", "%{http_code}"], capture_output=True)
    expect("curl -T", (done.returncode, done.stdout), (0, b"405"))


def behind_nginx(folder, ours, held, rng):
    """nginx keeps its connections to us."""
    socket_path = folder / "nginx.socket"
    (folder / "nginx.conf").write_text(f"""
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream ours {{ server 127.0.0.1:{ours.port}; keepalive 4; }}
  server {{ listen unix:{socket_path}; location / {{ proxy_pass http://ours; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
""")
    process = started.start(["nginx", "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)

    with connected(socket_path, process) as sock:
        client = http.client.HTTPConnection("nginx", timeout=60)
        client.sock = sock
        for key in [b"a b", b"100%", b"%61", b"%2561", b"a?b#c", b"K\xc3\xa4se \xe2\x82\xac.txt", *rng.sample(sorted(key for key in held if OF_A_PATH.fullmatch(key)), 300)]:
            client.request("GET", "/" + urllib.parse.quote(key))
            answer = client.getresponse()
            expect(f"through nginx: {key[:20]}", (answer.status, answer.read()), (200, held[key][1]))
    process.terminate()
    process.wait(timeout=60)


def damaged(folder, store, held):
    bad, key = damaged_store(folder, store, held)
    ours = Ours(folder, bad, service="http_store")
    behind = b"\r\nGET /empty HTTP/1.1\r\nHost: x\r\n\r\n"
    expect("a damaged item, and the one behind it", statuses(ours, b"GET /%s HTTP/1.1\r\nHost: x\r\n" % key + behind), [503, 200])
    for header in (b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close"):
        expect(f"a damaged item, {header}", statuses(ours, b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (key, header) + behind), [503])
    expect("ends", ours.stop(), 0)


def main():
    rng = random.Random(SEED)
    held = {key: item for key, item in items(rng).items() if OF_A_PATH.fullmatch(key)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        odd = {key: (0, rng.randbytes(200000) if key == b"long value" else b"value of " + key) for key in TO_ESCAPE}
        # With keys that begin as a query does.
        store = store_of(folder, {**held, **odd, b"?a": (0, b"of no path"), b"??a": (0, b"of no path")})
        ours = Ours(folder, store, service="http_store")
        try:
            by_python(ours, held, rng)
            by_hand(ours, rng)
            not_modified(ours)
            by_curl(ours, held)
            escaped(ours, odd, rng)
            behind_nginx(folder, ours, {**held, **odd}, rng)
        finally:
            expect("ends", ours.stop(), 0)
        undecoded(folder, store, {**held, **odd})
        damaged(folder, store, held)
    print(f"{compared} comparisons, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
