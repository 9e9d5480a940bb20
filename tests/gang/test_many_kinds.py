"""Gangs whose members are all different: planned in time, and nobody waits for them for ever.

See docs/security.md, row 2.
"""

from __future__ import annotations

import time
from array import array

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot
from tests.search.build import COMPILED

needs_core = pytest.mark.skipif(not COMPILED, reason="the plain search answers small ones only")
MEMBERS = 20


def members(count: int = MEMBERS, **more: object) -> list[Pod]:
    """1000m, 1001m and so on."""
    return [
        replace(
            pod(f"m{i:03}", group="high", priority=100),
            requests=(("cpu", 1000 + i), ("pods", 1)),
            **more,
        )
        for i in range(count)
    ]


def full(
    waiting: list[Pod],
    nodes: int = 12,
    *,
    cpu: int = 4,
    topology_key: str = "",
    budgets: list[DisruptionBudget] | None = None,
) -> Snapshot:
    there = [
        pod(f"low-{n}-{k}", cpu=cpu / 2, on=f"n{n}", labels={"of": f"{n}-{k}"})
        for n in range(nodes)
        for k in range(2)
    ]
    named = [
        node(f"n{n}", cpu, labels={"zone": f"z{n % 3}", "rack": f"r{n % 4}"}) for n in range(nodes)
    ]
    gang = group("high", len(waiting), priority=100, topology_key=topology_key)
    return snapshot(named, [*there, *waiting], [gang], budgets=budgets or [])


def planned(state: Snapshot, seconds: float = 2.0, stopped: int = 0) -> Plan | Refusal:
    settings = Settings()
    resolver = Resolver(settings.groups)
    gang = resolver.resolve(gang_key("high"), state)
    return Planner(settings, resolver).plan(
        GangQuestion(gang, state), deadline=time.monotonic() + seconds, cancel=array("b", [stopped])
    )


def pinned(i: int, nodes: int = 12) -> PodShape:
    names = (f"n{i % nodes}", f"n{(i + 1) % nodes}")
    return PodShape(
        node_terms=(NodeSelectorTerm(labels=(Requirement("kubernetes.io/hostname", "In", names),)),)
    )


def spread(i: int) -> PodShape:
    selector = LabelSelector((Requirement("kind", "In", (f"k{i % 4}",)),))
    return PodShape(spread=(SpreadConstraint("zone", 1 + i % 2, selector),))


def ported(i: int) -> PodShape:
    mine = [HostPort("", "TCP", 10_000 + 20 * min(i, j) + max(i, j)) for j in range(MEMBERS)]
    return PodShape(host_ports=tuple(port for j, port in enumerate(mine) if j != i))


def apart(i: int) -> PodShape:
    selector = LabelSelector((Requirement("kind", "In", (f"k{(i + 1) % 20}",)),))
    return PodShape(anti_affinity=(PodAffinityTerm("rack", selector, ("default",)),))


def test_members_that_each_ask_another_amount_are_planned() -> None:
    """This gang kept the planner for ever, before any clock was asked: of 24 members a node
    seats eleven, in millions of ways."""
    answer = planned(full(members(24), 4, cpu=12), seconds=30.0)
    assert isinstance(answer, Plan), answer
    assert len(answer.seats) == 24
    if COMPILED:
        assert len(answer.victims) <= 6
    if answer.proof != "optimal":
        assert any("kinds" in line or "time" in line for line in answer.explanation)


@needs_core
@pytest.mark.parametrize("shape", [pinned, spread, ported], ids=lambda shape: shape.__name__)
def test_members_that_each_have_rules_of_their_own_are_planned(shape: object) -> None:
    waiting = [
        replace(one, shape=shape(i), labels={"kind": f"k{i % 4}"})  # type: ignore[operator]
        for i, one in enumerate(members())
    ]
    nodes = 24 if shape is ported else 12
    answer = planned(full(waiting, nodes))
    assert isinstance(answer, Plan), answer
    assert len(answer.seats) == MEMBERS


@needs_core
def test_members_that_keep_apart_in_pairs_come_back_with_an_answer() -> None:
    waiting = [
        replace(one, shape=apart(i), labels={"kind": f"k{i}"}) for i, one in enumerate(members())
    ]
    answer = planned(full(waiting, 24))
    assert isinstance(answer, Plan) or "cannot fit" not in answer.message


@needs_core
def test_two_hundred_kinds_are_planned() -> None:
    answer = planned(full(members(200), 100))
    assert isinstance(answer, Plan), answer
    assert len(answer.seats) == 200


@needs_core
def test_a_domain_a_node_is_answered_at_once() -> None:
    """Each node a domain: none of hundreds can hold the gang, and that is a proof."""
    answer = planned(full(members(5), 200, topology_key="kubernetes.io/hostname"))
    assert isinstance(answer, Refusal)
    assert "cannot fit: " in answer.message


@needs_core
def test_hundreds_of_budgets() -> None:
    budgets = [
        DisruptionBudget(
            namespace="default",
            name=f"b{b}",
            uid=f"b{b}",
            selector=LabelSelector((Requirement("of", "In", (f"{b % 12}-{b // 12 % 2}",)),)),
            allowed=1,
        )
        for b in range(24)
    ]
    unused = [
        replace(budgets[0], name=f"u{b}", selector=LabelSelector((Requirement("no", "Exists"),)))
        for b in range(500)
    ]
    answer = planned(full(members(), budgets=[*budgets, *unused]))
    assert isinstance(answer, Plan), answer


@pytest.mark.parametrize("shape", [pinned, spread, ported, apart], ids=lambda shape: shape.__name__)
def test_stopped_for_good_the_planner_comes_back(shape: object) -> None:
    waiting = [
        replace(one, shape=shape(i), labels={"kind": f"k{i % 4}"})  # type: ignore[operator]
        for i, one in enumerate(members())
    ]
    answer = planned(full(waiting), seconds=-1.0, stopped=2)
    assert isinstance(answer, Refusal)
    assert "time was up" in answer.message
