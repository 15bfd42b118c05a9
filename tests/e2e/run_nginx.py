#!/usr/bin/env python3
"""nginx, unmodified, one worker over cold files, with sendfile and without: every body is what the file holds, and files that were fetched ahead are hit, those that a
folder stands for too.
CHAINIO_SOAK=1: 50,000 requests each; else 2,000."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs
from runs import chain, drop_from_memory, expect

FILES, ROUNDS = (10_000, 5) if os.environ.get("CHAINIO_SOAK") == "1" else (2_000, 1)  # all files are cold when a round begins
FOLDERS = FILES // 4  # have an index, and are asked for by themselves
CONNECTIONS, SIZE = 16, 16_384
CONFIG = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile {sendfile}; keepalive_requests 100000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


def body(number):
    """Bytes that no other file has, and that do not lie in one piece on the disk with those asked for next."""
    block = hashlib.sha256(str(number).encode()).digest()
    return (block * (SIZE // len(block) + 1))[:SIZE - number % 100]


def name_of(number):
    return f"d{number % 7}/" + (f"f{number}.bin" if number < FILES else f"i{number}/index.html")


def url_of(number):
    return "/" + name_of(number).removesuffix("index.html") + ("?v=1" if number % 5 == 0 else "")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(server, port):
    deadline = time.monotonic() + runs.LONGEST
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return True
        except OSError:
            time.sleep(0.02)  # nginx says nowhere that it listens
    return False


def start(folder, www, sendfile):
    """The port may be taken by somebody else between the look and nginx's bind."""
    user = "user root;" if pathlib.Path("/proc/self").stat().st_uid == 0 else ""
    for _ in range(5):
        port = free_port()
        (folder.path / "nginx.conf").write_text(CONFIG.format(folder=folder.path, port=port, user=user, sendfile=sendfile))
        options = ["--spec", "std/http.chain", "--param", f"PORT={port}", "--param", f"docroot={www}/**", "--json", "--summary", folder.path / "summary.json"]
        server = folder.start(options, [shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin"), "-p", folder.path, "-c", folder.path / "nginx.conf"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if answers(server, port):
            return server, port
        print(f"note: nginx did not start: {server.communicate()[1].decode()[-500:]}")
    raise RuntimeError("nginx does not start")


def fetch(port, numbers):
    """How many bodies were wrong."""
    wrong = 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=runs.LONGEST)
    for number in numbers:
        connection.request("GET", url_of(number))
        answer = connection.getresponse()
        wrong += answer.read() != body(number) or answer.status != 200
    connection.close()
    return wrong


def ask_for_all(port, numbers):
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        return sum(pool.map(lambda first: fetch(port, numbers[first::CONNECTIONS]), range(CONNECTIONS)))


def test_sendfile(folder, www, numbers, sendfile):
    """Gives whether files were fetched in time; on a loaded machine they may not be."""
    files = [www / name_of(number) for number in numbers]
    drop_from_memory(*files)
    server, port = start(folder, www, sendfile)
    wrong = 0
    try:
        for turn in range(ROUNDS):
            if turn != 0:
                drop_from_memory(*files)
            wrong += ask_for_all(port, numbers)
    finally:
        server.send_signal(signal.SIGTERM)
        _, complaint = server.communicate(timeout=runs.LONGEST)
    expect(f"sendfile {sendfile}: {len(numbers) * ROUNDS} bodies over {CONNECTIONS} connections, wrong ones", wrong, 0)
    expect("SIGTERM to chainio ends nginx as it should", (server.returncode, complaint), (0, b""))
    summary = json.loads((folder.path / "summary.json").read_text())
    expect("it did not run plain", summary["plain"], None)
    ahead = chain(summary, "ahead_of_ready")
    expect("no request failed", ahead["failed"], 0)
    expect("nothing is left of the run", runs.left_overs(server.pid), [])
    return ahead["runs"] > len(numbers) // 4 and ahead["fetches"] > 0 and ahead["own"] > 0 and ahead["hits"] > 0


def main():
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin"):
        print("nginx is not installed")
        sys.exit(77)
    with runs.Folder() as folder:
        folder.path.chmod(0o755)
        www = folder.path / "www"
        files, folders = range(FILES), range(FILES, FILES + FOLDERS)
        for number in (*files, *folders):
            path = www / name_of(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body(number))
        for sendfile, numbers in (("off", files), ("on", files), ("off", folders)):
            in_time = any(test_sendfile(folder, www, numbers, sendfile) for _ in runs.tries())
            expect("requests were peeked, and files fetched in time", in_time, True)
    sys.exit(runs.ended())


if __name__ == "__main__":
    main()
