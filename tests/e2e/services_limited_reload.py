#!/usr/bin/env python3
"""A daemon whose cgroup has memory for one edition and not for two: a reload is refused and changes nothing, and what cannot begin says why."""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from cgroup import Limited  # noqa: E402
from daemon import Daemon, NotServed  # noqa: E402
from runs import BUILD, ROOT, expect  # noqa: E402

# What std/store.chain takes, 8 MiB and the 64 of its cache, fits once beside the program.
LIMIT, ENOUGH = 140 << 20, 400 << 20
RESERVED = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")


class Store(Daemon):
    FILE = "store", "main.store"

    def value(self):
        """Of the one key, and what an error says instead."""
        answer = self.control({"chain": "find", "args": {"store": "main.store", "key": "name"}})
        return bytes.fromhex(answer["hex"])[20:].decode() if "hex" in answer else answer


def build(folder, value):
    (folder / "data.tsv").write_text(f"name\t{value}\n")
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", folder / "main.store", "--from", folder / "data.tsv"], check=True, stdout=subprocess.DEVNULL)


def refused(limited, blocks, of_limit):
    """Whether a text says that so many MiB are more than there is, of the limit or of what is left of it."""
    left = "" if of_limit else r"the \d+ MiB that are left for it of "
    pattern = re.compile(fr"{blocks} MiB of block memory \(--memory\) and 64 MiB for the caches of file classes, most of it of 'store', are more than {left}the {LIMIT >> 20} MiB of "
                         fr"'{limited.path / limited.limit}' \(a container's limit, or MemoryMax= of a systemd unit\); ask for less")
    return lambda text: pattern.fullmatch(text) is not None


def ends_at_the_start(what, folder, limited, right, *options):
    try:
        Store(folder / "app.o", *options, prefix=limited.command()).stop()
        expect(what, "it serves", "refused")
    except NotServed as refusal:
        expect(what, (refusal.code, str(refusal)), lambda told: told[0] == 3 and right(told[1].rstrip("\n").split("chainio-runtime: ")[1]))


def test_reload(folder, limited):
    build(folder, "old")
    server = Store(folder / "app.o", prefix=limited.command())
    expect("as it is", server.value(), "old")
    expect("a reload is refused", server.control({"op": "reload"}).get("error", "done"), refused(limited, 8, False))
    build(folder, "new")
    server.control({"op": "invalidate"})  # looks at the files at once
    expect("so is one for a store that was replaced", server.all_stats()["reloads"],
           lambda reloads: reloads["done"] == 0 and reloads["refused"] >= 2 and "was replaced) is refused: " in reloads["last"])
    expect("  for the same reason", server.all_stats()["reloads"]["last"].split("is refused: ")[-1], refused(limited, 8, False))
    expect("  and the store from before is read", server.value(), "old")
    ends_at_the_start("another daemon has no memory beside it", folder, limited, refused(limited, 8, False))
    limited.set(ENOUGH)
    expect("with enough a reload is done", server.control({"op": "reload"}).get("edition"), 2)
    expect("  and the new store is read", server.value(), "new")
    expect("ends", server.stop(), 0)
    limited.set(LIMIT)


def test_start(folder, limited):
    ends_at_the_start("more than the limit", folder, limited, refused(limited, 400, True), "--memory", "400MiB")
    ends_at_the_start("the limit without room for the program", folder, limited, refused(limited, 70, False), "--memory", "70MiB")


def main():
    with Limited(LIMIT) as limited, tempfile.TemporaryDirectory() as name:
        why_not = limited.why_not
        if RESERVED.exists() and RESERVED.read_text().strip() != "0":
            why_not = "memory comes from huge pages that are reserved, which no cgroup limits"
        if why_not:
            print(f"skipped: {why_not}")
            return 77
        folder = pathlib.Path(name)
        subprocess.run([BUILD / "bin" / "chainc", ROOT / "stdlib-chains/std/store.chain", "-I", ROOT / "stdlib-chains", "-o", folder / "app.o"], check=True)
        test_reload(folder, limited)
        test_start(folder, limited)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
