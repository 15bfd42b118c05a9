#!/usr/bin/env python3
"""Probes on unmodified programs: what is fetched follows their arguments, the privilege does not reach them, and nothing stays."""
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import chain, drop_from_memory, expect

PROBED = runs.BUILD / "tests" / "probed"
# bits of CapEff: CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF
PRIVILEGES = 1 << 21 | 1 << 38 | 1 << 39
DROPPED = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"]


def spec(folder, text):
    """The class `data` lies under the test's folder; `text` are the probes and chains."""
    path = folder.path / "app.chain"
    path.write_text(f'app probed {{ files data = "{folder.path}/*" {{ root "{folder.path}" }} }}\n{text}')
    return path


def attachable():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) & PRIVILEGES == PRIVILEGES and os.path.exists("/sys/kernel/btf/vmlinux")


def sqlite(folder):
    """The example's spec, with its folder moved: a report fetches the database, a look-up does not."""
    database = folder.path / "orders.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE orders(id INTEGER PRIMARY KEY, amount INTEGER, text TEXT)")
        db.executemany("INSERT INTO orders(amount, text) VALUES (?, ?)", ((i % 97, "x" * 100) for i in range(50_000)))
    db.close()
    source = (runs.ROOT / "examples" / "sqlite-probe" / "app.chain").read_text().replace("/var/lib/shop", str(folder.path))
    path = folder.path / "report.chain"
    path.write_text(source)
    for statement, fetches in (("select amount from orders where id = 777", False), ("select sum(amount) from orders", True)):
        plain = subprocess.run(["sqlite3", database, statement], capture_output=True, check=True).stdout
        half = database.stat().st_size // 2
        for _ in runs.tries():
            drop_from_memory(database)
            done, summary = folder.summarized(["--spec", path, "--explain"], ["sqlite3", database, statement])
            expect(f"sqlite3: {statement}: the same answer", (done.returncode, done.stdout, done.stderr), (0, plain, b""))
            ahead = chain(summary, "scan_ahead")
            if not fetches or (ahead["fetched_bytes"] >= half and ahead["hits"] > 0):
                break
        expect("  the probe was reached", ahead["runs"], lambda n: n >= 1)
        expect("  nothing is off", summary["refused"], [])
        if fetches:
            expect("  the database was fetched", ahead["fetched_bytes"], lambda n: n >= half)
            expect("  and read from memory", ahead["hits"], lambda n: n > 0)
        else:
            expect("  nothing was fetched", ahead["fetched_bytes"], 0)


def say(program, line):
    program.stdin.write(line + b"\n")
    program.stdin.flush()
    answer = []
    while (got := program.stdout.readline()) not in (b"done\n", b""):
        answer.append(got)
    return b"".join(answer)


def until(holds):
    """Whether it comes true; what is waited for is the kernel's own doing, in its own time."""
    end = time.monotonic() + runs.LONGEST
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def figures(folder, server, name="hinted"):
    """What `chainio top` shows of the chain, while it runs."""
    top = subprocess.run([runs.CHAINIO, "top", str(server), "--once", "--json"], env=folder.environment, capture_output=True, timeout=runs.LONGEST)
    return chain(runs.json.loads(top.stdout), name)


def own(folder):
    """A program with USDT of its own, whose argument names the file; and a daemon of it."""
    path = spec(folder, 'probe fire = usdt "probed:fire" (_a: i32, _b: u64, _c: i32, _d: u8, name: cstr(max 40))\n'
                'chain hinted on probe(fire) as p { prefetch data[p.name] at 4096 for 8192 }\n')
    hinted = folder.path / "hinted.dat"
    hinted.write_bytes(b"x" * 65536)
    for line in (b"fire hinted.dat", b"fork hinted.dat"):
        drop_from_memory(hinted)
        run = folder.start(["--spec", path, "--quiet"], [PROBED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        run.stdout.readline()
        expect(f"{line.decode()}: the probe is attached when the program begins", say(run, b"semaphore"), b"1\n")
        say(run, line)
        expect("  two pages are fetched", until(lambda: figures(folder, run.pid)["fetched_bytes"] == 8192), True)
        expect("  for one event", figures(folder, run.pid)["runs"], 1)
        run.stdin.close()
        expect("  the program ends as ever", (run.wait(), run.stdout.read()), (0, b""))
        run.stdout.close()


def itself(folder):
    """What is done to attach a probe, and for an event of one, is no event: the server would work for its own work, on and on."""
    path = spec(folder, 'probe fire = usdt "probed:fire" (_a: i32, _b: u64, _c: i32, _d: u8, name: cstr(max 40))\n'
                'probe look = syscall "openat2" ()\nprobe wait = syscall "io_uring_enter" ()\n'
                'probe attach = uprobe "libc.so.6:fopen" ()\n'
                'chain hinted on probe(fire) as p { prefetch data[p.name] at 4096 for 8192 }\n'
                'chain looked on probe(look) as _p { prefetch data["hinted.dat"] at 0 for 4096 }\n'
                'chain waited on probe(wait) as _p { prefetch data["hinted.dat"] at 0 for 4096 }\n'
                'chain attached on probe(attach) as _p { prefetch data["hinted.dat"] at 0 for 4096 }\n')
    hinted = folder.path / "hinted.dat"
    hinted.write_bytes(b"x" * 65536)
    drop_from_memory(hinted)
    run = folder.start(["--spec", path, "--quiet"], [PROBED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()
    say(run, b"fire hinted.dat")
    expect("a probe at which the server opens a file", until(lambda: figures(folder, run.pid)["fetched_bytes"] == 8192), True)
    expect("  what it calls for that is not the program's", [figures(folder, run.pid, name)["runs"] for name in ("hinted", "looked", "waited", "attached")],
           [1, 0, 0, 0])
    run.stdin.close()
    expect("  the program ends as ever", (run.wait(), run.stdout.read()), (0, b""))
    run.stdout.close()


def wrong_sites(folder):
    path = spec(folder, 'probe fast = uprobe "probed:fats" ()\nprobe slow = uprobe "probed:stepped" ()\nprobe trap = usdt "probed:trap" ()\n'
                'chain one on probe(fast) as p { prefetch data["x"] at 0 for 1 }\n'
                'chain two on probe(slow) as p { prefetch data["x"] at 0 for 1 }\n'
                'chain three on probe(trap) as p { prefetch data["x"] at 0 for 1 }\n')
    done, summary = folder.summarized(["--spec", path], [PROBED], input=b"many 3\n")
    expect("a spec with wrong sites: the program runs", (done.returncode, done.stdout), (0, b"done\ndone\n"))
    expect("  what is off is named with the remedy", sorted(summary["refused"]),
           lambda r: len(r) == 2 and r[0] == f'one: probe fast (uprobe "probed:fats"): {PROBED.resolve()} has no function `fats`, did you mean `fast`?'
           and r[1].startswith('three: probe trap (usdt "probed:trap")') and "does not probe the instruction there" in r[1])
    expect("  what is slow is told", summary["notes"], lambda n: any("probed:stepped" in line and "9 to 16 us" in line for line in n))
    expect("  and works", chain(summary, "two")["runs"], 3)


# Calls with a name in memory that was never touched, and so is not present.
UNTOUCHED = """#include <stdlib.h>
#include <sys/mman.h>
__attribute__((noinline)) void hint(const char* name) { __asm__ volatile("" : : "r"(name) : "memory"); }
int main(int count, char** words) {
    const char* page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = atoi(words[count - 1]); i > 0; i--) hint(page);
    volatile char there[] = "there.dat";
    hint((const char*)there);
}
"""


def unreadable(folder):
    (folder.path / "untouched.c").write_text(UNTOUCHED)
    subprocess.run(["clang-19", "-O1", "untouched.c", "-o", "untouched"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    path = spec(folder, 'probe hint = uprobe "untouched:hint" (name: cstr(max 40))\nchain hinted on probe(hint) as p { prefetch data[p.name] at 0 for 1 }\n')
    for calls, said in (("0", []), ("1", ["1 event"]), ("2", ["2 events"])):
        done, summary = folder.summarized(["--spec", path], ["./untouched", calls])
        expect(f"{calls} arguments that are not in memory make no events", (done.returncode, chain(summary, "hinted")["runs"]), (0, 1))
        expect("  and are counted", [note for note in summary["notes"] if "in memory that" in note],
               [f'probe hint (uprobe "untouched:hint"): {count} had an argument in memory that could not be read just then' for count in said])


def unprivileged(folder):
    """Without the capabilities the chains on probes are off by name; a chain on openings goes on."""
    path = spec(folder, 'probe fire = usdt "probed:fire" ()\nchain hinted on probe(fire) as p { prefetch data["x"] at 0 for 1 }\n'
                'chain opened on open(data) as r { prefetch r.file at 8192 for 4096 }\n')
    opened = folder.path / "opened.dat"
    opened.write_bytes(b"x" * 65536)
    drop_from_memory(opened)
    file = folder.path / "summary.json"
    file.unlink(missing_ok=True)
    command = [*DROPPED, *folder.command(["--spec", path, "--json", "--summary", file], [PROBED])]
    done = subprocess.run(command, env=folder.environment, input=f"fire x\nopen {opened}\n".encode(), capture_output=True, timeout=runs.LONGEST)
    expect("without the privilege the program runs", (done.returncode, done.stdout, done.stderr), (0, b"done\ndone\ndone\n", b""))
    summary = runs.json.loads(file.read_text())
    expect("  the chain is off by name", summary["refused"],
           ['hinted: probe fire (usdt "probed:fire"): attaching probes needs CAP_BPF and CAP_PERFMON; run as root, or once: setcap '
            "cap_bpf,cap_perfmon+ep on chainio-run"])
    expect("  and stands so in the table", [chain(summary, name)["gate"] for name in ("hinted", "opened")], ["off", "on"])
    expect("  the other one runs", chain(summary, "opened")["runs"], 1)
    outside = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*outside, "true"], capture_output=True).returncode != 0:
        print("skipped: no user namespaces here")
        return
    drop_from_memory(opened)
    file.unlink()
    command = [*outside, *command[len(DROPPED):]]
    done = subprocess.run(command, env=folder.environment, input=f"fire x\nopen {opened}\n".encode(), capture_output=True, timeout=runs.LONGEST)
    summary = runs.json.loads(file.read_text())
    expect("in a user namespace the program runs", (done.returncode, done.stdout, done.stderr, chain(summary, "opened")["runs"]), (0, b"done\ndone\ndone\n", b"", 1))
    expect("  the chain is off by name", summary["refused"],
           ['hinted: probe fire (usdt "probed:fire"): attaching probes needs CAP_BPF and CAP_PERFMON, and those of a user namespace, as of a container, '
            "do not count; run as root outside of it"])


def two_capabilities(folder):
    """CAP_BPF and CAP_PERFMON are enough, for USDT and functions, and for another user whose file has them."""
    path = spec(folder, 'probe fire = usdt "probed:fire" ()\nprobe put = uprobe "libc.so.6:puts" ()\n'
                'chain hinted on probe(fire) as p { prefetch data["x"] at 0 for 1 }\nchain heard on probe(put) as p { prefetch data["x"] at 0 for 1 }\n')
    release = list(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    if release < [6, 6]:
        print("skipped: before Linux 6.6 probes need CAP_SYS_ADMIN too")
        return
    only = ["setpriv", "--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all"]
    file = folder.path / "summary.json"
    file.unlink(missing_ok=True)
    command = [*only, *folder.command(["--spec", path, "--json", "--summary", file], [PROBED])]
    done = subprocess.run(command, env=folder.environment, input=b"fire x\n", capture_output=True, timeout=runs.LONGEST)
    expect("with the two capabilities alone the program runs", (done.returncode, done.stdout, done.stderr), (0, b"done\ndone\n", b""))
    summary = runs.json.loads(file.read_text())
    expect("  nothing is off", summary["refused"], [])
    expect("  both probes are heard", [chain(summary, name)["runs"] >= 1 for name in ("hinted", "heard")], [True, True])


def capabilities(process):
    return int(re.search(r"CapEff:\s*(\w+)", pathlib.Path(f"/proc/{process}/status").read_text())[1], 16)


def over(process):
    try:
        return "Z" in pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[-1][:3]
    except OSError:
        return True


def probe_programs():
    said = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return {each["id"] for each in json.loads(said) if each.get("name", "").startswith("cio_probe_")}


# Says what its parent may do, as the first thing that it does.
PARENT = """#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", getppid());
    const int fd = open(path, O_RDONLY);
    const ssize_t length = read(fd, text, sizeof text - 1);
    if (length <= 0) return 1;
    text[length] = 0;
    return puts(strstr(text, "CapEff")) < 0;
}
"""


def before_it_begins(folder):
    """The program begins beside a process that cannot attach anything any more."""
    path = spec(folder, 'probe put = uprobe "libc.so.6:puts" ()\nchain heard on probe(put) as p { prefetch data["x"] at 0 for 1 }\n')
    (folder.path / "parent.c").write_text(PARENT)
    subprocess.run(["clang-19", "parent.c", "-o", "parent"], cwd=folder.path, check=True, timeout=runs.LONGEST)
    # On one processor, where none of the two goes before the other unless that waits: the program says it before its parent goes on.
    one = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), "chrt", "--fifo", "1"]
    file = folder.path / "summary.json"
    ambient = ["setpriv", "--inh-caps=+bpf,+perfmon,+sys_admin", "--ambient-caps=+bpf,+perfmon,+sys_admin"]
    for prefix, whose in (([], "root's"), (ambient, "ambient")):
        file.unlink(missing_ok=True)
        command = [*one, *prefix, *folder.command(["--spec", path, "--json", "--summary", file], ["./parent"])]
        done = subprocess.run(command, env=folder.environment, cwd=folder.path, capture_output=True, timeout=runs.LONGEST)
        if b"chrt: failed" in done.stderr:
            print("skipped: no real-time priorities here:", done.stderr.decode().strip())
            return
        expect("a program that looks at its server", (done.returncode, runs.json.loads(file.read_text())["refused"]), (0, []))
        expect(f"  which has no privileges any more: {whose}", int(re.search(rb"CapEff:\s*(\w+)", done.stdout)[1], 16) & PRIVILEGES, 0)


def killed(folder):
    path = spec(folder, 'probe fire = usdt "probed:fire" ()\nchain hinted on probe(fire) as p { prefetch data["x"] at 0 for 1 }\n')
    before = probe_programs()
    run = folder.start(["--spec", path], [PROBED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()  # its first "done": it runs
    children, servers = runs.programs_of(run.pid), runs.servers_of(run.pid)
    expect("the program runs beside its server", (len(children), len(servers)), (1, 1))
    # Once the program has what was inherited: it may be quicker to say something.
    for what, pid in (("its parent", run.pid), ("the server", servers[0])):
        expect(f"  {what} has given up what it attached with", until(lambda pid=pid: capabilities(pid) & PRIVILEGES == 0), True)
    expect("  the program has what a program started here has", capabilities(children[0]), capabilities("self"))
    expect("  the probe is attached", say(run, b"semaphore"), b"1\n")
    ours = probe_programs() - before
    expect("  by a program of the kernel", len(ours), lambda count: count > 0)
    run.send_signal(signal.SIGKILL)
    run.wait()
    expect("  when the server is killed nothing stays attached", until(lambda: say(run, b"semaphore") == b"0\n"), True)
    expect("  and the program goes on", say(run, b"fire x"), b"")
    expect("  no program of a probe is left in the kernel", until(lambda: not ours & probe_programs()), True)
    run.stdin.close()
    run.stdout.close()
    for region in runs.left_overs(run.pid):
        shutil.rmtree(region, ignore_errors=True)  # a run beside clears up as well
    until(lambda: over(children[0]))


def main():
    if not attachable():
        print("attaching probes needs CAP_BPF, CAP_PERFMON and the kernel's BTF")
        sys.exit(77)
    with runs.Folder() as folder:
        if shutil.which("sqlite3"):
            sqlite(folder)
        own(folder)
        itself(folder)
        wrong_sites(folder)
        unreadable(folder)
        unprivileged(folder)
        two_capabilities(folder)
        before_it_begins(folder)
        killed(folder)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
