"""Whether the kernel complained while the tests ran: a test that upsets the kernel has failed."""
import os
import re

from report import Outcome

COMPLAINT = re.compile(r"WARNING:|BUG:|Oops|general protection fault|verifier bug|REG INVARIANTS VIOLATION|hung_task|soft lockup|"
                       r"UBSAN:|KASAN:|refcount_t:")


def messages():
    """(sequence number, text) of the kernel's log; None when it may not be read."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    found = []
    try:
        while True:
            try:
                record = os.read(log, 8192).decode(errors="replace")
            except BrokenPipeError:
                continue  # overwritten while we read
            except OSError:
                return found  # the end of the log
            head, _, text = record.partition(";")
            found.append((int(head.split(",")[1]), text.splitlines()[0]))
    finally:
        os.close(log)


class Watch:
    """Remembers where the kernel's log ended when it was made."""

    def __init__(self):
        before = messages()
        self.last = None if before is None else max((number for number, _ in before), default=-1)

    def outcomes(self):
        after = messages()
        if self.last is None or after is None:
            return [Outcome("kernel log", "skipped", "/dev/kmsg may not be read: run as root")]
        new = [text for number, text in after if number > self.last and COMPLAINT.search(text)]
        if new:
            return [Outcome("kernel log", "failed", "the kernel logged while the tests ran:\n" + "\n".join(new))]
        return [Outcome("kernel log", "passed")]
