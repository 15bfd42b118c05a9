#!/usr/bin/env python3
"""Random chains, compiled, end as a model of the language in Python says: by native code, by the interpreter and, where BPF may be loaded, by that.

The differential tests compare the engines with each other: what the compiler makes of a spec is the same for all of them, so that it can be wrong
for all. CHAINIO_SOAK=1: 2,000 chains; CHAINIO_SEED=N: others; CHAINIO_CHAINS=N: so many.
"""
import collections
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import runs  # noqa: E402
from chains import BUILD  # noqa: E402
from spec_functions import Unknown  # noqa: E402
from spec_generator import random_arguments, random_chain, random_file  # noqa: E402
from spec_model import answer  # noqa: E402

SOAK = os.environ.get("CHAINIO_SOAK") == "1"
CHAINS = int(os.environ.get("CHAINIO_CHAINS", "2000" if SOAK else "30"))
SEED = int(os.environ.get("CHAINIO_SEED", "106"))
CALLS = 40  # of each chain
TOGETHER = (1, 4, 7)  # chains of one spec, in turn: what one of them has may hide what another lacks
SECONDS = 10  # of the short form, at least: a slow machine does fewer chains, and says how many
HEAD = 'app random { files data = "*.dat" }\n'
# What the generator does not look at: constants and bytes that do not fit what takes them, the length of "" as a divisor, names of bytes that have changed,
# too many instructions.
MAY_BE_REFUSED = {"CH0132", "CH0133", "CH0155", "CH0262", "CH0601"}
# What many chains must have met, or they prove nothing.
OUTCOMES = ("ok", "malformed", "short_read", "hop_limit", "not_found", "overflow")
MANY = 1000


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


class Comparison:
    def __init__(self, folder):
        self.folder, self.different, self.compared = folder, [], 0
        self.outcomes, self.refused, self.notes = collections.Counter(), collections.Counter(), set()

    def has_met(self, done):
        """Whether so many chains have proved anything: most calls have to come to an end of which the model knows what it is, and a good part to a result."""
        return self.outcomes["ok"] >= done

    def differs(self, seeds, what):
        said = f"DIFFERENT: seed {', '.join(map(str, seeds))}: {what}"
        print(said, flush=True)
        self.different.append(said.splitlines()[0])

    def accepted(self, chain, seed):
        """Whether the compiler takes it; refusals that are none of its business are differences."""
        done = run(BUILD / "bin" / "chainc", "--check", "-", input=HEAD + chain.text)
        codes = set(re.findall(r"error\[(CH\d+)\]", done.stderr))
        if done.returncode == 1 and codes and codes <= MAY_BE_REFUSED:
            self.refused.update(codes)
        elif done.returncode != 0:
            self.differs([seed], f"chainc --check ends with {done.returncode}:\n{errors_of(done.stderr)}\n{HEAD}{chain.text}")
        return done.returncode == 0

    def batch(self, seeds):
        """Chains of these seeds in one spec, each called with random arguments."""
        chains = {seed: chain for seed in seeds if self.accepted(chain := random_chain(seed), seed)}
        if not chains:
            return
        spec, artifact = self.folder / "random.chain", self.folder / "random.bpf.o"
        spec.write_text(HEAD + "".join(chain.text for chain in chains.values()))
        level = seeds[0] % 3
        done = run(BUILD / "bin" / "chainc", spec, "-O", level, "-o", artifact)
        if done.returncode != 0:
            self.differs(chains, f"chainc -O {level} ends with {done.returncode}:\n{errors_of(done.stderr)}\n{spec.read_text()}")
            return
        data = random_file(seeds[0])
        (self.folder / "random.dat").write_bytes(data)
        cases = [case for seed, chain in chains.items() for case in self.cases(seed, chain, data)]
        # JSON is YAML.
        tests = {"spec": artifact.name, "files": {"data": "random.dat"}, "cases": cases}
        (self.folder / "random.test.yaml").write_text(json.dumps(tests))
        self.judge(chains, {case["name"]: case for case in cases}, run(BUILD / "bin" / "chainio", "test", self.folder / "random.test.yaml"))

    def cases(self, seed, chain, data):
        for number, arguments in enumerate(random_arguments(seed, CALLS)):
            try:
                outcome, value = answer(chain, data, arguments)
            except Unknown:
                self.outcomes["unknown"] += 1
                continue
            self.outcomes[outcome] += 1
            expected = {"outcome": outcome}
            if outcome == "ok":
                expected |= {"bytes": {"hex": value.hex()}} if chain.result in "ye" else {"value": value}
            yield {"name": f"{seed} {number}", "chain": chain.name, "files": {"f": "data"},
                   "args": {**arguments, "s": {"hex": arguments["s"].hex()}}, "expect": expected}

    def judge(self, chains, cases, done):
        """A case that fails stands as `FAIL name` with both answers of each engine below; the last line has the counts."""
        counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, re.M)
        if not counts or sum(map(int, counts.groups())) != len(cases) or int(counts[3]):
            self.differs(chains, f"chainio test ends with {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}")
            return
        self.compared += len(cases)
        self.notes.update(re.findall(r"^not run: .*$", done.stdout, re.M))
        shown = set()
        for name, why in re.findall(r"^FAIL (\d+ \d+)\n((?: .*\n)*)", done.stdout, re.M):
            seed = int(name.split()[0])
            # One case of a chain is enough to look at.
            if seed not in shown:
                self.differs([seed], f"{chains[seed].name} with {cases[name]['args']}, the model: {cases[name]['expect']}\n{why}{HEAD}{chains[seed].text}")
            shown.add(seed)


def errors_of(said):
    """Without the warnings, of which random specs have many."""
    return "\n".join(re.findall(r"^[^\n]*error.*(?:\n .*)*", said, re.M)) or said[-2000:]


def main():
    began, done = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="chainio-random-specs-") as name:
        comparison = Comparison(pathlib.Path(name))
        for together in itertools.cycle(TOGETHER):
            count = min(together, CHAINS - done)
            comparison.batch(range(SEED + done, SEED + done + count))
            done += count
            if done == CHAINS:
                break
            if SOAK and done % 300 < count:
                print(f"{done} chains, {len(comparison.different)} different, {time.monotonic() - began:.0f} s", flush=True)
            if not SOAK and comparison.has_met(done) and time.monotonic() - began > SECONDS:
                print(f"note: {done} of {CHAINS} chains in {SECONDS} s")
                break
    for said in (*sorted(comparison.notes), *comparison.different[:runs.SAID_AGAIN]):  # the chains may be longer than what a check shows of a script
        print(said)
    print(f"{done} chains from seed {SEED}, {comparison.compared} calls, {len(comparison.different)} different; "
          f"outcomes {dict(comparison.outcomes)}; refused {dict(comparison.refused)}")
    missing = [outcome for outcome in OUTCOMES if not comparison.outcomes[outcome]] if done >= MANY else []
    if missing:
        print(f"failed: no chain ended with {', '.join(missing)}: the chains are not what they should be")
    if not comparison.has_met(done):
        print(f"failed: {comparison.outcomes['ok']} calls had a result, of {done} chains: the chains are not what they should be")
    sys.exit(1 if comparison.different or missing or not comparison.has_met(done) else 0)


if __name__ == "__main__":
    main()
