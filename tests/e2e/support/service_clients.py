"""Clients of random services: over tcp in segments of any length, and by datagrams."""
import select
import socket

from daemon import everything
from netns import PATIENCE, take_much


def cuts_of(rng, length):
    """(where segments end, whether each one is waited for)"""
    way = rng.choice(["one", "one", "bytes", "some", "waited"])
    if way == "one" or length < 2:
        return [length], False
    if way == "bytes":
        return list(range(1, length + 1)), False
    inner = rng.sample(range(1, length), min(length - 1, 3 if way == "waited" else rng.randrange(1, 20)))
    return [*sorted(inner), length], way == "waited"


def has_ended(sock):
    """Whether the other side sends no more."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


class Stream:
    """A connection on which all is sent, and whose reply is read once all others have sent theirs."""
    def __init__(self, port, received):
        self.received = received  # how many bytes the service has had from all connections
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data, cuts, waited):
        before = self.received() if waited else 0
        begin = 0
        for end in cuts:
            self.sock.sendall(data[begin:end])
            # Each segment by itself, as far as the service has not hung up.
            while waited and not has_ended(self.sock) and self.received() < before + end:
                pass
            begin = end
        self.sock.shutdown(socket.SHUT_WR)

    def reply(self):
        with self.sock:
            try:
                return everything(self.sock)
            except TimeoutError:
                return b"(no end)"


class Datagrams:
    def __init__(self, port):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        take_much(self.sock)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(("127.0.0.1", port))

    def send(self, data):
        self.sock.send(data)

    def replies(self, count):
        """So many of them, or those that came instead."""
        got = []
        try:
            while len(got) < count:
                got.append(self.sock.recv(1 << 16))
        except TimeoutError:
            pass
        return got

    def others(self):
        """What is there that nobody has waited for."""
        self.sock.setblocking(False)
        try:
            return [self.sock.recv(1 << 16)]
        except BlockingIOError:
            return []
        finally:
            self.sock.close()
