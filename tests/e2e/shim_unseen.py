#!/usr/bin/env python3
"""Ways to read that the library cannot see, and says so: rings that a library of the program sets up, wherever that one is found, and POSIX AIO."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from rings import LIBURING  # noqa: E402
from shim import Checks, Server  # noqa: E402

IO_URING, POSIX_AIO = 1, 16
# A library that a program opens, and that is linked to the one with the rings.
USER = "int io_uring_queue_init(unsigned, void*, unsigned); int use(void) { int ring = 0; return io_uring_queue_init(4, &ring, 0) == 0 && ring > 2; }"
HEAD = """
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int io_uring_setup(unsigned, void*); int io_uring_queue_init_params(unsigned, void*, void*);
int io_uring_queue_init(unsigned, void*, unsigned); int io_uring_queue_init_mem(unsigned, void*, void*, void*, unsigned long);
static char b[4096], p[256]; static int ring[128];
static void* has(const char* path, int how) { void* l = dlopen(path, RTLD_NOW | how); if (!l) exit(98); return l; }
int main(int n, char** a) {
    int f = open("a.idx", O_RDONLY);
"""
LINKED = HEAD + """
    switch (atoi(a[1])) {
        case 0: return io_uring_queue_init(4, ring, 0) != 0;
        case 1: return io_uring_queue_init_params(4, ring, p) != 0;
        case 2: return io_uring_queue_init_mem(4, ring, p, 0, 0) != 4096;
        case 3: return io_uring_setup(4, p) < 0;
        case 4: return io_uring_setup(0, p) != -EINVAL;
    }
}
"""
# Opens libraries itself: one that uses the other, for itself and for all, also again when it was closed; nothing at all.
OPENED = HEAD + """
    int (*init)(unsigned, void*, unsigned); void* l;
    switch (atoi(a[1])) {
        case 0: return ((int (*)(void))dlsym(has(a[2], RTLD_LOCAL), "use"))() != 1;
        case 1: return ((int (*)(void))dlsym(has(a[2], RTLD_GLOBAL), "use"))() != 1;
        case 2: init = dlsym(has(a[3], RTLD_LOCAL), "io_uring_queue_init"); return init(4, ring, 0) != 0;
        case 3:
            init = dlsym(RTLD_DEFAULT, "io_uring_queue_init");
            if (init && (init(4, ring, 0) != -ENOSYS || ring[0])) return 2;
            l = has(a[3], RTLD_LOCAL); dlsym(l, "io_uring_queue_init"); dlclose(l);
            init = dlsym(has(a[3], RTLD_GLOBAL), "io_uring_queue_init");
            return init(4, ring, 0) != 0 || ring[0] < 3;
    }
}
"""
AIO = HEAD + """
    struct aiocb one = {.aio_fildes = f, .aio_buf = b, .aio_nbytes = 10, .aio_lio_opcode = LIO_READ}, *list[] = {0, &one}; const struct aiocb* waits[] = {&one};
    struct aiocb64 wide = {.aio_fildes = f, .aio_buf = b, .aio_nbytes = 10, .aio_lio_opcode = LIO_READ}, *wides[] = {&wide}; const struct aiocb64* waits_wide[] = {&wide};
    switch (atoi(a[1])) {
        case 0: for (int i = 0; i < 2; ++i) if (aio_read(&one) || aio_suspend(waits, 1, 0) || aio_return(&one) != 10) return 1; return 0;
        case 1: return aio_read64(&wide) || aio_suspend64(waits_wide, 1, 0) || aio_return64(&wide) != 10;
        case 2: return lio_listio(LIO_WAIT, list, 2, 0) || aio_return(&one) != 10;
        case 3: return lio_listio64(LIO_WAIT, wides, 1, 0) || aio_return64(&wide) != 10;
        case 4: one.aio_fildes = open("b.txt", O_RDONLY); return aio_read(&one) || aio_suspend(waits, 1, 0) || aio_return(&one) != 10;
        case 5: one.aio_lio_opcode = LIO_NOP; return lio_listio(LIO_WAIT, list, 2, 0) || lio_listio(77, (void*)8, 1, 0) != -1 || errno != EINVAL;
    }
}
"""


def compare(checks, data, what, program, case, *words, notes):
    with Server(checks.folder, classes=["*.idx"]) as server:
        done = server.run(program, case, *words, cwd=data, capture_output=True, text=True)
    checks.same(f"{what} {case}: exit code", (done.returncode, done.stdout, done.stderr), (0, "", ""))
    checks.same(f"{what} {case}: notes", {event["source"] for event in server.of("note")}, notes)
    return server


def rings(checks, data):
    library = checks.compile("librings.so", LIBURING, "-shared", "-fPIC")
    found = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    linked = checks.compile("linked", LINKED, *found)
    if subprocess.run([linked, "0"], cwd=data).returncode != 0:
        return print("skipped: rings: there is no io_uring here")
    for case in range(5):
        compare(checks, data, "linked", linked, case, notes={IO_URING} if case < 4 else set())
    user = checks.compile("libuser.so", USER, "-shared", "-fPIC", *found)
    opened = checks.compile("opened", OPENED, "-ldl")
    # What a program looks up in a library that it has opened for itself is that one's.
    for case, notes in enumerate(({IO_URING}, {IO_URING}, set(), {IO_URING})):
        compare(checks, data, "opened", opened, case, user, library, notes=notes)


def liburing(checks, data):
    try:
        program = checks.compile("uring", LINKED, "-luring")
    except subprocess.CalledProcessError:
        return print("skipped: liburing is not installed")
    for case in (0, 1):
        compare(checks, data, "liburing", program, case, notes={IO_URING})


def aio(checks, data):
    program = checks.compile("aio", AIO)
    for case in range(6):
        server = compare(checks, data, "POSIX AIO", program, case, notes={POSIX_AIO} if case < 4 else set())
        checks.true("POSIX AIO is told of once", len(server.of("note")) <= 1)


def main():
    checks = Checks()
    data = checks.folder / "data"
    data.mkdir()
    for name in ("a.idx", "b.txt"):
        (data / name).write_bytes(bytes(10000))
    rings(checks, data)
    liburing(checks, data)
    aio(checks, data)
    checks.finish()


if __name__ == "__main__":
    main()
