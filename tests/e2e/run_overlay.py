#!/usr/bin/env python3
"""Files of an overlay, as the root of a container is one: they have their pages and their disk elsewhere. What is in memory is not fetched, nor told of as saved."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from orders import make
from runs import chain, drop_from_memory, expect

PAGE, PAGES = 4096, 1024
QUERIES = "".join(f"SELECT sum(length(item)) FROM orders INDEXED BY orders_by_customer WHERE customer = {number};" for number in range(150))
# Who reads a page is shown two beside each other, and what it comes to next.
NEIGHBOURS = """files notes = "*.note"
chain beside on read(notes) as r { prefetch r.file at 2MiB for 4KiB  prefetch r.file at 2MiB + 4KiB for 4KiB }
"""
NEXT = """files notes = "*.note"
chain next on read(notes) as r { prefetch r.file at r.offset + 64KiB for 64KiB }
"""
READER = """import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for at in range(int(sys.argv[2])): os.pread(fd, 4096, at * 4096)
"""


def saved(summary):
    return sum(each["saved_ns"] for each in summary["chains"])


class Overlay:
    def __init__(self, folder):
        self.folder, self.top = folder, folder.path / "top"
        for name in ("lower", "upper", "work", "top"):
            (folder.path / name).mkdir()
        self.note = self.top / "a.note"
        (folder.path / "lower" / "a.note").write_bytes(os.urandom(PAGES * PAGE))
        make(folder.path / "lower" / "orders.db")
        layers = ",".join(f"{name}dir={folder.path / name}" for name in ("lower", "upper", "work"))
        done = subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", self.top], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"skipped: no overlay can be mounted here: {done.stderr.strip()}")
            sys.exit(77)

    def spec(self, text):
        path = self.folder.path / "a.chain"
        path.write_text(text)
        return path

    def read(self, text, pages, options=()):
        return self.folder.summarized(["--spec", self.spec(text), *options], [sys.executable, "-c", READER, self.note, pages])


def test_warm(overlay):
    db = overlay.top / "orders.db"
    for layer in ("lower", "upper"):
        with runs.held_in_memory(db):
            for _ in runs.tries():  # of a program that has ended before the server has come nothing is asked for any more
                done, summary = overlay.folder.summarized(["--spec", "std/sqlite.chain"], ["sqlite3", db, QUERIES])
                follow = chain(summary, "follow_index")
                expect(f"warm, of the {layer} folder: the queries ran", (done.returncode, done.stdout.count(b"\n"), done.stderr), (0, 150, b""))
                expect("  nothing was fetched or is said to be saved", (follow["fetches"], saved(summary)), (0, 0))
                if follow["cached"] > 0:
                    break
            expect("  what was asked for was in memory", follow["cached"], lambda cached: cached > 0)
        os.close(os.open(db, os.O_RDWR))  # which copies it into the upper folder


def test_cold(overlay):
    for _ in runs.tries():
        drop_from_memory(overlay.note)
        _, summary = overlay.read(NEIGHBOURS, 64, ["--no-gate"])
        if chain(summary, "beside")["fetches"] > 0:
            break
    expect("cold: neighbours are fetched as one", (chain(summary, "beside")["fetches"], chain(summary, "beside")["fetched_bytes"]), (1, 2 * PAGE))


def test_in_order(overlay):
    for _ in runs.tries():
        drop_from_memory(overlay.note)
        _, summary = overlay.read(NEXT, PAGES, ["--no-gate"])
        if chain(summary, "next")["hits"] > 0:
            break
    expect("in order: what the kernel reads ahead anyway is no saving", (chain(summary, "next")["hits"] > 0, saved(summary)), (True, 0))


def test_untold(overlay):
    """A file that is somebody else's: what of it is in memory the kernel does not tell."""
    user, home = 65534, overlay.folder.path / "home"
    home.mkdir(exist_ok=True)
    os.chown(home, user, user)
    for path in (overlay.folder.path, overlay.top):
        path.chmod(0o755)
    overlay.note.read_bytes()
    summary = home / "summary.json"
    words = overlay.folder.command(["--spec", overlay.spec(NEIGHBOURS), "--json", "--summary", summary, "--no-gate"], [sys.executable, "-c", READER, overlay.note, 64])
    for _ in runs.tries():
        done = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words], capture_output=True, timeout=runs.LONGEST, cwd=home,
                              env={**overlay.folder.environment, "XDG_CACHE_HOME": str(home), "XDG_RUNTIME_DIR": str(home), "HOME": str(home), "TMPDIR": str(home)})
        if done.returncode != 0 and b"Permission denied" in done.stderr:
            print("skipped: what was built may not be read by somebody else")
            return
        told = json.loads(summary.read_text())
        if chain(told, "beside")["fetches"] > 0:
            break
    expect("of somebody else: it ran", (done.returncode, done.stderr), (0, b""))
    expect("  what was there is fetched, and no saving", (chain(told, "beside")["hits"] + chain(told, "beside")["wasted"] > 0, saved(told)), (True, 0))
    expect("  and the summary says why", told["notes"], lambda notes: any("only its owner" in note for note in notes))


def main():
    if os.geteuid() != 0:
        print("only root may mount an overlay")
        sys.exit(77)
    missing = [name for name in ("unshare", "setpriv", "sqlite3") if not shutil.which(name)]
    if missing:
        print(f"{missing[0]} is not installed")
        sys.exit(77)
    if sys.argv[1:] != ["apart"]:
        os.execvp("unshare", ["unshare", "--mount", sys.executable, __file__, "apart"])
    with runs.Folder() as folder:
        overlay = Overlay(folder)
        try:
            for test in (test_warm, test_cold, test_in_order, test_untold):
                test(overlay)
        finally:
            subprocess.run(["umount", overlay.top], check=True)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
