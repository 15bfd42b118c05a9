#!/usr/bin/env python3
"""chainio run and what is inherited: by the program from whoever started chainio, and by the program's children from it."""
import ctypes
import os
import pathlib
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
from runs import BUILD, CHAINC, expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n'
NO_ROOM = ("a program ran plain: there was no memory for what the library keeps in a program, as below a limit of address space (ulimit -v), or no descriptor for the moment in "
           "which it looks for that, as below a limit of open files (ulimit -n)")
PRIVILEGES = 1 << 21 | 1 << 38 | 1 << 39  # CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF
MUSL, MUSL_LOADER = pathlib.Path("/usr/lib/x86_64-linux-musl"), "/lib/ld-musl-x86_64.so.1"

# Executes its arguments, and from then on some system calls are refused: no process has children.
ALONE = """#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define REFUSE(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, ACTION)
#ifndef ERROR
#define ERROR EAGAIN
#endif
#ifndef ACTION
#define ACTION SECCOMP_RET_ERRNO | ERROR
#endif
int main(int count, char** words) {
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef REFUSED
                                   REFUSE(REFUSED),
#else
                                   REFUSE(SYS_clone), REFUSE(SYS_clone3), REFUSE(SYS_fork), REFUSE(SYS_vfork),
#endif
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[1], words + 1);
    return 98;
}
"""
# Each of the functions that execute a program, in a child.
EXECUTES = """#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char* words[] = {"sh", "-c", "echo ${LD_PRELOAD-none}", 0};
static void execute(int way) {
    if (way == 0) execve("/bin/sh", words, environ);
    if (way == 1) execv("/bin/sh", words);
    if (way == 2) execvp("sh", words);
    if (way == 3) execvpe("sh", words, environ);
    if (way == 4) fexecve(open("/bin/sh", O_RDONLY), words, environ);
    if (way == 5) execveat(AT_FDCWD, "/bin/sh", words, environ, 0);
    if (way == 6) execl("/bin/sh", words[0], words[1], words[2], (char*)0);
    if (way == 7) execlp("sh", words[0], words[1], words[2], (char*)0);
    if (way == 8) execle("/bin/sh", words[0], words[1], words[2], (char*)0, environ);
    _exit(1);
}
static int show(FILE* stream) {
    char line[200] = "";
    fgets(line, sizeof line, stream);
    write(1, line, strlen(line));
    return pclose(stream);
}
static int keep_to(const char* folder) {
    unsigned long files = 1UL << 2 | 1UL << 3;  // that reading files and folders is ruled
    int rules = syscall(SYS_landlock_create_ruleset, &files, sizeof files, 0);
    struct landlock_path_beneath_attr rule = {files, open(folder, O_PATH)};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) ||
        syscall(SYS_landlock_restrict_self, rules, 0);
}
int main(int count, char** arguments) {
    unlink(arguments[1]);
    if (count > 2 && keep_to(arguments[2])) return perror("landlock"), 77;
    for (int way = 0; way < 13; ++way) {
        pid_t child = 0;
        int status = 0;
        if (way == 9) posix_spawn(&child, "/bin/sh", 0, 0, words, environ);
        else if (way == 10) posix_spawnp(&child, "sh", 0, 0, words, environ);
        else if (way == 11) status = system(words[2]);
        else if (way == 12) status = show(popen(words[2], "r"));
        else if ((child = fork()) == 0) execute(way);
        if (child) waitpid(child, &status, 0);
        if (status != 0) return way + 1;
    }
    return 0;
}
"""

# Each with environments that cannot be read: as a whole, in one of its entries, and from the end of a page on.
UNREADABLE = """#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char* words[] = {"true", 0};
static int execute(int way, char** environment) {
    pid_t child;
    if (way == 0) return execve("/bin/true", words, environment) ? errno : 0;
    if (way == 1) return execvpe("true", words, environment) ? errno : 0;
    if (way == 2) return fexecve(open("/bin/true", O_RDONLY), words, environment) ? errno : 0;
    if (way == 3) return execveat(AT_FDCWD, "/bin/true", words, environment, 0) ? errno : 0;
    if (way == 4) return execle("/bin/true", words[0], (char*)0, environment) ? errno : 0;
    return posix_spawn(&child, "/bin/true", 0, 0, words, environment);
}
int main(int count, char** arguments) {
    char* const pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* const end = pages + 4096;
    char* entry[] = {"A=1", (char*)8, 0};
    char* text[] = {"A=1", strcpy(end - 4, "LD_"), 0};
    char** const open_ended = (char**)end - 1;
    text[1][3] = 'P';
    mprotect(end, 4096, PROT_NONE);
    unlink(arguments[1]);
    for (int way = 0; way < 6; ++way) {
        printf("%d %d %d ", execute(way, (char**)8), execute(way, entry), execute(way, text));
        *open_ended = "A=1";
        printf("%d\\n", execute(way, open_ended));
        memcpy(end - 4, "LD_P", 4);
    }
    return 0;
}
"""


def test_other_libc(folder, spec):
    """A child of another C library, which cannot load ours."""
    source = folder.path / "musl.c"
    source.write_text('int puts(const char*);\nint main(void) { puts("musl"); return 9; }\n')
    subprocess.run(["clang-19", "-nostdlib", "-no-pie", f"-Wl,-dynamic-linker,{MUSL_LOADER}", "-o", folder.path / "musl", MUSL / "crt1.o", MUSL / "crti.o", source,
                    f"-L{MUSL}", "-Wl,-Bdynamic", "-lc", MUSL / "crtn.o"], check=True, timeout=runs.LONGEST)
    shell = ["sh", "-c", "cat a.note > /dev/null; ./musl; echo $?; cat a.note > /dev/null"]
    done, summary = folder.summarized(spec, shell)
    expect("a child of musl runs, and ends with its own code", (done.returncode, done.stdout, done.stderr), (0, b"musl\n9\n", b""))
    expect("while those of glibc are seen", (summary["plain"], summary["classes"][0]["opened"]), (None, 2))
    expect("and a note names it", [note for note in summary["notes"] if "plain" in note],
           ["a program of another C library than glibc was started, which runs plain ('./musl') (once)"])
    copy = folder.path / "copy.so"
    shutil.copy(BUILD / "lib" / "libchainio.so", copy)
    done, summary = folder.summarized([*spec, "--library", copy], ["cat", "a.note"])
    expect("a copy of the library elsewhere is preloaded as it is", (done.returncode, summary["classes"][0]["opened"]), (0, 1))


def test_out_of_reach(folder, spec):
    """Programs that cannot reach the library any more are started without it: the loader would say so on their standard error."""
    (folder.path / "executes.c").write_text(EXECUTES)
    subprocess.run(["clang-19", "executes.c", "-o", "executes"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    library = folder.path / "within" / "libchainio.so"
    for others, left in (("", "none"), ("libm.so.6", "libm.so.6"), ("libm.so.6:libdl.so.2", "libm.so.6:libdl.so.2")):
        library.parent.mkdir()
        shutil.copy(BUILD / "lib" / "libchainio.so", library)
        folder.environment["LD_PRELOAD"] = others
        done, summary = folder.summarized([*spec, "--library", library], ["sh", "-c", "cat a.note > /dev/null; ./executes within/libchainio.so; ./executes none"])
        del folder.environment["LD_PRELOAD"]
        expect(f"out of the library's reach, beside '{others}'", (done.returncode, done.stdout.decode().split(), done.stderr), (0, [left] * 26, b""))
        expect("what could reach it was seen", summary["classes"][0]["opened"], 1)
        library.parent.rmdir()
    # May ask after the library, and not read it; `$LIB` stands in its place.
    done = folder.run([*spec, "--quiet"], ["./executes", "none", "/usr"])
    if done.returncode == 77:
        print(f"skipped: a library that Landlock refuses: {done.stderr.decode()}")
    else:
        expect("a library that Landlock refuses", (done.returncode, done.stdout.decode().split(), done.stderr), (0, ["none"] * 13, b""))
    (folder.path / "unreadable.c").write_text(UNREADABLE)
    subprocess.run(["clang-19", "unreadable.c", "-o", "unreadable"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    plain = subprocess.run(["./unreadable", "none"], cwd=folder.path, capture_output=True, timeout=runs.LONGEST).stdout.decode()
    expect("environments that cannot be read, plain", plain, "14 14 14 14\n" * 6)
    library.parent.mkdir()
    shutil.copy(BUILD / "lib" / "libchainio.so", library)
    done = folder.run([*spec, "--quiet", "--library", library], ["./unreadable", "within/libchainio.so"])
    expect("  and out of the library's reach", (done.returncode, done.stdout.decode(), done.stderr), (0, plain, b""))
    library.parent.rmdir()


def test_libraries_of_the_program(folder):
    """What a caller tells the loader is for the program: of a libstdc++ that ChainIO's own programs cannot use nothing is noticed."""
    other = folder.path / "libraries"
    other.mkdir()
    for name in ("libstdc++.so.6", "libgcc_s.so.1"):
        subprocess.run(["clang-19", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c", "/dev/null", "-o", other / name], check=True, timeout=runs.LONGEST)
    (folder.path / "newer.chain").write_text(SPEC.replace("4KiB", "12KiB"))
    before = folder.environment
    folder.environment = {**before, "LD_LIBRARY_PATH": str(other)}
    program = ["sh", "-c", "cat a.note > copy; echo $LD_LIBRARY_PATH; tr '\\0' '\\n' < /proc/$$/environ | grep -c CHAINIO_HELD; exit 5"]
    for what, spec in (("a source from the cache", "good.chain"), ("an artifact", "good.o"), ("a source to compile", "newer.chain")):
        done, summary = folder.summarized(["--spec", spec], program)
        expect(f"libraries for the program alone, {what}", (done.returncode, done.stdout.decode(), done.stderr), (5, f"{other}\n0\n", b""))
        expect("  it runs with ours", summary and (summary["plain"], summary["exit"], summary["processes"]), lambda s: s and s[:2] == (None, {"code": 5}) and s[2] >= 1)
    folder.environment = {**before, "LD_PRELOAD": "/nonexistent.so"}
    plain = subprocess.run(["cat", "a.note"], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    for spec in ("good.chain", "good.o"):
        done = folder.run(["--spec", spec, "--quiet"], ["cat", "a.note"])
        expect(f"what the loader says is said once, {spec}", (done.returncode, done.stdout, done.stderr), (0, plain.stdout, plain.stderr))
    folder.environment = {**before, "LD_SHOW_AUXV": "1"}
    for spec in ("good.chain", "good.o"):
        done = folder.run(["--spec", spec, "--quiet"], ["cat", "a.note"])
        expect(f"  and what it is to show, {spec}", (done.returncode, done.stdout.count(b"AT_ENTRY:")), (0, 1))
    folder.environment = before


def ignore_children():
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGCHLD, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def test_ignored_children(folder, spec):
    """Whoever started chainio ignores the end of children: the program finds it so, and chainio sees its end all the same."""
    show = ["sh", "-c", "grep ^SigIgn /proc/self/status; exit 5"]
    plain = subprocess.run(show, capture_output=True, preexec_fn=ignore_children, timeout=runs.LONGEST)
    done = folder.run([*spec, "--quiet"], show, preexec_fn=ignore_children)
    expect("SIGCHLD is ignored as it was", (done.returncode, done.stdout), (5, plain.stdout))
    done = folder.run([*spec, "--quiet"], ["./text"], preexec_fn=ignore_children)
    expect("a program that cannot be executed is told once", (done.returncode, done.stdout, done.stderr), (126, b"", b"chainio run: ./text: Permission denied\n"))
    done = folder.run([*spec, "--quiet"], ["./foreign"], preexec_fn=ignore_children)
    expect("so is one that the kernel refuses", (done.returncode, done.stderr.count(b"\n")), (127, 1))


def test_own_number(folder, spec):
    """systemd says for which process its sockets and its watchdog are: for the program, not for chainio."""
    command = shlex.join(folder.command([*spec, "--quiet"], ["sh", "-c", "echo $$ $LISTEN_PID $WATCHDOG_PID $SYSTEMD_EXEC_PID ${LISTEN_PIDFDID-none}"]))
    for given, means in (("$$ WATCHDOG_PID=$$ SYSTEMD_EXEC_PID=$$", lambda own, *rest: rest == (own, own, own, "none")), ("1 WATCHDOG_PID=2 SYSTEMD_EXEC_PID=3", lambda own, *rest: rest == ("1", "2", "3", "4"))):
        done = subprocess.run(["sh", "-c", f"export LISTEN_PIDFDID=4 LISTEN_PID={given}; exec {command}"], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        expect(f"LISTEN_PID={given}", (done.returncode, done.stdout.decode().split()), lambda r, means=means: r[0] == 0 and means(*r[1]))


def capabilities(process):
    return int(re.search(r"CapPrm:\s*(\w+)", pathlib.Path(f"/proc/{process}/status").read_text())[1], 16)


def given_up(process, name):
    """Whether that program goes on there, without what probes need."""
    return os.readlink(f"/proc/{process}/exe").endswith(f"/{name}") and capabilities(process) & PRIVILEGES == 0


def test_privileges(folder, spec):
    """chainio gives up what probes need, for good, once the program has got what it would have got without it: by its user, and by what is handed on to it."""
    if os.getuid() != 0:
        print("skipped: only root has privileges to hand on")
        return
    handed_on = ["setpriv", "--securebits=+noroot", "--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon"]
    script = ["sh", "-c", "grep -E '^Cap(Prm|Amb)' /proc/self/status; read line; cat *.note > /dev/null; echo; read line"]
    for prefix, words in (([], "root"), (handed_on, "who has them by its parent")):
        plain = subprocess.run([*prefix, *script], cwd=folder.path, input=b"\n\n", capture_output=True, timeout=runs.LONGEST).stdout
        run = folder.launch([*prefix, *folder.command([*spec, "--quiet"], script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expect(f"{words}: the program has what it has without chainio", run.stdout.readline() + run.stdout.readline() + b"\n", plain)
        # The kernel takes it from who gets a privilege that whoever executed it had not.
        leaves_core = subprocess.run([*prefix, *folder.command([*spec, "--quiet"], [sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).prctl(3))"])],
                                     env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        expect("  it may leave a core file (PR_GET_DUMPABLE)", (leaves_core.returncode, leaves_core.stdout), (0, b"1\n"))
        # An artifact is the whole program's from the start.
        first = "chainio-run" if spec[-1].endswith(".o") else "chainio"
        netns.until("  whoever started it has given them up", lambda run=run, first=first: given_up(run.pid, first))
        for what in ("and goes on so, as the whole program, when a file was opened", ""):
            run.stdin.write(b"\n")
            run.stdin.flush()
            if what:
                run.stdout.readline()
                netns.until(what, lambda run=run: given_up(run.pid, "chainio-run"))
        expect("  it ends", run.wait(timeout=runs.LONGEST), 0)
        run.stdin.close()
        run.stdout.close()


def test_closed_files():
    """Where there is nothing to open in the place of a standard file that is closed, that is said."""
    if os.getuid() != 0:
        print("skipped: /dev/null is there, and cannot be taken away without privileges")
        return
    for name, words in (("chainio", ["top"]), ("chainio-runtime", ["--check-system"])):
        script = f'mount -t tmpfs none /dev && exec {shlex.join([str(BUILD / "bin" / name), *words])} <&-'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, timeout=runs.LONGEST)
        text = f"{name}: file 0 is closed, and /dev/null cannot be opened in its place: No such file or directory; give it an open one\n"
        expect(f"{name} without a standard file, and without /dev/null", (done.returncode, done.stdout, done.stderr.decode()), (3, b"", text))


def test_address_space(folder, spec):
    """Whatever of ours a limit of address space has no room for, the program runs, and chainio ends as it does."""
    ended = {}
    for size in range(18, 60, 2):
        done = folder.run(spec, ["sh", "-c", "cat a.note; exit 5"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20)))
        ended[size] = (done.returncode, len(done.stdout), b"bad_alloc" in done.stderr)
    expect("a limit of address space", ended, {size: (5, 100_000, False) for size in ended})


def test_address_space_within(folder, spec):
    """Below a limit that a program sets itself there is no room for the library, which the summary says."""
    done, summary = folder.summarized(spec, ["sh", "-c", "cat a.note > /dev/null; ulimit -v 14000; cat a.note; exit 5"])
    expect("a limit that comes later", (done.returncode, len(done.stdout), summary["classes"][0]["opened"]), (5, 100_000, 1))
    done, summary = folder.summarized(spec, ["sh", "-c", "ulimit -v 14000; cat a.note a.note; exit 5"])
    expect("nothing is seen, and the summary says why", (done.returncode, len(done.stdout), [note for note in summary["notes"] if "class of the spec" in note or "memory" in note]),
           (5, 200_000, [NO_ROOM]))


def test_open_files_within(folder, spec):
    """The same of a limit of open files, as long as one more may be open."""
    done, summary = folder.summarized(spec, ["bash", "-c", "ulimit -n 4; exec cat a.note"])
    expect("nothing is seen below a limit of open files, and the summary says why", (done.returncode, len(done.stdout), [note for note in summary["notes"] if "class of the spec" in note or "memory" in note]),
           (0, 100_000, [NO_ROOM]))


def test_filter(folder, spec):
    """Filters that refuse the library its questions with an error: who starts others goes on with it."""
    (folder.path / "alone.c").write_text(ALONE)
    subprocess.run(["clang-19", "-DREFUSED=SYS_faccessat", "-DERROR=ENOSYS", "alone.c", "-o", "refuses"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    done, summary = folder.summarized(spec, ["./refuses", "/bin/sh", "-c", "cat a.note > /dev/null; cat a.note; exit 5"])
    expect("a filter that refuses faccessat", (done.returncode, len(done.stdout), summary["classes"][0]["opened"]), (5, 100_000, 2))
    # A process makes no system call of ours any more once it has set up a filter that may end it.
    subprocess.run(["clang-19", "-DREFUSED=SYS_faccessat", "-DACTION=SECCOMP_RET_KILL_PROCESS", "alone.c", "-o", "kills"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    done = folder.run([*spec, "--quiet"], ["./kills", "/bin/cat", "a.note"])
    expect("a filter that ends who calls faccessat", (done.returncode, len(done.stdout), done.stderr), (0, 100_000, b""))


def test_ends_unheard(folder, spec):
    """Where chainio would wait for ever it becomes the program, and where another call is refused it does without."""
    for call in ("waitid", "wait4", "ppoll"):
        (folder.path / "alone.c").write_text(ALONE)
        subprocess.run(["clang-19", f"-DREFUSED=SYS_{call}", "-DERROR=EPERM", "alone.c", "-o", call], cwd=folder.path, check=True, timeout=runs.LONGEST)
    def ended(call, options):
        words = [f"./{call}", *folder.command([*spec, *options], [sys.executable, "-c", "import os; print(len(open('a.note').read()), flush=True); os._exit(5)"])]
        done = subprocess.run(words, env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        return done.returncode, done.stdout, done.stderr.decode()
    why = "chainio would not hear of its end: waitid() is refused here (Operation not permitted), most likely by a filter of system calls\n"
    expect("waitid is refused", ended("waitid", []), (5, b"100000\n", f"chainio run: {sys.executable} runs plain: {why}"))
    expect("waitid is refused, --strict", ended("waitid", ["--strict"]), (3, b"", f"chainio run: {sys.executable} was not started, since it would run plain (--strict): {why}"))
    for options in ([], ["--follow"]):
        for call in ("wait4", "ppoll"):
            expect(f"{call} is refused, {options}", ended(call, [*options, "--quiet"]), (5, b"100000\n", ""))


def test_children_elsewhere(folder, spec):
    """A program that is to have a PID namespace below it, and not to be the first process there, is not made a child."""
    apart = ["unshare", "--user", "--map-root-user", "--pid"]
    script = ["sh", "-c", "sh -c 'echo $$'; exit 5"]
    plain = subprocess.run([*apart, *script], cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    if plain.returncode != 5:
        print(f"skipped: children in another namespace: {plain.stderr.decode()}")
        return
    why = "as a child of chainio it would be in another PID namespace; make that with `unshare --pid --fork`\n"
    for options in ([], ["--quiet"]):
        done = subprocess.run([*apart, *folder.command([*spec, *options], script)], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        expect(f"children in another namespace {options}", (done.returncode, done.stdout, done.stderr.decode()), (5, plain.stdout, f"chainio run: sh runs plain: {why}"))


def test_parents_end(folder, spec):
    """Who is to get a signal when his parent ends has that as the program, too: chainio's end is not its parent's."""
    def at_parents_end(number):
        return lambda: ctypes.CDLL(None).prctl(1, number)
    show = [sys.executable, "-c", "import ctypes; got = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(got)); print(got.value)"]
    for number in (0, signal.SIGUSR1):
        done = folder.run([*spec, "--quiet"], show, preexec_fn=at_parents_end(number))
        expect(f"at its parent's end comes signal {number:d}", (done.returncode, done.stdout, done.stderr), (0, b"%d\n" % number, b""))
    run = folder.start([*spec, "--quiet"], ["sh", "-c", "echo on; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=at_parents_end(signal.SIGKILL))
    expect("a program whose chainio is to be killed at its parent's end", run.stdout.readline(), b"on\n")
    run.kill()
    expect("  ends when that is killed", select.select([run.stdout], [], [], runs.LONGEST)[0] != [] and run.stdout.read(), b"")
    run.stdin.close()
    run.stdout.close()
    run.wait()


ORPHANED = r"""
import os
go, end = os.pipe()
child = os.fork()
if child == 0:
    if os.fork() == 0:
        os.close(end)
        os.read(go, 1)
        os._exit(3)
    os._exit(0)
os.waitpid(child, 0)
os.close(end)
try:
    print(os.waitstatus_to_exitcode(os.wait()[1]))
except ChildProcessError:
    print("another's")
"""


def test_orphans(folder, spec):
    """Whoever is to collect the orphans of his descendants (PR_SET_CHILD_SUBREAPER) does it as the program, too."""
    for collects, whose in ((0, b"another's\n"), (1, b"3\n")):
        for options in ([], ["--follow"]):
            done = folder.run([*spec, "--quiet", *options], [sys.executable, "-c", ORPHANED], preexec_fn=lambda collects=collects: ctypes.CDLL(None).prctl(36, collects))
            expect(f"orphans, collected {collects} {options}", (done.returncode, done.stdout, done.stderr), (0, whose, b""))


def test_proot(folder, spec):
    """Below proot, which keeps the heap itself."""
    if not shutil.which("proot"):
        print("skipped: a program rewritten below proot: proot is not installed")
        return
    (folder.path / "heap.c").write_text('#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
                                        'int main(void) { for (int i = 0; i < 100; ++i) memset(malloc(60000), 1, 60000); puts("on"); return 5; }\n')
    subprocess.run(["clang-19", "-O0", "heap.c", "-o", "heap"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    done = folder.run([*spec, "--rewrite", "--quiet"], ["proot", "-r", "/", folder.path / "heap"])
    expect("rewritten below proot", (done.returncode, done.stdout, done.stderr), (5, b"on\n", b""))


def test_no_process(folder, spec):
    """Where chainio may have no child, as at a limit of processes, it becomes the program."""
    (folder.path / "alone.c").write_text(ALONE)
    subprocess.run(["clang-19", "alone.c", "-o", "alone"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    tells = "import ctypes, os; got = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(got)); print(got.value, len(open('a.note').read()), flush=True); os._exit(5)"
    runtime = {**folder.environment, "XDG_RUNTIME_DIR": str(folder.path)}
    for options, right in ((["--follow"], lambda r: r[:2] == (5, b"0 100000\n") and b"runs plain: there can be no process for the server: Resource temporarily unavailable; a limit of processes (`ulimit -u`" in r[2]), (["--strict"], lambda r: r[:2] == (3, b"") and b" was not started, since it would run plain (--strict): there can be no process for the server: " in r[2])):
        done = subprocess.run(["./alone", *folder.command([*spec, *options], [sys.executable, "-c", tells])], env=runtime, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        expect(f"no process of its own, {options}", (done.returncode, done.stdout, done.stderr), right)
    expect("and nothing is left behind", [path.name for path in folder.path.glob("chainio-run*")], [])


def test_without_proc(folder, spec):
    """chainio finds what stands beside it by the path by which it was executed."""
    if os.getuid() != 0:
        print("skipped: no mounts without privileges")
        return
    inside = shlex.join(folder.command([*spec, "--quiet"], ["sh", "-c", "cat a.note; exit 5"]))
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"umount -l /proc && exec {inside}"], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("without /proc", (done.returncode, len(done.stdout), done.stderr), (5, 100_000, b""))


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        (folder.path / "text").write_text("words\n")
        # Looks like a program to whoever asks beforehand; its loader is not there.
        foreign = folder.path / "foreign"
        foreign.write_text(f"#!{folder.path}/no-interpreter\n")
        foreign.chmod(0o755)
        subprocess.run([CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        folder.run(["--spec", "good.chain"], ["true"])  # fills the cache
        # An artifact is the whole program's from the start; a source from the cache the launcher's.
        for spec in (["--spec", "good.o"], ["--spec", "good.chain"]):
            for test in (test_other_libc, test_out_of_reach, test_ignored_children, test_own_number, test_privileges, test_address_space, test_address_space_within, test_open_files_within, test_filter, test_ends_unheard, test_children_elsewhere, test_parents_end, test_orphans, test_no_process, test_without_proc):
                test(folder, spec)
        test_libraries_of_the_program(folder)
        test_proot(folder, ["--spec", "good.o"])
    test_closed_files()
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
