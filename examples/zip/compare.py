#!/usr/bin/env python3
"""compare.py app.bpf.o ARCHIVE.zip …: takes every member out of archives, asks for one that they have not, and compares with what Python's
zipfile says."""
import pathlib
import struct
import sys
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "runtime" / "bindings" / "python"))
import chainio  # noqa: E402

PIECE = 65496


def member(app, archive, name):
    """What describes it, and its bytes as they are stored: as many calls as it has pieces."""
    packed = b""
    while True:
        result = app.call("member", zip=archive, name=name, start=len(packed))
        if result.outcome != "ok":
            return result.outcome, b""
        packed += result.value[40:]
        if len(result.value) < 40 + PIECE:
            return struct.unpack_from("<4Q", result.value), packed


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    compared = wrong = 0
    with chainio.open(sys.argv[1]) as app:
        for path in sys.argv[2:]:
            number = app.file(path)
            with zipfile.ZipFile(path) as archive:
                for each in archive.infolist():
                    name = each.orig_filename.encode("utf-8" if each.flag_bits & 0x800 else "cp437")
                    said, packed = member(app, number, name)
                    data = zlib.decompress(packed, -15) if each.compress_type == zipfile.ZIP_DEFLATED else packed
                    want = each.compress_type, each.CRC, each.file_size, each.compress_size
                    compared += 1
                    if said != want or data != archive.read(each):
                        print(f"{path}: {each.filename}: {said}, zipfile says {want}")
                        wrong += 1
            if member(app, number, b"no such member")[0] != "not_found":
                print(f"{path}: has what it has not")
                wrong += 1
            app.close_file(number)
    print(f"{compared} members, {wrong} of them not as zipfile says")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
