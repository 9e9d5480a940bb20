"""What the simulated API server shows of a state that it does not have."""

from __future__ import annotations

import json

from tests.simulation import objects
from tests.simulation.chance import Chance
from tests.simulation.loop import SimLoop
from tests.simulation.server import Server

NODES = "/api/v1/nodes"


def _watch(*, away: bool) -> list[str]:
    """Return the types of the first events of a watch that goes on from before one change."""
    loop = SimLoop(Chance(1))
    server = Server(loop, Chance(1))

    def create(name: str) -> None:
        server.answer("POST", NODES, {}, objects.node(name, 1), "")

    create("n0")
    version = str(server.storage.version)
    if away:
        server.lose_storage(5.0)
    create("n1")
    stream = server.open(NODES, {"resourceVersion": version}, lambda: 0.01)
    try:
        lines = loop.run_until_complete(stream.lines(idle=1.0))
    finally:
        loop.close()
    return [json.loads(line)["type"] for line in lines]


def test_a_watch_without_storage_shows_no_change_before_its_error() -> None:
    """kube-apiserver's does not: a change would prove that it goes on from the version asked."""
    assert _watch(away=False) == ["ADDED"]
    assert _watch(away=True) == ["ERROR"]
