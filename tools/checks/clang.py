"""Has clang compile each text that chainc gives it once a check, however many tests do."""
import os
import shutil

from report import LOGS, ROOT

FOLDER = LOGS / "clang"
NAME = "clang-19"  # the one that chainc looks for first
prepared = False


def prepare():
    """Puts what stands for clang into build/check/clang. What an earlier check has kept is forgotten: it may be another clang's."""
    global prepared
    shutil.rmtree(FOLDER, ignore_errors=True)
    real = shutil.which(NAME)
    if real is None:
        return
    (FOLDER / "kept").mkdir(parents=True)
    (FOLDER / "real").write_text(f"{real}\n")
    shutil.copy(ROOT / "tools" / "checks" / "clang_once", FOLDER / NAME)
    prepared = True


def for_tests():
    """The environment of tests. Builds have the real clang."""
    return {**os.environ, "PATH": f"{FOLDER}:{os.environ['PATH']}"} if prepared else dict(os.environ)
