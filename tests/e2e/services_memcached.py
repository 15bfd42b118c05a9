#!/usr/bin/python3
"""std/memcached.chain: unmodified clients of memcached, and its own answers to the same requests, byte for byte.
The interpreter is the distribution's, which has its packages (pymemcache)."""
import base64
import itertools
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from memcached import BUILD, ROOT, Ours, Theirs, damaged_store, items, store_of, talk  # noqa: E402

SEED = 20265
failures = compared = 0


def expect(what, got, want):
    global failures, compared
    compared += 1
    ok = want(got) if callable(want) else got == want
    if not ok:
        print(f"FAIL  {what}\n      got {got!r:.600}\n      want {want!r:.600}", flush=True)
    failures += not ok


def ask(server, requests):
    return talk(server, requests + b"quit\r\n")


# A tab ends no command's name, whatever the command; elsewhere it is a part of a word as any other byte.
OF_BAD_FORM = [
    *(b"%s\ta 0 0 2\r\nmn\r\n" % name for name in (
        b"get", b"gets", b"mg", b"mn", b"version", b"stats", b"quit", b"set", b"add", b"replace", b"append", b"prepend", b"cas", b"ms", b"delete", b"incr",
        b"decr", b"touch", b"flush_all", b"gat", b"gats", b"md", b"ma")),
    b"get\t\r\n", b"mn\t\r\n", b"get\t a\r\n", b"get \ta\r\n", b"get a \tb\r\n", b"get\r a\r\n", b"get\va\r\n", b"mn x\r\n",
    b" get\ta\r\n", b"mg a\tv\r\n", b"mg nothing\tv k\r\n", b"mg a v\tk\r\n", b"mg a \tv\r\n", b"set a\t0 0 2\r\nmn\r\n", b"ms a\t2\r\nmn\r\n",
]
# Of several errors of mg one is named; that a token is too long only where nothing else is wrong, also of an item that is not there.
OF_FLAGS = [b"mg %s\r\n" % words for words in (
    *(b"%s %sO%s%s" % (key, before, b"x" * length, behind) for key in (b"a", b"nothing") for before in (b"", b"q ", b"v k ") for length in (30, 31, 32, 33, 300)
      for behind in (b"", b" v", b" z", b" O")),
    *(b"a " + b" ".join(flags) for flags in itertools.product((b"q", b"v", b"0", b"z", b"@", b"\x7f", b"\x80", b"\xf1", b"?"), repeat=3)), b"a q 0 q", b"a 0",
    b"a v" + b"x" * 40, b"a k" + b"x" * 300, b"a v P" + b"x" * 1000, b"a v L" + b"x" * 33, b"a z" + b"x" * 300, b"a v" + b" " * 50 + b"k",
    *(b"%s %s" % (key, b" ".join([flag] * count)) for key in (b"a", b"nothing") for flag in (b"q", b"z", b"O1") for count in (1, 2, 16, 17, 18, 19, 20, 21, 30)),
    b"k" * 251 + b" z", b"k" * 251 + b" v v", b"k" * 251 + b" O" + b"x" * 32,
)]


NUMBERS = [b"0", b"00", b"1", b"-1", b"+1", b"-0x", b"+", b"-", b"+-1", b"++1", b"1x", b"x", b"0x5", b"1.5", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807",
           b"9223372036854775808", b"-9223372036854775807", b"-9223372036854775808x", b"18446744073709551615", b"18446744073709551616", b"99999999999999999999999"]
# What `mg` makes of the flags of other commands and of those that want a number: the last wrong token is named.
OF_TOKENS = [b"mg %s\r\n" % words for words in (
    *(b"a %s%s%s" % (letter, number, behind) for letter in (b"C", b"D", b"F", b"J", b"N", b"R") for number in NUMBERS for behind in (b"", b" v", b" z", b" v v")),
    *(b"a M" + mode + behind for mode in (b"", b"I", b"X", b"II") for behind in (b"", b" v", b" z")), b"a I", b"a I1 v", b"a h", b"a h1 v", b"a v h k",
    *(b"a " + b" ".join(flags) for flags in itertools.permutations((b"C", b"Dx", b"F", b"J-1", b"N", b"R1x", b"T", b"M", b"b", b"v"), 3)),
    *(b"a %s O%s" % (flag, b"x" * 32) for flag in (b"N", b"N1", b"b", b"h")), b"nothing R30 v", b"nothing h l k", b"nothing C1 D1 F1 I J1 MI R1 k",
)]
# Items whose keys need base64, as they have blanks or control characters, which the other commands take none of.
CODED = {b"a b": (3, b"with a blank"), b" ": (0, b""), b"\n\n": (0, b"lines"), b"\x01\x7f": (9, b"control"), b"b" * 184 + b"\r\n": (1, b"long key"), "é à".encode(): (2, b"letters")}


def coded(key):
    return base64.b64encode(key)


def same_keys_in_base64(ours, theirs):
    keys = [*CODED, b"a", b"empty", b"key7", b"nothing", b"not hing", b"x" * 186, b"b" * 186, *(bytes([byte]) * 3 for byte in (33, 255, 251, 62))]
    for request in (
        *(b"mg %s %s\r\n" % (coded(key), flags) for key in keys for flags in (
            b"b", b"b v", b"v b", b"b k", b"k b v", b"b v f k s t h O123 u N30 R30", b"b q\r\nmn", b"q k b\r\nmn", b"b O" + b"x" * 32, b"b b", b"b z", b"b Nx")
          if key in CODED or key in (b"a", b"empty", b"key7") or b"N" not in flags),
        *(b"mg %s %s\r\n" % (text, flags) for text in (b"a", b"ab", b"abc", b"YQ", b"YQ=", b"YQ==x", b"YQ==a", b"====", b"Y===", b"$$$$", b"YWI=Y", coded(b"x" * 187))
          for flags in (b"b", b"b k v", b"b q", b"b N", b"N b", b"b z", b"z b", b"v")),
    ):
        expect(f"as memcached answers: {request[:60]!r}", ask(ours, request), ask(theirs, request))
    for text in (b"Y!W!I=", b"YWJ=", b"YR==", b"YQ==YQ==", b"=YQ=", b"Y=Q=", b"Y\tWI=", b"YWI=\xff"):
        expect("what no writer of base64 writes is none", ask(ours, b"mg %s b\r\n" % text), b"CLIENT_ERROR error decoding key\r\n")


def same_answers(ours, theirs, held, rng):
    for request in [
        b"get a\r\n", b"get a empty nothing\r\n", b"get  a   a \r\n", b"get a\n", b"get\r\n", b"get \r\n", b"\r\n", b"\n", b"GET a\r\n", b"bogus\r\n",
        b"bogus a b\r\n", b"get " + b"k" * 250 + b"\r\n", b"get " + b"k" * 251 + b"\r\n", b"get a " + b"k" * 251 + b" a\r\n", b"get long\r\n",
        b"get a\tb\r\n", b"mg a\r\n", b"mg a v\r\n", b"mg a v f k s t O123 \r\n", b"mg a k  v\r\n", b"mg nothing\r\n", b"mg nothing v k O9\r\n",
        b"mg nothing q v\r\n", b"mg a q v\r\n", b"mg\r\n", b"mg  \r\n", b"mg a z\r\n", b"mg a u\r\n", b"mg a v P12 u Labc k\r\n", b"mg a v v\r\n", b"mg a sv\r\n", b"mg " + b"k" * 251 + b"\r\n",
        b" get a\r\n", b"   gets  nothing\r\n", b"\tget a\r\n", b" \r\n", b"   \n", b"  get\r\n", b" bogus\r\n", b" mg a v k\r\n", b"  mn\r\n", b"  quit\r\nmn\r\n",
        b" " * 2000 + b"get a\r\n", b"mg a O\r\n", b"mg long v s\r\n", b"mg a " + b"v " * 30 + b"\r\n", b"mn\r\n", b"mg a v q\r\nmg nothing q\r\nmn\r\n",
        *OF_BAD_FORM, *OF_FLAGS, *OF_TOKENS,
    ]:
        expect(f"as memcached answers: {request[:60]!r}", ask(ours, request), ask(theirs, request))
    same_of_many(ours, theirs, held, rng)


def same_of_many(ours, theirs, held, rng):
    """Of more items than little memory holds."""
    keys = [*held, *(b"nothing%d" % i for i in range(500))]
    requests = b""
    for _ in range(1000):
        chosen = rng.choices(keys, k=rng.choice((1, 1, 1, 2, 3, 20)))
        if rng.random() < 0.5:
            requests += b"get " + b" ".join(chosen) + b"\r\n"
        else:
            known = [b"C1", b"D2", b"F3", b"I", b"J4", b"L5", b"M6", b"P7", b"R30", b"f", b"h", b"k", b"l", b"q", b"s", b"t", b"u", b"v", b"O%d" % rng.randrange(1 << 30)]
            # With N memcached makes what is not there.
            flags = rng.sample([*known, b"N30"] if chosen[0] in held else known, rng.randrange(10))
            text = chosen[0]
            if rng.random() < 0.3 and len(text) < 187:
                text, flags = coded(text), rng.sample([*flags, b"b"], len(flags) + 1)
            requests += b"mg " + b" ".join([text, *flags]) + b"\r\n"
    # When it was asked for last is of this second or of the one before.
    got, want = (re.sub(rb" l\d+", b" l0", ask(server, requests)) for server in (ours, theirs))
    at = next((i for i, (one, other) in enumerate(zip(got, want)) if one != other), min(len(got), len(want)))
    expect("1000 requests sent at once", (got == want, got[at:at + 80]), (True, want[at:at + 80]))
    all_keys = b"get " + b" ".join(held) + b"\r\n"
    expect("all keys in one request", ask(ours, all_keys) == ask(theirs, all_keys), True)


# Commands that change an item and bring no data: what memcached answers when there is none is the nominal answer, for which we say that we refuse.
NOMINAL = re.compile(rb"NOT_FOUND\r\n|OK\r\n|NF[^\r]*\r\n|HD\r\n")
WORDS = [b"", b" ", b" n", b" n x", b" n n", b" x 1", b" n 1 x", b" n 1 2 3", b" n 1 2 3 4 5 6 7 8 9", b" n 1 " + b"x " * 30, b" noreply", b" noreply x", b" noreply 1", b" noreply noreply",
         b" n noreply", b" n x noreply", b" n 1 noreply", b" n 0 noreply", b" n 0 x", b" n 0 0", b" n 0 noreply noreply", b" n noreply 0", b" n 1 2 noreply", b" 1 n noreply", b" 1 noreply",
         b" noreply noreply noreply", b" 1 2 3 noreply", b"  n  1 ", b"  1  n  m ", b" 1 n m o p", *(b" n %s%s" % (number, more) for number in NUMBERS for more in (b"", b" noreply", b" x")),
         *(b" %s%s" % (number, more) for number in NUMBERS for more in (b"", b" noreply", b" n"))]
WORDS += [words for size in (250, 251, 300) for key in (b"k" * size,) for words in (
    b" " + key, b" %s 1" % key, b" %s x" % key, b" %s 0" % key, b" %s noreply" % key, b" %s 1 noreply" % key, b" n " + key, b" 1 " + key, b" x " + key, b" n 1 " + key, b" 1 n " + key, b" 1 n %s m" % key,
    b" %s 1 2 3" % key, b" %s q q" % key, b" %s %s" % (key, b"q " * 20), b" %s O%s" % (key, b"x" * 32), b" n k P" + key, b" n L" + key)]
META = [b"n " + b" ".join(flags) for flags in (
    *([b"%c" % letter] for letter in range(33, 256)), *([b"%c1" % letter] for letter in range(33, 127) if letter != ord("M")), *([b"O%s" % (b"x" * length)] for length in (0, 1, 31, 32, 300)),
    *([letter + number] for letter in (b"N", b"T", b"R", b"F", b"C", b"J", b"D") for number in NUMBERS), *([b"M" + mode] for mode in (b"", b"I", b"D", b"+", b"-", b"i", b"X", b"E", b"II", b"incr")),
    *itertools.product((b"q", b"v", b"z", b"T1", b"Tx", b"MX", b"M", b"O" + b"x" * 32), repeat=2), *([b"q", b"k", b"O1", flag] for flag in (b"T", b"k", b"v", b"MX")),
    *([b"q"] * count for count in (17, 18, 19, 30)), *([b"z"] * count for count in (17, 18, 19)),
    *([b"c f h I k l L P q s t u v C1 D1 F1"[:end]] for end in range(1, 35)), [b"c f h I k l L P q s t u v C1 D1 F1 J1"], [b"c f h I k l L P q s t u v C1 D1 F1 J1 N1"])
    if flags[0][:1] != b"b"] + [b"YQ== b", b"YWI= q b k", b"YQ== b b"]


# What releases behind 1.6.18 (Debian 12) know besides: flags of md and ma. Ours goes by that release.
NEWER = re.compile(rb"(?:md|ma) +\S+ (?:.* )?[xE]\d*(?: .*)?")


def same_changes(ours, theirs):
    """Of commands that would change an item, each error is memcached's, and nothing but an error. Items come from `ma` with N, and none is there at the end."""
    nominal = errors = 0
    for command in (b"delete", b"incr", b"decr", b"touch", b"gat", b"gats", b"md", b"ma", b"flush_all"):
        for words in [*WORDS, *(b" " + flags for flags in META if command in (b"md", b"ma"))]:
            request = command + words + b"\r\nmn\r\n"
            got, want = ask(ours, request), ask(theirs, b"delete n noreply\r\n" + request)
            changed = NOMINAL.match(want) or (command.startswith(b"gat") and want.startswith(b"END") and len(words.split()) > 1)
            nominal, errors = nominal + bool(changed), errors + (b"ERROR" in want)
            refused = b"CLIENT_ERROR invalid or duplicate flag\r\n" if changed and NEWER.fullmatch(command + words) else b"CLIENT_ERROR this store is read only\r\n"
            expect(f"as memcached answers: {request[:80]!r}", got, refused + b"MN\r\n" if changed else want)
    expect("some were refused and some wrong", (nominal > 300, errors > 1000), (True, True))


def same_refusals(ours, theirs):
    """Where memcached refuses an object, which it does when it is too large, we refuse all: what follows and what is skipped is the same."""
    too_large, read_only = b"SERVER_ERROR object too large for cache\r\n", b"CLIENT_ERROR this store is read only\r\n"
    size, key = 2_000_000, b"k" * 250
    for line in [
        *(command + b" a 1 2 %d" % size for command in (b"set", b"add", b"replace", b"append", b"prepend")), b"cas a 1 2 %d 7" % size,
        b"set a 1 2 %d noreply" % size, b"cas a 1 2 %d 7 noreply" % size, b"set a 1 2 %d other" % size, b"set  a  1  2  %d " % size, b"set a 1 -1 %d" % size,
        b"set a 1 2 0%d" % size, b"set a 4294967295 2 %d" % size, b"  set a 1 2 %d" % size, b"set a +1 +2 +%d" % size, b"cas a 1 2 %d +7" % size, b"ms a +%d" % size, b" ms a %d" % size, b"cas a 1 2 %d 18446744073709551615" % size, b"set %s 1 2 %d" % (key, size),
        b"ms a %d" % size, b"ms a %d q" % size, b"ms a %d T0 F1 k O123 q" % size, b"ms  a  %d " % size, b"ms %s %d" % (key, size),
    ]:
        for data in (b"version\r\n" * (size // 9 + 1))[:size] + b"\r\n", b"x" * size + b"XX":
            request = line + b"\r\n" + data + b"get key7\r\n"  # of the refused one memcached forgets what it had
            expect(f"refused as memcached refuses: {line[:60]!r}", ask(ours, request).replace(read_only, too_large), ask(theirs, request))
    for line in [
        b" set a", b"set", b"set a", b"set a 1", b"set a 1 2", b"set a 1 2 noreply", b"set a 1 2 x", b"set a 1 2 5x", b"set a 1 2 -1", b"set a 1 2 -1 noreply",
        b"set a 1 2 x noreply", b"set a 1 2 3 4 5", b"set a 1 2 3 noreply noreply", b"set a x 2 3", b"set a 1 x 3", b"set a 1 - 3", b"set a 1 + 3", b"set a 1 2 +", b"set a + 2 3", b"set a 1 9223372036854775808 3", b"set a 1 -9223372036854775809 3", b"set a 1 2 18446744073709551615",
        b"set a 1 2 9223372036854775808", b"ms a 18446744073709551615", b"set a 1 +-2 3", b"ms a +", b"set a -1 2 3", b"set a 0.5 2 3",
        b"set a x 2 3 noreply", b"set a 1 2 2147483646", b"set a 1 2 2147483647", b"set a 1 2 2147483648", b"set a 1 2 0x5", b"set %sk 1 2 5" % key,
        b"set %sk 1 2 5 noreply" % key, b"cas a 1 2", b"cas a 1 2 3", b"cas a 1 2 3 x", b"cas a 1 2 3 -1", b"cas a 1 2 3 18446744073709551616", b"cas a 1 2 3 x noreply",
        b"ms", b"ms a", b"ms a x", b"ms a -1", b"ms a 5x", b"ms a q", b"ms a x q", b"ms a 2147483646", b"ms a S5", b"ms %sk 5" % key,
    ]:
        request = line + b"\r\nhello\r\nget key7\r\n"
        expect(f"of bad form, and nothing skipped: {line[:60]!r}", ask(ours, request), ask(theirs, request))


def own_answers(ours, theirs):
    expect("what is not there is not made", ask(ours, b"mg nothing N30 v k\r\nmg nothing N30 v q\r\nmg nothing N30 v t\r\n"), b"EN knothing\r\nEN\r\n")
    for request in (b"mg a T30", b"mg a T-1 v q", b"mg nothing T30 k", b"mg YQ== b T0"):
        expect("T would change the item", ask(ours, request + b"\r\nmn\r\n"), b"CLIENT_ERROR this store is read only\r\nMN\r\n")
    for number in NUMBERS:
        request = b"mg nothing T%s\r\n" % number
        expect("of bad form is T as memcached's", ask(ours, request), ask(theirs, request).replace(b"EN\r\n", b"CLIENT_ERROR this store is read only\r\n"))
    expect("hits are not counted", ask(ours, b"mg a h l t\r\n" * 2), b"HD h1 l0 t-1\r\n" * 2)
    for keys, blanks, fits in ((4095, 1, True), (4096, 1, False), (2048, 2, True), (2049, 2, False)):
        got = ask(ours, b"get " + (b" " * blanks).join([b"a"] * keys) + b"\r\nmn\r\n")
        want = b"VALUE a 5 3\r\nabc\r\n" * keys + b"END\r\n" if fits else b"CLIENT_ERROR too many keys in one request\r\n"
        expect(f"{keys} keys with {blanks} blanks between two", got == want + b"MN\r\n", True)
    expect("what memcached closes for is no command", ask(ours, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"), b"ERROR\r\n" * 3)
    expect("too many keys", ask(ours, b"get " + b"a " * 5000 + b"\r\nmn\r\n"), b"CLIENT_ERROR too many keys in one request\r\nMN\r\n")
    for request in (b"version\r\n", b"version x\r\n", b"version \tx\r\n"):
        expect(f"{request}", ask(ours, request), lambda text: re.fullmatch(rb"VERSION \d+\.\d+\.\d+\r\n", text) is not None)
    read_only = b"CLIENT_ERROR this store is read only\r\n"
    for command in (b"set a 0 0 6", b"set a 0 0 6 noreply", b"cas a 0 0 6 7", b"ms a 6", b"ms a 6 q"):
        quiet = command.endswith(b"noreply")
        expect(f"data are no commands: {command}", ask(ours, command + b"\r\nget a \r\nget a\r\n"), (b"" if quiet else read_only) + b"VALUE a 5 3\r\nabc\r\nEND\r\n")
    for command in (b"delete a", b"incr a 1", b"decr a 1", b"touch a 0", b"gat 0 a b", b"gats 0 a", b"md a", b"ma a q", b"flush_all", b"flush_all 0", b"delete noreply",
                    b"delete a 0", b"gat 0 noreply"):
        expect(f"what has no data ends no connection: {command}", ask(ours, command + b"\r\nmn\r\n"), read_only + b"MN\r\n")
    for command in (b"delete a noreply", b"incr a 1 noreply", b"decr a 1  noreply ", b"touch a 0 noreply", b"flush_all noreply", b"flush_all 0 noreply"):
        expect(f"who reads no answer gets none: {command}", ask(ours, command + b"\r\nmn\r\n"), b"MN\r\n")
    with socket.create_connection(("127.0.0.1", ours.port), timeout=60) as sock:
        client = Client(("127.0.0.1", ours.port), timeout=60)
        client.sock = sock
        client.delete("a")  # pymemcache says `noreply` by itself
        client.touch("a")
        client.set("a", "get a\r\n" * 10000)
        expect("a client goes on with its connection", (client.get("a"), client.sock is sock), (b"abc", True))
        for what in (client.add, client.replace, client.append, client.prepend, client.set):
            try:
                what("a", b"value", noreply=False)
                expect(f"{what.__name__}", "no error", "an error")
            except MemcacheClientError as error:
                expect(f"{what.__name__} is refused", "read only" in str(error), True)
            expect("  and the next request is answered", client.get("a"), b"abc")
    one, two = (ask(ours, b"gets a empty\r\n") for _ in range(2))
    found = re.fullmatch(rb"VALUE a 5 3 (\d+)\r\nabc\r\nVALUE empty 0 0 (\d+)\r\n\r\nEND\r\n", one)
    expect("gets", (found is not None and found[1] != found[2], one == two), (True, True))
    all_of_them = re.findall(rb"VALUE \S+ \d+ \d+ (\d+)\r\n", ask(ours, b"gets " + b" ".join(b"key%d" % number for number in range(100)) + b"\r\n"))
    expect("each is a number that a signed integer holds", (len(all_of_them), max(map(int, all_of_them)) < 1 << 63), (100, True))
    expect("the same cas by mg", ask(ours, b"mg a c\r\n"), b"HD c%s\r\n" % (found[1] if found else b""))


def clients(ours, held):
    server = f"--servers=127.0.0.1:{ours.port}"
    run = lambda *words: subprocess.run(words, capture_output=True, timeout=60)
    done = run("memccat", server, "a", "key7")
    expect("memccat", (done.returncode, done.stdout), (0, held[b"a"][1] + b"\n" + held[b"key7"][1] + b"\n"))
    expect("memccat of a key that is not there", run("memccat", server, "nothing").returncode, lambda code: code != 0)
    expect("memcping", run("memcping", server).returncode, 0)
    done = run("memcrm", server, "a")
    expect("memcrm may not", (done.returncode != 0, b"read only" in done.stderr), (True, True))
    done = run("memccp", server, __file__, __file__)
    expect("nor memccp, which is told of each file on one connection", (done.returncode, done.stderr.count(b"read only")), (1, 2))

    client = Client(("127.0.0.1", ours.port), timeout=60)
    for key in [b"a", b"long", b"empty"]:
        expect(f"pymemcache: {key}", client.get(key), held[key][1])
    expect("pymemcache: nothing", client.get("nothing", "default"), "default")
    expect("pymemcache: get_many", client.get_many([*held, b"nothing"]), {key: value for key, (_, value) in held.items()})
    expect("pymemcache: gets", client.gets("a"), lambda pair: pair[0] == b"abc" and int(pair[1]) > 0)
    expect("pymemcache: version", client.version(), b"1.6.0")
    expect("pymemcache: stats", client.stats(), {b"version": b"1.6.0"})
    try:
        expect("pymemcache: set", client.set("a", "b", noreply=False), "an error")
    except MemcacheClientError as error:
        expect("pymemcache: set", str(error), lambda text: "read only" in text)
    client.close()


def damaged(folder, store, held):
    """An item whose bytes are not what they were is an error, and neither an answer nor a miss."""
    bad, key = damaged_store(folder, store, held)
    ours = Ours(folder, bad)
    expect("a damaged item", ask(ours, b"get empty %s\r\nget empty\r\n" % key),
           b"VALUE empty 0 0\r\n\r\nSERVER_ERROR not answered: unreadable store, overload, or a reply too long for UDP (ask over TCP)\r\nVALUE empty 0 0\r\n\r\nEND\r\n")
    expect("ends", ours.stop(), 0)


def values_in_memory(folder, store, theirs, held, rng):
    """Values are kept beside the index, in so little memory that both are always displaced."""
    ours = Ours(folder, store, "-D", "LEVELS=2", "-D", "INDEX=1MiB")
    try:
        same_answers(ours, theirs, held, rng)
        for _ in range(2):
            same_of_many(ours, theirs, held, rng)
    finally:
        expect("with values in memory, ends", ours.stop(), 0)


def main():
    rng = random.Random(SEED)
    held = items(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = store_of(folder, {**held, **CODED})
        ours, theirs = Ours(folder, store), Theirs(folder, held)
        try:
            ask(theirs, b"".join(b"ms %s %d b F%d\r\n%s\r\n" % (coded(key), len(value), flags, value) for key, (flags, value) in CODED.items()))
            ask(theirs, b"get " + b" ".join(held) + b"\r\n" + b"".join(b"mg %s b\r\n" % coded(key) for key in CODED))  # h is 1 from now on
            same_keys_in_base64(ours, theirs)
            same_answers(ours, theirs, held, rng)
            values_in_memory(folder, store, theirs, held, rng)
            same_refusals(ours, theirs)
            same_changes(ours, theirs)
            own_answers(ours, theirs)
            clients(ours, held)
        finally:
            theirs.stop()
            expect("ends", ours.stop(), 0)
        damaged(folder, store, held)
    print(f"{compared} comparisons, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
