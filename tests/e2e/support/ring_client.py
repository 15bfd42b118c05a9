"""A client of services over shared memory, written from docs/protocol.md and nothing else."""
import array
import mmap
import os
import socket
import struct

from netns import PATIENCE

MEETING, CHANNEL, RING = 0x74656d63, 0x6e616863, 0x676e7263
SEND, MESSAGE, RELEASE = 3, 4, 5
NO_MORE = "the server has gone"


class Refused(Exception):
    pass


def hello(service, frames, frame_bytes, version=1):
    name = service.encode()
    return struct.pack("=IHHII", MEETING, version, len(name), frames, frame_bytes) + name


def meet(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(PATIENCE)
    sock.connect(str(path))
    return sock


def answer(sock):
    """The descriptors that come with a welcome."""
    data, rights, _, _ = sock.recvmsg(2000, socket.CMSG_SPACE(2 * 4))
    fds = array.array("i")
    for level, kind, content in rights:
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        fds.frombytes(content)
    if not data:
        raise Refused(NO_MORE)
    magic, version, length = struct.unpack_from("=IHH", data)
    assert (magic, version) == (MEETING, 1), data
    if length:
        raise Refused(data[8:8 + length].decode())
    assert len(fds) == 2, fds
    return list(fds)


class Words:
    """The region's words, each of which is read and written at once: `struct` writes zeros first, which the other side would see."""
    def __init__(self, memory):
        self.view = memoryview(memory).cast("I")

    def read(self, at):
        return self.view[at // 4]

    def write(self, at, value):
        self.view[at // 4] = value & 0xffffffff


class Ring:
    """One of the two, with what its header says checked."""
    def __init__(self, memory, words, at, entries):
        self.memory, self.words, self.at, self.entries, self.own = memory, words, at, entries, 0
        assert struct.unpack_from("=IHHI52s", memory, at) == (RING, 1, 32, entries, bytes(52)), at

    def read(self, at):
        return self.words.read(self.at + at)

    def write(self, at, value):
        self.words.write(self.at + at, value)

    def push(self, descriptor):
        assert (self.own - self.read(128)) & 0xffffffff < self.entries, "the ring is full"
        place = self.at + 192 + 32 * (self.own % self.entries)
        self.memory[place:place + 32] = descriptor
        self.own += 1
        self.write(64, self.own)

    def pop(self):
        if self.read(64) == self.own & 0xffffffff:
            return None
        place = self.at + 192 + 32 * (self.own % self.entries)
        descriptor = bytes(self.memory[place:place + 32])
        self.own += 1
        self.write(128, self.own)
        return descriptor


class RingClient:
    def __init__(self, path, service, frames=8, frame_bytes=65536):
        self.sock = meet(path)
        try:
            self.sock.send(hello(service, frames, frame_bytes))
            region, self.server_bell = answer(self.sock)
        except BaseException:
            self.sock.close()
            raise
        self.memory = mmap.mmap(region, os.fstat(region).st_size)
        os.close(region)
        entries = max(2, 1 << (frames - 1).bit_length())
        assert struct.unpack_from("=IHHIII44s", self.memory) == (CHANNEL, 1, 0, frames, frame_bytes, entries, bytes(44))
        self.words = Words(self.memory)
        self.requests, self.answers = (Ring(self.memory, self.words, at, entries) for at in (192, 384 + 32 * entries))
        self.frame_bytes = frame_bytes
        self.frames_at = -(-(576 + 64 * entries) // frame_bytes) * frame_bytes
        self.free = list(range(frames))
        self.serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.sock is None:
            return
        self.sock.close()
        self.sock = None
        os.close(self.server_bell)
        self.words.view.release()
        self.memory.close()

    def raw(self, kind, frame_at, offset, length, serial=0, class_index=0):
        """Pushes whatever it is told, and wakes the server."""
        self.requests.push(struct.pack("=BBHIIIIIII", kind, class_index, 0, frame_at // 512, offset, length, 0, 0, serial, 0))
        if self.words.read(64):
            self.words.write(64, 0)
            os.eventfd_write(self.server_bell, 1)

    def frame(self, number):
        return self.frames_at + number * self.frame_bytes

    def send(self, data, offset=0):
        """The serial of the request."""
        number = self.free.pop()
        at = self.frame(number) + offset
        self.memory[at:at + len(data)] = data
        self.serial += 1
        self.raw(MESSAGE, self.frame(number), offset, len(data), self.serial)
        return self.serial

    def receive(self):
        """(serial, answer), or (serial, None) where there is none; an error once the server has gone."""
        while (descriptor := self.answers.pop()) is None:
            self.words.write(128, 1)
            if self.answers.read(64) == self.answers.own & 0xffffffff:
                # It waits for as long as a socket of ours does.
                try:
                    woken = self.sock.recv(1)
                except ConnectionResetError:  # as of what the server has not read
                    woken = b""
                if not woken and self.answers.read(64) == self.answers.own & 0xffffffff:
                    raise Refused(NO_MORE)
            self.words.write(128, 0)
        kind, _, _, frame, offset, length, _, _, serial, _ = struct.unpack("=BBHIIIIIII", descriptor)
        number = (frame * 512 - self.frames_at) // self.frame_bytes
        assert (frame * 512, number in self.free) == (self.frame(number), False), descriptor
        assert kind in (SEND, RELEASE), kind
        at = self.frame(number) + offset
        data = bytes(self.memory[at:at + length]) if kind == SEND else None
        self.free.append(number)
        return serial, data

    def call(self, data):
        serial = self.send(data)
        got, reply = self.receive()
        assert got == serial
        return reply

    def ended(self):
        """Whether the server ends the channel, before or without anything that it has to say."""
        try:
            while True:
                self.receive()
        except Refused as error:
            return str(error) == NO_MORE
