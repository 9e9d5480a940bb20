"""Closing the connection of one caller and of nobody else."""

from __future__ import annotations

import socket

import pytest

from extender.grpc_api.peers import cut


def connected(family: socket.AddressFamily, host: str) -> tuple[socket.socket, socket.socket]:
    """(a caller's end, the server's end) of a new connection."""
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as listener:
        address = "127.0.0.1" if host == "::" else host
        caller = socket.create_connection((address, listener.getsockname()[1]))
        server, _ = listener.accept()
    return caller, server


@pytest.mark.parametrize(
    ("host", "peer"),
    [("127.0.0.1", "ipv4:127.0.0.1:{}"), ("::1", "ipv6:%5B::1%5D:{}"), ("::", "ipv4:127.0.0.1:{}")],
)
def test_the_named_connection_is_closed_and_no_other(host: str, peer: str) -> None:
    """On a socket for both families an IPv4 caller has an address of the other kind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    (caller, server), (other, others) = connected(family, host), connected(family, host)
    with caller, server, other, others:
        assert cut(peer.format(caller.getsockname()[1]))
        assert caller.recv(1) == b""
        others.sendall(b"x")
        assert other.recv(1) == b"x"


@pytest.mark.parametrize(
    "peer", ["unix:", "unix:/run/s", "ipv4:127.0.0.1:1", "ipv4:127.0.0.1", "", "ipv4:x:y"]
)
def test_who_is_not_there_or_has_no_name(peer: str) -> None:
    assert not cut(peer)
