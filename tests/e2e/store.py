#!/usr/bin/env python3
"""`chainio store` and std/store.chain: what was put in comes out, by the chain, in every way of reading; what is wrong is named."""
import contextlib
import os
import random
import re
import sqlite3
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import started  # noqa: E402
from chains import BUILD, ROOT, Run, finish  # noqa: E402
from netns import until  # noqa: E402
from store_lines import lines_of  # noqa: E402

SEED = 20264
ITEMS = 20000


def store(*words, **options):
    return subprocess.run([str(BUILD / "bin" / "chainio"), "store", *map(str, words)], capture_output=True, **options)


def items(rng):
    """Keys of every length and of any bytes, values from none to the longest."""
    out = {}
    while len(out) < ITEMS:
        key = b"key%d" % len(out) if rng.random() < 0.9 else rng.randbytes(rng.randrange(1, 251))
        size = 64000 if len(out) == 7 else rng.choice((0, 1, 15, 16, 17, 100, 511, 512, 513)) if rng.random() < 0.98 else rng.randrange(64001)
        out[key] = (rng.choice((0, 1, 0xFFFFFFFF, rng.randrange(1 << 32))), rng.randbytes(size))
    return out


def split(answer):
    """The chain's flags and value; the cas between them is no function of the test's."""
    if answer.outcome != "ok":
        return answer.outcome
    assert any(answer.value[8:16]), "a cas is never 0"
    return int.from_bytes(answer.value[:4], "little"), answer.value[16 + int.from_bytes(answer.value[4:6], "little"):]


def compare(run, path, want, what, artifact=None):
    keys = list(want)
    absent = [key + b"x" for key in keys[:500]]
    answers = run.call("find", {"store": path}, {}, [{"key": key} for key in keys + absent], artifact)
    for key, answer in zip(keys, answers):
        run.same(f"{what}: {key[:40]!r}", split(answer), want[key])
    for key, answer in zip(absent, answers[len(keys):]):
        run.same(f"{what}: absent {key[:40]!r}", split(answer), "not_found")
    most = max(answer.hops for answer in answers)
    run.same(f"{what}: reads", most in (2, 3), True)


def direct(run):
    """The same chain over a class of a program's own, which is read around the page cache."""
    spec, artifact = run.folder / "direct.chain", run.folder / "direct.o"
    spec.write_text('files mine = "*.store" { direct immutable }\nimport "std/store.chain" with { store = mine }\n')
    subprocess.run([str(BUILD / "bin" / "chainc"), str(spec), "-I", str(ROOT / "stdlib-chains"), "-o", str(artifact)], check=True)
    return artifact


def damaged(run, path, want, rng):
    """A bit that is wrong is never an answer, and `check` finds it."""
    whole, bad = path.read_bytes(), run.folder / "bad.store"
    keys = list(want)[:3000]
    for number in range(5):
        data = bytearray(whole)
        for at in rng.sample(range(4096, len(data)), 3000):
            data[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(data)
        answers = [split(answer) for answer in run.call("find", {"store": bad}, {}, [{"key": key} for key in keys])]
        wrong_ones = [key for key, answer in zip(keys, answers) if answer not in (want[key], "malformed")]
        run.same(f"damaged {number}: answers that are neither right nor `malformed`", wrong_ones, [])
        run.true(f"damaged {number}", "malformed" in answers, "nothing was found")
        checked = store("check", bad)
        run.same(f"damaged {number}: check", (checked.returncode, len(checked.stderr.splitlines())), (1, 12))
        counted = re.fullmatch(rf"chainio store: {re.escape(str(bad))}: and (\d+) more, which are not named", checked.stderr.decode().splitlines()[10])
        # Nearly every one of the bits that were turned is in an item of its own.
        run.true(f"damaged {number}: how many more", counted is not None and 500 < int(counted[1]) < ITEMS, checked.stderr.decode())
    bad.write_bytes(whole[:8] + b"\x03" + whole[9:])
    done = store("check", bad)
    run.same("another version", (done.returncode, done.stderr.decode()),
             (1, f"chainio store: {bad}: byte 8: the store is of version 3, and this program knows 1 and 2\nchainio store: {bad} is damaged; build it again\n"))


def views(run, database, path):
    """A view is as good as a table, whatever the case of its columns' names; one that cannot be read is named."""
    with sqlite3.connect(database) as db:
        db.execute("CREATE VIEW v AS SELECT flags AS Flags, value AS VALUE, key, 1 AS more FROM t ORDER BY rowid")
        db.execute("CREATE VIEW bad AS SELECT key, value FROM gone")
    db.close()
    other = run.folder / "view.store"
    done = store("build", other, "--from-sqlite", database, "--table", "v")
    run.same("built from a view", (done.returncode, done.stderr), (0, b""))
    run.same("  which gives the same", other.exists() and other.read_bytes() == path.read_bytes(), True)
    for name, why in (("bad", "no such table: main.gone"), ("none", "there is no table 'none'"), ("bda", "there is no table 'bda'; did you mean 'bad'?")):
        done = store("build", other, "--from-sqlite", database, "--table", name)
        run.same(f"table {name}", (done.returncode, done.stderr.decode()), (1, f"chainio store: {database}: {why}\n"))


def encodings(run):
    """A store has UTF-8 whatever the database's encoding is, and the bytes of a blob; what UTF-8 cannot say is refused."""
    text = ["hello", "h\u00e4ll\u00f6", "\u20ac \U0001f600", "\U0001f600\U0010ffff", "a\0b", "\ue000\ud7ff", "\ufeffmark"]
    want = {key.encode(): (0, f"value of {key}\0".encode()) for key in text}
    want |= {b"42": (0, b"7.5"), b"empty": (0, b""), b"\xff\xfe\0\xd8": (0, b"\0\xd8a\0")}
    rows = [*((key, f"value of {key}\0") for key in text), (42, 7.5), ("empty", ""), (b"\xff\xfe\0\xd8", b"\0\xd8a\0")]
    for encoding in ("UTF-8", "UTF-16le", "UTF-16be"):
        database, path = run.folder / f"{encoding}.db", run.folder / f"{encoding}.store"
        with sqlite3.connect(database) as db:
            db.execute(f"PRAGMA encoding = '{encoding}'")
            db.execute("CREATE TABLE t(key, value)")
            db.executemany("INSERT INTO t VALUES (?, ?)", rows)
        run.same(f"{encoding}: the database's", db.execute("PRAGMA encoding").fetchone()[0], encoding)
        db.close()
        for source in (("--table", "t"), ("--query", "SELECT key, value FROM t"), ("--query", "SELECT key || '', value FROM t WHERE typeof(key) != 'blob'")):
            done = store("build", path, "--from-sqlite", database, *source)
            run.same(f"{encoding}: {source}", (done.returncode, done.stderr), (0, b""))
            rows_of = {key: item for key, item in want.items() if "||" not in source[1] or key[0] != 0xff}
            run.same("  holds UTF-8", read_whole(path)[1], rows_of)
            answers = run.call("find", {"store": path}, {}, [{"key": key} for key in rows_of])
            run.same("  which the chain finds", dict(zip(rows_of, map(split, answers))), rows_of)
        if encoding != "UTF-8":
            halves(run, database, encoding)


def halves(run, database, encoding):
    """Half of a surrogate pair, which SQLite itself lets in, at each end of a text and in the middle; each row is named."""
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE h(key, value)")
        rows = [("key", "\U00012345"), ("a\U00012345", "value"), ("good \U0001f600", "good"), ("\U00012345b", "value"), ("c", "x\U00012345y")]
        db.executemany("INSERT INTO h VALUES (?, ?)", rows)
    db.close()
    high, low = ("\U00012345".encode(encoding)[at:at + 2] for at in (0, 2))
    whole, none = database.read_bytes(), run.folder / "none.store"
    for half, other in ((high, low), (low, high), (high, high)):
        for pair in ((half, "Z".encode(encoding)), ("Z".encode(encoding), half), (other, half)):
            database.write_bytes(whole.replace(high + low, b"".join(pair)))
            done = store("build", none, "--from-sqlite", database, "--table", "h")
            wrong_rows = [] if pair == (high, low) else [(1, "value"), (2, "key"), (4, "key"), (5, "value")]
            run.same(f"{encoding}: {pair} for a pair", (done.returncode, done.stderr.decode(), none.exists()), (
                1 if wrong_rows else 0, "".join(
                    f"chainio store: {database}: row {row}: the {column} is no valid UTF-16: half of a surrogate pair stands alone; mend the row, leave it out, "
                    "or take the bytes as they are with --query and CAST(\u2026 AS BLOB)\n" for row, column in wrong_rows), not wrong_rows))
            none.unlink(missing_ok=True)
    done = store("build", none, "--from-sqlite", database, "--query", "SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM h WHERE key = 'c'")
    run.same(f"{encoding}: as blobs", (done.returncode, read_whole(none)[1]), (0, {"c".encode(encoding): (0, "x".encode(encoding) + high + high + "y".encode(encoding))}))
    none.unlink()


# Root's name, and none of its powers.
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def unreadable(run):
    """A database that SQLite cannot open is named with what is in the way."""
    folder, none = run.folder / "closed", run.folder / "none.store"
    folder.mkdir()
    database = folder / "wal.db"
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t AS SELECT 'k' AS key, 'v' AS value")
    db.close()

    def build(source):
        done = subprocess.run([*POWERLESS, BUILD / "bin" / "chainio", "store", "build", none, "--from-sqlite", source, "--table", "t"], capture_output=True, text=True)
        return done.returncode, done.stderr, none.exists()
    link = run.folder / "link.db"
    link.symlink_to(database)
    folder.chmod(0o555)
    for path in (database, link):
        run.same(f"{path.name}, in a folder that may not be written", build(path),
                 (3, f"chainio store: {path}: the database is in WAL mode, in which SQLite needs the file '{database}-shm', and '{folder}' may not be written; "
                     "run this as a user who may, or copy the database and its -wal file to a folder of yours while nobody writes to it\n", False))
    database.chmod(0)
    run.same("one that may not be read", build(database), (3, f"chainio store: {database}: cannot be opened: Permission denied\n", False))
    database.chmod(0o644)
    folder.chmod(0o755)
    run.same("one in a folder that may be written", build(database), (0, "", True))
    run.same("  leaves what SQLite makes beside it", sorted(each.name for each in folder.iterdir()), ["wal.db", "wal.db-shm", "wal.db-wal"])
    none.unlink()


LONG = 64000  # longer values are in pieces
PIECE = 61440
MOST = 16 << 20


def written_to(run):
    """A database without a WAL while others write to it, and one that was left in the middle of that."""
    database, out = run.folder / "busy.db", run.folder / "busy.store"
    command = [BUILD / "bin" / "chainio", "store", "build", out, "--from-sqlite", database, "--table", "t"]
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("CREATE TABLE t(key, value)")
    db.executemany("INSERT INTO t VALUES (?, ?)", ((str(number), "x" * 1000) for number in range(500)))
    db.execute("BEGIN EXCLUSIVE")
    done = subprocess.run(command, capture_output=True, text=True)
    run.same("locked", (done.returncode, done.stderr),
             (3, f"chainio store: {database}: another program has it locked, for 5 seconds by now; try again when that has written\n"))
    with started.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        until("it has opened the database", lambda: waiting.poll() is not None or opened(waiting.pid, database))
        db.execute("COMMIT")
        said = waiting.communicate()[1]
        run.same("locked for a moment", (waiting.returncode, said), (0, b""))
    db.close()
    half = f"import os, sqlite3; db = sqlite3.connect({str(database)!r}); db.execute('PRAGMA cache_size = 1'); " \
           "db.execute('UPDATE t SET value = key || value'); os._exit(0)"
    subprocess.run([sys.executable, "-c", half], check=True)
    done = subprocess.run(command, capture_output=True, text=True)
    run.same("left in the middle", (done.returncode, done.stderr),
             (3, f"chainio store: {database}: a program ended while it wrote to the database, which SQLite has to undo in it before it is read; open it once as who may "
                 f"write to it, as with sqlite3 {database} .tables\n"))
    with sqlite3.connect(database) as db:
        db.execute("SELECT * FROM t").fetchone()
    db.close()
    run.same("  and undone", subprocess.run(command, capture_output=True).returncode, 0)


def named_oddly(run):
    """A file may be called what SQLite takes for something else than a file."""
    out = run.folder / "odd.store"
    for name in (":memory:", "file:odd.db", "odd?mode=rw"):
        with sqlite3.connect(run.folder / name) as db:
            db.execute("CREATE TABLE t AS SELECT 'k' AS key, 'v' AS value")
        db.close()
        done = store("build", out, "--from-sqlite", name, "--table", "t", cwd=run.folder)
        run.same(f"a database called {name}", (done.returncode, done.stderr), (0, b""))


def opened(pid, path):
    """Whether a process has the file open."""
    try:
        return any(os.path.realpath(f"/proc/{pid}/fd/{fd}") == str(path) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def read_whole(path):
    """The version of a store and its items, as docs/store.md says where they are."""
    data = path.read_bytes()
    version, buckets, further, index = struct.unpack_from("<8xI20xQQQ", data)
    out = {}
    for number in range(buckets + further):
        bucket = index + number * 512
        for slot in range(struct.unpack_from("<4xH", data, bucket)[0]):
            at = (struct.unpack_from("<8xQ", data, bucket + 16 + slot * 16)[0] & (1 << 40) - 1) * 16
            length, flags, key_size, pieces = struct.unpack_from("<4xIIHH", data, at)
            key, place = data[at + 24:at + 24 + key_size], at + 24 + key_size
            if pieces:
                place, length = struct.unpack_from("<QQ", data, place)
            out[key] = (flags, data[place:place + length])
    return version, out


def parts(run, path, want, what):
    """Each value put together from its parts, as chains give them; `find` gives those that are one read."""
    firsts = run.call("part", {"store": path}, {}, [{"key": key, "number": 0, "cas": b""} for key in want])
    cas = {key: first.value[8:16] for key, first in zip(want, firsts)}
    asked = [{"key": key, "number": number, "cas": cas[key] if number else b""}
             for key, (_, value) in want.items() for number in range(-(-len(value) // PIECE) + 2)]
    answers = iter(run.call("part", {"store": path}, {}, asked))
    for key, (flags, value) in want.items():
        item, *pieces = [next(answers) for _ in range(-(-len(value) // PIECE) + 2)]
        if len(value) <= LONG:
            run.same(f"{what}: {key!r}", (split(item), {piece.outcome for piece in pieces}), ((flags, value), {"not_found"}))
            continue
        same = b"".join(piece.value for piece in pieces[:-1]) == value
        run.same(f"{what}: {key!r} in pieces", (split(item)[0], same, pieces[-1].outcome, pieces[0].hops), (flags, True, "not_found", 3))
    found = run.call("find", {"store": path}, {}, [{"key": key} for key in want])
    run.same(f"{what}: `find`", [answer.outcome for answer in found], ["overflow" if len(value) > LONG else "ok" for _, value in want.values()])


def few_pieces(run, rng):
    """Of a store that is small enough for virtual machines."""
    path, want = run.folder / "pieces.store", {b"long": (5, rng.randbytes(2 * PIECE + 100)), b"short": (6, b"value")}
    run.same("a store of few pieces", store("build", path, "--from", "-", input=lines_of(want)).returncode, 0)
    parts(run, path, want, "pieces")


def long_values(run, rng):
    """Values up to 16 MiB, from either kind of source, and what is said of those that are longer."""
    sizes = [5, LONG, LONG + 1, 100, 2 * PIECE, 2 * PIECE + 1, 1 << 20, MOST, 17]
    want = {b"key%d" % size: (rng.randrange(1 << 32), rng.randbytes(size)) for size in sizes}
    text = lines_of(want)
    paths = [run.folder / f"long{number}.store" for number in range(3)]
    done = store("build", paths[0], "--from", "-", "--memory", "-1", input=text)
    run.same("memory that is negative", (done.returncode, done.stderr.decode(), paths[0].exists()), (2, (
        "chainio store build: --memory: '-1' is negative; give 0 or more bytes, such as 4096 or 64KiB\n  hint: `chainio store build --help` lists the options\n"), False))
    for path, memory in zip(paths, ("64KiB", "1GiB")):
        done = store("build", path, "--from", "-", "--memory", memory, input=text)
        run.same(f"long values with {memory}", (done.returncode, done.stderr), (0, b""))
    database = run.folder / "long.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE t(key, value, flags INTEGER)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", ((key, value, flags) for key, (flags, value) in want.items()))
        db.execute("CREATE TABLE longer AS SELECT 'k' AS key, zeroblob(?) AS value", (MOST + 1,))
    db.close()
    done = store("build", paths[2], "--from-sqlite", database, "--table", "t")
    run.same("long values from SQLite", (done.returncode, done.stderr), (0, b""))
    run.same("  are what was put in", read_whole(paths[0]) == (2, want), True)
    run.same("  and the same bytes each time", [path.read_bytes() == paths[0].read_bytes() for path in paths], [True] * 3)
    checked = store("check", paths[0])
    run.same("  which are whole", (checked.returncode, checked.stdout.split(b",")[0].split(b": ")[1]), (0, b"whole"))
    parts(run, paths[0], want, "long")
    data, value = bytearray(paths[0].read_bytes()), want[b"key%d" % MOST][1]
    first = data.index(value)
    data[first + 100 * PIECE] ^= 1
    paths[0].write_bytes(data)
    checked = store("check", paths[0])
    around = first - 4096  # its head, key and table have less
    run.same("a byte of a piece", (checked.returncode, checked.stderr.decode()),
             (1, f"chainio store: {paths[0]}: byte {first + 100 * PIECE}: the sum of piece 100 of the item at byte {data.index(b'key%d' % MOST, around) - 24} is wrong\n"
                 f"chainio store: {paths[0]} is damaged; build it again\n"))
    item = run.call("part", {"store": paths[0]}, {}, [{"key": b"key%d" % MOST, "number": 0, "cas": b""}])[0].value
    answers = run.call("part", {"store": paths[0]}, {}, [{"key": b"key%d" % MOST, "number": number, "cas": item[8:16]} for number in (0, 100, 101, 102)])
    run.same("  which the chain says of this one alone", [answer.outcome for answer in answers], ["ok", "ok", "malformed", "ok"])
    answers = run.call("part", {"store": paths[0]}, {}, [{"key": b"key%d" % MOST, "number": 102, "cas": bytes(8)}])
    run.same("  and of pieces of another value", [answer.outcome for answer in answers], ["malformed"])
    none = run.folder / "none.store"
    for place, source, more in ((f"{database}: row 1", ("--from-sqlite", database, "--table", "longer"), b""),
                                ("standard input:1", ("--from", "-"), b"k\t" + bytes(MOST + 1) + b"\n")):
        done = store("build", none, *source, input=more)
        run.same(f"too long in {place}", (done.returncode, done.stderr.decode(), none.exists()),
                 (1, f"chainio store: {place}: the value has 16777217 bytes; values have at most 16777216: divide it over several keys\n", False))


def memory(run):
    """That lines may be long costs nothing where they are short."""
    command = [str(BUILD / "bin" / "chainio"), "store", "build", str(run.folder / "short.store"), "--from", "-", "--memory", "64KiB"]
    with started.start(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as built:
        for number in range(20000):
            built.stdin.write(b"key%d\t%s\n" % (number, b"v" * 400))
        built.stdin.flush()  # all but what a pipe holds has been read
        with open(f"/proc/{built.pid}/status", encoding="ascii") as status:
            most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        built.stdin.close()
    run.same("short lines", built.returncode, 0)
    run.true("  take little memory", most < 32 << 10, f"{most} KiB")
    # Sorted in memory, which is nearly full, and from a scratch file. By a process between: what this one has would count.
    lines, given, written = run.folder / "many.tsv", 49, 0
    between = ("import resource, subprocess, sys; code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)")
    for what, items in (("in memory", 2_120_000), ("in the scratch file", 2_200_000)):
        with open(lines, "a", encoding="ascii") as file:
            file.write("\tv\n".join([*map(str, range(written, items)), ""]))
        written = items
        done = subprocess.run([sys.executable, "-c", between, *command[:4], "--from", lines, "--memory", f"{given}MiB"], stdout=subprocess.PIPE)
        run.same(f"a sort {what}", done.returncode, 0)
        run.true("  takes what --memory says, and some MiB", int(done.stdout) < (given + 32) << 10, done.stdout)
    done = store("build", run.folder / "short.store", "--from", "-", "--memory", "1TiB", input=b"k\tv\n")
    run.same("more memory than there is", (done.returncode, done.stderr), (0, b""))


def no_room(run):
    """Where the disk is full, or files may be no longer, what is said is how much is wanted at least."""
    path, lines = run.folder / "room" / "a.store", b"".join(b"key%d\t%s\n" % (number, b"v" * 400) for number in range(400))
    path.parent.mkdir()
    full = ["unshare", "--mount", "--map-root-user", "sh", "-c", f'mount -t tmpfs -o size=64k none {path.parent} && exec "$@"', "sh"]
    tries = [("longer than files may be", ["prlimit", "--fsize=65536"], r"File too large; let files have at least (\d+) bytes \(ulimit -f, or another file system\)")]
    if subprocess.run([*full, "true"], capture_output=True).returncode == 0:
        tries.append(("a full disk", full, r"No space left on device; make room for at least (\d+) bytes, beside the store that is replaced"))
    else:
        print("skipped: a full disk: no name space of mounts can be had")
    for what, inside, text in tries:
        done = subprocess.run([*inside, BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"], input=lines, capture_output=True)
        said = re.fullmatch(rf"chainio store: {re.escape(str(path))}: cannot be written: {text}\n", done.stderr.decode())
        run.true(what, done.returncode == 3 and said and 65536 < int(said[1]) < 400 * 500 and not path.exists(), done.stderr)


def repeated(run):
    for lines, said in ((b"a\t1\na\t2\n", b"; 1 item left out whose key is there already\n"),
                        (b"a\t1\na\t2\nb\t1\na\t3\n", b"; 2 items left out whose key is there already\n"), (b"a\t1\n", b", seed 0\n")):
        built = store("build", run.folder / "repeated.store", "--from", "-", "--duplicates", "first", input=lines)
        run.true(f"repeated keys: {said}", built.stdout.endswith(said), built.stdout)
    built = store("build", run.folder / "repeated.store", "--from", "-", input=b"a\t1\r\nb\t2\r\n")
    run.same("lines of Windows are told of", (built.returncode, built.stderr[:65], read_whole(run.folder / "repeated.store")[1]),
             (0, b"chainio store: standard input: each line ends with a carriage ret", {b"a": (0, b"1\r"), b"b": (0, b"2\r")}))


def wrong(run):
    lines, none = run.folder / "bad.tsv", run.folder / "none.store"
    lines.write_bytes(b"a\t1\nb 2\nc\t3\nc\t4\n")
    with contextlib.closing(sqlite3.connect(run.folder / "p.db")) as db:
        db.execute("CREATE TABLE t (key, value)")
    for what, words, code, text in [
        ("a bad line", ("build", none, "--from", lines), 1,
         f"chainio store: {lines}:2: there is no tab; every line is KEY, a tab, VALUE and perhaps a tab and FLAGS\n"),
        ("no source", ("build", none), 2, "chainio store build: one of --from FILE and --from-sqlite DB is wanted\n"),
        ("a table and a query", ("build", none, "--from-sqlite", lines, "--table", "t", "--query", "q"), 2,
         "chainio store build: with --from-sqlite, one of --table NAME and --query SQL is wanted\n"),
        ("a file that is not there", ("build", none, "--from", run.folder / "no"), 3,
         f"chainio store: {run.folder / 'no'}: cannot be opened: No such file or directory\n"),
        ("a folder that is not there", ("build", run.folder / "no" / "a", "--from", lines), 3,
         f"chainio store: {run.folder / 'no' / 'a'}: no file can be made in '{run.folder / 'no'}': No such file or directory\n"),
        ("other duplicates", ("build", none, "--from", lines, "--duplicates", "both"), 2,
         "chainio store build: --duplicates: both not in {refuse,first,last}\n  hint: `chainio store build --help` lists the options\n"),
        *((f"an empty {option}", ("build", none, *words, option, ""), 2,
           f"chainio store build: {option}: the {what} is empty\n  hint: `chainio store build --help` lists the options\n")
          for option, what, words in (("--from", "name", ("--from-sqlite", lines, "--table", "t")), ("--from-sqlite", "name", ("--from", lines)),
                                      ("--table", "name", ("--from-sqlite", lines, "--query", "q")), ("--query", "query", ("--from-sqlite", lines, "--table", "t")))),
        ("a database that is not there", ("build", none, "--from-sqlite", run.folder / "no", "--table", "t"), 3,
         f"chainio store: {run.folder / 'no'}: does not exist; name the file of an SQLite database\n"),
        ("a directory for a database", ("build", none, "--from-sqlite", run.folder, "--table", "t"), 3,
         f"chainio store: {run.folder}: is a directory, not an SQLite database; name a file in it\n"),
        ("a table without a database", ("build", none, "--from", lines, "--table", "t"), 2, "chainio store build: --table and --query go with --from-sqlite\n"),
        ("a query that writes", ("build", none, "--from-sqlite", run.folder / "p.db", "--query", "DELETE FROM t RETURNING key, value"), 1,
         f"chainio store: {run.folder / 'p.db'}: --query would write to the database, which is read only; give one that reads: SELECT …\n"),
        *((f"a query with the parameter {name}", ("build", none, "--from-sqlite", run.folder / "p.db", "--query", f"SELECT key, value FROM t WHERE key = {name}"), 1,
           f"chainio store: {run.folder / 'p.db'}: nothing gives the parameter `{name}` of the query a value; write the value there\n") for name in ("?", ":k")),
        ("a name without letters", ("build", "", "--from", lines), 2, "chainio store build: the name of the file to make is empty\n"),
        ("a source without items", ("build", none, "--from", "/dev/null"), 1,
         f"chainio store: {none}: not made, since there are no items to put in; --allow-empty makes a store without any\n"),
        ("what is no store", ("check", lines), 1, f"chainio store: {lines}: byte 0: this is no store; `chainio store build` makes one\n"),
        ("a folder", ("check", run.folder), 3, f"chainio store: {run.folder}: is a folder, not a store; name a file in it\n"),
    ]:
        done = store(*words)
        run.same(what, (done.returncode, done.stderr.decode(), none.exists()), (code, text, False))


def cut_off(run):
    """A text whose writer was ended within a line replaces no store, unless it is a file, which may have been written so."""
    path, lines = run.folder / "cut.store", run.folder / "cut.tsv"
    store("build", path, "--from", "-", input=b"a\t0\n")
    good = path.read_bytes()
    lines.write_bytes(b"a\t1\nb\thel")
    os.mkfifo(run.folder / "cut.pipe")
    command = [BUILD / "bin" / "chainio", "store", "build", path, "--from"]
    why = "there is no line feed at the end, as where what writes the text was ended before its time; see that it ends well, or write one there"
    for what, text, number in (("a value", b"a\t1\nb\thel", 2), ("a key", b"a\t1\nb\t2\nke", 3), ("an escape", b"a\t\\x4", 1), ("flags", b"a\t1\t10", 1)):
        done = subprocess.run([*command, "-"], input=text, capture_output=True)
        run.same(f"cut off in {what}", (done.returncode, done.stderr.decode()), (1, f"chainio store: standard input:{number}: {why}\n"))
        run.same("  the store stays", path.read_bytes() == good, True)
    with started.start([*command, run.folder / "cut.pipe"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as built:
        (run.folder / "cut.pipe").write_bytes(b"a\t1\nb\thel")
        said = built.communicate(timeout=60)[1].decode()
    run.same("cut off, of a pipe with a name", (built.returncode, said, path.read_bytes() == good), (1, f"chainio store: {run.folder / 'cut.pipe'}:2: {why}\n", True))
    with open(lines, "rb") as given:
        for what, source, more in (("named", lines, {}), ("as standard input", "-", {"stdin": given})):
            done = store("build", path, "--from", source, **more)
            run.same(f"a file without a last line feed, {what}", (done.returncode, done.stderr, read_whole(path)[1]), (0, b"", {b"a": (0, b"1"), b"b": (0, b"hel")}))
    done = store("build", path, "--from", "-", input=b"a\t1\nb\thel\n")
    run.same("a whole text", (done.returncode, done.stderr, read_whole(path)[1]), (0, b"", {b"a": (0, b"1"), b"b": (0, b"hel")}))


def odd_names(run):
    """A store whose name a terminal would obey is named by words, whatever is said of it."""
    path, lines = run.folder / "od\x1b[31m\nd.store", b"".join(b"k%d\tv\n" % number for number in range(100))
    shown = str(run.folder) + r"/od\x1b[31m\x0ad.store"

    def said(*words):
        done = store(*words, input=lines)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    code, out, text = said("build", path, "--from", "-")
    run.same("an odd name: built", (code, out.partition(" in ")[0], text), (0, f"{shown}: 100 items", ""))
    code, out, text = said("check", path)
    run.same("  whole", (code, out.partition(" in ")[0], text), (0, f"{shown}: whole, 100 items", ""))
    data = path.read_bytes()
    index = struct.unpack_from("<48xQ", data)[0]
    path.write_bytes(data[:4096] + bytes(255 - byte for byte in data[4096:index]) + data[index:])
    code, out, text = said("check", path)
    said_of = [line.removeprefix(f"chainio store: {shown}") for line in text.splitlines()]
    run.same("  damaged", (code, out, [line[:7] for line in said_of[:-2]], said_of[-1]), (1, "", [": byte "] * 10, " is damaged; build it again"))
    run.true("  and how many more", re.fullmatch(r": and \d+ more, which are not named", said_of[-2]), said_of[-2])


def long_names(run):
    """A store may have the longest name that there is, also where the file has to have another name until it is whole."""
    folder = run.folder / "long"
    folder.mkdir()
    ways = [("", [])]
    hidden = ["unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode == 0:
        ways.append((", without /proc", hidden))
    else:
        print("skipped: the longest names where there is no /proc: it cannot be taken away here")
    for what, between in ways:
        for size in (250, 255, 250):
            name = "n" * size
            done = subprocess.run([*between, BUILD / "bin" / "chainio-main", "store", "build", name, "--from", "-"], cwd=folder, input=b"k\tv\n", capture_output=True)
            run.same(f"a name of {size} bytes{what}", (done.returncode, done.stderr), (0, b""))
        run.same("  and no other is left" + what, sorted(each.name for each in folder.iterdir()), ["n" * 250, "n" * 255])
        for each in folder.iterdir():
            each.unlink()
    done = store("build", "n" * 256, "--from", "-", cwd=folder, input=b"k\tv\n")
    run.same("a longer name than there is", (done.returncode, done.stderr), (3, b"chainio store: %b: cannot be opened: File name too long\n" % (b"n" * 256)))


def empty(run):
    path = run.folder / "empty.store"
    done = store("build", path, "--from", "/dev/null", "--allow-empty")
    run.same("a store without items, as asked", (done.returncode, done.stdout.split(b", seed")[0], done.stderr),
             (0, b"%s: 0 items in 8192 bytes, 1 bucket and 0 further ones" % bytes(path), b""))
    done = subprocess.run([str(BUILD / "bin" / "chainio"), "store", "build", str(path), "--from", "-"], input=b"a\tb\n", capture_output=True)
    run.same("a store of one item", (done.returncode, done.stdout.split(b" in ")[0]), (0, b"%s: 1 item" % bytes(path)))


def no_header(run):
    path = run.folder / "no-header.store"
    header = next(int(re.search(r"header of (\d+) bytes", line)[1]) for line in
                  subprocess.run([str(BUILD / "bin" / "chainio"), "inspect", str(run.artifact)], capture_output=True, text=True).stdout.splitlines() if "header of" in line)
    whole = (run.folder / "a.store").read_bytes()
    for what, data, why in (("an empty file", b"", "it is empty, and the spec declares a header of it"),
                            ("one byte of a header", whole[:1], f"it has 1 byte, and its header takes {header} (short_read)"),
                            ("a header but a byte", whole[:header - 1], f"it has {header - 1} bytes, and its header takes {header} (short_read)"),
                            ("another header", bytes(header), f"its first {header} bytes are not the header that the spec declares (malformed)")):
        path.write_bytes(data)
        done = subprocess.run([str(BUILD / "bin" / "chainio"), "call", str(run.artifact), "find", "--file", str(path), "--key", "a"], capture_output=True, text=True)
        run.same(what, (done.returncode, done.stderr), (1, f"chainio call: file '{path}' for class 'store': {why}\n"))


def meanwhile(run):
    """What comes to the store's place while it is built is replaced only when it is a store."""
    path, pipe = run.folder / "meanwhile.store", run.folder / "meanwhile.pipe"
    os.mkfifo(pipe)
    whole = run.folder / "a.store"
    refused = b"chainio store: %b: what is there is no store, and stays as it is; remove it, or name another file\n" % os.fsencode(path)
    for before, now, answer in ((None, b"a note", (1, refused)), (whole.read_bytes(), b"another note", (1, refused)), (None, whole.read_bytes(), (0, b"")),
                                (whole.read_bytes(), None, (0, b""))):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
        build = started.start([BUILD / "bin" / "chainio", "store", "build", path, "--from", pipe], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open(pipe, "wb") as rows:
            # More than a pipe and a reader keep: it reads rows by then, and has looked at the place before.
            rows.write(b"".join(b"%d\t%s\n" % (number, b"x" * 60000) for number in range(100)))
            rows.flush()
            path.unlink(missing_ok=True)
            if now is not None:
                path.write_bytes(now)
        said = build.communicate(timeout=60)[1]
        run.same(f"meanwhile: {answer[0]}", (build.returncode, said), answer)
        run.same("meanwhile: what is there", path.read_bytes() == now if answer[0] else b"xxx" in path.read_bytes(), True)


def lost(run):
    """What the store before had and this one cannot be given is said."""
    path, shown = run.folder / "labelled\x1b.store", str(run.folder) + r"/labelled\x1b.store"
    store("build", path, "--from", "-", input=b"k\tv\n")
    try:
        os.setxattr(path, "security.SMACK64", b"kept")
    except OSError as error:
        return print(f"skipped: no label can be given here: {error}")
    command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"]
    done = subprocess.run(command, input=b"k\tv\n", capture_output=True)
    run.same("a label that cannot be kept", (done.returncode, done.stderr.decode()),
             (0, f"chainio store: {shown}: the store before had what this one could not be given: the attribute security.SMACK64: Operation not permitted\n"))


def main():
    rng = random.Random(SEED)
    run = Run("std/store.chain")
    want = items(rng)
    text = lines_of(want)
    path = run.folder / "a.store"
    done = store("build", path, "--from", "-", "--memory", "64KiB", input=text)
    run.same("built from standard input", (done.returncode, done.stderr), (0, b""))
    compare(run, path, want, "tsv")
    few_pieces(run, rng)
    compare(run, path, dict(list(want.items())[:2000]), "direct", direct(run))
    checked = store("check", path)
    run.same("check", (checked.returncode, checked.stdout.split(b",")[0].split(b": ")[1]), (0, b"whole"))

    database = run.folder / "a.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE t(key, value, flags INTEGER)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", ((key, value, flags) for key, (flags, value) in want.items()))
    db.close()
    other = run.folder / "b.store"
    done = store("build", other, "--from-sqlite", database, "--table", "t")
    run.same("built from SQLite", (done.returncode, done.stderr), (0, b""))
    run.same("the same items in the same order are the same bytes", path.read_bytes() == other.read_bytes(), True)
    damaged(run, path, want, rng)
    views(run, database, path)
    encodings(run)
    unreadable(run)
    written_to(run)
    named_oddly(run)
    long_values(run, rng)
    memory(run)
    no_room(run)
    repeated(run)
    wrong(run)
    cut_off(run)
    odd_names(run)
    long_names(run)
    empty(run)
    no_header(run)
    lost(run)
    meanwhile(run)
    keys = subprocess.run([str(BUILD / "bin" / "chainio"), "call", str(run.artifact), "find", "--file", f"store={path}", "--keys", str(run.folder)],
                          capture_output=True)
    run.same("keys of a folder", (keys.returncode, keys.stderr.splitlines()[-1].decode()),
             (3, f"chainio call: cannot read keys '{run.folder}': Is a directory"))
    finish(run)


if __name__ == "__main__":
    main()
