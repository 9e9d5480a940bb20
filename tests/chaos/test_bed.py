"""The runner itself outlives what it does to the extender."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.settings.settings import Settings
from tests.chaos.bed import Extender


@pytest.fixture
def cut_off() -> Iterator[int]:
    """A port on which each answer ends before its body, as that of a killed process may."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(65536)
                    caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 152\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_is_cut_off_is_no_good_answer(cut_off: int, tmp_path: Path) -> None:
    extender = Extender(tmp_path, Settings())
    extender.url = f"http://127.0.0.1:{cut_off}"
    assert not extender.verb(b"{}")
    assert extender.decisions() == []
    assert not extender.ready()
