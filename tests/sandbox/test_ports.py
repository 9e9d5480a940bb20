"""A reserved port is free for its server and for no other socket."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from extender.sandbox.ports import Ports
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import Settings


def bind(port: int) -> None:
    """Bind a socket that has reserved nothing."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_the_extenders_port_stays_its_own_until_it_listens(tmp_path: Path) -> None:
    extender = ExtenderProcess(tmp_path, tmp_path / "kubeconfig", Settings())
    port = int(extender.url.rsplit(":", 1)[1])
    with pytest.raises(OSError, match="in use"):
        bind(port)
    asyncio.run(extender.close())
    bind(port)


def test_a_server_listens_on_a_reserved_port_and_again_after_it_has_ended() -> None:
    ports = Ports()
    port = ports.reserve()
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(OSError, match="in use"),
        ):
            socket.create_server(("127.0.0.1", port))
    ports.close()


def test_a_port_that_is_asked_for_is_reserved_or_refused() -> None:
    first, other = Ports(), Ports()
    with socket.create_server(("127.0.0.1", first.reserve())) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            other.reserve(port)
    first.close()
    assert other.reserve(port) == port
    other.close()


def test_nothing_answers_on_a_reserved_port() -> None:
    ports = Ports()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports.reserve()))
    ports.close()
