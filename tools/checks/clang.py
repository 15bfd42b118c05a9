"""Has clang compile each text that chainc gives it once a check, however many tests do."""
import os
import pathlib
import shutil

import report

NAME = "clang-19"  # the one that chainc looks for first
folder = None  # where what stands for it lies


def prepare():
    """Puts what stands for clang beside the logs. What an earlier check has kept is forgotten: it may be another clang's. A check that a test runs has
    what the check around it has."""
    global folder
    real = shutil.which(NAME)
    if real is None or pathlib.Path(real).with_name("real").exists():
        return
    folder = report.LOGS / "clang"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kept").mkdir(parents=True)
    (folder / "real").write_text(f"{real}\n")
    shutil.copy(report.ROOT / "tools" / "checks" / "clang_once", folder / NAME)


def for_tests():
    """The environment of tests. Builds have the real clang."""
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"} if folder else dict(os.environ)
