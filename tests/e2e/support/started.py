"""Processes that end with the script that has started them, however that ends."""
import atexit
import contextlib
import os
import pathlib
import signal
import subprocess
import threading

import ending  # noqa: F401


class Started(subprocess.Popen):
    def __exit__(self, error, *rest):
        if error is not None:
            self.end_by(self)  # it would be waited for, and nobody would hear of the error
        return super().__exit__(error, *rest)


def start(words, end_by=None, **options):
    """As subprocess.Popen; what still runs when the script ends is killed, and what still runs when its `with` fails: by `end_by`, or as `end` does it."""
    process = Started([str(word) for word in words], **options)
    process.end_by = end_by or end
    atexit.register(process.end_by, process)
    return process


def below(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        for child in children.read_text().split():
            yield from below(child)
            yield int(child)


def end(process):
    """It and what it has started, such as the program that strace traces, by their ids."""
    if process.poll() is not None:
        return
    for pid in [*below(process.pid), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def rest_of(stream, said):
    """Reads what else a process says into a list. The script's end does not wait for this thread: it has to come before the process's."""
    thread = threading.Thread(target=lambda: said.extend(stream), daemon=True)
    thread.start()
    return thread
