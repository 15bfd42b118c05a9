"""Sockets of another process, and a map of sockets, which changes how those in it send."""
import ctypes
import os
import pathlib
import struct

BPF, PIDFD_GETFD, SOCKMAP = 321, 438, 15
MAP_CREATE, MAP_UPDATE_ELEM = 0, 2
libc = ctypes.CDLL(None, use_errno=True)


def system_call(*words):
    result = libc.syscall(*words)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {words[0]}")
    return result


def bpf(command, *words):
    attributes = ctypes.create_string_buffer(struct.pack(*words).ljust(128, b"\0"))
    return system_call(BPF, command, attributes, 128)


def create():
    """The descriptor of a map for one socket."""
    return bpf(MAP_CREATE, "<4I", SOCKMAP, 4, 4, 1)


def put(sockets, socket):
    key, value = ctypes.c_uint32(0), ctypes.c_uint32(socket)
    bpf(MAP_UPDATE_ELEM, "<IIQQ", sockets, 0, ctypes.addressof(key), ctypes.addressof(value))


def socket_of(process, wanted):
    """A descriptor of ours of the TCP socket of another process whose row of /proc/net/tcp is wanted: `wanted` has its words."""
    table = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(words[9] for words in table if wanted(words))
    number = next(int(fd.name) for fd in pathlib.Path(f"/proc/{process}/fd").iterdir() if os.readlink(fd) == f"socket:[{inode}]")
    return system_call(PIDFD_GETFD, os.pidfd_open(process), number, 0)


def daemons_end(server, client):
    """A descriptor of ours of the daemon's end of a connection."""
    ours = f":{client.getsockname()[1]:04X}"
    return socket_of(server.process.pid, lambda words: words[2].endswith(ours) and words[1].endswith(f":{server.port:04X}"))
