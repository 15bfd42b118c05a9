"""What the start of a program costs beside shadow chains: the preloaded library's part, many times over."""
from unmodified_common import Sample, Section, beside, folder, measured, program, time_row

STARTS, QUICK_STARTS, ROUNDS = 400, 100, 5
# The shell's own clock would count in hundredths of a second: the kernel's counts in nanoseconds.
SCRIPT = """import os, sys, time
begin = time.monotonic()
for _ in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
print(1000 * (time.monotonic() - begin) / int(sys.argv[1]))
"""


class Start(Section):
    name = "start"
    done = False

    def missing(self):
        return None if program("true") else "/bin/true is missing"

    def sources(self):
        return folder("unmodified")

    def run(self, volume, path):
        if self.done:  # no volume has a part in it
            return
        self.done = True
        starts = QUICK_STARTS if self.quick else STARTS
        words = ["/usr/bin/python3", "-c", SCRIPT, str(starts)]
        samples = {"plain": [], "again": [], "ours": []}
        for _ in range(ROUNDS):
            for name, command in (("plain", words), ("ours", beside("std/sqlite_shadow.chain", [], words)), ("again", words)):
                text, cpu, switches = measured(command)
                samples[name].append(Sample(float(text), cpu, switches))
        self.rows += [time_row("starting /bin/true", samples, "ours", "plain", "plain", "ms", None, starts),
                      time_row("starting /bin/true, A/A", samples, "again", "plain", "plain (both)", "ms", None, starts)]
        extra = self.rows[0].ours - self.rows[0].peer
        self.notes.append(f"start: a program starts {extra:.3f} ms later (at most 1 ms is wanted)")
