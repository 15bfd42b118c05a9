#!/usr/bin/python3
"""std/redis.chain: redis-server's own answers to the same commands, byte for byte, redis-cli and redis-benchmark."""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from memcached import AtPath, Ours, damaged_store, items, store_of, talk  # noqa: E402

SEED = 20273
failures = compared = 0
WRITES = (b"SET", b"SETEX", b"PSETEX", b"SETNX", b"MSET", b"MSETNX", b"SETRANGE", b"GETSET", b"GETDEL", b"GETEX", b"APPEND", b"INCR", b"INCRBY", b"DECR", b"DECRBY", b"DEL", b"UNLINK",
          b"EXPIRE", b"PEXPIRE", b"PERSIST", b"RENAME", b"FLUSHDB", b"FLUSHALL", b"LPUSH", b"RPUSH", b"LPOP", b"RPOP", b"SADD", b"SPOP", b"HSET", b"ZADD", b"ZPOPMIN", b"XADD", b"SETBIT",
          b"HDEL", b"SREM", b"EXPIREAT", b"ZREM", b"LTRIM", b"COPY", b"RENAMENX", b"PFADD", b"HMSET", b"RESTORE", b"MOVE", b"LINSERT", b"BITFIELD", b"ZINCRBY", b"XGROUP",
          b"SORT", b"SWAPDB", b"MIGRATE", b"XCLAIM", b"XSETID", b"LMPOP", b"BLMPOP", b"ZMPOP", b"BZMPOP", b"BZPOPMIN", b"BZPOPMAX", b"BLMOVE", b"PFDEBUG")
READ_ONLY = b"-READONLY You can't write against a read only replica.\r\n"


def expect(what, got, want):
    global failures, compared
    compared += 1
    if got != want:
        failures += 1
        print(f"FAIL  {what}\n      got {got!r:.600}\n      want {want!r:.600}", flush=True)


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Redis(AtPath):
    """redis-server, with the same items."""
    def __init__(self, folder, held):
        path = folder / "redis"
        super().__init__(path, ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        done = ask(self, b"".join(command(b"SET", key, value) for key, (_, value) in held.items()))
        assert done == b"+OK\r\n" * (len(held) + 1), done[:200]


def ask(server, sent):
    return talk(server, sent + command(b"QUIT"))


def same_answers(ours, theirs, held, rng):
    for sent in [
        *(command(name, key) for name in (b"GET", b"get", b"gEt", b"EXISTS", b"STRLEN", b"TYPE", b"TTL", b"PTTL", b"ECHO", b"PING", b"MGET")
          for key in (b"a", b"empty", b"nothing", b"", b"k" * 250, b"k" * 251, b"key7", b"\r\n")),
        command(b"GET", b"long"), command(b"MGET", b"a", b"nothing", b"long", b"a"), command(b"EXISTS", b"a", b"a", b"nothing"), command(b"PING"),
        command(b"SELECT", b"0"), b"*0\r\n", b"\r\n\r\n", b"PING\r\nping\r\n", b"PING\nping\n", b"\n\n" + command(b"PING"), b"QUIT\nPING\n", b"QUIT\r\nPING\r\n", command(b"QUIT") + command(b"PING"),
        *(command(b"MGET", *[b"a", b"nothing", b"", b"key7", b"long", b"k" * 251][:count] * 5) for count in range(1, 7)), *(command(b"MGET", *[b"a"] * count) for count in range(15, 19)),
        command(b"MGET", *rng.choices([*held, b"nothing"], k=3000)), command(b"CLIENT", b"SETNAME", b"x"), command(b"client", b"setname", b""),
        *(command(b"CLIENT", b"NO-EVICT", word) for word in (b"on", b"OFF", b"", b"o", b"onn", b"offoffoff")),
        command(b"CONFIG", b"GET", b"nothing"), command(b"config", b"get", b"nothing", b"no more"), *(command(name, b"a\r\nb") for name in (b"CONFIG", b"config", b"COMMAND", b"client")),
        *(command(name, word) for name in (b"CONFIG", b"COMMAND") for word in (b"SETNAME", b"foo", b"")),
        *(command(b"CLIENT", *words) for words in ((b"foo",), (b"foo", b"bar"), (b"",), (b"NO-TOUCH", b"on"), (b"NO\rEVICT", b"on"), (b"a\r\nb\n",), (b"\r\n",), (b"a\0b",), (b"x" * 128,), (b"y" * 129,),
                                                    (b" SETNAME", b"x"), (b"\0SETNAME", b"x"), (b"SETNAMES", b"x"), (b"\xff\x80",))),
    ]:
        got, want = ask(ours, sent), ask(theirs, sent)
        expect(f"as redis answers: {sent[:60]!r}", got[:1000], want[:1000])
        expect(f"as redis answers, to the end: {sent[:60]!r}", got == want, True)
    keys = [*held, *(b"nothing%d" % number for number in range(500))]
    sent = b"".join(command(rng.choice((b"GET", b"get", b"STRLEN", b"EXISTS", b"TYPE")), rng.choice(keys)) if rng.random() < 0.8 else
                    command(rng.choice((b"MGET", b"EXISTS")), *rng.choices(keys, k=rng.randrange(1, 16))) if rng.random() < 0.8 else command(b"MGET", *rng.choices(keys, k=rng.randrange(16, 60))) for _ in range(2000))
    expect("2000 commands at once", ask(ours, sent) == ask(theirs, sent), True)


def hello(answer):
    """Without what differs: the version, the id, and which of both is a replica."""
    answer = re.sub(rb"(version\r\n)\$\d+\r\n[0-9.]+\r\n", rb"\1", answer)
    return re.sub(rb"(id\r\n):\d+\r\n", rb"\1", answer).replace(b"$6\r\nmaster\r\n", b"$7\r\nreplica\r\n")


def hellos(ours, theirs, version):
    """HELLO with the version that the service has, and without, which is the one that the connection has then."""
    own = b"%d" % version
    begin = command(b"HELLO", own)
    for words in ((own,), (), (b"x",), (b"",), (b"4",), (b"2x",), (b"9" * 20,), (own, b"AUTH", b"default", b"x"), (own, b"auth", b"somebody", b"x"), (own, b"SETNAME", b"a"),
                  (own, b"SETNAME", b"a", b"setname", b"AUTH"), (own, b"AUTH", b"default", b"SETNAME", b"SETNAME", b"x")):
        expect(f"HELLO {words}, RESP{version}", hello(ask(ours, begin + command(b"HELLO", *words))), hello(ask(theirs, begin + command(b"HELLO", *words))))
    for words in ((b"SETNAME",), (b"foo",), (b"AUTH", b"default"), (b"AUTH", b"default", b"x", b"foo"), (b"SETNAME", b"a", b"AUTH")):
        got, want = (ask(server, command(b"HELLO", own, *words)) for server in (ours, theirs))
        expect(f"HELLO {own} {words}", (got, want.startswith(b"-ERR Syntax error in HELLO option")), (b"-ERR Syntax error in HELLO option\r\n+OK\r\n", True))
    other = command(b"HELLO", b"%d" % (5 - version)) + command(b"GET", b"a")
    if version == 3:
        expect("RESP2 of a service with RESP3", ask(ours, other), b"-NOPROTO unsupported protocol version\r\n$3\r\nabc\r\n+OK\r\n")
    else:
        expect("RESP3 of a service with RESP2", hello(ask(ours, other)), hello(ask(theirs, other)))
        expect("  and what is not there, as RESP2 says it", hello(ask(ours, other + command(b"GET", b"nothing"))), hello(ask(theirs, other + command(b"GET", b"nothing"))).replace(b"_\r\n", b"$-1\r\n"))


def cli_of_resp3(ours):
    done = subprocess.run(["redis-cli", "-3", "-h", "127.0.0.1", "-p", str(ours.port), "--no-raw", "MGET", "a", "nothing"], capture_output=True, timeout=120)
    expect("redis-cli -3", (done.stdout, done.stderr), (b'1) "abc"\n2) (nil)\n', b""))


def third_version(folder, store, theirs):
    """With RESP=3, what differs of that version: nulls and maps."""
    ours = Ours(folder, store, "-D", "RESP=3", service="redis")
    hellos(ours, theirs, 3)
    sent = command(b"HELLO", b"3") + b"".join(command(*words) for words in (
        (b"GET", b"a"), (b"GET", b"nothing"), (b"GET", b"k" * 251), (b"MGET", b"nothing", b"a", b"nothing"), (b"EXISTS", b"nothing"), (b"TYPE", b"nothing"), (b"STRLEN", b"nothing"), (b"TTL", b"nothing"),
        (b"CONFIG", b"GET", b"nothing"), (b"COMMAND", b"DOCS", b"nothing"), (b"CLIENT", b"SETNAME", b"x"), (b"PING",), (b"SELECT", b"0")))
    expect("as redis answers with RESP3", hello(ask(ours, sent)), hello(ask(theirs, sent)))
    cli_of_resp3(ours)
    expect("ends", ours.stop(), 0)


def in_pieces(ours, held, rng):
    """However its bytes come, each command is answered as soon as it is whole."""
    with ours.connect() as sock:
        for key in rng.sample([key for key, (_, value) in held.items() if len(value) < 1000], 40):
            data, at = command(b"GET", key), 0
            while at < len(data):
                end = min(len(data), at + rng.choice((1, 2, 5, 20)))
                sock.sendall(data[at:end])
                at = end
            want = b"$%d\r\n%s\r\n" % (len(held[key][1]), held[key][1])
            got = b""
            while len(got) < len(want):
                more = sock.recv(1 << 16)
                assert more, "the connection ends"
                got += more
            expect(f"{key} in pieces", got, want)


def own_answers(ours):
    for words in (*((name, b"a", b"b") for name in WRITES), (b"del", b"a"), (b"FLUSHALL",), (b"SET", b"a", b"*1\r\n$4\r\nPING\r\n" * 1000)):
        expect(f"{words[0]} may not", ask(ours, command(*words) + command(b"GET", b"a")), READ_ONLY + b"$3\r\nabc\r\n+OK\r\n")
    for words in ((b"GET",), (b"GET", b"a", b"b"), (b"MGET",), (b"EXISTS",), (b"STRLEN",), (b"PING", b"a", b"b"), (b"ECHO",), (b"SELECT",), (b"CLIENT",),
                  (b"CLIENT", b"SETNAME"), (b"CLIENT", b"SETNAME", b"a", b"b"), (b"CLIENT", b"SETINFO", b"a"), (b"CLIENT", b"no-evict"), (b"CONFIG",), (b"CONFIG", b"get")):
        expect(f"{words}", ask(ours, command(*words)), b"-ERR wrong number of arguments\r\n+OK\r\n")
    for words in ((b"nonsense",), (b"",), (b"GETX", b"a"), (b"\0GET", b"a"), (b"GET\0", b"a"), (b"x" * 20, b"a"), (b"SISMEMBER", b"a", b"b")):
        expect(f"{words}", ask(ours, command(*words)), b"-ERR unknown command\r\n+OK\r\n")
    for words in ((b"ID",), (b"GETNAME",), (b"LIST",), (b"REPLY", b"OFF"), (b"TRACKING", b"ON")):
        expect(f"CLIENT {words}", ask(ours, command(b"CLIENT", *words)), b"-ERR unknown subcommand '%s'. Try CLIENT HELP.\r\n+OK\r\n" % words[0])
    for words in ((b"CONFIG", b"SET", b"maxmemory", b"1mb"), (b"CONFIG", b"REWRITE"), (b"CONFIG", b"RESETSTAT"), (b"COMMAND", b"COUNT"), (b"COMMAND", b"INFO", b"GET"), (b"CLIENT", b"GET"), (b"CLIENT", b"DOCS")):
        expect(f"{words}", ask(ours, command(*words)), b"-ERR unknown subcommand '%s'. Try %s HELP.\r\n+OK\r\n" % (words[1], words[0]))
    for words in ((b"COMMAND",), (b"COMMAND", b"DOCS"), (b"command", b"docs", b"get"), (b"CONFIG", b"GET", b"save")):
        expect(f"{words}", ask(ours, command(*words)), b"*0\r\n+OK\r\n")
    expect("CLIENT SETINFO", ask(ours, command(b"CLIENT", b"SETINFO", b"LIB-NAME", b"x")), b"+OK\r\n+OK\r\n")
    for sent in (b"*1\r\n#4\r\nPING\r\n", b"*1\r\n$4\r\nPINGxx", b"*x\r\n", b"*12\n$4\r\nPING\r\n", b"*1\r\n$42\nPING\r\n", b"*1\r\n$x\r\nPING\r\n", b"*2\r\n$3\r\nGET\r\n$-1\r\n", b"*1\r\n$99999999999\r\n",
                 b"$\r\n\r\n", b"$x\r\n", b"$-1\r\n", b"$1\r\nab\r\n", b"$99999999999\r\n", b"$99999999999999999999999\r\n"):
        expect(f"{sent}", ask(ours, sent), b"-ERR Protocol error\r\n")
    for words in ((*[b"EXISTS"] * 17,), (b"DEL", *[b"a"] * 16), (b"nonsense", *[b"a"] * 100)):
        expect(f"too many words of {words[0]}", ask(ours, command(*words) + command(b"GET", b"a")), b"-ERR too many words in a command\r\n")
    most = b"$4\r\nMGET\r\n" + b"$1\r\na\r\n" * 15
    expect("too many keys", ask(ours, b"*1048577\r\n" + most), b"-ERR too many words in a command\r\n")
    expect("the most keys", ask(ours, b"*1048576\r\n" + most), b"*1048575\r\n" + b"$3\r\nabc\r\n" * 15 + b"+OK\r\n")
    expect("a key that stands alone", ask(ours, b"$1\r\na\r\n$1\na\r\n"), b"$3\r\nabc\r\n" + b"-ERR Protocol error\r\n")
    for line in (b"nonsense\r\n", b"nonsenses\r\n", b"PINGPINGPING\n", b"PING a\r\n"):
        expect(f"{line}", ask(ours, line), b"-ERR of commands that are lines, PING and QUIT are understood\r\n+OK\r\n")
    expect("another database", ask(ours, command(b"SELECT", b"1")), b"-ERR DB index is out of range\r\n+OK\r\n")
    expect("INFO", ask(ours, command(b"INFO")), b"$31\r\n# Server\r\nredis_version:7.0.0\r\n\r\n+OK\r\n")


def clients(ours, held):
    def run(*words):
        return subprocess.run([words[0], "-h", "127.0.0.1", "-p", str(ours.port), *words[1:]], capture_output=True, timeout=120)
    expect("redis-cli get", run("redis-cli", "GET", "a").stdout, held[b"a"][1] + b"\n")
    expect("redis-cli mget", run("redis-cli", "--raw", "MGET", "a", "nothing", "key7").stdout, held[b"a"][1] + b"\n\n" + held[b"key7"][1] + b"\n")
    expect("redis-cli info", run("redis-cli", "INFO").stdout, b"# Server\r\nredis_version:7.0.0\r\n")
    expect("redis-cli set", b"READONLY" in run("redis-cli", "SET", "a", "b").stdout, True)
    done = run("redis-benchmark", "-t", "get,ping_mbulk", "-n", "2000", "-c", "8", "-P", "4", "-q")
    expect("redis-benchmark", (done.returncode, done.stdout.count(b"requests per second"), b"ERR" in done.stdout), (0, 2, False))


def damaged(folder, store, held):
    bad, key = damaged_store(folder, store, held)
    ours = Ours(folder, bad, service="redis")
    expect("a damaged item", ask(ours, command(b"GET", b"empty") + command(b"GET", key) + command(b"GET", b"empty")), b"$0\r\n\r\n-ERR the store cannot be read\r\n")
    expect("ends", ours.stop(), 0)


def main():
    rng = random.Random(SEED)
    held = items(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = store_of(folder, held)
        ours, theirs = Ours(folder, store, service="redis"), Redis(folder, held)
        try:
            same_answers(ours, theirs, held, rng)
            hellos(ours, theirs, 2)
            cli_of_resp3(ours)
            third_version(folder, store, theirs)
            in_pieces(ours, held, rng)
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
