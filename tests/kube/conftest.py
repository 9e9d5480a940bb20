from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.sandbox.ports import Ports


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nothing listens; no other socket gets it meanwhile."""
    ports = Ports()
    yield ports.reserve()
    ports.close()
