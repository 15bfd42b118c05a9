#!/usr/bin/env python3
"""chainio run between whoever sends signals and the program: each reaches it, once and with its value, and chainio stops and goes on as it does."""
import ctypes
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from run_summary import is_seen
from runs import expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n'
PYTHON = sys.executable
STOPS = 100
# Says which signals came, with their values, until its input ends.
TELLS = """#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void tell(int number, siginfo_t* info, void* context) {
    char line[64];
    write(1, line, snprintf(line, sizeof line, "got %d with %d\\n", number, info->si_code == SI_QUEUE ? info->si_value.sival_int : -1));
    (void)context;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number != SIGKILL && number != SIGSTOP && number != SIGCHLD && number != SIGTTIN && number != SIGTTOU) sigaction(number, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    char byte;
    write(1, "ready\\n", 6);
    while (read(0, &byte, 1) > 0) if (byte == 's') raise(SIGSTOP);
    return 7;
}
"""
# One process: a shell that is stopped between vfork and the command's exec never says that it has stopped.
ECHO = 'print("be" "gun", flush=True)\nwhile True:\n try: print(input().upper(), flush=True)\n except EOFError: break\nprint("en" "ded", flush=True)'
ORPHAN = """import os, time
reading, writing = os.pipe()
if os.fork() == 0:
    orphan = os.fork()
    if orphan: os.write(writing, b"%d" % orphan)
    else: time.sleep(0.05)
    os._exit(0)
os.wait()
orphan, end = f"/proc/{os.read(reading, 100).decode()}", time.monotonic() + 60
while os.path.exists(orphan) and time.monotonic() < end: time.sleep(0.01)
print(os.path.exists(orphan))
"""
PASSED_ON = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTRAP, signal.SIGABRT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM, signal.SIGSTKFLT,
             signal.SIGCONT, signal.SIGTSTP, signal.SIGURG, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGVTALRM, signal.SIGPROF, signal.SIGWINCH, signal.SIGIO,
             signal.SIGPWR, signal.SIGSYS, signal.SIGRTMIN, signal.SIGRTMAX]


def as_they_were():
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)


def start(folder, spec, **more):
    p = folder.start([*spec, "--quiet"], ["./tells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **more)
    expect("it has started", p.stdout.readline(), b"ready\n")
    return p


def finish(p):
    p.stdin.close()
    expect("nothing else came, and it ends as the program does", (p.stdout.read(), p.wait(runs.LONGEST), runs.left_overs(p.pid)), (b"", 7, []))
    p.stdout.close()


def queue(pid, number, value):
    if ctypes.CDLL(None, use_errno=True).sigqueue(pid, int(number), ctypes.c_void_p(value)) != 0:
        raise OSError(ctypes.get_errno(), "sigqueue")


def test_sent(folder, spec):
    p = start(folder, spec, preexec_fn=as_they_were)
    for number in PASSED_ON:
        p.send_signal(number)
        expect(f"{number.name} is passed on", p.stdout.readline(), f"got {int(number)} with -1\n".encode())
    for number in (signal.SIGUSR1, signal.SIGRTMIN):
        queue(p.pid, number, 42)
        expect(f"{number.name} with its value", p.stdout.readline(), f"got {int(number)} with 42\n".encode())
    finish(p)

    def blocked_alarm():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # until the program has its handlers, however long that takes
        signal.setitimer(signal.ITIMER_REAL, 1)
    p = folder.start([*spec, "--quiet"], ["./tells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=blocked_alarm)
    expect("an alarm that was set before", {p.stdout.readline() for _ in range(2)}, {b"ready\n", f"got {int(signal.SIGALRM)} with -1\n".encode()})
    finish(p)


def test_sent_before(folder, spec):
    """What the process had sent itself, and had blocked when it became chainio, waits for the program then."""
    def send():
        as_they_were()
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        signal.raise_signal(signal.SIGUSR2)
        for value in (42, 43):
            queue(os.getpid(), signal.SIGRTMIN, value)
    p = folder.start([*spec, "--quiet"], ["./tells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=send)
    sent = [(signal.SIGINT, -1), (signal.SIGTERM, -1), (signal.SIGUSR1, -1), (signal.SIGUSR2, -1), (signal.SIGRTMIN, 42), (signal.SIGRTMIN, 43)]
    lines, last = [], f"got {int(signal.SIGWINCH)} with -1\n".encode()
    while b"ready\n" not in lines:
        lines.append(p.stdout.readline())
    p.send_signal(signal.SIGWINCH)  # which is passed on behind them
    while last not in lines:
        lines.append(p.stdout.readline())
    p.stdin.close()
    lines += p.stdout.readlines()
    wanted = [b"ready\n", last, *(f"got {int(number)} with {value}\n".encode() for number, value in sent)]
    expect("what the process had sent itself before", (sorted(lines), p.wait(runs.LONGEST)), (sorted(wanted), 7))
    p.stdout.close()


def test_timers(folder, spec):
    """Timers that were set before are the program's, with what is left of them."""
    program = [sys.executable, "-c", "import signal\nfor kind in (0, 1, 2): print(*(round(100 * value) for value in signal.setitimer(kind, 0)))"]

    def arrange():
        for kind, seconds in ((signal.ITIMER_REAL, 1000), (signal.ITIMER_VIRTUAL, 2000), (signal.ITIMER_PROF, 3000)):
            signal.setitimer(kind, seconds, seconds / 100)
    done = folder.run(["--quiet", *spec], program, preexec_fn=arrange)
    left = [line.split() for line in done.stdout.decode().splitlines()]
    expect("timers that were set before", [int(line[1]) for line in left], [1000, 2000, 3000])
    expect("  with what is left", [90_000 < int(line[0]) * 1000 / seconds <= 100_000 for line, seconds in zip(left, (1000, 2000, 3000))], [True] * 3)
    cancels = [sys.executable, "-c", "import signal, time; print(signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0); time.sleep(0.5)"]
    done = folder.run(["--quiet", *spec], cancels, preexec_fn=lambda: signal.setitimer(signal.ITIMER_PROF, 1000))
    expect("none that was not set", (done.returncode, done.stdout), (0, b"False\n"))


def test_as_they_were_before(folder, spec):
    """What chainio finds ignored or blocked the program finds so too, and may change."""
    numbers = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN}

    def ignore():
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    for how, arrange in (("ignored", ignore), ("blocked", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, numbers))):
        p = start(folder, spec, preexec_fn=arrange)
        for number in sorted(numbers):
            p.send_signal(number)
            expect(f"{number.name}, {how} before, is passed on", p.stdout.readline(), f"got {int(number)} with -1\n".encode())
        finish(p)


def test_locks(folder, spec):
    """A lock that chainio's process has had before it was chainio."""
    (folder.path / "lock").touch()
    first = "import fcntl, os, sys; f = open('lock', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); os.set_inheritable(f.fileno(), True); os.execv(sys.argv[1], sys.argv[1:])"
    p = folder.launch([PYTHON, "-c", first, *folder.command([*spec, "--quiet"], ["./tells"])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    p.stdout.readline()
    second = "import fcntl; fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    expect("a lock is kept", subprocess.run([PYTHON, "-c", second], cwd=folder.path, capture_output=True).returncode, 1)
    finish(p)
    expect("and given back", subprocess.run([PYTHON, "-c", second], cwd=folder.path, capture_output=True).returncode, 0)


def test_lock_by_standard_error(folder, spec):
    """Which is kept, while standard output, another opening of the file, is not."""
    first = "import fcntl, os, sys\nfor n in (1, 2):\n os.close(n)\n os.set_inheritable(os.open('lock', os.O_RDWR | os.O_CREAT), True)\nfcntl.lockf(2, fcntl.LOCK_EX)\nos.execv(sys.argv[1], sys.argv[1:])"
    p = folder.launch([PYTHON, "-c", first, *folder.command([*spec, "--quiet"], ["cat", "a.note", "-"])], stdin=subprocess.PIPE)
    seen = is_seen(p)
    second = "import fcntl; fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    expect("a lock by standard error is kept", (seen, subprocess.run([PYTHON, "-c", second], cwd=folder.path, capture_output=True).returncode), (True, 1))
    p.stdin.close()
    expect("to the end", p.wait(runs.LONGEST), 0)


def test_hangup(folder, spec):
    """chainio leads the session: the terminal tells nobody else that it has gone."""
    told = folder.path / "told"
    told.unlink(missing_ok=True)
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a shell has no trap for what is ignored from its start, as below nohup
        os.chdir(folder.path)
        os.execve(runs.CHAINIO, folder.command([*spec, "--quiet"], ["sh", "-c", "trap 'echo hung up > told; exit 3' HUP; echo ready; while :; do read line || sleep 0.05; done"]),
                  folder.environment)
    os.read(terminal, 5)
    os.close(terminal)
    expect("the end of the terminal reaches the program", (os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.exists() and told.read_text()), (3, "hung up\n"))


def test_descriptors(folder, spec):
    """What the program closes is closed: chainio holds nothing but standard error."""
    for first in ("", "cat a.note > /dev/null; "):  # with a server and without
        reading, writing = os.pipe()
        p = folder.start([*spec, "--quiet"], ["sh", "-c", first + f"exec <&- >&- {writing}>&-; kill -STOP $$; exit 6"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         pass_fds=[writing])
        os.close(writing)
        expect("pipes end when the program has closed them", (p.stdout.read(), os.read(reading, 1)), (b"", b""))
        try:
            p.stdin.write(b"x" * 100_000)
            expect("nobody reads", "written", "refused")
        except BrokenPipeError:
            print("ok    who writes to it is told")
        has_stopped(p.pid)
        p.send_signal(signal.SIGCONT)
        expect("while it runs", p.wait(runs.LONGEST), 6)
        os.close(reading)
        p.stdout.close()
        p.stdin.detach()
    done = folder.run([*spec, "--json", "--summary", "/dev/stdout"], ["echo", "words"])
    expect("a summary on standard output", (done.returncode, done.stdout.startswith(b"words\n{"), done.stderr), (0, True, b""))
    for name, which in (("stdout", "stdout"), ("stderr", "stderr"), ("fd/1", "stdout"), ("fd/2", "stderr")):
        for mode, before in (("wb", b""), ("ab", b"before\n")):
            kept = folder.path / "kept"
            kept.write_bytes(b"before\n")
            with open(kept, mode) as file:
                command = folder.command([*spec, "--json", "--summary", f"/dev/{name}"], ["sh", "-c", f"echo words >&{1 if which == 'stdout' else 2}"])
                done = subprocess.run(command, env=folder.environment, cwd=folder.path, stdin=subprocess.DEVNULL, timeout=runs.LONGEST, **{which: file})
            text = kept.read_bytes()
            expect(f"a summary in the file that /dev/{name} is, {mode}: what was there stays", (done.returncode, text.startswith(before + b"words\n{")), (0, True))


def test_privileges(folder, spec):
    if os.getuid() != 0:
        print("skipped: ambient capabilities are not looked at: this user has none")
        return
    kept = ["setpriv", "--inh-caps", "+sys_admin,+perfmon,+bpf", "--ambient-caps", "+sys_admin,+perfmon,+bpf"]
    show = ["grep", "^Cap", "/proc/self/status"]
    by_chainio = subprocess.run([*kept, *folder.command([*spec, "--quiet"], show)], env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    plain = subprocess.run([*kept, *show], capture_output=True, timeout=runs.LONGEST)
    expect("capabilities are what they were", (by_chainio.returncode, by_chainio.stdout), (plain.returncode, plain.stdout))


def test_limit(folder, spec):
    """Memory of ours that is a file must not meet a limit of the program's."""
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    done = folder.run(spec, ["sh", "-c", "ulimit -f; exit 5"], preexec_fn=small)
    expect("a limit of file sizes", (done.returncode, done.stdout, done.stderr), lambda r: r[0] == 5 and r[1] != b"unlimited\n" and b"runs plain: files may not be as large" in r[2])
    done = folder.run([*spec, "--no-cache"], ["sh", "-c", "echo on; exit 5"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12)))
    expect("one that the compiler's files exceed", (done.returncode, done.stdout, done.stderr), lambda r: r[:2] == (5, b"on\n") and b"runs plain: files may not be as large" in r[2])


def test_first_process(folder, spec):
    if os.getuid() != 0:
        print("skipped: no container without privileges")
        return
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", *folder.command([*spec, "--quiet"], [PYTHON, "-c", ORPHAN])], env=folder.environment,
                          cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
    expect("as the first process it collects orphans: none is left", (done.returncode, done.stdout), (0, b"False\n"))


def has_stopped(pid):
    """How it has; what goes on instead is named, not waited for."""
    end = time.monotonic() + runs.LONGEST
    while time.monotonic() < end:
        changed, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if changed:
            return status
        time.sleep(0.0002)
    raise TimeoutError(f"process {pid} does not stop")


def test_stops(folder, spec):
    p = start(folder, spec, process_group=0)
    p.stdin.write(b"s")
    expect("chainio stops when the program does", os.WSTOPSIG(has_stopped(p.pid)), signal.SIGSTOP)
    p.send_signal(signal.SIGCONT)
    expect("and continues it", p.stdout.readline(), f"got {int(signal.SIGCONT)} with -1\n".encode())
    # Over and over: it stops again while chainio still deals with the signal that continued both.
    told = []
    for _ in range(STOPS):
        p.stdin.write(b"s")
        has_stopped(p.pid)
        os.killpg(p.pid, signal.SIGCONT)
        told.append(p.stdout.readline())
    expect("what comes to the whole group comes to the program once", set(told), {f"got {int(signal.SIGCONT)} with -1\n".encode()})
    finish(p)
    p = folder.start([*spec, "--quiet"], ["sh", "-c", "(while ! grep -q '^State:.T' /proc/$$/status; do :; done; kill -CONT $$) & kill -STOP $$; exit 3"])
    expect("the program alone is continued, and chainio ends with it", (p.wait(runs.LONGEST), runs.left_overs(p.pid)), (3, []))
    p = folder.start([*spec, "--quiet"], ["sh", "-c", "kill -TSTP $$; exit 5"], process_group=0)
    expect("by the same signal", os.WSTOPSIG(has_stopped(p.pid)), signal.SIGTSTP)
    p.send_signal(signal.SIGCONT)
    expect("and both go on", p.wait(runs.LONGEST), 5)


def test_jobs(folder, spec):
    """ctrl-Z and fg of a shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**folder.environment, "PS1": "> ", "TERM": "dumb", "HISTFILE": ""})
    def shows(what, typed, pattern):
        """What is typed while the shell changes the terminal's mode may be lost: it is typed again."""
        seen, deadline = b"", time.monotonic() + runs.LONGEST
        os.write(terminal, typed)
        while not re.search(pattern, seen) and time.monotonic() < deadline:
            if not select.select([terminal], [], [], 2)[0]:
                os.write(terminal, typed)
                continue
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
        expect(what, bool(re.search(pattern, seen)) or seen, True)

    # What says so names the command, as `fg` does, so that the rest of it would be taken for fg's; and what is typed in
    # front of the prompt may be lost.
    stopped = rb"(?s)Stopped.*\n> "
    command = " ".join(f"$'{word}'" for word in folder.command([*spec, "--quiet"], [PYTHON, "-c", ECHO.replace("\n", "\\n")]))
    shows("the program runs", command.encode() + b"\n", b"begun")
    shows("ctrl-Z stops the job", b"\x1a", stopped)
    shows("fg names it", b"fg\n", b'"en" "ded"')
    shows("and continues it: it reads and writes", b"words\n", b"WORDS")
    shows("ctrl-Z stops it again", b"\x1a", stopped)
    shows("fg continues it once more", b"fg\n", b'"en" "ded"')
    shows("and it reads once more", b"more\n", b"MORE")
    shows("and ends", b"\x04", b"ended")
    os.close(terminal)
    os.waitpid(pid, 0)


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        (folder.path / "tells.c").write_text(TELLS)
        subprocess.run(["clang-19", "tells.c", "-o", "tells"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        subprocess.run([runs.CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        folder.run(["--spec", "good.chain"], ["true"])
        # The server is made before the program starts, or there is a launcher and none is made.
        for spec in (["--spec", "good.o"], ["--spec", "good.chain"]):
            for test in (test_sent, test_sent_before, test_timers, test_as_they_were_before, test_locks, test_lock_by_standard_error, test_hangup, test_descriptors, test_first_process, test_limit, test_privileges, test_stops, test_jobs):
                test(folder, spec)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
