"""What is short is told in full, and only what is short."""

from __future__ import annotations

from extender.fit.node_resources_fit import fits, why_not
from tests.fit.builders import requests

ROOM = {"cpu": 4000, "example.com/gpu": 2, "pods": 3}


def test_a_request_that_takes_all_there_is_fits() -> None:
    assert fits(requests(cpu=3000, gpu=2), ROOM, {"cpu": 1000}, 2)
    assert why_not(requests(cpu=3000, gpu=2), ROOM, {"cpu": 1000}, 2) is None


def test_only_what_is_short_is_named() -> None:
    why = why_not(requests(cpu=3001, gpu=2), ROOM, {"cpu": 1000}, 2)
    assert why is not None
    assert why.startswith("NodeResourcesFit: ")
    assert "gpu" not in why
    assert "pod slot" not in why


def test_all_that_is_short_is_named() -> None:
    why = why_not(requests(cpu=3001, gpu=3), ROOM, {"cpu": 1000}, 3)
    assert why is not None
    assert "no free pod slot (3 of 3 taken)" in why
    assert "CPU" in why
    assert "example.com/gpu" in why


def test_who_asks_for_none_fits_on_an_overcommitted_node() -> None:
    none = (("cpu", 0), ("pods", 1))
    assert fits(none, ROOM, {"cpu": 9000}, 0)
    why = why_not((*none, ("zz", 1)), ROOM, {"cpu": 9000}, 0)
    assert why is not None
    assert "CPU" not in why
