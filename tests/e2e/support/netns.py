"""Network namespaces with a veth pair between them, sockets in them, and raw frames."""
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import socket
import struct
import subprocess
import time

import ending  # noqa: F401

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PASS = ('__attribute__((section("xdp.frags"), used)) int pass(void *ctx) { return 2; }\n'
        'char _license[] __attribute__((section("license"), used)) = "GPL";\n')
SIOCETHTOOL = 0x8946
OFFLOADS = {"rx": 0x15, "tx": 0x17, "gso": 0x24, "gro": 0x2c, "tso": 0x1f}  # what sets them
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_SFEATURES, ETH_SS_FEATURES = 0x1b, 0x37, 0x3b, 4
PATIENCE = 30  # seconds until what has to happen has not


def ip(*words, namespace=None):
    done = subprocess.run(["ip", *(["-n", namespace] if namespace else []), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def why_not():
    """Why no namespace can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "network namespaces want root"
    name = f"chainio-try-{os.getpid()}"
    try:
        ip("netns", "add", name)
        try:
            refuse_at_once(name)
        finally:
            ip("netns", "del", name)
    except (RuntimeError, OSError) as error:
        return f"network namespaces of both protocols cannot be made here: {error}"
    return ""


def refuse_at_once(namespace):
    """Each datagram to a port where nobody listens is refused; by default the kernel says so once a second, after the first six."""
    files = " ".join(f"/proc/sys/net/{name}" for name in ("ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"))
    done = subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", f"for file in {files}; do echo 0 > $file || exit; done"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


class Pair:
    """Two namespaces, `here` with va (10.9.0.1, fd09::1) and `there` with vb (10.9.0.2, fd09::2). Several pairs of a process need names.
    Of vb's queues the first `senders` alone send, where that is given."""

    def __init__(self, mtu=9000, queues=2, name="", senders=None):
        self.here, self.there = (f"chainio-{os.getpid()}{name}-{side}" for side in "ab")
        self.made, self.mtu, self.queues, self.senders = [], mtu, queues, senders or queues
        try:
            for name in (self.here, self.there):
                ip("netns", "add", name)
                self.made.append(name)
                ip("link", "set", "lo", "up", namespace=name)
                refuse_at_once(name)
            self.connect()
        except BaseException:
            self.remove()
            raise

    def make(self, index):
        many = ["numrxqueues", self.queues, "numtxqueues"]
        numbered = ["index", index] if index else []
        ip("link", "add", "va", "netns", self.here, *many, self.queues, "type", "veth", "peer", "name", "vb", *numbered, "netns", self.there,
           *many, self.senders)

    def connect(self, index=None):
        """The pair, also after it was removed; vb has this number, if any."""
        self.make(index)
        for namespace, device, number in ((self.here, "va", 1), (self.there, "vb", 2)):
            ip("link", "set", device, "mtu", self.mtu, "up", namespace=namespace)
            ip("addr", "add", f"10.9.0.{number}/24", "dev", device, namespace=namespace)
            ip("addr", "add", f"fd09::{number}/64", "dev", device, "nodad", namespace=namespace)
        self.mac = {device: self.link(namespace, device)["address"] for namespace, device in ((self.here, "va"), (self.there, "vb"))}

    def link(self, namespace, device):
        return json.loads(ip("-j", "-d", "link", "show", "dev", device, namespace=namespace))[0]

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=True)
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def command(self, namespace, *words):
        return ["ip", "netns", "exec", namespace, *map(str, words)]


def passing(folder):
    """The object file of an XDP program that lets everything pass."""
    (folder / "pass.c").write_text(PASS)
    subprocess.run(["clang-19", "--target=bpfel", "-O2", "-g", "-c", folder / "pass.c", "-o", folder / "pass.o"], check=True)
    return folder / "pass.o"


@contextlib.contextmanager
def inside(namespace):
    """This thread in a namespace; sockets that it makes stay there."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    into = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if LIBC.setns(into, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        if LIBC.setns(before, CLONE_NEWNET) != 0:
            os._exit(3)  # in the wrong namespace nothing more can be trusted
        os.close(before)
        os.close(into)


def ethtool(namespace, device, command):
    """What a command of `ethtool`'s looks like behind the call; an OSError where the driver refuses it."""
    value = ctypes.create_string_buffer(command, len(command))
    with inside(namespace), socket.socket() as asker:
        fcntl.ioctl(asker, SIOCETHTOOL, struct.pack("16sP16x", device.encode(), ctypes.addressof(value)))
    return value.raw


def use_offload(namespace, device, name, on):
    """Switches an offload, as `ethtool -K` does; an OSError where the driver does not let it be changed."""
    ethtool(namespace, device, struct.pack("II", OFFLOADS[name], on))


def use_feature(namespace, device, name, on):
    """The same of a feature that has no number of its own, by its name in `ethtool -k`."""
    count = struct.unpack_from("I", ethtool(namespace, device, struct.pack("IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0)), 16)[0]
    names = ethtool(namespace, device, struct.pack("III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count) + bytes(32 * count))[12:]
    number = [names[32 * i:32 * i + 32].rstrip(b"\0").decode() for i in range(count)].index(name)
    words = [0] * (2 * ((count + 31) // 32))  # which are to be changed, and to what, in turn
    words[number // 32 * 2], words[number // 32 * 2 + 1] = 1 << number % 32, on << number % 32
    ethtool(namespace, device, struct.pack(f"II{len(words)}I", ETHTOOL_SFEATURES, len(words) // 2, *words))


def take_much(sock):
    """Room for the replies to many requests, whenever this process comes to read them; root may have more than the kernel's limit."""
    room = socket.SO_RCVBUF if os.geteuid() != 0 else 33  # SO_RCVBUFFORCE
    sock.setsockopt(socket.SOL_SOCKET, room, 8 << 20)


def unheard(folder):
    """A library to preload, with which the kernel's news are not to be had, as without AF_NETLINK."""
    (folder / "unheard.c").write_text("int nl_connect(void *socket, int protocol) { (void)socket, (void)protocol; return -1; }\n")
    subprocess.run(["clang-19", "-shared", "-fPIC", "-o", folder / "unheard.so", folder / "unheard.c"], check=True)
    return folder / "unheard.so"


@contextlib.contextmanager
def without_descriptor(pid, left=0):
    """A process may open nothing more meanwhile, or so much more as `left` says; yields the limit."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    most = len(os.listdir(f"/proc/{pid}/fd")) + left if left else 3
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        yield most
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def udp(namespace, address=None, family=socket.AF_INET):
    with inside(namespace):
        made = socket.socket(family, socket.SOCK_DGRAM)
    made.settimeout(PATIENCE)
    if address:
        made.bind(address)
    return made


def packets(namespace, device):
    """A socket that sends raw frames and sees those that reach the kernel."""
    with inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    made.bind((device, 3))
    made.settimeout(0.05)
    return made


def until(what, holds):
    """Waits for an event that nothing announces."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE} s: {what}")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[:len(data) // 2 * 2])) + (data[-1] << 8 if len(data) % 2 else 0)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ethernet(to, source, kind, payload):
    return bytes.fromhex(to.replace(":", "")) + bytes.fromhex(source.replace(":", "")) + struct.pack("!H", kind) + payload


def ipv4(source, to, protocol, payload, first=0x45, options=b"", fragment=0x4000, total=None, check=None, ttl=64):
    length = 20 + len(options) + len(payload) if total is None else total
    header = struct.pack("!BBHHHBBH4s4s", first + len(options) // 4, 0, length, 0, fragment, ttl, protocol, 0,
                         socket.inet_aton(source), socket.inet_aton(to)) + options
    sum_ = checksum(header) if check is None else check
    return header[:10] + struct.pack("!H", sum_) + header[12:] + payload


def ipv6(source, to, following, payload, length=None):
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload) if length is None else length, following, 64,
                       socket.inet_pton(socket.AF_INET6, source), socket.inet_pton(socket.AF_INET6, to)) + payload


def datagram(source, to, source_port, port, payload, length=None, check=None):
    """A UDP header and payload; `check`: None for the right sum."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    size = 8 + len(payload) if length is None else length
    pseudo = socket.inet_pton(family, source) + socket.inet_pton(family, to) + struct.pack("!II", size, 17)
    header = struct.pack("!HHHH", source_port, port, size, 0)
    sum_ = (checksum(pseudo + header + payload) or 0xffff) if check is None else check
    return header[:6] + struct.pack("!H", sum_) + payload


def held_port(kind=socket.SOCK_STREAM):
    """A port that stays ours: bound, but not listening, and shared with the program that binds it, too."""
    held = socket.socket(socket.AF_INET, kind)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held, held.getsockname()[1]
