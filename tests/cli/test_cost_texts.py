"""A cost and its bound are never told as equal where they differ."""

from __future__ import annotations

from msgspec import to_builtins

from extender.cli import decisions_command, plan_text
from extender.console.plan_parts import plan_parts
from extender.gang.plan.explain import proof_line
from extender.gang.tell.decisions import Verb, of_plan
from extender.model.objects import GangKey
from extender.model.plan import Cost, Plan, Proof

GANG = GangKey("pod-group", "team", "new")
COSTS = (Cost("work@1", 1_000_080, 1_000_000), Cost("gangs@1", 1, 1))
PLAN = Plan(gang=GANG, priority=9, seats=(), victims=(), costs=COSTS, proof=Proof.BOUNDED)


def test_the_explanation() -> None:
    assert proof_line(PLAN) == (
        "not proved least: work@1 costs 277.80 GPU-hours, and at least 277.78 GPU-hours is certain"
    )


def test_the_plan_on_a_shell() -> None:
    assert plan_text.told(PLAN)[-2:] == [
        "  work@1: 277.80 GPU-hours, 277.78 GPU-hours",
        "  gangs@1: 1, 1",
    ]


def test_a_decision_on_a_shell() -> None:
    made = of_plan(PLAN, time=0.0, verb=Verb.PREEMPT, seconds=0.1)
    assert decisions_command.told(to_builtins(made))[-2:] == [
        "  cost work@1: 277.80 GPU-hours (at least 277.78 GPU-hours)",
        "  cost gangs@1: 1 (at least 1)",
    ]


def test_a_page() -> None:
    assert plan_parts((), (), (), COSTS, "").cheaper == (
        "a cheaper plan would have to get below 277.80 GPU-hours at “work lost of priority 1”; "
        "that none gets below 277.78 GPU-hours is proved"
    )
