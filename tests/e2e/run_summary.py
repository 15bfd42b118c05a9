#!/usr/bin/env python3
"""What the summary of chainio run tells of a program besides its chains: rings that it has set up, privileges that stay, and what --explain lists."""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from run_process import SPEC, until
from runs import CHAINC, CHAINIO, expect

# Sets up a ring by a system call of its own, which the library cannot see, reads what matches and waits.
RINGED = """#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static long raw(long number, long a, void* b) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}
int main(int count, char** words) {
    static char parameters[512], bytes[100];
    long result = count == 1 ? 0 : words[1][0] == 'a' ? raw(SYS_io_setup, 4, parameters) : raw(SYS_io_uring_setup, 4, parameters);
    if (count > 1 && words[1][0] == 'u' && result >= 0) mmap(0, 64, PROT_READ | PROT_WRITE, MAP_SHARED, (int)result, 0);
    if (read(open("a.note", O_RDONLY), bytes, sizeof bytes) != sizeof bytes) return 1;
    printf("ready %ld\\n", result);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
"""


def is_seen(run, has_read=False):
    """Waits until the server has looked at the run's process, and at what it has read."""
    deadline = time.monotonic() + runs.LONGEST
    while time.monotonic() < deadline:
        done = subprocess.run([CHAINIO, "top", str(run.pid), "--once", "--json"], capture_output=True, text=True, timeout=runs.LONGEST)
        seen = json.loads(done.stdout or "{}")
        if seen.get("processes") and (not has_read or seen["chains"][0]["runs"]):
            return True
    return False


def test_rings(folder):
    (folder.path / "ringed.c").write_text(RINGED)
    subprocess.run(["clang-19", "ringed.c", "-o", "ringed"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    for words, named in (([], []), (["aio"], ["a kernel AIO context"]), (["uring"], ["an io_uring"])):
        file = folder.path / "rings.json"
        with folder.start(["--spec", "good.chain", "--json", "--summary", file], ["./ringed", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            ready = until(p.stdout, "ready")
            if words and int(ready.split()[1]) < 0:
                print(f"skipped: no {words[0]} here: {ready}")
                named = []
            is_seen(p, has_read=True)
        found = [note for note in json.loads(file.read_text())["notes"] if "its operations" in note]
        expect(f"rings of {words or 'no kind'} that are set up past libc are named", (p.returncode, found),
               (0, [f"a process has set up {what}: its operations on it are not seen (once)" for what in named]))


# Opens what matches as the last descriptor that is looked at and as the one behind it, and reads by both and by a copy further on.
MANY = """#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#ifndef SLOTS
#define SLOTS 65536
#endif
static char bytes[100];
static int reads(int fd) { return read(fd, bytes, sizeof bytes) == sizeof bytes && bytes[0] == 'n' && bytes[99] == 'n'; }
int main(void) {
    const struct rlimit enough = {SLOTS + 1001, SLOTS + 1001};
    if (setrlimit(RLIMIT_NOFILE, &enough)) return 77;
    for (int filled = 0; filled < SLOTS - 2;) if ((filled = dup(0)) < 0) return errno == EMFILE || errno == ENFILE ? 77 : 1;
    const int last = open("a.note", O_RDONLY), behind = open("a.note", O_RDONLY), copy = fcntl(last, F_DUPFD, SLOTS + 1000);
    if (last != SLOTS - 1 || behind != SLOTS || copy != SLOTS + 1000) return 2;
    if (!reads(last) || !reads(behind) || !reads(copy) || lseek(last, 0, SEEK_CUR) != 200) return 3;
    return close(copy) || close(behind) || !reads(last) || close(last) || read(behind, bytes, 1) != -1 || errno != EBADF ? 4 : 0;
}
"""
# Gives descriptors such numbers where the kernel would not, and takes them.
NUMBERS = """#include <sys/syscall.h>
#include <unistd.h>
enum { MORE = 65536 };
static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result < 0 ? -1 : result;
}
int open(const char* path, int flags, ...) { const long fd = raw(SYS_open, (long)path, flags, 0); return fd < 0 ? -1 : (int)fd + MORE; }
ssize_t read(int fd, void* to, size_t bytes) { return raw(SYS_read, fd >= MORE ? fd - MORE : fd, (long)to, (long)bytes); }
int close(int fd) { return (int)raw(SYS_close, fd >= MORE ? fd - MORE : fd, 0, 0); }
"""
NUMBERED = """#include <fcntl.h>
#include <unistd.h>
int main(void) {
    char byte = 0;
    const int fd = open("a.note", O_RDONLY);
    return fd < 65536 || read(fd, &byte, 1) != 1 || byte != 'n' || close(fd) != 0 || close(fd) != -1;
}
"""


def test_many_descriptors(folder):
    for name, text, options in (("many", MANY, []), ("numbered", NUMBERED, []), ("numbers.so", NUMBERS, ["-shared", "-fPIC"])):
        (folder.path / "descriptors.c").write_text(text)
        subprocess.run(["clang-19", "-O1", *options, "descriptors.c", "-o", name], cwd=folder.path, check=True, timeout=runs.LONGEST)
    said = ["descriptors above the table's size were opened and not looked at ('a.note') (once)"]
    # By a library that stands behind ours, and by the kernel where a process may have so many.
    for name, command, seen in (("numbered", ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:./numbers.so" ./numbered'], (0, 0)), ("many", ["./many"], (1, 2))):
        done, summary = folder.summarized(["--spec", "good.chain"], command)
        if done.returncode == 77:
            print("skipped: a process may not have so many descriptors here")
            continue
        files = summary["classes"][0]
        expect(f"{name}: descriptors above 65,535 work, and are not looked at", (done.returncode, files["opened"], files["reads"]), (0, *seen))
        expect("  which is said", [note for note in summary["notes"] if "descriptors" in note], said)


# Executes what it is told to, where capset fails.
KEPT = """#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char** words) {
    struct sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_capset},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog filter = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 99;
    return execv(words[1], words + 1);
}
"""


def test_kept_privileges(folder):
    (folder.path / "kept.c").write_text(KEPT)
    subprocess.run(["clang-19", "kept.c", "-o", "kept"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    file = folder.path / "kept.json"
    for spec in ("good.o", "good.chain"):
        words = folder.command(["--spec", spec, "--json", "--summary", file], ["cat", "a.note"])
        done = subprocess.run(["./kept", *words], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        found = [note for note in json.loads(file.read_text())["notes"] if "privileges" in note]
        expect(f"{spec}: privileges that cannot be given up are told of", (done.returncode, len(done.stdout), found),
               (0, 100_000, ["chainio goes on with the privileges that it has, more than it needs beside a program: cannot give up capabilities: Operation not permitted"]))


EXPLAINED = """#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>
static int to(int port) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return connect(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr*)&there, sizeof there);
}
int main(int count, char** words) {
    for (int i = 0; i < 2; i++) close(open("a.note", O_RDONLY));
    if (open(words[1], O_RDONLY) < 0 || open("a.note", O_PATH) < 0 || open(".", O_RDONLY | O_DIRECTORY) < 0) return 3;
    open(".", O_TMPFILE | O_RDWR, 0600);
    if (open("d.note", O_RDONLY) < 0 || open("p.note", O_RDWR) < 0) return 2;
    return open("a.text", O_RDONLY) < 0 || open("a.link", O_RDONLY) < 0 || to(4321) != 0 || to(4322) != 0;
}
"""
# What stands behind the word `explained`, of a run in the folder.
SAID = """  explained: what the program opened, and the class that took it, of notes = "*.note", peers = udp port 4321
    .  1x  no class: it is a file without a name (O_TMPFILE)
    {0}  1x  no class: it is a folder, a pipe or a device, and a class is of files
    {0}/a.note  1x  no class: it is opened as a place (O_PATH) that nobody reads from
    {0}/a.note  2x  no class: it is opened by another name, as a link's, that no class matches
    {0}/a.note  2x  notes
    {0}/a.text  1x  no class: no class matches
    {0}/d.note  1x  no class: it is a folder, a pipe or a device, and a class is of files
    {0}/p.note  1x  no class: it is a folder, a pipe or a device, and a class is of files
    connect udp port 4321  1x  peers
    connect udp port 4322  1x  no class: no class matches
"""


def test_explain(folder):
    (folder.path / "explained.c").write_text(EXPLAINED)
    subprocess.run(["clang-19", "explained.c", "-o", "explained"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    (folder.path / "a.text").write_text("t")
    (folder.path / "a.link").symlink_to("a.note")
    (folder.path / "d.note").mkdir()
    os.mkfifo(folder.path / "p.note")
    where = folder.path.resolve()
    both = SPEC.replace('"*.note"', '"*.note" { root "/" }') + 'socket peers = udp port 4321\nchain more on ready(peers) as c { prefetch notes["a.note"] at 0 for 1 }\n'
    (folder.path / "both.chain").write_text(both)
    command, said = ["./explained", where / "a.link"], SAID.format(where).splitlines()
    try:
        os.close(os.open(where, os.O_TMPFILE | os.O_RDWR))
    except OSError as error:
        print(f"skipped: no files without a name here: {error}")
        said = [line for line in said if "O_TMPFILE" not in line]
    done = folder.run(["--spec", "both.chain", "--explain"], command)
    text = done.stderr.decode()
    expect("--explain says what each file and socket is", (done.returncode, text[text.find("  explained:"):].splitlines()), (0, said))
    summary = folder.summarized(["--spec", "both.chain", "--explain"], command)[1]
    expect("in JSON, too", (summary["patterns"], [line["by"] for line in summary["explained"]]),
           (['notes = "*.note"', "peers = udp port 4321"], [next((name for name in ("notes", "peers") if line.endswith(f"  {name}")), None) for line in said[1:]]))
    with open(folder.path / "in.text", "w+") as given:
        inherited = folder.summarized(["--spec", "both.chain", "--explain"], ["cat", "a.note"], stdin=given)[1]
    expect("what the program was given is not called opened", [(line["by"], line["why"]) for line in inherited["explained"] if line["what"] == f"{where}/in.text"],
           [(None, "it is inherited, and no class matches")])
    few = subprocess.run(["prlimit", "--nofile=6", *folder.command(["--spec", "both.chain", "--explain", "--json", "--summary", "few.json"], ["cat", "a.note"])],
                         env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    said = json.loads((folder.path / "few.json").read_text())
    expect("without a server, what was opened is not known", (few.returncode, "explained" in said, said["notes"][-1:]),
           (0, False, ["what the program opened is not known (--explain): that is told to the server"]))
    (folder.path / "others.chain").write_text('match exe "other*"\n' + both)
    done = folder.run(["--spec", "others.chain", "--explain"], command)
    expect("a program that the spec is not for", (done.returncode, done.stderr.decode().splitlines()[-3:]),
           (0, ["  note: the spec is for programs that match other*, and ./explained does not",
                '  explained: what the program opened, and the class that took it, of notes = "*.note", peers = udp port 4321', "    nothing"]))


def test_patterns(folder):
    """A path such as a shell takes matches nothing, which is said with what would, also beside classes that match."""
    for pattern, instead in (("data/a.note", "**/data/a.note"), ("./a.note", "**/a.note"), ("*/a.note", "**/a.note"), ("**/a.note", None), ("a.note", None)):
        (folder.path / "pattern.chain").write_text(SPEC.replace('"*.note"', f'"{pattern}"'))
        done, summary = folder.summarized(["--spec", "pattern.chain"], ["cat", "a.note"])
        said = [f'the pattern notes = "{pattern}" is compared with whole paths, which begin with /, and does not begin so; write "{instead}" for any folder, or the path from / on',
                f'nothing that the program opened is in a class of the spec (notes = "{pattern}"); --explain lists what it opened']
        expect(f"the pattern {pattern}", (done.returncode, len(done.stdout), summary["notes"]), (0, 100_000, said if instead else []))


TWO = """files index = "*.{}"
files notes = "*.note"
chain rows on read(index) as r {{ prefetch notes.sibling(r, ".note") at 0 for 4096 }}
chain heads on open(index) as c {{ prefetch notes.sibling(c, ".note") at 0 for 4096 }}
"""


def test_unmatched(folder):
    """A class that chains wait for and no file is of is named where another one matches, and no chain has run; with --explain also where one has."""
    (folder.path / "a.hix").write_bytes(bytes(8192))
    both = ["cat", "a.hix", "a.note"]
    said = 'no file matched class index ("*.{}"), so chains \'rows\', \'heads\' never ran{}'
    more = 'chain own on read(notes) as r { prefetch r.file at 0 for 4096 }\n'
    for what, spec, words, options, notes in (
            ("a letter is wrong", TWO.format("hxi"), both, [], [said.format("hxi", "; --explain lists what the program opened")]),
            ("none is wrong", TWO.format("hix"), both, [], []),
            ("another chain has run", TWO.format("hxi") + more, both, [], []),
            ("another chain has run, and all is asked for", TWO.format("hxi") + more, both, ["--explain"], [said.format("hxi", "")]),
            ("such a chain asks for nothing", TWO.format("hxi").replace("{ prefetch", "{ if 1 == 0 { prefetch").replace("4096 }", "4096 } }"), both, ["--explain"], [])):
        (folder.path / "two.chain").write_text(spec)
        done, summary = folder.summarized(["--spec", "two.chain", *options], words)
        expect(f"a class without files, {what}", (done.returncode, len(done.stdout), [note for note in summary["notes"] if "matched" in note]), (0, 108_192, notes))


def test_another_user(folder):
    """A program that is started as another user finds no region. In a user namespace the same user may have another number."""
    if os.getuid() != 0:
        print("skipped: only root becomes another user")
        return
    said = "a program was started as another user than whose the run is, and runs plain: the run's folder is its user's alone; start chainio as that user (once)"
    other = ["setpriv", "--reuid=65534", "--clear-groups"]
    for options in (["--spec", "good.o"], ["--spec", "good.chain"]):
        for what, program, notes in (("another user", other, [said]), ("another number", ["unshare", "--user", "--map-user=1000"], []),
                                     ("a file that is not there", [sys.executable, "-c", "import os; os.setuid(65534); os.execv('/none', ['none'])"], None)):
            done, summary = folder.summarized(options, [*program, "sh", "-c", "cat /dev/null; exit 5"])
            found = [note for note in summary["notes"] if note.startswith("a program was")]
            expect(f"{what}, {options}", (done.returncode, found), (5, notes) if notes is not None else (1, []))


def test_nowhere(folder):
    """A summary that cannot be written where it should go is not lost."""
    for file, why in ((folder.path / "none" / "s.txt", "No such file or directory"), (folder.path, "Is a directory"), ("/dev/full", "No space left on device"),
                      ("/dev/fd/bogus", "No such file or directory"), ("/dev/fd/1x", "No such file or directory"), ("/dev/fd/3", "Bad file descriptor"),
                      ("/proc/self/fd/5", "Bad file descriptor")):
        said = f"chainio run: cannot write the summary to `{file}`: {why}"
        for options in ([], ["--json"]):
            done = folder.run(["--spec", "good.o", "--summary", file, *options], ["sh", "-c", "cat a.note; exit 3"])
            first, rest = done.stderr.decode().split("\n", 1)
            expect(f"a summary to {file} {options}", (done.returncode, len(done.stdout), first), (3, 100_000, f"{said}; it follows here"))
            expect("  stands on standard error", rest, lambda text, options=options: json.loads(text)["exit"]["code"] == 3 if options else text.startswith("chainio: sh ended with 3 after "))
        done = folder.run(["--spec", "good.o", "--summary", file, "--quiet"], ["true"])
        expect("  but not with --quiet", (done.returncode, done.stderr.decode()), (0, f"{said}\n"))


def test_full(folder):
    """A new file that has no room for it is not left as an empty one; what was there before stays a file."""
    if os.geteuid() != 0:
        print("skipped: a summary on a full disk: only root may mount one")
        return
    disk = folder.path / "disk"
    disk.mkdir()
    script = f"mount -t tmpfs -o size=4k none {disk} && : > {disk}/old && head -c 4096 /dev/zero > {disk}/fill && \"$@\"; echo $?; ls {disk}"
    for name, left in (("new", "fill old"), ("old", "fill old")):
        command = [str(runs.BUILD / "bin" / "chainio"), "run", "--spec", "good.o", "--summary", str(disk / name), "--", "true"]
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *command], cwd=folder.path, capture_output=True, text=True, timeout=runs.LONGEST)
        expect(f"a full disk: {name}", (done.stdout.split(), done.stderr.split("\n")[0]),
               (["0", *left.split()], f"chainio run: cannot write the summary to `{disk / name}`: No space left on device; it follows here"))


def test_replaced(folder):
    """A summary stands where an older one stood, in the same file; that one stays whole where there is no room for the new one."""
    old, link = folder.path / "older.json", folder.path / "link.json"
    link.symlink_to(old.name)
    for what, before in (("a longer", b"x" * 20_000), ("a shorter", b"x"), ("no", b"")):
        old.write_bytes(before)
        with open(old, "rb") as held:
            done = folder.run(["--spec", "good.o", "--json", "--summary", link], ["true"])
            text = held.read()
        expect(f"over {what} summary", (done.returncode, done.stderr, json.loads(text)["exit"], link.is_symlink()), (0, b"", {"code": 0}, True))
    if os.geteuid() != 0:
        print("skipped: an older summary on a full disk: only root may mount one")
        return
    disk = folder.path / "full"
    disk.mkdir()
    script = f"mount -t tmpfs -o size=8k none {disk} && echo older > {disk}/old && head -c 4096 /dev/zero > {disk}/fill && \"$@\"; echo $?; cat {disk}/old"
    for what, options, left in (("has no room", ["--explain"], lambda text: text == "older\n"), ("needs none", [], lambda text: text.startswith("chainio: cat ended with 0 "))):
        names = [f"{number:03}{'e' * 100}.text" for number in range(60)]
        for name in names:
            (folder.path / name).write_bytes(b"t")
        command = folder.command(["--spec", "good.o", *options, "--summary", disk / "old"], ["cat", *names])
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *command], env=folder.environment, cwd=folder.path, capture_output=True, text=True, timeout=runs.LONGEST)
        code, stays = done.stdout.removeprefix("t" * len(names)).split("\n", 1)
        expect(f"on a full disk, one that {what}: the exit code", code, "0")
        expect("  what is there", stays, left)
        said = f"chainio run: cannot write the summary to `{disk / 'old'}`: No space left on device; it follows here" if options else ""
        expect("  what is said", done.stderr.split("\n")[0], said)


def test_not_waiting(folder):
    """Standard error may be a pipe whose writers are not to wait, and its reader slower than they are: the summary is whole all the same."""
    # The openings of all of them find room in the program's ring (64 KiB), as a server that is not scheduled until cat
    # has ended has them lost, counted.
    names = [f"{number:03}{'w' * 100}.text" for number in range(200)]
    for name in names:
        (folder.path / name).write_bytes(b"t")
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    room = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    os.set_blocking(writer, False)
    run = folder.start(["--spec", "good.o", "--explain", "--json"], ["cat", *names], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    text, pieces = b"", 0
    while True:
        netns.until("it has no room, or has ended", lambda: waiting_in(reader) == room or run.poll() is not None)
        if not (piece := os.read(reader, room)):
            break
        text, pieces = text + piece, pieces + (len(piece) == room)
    os.close(reader)
    said = json.loads(text) if text.endswith(b"}\n") else {"exit": f"cut off behind {len(text)} bytes", "explained": []}
    expect("a summary by a pipe that is full again and again", (run.wait(timeout=runs.LONGEST), said["exit"], pieces > 5), (0, {"code": 0}, True))
    expect("  names all", sum(line["what"].endswith("w.text") for line in said["explained"]), len(names))


def test_reader_that_has_stopped(folder):
    """Nobody waits without end for room in a pipe whose writers are not to wait: a reader that has stopped takes nothing any more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)))
    run = folder.start(["--spec", "good.o"], ["true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    expect("a summary that nobody reads", run.wait(timeout=runs.LONGEST), 0)
    os.close(reader)


def waiting_in(pipe):
    """Bytes that have yet to be read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_linked(folder):
    """What a link leads to is a descriptor as well: containers have links to standard output in the place of logs."""
    (folder.path / "named").symlink_to("/dev/stdout")
    (folder.path / "links").mkdir()
    (folder.path / "links" / "relative").symlink_to("../named")
    (folder.path / "own").symlink_to("/proc/self/fd")
    (folder.path / "spec.chain").symlink_to("/dev/stdin")
    for spec in ("good.o", "good.chain"):
        for file in ("named", "links/relative", folder.path / "named", "own/1", "/proc/thread-self/fd/1"):
            done = folder.run(["--spec", spec, "--summary", file, "--quiet"], ["sh", "-c", "echo its own; exit 3"])
            expect(f"a summary to {file}, {spec}", (done.returncode, done.stdout.decode().splitlines()[:2], done.stderr), lambda r: (r[0], r[1][:1], r[2]) == (3, ["its own"], b"") and "".join(r[1][1:]).startswith("chainio: sh ended with 3 after "))
        done = folder.run(["--spec", spec, "--summary", "own/7", "--quiet"], ["true"])
        expect("  one that is closed", (done.returncode, done.stderr.decode()), (0, "chainio run: cannot write the summary to `own/7`: Bad file descriptor\n"))
    for _ in range(2):
        with open(folder.path / "good.chain", "rb") as text:
            done = subprocess.run(folder.command(["--spec", "spec.chain", "--strict"], ["cat", "a.note"]), env=folder.environment, cwd=folder.path, stdin=text, capture_output=True, timeout=runs.LONGEST)
        expect("a spec by a link to standard input", (done.returncode, len(done.stdout)), (0, 100_000))


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        subprocess.run([CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        test_rings(folder)
        test_explain(folder)
        test_nowhere(folder)
        test_full(folder)
        test_replaced(folder)
        test_not_waiting(folder)
        test_reader_that_has_stopped(folder)
        test_linked(folder)
        test_another_user(folder)
        test_patterns(folder)
        test_unmatched(folder)
        test_kept_privileges(folder)
        test_many_descriptors(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
