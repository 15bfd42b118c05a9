#!/usr/bin/python3
"""Every example: its tests pass in every engine, and its .yaml form is what is printed of its .chain form. The commands of memcached's page
are run as they stand there, and its server is asked. The interpreter is the distribution's, which has its packages (lmdb, maxminddb)."""
import os
import pathlib
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import zipapp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
import started  # noqa: E402
from runs import expect  # noqa: E402

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
CHAINC, CHAINIO = str(BUILD / "bin" / "chainc"), str(BUILD / "bin" / "chainio")


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def check(what, done, holds=True):
    if done.returncode != 0 or not holds:
        runs.failed(f"FAILED: {what}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return False
    return True


def as_printed(spec):
    """The YAML form is what chainc makes of the spec today, and is right where it lies; tests/lit/examples/forms.test compares the bytes of both."""
    written = spec.with_suffix(".yaml")
    printed = run([CHAINC, spec, "--emit=yaml"])
    if not check(f"{spec}: --emit=yaml", printed):
        return
    if not written.exists() or written.read_text() != printed.stdout:
        runs.failed(f"{written} is not what `chainc {spec} --emit=yaml` prints")
    check(f"check {written}", run([CHAINC, "--check", written]))


def commands_of(page):
    return [line for block in re.findall(r"^```\n(.*?)^```$", page.read_text(), re.M | re.S) for line in block.splitlines()]


class Served:
    """The server of a command of a page; `more` are the test's own words behind it, and `before` those in front."""

    def __init__(self, command, folder, more=(), before=()):
        self.process = started.start([*before, *shlex.split(command), *more], cwd=folder, env=environment(), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True)
        self.ports, self.said = {}, []
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.match(r"service store at (udp|tcp) \S+ port (\d+):", line):
                self.ports[found[1]] = int(found[2])
            if len(self.ports) == 2:
                break
        self.rest = started.rest_of(self.process.stderr, self.said)

    def end(self, what):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self.rest.join()
        expect(f"{what}: the server ends", code, 0)
        if runs.failures:
            print("".join(self.said))


def environment():
    return {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}


def datagrams(sock, request):
    sock.send(b"\x12\x34\0\0\0\1\0\0" + request)
    return sock.recv(65536)


def served_in_the_driver(command, folder):
    """The same with --interface, on a veth pair: where the first reply is kept, the second one comes from the driver, with its own number."""
    if why := netns.why_not():
        print(f"skipped: memcached's page with --interface: {why}")
        return
    with netns.Pair() as pair:
        server = Served(command, folder, ("--interface", "vb"), pair.command(pair.there))
        with netns.udp(pair.here) as sock:
            sock.connect(("10.9.0.2", server.ports.get("udp", 11211)))
            for _ in range(2):
                expect("memcached's page with --interface", datagrams(sock, b"get key123\r\n"),
                       b"\x12\x34\0\0\0\1\0\0VALUE key123 123 9\r\nvalue 123\r\nEND\r\n")
            expect("memcached's page with --interface, an error", datagrams(sock, b"bogus\r\n"), b"\x12\x34\0\0\0\1\0\0ERROR\r\n")
        server.end("memcached's page with --interface")


def memcached_page(folder):
    """Its commands in their order; the server's alone gets a free port of this machine behind it, and those that ask it the same."""
    shutil.copytree(ROOT / "examples" / "memcached", folder)
    answer, server, asked, serving = "VALUE key123 123 9\r\nvalue 123\r\nVALUE key7 7 7\r\nvalue 7\r\nEND\r\n", None, 0, ""
    try:
        for command in commands_of(folder / "README.md"):
            what = f"memcached's page: {command}"
            if command.startswith("chainio-runtime"):
                serving = command.removesuffix(" &")
                server = Served(serving, folder, ("--bind", "127.0.0.1", "--port", "store=0"))
                expect(what, sorted(server.ports), ["tcp", "udp"])
                continue
            asks = command.startswith("python3 ask.py")
            ports = server.ports if server else {}
            more = f" --port {ports.get('udp' if '--udp' in command else 'tcp', 0)}" if asks else ""
            done = subprocess.run(["bash", "-c", command + more], cwd=folder, env=environment(), capture_output=True, timeout=60)
            done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
            check(what, done)
            if asks:
                asked += 1
                expect(what, done.stdout, answer)
            if command.startswith("chainio call"):
                asked += 1
                expect(what, done.stdout, "{\\x00\\x00\\x00value 123\n")
        expect("memcached's page asks by tcp, by udp, and calls the chain", asked, 3)
        if server and server.ports:
            by_sockets(server)
    finally:
        if server:
            server.end("memcached's page")
    served_in_the_driver(serving, folder)


def by_sockets(server):
    """Byte for byte, also what is no item: each datagram begins with the request's frame."""
    every = {number: b"VALUE key%d %d %d\r\nvalue %d\r\n" % (number, number, len(b"value %d" % number), number) for number in range(250)}
    cases = [(b"get key%d\r\n" % number, item + b"END\r\n") for number, item in every.items()]
    cases += [(b"get " + b" ".join(b"key%d" % number for number in range(16)) + b"\r\n", b"".join(every[number] for number in range(16)) + b"END\r\n"),
              (b"get nothing\r\n", b"END\r\n"), (b"get key250\r\n", b"END\r\n"), (b"bogus\r\n", b"ERROR\r\n"), (b"get\r\n", b"ERROR\r\n")]
    with socket.create_connection(("127.0.0.1", server.ports["tcp"]), timeout=60) as sock, sock.makefile("rb") as answers, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(60)
        udp.connect(("127.0.0.1", server.ports["udp"]))
        for request, want in cases:
            sock.sendall(request)
            expect(f"memcached's page by tcp: {request}", answers.read(len(want)), want)
            expect(f"memcached's page by udp: {request}", datagrams(udp, request), b"\x12\x34\0\0\0\1\0\0" + want)


def git_pack(folder):
    """The page's comparison: every object as git says, of the pack that is made for the page and of one that git made."""
    made = folder / "made"
    made.mkdir(parents=True)
    git = ["git", "-C", made, "-c", "user.name=a", "-c", "user.email=a@b"]
    shutil.copytree("examples", made / "examples")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "examples"], ["rm", "-q", "examples/README.md"], ["commit", "-qm", "fewer"],
                    ["repack", "-adq"]):
        check(f"git {command}", run([*git, *command]))
    check("make_pack.py", run([sys.executable, "examples/git-pack/make_pack.py", folder]))
    check("chainc git-pack", run([CHAINC, "examples/git-pack/app.chain", "-o", folder / "app.bpf.o"]))
    packs = [folder / "pack-fruit.idx", folder / "pack-far.idx", *made.glob(".git/objects/pack/*.idx")]
    expect("one pack that git made", len(packs), 3)
    for pack in packs:
        done = run([sys.executable, "examples/git-pack/compare.py", folder / "app.bpf.o", pack],
                   env={**os.environ, "CHAINIO_CALL_LIBRARY": str(BUILD / "lib" / "libchainio-call.so.0")})
        check(f"compare.py {pack.name}", done, re.fullmatch(r"[1-9]\d+ objects, 0 of them not as git says\n", done.stdout) is not None)
    for words, said in ((("app.bpf.o", "/no/pack.idx"), r"/no/pack\.idx: git does not take it for the index of a pack: .*; give …/objects/pack/pack-….idx\n"),
                        ((), r"compare\.py app\.bpf\.o PACK\.idx: .*\n")):
        done = run([sys.executable, "examples/git-pack/compare.py", *words])
        expect(f"compare.py {words}", (done.returncode, re.fullmatch(said, done.stderr, flags=re.S) is not None), (1, True))


def zip_archives(folder):
    """The page's comparison: every member as Python's zipfile says, of the archives that are made for the page and of a program in one."""
    (folder / "program").mkdir(parents=True)
    (folder / "program" / "__main__.py").write_text("print('hello')\n" * 10)
    zipapp.create_archive(folder / "program", folder / "program.pyz", interpreter="/usr/bin/env python3", compressed=True)
    check("make_archive.py", run([sys.executable, "examples/zip/make_archive.py", folder]))
    check("chainc zip", run([CHAINC, "examples/zip/app.chain", "-o", folder / "app.bpf.o"]))
    archives = [*sorted(folder.glob("*.zip")), folder / "program.pyz"]
    expect("four archives for the page", len(archives), 5)
    done = run([sys.executable, "examples/zip/compare.py", folder / "app.bpf.o", *archives],
               env={**os.environ, "CHAINIO_CALL_LIBRARY": str(BUILD / "lib" / "libchainio-call.so.0")})
    check("compare.py of archives", done, done.stdout == "4031 members, 0 of them not as zipfile says\n")
    done = run([sys.executable, "examples/zip/compare.py", "app.bpf.o"])
    expect("compare.py without an archive", (done.returncode, done.stderr.startswith("compare.py app.bpf.o ARCHIVE.zip")), (1, True))


def mmdb_databases(folder):
    """The page's comparison: as MaxMind's module says, of the databases that are made for the page and of one with 3,000 networks."""
    folder.mkdir(parents=True)
    random.seed(5)
    sys.path.insert(0, "examples/mmdb")
    import make_database as made

    records = {f"{a}.{b}.{c}.0/{random.randrange(24, 29)}": random.choice(list(made.CITIES.values()))
               for a, b, c in {(random.randrange(1, 224), random.randrange(256), random.randrange(256)) for _ in range(3000)}}
    (folder / "many.mmdb").write_bytes(made.database(records | {"2a00::/12": {"country": {"iso_code": "FR"}}}, 6, 28))
    check("make_database.py", run([sys.executable, "examples/mmdb/make_database.py", folder]))
    check("chainc mmdb", run([CHAINC, "examples/mmdb/app.chain", "-o", folder / "app.bpf.o"]))
    compare_all("mmdb", folder, sorted(folder.glob("*.mmdb")), 5, ["3000"],
                r"[1-9]\d{3,} values, of which [1-9]\d* are there; 0 of them not as maxminddb says\n")


def lmdb_environments(folder):
    """Likewise of LMDB, which made one of the environments itself: each kind of database that the chain reads, and some keys gone again."""
    import lmdb

    folder.mkdir(parents=True)
    random.seed(5)
    with lmdb.open(str(folder / "own.mdb"), subdir=False, map_size=1 << 28, max_dbs=5, lock=False) as env:
        kinds = {"plain": {}, "several": {"dupsort": True}, "fixed": {"dupsort": True, "dupfixed": True}, "numbers": {"integerkey": True}, "none": {}}
        opened = {name: env.open_db(name.encode(), **kind) for name, kind in kinds.items()}
        keys = [random.randbytes(random.choice([1, 3, 20, 300, 511])) for _ in range(4000)]
        with env.begin(write=True) as write:
            for i, key in enumerate(keys):
                size = random.choice([0, 1, 50, 400]) if i % 100 else random.choice([2100, 5000, 65536, 65537])
                write.put(key, random.randbytes(size), db=opened["plain"])
                write.put(b"main%d" % i, b"%d" % i)
                write.put(b"%d" % (i % 500 if i % 3 else 7), random.randbytes(random.choice([1, 8, 200])), db=opened["several"])
                write.put(b"%d" % (i % 500 if i % 3 else 7), random.randbytes(8), db=opened["fixed"])
                write.put(random.getrandbits(random.choice([8, 30, 64])).to_bytes(8, sys.byteorder), b"%d" % i, db=opened["numbers"])
        with env.begin(write=True, db=opened["plain"]) as write:
            for key in keys[::3]:
                write.delete(key)
    check("make_environment.py", run([sys.executable, "examples/lmdb/make_environment.py", folder / "made.mdb"]))
    check("chainc lmdb", run([CHAINC, "examples/lmdb/app.chain", "-o", folder / "app.bpf.o"]))
    compare_all("lmdb", folder, sorted(folder.glob("*.mdb")), 2, [], r"[1-9]\d{3,} keys of [46] databases, 0 of them not as LMDB says\n")


def compare_all(name, folder, files, count, more, said):
    expect(f"files that {name} is compared for", len(files), count)
    for file in files:
        done = run([sys.executable, f"examples/{name}/compare.py", folder / "app.bpf.o", file, *more],
                   env={**os.environ, "CHAINIO_CALL_LIBRARY": str(BUILD / "lib" / "libchainio-call.so.0")})
        check(f"compare.py {file.name}", done, re.fullmatch(said, done.stdout) is not None)


def copied_configuration(lit, folder):
    """Beside somebody's own specs, with the programs on PATH, it writes nothing outside of their folder."""
    folder.mkdir(parents=True)
    shutil.copy("examples/lit.cfg.py", folder)
    (folder / "app.chain").write_text("")
    (folder / "check.lit").write_text("# RUN: %chainc --check %S/app.chain && touch %t\n")
    alone = {name: value for name, value in os.environ.items() if name not in ("CHAINIO_BUILD", "LIT_OUTPUT")}
    check("lit -v of a copied configuration", run([lit, "-v", folder], env={**alone, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}))
    expect("it writes there", (folder / "Output").is_dir(), True)
    expect("and nowhere else", [path.name for path in folder.parent.iterdir()], ["specs"])


def main():
    os.chdir(ROOT)
    tests = sorted(pathlib.Path("examples").glob("*/app.test.yaml"))
    folders = sorted(path.parent for path in pathlib.Path("examples").glob("*/app.chain"))
    assert [test.parent for test in tests] == folders and len(folders) >= 5, "every example has tests"
    with tempfile.TemporaryDirectory() as name:
        for folder in folders:
            assert (folder / "README.md").exists(), f"{folder} has no README.md"
            done = run([CHAINIO, "test", folder / "app.test.yaml"])
            last = done.stdout.rstrip().splitlines()[-1:] or [""]
            if check(f"chainio test {folder}", done, " 0 failed, 0 skipped" in last[0]):
                print(f"{folder}: {last[0]}")
            as_printed(folder / "app.chain")
        git_pack(pathlib.Path(name) / "git-pack")
        zip_archives(pathlib.Path(name) / "zip")
        mmdb_databases(pathlib.Path(name) / "mmdb")
        lmdb_environments(pathlib.Path(name) / "lmdb")
        memcached_page(pathlib.Path(name) / "memcached")
    # The lit configuration that the documentation offers to users.
    lit = ROOT / "build" / "venv" / "bin" / "lit"
    found = str(lit) if lit.exists() else shutil.which("lit")
    if found:
        with tempfile.TemporaryDirectory() as name:
            check("lit -v examples", run([found, "-v", "examples"], env={**os.environ, "CHAINIO_BUILD": str(BUILD), "LIT_OUTPUT": name}))
            copied_configuration(found, pathlib.Path(name) / "a" / "b" / "specs")
    else:
        print("skipped: lit is not installed; examples/*.lit did not run")
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
