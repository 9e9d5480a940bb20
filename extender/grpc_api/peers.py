"""Closing the connection of one caller, which the gRPC library has no call for.

A caller that does not take its answer keeps its call, and all that it holds, as long as it likes:
a write that has begun can be neither taken back nor followed by an error.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from urllib.parse import unquote

DESCRIPTORS = "/proc/self/fd"


def cut(peer: str) -> bool:
    """Close the connection of a peer as gRPC names it; return whether there was one.

    Callers on a Unix socket have no name of their own: theirs stays.
    """
    kind, _, rest = peer.partition(":")
    port = rest.rpartition(":")[2]
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return False
    wanted = (_plain(host_of(peer)), int(port))
    found = False
    with contextlib.suppress(OSError):
        for entry in os.listdir(DESCRIPTORS):
            found = _cut(int(entry), wanted) or found
    return found


def host_of(peer: str) -> str:
    """Return the address in a peer's name, "" on a Unix socket."""
    kind, _, rest = peer.partition(":")
    return unquote(rest).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def _cut(descriptor: int, wanted: tuple[str, int]) -> bool:
    # What is no socket, is closed meanwhile or has no peer, is an error of the system.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        address = connection.getpeername()
        if isinstance(address, tuple) and (_plain(address[0]), address[1]) == wanted:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _plain(host: str) -> str:
    """Return an address without a zone; IPv4 as such where a socket for both carries it."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        return str(getattr(address, "ipv4_mapped", None) or address)
    return host
