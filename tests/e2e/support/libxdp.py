"""What a program of others does with libxdp: attaches itself to an interface beside those that are there, and leaves it.

usage: libxdp.py attach OBJECT INTERFACE PRIORITY | detach NAME INTERFACE | list INTERFACE

To be run in the interface's network namespace, where /sys/fs/bpf is to be seen. Ends with 1 and what libxdp said where that fails."""
import ctypes
import os
import socket
import sys

NATIVE = 1
LIBXDP = ctypes.CDLL("libxdp.so.1", use_errno=True)
for name, result, arguments in (("xdp_program__open_file", ctypes.c_void_p, "ppp"), ("xdp_multiprog__get_from_ifindex", ctypes.c_void_p, "i"),
                                ("xdp_multiprog__next_prog", ctypes.c_void_p, "pp"), ("xdp_multiprog__is_legacy", ctypes.c_bool, "p"),
                                ("xdp_program__name", ctypes.c_char_p, "p"), ("xdp_program__set_run_prio", ctypes.c_int, "pi"),
                                ("xdp_program__attach", ctypes.c_int, "piii"), ("xdp_program__detach", ctypes.c_int, "piii"),
                                ("xdp_multiprog__attach_mode", ctypes.c_int, "p"), ("libxdp_get_error", ctypes.c_long, "p")):
    function = getattr(LIBXDP, name)
    function.restype, function.argtypes = result, [ctypes.c_void_p if letter == "p" else ctypes.c_int for letter in arguments]


def failed(what, code):
    print(f"{what}: {os.strerror(abs(code))}", file=sys.stderr)
    sys.exit(1)


def checked(what, pointer):
    code = LIBXDP.libxdp_get_error(pointer)
    return failed(what, code) if code else pointer


def programs(index):
    """What the dispatcher calls; nothing where there is none."""
    attached = LIBXDP.xdp_multiprog__get_from_ifindex(index)
    if LIBXDP.libxdp_get_error(attached) or LIBXDP.xdp_multiprog__is_legacy(attached):
        return []
    found, each = [], None
    while each := LIBXDP.xdp_multiprog__next_prog(each, attached):
        found.append((LIBXDP.xdp_program__name(each).decode(), each, LIBXDP.xdp_multiprog__attach_mode(attached)))
    return found


def attach(path, index, priority):
    program = checked("open", LIBXDP.xdp_program__open_file(path.encode(), None, None))
    LIBXDP.xdp_program__set_run_prio(program, priority)
    if code := LIBXDP.xdp_program__attach(program, index, NATIVE, 0):
        failed("attach", code)


def main():
    verb, *words = sys.argv[1:]
    index = socket.if_nametoindex(words[0] if verb == "list" else words[1])
    if verb == "attach":
        attach(words[0], index, int(words[2]))
    elif verb == "detach":
        program, mode = next((each, mode) for name, each, mode in programs(index) if name == words[0])
        if code := LIBXDP.xdp_program__detach(program, index, mode, 0):
            failed("detach", code)
    else:
        print(" ".join(name for name, _, _ in programs(index)))


if __name__ == "__main__":
    main()
