#!/usr/bin/python3
"""std/memcached_binary.chain: memcached's own answers to the same requests, byte for byte but for the cas of items, and libmemcached's tools.

Its requests say themselves how long they are, and come cut anywhere."""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from memcached import Ours, Theirs, damaged_store, items, store_of, talk  # noqa: E402

SEED = 20267
HEAD = struct.Struct(">BBHBBHIIQ")
GET, QUIT, GETQ, NOOP, VERSION, GETK, GETKQ, STAT, QUITQ = 0x00, 0x07, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x10, 0x17
READS = (GET, GETQ, GETK, GETKQ)
WRITES = (1, 2, 3, 4, 5, 6, 8, 0x0E, 0x0F, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x18, 0x19, 0x1A, 0x1C, 0x1D, 0x1E, 0x23, 0x24)
failures = compared = 0


def expect(what, got, want):
    global failures, compared
    compared += 1
    if got != want:
        failures += 1
        print(f"FAIL  {what}\n      got {got!r:.600}\n      want {want!r:.600}", flush=True)


def request(opcode, key=b"", extras=b"", value=b"", opaque=0, magic=0x80, body=None):
    length = len(extras) + len(key) + len(value) if body is None else body
    return HEAD.pack(magic, opcode, len(key), len(extras), 0, 0, length, opaque, 0) + extras + key + value


def replies(data):
    """Each without its cas, and what is left over."""
    said = []
    while len(data) >= HEAD.size:
        *head, _ = HEAD.unpack_from(data)
        said.append((head, data[HEAD.size:HEAD.size + head[6]]))
        data = data[HEAD.size + head[6]:]
    return said, data


def ask(server, requests):
    return replies(talk(server, requests + request(QUIT)))


def numbers_of_items(ours):
    """A cas is one that a signed integer holds, as clients in Java have it."""
    data, found = talk(ours, b"".join(request(GET, b"key%d" % number) for number in range(100)) + request(QUIT)), []
    while data:
        *head, cas = HEAD.unpack_from(data)
        found.append(0 < cas < 1 << 63)
        data = data[HEAD.size + head[6]:]
    expect("numbers of items, and none of what is none", found, [True] * 100 + [False])


def same_answers(ours, theirs, held, rng):
    for what, sent in {
        "each way to read": b"".join(request(opcode, key, opaque=7 * opcode) for opcode in READS for key in (b"a", b"empty", b"nothing", b"long", b"k" * 250)),
        "noop": request(NOOP, opaque=0xFFFFFFFF) * 3,
        "quit, and what follows": request(QUIT, opaque=5) + request(NOOP),
        "quit quietly": request(NOOP) + request(QUITQ) + request(NOOP),
        "another magic": request(NOOP) + request(NOOP, magic=0x81) + request(NOOP),
        "a key of which more is said than there is": request(GET, b"abc", body=2) + request(NOOP),
        "an unknown command": request(0x70, opaque=3) + request(NOOP),
        "extras of get": request(GET, b"a", b"1234"),
        "a value of get": request(GET, b"a", b"", b"1234"),
        "get without a key": request(GET),
        "getkq without a key": request(GETKQ),
        "a body of noop": request(NOOP, b"a"),
        "a body of version": request(VERSION, b"a"),
        "a body of quit": request(QUIT, b"a"),
        "extras of stat": request(STAT, b"", b"1"),
    }.items():
        expect(what, ask(ours, sent), ask(theirs, sent))
    keys = [*held, *(b"nothing%d" % number for number in range(500))]
    sent = b"".join(request(NOOP, opaque=number) if number % 9 == 0 else request(rng.choice(READS), rng.choice(keys), opaque=number) for number in range(3000))
    expect("3000 requests at once", ask(ours, sent), ask(theirs, sent))


def in_pieces(ours, held, rng):
    """However its bytes come, each request is answered, and as soon as it is whole."""
    with ours.connect() as sock:
        for number, key in enumerate(rng.sample([key for key, (_, value) in held.items() if len(value) < 1000], 40)):
            data = request(GETK, key, opaque=number)
            at = 0
            while at < len(data):
                end = min(len(data), at + rng.choice((1, 2, 23, 24, 25)))
                sock.sendall(data[at:end])
                at = end
            want = struct.pack(">I", held[key][0]) + key + held[key][1]
            got = b""
            while len(got) < HEAD.size + len(want):
                more = sock.recv(1 << 16)
                assert more, "the connection ends"
                got += more
            said, left = replies(got)
            expect(f"request {number} in pieces", ([(head[7], body) for head, body in said], left), ([(number, want)], b""))


def writes(ours):
    """What would write is refused, its data are no commands, and the connection goes on."""
    text = b"this store is read only"
    for opcode in WRITES:
        for value in (b"", request(NOOP) * 3, bytes(300_000)):
            said, left = ask(ours, request(opcode, b"a", b"12345678", value, opaque=opcode) + request(NOOP, opaque=1))
            want = [([0x81, opcode, 0, 0, 0, 5, len(text), opcode], text), ([0x81, NOOP, 0, 0, 0, 0, 0, 1], b""), ([0x81, QUIT, 0, 0, 0, 0, 0, 0], b"")]
            expect(f"opcode {opcode} with {len(value)} bytes", (said, left), (want, b""))


def own_answers(ours):
    said, _ = ask(ours, request(VERSION, opaque=9))
    expect("version", said[0], ([0x81, VERSION, 0, 0, 0, 0, 5, 9], b"1.6.0"))
    said, _ = ask(ours, request(STAT, opaque=9))
    expect("stat", said[:2], [([0x81, STAT, 7, 0, 0, 0, 12, 9], b"version1.6.0"), ([0x81, STAT, 0, 0, 0, 0, 0, 9], b"")])
    # memcached 1.6.18 ends the connection without a word.
    said, _ = ask(ours, request(0x71, b"key", b"extras", b"value", opaque=4) + request(NOOP))
    expect("an unknown command with a body", [(head[5], body) for head, body in said], [(0x81, b"Unknown command"), (0, b""), (0, b"")])
    said, _ = ask(ours, request(STAT, b"items") + request(NOOP))
    expect("of stat, a key", [head[5] for head, _ in said], [1, 0, 0])
    said, _ = ask(ours, request(GET, b"k" * 251) + request(NOOP))
    expect("a key that is too long", [(head[5], body) for head, body in said], [(4, b"Invalid arguments")])


def clients(ours, held):
    def run(*words):
        return subprocess.run([words[0], f"--servers=127.0.0.1:{ours.port}", "--binary", *words[1:]], capture_output=True, timeout=60)
    done = run("memccat", "a", "key7")
    expect("memccat", (done.returncode, done.stdout), (0, held[b"a"][1] + b"\n" + held[b"key7"][1] + b"\n"))
    expect("memccat of a key that is not there", run("memccat", "nothing").returncode != 0, True)
    done = run("memccp", __file__)
    expect("memccp may not", (done.returncode, b"NOT STORED" in done.stderr), (1, True))
    expect("nor memcrm", (run("memcrm", "a").returncode, run("memccat", "a").stdout), (1, held[b"a"][1] + b"\n"))


def damaged(folder, store, held):
    """An item whose bytes are not what they were ends the connection: it is neither an answer nor a miss."""
    bad, key = damaged_store(folder, store, held)
    ours = Ours(folder, bad, service="memcached_binary")
    said, left = ask(ours, request(GET, b"empty", opaque=1) + request(GET, key, opaque=2) + request(GET, b"empty", opaque=3))
    expect("a damaged item", ([head[7] for head, _ in said], left), ([1], b""))
    expect("ends", ours.stop(), 0)


def main():
    rng = random.Random(SEED)
    held = items(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = store_of(folder, held)
        ours, theirs = Ours(folder, store, service="memcached_binary"), Theirs(folder, held)
        try:
            same_answers(ours, theirs, held, rng)
            numbers_of_items(ours)
            in_pieces(ours, held, rng)
            writes(ours)
            own_answers(ours)
            clients(ours, held)
        finally:
            theirs.stop()
            expect("ends", ours.stop(), 0)
        damaged(folder, store, held)
    print(f"{compared} comparisons, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
