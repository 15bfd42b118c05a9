#!/usr/bin/env python3
"""chainio run around a program: exit codes, signals, terminal, pipes, refusals, plain runs, the cache, --follow, and chainio top."""
import contextlib
import functools
import json
import os
import pathlib
import pty
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
import started
from runs import CHAINC, CHAINIO, expect

SPEC = """param files notes = "*.note"
param SIZE = 4KiB
chain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for SIZE }
"""
# For programs that say something in signal handlers as well: print must not be called in the middle of print.
SAYS = """import os, signal, sys
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
# Says how often it was interrupted, and ends at the end of its input. Python may be about to read when a signal comes, and would run the
# handler after what it reads: so signals are something to read, too.
COUNTER = SAYS.replace("import os,", "import os, select,") + """
count = [0]
def more(number, frame):
    count[0] += 1
    say("got", signal.Signals(number).name)
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)
for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGRTMIN): signal.signal(number, more)
say("ready", os.getpgrp())
while True:
    ready = select.select([0, came], [], [])[0]
    if came in ready: os.read(came, 1)
    elif os.read(0, 100) in (b"", b"end\\n"): break
say("count", count[0])
"""
PYTHON = sys.executable


# The signals that a program finds blocked and ignored. 34 is one that C libraries may hide; 32 and 33 are their own, and
# glibc's posix_spawn ignores them.
SHOW_SIGNALS = ["sed", "-n", "/^Sig[BI]/p", "/proc/self/status"]


def bits(*numbers):
    return sum(1 << (number - 1) for number in numbers)


def arrange_signals():
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGUSR1, 34, 40):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, 34, 41})


def until(stream, word):
    """Reads lines up to one that begins with the word; that line, or what came instead."""
    seen = []
    for line in stream:
        seen.append(line.strip())
        if seen[-1].startswith(word):
            return seen[-1]
    return seen


def test_ends(folder, spec):
    for code in (0, 1, 7, 127, 255):
        expect(f"exit code {code}", folder.run(spec, ["sh", "-c", f"exit {code}"]).returncode, code)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE):
        done, summary = folder.summarized(spec, ["sh", "-c", f"kill -{number.value} $$"])
        expect(f"death by {number.name} is repeated, and told", (done.returncode, summary["exit"]), (-number, {"signal": int(number)}))
    done = folder.run(spec, ["chainio-no-such-program"])
    expect("there is no program", (done.returncode, done.stdout, done.stderr), (127, b"", b"chainio run: chainio-no-such-program: command not found\n"))
    done = folder.run(spec, ["./chainio-no-such-program"])
    expect("there is no program of that path", (done.returncode, done.stderr), (127, b"chainio run: ./chainio-no-such-program: No such file or directory\n"))
    (folder.path / "text").write_text("words\n")
    expect("no program", folder.run(spec, ["./text"]).returncode, 126)
    expect("a folder", folder.run(spec, [folder.path]).returncode, 126)
    script = folder.path / "script"
    script.write_text("echo by sh $1\n")
    script.chmod(0o755)
    for what, line, told in (("is missing", "#!/no/such/one -x", "/no/such/one"), ("ends in a carriage return", "#!/bin/sh\r", "/bin/sh\\x0d")):
        other = folder.path / "other"
        other.write_text(line + "\n")
        other.chmod(0o755)
        done = folder.run([*spec, "--quiet"], ["./other"])
        expect(f"a script whose interpreter {what}", (done.returncode, done.stdout, done.stderr.decode()),
               (127, b"", f"chainio run: ./other: its interpreter {told}: No such file or directory\n"))
    expect("a script without #!", folder.run([*spec, "--quiet"], ["./script", "x"]).stdout, b"by sh x\n")


def test_surroundings(folder, spec):
    quiet = [*spec, "--quiet"]
    data = os.urandom(3_000_000)
    done = folder.run(quiet, ["cat"], input=data)
    expect("3 MB through a pipe", (done.returncode, done.stdout == data, done.stderr), (0, True, b""))
    done = folder.run(quiet, [PYTHON, "-c", "import sys; print(sys.argv[1:])", "--", "--spec", "-x", "", "a b"])
    expect("arguments are the program's own", done.stdout, b"['--', '--spec', '-x', '', 'a b']\n")
    done = folder.run(quiet, [PYTHON, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"])
    expect("no descriptors but its own", done.stdout, b"[0, 1, 2]\n")
    ignored = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    done = folder.run(quiet, [PYTHON, "-c", ignored], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    expect("nohup still ignores, no signal is blocked", done.stdout, b"True set()\n")
    arranged = {"SigBlk": bits(signal.SIGUSR2, 34, 41), "SigIgn": bits(signal.SIGPIPE, signal.SIGUSR1, 34, 40)}
    for way, options in (("launcher", quiet), ("whole program", [*quiet, "--no-cache"])):
        done = folder.run(options, SHOW_SIGNALS, preexec_fn=arrange_signals)
        found = {name: int(set_of, 16) & ~bits(32, 33) for name, set_of in (line.split(":") for line in done.stdout.decode().splitlines())}
        expect(f"ignored and blocked signals are what they were: {way}", found, arranged)
    done = subprocess.run(["sh", "-c", f'"$@" <&- 2>&-', "sh", *folder.command(spec, ["sh", "-c", "test -e /proc/self/fd/2 || echo closed"])],
                          env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("closed descriptors stay closed", (done.returncode, done.stdout), (0, b"closed\n"))
    folder.environment["LD_PRELOAD"] = "libm.so.6"
    done = folder.run(quiet, ["env"])
    del folder.environment["LD_PRELOAD"]
    line = next(each for each in done.stdout.decode().splitlines() if each.startswith("LD_PRELOAD="))
    expect("what was preloaded before still is", line, lambda l: l.endswith("/libchainio.so:libm.so.6"))


def test_signals(folder, spec):
    p = folder.start([*spec, "--quiet"], [PYTHON, "-c", COUNTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    ready = until(p.stdout, "ready")
    expect("the same process group", ready, f"ready {os.getpgid(p.pid)}")
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGRTMIN):
        p.send_signal(number)
        expect(f"{number.name} is passed on", until(p.stdout, "got"), f"got {number.name}")
    p.stdin.write("end\n")
    p.stdin.close()
    expect("each once", until(p.stdout, "count"), "count 3")
    expect("and it ends well", p.wait(runs.LONGEST), 0)
    p.stdout.close()
    p = folder.start([*spec, "--quiet"], ["sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until(p.stdout, "ready")
    p.terminate()
    expect("SIGTERM ends both", (p.wait(runs.LONGEST), runs.left_overs(p.pid)), (-signal.SIGTERM, []))
    p.stdin.close()
    p.stdout.close()


def test_terminal(folder, spec):
    """ctrl-C reaches the program by the terminal alone, and chainio outlives it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        os.execve(CHAINIO, folder.command([*spec, "--quiet"], [PYTHON, "-c", COUNTER]), folder.environment)
    with os.fdopen(terminal, "r+b", buffering=0) as stream:
        lines = iter(lambda: read_line(stream), b"")
        until(lines, b"ready")
        stream.write(b"\x03")
        expect("ctrl-C reaches the program", until(lines, b"got").endswith(b"got SIGINT"), True)
        stream.write(b"end\n")
        expect("once", until(lines, b"count"), b"count 1")
        _, status = os.waitpid(pid, 0)
    expect("and chainio ends as the program does", os.waitstatus_to_exitcode(status), 0)


def read_line(stream):
    """A line of a terminal without its echo of control characters."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            byte = stream.read(1)
        except OSError:  # the other end is closed
            break
        if not byte:
            break
        line += byte
    return line.replace(b"^C", b"")


def test_refusals(folder):
    (folder.path / "broken.chain").write_text('files a = "*.a"\nchain x on read(b) as r { prefetch r.file at 0 for 1 }\n')
    done = folder.run(["--spec", "broken.chain"], ["echo", "started"])
    expect("a broken spec is refused with its place", (done.returncode, done.stdout, done.stderr.decode()),
           lambda r: r[:2] == (1, b"") and "broken.chain:2:17: error[CH0104]" in r[2] and "^\n" in r[2] and "was not started" in r[2])
    done = folder.run(["--spec", "std/sqlite_shado.chain"], ["echo", "started"])
    expect("a spec that is not there", (done.returncode, done.stdout, done.stderr.decode()),
           lambda r: r[:2] == (3, b"") and "did you mean `std/sqlite_shadow.chain`?" in r[2])
    (folder.path / "call\n.o").write_bytes((folder.path / "good.o").read_bytes())
    (folder.path / "bro\x1bken.chain").write_text("broken\n")
    for options, program, says, code in ((["--spec", "no\n\x1b[31m.chain"], "echo", "there is no spec `no\\x0a\\x1b[31m.chain`: looked at no\\x0a\\x1b[31m.chain, ", 3),
                                         (["--spec", "call\n.o", "--param", "SIZE=1"], "echo", "`call\\x0a.o` is compiled already, with its parameters; --param goes with a source\n", 2),
                                         (["--spec", "bro\x1bken.chain"], "ec\x1bho", "ec\\x1bho: command not found\n", 127),
                                         (["--spec", "bro\x1bken.chain"], "echo", "`bro\\x1bken.chain` does not compile; echo was not started\n", 1),
                                         (["--spec", "good.o"], "./call\n.o", "./call\\x0a.o: Permission denied\n", 126),
                                         (["--spec", "good.o", "--library", "no\x1b.so", "--strict"], "echo", "echo was not started, since it would run plain (--strict): there is no libchainio.so: looked at no\\x1b.so; --library names it\n", 3)):
        done = folder.run(options, [program, "started"])
        expect(f"names that would rearrange a terminal: {options} {program!r}", (done.returncode, done.stdout, done.stderr.decode().splitlines(keepends=True)[-1]),
               lambda r, says=says, code=code: r[:2] == (code, b"") and r[2].startswith(f"chainio run: {says}"))
    done = folder.run(["--spec", "std/btree.chain"], ["echo", "started"])
    expect("a spec without shadow chains", (done.returncode, done.stdout, done.stderr.decode()), lambda r: r[:2] == (1, b"") and "declares no shadow chain" in r[2])
    done = folder.run(["--spec", "good.chain", "--param", "SIZ=1"], ["echo", "started"])
    expect("a parameter that is not there", (done.returncode, done.stdout, done.stderr.decode()), lambda r: r[:2] == (2, b"") and "did you mean `SIZE`?" in r[2])
    done = folder.run(["--spec", "good.o", "--param", "SIZE=1"], ["echo", "started"])
    expect("a parameter for an artifact", (done.returncode, done.stdout, done.stderr.decode()), lambda r: r[:2] == (2, b"") and "compiled already" in r[2])
    for option in ("--spec", "--summary", "--library", "-I"):
        spec = [] if option == "--spec" else ["--spec", "good.o"]
        done = folder.run([*spec, option, ""], ["echo", "started"])
        expect(f"{option} with an empty name", (done.returncode, done.stdout, done.stderr.decode()),
               (2, b"", f"chainio run: {option}: the name is empty\n  hint: `chainio run --help` lists the options\n"))
    done = folder.run(["--spec", "good.o", "--summary", "-"], ["echo", "started"])
    expect("--summary -", (done.returncode, done.stdout, done.stderr.decode(), (folder.path / "-").exists()),
           (2, b"", "chainio run: --summary: `-` names no file; /dev/stderr or /dev/stdout is a stream, and ./- a file of that name\n"
                    "  hint: `chainio run --help` lists the options\n", False))
    done = subprocess.run(folder.command(["--spec", "good.chain", "--no-cache"], ["echo", "started"]), env={**folder.environment, "TMPDIR": "/none"},
                          cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("a compiler that has no folder", (done.returncode, done.stdout, done.stderr.decode()),
           (0, b"started\n", "chainio run: echo runs plain: chainc: error[CH0600]: cannot make a directory in /none: No such file or directory; "
                             "set TMPDIR to one that can be written\n"))
    done = subprocess.run([CHAINIO, "run", "--spec", "good.chain", "echo"], capture_output=True, cwd=folder.path, timeout=runs.LONGEST)
    expect("no `--`", (done.returncode, done.stdout, done.stderr.decode().splitlines()),
           (2, b"", ["chainio run: The following argument was not expected: echo", "  hint: the program to run stands behind `--`: chainio run --spec SPEC -- PROGRAM …"]))
    for option, values, says in (("--in-flight", ("0", "1025"), "not in range"), ("--ahead", ("255KiB", "17GiB"), "(--ahead) must be 256 KiB to 16 GiB"),
                                 ("--memory", ("0", "17GiB"), "(--memory) must be 256 KiB to 16 GiB"),
                                 ("--served", ("1KiB", "1023KiB", "65GiB"), "the memory that reads are served from (--served) must be 1 MiB to 64 GiB, or 0 for none")):
        for value in values:
            done = folder.run(["--spec", "good.o", option, value], ["echo", "started"])
            expect(f"{option} {value}", (done.returncode, done.stdout, done.stderr.decode()), lambda r, says=says: r[:2] == (2, b"") and says in r[2] and "--help" in r[2])
    for option in ("--memory", "--ahead", "--served"):
        for value, why in (("-1", "is negative; give 0 or more bytes"), ("-5KiB", "is negative; give 0 or more bytes"), ("many", "is no size; give a number of bytes"),
                           ("16EiB", "is more than 64 bits hold; give a smaller size")):
            done = folder.run(["--spec", "good.o", option, value], ["echo", "started"])
            expect(f"{option} {value}", (done.returncode, done.stdout, done.stderr.decode()),
                   lambda r, say=f"chainio run: {option}: '{value}' {why}, such as ": r[:2] == (2, b"") and r[2].startswith(say) and "\n  hint: `chainio run --help`" in r[2])
    for value in ("0", "1MiB", "64GiB"):
        expect(f"--served {value}", folder.run(["--spec", "good.o", "--quiet", "--served", value], ["echo", "started"]).stderr, b"")
    expect("the most in flight", folder.run(["--spec", "good.o", "--quiet", "--in-flight", "1024"], ["echo", "started"]).stderr, b"")
    done = folder.run(["--spec", "std/sqlite"], ["echo", "started"])
    expect("a spec without its ending", (done.returncode, done.stdout, done.stderr.decode()),
           lambda r: r[:2] == (3, b"") and "did you mean `std/sqlite.chain`?" in r[2])


def test_interpreted(folder):
    """Where there is no native code that could be loaded, one note says so."""
    subprocess.run([CHAINC, "good.chain", "--native", "none", "-o", "interpreted.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    for program in (["cat", "a.note"], ["true"]):
        notes = folder.summarized(["--spec", "interpreted.o"], program)[1]["notes"]
        expect(f"steps are interpreted, {program[0]}", [note for note in notes if "interpreted" in note],
               [f"steps are interpreted: the artifact has no native code for {os.uname().machine} (`chainc --native` adds it)"])


def test_plain(folder, spec):
    source = folder.path / "static.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("static"); return 3; }\n')
    subprocess.run(["clang-19", "-static", source, "-o", folder.path / "static"], check=True, timeout=runs.LONGEST)
    done, summary = folder.summarized(spec, ["./static"])
    expect("a static program runs plain, and one line says why", (done.returncode, done.stdout, done.stderr.decode().count("\n"), done.stderr.decode()),
           lambda r: r[:3] == (3, b"static\n", 1) and "./static runs plain: it is statically linked" in r[3])
    expect("so does the summary", summary["plain"], lambda why: "statically linked" in why)
    done = folder.run([*spec, "--strict"], ["./static"])
    expect("--strict refuses it", (done.returncode, done.stdout, done.stderr.decode()),
           (3, b"", "chainio run: ./static was not started, since it would run plain (--strict): it is statically linked, so its calls cannot be seen\n"))
    loader = "/lib64/ld-linux-x86-64.so.2"  # has no loader of its own, but preloads into the program behind it
    done, summary = folder.summarized(spec, [loader, "/bin/cat", "a.note"])
    expect("a program that the loader is told to load is seen", (done.returncode, done.stdout, summary["plain"], summary["chains"][0]["runs"]),
           lambda r: r[:3] == (0, (folder.path / "a.note").read_bytes(), None) and r[3] > 0)
    done = folder.run([*spec, "--quiet"], [loader, "--list", "/bin/cat"])
    expect("the loader alone", (done.returncode, done.stderr), lambda r: r == (0, b"") and b"libc.so.6" in done.stdout)
    done = folder.run([*spec, "--library", "/nonexistent.so"], ["sh", "-c", "echo plain; exit 4"])
    expect("without the library", (done.returncode, done.stdout, done.stderr), lambda r: r[:2] == (4, b"plain\n") and b"runs plain: there is no libchainio.so" in r[2])
    done = folder.run(["--spec", folder.path], ["true"])
    expect("a directory as a spec", (done.returncode, done.stderr), lambda r: r[0] == 3 and b"is a directory, and no spec: name the .chain file in it" in r[1])
    (folder.path / "text.so").write_text("no library")
    done = folder.run([*spec, "--library", "text.so"], ["sh", "-c", "echo plain; exit 4"])
    expect("a library that is none", (done.returncode, done.stdout, done.stderr),
           lambda r: r[:2] == (4, b"plain\n") and b"text.so` cannot be preloaded: it is no shared library" in r[2] and b"ERROR" not in r[2])
    expect("--strict refuses it, too", folder.run([*spec, "--strict", "--library", "text.so"], ["echo", "on"]), lambda d: d.returncode == 3 and d.stdout == b"")
    if os.getuid() == 0:
        rights = folder.path / "rights"
        rights.write_bytes(pathlib.Path("/bin/echo").resolve().read_bytes())
        os.chown(rights, 65534, 65534)
        rights.chmod(0o4755)
        done = folder.run(spec, ["./rights", "on"])
        expect("a set-user-ID program", (done.returncode, done.stdout, done.stderr), lambda r: r[:2] == (0, b"on\n") and b"it is a set-user-ID program" in r[2])
    folder.environment["PATH"], before = "/nonexistent", folder.environment["PATH"]
    done = folder.run(["--spec", "fresh.chain"], ["/bin/echo", "on"])
    folder.environment["PATH"] = before
    expect("no clang to compile the spec with", (done.returncode, done.stdout, done.stderr.decode()), lambda r: r[:2] == (0, b"on\n") and "runs plain: " in r[2] and r[2].count("\n") == 1)
    (folder.path / "failing").mkdir(exist_ok=True)
    clang = folder.path / "failing" / "clang-19"
    clang.write_text("#!/bin/sh\necho 'error: the disk is full' >&2\necho '1 error generated.' >&2\nexit 1\n")
    clang.chmod(0o755)
    folder.environment["PATH"] = str(clang.parent)
    done = folder.run(["--spec", "fresh.chain"], ["/bin/echo", "on"])
    folder.environment["PATH"] = before
    expect("a clang that fails", (done.returncode, done.stdout, done.stderr.decode()),
           (0, b"on\n", f"chainio run: /bin/echo runs plain: chainc: error[CH0600]: {clang} failed with status 1 on the BPF programs; it said: error: the disk is full; "
                        "this clang may lack the target or lld (Debian: apt-get install clang-19 lld-19); `--clang PROGRAM` names another\n"))


def leave_waiting(before):
    """Signals that are blocked wait for whatever the process becomes."""
    if before:
        before()
    numbers = {signal.SIGPIPE, signal.SIGXFSZ}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        os.kill(os.getpid(), number)


def test_unheard(folder, spec):
    """What cannot be said, before the program is there, keeps nobody from starting it."""
    limit = 1 << 16
    (folder.path / "log").write_bytes(b"x" * limit)
    nobody, ours = os.pipe()
    os.close(nobody)
    looks = ["grep", "-E", "Pnd|SigB|SigI|SigC", "/proc/self/status"]
    with open(folder.path / "log", "ab") as log, os.fdopen(ours, "wb") as unread:
        for what, place, before, broken in (("a pipe that nobody reads", unread, None, (1, b"")),
                                            ("a file as large as may be", log, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), (0, b"on\n"))):
            def run(command, place=place, before=before):
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=place, preexec_fn=before, env=folder.environment, cwd=folder.path, timeout=runs.LONGEST)
                return done.returncode, done.stdout
            expect(f"a program that runs plain beside {what}", run(folder.command(spec, ["./static"])), (3, b"static\n"))
            unheard = folder.command([*spec, "--library", "/nonexistent.so"], looks)
            expect("  has signals as ever", run(unheard), run(looks))
            waiting = functools.partial(leave_waiting, before)
            expect("  also those that wait for it", run(unheard, before=waiting), run(looks, before=waiting))
            expect("  --strict refuses it", run(folder.command([*spec, "--strict"], ["./static"])), (3, b""))
            expect("  a program that is not there", run(folder.command(spec, ["./missing"])), (127, b""))
            expect("  a spec that is broken", run(folder.command(["--spec", "broken.chain"], ["echo", "on"])), broken)
    expect("the file is as it was", (folder.path / "log").stat().st_size, limit)


def test_sanitizer(folder, spec):
    """The runtime of gcc's AddressSanitizer wants to be in front of all libraries; it still sees what it is for."""
    source = folder.path / "sanitized.cpp"
    source.write_text('#include <cstdio>\n#include <cstdlib>\nint main(int count, char **words) {\n  char *room = new char[4];\n  FILE *file = std::fopen("a.note", "r");\n'
                      "  std::size_t got = std::fread(room, 1, 4, file);\n  room[std::atoi(words[count - 1])] = 0;\n  std::fclose(file);\n  delete[] room;\n  return got == 4 ? 0 : 1;\n}\n")
    subprocess.run(["g++", "-g", "-fsanitize=address", source, "-o", folder.path / "sanitized"], check=True, timeout=runs.LONGEST)
    for way, words in (("itself", ["./sanitized"]), ("by another program", ["sh", "-c", '"$@"; exit $?', "sh", "./sanitized"])):
        done, summary = folder.summarized(spec, [*words, "3"])
        expect(f"a program of gcc's AddressSanitizer runs, started {way}", (done.returncode, summary["plain"], summary["chains"][0]["runs"]), lambda r: r[:2] == (0, None) and r[2] > 0)
        folder.environment["ASAN_OPTIONS"] = "exitcode=77"
        done = folder.run(spec, [*words, "4"])
        del folder.environment["ASAN_OPTIONS"]
        expect("  and its mistakes are found, as it was asked to", (done.returncode, b"heap-buffer-overflow" in done.stderr), (77, True))


def test_cache(folder):
    """What is kept is used when it is good, and not otherwise."""
    kept = folder.path / "cache" / "chainio"
    spec = folder.path / "cached.chain"
    library = folder.path / "late" / "size.chain"
    library.parent.mkdir()
    library.write_text("const SIZE = 4KiB\n")
    spec.write_text('import "size.chain" as size\nfiles notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at 0 for size.SIZE }\n')
    before = set(kept.glob("*"))
    run = lambda *more: folder.run(["--spec", "cached.chain", "-I", "late", "--quiet", *more], ["true"]).returncode
    expect("compiled", run(), 0)
    made = set(kept.glob("*")) - before
    expect("and kept, for the user alone", [oct(path.stat().st_mode & 0o777) for path in made], ["0o600"])
    entry = made.pop()
    identity = lambda: (entry.stat().st_ino, entry.read_bytes())
    first = identity()
    expect("used again", (run(), identity() == first), (0, True))
    (folder.path / "early.note").write_text("n" * 9000)
    summary = folder.summarized(["--spec", "cached.chain", "-I", "late", "--explain"], ["cat", "early.note"])[1]
    seen = [line["by"] for line in summary["explained"] if line["what"].endswith("early.note")]
    expect("what a program does that starts before its spec is loaded is seen", (summary["chains"][0]["runs"] > 0, seen), (True, ["notes"]))
    read = lambda: folder.run(["--spec", "cached.chain", "-I", "late"], ["cat", "early.note"]).returncode
    entry.write_bytes(first[1][:-100] + b"x" * 100)
    expect("what only a server needs is damaged: made anew for a program that matches", (read(), identity()[1] == first[1]), (0, True))
    entry.write_bytes(first[1][:200] + b"x" + first[1][201:])
    expect("damaged: made anew", (run(), identity()[1] == first[1]), (0, True))
    entry.write_bytes(first[1][:50])
    expect("cut: made anew", (run(), identity()[1] == first[1]), (0, True))
    entry.chmod(0o666)
    second = identity()
    expect("written by others, perhaps: made anew", (run(), identity()[0] == second[0], identity()[1] == first[1]), (0, False, True))
    library.write_text("const SIZE = 8KiB\n")
    expect("another import: made anew", (run(), identity()[1] == first[1]), (0, False))
    library.write_text("const SIZE = \n")
    expect("a broken import is refused", run(), 1)
    library.write_text("const SIZE = 4KiB\n")
    folder.environment["XDG_CACHE_HOME"], was = "/proc/none", folder.environment["XDG_CACHE_HOME"]
    said = lambda: [note for note in folder.summarized(["--spec", "cached.chain", "-I", "late"], ["cat", "early.note"])[1]["notes"] if "was not kept" in note]
    expect("no place for a cache", (run(), "cannot write in /proc/none/chainio (No such file or directory)" in said()[0]), (0, True))
    folder.environment["XDG_CACHE_HOME"] = was
    del folder.environment["XDG_CACHE_HOME"]
    folder.environment["HOME"], home = str(folder.path / "no-home"), folder.environment.get("HOME")
    expect("without a home nothing is kept", (run(), "HOME and XDG_CACHE_HOME name no folder" in said()[0]), (0, True))
    expect("  and none is made", (folder.path / "no-home").exists(), False)
    folder.environment["XDG_CACHE_HOME"] = was
    del folder.environment["HOME"]
    if home is not None:
        folder.environment["HOME"] = home
    expect("what is kept is not spoken of", said(), [])
    expect("nothing else is left there", [path.name for path in kept.glob("*") if path.suffix != ".spec"], [])


def test_follow(folder, spec):
    """A process that outlives the program is served on with --follow, and left alone without."""
    for options, waits in (([], False), (["--follow"], True)):
        reading, writing = os.pipe()
        out = f"out{waits}"  # the rest of the first turn writes whenever it runs
        p = folder.start([*spec, "--quiet", *options], ["sh", "-c", f"(read line <&{reading}; echo $line > {out}) & echo gone; exit 4"], pass_fds=[reading],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        os.close(reading)
        expect("the program ends first", p.stdout.readline(), "gone\n")
        if waits:
            try:
                expect("--follow waits for the rest", p.wait(1), "nothing yet")
            except subprocess.TimeoutExpired:
                print("ok    --follow waits for the rest")
            os.write(writing, b"late\n")
        expect("the exit code is the program's" + (", all the same" if waits else ""), p.wait(runs.LONGEST), 4)
        if waits:
            expect("the rest has ended", (folder.path / out).read_text(), "late\n")
        os.close(writing)
        p.stdout.close()


def open_files(pid):
    """How many files the process may have open, by its own will and at most."""
    line = next(line for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files"))
    return tuple(line.split()[3:5])


def test_few_descriptors(folder, spec):
    """The server opens as many files as it may at most, and the program keeps the limit that it was given."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    p = folder.start([*spec, "--quiet"], ["sh", "-c", "cat a.note > /dev/null; read line; ulimit -S -n; ulimit -H -n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, most)))
    before_end = time.monotonic() + runs.LONGEST
    limits = []
    while time.monotonic() < before_end and (not limits or any(soft != hard for soft, hard in limits)):
        time.sleep(0.01)
        with contextlib.suppress(OSError, StopIteration):  # of one that ends meanwhile
            limits = [open_files(server) for server in runs.servers_of(p.pid)]
    expect("the server opens as many files as it may", limits, lambda found: found and all(soft == hard for soft, hard in found))
    said, _ = p.communicate("go on\n", timeout=runs.LONGEST)
    unlimited = "unlimited" if most == resource.RLIM_INFINITY else str(most)
    expect("  and the program no more than before", said.split(), ["200", unlimited])


def test_follow_ignored(folder, spec):
    """What was ignored when chainio began does not end its waiting for the rest of a program: nohup."""
    for name in ("rest", "go"):
        (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / "go")
    p = folder.start([*spec, "--quiet", "--follow"], ["sh", "-c", "cat a.note > /dev/null; (cat go > rest) & echo $$; exit 4"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    program = pathlib.Path("/proc", p.stdout.readline().strip())
    deadline = time.monotonic() + runs.LONGEST
    while program.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    p.send_signal(signal.SIGHUP)
    try:
        expect("an ignored hangup does not end it", p.wait(1), "nothing yet")
    except subprocess.TimeoutExpired:
        print("ok    an ignored hangup does not end it")
    (folder.path / "go").write_text("late")
    expect("the rest does", (p.wait(runs.LONGEST), (folder.path / "rest").read_text()), (4, "late"))
    p.stdout.close()


def test_spec_by_descriptor(folder):
    """A spec that is a descriptor of the shell's: whether or not the cache has it."""
    (folder.path / "by_number.chain").write_text(SPEC.replace("4KiB", "12KiB"))
    for what in ("compiled", "from the cache"):
        with open(folder.path / "by_number.chain") as spec:
            file = f"/dev/fd/{spec.fileno()}"
            done, summary = folder.summarized(["--spec", file], ["cat", "a.note"], pass_fds=[spec.fileno()])
        expect(f"a spec by its descriptor, {what}", (done.returncode, summary and (summary["plain"], [each["opened"] for each in summary["classes"]])), (0, (None, [1])))


def test_piped_spec(folder):
    """A spec that can be read once, and one that is standard input, which the compiler has another one of."""
    text = SPEC.replace("4KiB", "16KiB").encode()
    right = lambda r: (r[0].returncode, r[1] and (r[1]["plain"], [each["opened"] for each in r[1]["classes"]])) == (0, (None, [1]))
    expect("a spec from standard input", folder.summarized(["--spec", "/dev/stdin"], ["cat", "a.note"], input=text), right)
    (folder.path / "piped.chain").write_bytes(text)
    with open(folder.path / "piped.chain") as file:
        expect("a file as standard input", folder.summarized(["--spec", "/dev/stdin"], ["cat", "a.note"], stdin=file), right)
    expect("  which spoils nothing for the file", folder.summarized(["--spec", "piped.chain"], ["cat", "a.note"]), right)
    for what, said in ((text, None), (b"wrong\n", ":1:1: error[CH0012]")):
        reader, writer = os.pipe()
        os.write(writer, what)
        os.close(writer)
        done, summary = folder.summarized(["--spec", f"/dev/fd/{reader}"], ["cat", "a.note"], pass_fds=[reader])
        os.close(reader)
        expect("a pipe", (done, summary), right if said is None else lambda r, name=f"/dev/fd/{reader}": r[0].returncode == 1 and r[0].stderr.decode().startswith(name + said))
    os.mkfifo(folder.path / "named")
    writer = started.start(["sh", "-c", "cat piped.chain > named"], cwd=folder.path)
    expect("a pipe with a name", folder.summarized(["--spec", "named"], ["cat", "a.note"]), right)
    expect("  whose writer is done", writer.wait(timeout=runs.LONGEST), 0)


def test_top(folder, spec):
    program = "import os; f = open('a.note', 'rb', buffering=0); f.read(100); print(os.getpid(), flush=True); input()"
    p = folder.start([*spec, "--quiet"], [PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = p.stdout.readline().strip()
    for pid in (str(p.pid), child):
        done = subprocess.run([CHAINIO, "top", pid, "--once", "--json"], capture_output=True, text=True, timeout=runs.LONGEST)
        figures = json.loads(done.stdout) if done.returncode == 0 else {}
        expect("top sees chains and classes", (done.returncode, [c["name"] for c in figures.get("chains", [])], [c["name"] for c in figures.get("classes", [])]),
               (0, ["ahead"], ["notes"]))
    done = subprocess.run([CHAINIO, "top", str(p.pid), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
    expect("as a table", (done.returncode, done.stdout), lambda r: r[0] == 0 and f"chainio run {p.pid}: " in r[1] and "ahead" in r[1] and "notes" in r[1])
    watch = started.start([CHAINIO, "top", p.pid, "--interval", "0.1"], stdout=subprocess.PIPE, text=True)
    expect("live, page after page", [until(watch.stdout, "chainio run") for _ in range(3)], lambda pages: all(f"chainio run {p.pid}" in page for page in pages))
    p.communicate("\n", timeout=runs.LONGEST)
    expect("until the run has ended", (until(watch.stdout, "the run has ended"), watch.wait(runs.LONGEST)), ("the run has ended", 0))
    watch.stdout.close()
    done = subprocess.run([CHAINIO, "top", str(os.getpid()), "--once"], capture_output=True, text=True, timeout=runs.LONGEST)
    expect("a process of no run", (done.returncode, done.stderr), (1, f"chainio top: process {os.getpid()} is no `chainio run`, nor started by one\n"))


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        (folder.path / "fresh.chain").write_text(SPEC.replace("4KiB", "8KiB"))
        subprocess.run([CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        for name, spec in (("a source", ["--spec", "good.chain"]), ("an artifact", ["--spec", "good.o"])):
            expect(f"{name}: the program has run with the library", folder.summarized(spec, ["cat", "a.note"])[1], lambda s: s["plain"] is None and s["processes"] == 1)
        # An artifact is loaded before the program starts; a source from the cache after it.
        for spec in (["--spec", "good.o"], ["--spec", "good.chain"]):
            for test in (test_ends, test_surroundings, test_signals, test_terminal, test_plain, test_follow, test_few_descriptors, test_follow_ignored, test_top):
                test(folder, spec)
        test_sanitizer(folder, ["--spec", "good.o"])
        test_spec_by_descriptor(folder)
        test_piped_spec(folder)
        test_refusals(folder)
        test_interpreted(folder)
        test_unheard(folder, ["--spec", "good.o"])
        test_cache(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
