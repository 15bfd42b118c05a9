#!/usr/bin/env python3
"""ask.py [--udp] [--host HOST] [--port PORT] KEY...: asks a server for keys by memcached's protocol, and prints what it answers."""
import argparse
import socket
import struct

NUMBER = 7  # of the request, which the datagrams of its reply repeat


def by_tcp(address, request):
    with socket.create_connection(address, timeout=10) as sock:
        sock.sendall(request)
        reply = b""
        while not reply.endswith((b"END\r\n", b"ERROR\r\n")) and (got := sock.recv(65536)):
            reply += got
    return reply


def by_udp(address, request):
    """memcached's frame: the request's number, the datagram's own, how many there are, and zeros."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10)
        sock.connect(address)
        sock.send(struct.pack("!HHHH", NUMBER, 0, 1, 0) + request)
        parts, count = {}, 1
        while len(parts) < count:
            data = sock.recv(65536)
            number, at, count, _ = struct.unpack_from("!HHHH", data)
            assert number == NUMBER, data
            parts[at] = data[8:]
    return b"".join(parts[at] for at in range(count))


words = argparse.ArgumentParser()
words.add_argument("--udp", action="store_true")
words.add_argument("--host", default="127.0.0.1")
words.add_argument("--port", type=int, default=11211)
words.add_argument("keys", nargs="+")
words = words.parse_args()
ask = by_udp if words.udp else by_tcp
print(ask((words.host, words.port), f"get {' '.join(words.keys)}\r\n".encode()).decode(), end="")
