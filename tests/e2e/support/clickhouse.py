"""A ClickHouse server of the test's own: temporary folder, free port, stopped at the end."""
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import started

CONFIG = """<yandex>
  <logger><level>warning</level><log>{folder}/server.log</log><errorlog>{folder}/error.log</errorlog></logger>
  <http_port>{port}</http_port>
  <listen_host>127.0.0.1</listen_host>
  <max_connections>16</max_connections>
  <keep_alive_timeout>3</keep_alive_timeout>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <mark_cache_size>5242880</mark_cache_size>
  <merge_tree><old_parts_lifetime>1</old_parts_lifetime></merge_tree>
  <path>{folder}/data/</path>
  <tmp_path>{folder}/tmp/</tmp_path>
  <user_files_path>{folder}/files/</user_files_path>
  <users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <remote_servers/>
  <macros/>
</yandex>
"""
USERS = """<yandex>
  <profiles><default><max_memory_usage>2000000000</max_memory_usage>{blocks}</default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows>
    <read_rows>0</read_rows><execution_time>0</execution_time></interval></default></quotas>
</yandex>
"""
# Sizes of compressed blocks: smaller than ClickHouse's own, so that a column has many; "" are its own.
SMALL_BLOCKS = "<min_compress_block_size>16384</min_compress_block_size><max_compress_block_size>32768</max_compress_block_size>"


def program():
    return shutil.which("clickhouse-server") or shutil.which("clickhouse-server", path="/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Over a folder that may have tables already. `prefix` is what starts the server, if not it itself."""

    def __init__(self, folder, prefix=(), environment=None, blocks=SMALL_BLOCKS):
        self.folder, self.blocks = pathlib.Path(folder), blocks
        self.prefix, self.environment = prefix, environment
        self.process = None
        self.port = 0

    def __enter__(self):
        for name in ("data", "tmp", "files"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "users.xml").write_text(USERS.format(blocks=self.blocks))
        for _ in range(5):  # somebody else may take the port between the probe and the server
            self.port = free_port()
            (self.folder / "config.xml").write_text(CONFIG.format(folder=self.folder, port=self.port))
            words = [*self.prefix, program(), f"--config-file={self.folder}/config.xml"]
            self.process = started.start(words, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self.answers():
                return self
            self.stop()
        log = (self.folder / "error.log").read_text(errors="replace") if (self.folder / "error.log").exists() else "no log"
        raise RuntimeError(f"clickhouse-server does not answer: {log[-2000:]}")

    def __exit__(self, *_):
        self.stop()

    def answers(self):
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                return self.query("SELECT 1") == b"1\n"
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)  # the server says nowhere else that it is ready
        return False

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def query(self, text):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", data=text.encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    def settle(self, table):
        """Waits until its parts are merged as far as the server does so by itself, and those that it has merged are gone."""
        deadline = time.monotonic() + 300
        states = f"SELECT count() FROM system.merges UNION ALL SELECT count() FROM system.parts WHERE table = '{table}' AND NOT active"
        while self.query(states).split() != [b"0", b"0"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"clickhouse-server still merges parts of {table}")
            time.sleep(0.2)  # the server says nowhere else that it has come to rest

    def version(self):
        return re.sub(r"\s", "", self.query("SELECT version()").decode())
