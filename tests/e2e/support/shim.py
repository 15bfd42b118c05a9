"""Runs programs under the preload library beside a server that only records what they post."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import started

ROOT = pathlib.Path(os.environ.get("CHAINIO_ROOT", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("CHAINIO_BUILD", ROOT / "build" / "release"))
LIBRARY = BUILD / "lib" / "libchainio.so"
SERVER = BUILD / "tests" / "shim_server"
COMPILER = shutil.which("clang-19") or shutil.which("cc")
# A close that goes past libc, as Go's are: nobody sees it.
UNSEEN_CLOSE = """
static void unseen_close(long fd) {
#if defined(__x86_64__)
    long done; __asm__ volatile("syscall" : "=a"(done) : "0"(3L), "D"(fd) : "rcx", "r11", "memory");
#else
    register long call __asm__("x8") = 57; register long done __asm__("x0") = fd; __asm__ volatile("svc 0" : "+r"(done) : "r"(call) : "memory");
#endif
}
"""


def environment(region=None, sites=None):
    made = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "CHAINIO_REGION", "CHAINIO_SITES")}
    if region:
        made |= {"LD_PRELOAD": str(LIBRARY), "CHAINIO_REGION": str(region)}
    if sites:
        made["CHAINIO_SITES"] = str(sites)
    return made


class Server:
    """A region made from a plan; `sites`: programs are rewritten. `events` holds what was posted once the `with` has ended."""
    def __init__(self, folder, sites=None, **plan):
        self.sites = sites
        self.region = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix="region-")) / "region"
        self.plan, self.events, self.end = plan, [], None

    def __enter__(self):
        self.process = started.start([SERVER, self.region], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(self.plan) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the recording server did not start")
        return self

    def say(self, word):
        """Tells the server something, and returns its answer; what it printed before that is kept."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        while True:
            line = json.loads(self.process.stdout.readline())
            if line["kind"] == "said":
                return line
            self.events.append(line)

    def __exit__(self, *_):
        out, _ = self.process.communicate("stop\n", timeout=60)
        self.events += map(json.loads, out.splitlines())
        if self.process.returncode != 0 or self.events[-1]["kind"] != "end":
            raise RuntimeError(f"the recording server failed: {self.events[-1:]}")
        self.end = self.events.pop()
        shutil.rmtree(self.region.parent)

    def run(self, *command, **options):
        return subprocess.run([str(word) for word in command], env=environment(self.region, self.sites) | options.pop("extra", {}), **options)

    def of(self, kind, **fields):
        return [event for event in self.events if event["kind"] == kind and all(event[k] == v for k, v in fields.items())]


class Checks:
    """Counts what was compared, and says what differs."""
    def __init__(self):
        self.count = self.failed = 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="chainio-shim-"))

    def same(self, what, got, wanted):
        self.count += 1
        if got != wanted:
            self.failed += 1
            print(f"DIFFERENT: {what}:\n  got    {str(got)[:1500]}\n  wanted {str(wanted)[:1500]}")
        return got == wanted

    def true(self, what, holds, shown=""):
        return self.same(what if holds else f"{what}: {shown}", bool(holds), True)

    def compile(self, name, text, *options, compiler=COMPILER):
        source = self.folder / f"{name}.c"
        source.write_text(text)
        subprocess.run([compiler, "-O1", "-w", "-o", self.folder / name, source, *options], check=True)
        return self.folder / name

    def finish(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        print(f"{self.count} comparisons, {self.failed} different")
        sys.exit(1 if self.failed or self.count == 0 else 0)


def summary(events):
    """The events of one thread without what differs from run to run: (kind, source, offset, length), paths by their last part."""
    rows = []
    for event in events:
        text = event.get("text", "")
        if event["kind"] in ("opened", "passed"):
            rows.append((event["kind"], event["source"], pathlib.Path(text).name))
        elif event["kind"] == "read":
            rows.append(("read", event["offset"], event["length"]))
        elif event["kind"] in ("note", "ready"):
            rows.append((event["kind"], event["source"], text))
        else:
            rows.append((event["kind"],))
    return rows
