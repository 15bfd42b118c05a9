#!/usr/bin/env python3
"""AF_XDP on an interface that has a VLAN: the tag is not in the frame, and the program must know by the address that the datagram is not its own."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import netns
from netns import ip
import runs
from runs import expect
from xdp_server import PORT, Server


def why_not(pair):
    try:
        ip("link", "add", "link", "va", "name", "va.5", "type", "vlan", "id", "5", namespace=pair.here)
    except RuntimeError as error:
        return f"this kernel has no VLAN devices, tags are only sent as raw frames (xdp_traffic): {str(error).strip()}"
    ip("link", "del", "va.5", namespace=pair.here)
    return ""


def tagged(pair):
    for namespace, device, number in ((pair.here, "va", 1), (pair.there, "vb", 2)):
        ip("link", "add", "link", device, "name", f"{device}.5", "type", "vlan", "id", "5", namespace=namespace)
        ip("addr", "add", f"10.9.5.{number}/24", "dev", f"{device}.5", namespace=namespace)
        ip("link", "set", f"{device}.5", "up", namespace=namespace)
    server = Server(pair)
    with netns.udp(pair.there, ("10.9.5.2", PORT)) as plain, netns.udp(pair.here) as client:
        client.sendto(b"Etagged", ("10.9.5.2", PORT))
        expect("a VLAN's datagram is its socket's", plain.recv(100), b"Etagged")
    expect("and was not taken", server.end()["taken"], 0)


def main():
    if reason := netns.why_not():
        print(f"skipped: {reason}")
        return 77
    with netns.Pair() as pair:
        if reason := why_not(pair):
            print(f"skipped: {reason}")
            return 77
        tagged(pair)
    return runs.ended()


if __name__ == "__main__":
    sys.exit(main())
