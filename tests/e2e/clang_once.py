#!/usr/bin/env python3
"""What stands for clang in the tests of a check gives what clang would, and asks it once for each text and its options."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import BUILD, ROOT, expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for %s }\n'
TEXT = ["-x", "c", "-nostdinc", "-c", "text.c", "-o", "text.o"]
ITS_OWN = str(ROOT / "build" / "check" / "clang")  # of the check that runs this test


class Clang:
    """The one that stands for clang, in front of one that counts how often it is asked."""
    def __init__(self, folder):
        self.folder, self.log = folder / "once", folder / "log"
        self.plain = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != ITS_OWN)
        (self.folder / "kept").mkdir(parents=True)
        counts = folder / "counts"
        counts.write_text(f'#!/bin/sh\necho >> {self.log}\nexec {shutil.which("clang-19", path=self.plain)} "$@"\n')
        counts.chmod(0o755)
        (self.folder / "real").write_text(f"{counts}\n")
        shutil.copy(ROOT / "tools" / "checks" / "clang_once", self.folder / "clang-19")
        self.log.touch()

    def asked(self, do):
        """What was done, and how often the real one was asked for it."""
        before = len(self.log.read_text())
        return do(), len(self.log.read_text()) - before

    def chainc(self, path, spec, *options):
        done = subprocess.run([BUILD / "bin" / "chainc", "-", "-o", "-", *options], input=spec.encode(), capture_output=True, env={**os.environ, "PATH": path})
        return done.returncode, done.stdout

    def with_it(self, *words):
        return self.chainc(f"{self.folder}{os.pathsep}{self.plain}", *words)


def test_chainc(clang):
    for what, words, is_known in (("a spec", (SPEC % "4KiB",), False), ("the same", (SPEC % "4KiB",), True), ("another one", (SPEC % "8KiB",), False),
                                  ("other options", (SPEC % "4KiB", "-O", "1"), False), ("the first once more", (SPEC % "4KiB",), True)):
        made, count = clang.asked(lambda words=words: clang.with_it(*words))
        expect(f"{what}: what clang makes of it", made == clang.chainc(clang.plain, *words) and made[0] == 0, True)
        expect("  which it is asked for", count, (lambda count: count == 0) if is_known else (lambda count: count > 0))


def test_texts(clang, folder):
    def run(words):
        done = subprocess.run([clang.folder / "clang-19", *words], cwd=folder, capture_output=True)
        out = folder / "text.o"
        made = out.read_bytes() if out.exists() else b""
        out.unlink(missing_ok=True)
        return done.returncode, made, done.stderr

    text = folder / "text.c"
    text.write_text("int a(void) { return 1; }")
    expect("a text that is whole is kept", [clang.asked(lambda: run(TEXT))[1] for _ in range(2)], [1, 0])
    text.write_text('#include "more.h"\nint b(void) { return MORE; }')
    made = []
    for more in ("1", "2"):
        (folder / "more.h").write_text(f"#define MORE {more}\n")
        made.append(clang.asked(lambda: run(TEXT)))
    expect("one that includes another is not", (made[0][0] != made[1][0], made[0][1], made[1][1]), (True, 1, 1))
    text.write_text("int c(void) { return }")
    failed = [clang.asked(lambda: run(TEXT)) for _ in range(2)]
    expect("nor is a failure, of which clang says the same", failed, lambda all: all[0] == all[1] and all[0][1] == 1 and all[0][0][0] == 1 and b"text.c:1" in all[0][0][2])
    text.write_text("int a(void) { return 1; }")
    for words in (["--version"], [*TEXT, "-v"], [word for word in TEXT if word != "-nostdinc"]):
        expect(f"nor {' '.join(words)}", [clang.asked(lambda words=words: run(words))[1] for _ in range(2)], [1, 1])


def test_check_in_check(clang, folder):
    """Of a check that a test runs: what stands in front of its clang already stays as it is, and is not wrapped once more."""
    prepare = "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import report; report.LOGS = pathlib.Path(sys.argv[2]); import clang; clang.prepare(); print(clang.folder)"
    logs, kept = folder / "logs", sorted((clang.folder / "kept").iterdir())
    for what, path, wanted in (("one that has what stands for clang", f"{clang.folder}{os.pathsep}{clang.plain}", None), ("one that has not", clang.plain, logs / "clang")):
        done = subprocess.run([sys.executable, "-B", "-c", prepare, ROOT / "tools" / "checks", logs], capture_output=True, text=True, env={**os.environ, "PATH": path})
        expect(f"a check, {what}", (done.stdout.strip(), (logs / "clang" / "clang-19").exists(), sorted((clang.folder / "kept").iterdir())),
               (str(wanted), wanted is not None, kept))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clang = Clang(folder)
        test_chainc(clang)
        test_texts(clang, folder)
        test_check_in_check(clang, folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
