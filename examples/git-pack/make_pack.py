#!/usr/bin/env python3
"""make_pack.py FOLDER: writes FOLDER/pack-fruit.pack: 300 blobs, a commit and its tree, and 40 deltas, each of the object before it;
and lets git make its index. pack-far.pack is the same, with an index in which most places have 8 bytes, as those of packs of
more than 2 GiB."""
import hashlib
import pathlib
import struct
import subprocess
import sys
import zlib

COMMIT, TREE, BLOB, BY_PLACE, BY_NAME = 1, 2, 3, 6, 7


def name_of(kind, content):
    return hashlib.sha1(b"%s %d\0" % (kind, len(content)) + content).digest()


def entry(kind, content, base=b""):
    size, head = len(content) >> 4, bytearray([kind << 4 | len(content) & 15])
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + base + zlib.compress(content, 0)  # stored, so that places are the same everywhere


def distance(back):
    coded = [back & 127]
    while back := back >> 7:
        back -= 1
        coded.insert(0, 128 | back & 127)
    return bytes(coded)


def appended(base, more):
    """The delta of `base` to the same with `more` behind it, all shorter than 128 bytes."""
    return bytes([len(base), len(base) + len(more), 0b10010000, len(base), len(more)]) + more


def objects():
    blobs = [b"fruit %03d\n" % i for i in range(300)]
    tree = b"".join(b"100644 %03d\0" % i + name_of(b"blob", blob) for i, blob in enumerate(blobs))
    yield COMMIT, b"tree %s\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nfruit\n" % name_of(b"tree", tree).hex().encode()
    yield TREE, tree
    for blob in blobs:
        yield BLOB, blob


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    entries, at, last_at = [], 12, 0
    for kind, content in objects():
        entries.append(entry(kind, content))
        last, last_at, at = content, at, at + len(entries[-1])
    for i in range(40):  # by their place and by their name in turns
        delta = appended(last, b".")
        base = (BY_NAME, name_of(b"blob", last)) if i % 2 else (BY_PLACE, distance(at - last_at))
        entries.append(entry(base[0], delta, base[1]))
        last, last_at, at = last + b".", at, at + len(entries[-1])
    pack = b"PACK" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    pack += hashlib.sha1(pack).digest()
    for name, more in (("pack-fruit", []), ("pack-far", ["--index-version=2,0x20"])):
        (folder / f"{name}.pack").write_bytes(pack)
        subprocess.run(["git", "index-pack", *more, str(folder / f"{name}.pack")], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
