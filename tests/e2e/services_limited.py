#!/usr/bin/env python3
"""A store that is larger than the memory which the daemon may have (a cgroup's limit): every value of it is asked for, and right."""
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from cgroup import Limited  # noqa: E402
from daemon import Daemon  # noqa: E402
from netns import until  # noqa: E402
from runs import BUILD, ROOT, expect  # noqa: E402

# More than the blocks that std/memcached.chain keeps (64 MiB), the engine's memory and the program take, which are never given back.
LIMIT, ITEMS, LENGTH, SEED, AT_ONCE = 160 << 20, 80000, 4000, 20285, 50
FULL = 0.9 * LIMIT


class Kv(Daemon):
    FILE = "values", "main.store"


def key(number):
    return b"key%08d" % number


def value(number):
    return (b"%08d " % number) * (LENGTH // 9)


def verified(server, order):
    """How many of the items came back right, each asked for once."""
    right = 0
    with socket.create_connection(("127.0.0.1", server.ports["memcached", "tcp"]), timeout=60) as sock:
        stream = sock.makefile("rb")
        for first in range(0, len(order), AT_ONCE):
            some = order[first:first + AT_ONCE]
            sock.sendall(b"get " + b" ".join(key(n) for n in some) + b"\r\n")
            want = b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (key(n), len(value(n)), value(n)) for n in some) + b"END\r\n"
            right += len(some) if stream.read(len(want)) == want else 0
    return right


def is_full(limited, path):
    """Whether the limit was reached. Where somebody has the kernel drop what it keeps of files, the daemon alone is too slow for that: another one of the
    group reads as well."""
    if limited.most() <= FULL:
        subprocess.run([*limited.command(), "cat", path], stdout=subprocess.DEVNULL, check=True)
    return limited.most() > FULL


def main():
    # /tmp may be memory.
    with Limited(LIMIT) as limited, tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        if limited.why_not:
            print(f"skipped: {limited.why_not}")
            return 77
        folder = pathlib.Path(name)
        with open(folder / "data.tsv", "wb") as data:
            for n in range(ITEMS):
                data.write(key(n) + b"\t" + value(n) + b"\n")
        subprocess.run([BUILD / "bin" / "chainio", "store", "build", folder / "main.store", "--from", folder / "data.tsv"], check=True,
                       stdout=subprocess.DEVNULL)
        (folder / "data.tsv").unlink()
        subprocess.run([BUILD / "bin" / "chainc", ROOT / "stdlib-chains/std/memcached.chain", "-I", ROOT / "stdlib-chains", "-o", folder / "app.o"], check=True)
        size = (folder / "main.store").stat().st_size
        expect("the store is larger than the memory that the daemon may have", size > 1.5 * LIMIT, True)
        # What building it has left in memory would be nobody's in the group.
        fd = os.open(folder / "main.store", os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        server = Kv(folder / "app.o", "--bind", "127.0.0.1", "--port", "memcached=0", prefix=limited.command())
        order = list(range(ITEMS))
        random.Random(SEED).shuffle(order)
        expect(f"all {ITEMS} values", verified(server, order), ITEMS)
        until("the limit is reached", lambda: is_full(limited, folder / "main.store"))
        expect("  and kept", limited.most(), lambda most: most <= LIMIT + (4 << 20))  # the kernel goes over it where it must not fail
        random.Random(SEED + 1).shuffle(order)
        expect("and some of them once more", verified(server, order[:10000]), 10000)
        stats = server.all_stats()
        expect("no request has failed", sum(each["failed"] for each in stats["services"]), 0)
        expect("ends", server.stop(), 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
