"""First inputs of the fuzzers: the library and the examples, in the form that each target reads."""
import concurrent.futures
import shutil
import struct
import subprocess

import clang
from report import JOBS, LOGS, ROOT

CHAINC = ROOT / "build" / "release" / "bin" / "chainc"
SECONDS = 600  # of one spec
SPEC_SECTION = b".chainio.spec"


def section(elf, wanted):
    """The bytes of a section of a 64-bit little-endian ELF file; None when it has none of that name."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + entry_size * i) for i in range(count)]
    names_at = headers[names][4]
    for name, _, _, _, offset, size in headers:
        end = elf.index(b"\0", names_at + name)
        if elf[names_at + name:end] == wanted:
            return elf[offset:offset + size]
    return None


def chainc(spec, *options):
    done = subprocess.run([CHAINC, spec, "-I", ROOT / "stdlib-chains", *options], capture_output=True, timeout=SECONDS, env=clang.for_tests())
    return done.stdout if done.returncode == 0 else None


def forms_of(spec, scratch, *options):
    """(target, bytes) of one spec, compiled with these options."""
    yield from ((target, spec.read_bytes()) for target in ("fuzz_chain", "fuzz_check"))
    yaml = chainc(spec, "--emit=yaml")
    if yaml:
        yield "fuzz_yaml", yaml
        yield "fuzz_check", yaml
    out = scratch / f"{spec.parent.name}-{spec.stem}.o"
    if chainc(spec, "-o", out, *options) is None:
        return
    elf = out.read_bytes()
    yield "fuzz_elf", elf
    configuration = section(elf, SPEC_SECTION)
    if configuration:
        yield from ((target, configuration) for target in ("fuzz_artifact", "fuzz_ir"))


def make_seeds():
    """Fills build/check/seeds/TARGET/ anew; gives that folder. Without chainc it stays empty."""
    folder = LOGS / "seeds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not CHAINC.exists():
        return folder
    specs = sorted([*(ROOT / "stdlib-chains").rglob("*.chain"), *(ROOT / "examples").rglob("*.chain")])

    def put(spec):
        # Native code is the same sections whatever is in it, and half of the work: one seed has it.
        for number, (target, data) in enumerate(forms_of(spec, folder, *(() if spec == specs[0] else ("--native=none",)))):
            (folder / target).mkdir(exist_ok=True)
            (folder / target / f"{spec.parent.name}-{spec.stem}-{number}").write_bytes(data)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(put, specs))
    return folder
