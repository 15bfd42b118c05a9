#!/usr/bin/env python3
"""The thread that prepares a reload: without one a reload is done all the same, and one that is far from done keeps no daemon that is to stop."""
import json
import pathlib
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns  # noqa: E402
import runs  # noqa: E402
from daemon import LONG, Server, answer, receive_line, with_editions, write_rows  # noqa: E402
from runs import expect  # noqa: E402

STOPS = "the daemon stops"

# Refuses, while there is a file of its name, what a thread that prepares a reload takes; memory is waited for then, and that it is shows in a file.
REFUSING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
static int refused(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("REFUSED"), name);
    return access(path, F_OK) == 0;
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    if (refused("pthread_create")) return EAGAIN;
    return ((__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create"))(thread, how, run, with);
}
int eventfd(unsigned count, int flags) {
    if (refused("eventfd")) return errno = EMFILE, -1;
    return ((__typeof__(&eventfd))dlsym(RTLD_NEXT, "eventfd"))(count, flags);
}
int memfd_create(const char *name, unsigned flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/waits", getenv("REFUSED"));
    if (refused("memfd_create")) close(open(path, O_CREAT | O_WRONLY, 0600));
    while (refused("memfd_create")) usleep(1000);
    return ((int (*)(const char *, unsigned))dlsym(RTLD_NEXT, "memfd_create"))(name, flags);
}
"""


def refusing(folder):
    """Before a command: what REFUSING says, by files in the folder."""
    (folder / "refusing.c").write_text(REFUSING)
    subprocess.run(["clang-19", "-shared", "-fPIC", folder / "refusing.c", "-o", folder / "refusing.so"], check=True)
    return ["env", f"LD_PRELOAD={folder / 'refusing.so'}", f"REFUSED={folder}"]


def test_without_a_thread(folder, artifacts):
    """Where none can be had to prepare a reload, the reload is done all the same, is told of once, and the next one has its thread again."""
    server = Server(folder, prefix=refusing(folder))
    sock = server.connect()
    sock.sendall(b"row 1\nro")
    expect("as it is", receive_line(sock), answer(b"A", 1))

    def reload(name, inline):
        """An edition of its own for the request of which half had come; and how many reloads had no thread."""
        server.use(artifacts[name])
        before = server.stats()["edition"]
        expect(f"a reload to {name}", server.control({"op": "reload", "id": 3}), {"id": 3, "edition": before + 1})
        sock.sendall(b"w 2\nro")
        expect("  has the request of which half had come", receive_line(sock), answer(name.encode(), 2))
        expect("  and those without a thread are counted",
               [(each["reason"], each["count"]) for each in server.stats()["fallbacks"] if each["name"] == "reload-waits"], [(why, inline)])

    why = ("no thread can be had to prepare a reload, so that requests wait for it; "
           "the limit of processes (`ulimit -u`, TasksMax= of a systemd unit) or of open files is met")
    for done, refused in enumerate(("pthread_create", "eventfd")):
        (folder / refused).touch()
        reload("B", 2 * done + 1)
        server.use(b"no artifact")
        expect(f"without {refused}, one that cannot be prepared is refused", server.control({"op": "reload", "id": 4}),
               lambda told: told["id"] == 4 and "not an ELF file" in told["error"])
        (folder / refused).unlink()
        reload("A", 2 * done + 2)
    sock.close()
    expect("ends", server.stop(), 0)
    expect("it is said once", sum("fallback reload-waits" in line for line in server.said), 1)


def test_looks_without_a_thread(folder, artifacts):
    """Where none can be had to look at files, they are looked at all the same, and that is told of once."""
    (folder / "pthread_create").touch()
    server = Server(folder, prefix=refusing(folder))
    write_rows(folder, ord("b"))
    expect("a file that was replaced is opened", server.control({"op": "invalidate", "id": 1}), {"id": 1, "edition": 2})
    with server.connect() as sock:
        sock.sendall(b"row 1\n")
        expect("  and read", receive_line(sock), answer(b"A", 1, ord("b")))
    expect("that requests wait for looks is counted", [each["count"] > 0 for each in server.stats()["fallbacks"] if each["name"] == "looks-wait"], [True])
    (folder / "pthread_create").unlink()
    expect("ends", server.stop(), 0)
    expect("it is said once", sum("fallback looks-wait" in line for line in server.said), 1)


def told_at_the_end(server, control):
    """Who asks for another reload, and whether files are others, and has the daemon stop then: what all are told on that connection, by their ids."""
    control.sendall(b'{"op": "reload", "id": 2}\n{"op": "invalidate", "id": 3}\n{"op": "stats", "id": 4}\n')
    lines = control.makefile()
    if (first := json.loads(lines.readline()))["id"] != 4:
        return first
    server.process.send_signal(signal.SIGTERM)
    return sorted((answer["id"], answer.get("error")) for answer in map(json.loads, lines))


def test_stops_meanwhile(folder, artifacts):
    """A reload that is far from prepared, here for ever, keeps no daemon that is to stop; who waits for it, or behind it, is told."""
    server = Server(folder, prefix=refusing(folder))
    (folder / "memfd_create").touch()
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(str(server.path))
        control.sendall(b'{"op": "reload", "id": 1}\n')
        server.wait_for("a reload is prepared", lambda s: (folder / "waits").exists())
        expect("  who has asked for it, and behind it, is told", told_at_the_end(server, control), [(1, STOPS), (2, STOPS), (3, STOPS)])
    expect("  and nobody waits for it", server.process.wait(timeout=60), 0)
    server.rest.join()
    expect("  which is said", server.said[-1], "stopped after 0 answers; a reload is given up, whose edition is not prepared\n")
    (folder / "memfd_create").unlink()
    server = Server(folder, "--timeout", 60000)
    slow = server.stuck(b"row %d\n" % LONG * 40)
    expect("a reload whose edition before has not ended", server.control({"op": "reload"}).get("edition"), 2)
    for times in (1, 2):
        write_rows(folder, ord("a") + times)
        netns.until("each replacement meanwhile is told of", lambda: sum("a.rows' was replaced" in line for line in server.said) == times)
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.connect(str(server.path))
        expect("  who has asked behind it is told", told_at_the_end(server, control), [(2, STOPS), (3, STOPS)])
    slow.close()
    expect("ends", server.stop(), 0)


def main():
    with_editions(test_without_a_thread, test_looks_without_a_thread, test_stops_meanwhile)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
