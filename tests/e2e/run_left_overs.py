#!/usr/bin/env python3
"""What killed runs have left is removed by the next one, wherever that keeps its own."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from runs import expect  # noqa: E402

SPEC = """files notes = "*.note"
chain head on read(notes) as r { prefetch r.file at 0 for 4KiB }
"""


def leave_behind(base):
    """As of a process that is there no more: Folders of ours that are in nobody's hands."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    made = pathlib.Path(tempfile.mkdtemp(prefix=f"chainio-run.{gone.pid}.", dir=base))
    for name in ("region", "plan"):
        (made / name).write_bytes(b"left")
    return made


def main():
    with runs.Folder() as folder:
        (folder.path / "notes.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        own = folder.path / "own"
        own.mkdir(mode=0o700)
        folder.environment["XDG_RUNTIME_DIR"] = str(own)
        folder.run(["--spec", "notes.chain", "--quiet"], ["true"])  # the spec is in the cache from here on
        for program, bases in ((["true"], [own, "/dev/shm"]), (["cat", "a.note"], [own, "/dev/shm", "/tmp"])):
            left = [leave_behind(base) for base in bases]
            done = folder.run(["--spec", "notes.chain", "--quiet"], program)
            expect(f"{program[0]}: the program has run", (done.returncode, done.stderr), (0, b""))
            expect("  what was left is gone", [str(each) for each in left if each.exists()], [])
            expect("  and nothing of its own is left", os.listdir(own), [])
            for each in left:
                subprocess.run(["rm", "-rf", each], check=True)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
