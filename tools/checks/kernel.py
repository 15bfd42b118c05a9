"""Whether the kernel complained while the tests ran: a test that upsets the kernel has failed."""
import os
import re

from report import Outcome

COMPLAINT = re.compile(r"WARNING:|BUG:|kernel BUG at|Oops|\[#\d+\]|Kernel panic|general protection fault|verifier bug|REG INVARIANTS VIOLATION|hung_task|soft lockup|"
                       r"UBSAN:|KASAN:|refcount_t:")
END = "---[ end trace"
LONGEST = 150  # lines of one report
TRACE = re.compile(r"RIP: 0010:|Call Trace:")
END_OF_INTERRUPT = "</IRQ>"
# What a program asks for, and what ChainIO has the kernel do for it: a trace that names none of it is of the kernel's own work, as a scheduler that
# complains under software emulation of how it woke a thread of RCU.
ASKED_FOR = re.compile(r"do_syscall|_sys_|asm_exc|bpf|xdp|xsk|io_uring|\bio_|aio|uprobe|virt|nvme|null_|blk|bio_|ext4|fuse|9p|skb|sock|udp|tcp|net|napi|page_pool|"
                       r"memfd|shmem")

# Defects of kernels that tests run into: what stands in the report, line by line in its order, and what it is.
KNOWN = [
    ((r"WARNING: kernel/sched/core\.c:\d+ at set_task_cpu\+", r"Not tainted 7\.2\.",
      r"Code: .* 66 83 b[89a-f] \w\w \w\w 00 00 00 7\w \w\w <0f> 0b "),  # a field of two bytes is not 0: it is task_struct's migration_disabled
     "a thread that io_uring makes for a read of a chain inside the kernel takes the migration_disabled over that its maker has within a BPF program, "
     "a defect of the kernel (docs/kernel-engine.md)"),
]


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


def reports(lines):
    """The complaints among a log's lines, each as the lines of its report: to the end of its trace, or itself alone when there is none before the next one."""
    begins = [number for number, line in enumerate(lines) if COMPLAINT.search(line)]
    found = []
    for begin, after in zip(begins, [*begins[1:], len(lines)]):
        within = lines[begin:min(after, begin + LONGEST)]
        found.append(within[:next((number + 1 for number, line in enumerate(within) if END in line), 1)])
    return found


def of_kernel_itself(report):
    """Whether nothing in the report's trace was asked for; of an interrupt's, what it came upon does not count. A report without a whole trace may be about all."""
    begin = next((number for number, line in enumerate(report) if TRACE.search(line)), None)
    if begin is None or END not in report[-1]:
        return False
    end = next((number for number, line in enumerate(report) if END_OF_INTERRUPT in line), len(report))
    return not any(ASKED_FOR.search(line) for line in report[begin:end])


def excuse(report):
    """Why a report says nothing against what ran; None when it does."""
    for wanted, reason in KNOWN:
        lines = iter(report)
        if END in report[-1] and all(any(re.search(pattern, line) for line in lines) for pattern in wanted):
            return reason
    return "it is of the kernel's own work, of nothing that a program asked for" if of_kernel_itself(report) else None


def judged(name, lines):
    """What a kernel's log says of the tests that ran meanwhile."""
    found = [(report, excuse(report)) for report in reports(lines)]
    ours = [line for report, reason in found if reason is None for line in report]
    if ours:
        return Outcome(name, "failed", "the kernel logged while the tests ran:\n" + "\n".join(ours))
    if found:
        report, reason = found[0]
        return Outcome(name, "skipped", f"the kernel complained: {report[0].strip()}: {reason}")
    return Outcome(name, "passed")


class Watch:
    """Remembers where the kernel's log ended when it was made."""

    def __init__(self):
        before = messages()
        self.last = None if before is None else max((number for number, _ in before), default=-1)

    def outcomes(self):
        after = messages()
        if self.last is None or after is None:
            return [Outcome("kernel log", "skipped", "/dev/kmsg may not be read: run as root")]
        since = [(number, text) for number, text in after if number > self.last]
        said = judged("kernel log", [text for _, text in since])
        lost = max((number for number, _ in since), default=self.last) - self.last - len(since)
        if lost == 0:
            return [said]
        gap = Outcome("kernel log", "skipped", f"{lost} of its records were overwritten before they could be read: boot with a larger log_buf_len")
        return [gap] if said.state == "passed" else [said, gap]
