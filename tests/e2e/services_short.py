#!/usr/bin/env python3
"""When there is no descriptor for who connects, that is tried again by itself, also where nothing else would wake the daemon."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import daemon  # noqa: E402
import runs  # noqa: E402
from daemon import Server, receive_line  # noqa: E402
from netns import until, without_descriptor  # noqa: E402
from runs import BUILD, expect  # noqa: E402
from runtime_hostile import connected  # noqa: E402

# No file, which would be looked at every second.
SPEC = """
service lines on tcp {} via uring {{
  text Line {{ "hello\\n" }}
  request {{ line: Line }}
  on request {{ reply "hello\\n" }}
}}
"""


class NoFile(Server):
    FILE = None


def compiled(folder, port):
    (folder / "lines.chain").write_text(SPEC.format(port))
    subprocess.run([BUILD / "bin" / "chainc", folder / "lines.chain", "-o", folder / "lines.o"], check=True)
    return (folder / "lines.o").read_bytes()


def sleeps(server):
    """How often the daemon has waited for something."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def tries(server):
    seen = sleeps(server)
    until("it tries now and then", lambda: sleeps(server) > seen + 5)


def fill(server, limit, stack):
    """Clients of the control socket that ask for nothing more have all descriptors."""
    while server.descriptors() < limit:
        client = stack.enter_context(connected(server))
        client.sendall(b'{"op": "stats", "id": 1}\n')
        receive_line(client)  # it is accepted, and who has left before it is gone


def test_services(folder):
    before, after = daemon.PORTS
    (folder / "app.o").write_bytes(compiled(folder, before))
    server = NoFile(folder, port=None, address=daemon.OWN)
    with contextlib.ExitStack() as stack:
        with without_descriptor(server.process.pid, left=30) as most:
            server.use(compiled(folder, after))
            server.control({"op": "reload"})  # the listener of another port has the limit that is there when it begins
            until("the one before has ended", lambda: not server.all_stats()["before_runs"])
            fill(server, most, stack)
            sock = stack.enter_context(socket.create_connection((daemon.OWN, after), timeout=60))
            until("it says that a connection waits", lambda: any(line.startswith("fallback accept-waits") for line in server.said))
            tries(server)
            sock.sendall(b"hello\n")
        expect("a connection is served once there is a descriptor", receive_line(sock), b"hello\n")
    expect("ends", server.stop(), 0)


def test_control(folder):
    (folder / "app.o").write_bytes(compiled(folder, daemon.PORTS[0]))
    server = NoFile(folder)
    with contextlib.ExitStack() as stack:
        with without_descriptor(server.process.pid, left=3) as most:
            fill(server, most, stack)
            caller = stack.enter_context(connected(server))
            caller.sendall(b'{"op": "stats", "id": 7}\n')
            tries(server)
        answers = stack.enter_context(caller.makefile())
        expect("so is a client of the control socket", json.loads(answers.readline())["id"], 7)
    expect("ends", server.stop(), 0)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test_services(folder)
        test_control(folder)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
