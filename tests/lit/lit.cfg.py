"""The lit configuration of the compiler's tests: `lit -v tests/lit` from a clone that is built. See README.md beside this."""
import inspect
import os
import pathlib
import shutil

import lit.formats

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent


def tool(name, *others):
    """The program's path; a clear end when it is missing, because every test would fail for that one reason."""
    for candidate in (name, *others):
        found = shutil.which(str(candidate))
        if found:
            return found
    lit_config.fatal(f"{name} is missing: build first (cmake --preset release && cmake --build build/release), or set CHAINIO_BUILD")


build = pathlib.Path(os.environ.get("CHAINIO_BUILD", root / "build" / "release")).resolve()
chainc = tool(build / "bin" / "chainc")
filecheck = tool("FileCheck-19", "FileCheck", "/usr/lib/llvm-19/bin/FileCheck")

config.name = "chainio"
# The tests use loops and substitutions of a real shell. Newer releases of lit want that said twice.
insist = {"force_execute_external": True} if "force_execute_external" in inspect.signature(lit.formats.ShTest.__init__).parameters else {}
config.test_format = lit.formats.ShTest(execute_external=True, **insist)
config.suffixes = [".chain", ".yaml", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = str(here)
config.test_exec_root = str(build / "lit")

config.environment["PATH"] = os.environ.get("PATH", "/usr/bin:/bin")
config.environment["CHAINC"] = chainc
config.environment["NO_COLOR"] = "1"
for name in ("CHAINIO_REGEN", "ASAN_OPTIONS", "UBSAN_OPTIONS", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# A longer word comes before one that it begins with: lit replaces them in this order.
config.substitutions += [
    ("%chainc", chainc),
    ("%chainio_runtime", str(build / "bin" / "chainio-runtime")),
    ("%chainio_sites", str(build / "bin" / "chainio-sites")),
    ("%chainio", str(build / "bin" / "chainio")),
    ("%filecheck", filecheck + " --dump-input-context=20"),
    ("%stdlib", str(root / "stdlib-chains")),
    ("%examples", str(root / "examples")),
    ("%root", str(root)),
    ("%not", str(here / "bin" / "not")),
    ("%golden", str(here / "bin" / "golden")),
    ("%refused", str(here / "bin" / "refused")),
]

if os.access("/sys/kernel/btf/vmlinux", os.R_OK) and os.geteuid() == 0:
    config.available_features.add("root")
if os.geteuid() == 0:
    config.available_features.add("can-drop-privileges")
