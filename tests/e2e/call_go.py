#!/usr/bin/env python3
"""A program in Go calls chains by cgo, as docs/runtime.md says: many goroutines, each with a handle and a thread."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from runs import BUILD, ROOT, expect  # noqa: E402

SPEC = """
files rows = "*.rows"
chain row(file: file rows, number: u64, tag: bytes(max 8)) -> bytes(max 16) { step s(b: block at number * 8 for 8) { emit tag, b } }
"""


def built(folder, change):
    """The program, with a word of its text exchanged."""
    folder.mkdir()
    text = (ROOT / "tests" / "e2e" / "support" / "call_go" / "main.go").read_text()
    (folder / "main.go").write_text(text.replace(*change))
    flags = {"CGO_CFLAGS": f"-I{ROOT / 'runtime' / 'bindings' / 'include'}", "CGO_LDFLAGS": f"-L{BUILD / 'lib'} -lchainio-call -Wl,-rpath,{BUILD / 'lib'}"}
    subprocess.run(["go", "build", "-o", folder / "called", folder / "main.go"], check=True, timeout=600, cwd=folder,
                   env={**os.environ, "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "1", "GOCACHE": str(ROOT / "build" / "go-cache"), **flags})
    return folder / "called"


def main():
    for name in ("go", "cc"):
        if not shutil.which(name):
            print(f"there is no {name}")
            return 77
    if not (BUILD / "lib" / "libchainio-call.so.0").exists():
        print("libchainio-call is not built")
        return 77
    with tempfile.TemporaryDirectory(dir=BUILD) as name:  # on a disk, so that reads are waited for
        folder = pathlib.Path(name)
        (folder / "app.chain").write_text(SPEC)
        (folder / "a.rows").write_bytes(random.Random(1).randbytes(8 * 2000))
        subprocess.run([BUILD / "bin" / "chainc", folder / "app.chain", "-o", folder / "app.o"], check=True)
        run = lambda program: subprocess.run([program, folder / "app.o", folder / "a.rows"], capture_output=True, text=True, timeout=runs.LONGEST)
        done = run(built(folder / "locked", ("", "")))
        expect("each goroutine has a thread", (done.returncode, done.stdout, done.stderr), (0, "done\n", ""))
        if runs.is_memory(name):
            print("skipped: a goroutine that changes its thread: files of the build tree lie in memory, where no read is waited for")
            return runs.ended()
        free = built(folder / "free", ("LockOSThread()", "Gosched()"))
        told = "io_uring_enter: File exists (an engine belongs to the thread that reaped first)"
        said = next((said for _ in runs.tries() if told in (said := run(free).stdout.splitlines())), None)
        expect("  without, one of them is told of that", (said is not None, set(said or ()) - {told, "done"}), (True, set()))
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
