#!/usr/bin/env python3
"""Chains on sockets that a program's own thread runs: files of the requests that wait are fetched without the server, whatever the program has become meanwhile; what could
hold the thread up, or be seen, is left to the server and counted; no descriptor comes to light and no pipe is opened."""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
import started
from runs import CHAINIO, drop_from_memory, expect

KIB, SMALL, LARGE = 1024, 12 * 1024, 512 * 1024
AT_ONCE = 8

# Answers a line of its standard input with one of JSON. `ask NAME...`: so many clients ask for a file each, the program waits until all of them have, and then reads what they
# asked for. What it says: the bytes of each file, and whether descriptors are what they were.
PROGRAM = r'''
import ctypes, fcntl, json, os, select, signal, socket, sys, termios, threading, time
port, root = int(sys.argv[1]), sys.argv[2]
kept = None  # a file that it does not open: it holds a lock on it, or it is a pipe
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", port))
listener.listen(256)

def wait_for(sockets, how):
    """Until all of them are ready; they are asked about again and again, and told of once."""
    if how == "poll":
        poller = select.poll()
        for one in sockets: poller.register(one, select.POLLIN)
    elif how == "epoll":
        poller = select.epoll()
        for one in sockets: poller.register(one, select.EPOLLIN)
    seen = set()
    while len(seen) < len(sockets):
        if how == "select": seen |= {one.fileno() for one in select.select(sockets, [], [])[0]}
        else: seen |= {fd for fd, _ in poller.poll()}
    if how == "epoll": poller.close()

def descriptors():
    return sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []

def ask(how, names):
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in names]
    taken = [listener.accept()[0] for _ in names]
    by_peer = {one.getpeername(): one for one in taken}
    taken = [by_peer[client.getsockname()] for client in clients]
    before = descriptors()
    for client, name in zip(clients, names): client.sendall(b"GET /" + os.fsencode(name) + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    for one in taken:  # a busy kernel hands on later what was sent
        while not int.from_bytes(fcntl.ioctl(one, termios.FIONREAD, bytes(4)), sys.byteorder): time.sleep(0.001)
    wait_for(taken, how)
    after, free = descriptors(), os.dup(0)
    os.close(free)
    got = []
    for one, name in zip(taken, names):
        request = one.recv(4096).split(b" ")[1].decode()
        if request == kept:
            got.append(-3)
            one.close()
            continue
        try:
            path = root + request.split("?")[0]
            with open(path + "index.html" * path.endswith("/"), "rb", buffering=0) as file: got.append(len(file.readall()))
        except OSError: got.append(-1)
        one.close()
    for client in clients: client.close()
    return {"got": got, "same": before == after, "free": free}

print(json.dumps("runs"), flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "ask": answer = ask(rest[0], rest[1:])
    elif word == "thread":
        threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()
        answer = {}
    elif word == "lock":
        import fcntl
        held = open(root + "/" + rest[0], "rb+")
        if rest[1] == "lockf": assert ctypes.CDLL(None).lockf(held.fileno(), 1, 0) == 0
        else: fcntl.lockf(held, fcntl.LOCK_EX | (fcntl.LOCK_NB if rest[1] == "F_SETLK" else 0))
        kept, answer = "/" + rest[0], {}
    elif word == "keep": kept, answer = "/" + rest[0], {}
    elif word == "clone":
        # A child that shares its descriptors, and ends at once.
        libc, stack = ctypes.CDLL(None), ctypes.create_string_buffer(1 << 16)
        top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) - 64 & ~15)
        child = libc.clone(libc._exit, top, 0x400 | signal.SIGCHLD, None)
        assert child > 0 and os.waitpid(child, 0) == (child, 0)
        answer = {}
    elif word == "fork":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            break
        answer = {}
    elif word == "become":
        os.setgid(int(rest[0])); os.setuid(int(rest[0]))
        answer = {}
    elif word == "chroot":
        os.chroot(rest[0]); os.chdir("/")
        root = rest[1]
        answer = {}
    print(json.dumps(answer), flush=True)
'''
# A filter of system calls that lets all of them through.
FILTERED = r'''
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(code)))) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
'''

# Lets everybody write the code, before the program starts. (With the folder it does not even map the region: shim_processes.py.)
OPENED = r'''
import os, sys
os.chmod(os.path.dirname(os.environ["CHAINIO_REGION"]) + "/steps", 0o777)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
'''


class Program:
    """One that runs by `chainio run`, and what is said of it meanwhile and at the end."""

    def __init__(self, folder, root, words=(), options=(), before=(), environment=None, seen_root=None):
        self.held, port = netns.held_port()
        self.summary = folder.path / "summary.json"
        self.summary.unlink(missing_ok=True)
        asked = ["--spec", "std/http.chain", "--param", f"PORT={port}", "--param", f"docroot={seen_root or root}/**", "--json", "--summary", self.summary, *options]
        command = [*before, *folder.command(asked, [sys.executable, *words, folder.path / "program.py", port, root])]
        self.process = folder.launch(command, env=environment or folder.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.inside = ["nsenter", "-m", "-r", "-t", str(self.process.pid)] if before else []
        self.environment = environment or folder.environment
        self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program has ended: {self.process.stderr.read()[-2000:]}")
        return json.loads(line)

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def ask(self, *names, how="epoll"):
        return self.say("ask", how, *names)

    def figures(self):
        done = subprocess.run([*self.inside, CHAINIO, "top", str(self.process.pid), "--once", "--json"], env=self.environment, capture_output=True, text=True,
                              timeout=runs.LONGEST)
        if done.returncode != 0:
            return None
        figures = json.loads(done.stdout)
        chain = figures["chains"][0]
        # What the server is to fetch the program may have read before.
        figures["left"]["wanted"] = chain["fetches"] + chain["cached"] + chain["duplicate"]
        return {**{name: chain[name] for name in ("runs", "own", "fetches", "cached", "duplicate", "hits", "failed", "dropped")}, **figures["left"]}

    def end(self):
        _, complaint = self.process.communicate(timeout=runs.LONGEST)
        self.held.close()
        expect("  the program ends as it should", (self.process.returncode, complaint), (0, ""))
        return json.loads(self.summary.read_text())


class Files:
    """Files that are cold when they are handed out, each once."""

    def __init__(self, root, count=400, size=SMALL):
        self.root, self.unused = root, [f"d{n % 3}/f{n}.bin" for n in range(count)]
        for name in self.unused:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))
        root.chmod(0o755)
        drop_from_memory(*(root / name for name in self.unused))

    def take(self, count):
        if len(self.unused) < count:
            raise RuntimeError("there are no cold files left")
        taken, self.unused = self.unused[:count], self.unused[count:]
        return taken


def ask_counted(program, names):
    """Asks for files that are there, and waits until the server has counted the requests and what came of them."""
    def counted():
        figures = program.figures()
        return figures and [figures["runs"], figures["wanted"] + figures["dropped"]]
    netns.until("the server can be asked", lambda: counted() is not None)
    runs_before, ends_before = counted()
    answer = program.ask(*names)
    netns.until("the requests are counted", lambda: counted() == [runs_before + len(names), ends_before + len(names)])
    return answer


def begins_itself(program, files):
    """Asks until the server has told the program of the disk; the first requests are the server's."""
    for _ in range(40):
        ask_counted(program, files.take(1))
        if program.figures()["own"] > 0:
            return True
    return False


def judge(what, program, names, wanted, how="epoll", sizes=None):
    """Asks for the files and compares by how much the figures have grown."""
    before = program.figures()
    answer = program.ask(*names, how=how)
    expect(f"{what}: what the program reads", answer["got"], sizes or [SMALL] * len(names))
    expect(f"{what}: its descriptors are what they were", answer["same"], True)
    right = {"runs": len(names), "threads": 0, "code": 0, "many": 0, **wanted}

    def grown():
        after = program.figures()
        return {name: after[name] - before[name] for name in right}
    with contextlib.suppress(AssertionError):
        netns.until("the requests are counted, and what came of them", lambda: grown() == right)
    expect(f"{what}: figures", grown(), right)


def test_requests(folder, root):
    files = Files(root)
    (root / "large.bin").write_bytes(os.urandom(LARGE))
    (root / "inner.bin").write_bytes(os.urandom(SMALL))
    (root / "a b.bin").write_bytes(os.urandom(SMALL))
    (root.parent / "outer.bin").write_bytes(os.urandom(SMALL))
    indices = [root / name / "index.html" for name in ("", "d0", "d1")]
    for path in indices:
        path.write_bytes(os.urandom(SMALL))
    (root / "bare").mkdir()
    (root / "inside").symlink_to("inner.bin")
    (root / "outside").symlink_to("../outer.bin")
    drop_from_memory(*(root / name for name in ("large.bin", "inner.bin")), root.parent / "outer.bin", *indices)
    program = Program(folder, root, options=["--no-gate"])
    expect("after the first, the program begins its fetches itself", begins_itself(program, files), True)
    for how in ("epoll", "poll", "select"):
        judge(f"cold files, {how}", program, files.take(AT_ONCE), {"own": AT_ONCE, "fetches": AT_ONCE}, how)
    warm = files.take(AT_ONCE)
    judge("once", program, warm, {"own": AT_ONCE, "cached": 0})
    with runs.held_in_memory(*(root / name for name in warm)):
        judge("the same again", program, warm, {"own": 0, "fetches": 0, "cached": AT_ONCE})
    program.say("keep", "large.bin")  # who reads it would bring some of it into memory before the server looks
    judge("a large file", program, ["large.bin"], {"own": 0, "length": 1, "fetches": 2, "cached": 0}, sizes=[-3])
    judge("folders", program, ["/", "d0/", "d1/?x=1"], {"own": 3, "fetches": 3, "request": 0, "name": 0})
    judge("a folder without an index", program, ["bare/"], {"own": 0, "request": 0, "name": 1, "dropped": 1}, sizes=[-1])
    judge("a folder's name", program, ["d0"], {"own": 0, "request": 0, "name": 1, "dropped": 1}, sizes=[-1])
    judge("an escaped name", program, ["a%20b.bin"], {"own": 0, "request": 1, "name": 0}, sizes=[-1])
    judge("one that leads up", program, ["d0/../inner.bin"], {"own": 0, "request": 1, "name": 0, "fetches": 0})
    judge("a file that is not there", program, ["none.bin"], {"own": 0, "request": 0, "name": 1, "dropped": 1}, sizes=[-1])
    ask_counted(program, ["inside", "outside"])  # the first to follow a link in a day writes down when, which the kernel does not do without waiting
    drop_from_memory(root / "inner.bin", root.parent / "outer.bin")
    judge("a link that leads out", program, ["outside"], {"own": 0, "name": 1, "fetches": 0, "dropped": 1})
    judge("a link that stays below the root", program, ["inside"], {"own": 1, "name": 0, "fetches": 1})
    judge("files after that link", program, files.take(AT_ONCE), {"own": AT_ONCE, "name": 0})
    judge("many at once", program, files.take(70), {"own": 64, "many": 6, "wanted": 70})
    summary = program.end()
    expect("the summary says so", [any(text in note for note in summary["notes"]) for text in ("begun by the program's own threads", "is not in plain text", "reads ahead")],
           [True] * 3)
    expect("nothing is left of the run", runs.left_overs(program.process.pid), [])


def test_pipe_untouched(folder, root):
    """A pipe that the program does not open is not opened for it."""
    files = Files(root, 60)
    os.mkfifo(root / "quiet")
    program = Program(folder, root, options=["--no-gate"])
    expect("pipe: the program begins its fetches itself", begins_itself(program, files), True)
    writer = started.start([sys.executable, "-c", "import sys; print(flush=True); open(sys.argv[1], 'wb')", root / "quiet"], stdout=subprocess.PIPE)
    writer.stdout.readline()
    netns.until("the writer waits for a reader", lambda: pathlib.Path(f"/proc/{writer.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S")
    program.say("keep", "quiet")
    judge("a pipe that nobody opens", program, ["quiet"], {"own": 0, "name": 1, "dropped": 1}, sizes=[-3])
    expect("its writer still waits", ends_within(writer, 0.5), False)
    with open(root / "quiet", "rb"):
        writer.wait(timeout=runs.LONGEST)
    writer.stdout.close()
    program.end()


def ends_within(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
        return True
    return False


def test_processes(folder, root):
    """A child, also as another user: it does not own the files and cannot read the run's folder."""
    files = Files(root)
    program = Program(folder, root, options=["--no-gate"])
    expect("processes: the program begins its fetches itself", begins_itself(program, files), True)
    program.say("fork")
    judge("a child of fork", program, files.take(AT_ONCE), {"own": AT_ONCE})
    if os.geteuid() == 0:
        program.say("become", 65534)
        judge("another user", program, files.take(AT_ONCE), {"own": AT_ONCE, "name": 0})
        for path in files.unused[:2]:
            (root / path).chmod(0o600)
        judge("files that it may not read", program, files.take(2), {"own": 0, "name": 2, "wanted": 2}, sizes=[-1, -1])
    program.say("thread")
    judge("with a second thread", program, files.take(2), {"own": 0, "threads": 2, "wanted": 2})
    program.end()


def test_root_directory(folder, root):
    """A program in another root sees other paths: what it does not find there is the server's."""
    if os.geteuid() != 0:
        print("skipped: another root wants root")
        return
    files = Files(root, 100)
    program = Program(folder, root, options=["--no-gate"])
    expect("another root: the program begins its fetches itself", begins_itself(program, files), True)
    program.say("chroot", root.parent, "/" + root.name)
    judge("in another root", program, files.take(AT_ONCE), {"own": 0, "name": AT_ONCE, "wanted": AT_ONCE})
    program.end()


def test_without_code(folder, root):
    """It is not loaded under a filter of system calls, nor where somebody else could have written it."""
    for what, text in (("under a filter", FILTERED), ("where others may write", OPENED)):
        files = Files(root, 40)
        (folder.path / "before.py").write_text(text)
        program = Program(folder, root, words=[folder.path / "before.py"], options=["--no-gate"])
        ask_counted(program, files.take(1))
        judge(what, program, files.take(4), {"own": 0, "code": 4, "wanted": 4})
        program.end()


def test_record_locks(folder, root):
    """A process loses its locks on a file with any descriptor of it that is closed."""
    for how in ("F_SETLK", "F_SETLKW", "lockf"):
        files = Files(root, 80)
        program = Program(folder, root, options=["--no-gate"])
        expect(f"{how}: the program begins its fetches itself", begins_itself(program, files), True)
        locked = files.take(1)[0]
        program.say("lock", locked, how)
        judge(f"{how}: a file that is locked", program, [locked], {"own": 0, "threads": 1, "wanted": 1}, sizes=[-3])
        expect(f"{how}: the lock is still held", is_locked(root / locked), True)
        judge(f"{how}: while locks may be held", program, files.take(2), {"own": 0, "threads": 2, "wanted": 2})
        program.end()


def test_shared_descriptors(folder, root):
    """Somebody whom libc does not know could come upon a descriptor that comes and goes."""
    files = Files(root, 60)
    program = Program(folder, root, options=["--no-gate"])
    expect("clone: the program begins its fetches itself", begins_itself(program, files), True)
    program.say("clone")
    judge("after a clone", program, files.take(2), {"own": 0, "threads": 2, "wanted": 2})
    program.end()


def test_bounds(folder, root):
    """With little room, or few reads at once, the server begins all of them."""
    for option in (["--ahead", "256KiB"], ["--in-flight", "3"]):
        files = Files(root, 40)
        program = Program(folder, root, options=["--no-gate", *option])
        for _ in range(4):
            ask_counted(program, files.take(2))
        judge(" ".join(option), program, files.take(2), {"own": 0, "wanted": 2})
        expect(f"{' '.join(option)}: nothing was left to the server", {name: program.figures()[name] for name in ("own", "name", "disk")}, {"own": 0, "name": 0, "disk": 0})
        program.end()


def is_locked(path):
    with open(path, "rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_nothing_may_be_executed(folder, root):
    """The folder of the run is where nothing can be executed."""
    files = Files(root, 80)
    where = folder.path / "noexec"
    where.mkdir()
    mount = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o noexec,size=64m tmpfs '{where}' && exec \"$@\"", "sh"]
    if os.geteuid() != 0 or subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
        print("skipped: a folder where nothing may be executed cannot be mounted here")
        return
    program = Program(folder, root, options=["--no-gate"], before=mount, environment={**folder.environment, "XDG_RUNTIME_DIR": str(where)})
    asked = 0
    while asked < 80 and (asked < 8 or program.figures()["code"] == 0):  # until the server has told the program of the disk
        done = ask_counted(program, files.take(4))
        expect("where nothing may be executed: what the program reads", done["got"], [SMALL] * 4)
        asked += 4
    summary = program.end()
    chain = summary["chains"][0]
    expect("where nothing may be executed: the server does it all", (chain["own"], chain["fetches"] + chain["cached"], summary["left"]["code"] > 0), (0, asked, True))


def test_names_not_in_memory(folder, root):
    """A file system that has just been mounted knows no name by heart."""
    image, where = root.parent / "image", root.parent / "mounted"
    where.mkdir()
    make = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if os.geteuid() != 0 or not make:
        print("skipped: a file system of its own wants root and mkfs.ext4")
        return
    image.write_bytes(b"")
    os.truncate(image, 64 << 20)
    subprocess.run([make, "-q", "-F", image], check=True, capture_output=True)
    mount = ["unshare", "-m", "sh", "-c", f"mount -o loop '{image}' '{where}' && exec \"$@\"", "sh"]
    make_files = f"import os\nfor n in range(200):\n os.makedirs('{where}/d', exist_ok=True)\n open('{where}/d/f' + str(n), 'wb').write(os.urandom({SMALL}))"
    made = subprocess.run([*mount, sys.executable, "-c", make_files], capture_output=True, text=True)
    if made.returncode != 0:
        print(f"skipped: no file system can be mounted from a file here: {made.stderr.strip()}")
        return
    program = Program(folder, where, options=["--no-gate"], before=mount)
    names, first = iter([f"d/f{n}" for n in range(200)]), 0
    for _ in range(20):
        ask_counted(program, [next(names)])
        if program.figures()["name"] > first:
            break
    judge("names that are not in memory", program, [next(names) for _ in range(4)], {"own": 0, "name": 4, "wanted": 4})
    program.end()


def test_gate(folder, root):
    """Over files that are in memory already the chain goes off, whoever runs it."""
    files = Files(root, 60)
    program = Program(folder, root)
    expect("gate: the program begins its fetches itself", begins_itself(program, files), True)
    warm = files.take(AT_ONCE)
    program.ask(*warm)

    def is_off():
        program.ask(*warm)
        figures = program.figures()
        return figures["cached"] > 0 and gate(program) != "on"
    with runs.held_in_memory(*(root / name for name in warm)):
        netns.until("the gate has switched the chain off", is_off)
    program.end()


def gate(program):
    done = subprocess.run([CHAINIO, "top", str(program.process.pid), "--once", "--json"], capture_output=True, text=True, timeout=runs.LONGEST)
    return json.loads(done.stdout)["chains"][0]["gate"]


def has_disk(where):
    """Whether what is dropped from memory there is gone: in a file system that is memory itself it is not."""
    path = pathlib.Path(where) / "try"
    path.write_bytes(b"x" * SMALL)
    if runs.raised(lambda: drop_from_memory(path)):
        return False
    before = resource_blocks()
    path.read_bytes()
    path.unlink()
    return resource_blocks() != before


def resource_blocks():
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock


def main():
    with runs.Folder() as folder, tempfile.TemporaryDirectory(prefix="chainio-own-", dir=runs.BUILD) as name:
        if not has_disk(name):
            print(f"{name} lies on no disk whose reads the kernel counts")
            sys.exit(77)
        os.chmod(name, 0o755)
        (folder.path / "program.py").write_text(PROGRAM)
        for test in (test_requests, test_pipe_untouched, test_processes, test_root_directory, test_without_code, test_record_locks, test_shared_descriptors, test_bounds, test_nothing_may_be_executed, test_names_not_in_memory, test_gate):
            root = pathlib.Path(name) / test.__name__ / "www"
            root.mkdir(parents=True)
            test(folder, root)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
