"""What the start of a program costs beside shadow chains: the whole of `chainio run`, and the preloaded library's part."""
import os
import statistics
import time

from common import Row
from unmodified_common import Sample, Section, beside, folder, measured, median, program, time_row

STARTS, QUICK_STARTS, ROUNDS, QUICK_ROUNDS = 400, 50, 5, 2
RUNS, QUICK_RUNS = 1000, 40
WANTED_MS = 1.0
SPEC = "std/sqlite_shadow.chain"
# The shell's own clock would count in hundredths of a second: the kernel's counts in nanoseconds.
SCRIPT = """import os, sys, time
begin = time.monotonic()
for _ in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
print(1000 * (time.monotonic() - begin) / int(sys.argv[1]))
"""


class Start(Section):
    name = "start"
    of_volume = done = False

    def missing(self):
        return None if program("true") else "/bin/true is missing"

    def sources(self):
        return folder("unmodified")

    def whole_runs(self):
        """`chainio run -- true` from its begin to its end, in turns with plain ones; it has nothing that matches."""
        commands = {"plain": ["/bin/true"], "ours": [str(word) for word in beside(SPEC, [], ["/bin/true"])], "again": ["/bin/true"]}
        samples = {name: [] for name in commands}
        for turn in range(QUICK_RUNS if self.quick else RUNS):
            for name in list(commands) if turn % 2 == 0 else list(commands)[::-1]:
                begin = time.monotonic()
                process = os.posix_spawn(commands[name][0], commands[name], os.environ)
                _, status, usage = os.wait4(process, 0)
                samples[name].append(Sample(1000 * (time.monotonic() - begin), usage.ru_utime + usage.ru_stime, usage.ru_nvcsw + usage.ru_nivcsw))
                self.check(status == 0, f"{commands[name]}: status {status}")
        more = max(0.001, median(samples["ours"]) - median(samples["plain"]))
        self.rows += [Row("chainio run -- true, more than plain", more, WANTED_MS, "wanted at most", "ms", WANTED_MS / more, 1.0),
                      time_row("chainio run -- true", samples, "ours", "plain", "plain", "ms"),
                      time_row("chainio run -- true, A/A", samples, "again", "plain", "plain (both)", "ms")]
        quick = [statistics.quantiles([s.seconds for s in samples[name]], n=10)[0] for name in ("ours", "plain")]
        self.notes.append(f"start: where the machine was least busy (the quickest tenths), `chainio run -- true` takes {quick[0] - quick[1]:.2f} ms more than true")

    def run(self, volume, path):
        if self.done:  # no volume has a part in it
            return
        self.done = True
        self.whole_runs()
        starts = QUICK_STARTS if self.quick else STARTS
        words = ["/usr/bin/python3", "-c", SCRIPT, str(starts)]
        samples = {"plain": [], "again": [], "ours": []}
        for _ in range(QUICK_ROUNDS if self.quick else ROUNDS):
            for name, command in (("plain", words), ("ours", beside(SPEC, [], words)), ("again", words)):
                text, cpu, switches = measured(command)
                samples[name].append(Sample(float(text), cpu, switches))
        self.rows += [time_row("starting /bin/true", samples, "ours", "plain", "plain", "ms", None, starts),
                      time_row("starting /bin/true, A/A", samples, "again", "plain", "plain (both)", "ms", None, starts)]
        self.notes.append(f"start: of that, the preloaded library's part is {median(samples['ours']) - median(samples['plain']):.3f} ms")
