#!/usr/bin/env python3
"""Go programs make their system calls without libc: with --rewrite their reads are seen, shadow chains hit, and nothing else is otherwise."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import orders
import runs
from runs import chain, drop_from_memory, expect

HERE = pathlib.Path(__file__).resolve().parent
SQLITE = ["--spec", "std/sqlite.chain"]


def build(folder, name, *flags):
    """Compiled packages of the Go library are kept from one run of the test to the next."""
    out = folder.path / name
    subprocess.run(["go", "build", *flags, "-o", out, str(HERE / "support" / "go" / "main.go")], check=True, timeout=600, cwd=folder.path,
                   env={**os.environ, "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "1", "GOCACHE": str(runs.ROOT / "build" / "go-cache")})
    return out


def cold(folder, options, command, db, enough=lambda summary: True):
    """As often as it takes for the server to have done enough: on a loaded machine it may come too late."""
    drop_from_memory(db)
    plain = subprocess.run(command, capture_output=True, timeout=runs.LONGEST)
    for _ in runs.tries():
        drop_from_memory(db)
        done, summary = folder.summarized(options, command)
        expect("  the answer is the same", (done.returncode, done.stdout, done.stderr), (plain.returncode, plain.stdout, plain.stderr))
        if enough(summary):
            break
    return plain.stdout.split(), summary


def test_range(folder, program, db, roots):
    command = [program, "range", db, roots["orders_by_customer"], roots["orders"], 700, 719]
    answer, summary = cold(folder, [*SQLITE, "--rewrite"], list(map(str, command)), db,
                           lambda s: chain(s, "follow_index")["hits"] > 100 and chain(s, "follow_index")["walks"] > 500 and s["classes"][0]["reads"] > 2000)
    expect("  of all rows", answer[0], str(20 * orders.ROWS // orders.CUSTOMERS).encode())
    follow, rewritten = chain(summary, "follow_index"), summary["rewritten"]
    expect("  rows were read ahead and hit", follow, lambda c: c["walks"] > 500 and c["hits"] > 100 and c["failed"] == 0)
    expect("  each read was seen", summary["classes"][0], lambda c: c["opened"] == 1 and c["reads"] > 2000)
    expect("  by rewritten calls", rewritten, lambda r: r["programs"] == 1 and r["sites"] >= 5 and r["others"] > 20 and r["calls"] > 2000 and r["missed"] == 0)
    expect("  nothing was refused", [note for note in summary["notes"] if "not seen" in note], [])
    _, summary = cold(folder, SQLITE, list(map(str, command)), db)
    expect("without --rewrite nothing is seen", (summary["classes"][0]["reads"], "rewritten" in summary), (0, False))


def test_stress(folder, program, file):
    plain = subprocess.run([program, "stress", file], capture_output=True, timeout=600)
    expect("the runtime under load, plainly", (plain.returncode, plain.stdout.split()[0], plain.stdout.split()[2:]), (0, b"3600", [b"true"] * 3))
    for _ in range(2):
        done, summary = folder.summarized(["--spec", "notes.chain", "--rewrite", "--no-gate"], [program, "stress", file])
        expect("the runtime under load", (done.returncode, done.stdout, done.stderr), (plain.returncode, plain.stdout, plain.stderr))
        rewritten = summary["rewritten"]
        expect("  its children are rewritten, too", rewritten, lambda r: r["programs"] == 11 and r["calls"] > 50_000)
        expect("  its reads were seen", summary["classes"][0], lambda c: c["opened"] > 100 and c["reads"] > 1_000)
        expect("  few calls were not looked at", rewritten["missed"], lambda missed: missed <= 5)


def test_stripped(folder, file):
    """Go's own table says where functions are; some linkers leave no addresses in it when the program is position-independent."""
    for name in ("reader", "position-independent"):
        stripped, said = folder.path / "stripped", []
        subprocess.run(["strip", "-o", stripped, folder.path / name], check=True)
        for program in (folder.path / name, stripped):
            done, summary = folder.summarized(["--spec", "notes.chain", "--rewrite", "--no-gate"], [program, "again", file])
            said.append((done.returncode, done.stdout, summary["rewritten"]["sites"], summary["classes"][0]["opened"]))
        unseen = any("it has no symbols" in note for note in summary["notes"])
        expect(f"{name}, stripped", (said[1], name == "reader" and unseen), ((0, said[0][1], 0, 0) if unseen else said[0], False))


def main():
    if platform.machine() != "x86_64" or not shutil.which("go"):
        print("skipped: " + ("there is no go" if platform.machine() == "x86_64" else "system calls are rewritten on x86-64 only"))
        sys.exit(77)
    with runs.Folder() as folder:
        (folder.path / "notes.chain").write_text('files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n')
        file = folder.path / "a.note"
        file.write_bytes(b"".join(b"line %06d\n" % (i * 7919 % 100_003) for i in range(30_000)))
        db = folder.path / "orders.db"
        roots = orders.make(db)
        for name, flags in (("reader", ()), ("position-independent", ("-buildmode=pie",))):
            print(f"a Go program: {name}")
            program = build(folder, name, *flags)
            test_range(folder, program, db, roots)
            test_stress(folder, program, file)
        test_stripped(folder, file)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
