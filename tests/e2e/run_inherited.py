#!/usr/bin/env python3
"""chainio run and what is inherited: by the program from whoever started chainio, and by the program's children from it."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import BUILD, CHAINC, expect

SPEC = 'files notes = "*.note"\nchain ahead on read(notes) as r { prefetch r.file at r.offset + r.length for 4KiB }\n'
MUSL, MUSL_LOADER = pathlib.Path("/usr/lib/x86_64-linux-musl"), "/lib/ld-musl-x86_64.so.1"


def test_other_libc(folder, spec):
    """A child of another C library, which cannot load ours."""
    source = folder.path / "musl.c"
    source.write_text('int puts(const char*);\nint main(void) { puts("musl"); return 9; }\n')
    subprocess.run(["clang-19", "-nostdlib", "-no-pie", f"-Wl,-dynamic-linker,{MUSL_LOADER}", "-o", folder.path / "musl", MUSL / "crt1.o", MUSL / "crti.o", source,
                    f"-L{MUSL}", "-Wl,-Bdynamic", "-lc", MUSL / "crtn.o"], check=True, timeout=runs.LONGEST)
    shell = ["sh", "-c", "cat a.note > /dev/null; ./musl; echo $?; cat a.note > /dev/null"]
    done, summary = folder.summarized(spec, shell)
    expect("a child of musl runs, and ends with its own code", (done.returncode, done.stdout, done.stderr), (0, b"musl\n9\n", b""))
    expect("while those of glibc are seen", (summary["plain"], summary["classes"][0]["opened"]), (None, 2))
    copy = folder.path / "copy.so"
    shutil.copy(BUILD / "lib" / "libchainio.so", copy)
    done, summary = folder.summarized([*spec, "--library", copy], ["cat", "a.note"])
    expect("a copy of the library elsewhere is preloaded as it is", (done.returncode, summary["classes"][0]["opened"]), (0, 1))


def main():
    with runs.Folder() as folder:
        (folder.path / "good.chain").write_text(SPEC)
        (folder.path / "a.note").write_bytes(b"n" * 100_000)
        subprocess.run([CHAINC, "good.chain", "-o", "good.o"], cwd=folder.path, check=True, timeout=runs.LONGEST)
        folder.run(["--spec", "good.chain"], ["true"])  # fills the cache
        # An artifact is the whole program's from the start; a source from the cache the launcher's.
        for spec in (["--spec", "good.o"], ["--spec", "good.chain"]):
            for test in (test_other_libc,):
                test(folder, spec)
    sys.exit(1 if runs.failures else 0)


if __name__ == "__main__":
    main()
