"""What shows life, what is late, what is dead."""

from __future__ import annotations

from extender.gang.controller.rounds import Heartbeats
from extender.gang.runtime.clocks import Clocks


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_what_has_shown_life_can_be_late() -> None:
    clock = Clock()
    beats = Heartbeats({"tick": 10.0}, Clocks(clock))
    clock.now = 1000.0
    assert beats.late() == []
    beats.beat("tick")
    beats.beat("search")
    clock.now += 11
    assert beats.late() == ["tick has made no progress for 11 s"]
    beats.beat("tick")
    assert beats.late() == []
    clock.now += 60
    assert len(beats.late()) == 2


def test_rest_is_not_death() -> None:
    clock = Clock()
    beats = Heartbeats({}, Clocks(clock))
    beats.beat("recovery")
    beats.rest("recovery")
    beats.rest("never begun")
    clock.now = 1e6
    assert beats.late() == []


def test_death_stays() -> None:
    beats = Heartbeats({}, Clocks(Clock()))
    beats.died("acting", "KeyError: 'x'")
    beats.beat("acting")
    assert beats.late() == ["acting has ended: KeyError: 'x'"]
