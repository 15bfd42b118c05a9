"""A lit configuration for specs: `lit -v examples`. Copy it beside your own; docs/testing-your-specs.md explains it."""
import inspect
import os
import pathlib
import shutil

import lit.formats

here = pathlib.Path(__file__).resolve().parent
# A build tree of this repository, or nothing when chainc and chainio are on PATH.
build = pathlib.Path(os.environ.get("CHAINIO_BUILD", here.parent / "build" / "release"))


def tool(*names):
    for name in names:
        found = shutil.which(name, path=f"{build / 'bin'}:{os.environ.get('PATH', '')}")
        if found:
            return found
    lit_config.fatal(f"{names[0]} is neither in {build}/bin nor on PATH; set CHAINIO_BUILD, or install it")


config.name = "specs"
insist = {"force_execute_external": True} if "force_execute_external" in inspect.signature(lit.formats.ShTest.__init__).parameters else {}
config.test_format = lit.formats.ShTest(execute_external=True, **insist)
config.suffixes = [".lit"]
config.test_source_root = str(here)
# Without a build tree what tests write is in `Output` beside them.
config.test_exec_root = os.environ.get("LIT_OUTPUT", str(build / "lit-specs" if (build / "bin").is_dir() else here))
config.environment["PATH"] = os.environ.get("PATH", "/usr/bin:/bin")
config.environment["CHAINC"] = tool("chainc")
config.substitutions += [
    ("%chainc", tool("chainc")),
    ("%chainio", tool("chainio")),
    ("%filecheck", tool("FileCheck-19", "FileCheck-18", "FileCheck")),
]
