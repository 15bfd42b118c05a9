#!/usr/bin/env python3
"""A store that was cut short, or whose header is not as it was written, is no store: the daemon does not begin with it, nor go over to it, and says why."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from daemon import NotServed, receive  # noqa: E402
from daemon import Server as TcpServer  # noqa: E402
from runs import BUILD, ROOT, expect  # noqa: E402


NO_HEADER = "its first 64 bytes are not the header that the spec declares"


class Server(TcpServer):
    FILE = "values", "main.store"

    def __init__(self, folder):
        super().__init__(folder, service="kv")


def asked(sock):
    sock.sendall(b"k" * 16)
    return receive(sock, 4 + 1000)


def build(path, value):
    subprocess.run([BUILD / "bin" / "chainio", "store", "build", path, "--from", "-"], input=b"k" * 16 + b"\t" + value * 1000 + b"\n", check=True,
                   stdout=subprocess.DEVNULL)


def cut(folder, size):
    """A store of other values that ends too early, in the place of the one that is served."""
    build(folder / "other.store", b"c")
    os.truncate(folder / "other.store", size)
    os.rename(folder / "other.store", folder / "main.store")


def changed(folder, at):
    """A store of other values of whose header one bit is another, in the place of the one that is served."""
    build(folder / "other.store", b"c")
    data = bytearray((folder / "other.store").read_bytes())
    data[at] ^= 1
    (folder / "other.store").write_bytes(data)
    os.rename(folder / "other.store", folder / "main.store")


def cut_short(size, whole):
    return f"it has {size} bytes, and by its header it has to have {whole}: it was cut short; copy it or make it again"


def refused(folder, what, why):
    said = f"file '{folder / 'main.store'}' for class 'values': {why}"
    try:
        code, text = Server(folder).stop(), "it was served"
    except NotServed as error:
        code, text = error.code, str(error)
    expect(f"{what}: not begun with", (code, said in text), (1, True))
    call = subprocess.run([BUILD / "bin" / "chainio", "call", folder / "app.o", "store.find", "--file", f"store={folder / 'main.store'}", "--key", "k"],
                          capture_output=True, text=True)
    expect("  nor is a chain called", (call.returncode, said in call.stderr), (1, True))
    return said


def not_gone_over_to(folder, server, sock, why):
    said = refused(folder, "in the place of one that is served", why)
    expect("  a reload says so", server.control({"op": "reload"}), lambda answer: said in answer.get("error", ""))
    expect("  and changes nothing", asked(sock), (1000).to_bytes(4, "big") + b"a" * 1000)
    server.wait_for("  that it was replaced was noticed, and is said as well",
                    lambda _: any(line.startswith("edition 1 goes on") and said in line and "was replaced" in line for line in server.said))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        spec = ROOT / "stdlib-chains" / "std"
        subprocess.run([BUILD / "bin" / "chainc", spec / "kv.chain", "-I", spec.parent, "-o", folder / "app.o"], check=True)
        store = folder / "main.store"
        build(store, b"a")
        whole = store.stat().st_size
        for size in (whole - 1, 4096):
            cut(folder, size)
            refused(folder, f"{size} of {whole} bytes", cut_short(size, whole))
        for at in (0, 8, 12, 15, 16, 23, 24, 32, 40, 48, 56, 63):  # each field, with which every key might be another one's or not_found
            changed(folder, at)
            refused(folder, f"byte {at} of the header", NO_HEADER)

        build(store, b"a")
        with open(store, "ab") as file:
            file.write(b"more")  # of it, chains read nothing; a block device is as long as it is
        server = Server(folder)
        sock = server.connect()
        expect("what is longer is served", asked(sock), (1000).to_bytes(4, "big") + b"a" * 1000)
        cut(folder, 4096)
        not_gone_over_to(folder, server, sock, cut_short(4096, whole))
        changed(folder, 16)
        not_gone_over_to(folder, server, sock, NO_HEADER)
        build(folder / "next.store", b"b")
        os.rename(folder / "next.store", store)
        server.wait_for("a whole one", lambda stats: stats["edition"] == 2)
        expect("  is gone over to", asked(sock), (1000).to_bytes(4, "big") + b"b" * 1000)
        sock.close()
        expect("ends", server.stop(), 0)
    return runs.ended()


if __name__ == "__main__":
    raise SystemExit(main())
