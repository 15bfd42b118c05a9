"""`bench_xdp serve` on one end of a pair of interfaces."""
import json
import signal
import subprocess

import netns
import started
from runs import BUILD, expect

BENCH = BUILD / "bin" / "bench_xdp"
PORT = 9000


def serve_command(pair, *options, port=PORT, interface="vb"):
    return pair.command(pair.there, BENCH, "serve", "--interface", interface, "--port", port, *options)


class Server:
    """`bench_xdp serve` on vb; says at its end what it counted."""

    def __init__(self, pair, *options, port=PORT):
        self.process = started.start(serve_command(pair, *options, port=port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.mode = self.process.stdout.readline().strip()  # it serves from here on
        if not self.mode:
            raise AssertionError(f"the server did not start: {self.process.stderr.read()}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=netns.PATIENCE)
        report = json.loads(out.splitlines()[-1])
        expect("  the server ends well", (self.process.returncode, err), (0, ""))
        expect("  no frame leaks", (report["strays"], report["leaked"]), (0, 0))
        expect("  and none was given back twice", report["refused_releases"], 0)
        expect("  no request is without an answer", report["unanswered"], 0)
        expect("  the kernel took every descriptor", (report["invalid"], report["malformed"]), (0, 0))
        return report

    def kill(self):
        started.end(self.process)
