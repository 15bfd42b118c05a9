#!/usr/bin/env python3
"""Caches for which there is no memory: the interface serves without them, and says so."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
import runs
import services_cache
from runs import BUILD, expect

SERVICE = "service s{} on udp {} via xdp {{ request {{ all: bytes(4) }}  cache 1048576 entries ttl 1s  on request {{ reply request.all }} }}\n"
MOST = 64  # ports of an interface


def too_many():
    """Of how many services the caches, of 2 GiB each, are larger than this machine's memory."""
    return (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 31) + 1


def prepare(folder, count):
    (folder / "large.chain").write_text("".join(SERVICE.format(number, 7000 + number) for number in range(count)))
    subprocess.run([BUILD / "bin" / "chainc", folder / "large.chain", "-o", folder / "large.bpf.o"], check=True)


class Server(services_cache.OnVeth):
    FILE = None

    def __init__(self, folder, pair, count):
        self.SERVICES, self.ENDPOINTS = [f"s{number}" for number in range(count)], count
        super().__init__(folder, pair, spec="large.bpf.o")


def keeps_nothing(server):
    said = [line.strip() for line in server.said if "fallback xdp-" in line and "xdp-copy" not in line]
    expect("said", [line.split(":")[0] for line in said], ["fallback xdp-cache-refused (1x)"])
    side = server.all_stats()["interfaces"][0]
    expect("  the driver answers nothing", (side["answers_by_itself"], side["answers_by"]), (False, None))
    with server.client("s0") as sock:
        sock.send(b"four")
        expect("  the runtime does, by the interface", (sock.recv(10), server.all_stats()["interfaces"][0]["received"]), (b"four", 1))
    expect("ends", server.stop(), 0)
    return said


def main():
    if why := netns.why_not():
        print(f"skipped: {why}")
        return 77
    if (count := too_many()) > MOST:
        print(f"skipped: the caches of {MOST} services fit into the memory")
        return 77
    with tempfile.TemporaryDirectory() as name, services_cache.PassPair() as pair:
        folder = pathlib.Path(name)
        prepare(folder, count)
        pair.program = netns.passing(folder)
        print("a peer without a program")
        keeps_nothing(Server(folder, pair, count))
        print("a peer with one")
        pair.link_pass()
        keeps_nothing(Server(folder, pair, count))
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
