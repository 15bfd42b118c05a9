#!/usr/bin/env python3
"""Programs that other people wrote do under the preload library exactly what they do without it, while it watches their files; and
the library itself needs nothing but libc and shows nothing but what it interposes."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from shim import BUILD, COMPILER, LIBRARY, ROOT, Checks, Server, environment, summary  # noqa: E402

SQL = """
create table t(id integer primary key, a int, b text);
create index i on t(a);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) insert into t select x, x * 7919 % 3001, printf('%.50c', 'x') from n;
select count(*), sum(a), max(length(b)) from t where a between 100 and 900;
pragma journal_mode = wal; update t set a = a + 1 where id % 3 = 0; select sum(a) from t; delete from t where id > 2000; vacuum;
select count(*), sum(a) from t; pragma integrity_check;
"""
PYTHON = r"""
import mmap, multiprocessing, os, subprocess, threading
def child(q): q.put(open("a.idx", "rb").read()[100:110])
if __name__ == "__main__":
    data = open("a.idx", "rb")
    print(len(data.read()), data.seek(5), data.read(3), os.pread(data.fileno(), 4, 10), data.read(2))
    copies = [os.dup(data.fileno()) for _ in range(20)]
    threads = [threading.Thread(target=lambda fd=fd: [os.pread(fd, 100, 7) for _ in range(100)]) for fd in copies]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ)[50:60])
    q = multiprocessing.get_context("fork").Queue(); p = multiprocessing.get_context("fork").Process(target=child, args=(q,)); p.start(); print(q.get()); p.join()
    q = multiprocessing.get_context("spawn").Queue(); p = multiprocessing.get_context("spawn").Process(target=child, args=(q,)); p.start(); print(q.get()); p.join()
    print(subprocess.run(["cat", "a.idx"], capture_output=True, close_fds=True).stdout[:20])
    print(subprocess.run(["sha1sum"], stdin=data, capture_output=True).stdout)
    os.closerange(200, 256)
    with open("out.idx", "wb") as out: os.sendfile(out.fileno(), os.open("a.idx", os.O_RDONLY), 3, 500)
    os.rename("out.idx", "moved.idx"); os.truncate("moved.idx", 100); print(os.stat("moved.idx").st_size, open("moved.idx", "rb").read()[:9])
"""
SHELL = r"""
exec 3< a.idx; read -r line <&3; echo "$line"; read -r line <&3; echo "$line"; exec 3<&-
while read -r x; do echo "$x"; done < a.idx | sort -r | head -n 3
{ head -c 20; head -c 20 a.idx | cat; } < a.idx; cat a.idx a.idx | wc -c; (cat < a.idx; echo sub) | tail -n 1
cat <<END | tr a-z A-Z > new.idx
here
END
cat new.idx; echo more >> new.idx; cat new.idx; for i in 1 2 3; do (exit $i) || echo $?; done; kill -TERM $$; echo not here
"""
# (name, the program that it needs, command, input)
PROGRAMS = [
    ("cat", "cat", ["cat", "a.idx", "none.idx", "b.txt"], None), ("cat from standard input", "cat", ["sh", "-c", "cat < a.idx"], None),
    ("cp", "cp", ["sh", "-c", "cp a.idx c.idx && cp --sparse=always sparse.idx s.idx && cp --reflink=never -a a.idx c2.idx && cmp a.idx c2.idx && du --apparent-size s.idx"], None),
    ("tar", "tar", ["sh", "-c", "tar --mtime=@0 --owner=0 --group=0 -cf - *.idx | tar -C sub -xf - && cat sub/*.idx | sha1sum"], None),
    ("dd", "dd", ["sh", "-c", "dd if=a.idx of=d.idx bs=777 skip=2 count=5 2>&1 | head -n 2; dd if=a.idx bs=4096 iflag=direct 2>/dev/null | sha1sum"], None),
    ("grep and sort", "grep", ["sh", "-c", "grep -c 7 a.idx; sort a.idx | sha1sum; head -n 3 a.idx; tail -c 30 a.idx; wc a.idx; od -A d -t x1 a.idx | sha1sum; split -n 3 a.idx; cat x??"], None),
    ("dash", "dash", ["dash", "-c", SHELL], None), ("bash", "bash", ["bash", "-c", SHELL], None),
    ("bash by pipe", "bash", ["bash"], SHELL), ("python3", "python3", ["python3", "script.py"], None),
    ("sqlite3", "sqlite3", ["sqlite3", "t.idx"], SQL),
    ("git", "git", ["sh", "-c", "git init -q . && git add *.idx script.py && git -c user.name=x -c user.email=x@x commit -qm m --date=@1+0000 && git log --format=%T && "
                    "echo x >> a.idx && git diff --stat && git gc -q && git fsck --strict && git status --short | grep idx"], None),
    ("perl", "perl", ["perl", "-e", "open F, '<a.idx'; seek F, 100, 0; read F, $x, 20; print $x; local $/; $y = <F>; print length $y; open G, '-|', 'cat a.idx'; print length <G>; exit 7"], None),
    ("valgrind", "valgrind", ["valgrind", "-q", "--error-exitcode=9", "cat", "a.idx"], None),
    ("a missing program", "sh", ["sh", "-c", "no-such-program; ./a.idx; exec /none"], None),
]


def fill(folder):
    folder.mkdir()
    (folder / "sub").mkdir()
    (folder / "a.idx").write_bytes(b"".join(b"line %06d\n" % (i * 7919 % 10007) for i in range(3000)))
    (folder / "b.txt").write_bytes(b"unmatched\n")
    (folder / "script.py").write_text(PYTHON)
    with (folder / "sparse.idx").open("wb") as sparse:
        sparse.seek(1 << 20)
        sparse.write(b"end")
    return folder


def state(folder, done):
    """What a run leaves: its exit code, what it said, and the files. Folders' names and what git writes by the clock are left out."""
    text = [part.replace(str(folder).encode(), b"HERE") for part in (done.stdout, done.stderr)]
    files = {str(path.relative_to(folder)): (path.stat().st_mode, hashlib.sha1(path.read_bytes()).hexdigest())
             for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts}
    return done.returncode, text, files


def programs(checks):
    missing = []
    for name, needs, command, given in PROGRAMS:
        if not shutil.which(needs):
            missing.append(needs)
            continue
        here = checks.folder / "here"
        states = []
        for watched in (False, True):
            fill(here)
            with Server(checks.folder, classes=["*.idx"]) as server:
                done = subprocess.run(command, cwd=here, input=given and given.encode(), capture_output=True, timeout=300,
                                      env=environment(server.region if watched else None) | {"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"})
            states.append(state(here, done))
            shutil.rmtree(here)
        checks.same(name, states[1], states[0])
        checks.true(f"{name} is seen", bool(server.of("opened")) or name == "a missing program", server.events[:3])
    if missing:
        print("skipped: programs that are not installed: " + " ".join(missing))


def exact_reads(checks):
    """The events of a real program are the reads that strace would show."""
    here = fill(checks.folder / "exact")
    with Server(checks.folder, classes=[str(here / "a.idx")], explain=True) as server:
        server.run("sqlite3", "a.idx", "select 1", cwd=here, capture_output=True)
        server.run("tail", "-c", "30", "a.idx", cwd=here, capture_output=True)
        server.run("cat", "a.idx", "b.txt", cwd=here, capture_output=True)
        server.run("cat", here / "sub" / ".." / "a.idx", cwd="/", capture_output=True)
    checks.same("whole patterns match relative paths, and those with dots", {event["text"] for event in server.of("opened")}, {str(here / "a.idx")})
    checks.true("what cat passed", str(here / "b.txt") in {event["text"] for event in server.of("passed")}, server.of("passed"))
    size = (here / "a.idx").stat().st_size
    cats = [event for event in server.of("read") if event["offset"] == 0 and event["length"] == size]
    checks.same("cat's reads", len(cats), 2)
    checks.true("tail's read", any(event["offset"] + event["length"] == size and event["offset"] for event in server.of("read")), server.of("read"))
    os.symlink(here / "a.idx", here / "link.dat")
    with Server(checks.folder, classes=["link.dat"]) as server:
        server.run("cat", "link.dat", cwd=here, capture_output=True)
        server.run("cat", here / "link.dat", capture_output=True)
    checks.same("a link is known by its own name when its path is whole", [event["text"] for event in server.of("opened")], [str(here / "link.dat")])


def fortified(checks):
    """What a compiler makes of reads under _FORTIFY_SOURCE is seen."""
    compiler = shutil.which("gcc")
    if not compiler:
        print("skipped: fortified names: there is no gcc, and clang makes none of glibc 2.36's reads")
        return
    here = fill(checks.folder / "fortified")
    program = checks.compile("chk", """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int n, char** a) {
    char b[64]; int f = open(a[1], atoi(a[2])); size_t s = atoi(a[3]);
    read(f, b, s); pread(f, b, s, 3); FILE* g = fopen(a[1], "r"); fread(b, 1, s, g); fgets(b, s, g); return 0;
}""", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", compiler=compiler)
    names = subprocess.run(["nm", "-D", program], capture_output=True, text=True).stdout
    checks.true("the test uses fortified names", all(f"__{name}" in names for name in ("open_2", "read_chk", "pread_chk", "fread_chk", "fgets_chk")), names)
    with Server(checks.folder, classes=["*.idx"]) as server:
        server.run(program, "a.idx", "0", "10", cwd=here)
        done = server.run(program, "a.idx", "0", "100", cwd=here, stderr=subprocess.DEVNULL)
    checks.same("its reads", [(event["offset"], event["length"]) for event in server.of("read")], [(0, 10), (3, 10), (0, 4096)])
    checks.same("an overflow still aborts", done.returncode, -6)


def direct(checks):
    here = fill(checks.folder / "direct")
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run("dd", "if=a.idx", "of=/dev/null", "bs=4096", "iflag=direct", cwd=here, capture_output=True)
    if b"Invalid argument" in done.stderr:
        print("skipped: O_DIRECT: this file system has none")
        return
    checks.same("O_DIRECT is told, and nothing of what is read so", [(event["kind"], bool(event["offset"] & os.O_DIRECT)) for event in server.events], [("opened", True)])
    text = """#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int n, char** a) {
    void* b; int f = open(a[1], BEFORE);
    if (posix_memalign(&b, 4096, 4096) || pread(f, b, 4096, 0) != 4096) return 1;
    if (n == 2 ? fcntl(f, F_SETFL, AFTER) : syscall(SYS_fcntl, f, F_SETFL, AFTER)) return 2;
    return pread(f, b, 4096, 4096) == 4096 && !close(f) ? 0 : 3;
}"""
    told = lambda server: [(event["kind"], event["kind"] == "opened" and bool(event["offset"] & os.O_DIRECT)) for event in server.events]
    program = checks.compile("later", text, "-O2", "-DBEFORE=O_RDONLY", "-DAFTER=O_DIRECT")
    (here / "b.idx").write_bytes(bytes(8192))
    no_longer = checks.compile("no-longer", text, "-O2", "-DBEFORE=O_DIRECT", "-DAFTER=0")
    for arguments in (("a.idx",), ("a.idx", "by syscall")):
        with Server(checks.folder, classes=["*.idx"], on_its_way=str(here / "b.idx")) as server:
            done = server.run(no_longer, *arguments, cwd=here)
        checks.same(f"of a file of an immutable class that is read so no longer {arguments}", (done.returncode, told(server)),
                    (0, [("opened", True), ("direct", False), ("closed", False), ("opened", False), ("read", False), ("closed", False)]))
    (here / "link.lnk").symlink_to("a.idx")
    for pattern, *arguments in (("*.idx", "a.idx"), ("*.idx", "a.idx", "by syscall"), ("*.lnk", here / "link.lnk")):
        with Server(checks.folder, classes=[pattern]) as server:
            done = server.run(program, *arguments, cwd=here)
        checks.same(f"of a file that is read so later, what was read before {arguments}", (done.returncode, told(server)),
                    (0, [("opened", False), ("read", False), ("closed", False), ("opened", True)]))


def binary(checks):
    """The library itself."""
    dynamic = subprocess.run(["readelf", "-dW", LIBRARY], capture_output=True, text=True, check=True).stdout
    checks.same("what it needs", re.findall(r"NEEDED.*\[(.*)\]", dynamic), ["libc.so.6"])
    checks.true("nothing is resolved late", "BIND_NOW" in dynamic or "NOW" in dynamic, dynamic)
    names = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout.splitlines()
    undefined = [line.split()[-1].split("@")[0] for line in names if " U " in line or " w " in line]
    exported = {line.split()[-1].split("@")[0] for line in names if re.search(" [TWDBR] ", line)}
    text = (ROOT / "runtime" / "shim" / "names.h").read_text()
    listed = set(re.findall(r"^    (?:RAW|LIBC|NAME)\((\w+)", text, re.M))
    checks.same("exported, and not in the list", sorted(exported - listed), [])
    checks.same("in the list, and not exported", sorted(listed - exported), [])
    forbidden = [name for name in undefined if re.match(r"_Z|__cxa_(?!finalize)|_Unwind|__gxx|malloc|calloc|realloc|free$|__asan|__tsan|__ubsan|__sanitizer|__tls_get_addr|pthread_create|printf", name)]
    checks.same("what it must not call", forbidden, [])
    checks.same("of what it interposes it calls nothing by name", sorted(set(undefined) & listed), [])
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"@GLIBC_([\d.]+)$", "\n".join(line for line in names if re.search(" [Uw] ", line)), re.M)}
    checks.true("it needs no libc newer than 2.17", (2, 2) < max(versions, default=(0,)) <= (2, 17), sorted(versions))
    units = subprocess.run(["readelf", "-W", "--debug-dump=info", LIBRARY], capture_output=True, text=True, check=True).stdout
    checks.same("versions of its debugging information, of which valgrind 3.19 reads no later one", set(re.findall(r"^ +Version: +(\d+)", units, re.M)), {"4"})


OLDER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char** environ;
static char b[64];
static void* reads(void* unused) { int f = open("a.idx", O_RDONLY); if (pread(f, b, 7, 3) != 7) _exit(9); close(f); return 0; }
int main(void) {
    FILE* file = fopen("a.idx", "r"); char* line = 0; size_t room = 0; pthread_t thread; pid_t child; int how;
    if (!file || getline(&line, &room, file) < 1 || fread(b, 1, 5, file) != 5 || fseek(file, 100, SEEK_SET) || fgetc(file) < 0 || fclose(file)) return 2;
    if (pthread_create(&thread, 0, reads, 0) || pthread_join(thread, 0)) return 3;
    int (*opens)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(dlopen("libc.so.6", RTLD_LAZY), "open");
    int f = opens("a.idx", O_RDONLY), nothing = dup(f);
    if (read(f, b, 9) != 9 || close(f) || close(nothing) || dlsym(RTLD_DEFAULT, "there_is_none")) return 4;
    char* words[] = {"cat", "a.idx", 0};
    if (posix_spawnp(&child, "cat", 0, 0, words, environ) || waitpid(child, &how, 0) != child || how || system("cat a.idx")) return 5;
    if ((child = fork()) == 0) { reads(0); _exit(0); }
    if (waitpid(child, &how, 0) != child || how) return 6;
    fflush(stdout);
    return execvp("cat", words);
}
"""


def older(checks):
    """A libc that has the loader's functions, and those of threads, in libraries of their own: a program that is not linked to them has nothing of these names."""
    here = fill(checks.folder / "older")
    names = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout
    library, image = here / LIBRARY.name, LIBRARY.read_bytes()
    lacking = [name.encode() for name in re.findall(r" w (dl\w+|pthread_\w+)@", names)]
    checks.true("what it does without", {b"dlvsym", b"dlopen", b"pthread_key_create", b"pthread_testcancel"} <= set(lacking), lacking)
    for name in lacking:
        checks.same(f"{name} stands there once", image.count(b"\0" + name + b"\0"), 1)
        image = image.replace(b"\0" + name + b"\0", b"\0" + name[:-1] + b"_\0")
    library.write_bytes(image)
    program = checks.compile("older_program", OLDER, "-pthread", "-ldl")
    ran = []
    for preloaded in (LIBRARY, library):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run(program, cwd=here, extra={"LD_PRELOAD": str(preloaded)}, capture_output=True)
        ran.append((done.returncode, done.stdout, done.stderr, sorted(summary(server.events))))
    checks.same("it runs, and is seen, as with the names", ran[1], ran[0])
    kinds = [row[0] for row in ran[0][3]]
    checks.true("and is seen at all", ran[0][0] == 0 and kinds.count("opened") == 7 and kinds.count("read") >= 8, ran[0][3])


def others(checks):
    """Another preloaded library that interposes the same call, before ours and behind it."""
    here = fill(checks.folder / "others")
    source = checks.folder / "other.c"
    source.write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
ssize_t read(int f, void* b, size_t n) {
    static ssize_t (*next)(int, void*, size_t); static ssize_t (*by_hand)(int, void*, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "read");
    if (!by_hand) by_hand = dlsym(dlopen("libc.so.6", RTLD_LAZY), "read");
    ssize_t got = by_hand && n == 11 ? by_hand(f, b, n) : next(f, b, n);
    if (got > 0) ((char*)b)[0] = '#';
    return got;
}""")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", checks.folder / "other.so", source], check=True)
    for first, second in ((LIBRARY, checks.folder / "other.so"), (checks.folder / "other.so", LIBRARY)):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run("head", "-c", "11", "a.idx", cwd=here, capture_output=True, extra={"LD_PRELOAD": f"{first}:{second}"})
        checks.same(f"{first.name} before {second.name}", (done.returncode, done.stdout), (0, b"#ine 000000"))
        checks.true(f"{first.name} before {second.name}: seen", bool(server.of("read")), server.events)


def others_loaded_files(checks):
    """A library that shows whoever asks for the loaded files what it likes, before ours and behind it: that is for the program alone."""
    here = fill(checks.folder / "loaded")
    source = checks.folder / "loaded.c"
    source.write_text("""
#include <stddef.h>
#include <stdlib.h>
int dl_iterate_phdr(int (*look)(void*, size_t, void*), void* to) { abort(); }
""")
    shows = checks.folder / "loaded.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", shows, source], check=True)
    for first, second in ((LIBRARY, shows), (shows, LIBRARY)):
        with Server(checks.folder, classes=["*.idx"]) as server:
            done = server.run("head", "-c", "11", "a.idx", cwd=here, capture_output=True, extra={"LD_PRELOAD": f"{first}:{second}"})
        checks.same(f"{first.name} before {second.name}", (done.returncode, done.stdout), (0, b"line 000000"))
        checks.true(f"{first.name} before {second.name}: seen", bool(server.of("read")), server.events)


# Each call that ours makes without libc; those of a library behind ours refuse all with ENXIO.
STRAIGHT = {"open": '"b.txt", 0', "open64": '"b.txt", 0', "openat": 'AT_FDCWD, "b.txt", 0', "openat64": 'AT_FDCWD, "b.txt", 0', "creat": '"c.txt", 0600', "creat64": '"c.txt", 0600',
            "dup": "0", "fcntl": "0, F_DUPFD, 9", "fcntl64": "0, F_DUPFD, 9", "bind": "s, &no, sizeof no", "listen": "s, 4", "accept": "s, 0, 0", "accept4": "s, 0, 0, 0", "connect": "s, &no, sizeof no",
            "poll": "0, 0, 0", "epoll_wait": "s, &event, 1, 0", "unlink": '"none"', "unlinkat": 'AT_FDCWD, "none", 0', "rename": '"b.txt", "b.txt"', "renameat": 'AT_FDCWD, "b.txt", AT_FDCWD, "b.txt"'}


def others_behind(checks):
    """A library behind ours that interposes what ours makes as a system call where libc would do no more."""
    here = fill(checks.folder / "behind")
    cases = "".join(f'if (!strcmp(a[1], "{name}")) result = {name}({arguments});\n' for name, arguments in STRAIGHT.items())
    program = checks.compile("straight", """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int n, char** a) {
    struct sockaddr no = {0};
    struct epoll_event event;
    int result = 0, s = -1;
    """ + cases + "return result == -1 && errno == ENXIO; }\n")
    for name in STRAIGHT:
        source = checks.folder / "refuses.c"
        source.write_text(f"#include <errno.h>\nint {name}() {{ errno = ENXIO; return -1; }}\n")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-fno-builtin", "-o", checks.folder / "refuses.so", source], check=True)
        with Server(checks.folder, classes=["*.idx"]) as server:
            refused = server.run(program, name, cwd=here, extra={"LD_PRELOAD": f"{LIBRARY}:{checks.folder / 'refuses.so'}"}).returncode
            checks.same(f"{name} of a library behind ours", (refused, server.run(program, name, cwd=here).returncode), (1, 0))


def early(checks):
    """A library whose constructor opens and reads before ours has been initialised, and one that has no environment to look into."""
    here = fill(checks.folder / "early")
    source = checks.folder / "early.c"
    source.write_text("""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static char b[16];
__attribute__((constructor(101))) static void first(void) { int f = open("a.idx", O_RDONLY); if (f >= 0 && read(f, b, 9) != 9) abort(); close(f); }
__attribute__((destructor)) static void last(void) { int f = open("a.idx", O_RDONLY); if (f >= 0 && pread(f, b, 9, 9) != 9) abort(); close(f); }
int early(void) { return b[0]; }""")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", checks.folder / "libearly.so", source], check=True)
    main_program = checks.compile("main", "int early(void); int main() { return early() != 'l'; }", "-L", checks.folder, "-learly", f"-Wl,-rpath,{checks.folder}")
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run(main_program, cwd=here)
    checks.same("exit code", done.returncode, 0)
    checks.same("reads of constructors and destructors", [(event["offset"], event["length"]) for event in server.of("read")], [(0, 9), (9, 9)])
    asked_of_threads(checks, here)


def asked_of_threads(checks, here):
    """What says that there is one thread is looked up once in a program, also after an early open; and not at all of a libc before 2.32, where the search would fail."""
    text = 'const char* gnu_get_libc_version(void) { return "%s"; } int early(void); int main() { return early() != \'l\'; }'
    options = ("-rdynamic", "-L", checks.folder, "-learly", f"-Wl,-rpath,{checks.folder}")
    for version, times in (("2.31", 0), ("2.4", 0), ("2.32", 1), ("2.100.1", 1), ("3.0", 1), ("1.99", 0)):
        program = checks.compile("of_version", text % version, *options)
        asked = {"cwd": here, "extra": {"LD_DEBUG": "symbols"}, "capture_output": True, "text": True}
        with Server(checks.folder, classes=["*.idx"]) as server:
            done, without = (server.run(program, **asked | {"extra": asked["extra"] | more}) for more in ({}, {"LD_PRELOAD": ""}))
        first = f"symbol=__libc_single_threaded;  lookup in file={program} "
        found = done.stderr.count(first) - without.stderr.count(first)  # libc itself is linked to it
        checks.same(f"looked up in a program with glibc {version}", (done.returncode, found), (0, times))


def audited(checks):
    """A library of LD_AUDIT that is told of the end of each call: the loader calls from code of its own then, in which nobody has a next function."""
    here = fill(checks.folder / "audited")
    source = checks.folder / "audit.c"
    source.write_text("""
#define _GNU_SOURCE
#include <link.h>
unsigned la_version(unsigned version) { return version; }
unsigned la_objopen(struct link_map* map, Lmid_t space, uintptr_t* cookie) { return LA_FLG_BINDTO | LA_FLG_BINDFROM; }
#if defined(__x86_64__)
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym* symbol, unsigned index, uintptr_t* from, uintptr_t* to, La_x86_64_regs* regs, unsigned* flags, const char* name,
                                  long* frame) { *frame = 256; return symbol->st_value; }
unsigned la_x86_64_gnu_pltexit(Elf64_Sym* symbol, unsigned index, uintptr_t* from, uintptr_t* to, const La_x86_64_regs* in, La_x86_64_retval* out,
                               const char* name) { return 0; }
#endif
""")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", checks.folder / "audit.so", source], check=True)
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run("cat", "a.idx", cwd=here, extra={"LD_AUDIT": str(checks.folder / "audit.so")}, capture_output=True)
    checks.same("exit code and output of an audited program", (done.returncode, done.stdout), (0, (here / "a.idx").read_bytes()))
    checks.same("its reads", sum(event["length"] for event in server.of("read")), (here / "a.idx").stat().st_size)


def main():
    checks = Checks()
    binary(checks)
    fortified(checks)
    exact_reads(checks)
    direct(checks)
    older(checks)
    others(checks)
    others_loaded_files(checks)
    others_behind(checks)
    early(checks)
    audited(checks)
    programs(checks)
    checks.finish()


if __name__ == "__main__":
    main()
