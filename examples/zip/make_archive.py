#!/usr/bin/env python3
"""make_archive.py FOLDER: writes plain.zip; behind.zip, the same behind a program and with a comment; large.zip, whose sizes and
places stand where ZIP64 has them; and packed.zip, whose member is deflated."""
import pathlib
import sys
import zipfile


def fill(archive, entries):
    def add(name, data):
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)

    add("empty", b"")
    add("hello.txt", b"hello, world\n")
    add("long", bytes(i * i % 251 for i in range(100000)))
    for i in range(entries):
        add(f"folder/{i:05}", b"%d" % i)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    with zipfile.ZipFile(folder / "plain.zip", "w") as archive:
        fill(archive, 2000)  # more than one read of the directory brings
    plain = (folder / "plain.zip").read_bytes()
    comment = bytes(40)
    (folder / "behind.zip").write_bytes(b"#!/bin/sh\nexit\n" + plain[:-2] + len(comment).to_bytes(2, "little") + comment)
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("deflated", b"again and " * 1000, zipfile.ZIP_DEFLATED)
    zipfile.ZIP64_LIMIT = 8  # of what fits 32 bits
    with zipfile.ZipFile(folder / "large.zip", "w") as archive:
        fill(archive, 20)


if __name__ == "__main__":
    main()
