"""A gang's life, put together from decisions, its plan's states and its pods' ends."""

from __future__ import annotations

from typing import Any

import pytest

from extender.gang.tell import gang_traces as lives_module
from extender.gang.tell.decisions import Decision, Outcome
from extender.gang.tell.gang_traces import MOST_REFUSED, MOST_UNITS, Flown, Life, LifeOutcome, Lives
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Cost, Seat, Victim

GANG = "pod-group:team/high"
OFFSET = 5000.0
"""Of the wall clock against the monotonic one."""


class Stage:
    def __init__(self) -> None:
        self.now = 100.0
        self.over: list[Life] = []
        self.there = True
        self.lives = Lives(
            self.over.append,
            lambda key: self.there,
            lambda: self.now,
            lambda: self.now - OFFSET,
        )

    def say(self, outcome: Outcome, at: float, gang: str = GANG, **more: Any) -> None:
        self.now = at
        told = {"verb": "filter", "message": "m", **more}
        self.lives.decided(Decision(time=at, gang=gang, outcome=outcome, **told))

    def fly(self, *path: tuple[PreemptionState, float]) -> list[tuple[PreemptionState, float]]:
        entered = [(state, at - OFFSET) for state, at in path]
        self.lives.flying(GANG, Flown("plan-1", 100, entered))
        return entered

    def pod(self, uid: str, at: float, *, gone: bool) -> None:
        self.now = at
        (self.lives.gone if gone else self.lives.going)(uid)


def victim(name: str, unit: str = "") -> Victim:
    return Victim(uid=name, namespace="team", name=name, node="n", priority=1, unit=unit)


def spans(life: Life) -> dict[str, tuple[float, float]]:
    return {step.name: (step.start, step.end) for step in life.steps}


VICTIMS = (victim("a", "low"), victim("b", "low"), victim("c"))


def planned(stage: Stage, **more: Any) -> None:
    plan = {
        "victims": VICTIMS,
        "seats": (Seat(uid="h", namespace="team", name="h", node="n"),),
        "proof": "optimal",
        "seconds": 1.0,
        "costs": (Cost("pods@1", 3, 3), Cost("gangs@1", 0, 0)),
        **more,
    }
    stage.say(Outcome.PLAN, 110.0, **plan)


def test_from_the_first_question_to_the_last_binding() -> None:
    stage = Stage()
    stage.say(Outcome.REFUSAL, 100.0, code="incomplete")
    stage.say(Outcome.REFUSAL, 105.0, code="infeasible", seconds=2.0)
    planned(stage)
    path = stage.fly((PreemptionState.EVICTING, 111.0))
    for uid, at in (("c", 112.0), ("a", 113.0), ("b", 114.0)):
        stage.pod(uid, at, gone=False)
    for uid, at in (("c", 115.0), ("a", 116.0), ("b", 118.0)):
        stage.pod(uid, at, gone=True)
    path += [(PreemptionState.OPEN, 119.0 - OFFSET), (PreemptionState.ENDED, 125.0 - OFFSET)]
    stage.say(Outcome.DONE, 125.0, seconds=15.0)

    (life,) = stage.over
    assert (life.began, life.ended, life.outcome, life.priority) == (100.0, 125.0, "done", 100)
    searches = [step for step in life.steps if step.name == "search"]
    assert [(step.start, step.end) for step in searches] == [(103.0, 105.0), (109.0, 110.0)]
    assert searches[1].attributes["podgroup.proof"] == "optimal"
    assert searches[1].attributes["podgroup.units"] == 2
    assert searches[1].attributes["podgroup.costs"] == "pods@1=3"
    assert spans(life)["record"] == (110.0, 111.0)
    assert spans(life)["wait for leaving pods"] == (111.0, 119.0)
    assert spans(life)["seats open"] == (119.0, 125.0)
    units = {s.attributes["podgroup.unit"]: (s.start, s.end) for s in life.steps[3:5]}
    assert units == {"low": (113.0, 118.0), "team/c": (112.0, 115.0)}
    assert not any(step.trouble for step in life.steps)
    assert [(m.name, m.start, m.attributes["podgroup.code"]) for m in life.moments] == [
        ("refused", 100.0, "incomplete")
    ]
    assert len(stage.lives) == 0
    assert not any(map(stage.lives.follows, "abc"))


def test_given_up_while_victims_stay() -> None:
    stage = Stage()
    planned(stage)
    path = stage.fly((PreemptionState.EVICTING, 111.0), (PreemptionState.WAITING, 112.0))
    stage.pod("a", 113.0, gone=False)
    stage.pod("a", 114.0, gone=True)
    stage.say(Outcome.BROKEN, 120.0)
    path.append((PreemptionState.ENDED, 130.0 - OFFSET))
    stage.say(Outcome.GAVE_UP, 130.0, message="x" * 10_000)
    (life,) = stage.over
    assert life.outcome == "gave-up"
    assert len(life.message) < 300
    troubles = {step.name: step.trouble for step in life.steps if step.trouble}
    assert troubles == {
        "evict": "1 of its pods are still there",
        "wait for leaving pods": "not all of them terminated",
    }
    assert [moment.name for moment in life.moments] == ["broken"]
    # The next question begins another life.
    stage.say(Outcome.REFUSAL, 140.0, code="penalty")
    assert len(stage.lives) == 1


def test_a_changed_plan_is_a_part_of_the_same_life() -> None:
    stage = Stage()
    planned(stage)
    path = stage.fly((PreemptionState.EVICTING, 111.0), (PreemptionState.CHANGING, 112.0))
    stage.now = 114.0
    path.append((PreemptionState.ENDED, 114.0 - OFFSET))
    stage.say(Outcome.PLAN, 114.0, victims=(), seconds=0.5, seats=())
    stage.fly(
        (PreemptionState.EVICTING, 115.0),
        (PreemptionState.OPEN, 115.0),
        (PreemptionState.ENDED, 116.0),
    )
    stage.say(Outcome.DONE, 116.0)
    (life,) = stage.over
    assert [step.name for step in life.steps] == [
        "search",
        "record",
        "wait for leaving pods",
        "change",
        "search",
        "record",
        "seats open",
    ]
    assert spans(life)["change"] == (112.0, 114.0)


def test_no_life_is_kept_for_ever() -> None:
    stage = Stage()
    stage.say(Outcome.REFUSAL, 100.0, code="infeasible")
    stage.say(Outcome.REFUSAL, 101.0, code="not-needed")
    stage.say(Outcome.REFUSAL, 102.0, code="not-enforced")
    assert [life.outcome for life in stage.over] == ["seated"]
    assert len(stage.lives) == 0
    stage.say(Outcome.REFUSAL, 103.0, code="infeasible")
    stage.there = False
    stage.say(Outcome.REFUSAL, 500.0, gang="pod-group:team/b", code="infeasible")
    assert [life.outcome for life in stage.over] == ["seated", "gone"]
    stage.lives.close(LifeOutcome.STOPPED)
    assert stage.over[-1].gang == "pod-group:team/b"
    assert stage.over[-1].outcome == "the extender was stopped"
    words = {"done", "gave-up", "seated", "gone", "forgotten"}
    words |= {"the extender was stopped", "the lease was lost"}
    assert {str(outcome) for outcome in LifeOutcome} == words


def test_everything_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives_module, "MOST_LIVES", 3)
    monkeypatch.setattr(lives_module, "MOST_PODS", 100)
    stage = Stage()
    for number in range(10):
        stage.say(Outcome.REFUSAL, 100.0, gang=f"pod-group:team/g{number}", code="infeasible")
    assert len(stage.lives) == 3
    assert {life.outcome for life in stage.over} == {"forgotten"}
    for number in range(1000):
        stage.say(Outcome.REFUSAL, 100.0, code="incomplete", message=f"{number}")
    planned(stage, victims=tuple(victim(f"v{number}") for number in range(5000)))
    stage.fly((PreemptionState.EVICTING, 111.0))
    for number in range(5000):
        stage.pod(f"v{number}", 112.0, gone=True)
    stage.say(Outcome.DONE, 113.0)
    life = stage.over[-1]
    assert len(life.moments) == MOST_REFUSED
    assert life.left_out == 1000 - MOST_REFUSED
    assert sum(step.name == "evict" for step in life.steps) == MOST_UNITS
    assert not stage.lives._wanted
