"""What the preloaded library adds to calls that no class and no socket of the spec has a part in."""
from common import RELEASE, Row, build, output_of
from unmodified_common import Section, folder

ROUNDS, QUICK_ROUNDS = 15, 3
WANTED_NS = 10.0
# A file whose last part a class matches elsewhere is looked up by the kernel's own name, and so is what a listener is bound to.
WITHOUT_GOAL = {"open, last part as a class's", "listen, again"}


class Calls(Section):
    name = "calls"
    of_volume = done = False

    def sources(self):
        return folder("unmodified")

    def run(self, volume, path):
        if self.done:  # no volume has a part in it
            return
        self.done = True
        build("bench_shim_calls")
        text = output_of([RELEASE / "bin" / "bench_shim_calls", RELEASE / "lib" / "libchainio.so", QUICK_ROUNDS if self.quick else ROUNDS])
        noise = []
        for line in text.splitlines():
            name, *values = line.split("\t")
            plain, more, least, most, again, again_least, again_most = map(float, values)
            noise.append(abs(again))
            self.rows.append(Row(f"{name}: more than plain", more, WANTED_NS, f"wanted at most, plain {plain:.0f}", "ns", WANTED_NS / max(0.1, more),
                                 None if name in WITHOUT_GOAL else 1.0, f"{least} to {most} / A/A {again_least} to {again_most}"))
        self.check(len(self.rows) > 40, f"only {len(self.rows)} functions were measured")
        self.notes.append(f"calls: libc's functions and the library's in turns, each 100 x 500 calls a round; of libc's against themselves the medians differ by up to {max(noise, default=0)} ns")
