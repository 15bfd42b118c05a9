#!/usr/bin/env python3
"""Random services, compiled and served by chainio-runtime over tcp, udp and shared memory, reply what a model of the language in Python says, byte for byte.

As random_specs.py for chains: what the compiler makes of a handler, or the runtime of a request, is otherwise only looked at where somebody thought of it.
Requests are of good and bad form, several in one segment or datagram, and cut anywhere. CHAINIO_SOAK=1: 100 specs; CHAINIO_SEED=N: others;
CHAINIO_SPECS=N: so many.
"""
import collections
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import daemon  # noqa: E402
from ring_client import RingClient  # noqa: E402
from runs import BUILD  # noqa: E402
from service_chains import BY_HAND, random_called  # noqa: E402
from service_clients import Datagrams, Stream, cuts_of  # noqa: E402
from service_generator import random_service  # noqa: E402
from service_model import LARGEST_FRAME, Model  # noqa: E402
from service_requests import random_datagram, random_request  # noqa: E402
from spec_functions import Unknown  # noqa: E402
from spec_generator import random_file  # noqa: E402

SOAK = os.environ.get("CHAINIO_SOAK") == "1"
SPECS = int(os.environ.get("CHAINIO_SPECS", "100" if SOAK else "8"))
SEED = int(os.environ.get("CHAINIO_SEED", "107"))
SERVICES, ROUNDS, REQUESTS = 6, 16, 6  # of a spec; of each service; at most of a stream
SECONDS = 8  # of the short form, at least: a slow machine tries fewer specs, and says how many
REQUEST_BYTES = 1000  # the longest request
HEAD = 'app random { files data = "*.dat" { immutable } }\n'
MAY_BE_REFUSED = {"CH0132", "CH0133", "CH0155", "CH0262", "CH0601"}  # as in random_specs.py
COUNTED = ("requests", "answered", "malformed", "failed")
# What many specs must have met as well, or they prove nothing of it.
RARER, MANY = ("closed", "cut", "skipping", "too long", "torn"), 100
WAYS = ([], ["--interpret"], ["--no-ring"], ["--zero-copy", "1"])  # in turn


class Server(daemon.Daemon):
    FILE = "data", "random.dat"

    def __init__(self, artifact, services, options):
        ports = [word for service in services for word in ("--port", f"{service.name}=0")]
        self.rings = artifact.parent / "rings"
        super().__init__(artifact, "--bind", "127.0.0.1", *ports, "--request-bytes", REQUEST_BYTES, "--rings", self.rings, *options)

    def stats(self, name, transport):
        return next(entry for entry in self.all_stats()["services"] if (entry["name"], entry["transport"]) == (name, transport))


class Comparison:
    def __init__(self, folder):
        self.began = time.monotonic()
        self.folder, self.different, self.compared = folder, 0, 0
        self.counts, self.refused, self.text = collections.Counter(), collections.Counter(), ""

    def has_met(self):
        """Whether requests have ended in each way, which the shortest form has to see as well."""
        return all(self.counts[name] for name in COUNTED)

    def is_late(self):
        return not SOAK and self.has_met() and time.monotonic() - self.began > SECONDS

    def differs(self, seed, what):
        self.different += 1
        print(f"DIFFERENT: seed {seed}: {what}", flush=True)

    def compiled(self, seed, text, *options):
        done = subprocess.run([BUILD / "bin" / "chainc", "-", *options], input=text, capture_output=True, text=True)
        codes = set(re.findall(r"error\[(CH\d+)\]", done.stderr))
        if "--check" in options and done.returncode == 1 and codes and codes <= MAY_BE_REFUSED:
            self.refused.update(codes)
        elif done.returncode != 0:
            said = "\n".join(re.findall(r"^[^\n]*error.*(?:\n .*)*", done.stderr, re.M)) or done.stderr[-2000:]
            self.differs(seed, f"chainc {' '.join(map(str, options))} ends with {done.returncode}:\n{said}\n{text}")
        return done.returncode == 0

    def spec(self, seed, options):
        """Several services in one spec, and what their clients get."""
        chains = [*BY_HAND, random_called(seed)]
        begin = HEAD + "".join(chain.text for chain in chains)
        made = (random_service(seed * SERVICES + number, chains) for number in range(SERVICES))
        services = [service for service in made if self.compiled(seed, begin + service.text, "--check")]
        self.text = begin + "".join(service.text for service in services)
        artifact = self.folder / "random.bpf.o"
        if not services or not self.compiled(seed, self.text, "-O", str(seed % 3), "-o", artifact):
            return
        data = random_file(seed) * 30
        (self.folder / "random.dat").write_bytes(data)
        server = Server(artifact, services, options)
        asked = [Asked(service, transport, data, server) for service in services for transport in transports_of(service)]
        rng, before = random.Random(f"requests {seed}"), self.different
        for _ in range(ROUNDS):
            self.round(seed, rng, asked)
            if self.different != before or self.is_late():
                break
        for each in asked:
            self.counts.update(each.model.counts)
            if self.different == before:
                self.ended(seed, each, server)
        if (code := server.stop()) != 0:
            self.differs(seed, f"the daemon ends with {code}: {''.join(server.said)}")

    def round(self, seed, rng, asked):
        """Each has something to do at the same time."""
        at_work = [each for each in asked if each.begin(rng)]
        for each in at_work:
            self.compared += 1
            if wrong := each.end():
                self.differs(seed, f"{each.service.name} over {each.transport}: {wrong}\n{HEAD}{each.service.text}")
                return

    def ended(self, seed, each, server):
        if others := each.others():
            self.differs(seed, f"{each.service.name} replies what nobody waits for: {others}")
        stats = server.stats(each.service.name, each.transport)
        got, want = ({name: of[name] for name in COUNTED} for of in (stats, each.model.counts))
        if got != want:
            self.differs(seed, f"{each.service.name} over {each.transport} has counted {got}, the model {want}\n{each.service.text}")


def transports_of(service):
    """By a ring comes what would be a datagram."""
    return [*service.requests, "ring"] if "udp" in service.requests else list(service.requests)


class Asked:
    """One service over one transport, its client and its model."""
    def __init__(self, service, transport, data, server):
        self.service, self.transport, self.server = service, transport, server
        self.model = Model(service, transport, data, REQUEST_BYTES)
        self.port = server.ports.get((service.name, transport))
        # As long as a reply can be that would be cut into datagrams.
        self.ring = RingClient(server.rings, service.name, frames=2, frame_bytes=LARGEST_FRAME) if transport == "ring" else None
        self.datagrams = Datagrams(self.port) if transport == "udp" else None

    def known(self, data):
        """The reply that the model has for it, None if nothing says what it has to be."""
        counts = self.model.counts.copy()
        try:
            return self.model.stream(data) if self.transport == "tcp" else self.model.datagrams(data)
        except Unknown:
            self.model.counts = counts
            self.model.counts["unknown"] += 1
            return None

    def begin(self, rng):
        """Sends something whose reply is known; whether there is any."""
        if self.transport != "tcp":
            self.sent = random_datagram(rng, self.service.requests["udp"])
            self.wanted = self.known(self.sent)
            if self.wanted is not None:
                (self.datagrams or self.ring).send(self.sent)
            return self.wanted is not None
        counts = self.model.counts.copy()
        self.sent = self.stream(rng)
        self.model.counts = counts
        self.wanted = self.known(self.sent)[0]
        self.cuts, waited = cuts_of(rng, len(self.sent))
        self.connection = Stream(self.port, lambda: self.server.stats(self.service.name, "tcp")["bytes_in"])
        self.connection.send(self.sent, self.cuts, waited)
        return True

    def stream(self, rng):
        sent = b""
        for _ in range(rng.randrange(1, REQUESTS + 1)):
            more = sent + random_request(rng, self.service.requests["tcp"])
            if rng.random() < 0.02:
                more += b"0" * REQUEST_BYTES
            if self.known(more) is not None:
                sent = more
        return sent

    def end(self):
        """What is wrong."""
        if self.transport == "tcp":
            got = self.connection.reply()
            return "" if got == self.wanted else f"to {self.sent} in segments to {self.cuts}\n  it replies {shown(got)}\n  the model   {shown(self.wanted)}"
        if self.ring:
            _, reply = self.ring.receive()
            got, wanted = reply or b"", b"".join(self.wanted)
            # What replies to nothing, and what nothing is replied to, is the same to the model.
            return "" if got == wanted else f"to {self.sent}\n  it replies {shown(got)}\n  the model   {shown(wanted)}"
        got = self.datagrams.replies(len(self.wanted))
        return "" if got == self.wanted else f"to {self.sent}\n  it replies {list(map(shown, got))}\n  the model   {list(map(shown, self.wanted))}"

    def others(self):
        if self.ring:
            self.ring.close()
        return self.datagrams.others() if self.datagrams else []


def shown(data):
    return data if len(data) < 400 else f"{data[:200]}…{data[-200:]} ({len(data)} bytes)"


def main():
    done = 0
    with tempfile.TemporaryDirectory(prefix="chainio-random-services-") as name:
        comparison = Comparison(pathlib.Path(name))
        while done < SPECS:
            comparison.spec(SEED + done, WAYS[(SEED + done) % len(WAYS)])
            done += 1
            if SOAK and done % 20 == 0:
                print(f"{done} specs, {comparison.different} different, {time.monotonic() - comparison.began:.0f} s", flush=True)
            if done < SPECS and comparison.is_late():
                print(f"note: {done} of {SPECS} specs in {SECONDS} s")
                break
    print(f"{done} specs from seed {SEED}, {comparison.compared} streams and datagrams, {comparison.different} different; "
          f"{dict(comparison.counts)}; refused {dict(comparison.refused)}")
    missing = [name for name in RARER if not comparison.counts[name]] if done >= MANY else []
    if missing:
        print(f"failed: nothing was {', '.join(missing)}: the services are not what they should be")
    # Most requests have an end of which the model knows what it is.
    met = comparison.has_met() and comparison.counts["unknown"] < comparison.compared
    sys.exit(1 if comparison.different or missing or not met else 0)


if __name__ == "__main__":
    main()
