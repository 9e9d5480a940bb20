"""Gangs whose members are all different, or whose seats all fail: planned in time.

See docs/security.md, row 2.
"""

from __future__ import annotations

import time
from array import array
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from extender.fit.inter_pod_affinity import picks_all
from extender.gang.plan.planner import Planner, _strike
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.trial import Trial
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
from tests.gang.world import NOW, gang_key, group, node, plan_for, pod, snapshot
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


def test_a_refusal_for_terminating_pods_does_not_compare_all_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How many terminating pods there are is for tenants to say."""
    asked = 0

    def counting(*args):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        return picks_all(*args)

    monkeypatch.setattr("extender.gang.plan.trial.picks_all", counting)
    picks = LabelSelector((Requirement("app", "In", ("db",)),))
    beside = PodShape(affinity=(PodAffinityTerm("zone", picks, ("default",)),))
    nodes = [node(f"n{at}", cpu=4, labels={"zone": "z"}) for at in range(40)]
    pods = [pod(f"low-{at}", cpu=3, on=f"n{at}") for at in range(40)]
    pods += [
        pod(f"db-{at}", cpu=0, on=f"n{at}", labels={"app": "db"}, deleting=NOW + 300)
        for at in range(40)
    ]
    pods += [pod(f"g-{at}", cpu=2, priority=9, group="g", shape=beside) for at in range(40)]
    answer = plan_for(snapshot(nodes, pods, [group("g", 40)]), "g")
    assert isinstance(answer, Refusal)
    assert "requires pod default/db-0 beside it" in answer.message
    assert asked < 40 * 40


def test_seats_that_all_fail_are_struck_out_within_a_moment() -> None:
    """500 members of one class: not each seat for each member by itself."""
    members = [pod(f"g-{at}") for at in range(500)]
    failed = [(member, f"n{at}", "why") for at, member in enumerate(members)]
    trial = cast(Trial, SimpleNamespace(failed=failed, built=SimpleNamespace(classes=[members])))
    struck = {members[0].uid: frozenset({"before"})}
    began = time.process_time()
    _strike(struck, trial)
    assert time.process_time() - began < 0.2
    every = {f"n{at}" for at in range(500)}
    assert struck[members[0].uid] == {"before", *every}
    assert all(struck[member.uid] == every for member in members[1:])
