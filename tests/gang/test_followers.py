"""Gangs some of whose pods come once others run: nobody goes for a part alone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.followers import with_followers
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.world import evicted, group, node, pod, seats, snapshot
from tests.groups.owners import jobset, jobset_pod, replicated

SETTINGS = Settings()
RESOLVER = Resolver(SETTINGS.groups)
KEY = GangKey("jobset", "default", "high")


def in_order(cpu: str = "3", lead: str = "3", count: int = 3) -> GroupObject:
    parts = (replicated("lead", cpu=lead), replicated("w", each=count, cpu=cpu))
    made = jobset(*parts, name="high", in_order=True)
    made["metadata"]["namespace"] = "default"
    return decode_group("jobset", made)


def leader(**more: Any) -> Pod:
    return pod("high-lead", priority=100, **jobset_pod(0, "lead", "high"), **more)


def low(count: int = 4) -> list[Pod]:
    return [pod(f"low-{i}", priority=1, group="low", on=f"n{i}") for i in range(count)]


def asked(state: Snapshot) -> Plan | Refusal:
    return Planner(SETTINGS, RESOLVER).plan(GangQuestion(RESOLVER.resolve(KEY, state), state))


def test_nobody_goes_for_a_leader_whose_workers_cannot_fit() -> None:
    """The reference scenario: three nodes' worth of low pods, and four are wanted."""
    nodes = [node(f"n{i}") for i in range(3)]
    answer = asked(snapshot(nodes, [*low(3), leader()], [group("low", 3), in_order()]))
    assert isinstance(answer, Refusal)
    assert answer.code == "infeasible"
    assert "with the 3 pods that are created once these run" in answer.message


def test_the_leader_gets_its_seat_where_the_whole_can_have_one() -> None:
    nodes = [node(f"n{i}") for i in range(4)]
    plan = asked(snapshot(nodes, [*low(), leader()], [group("low"), in_order()]))
    assert evicted(plan) == {"low-0", "low-1", "low-2", "low-3"}
    assert list(seats(plan)) == ["high-lead"]


def test_a_leader_that_has_room_takes_nobodys() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    plan = asked(snapshot(nodes, [*low(), leader()], [group("low"), in_order()]))
    assert evicted(plan) == set()
    assert seats(plan) == {"high-lead": "n4"}


def test_the_leader_does_not_sit_where_only_a_worker_could() -> None:
    """By itself it would take the free node, the only one large enough for the worker."""
    nodes = [node("n0", cpu=4), node("big", cpu=8)]
    pods = [pod("low", priority=1, on="n0"), leader()]
    plan = asked(snapshot(nodes, pods, [in_order(cpu="8", count=1)]))
    assert seats(plan) == {"high-lead": "n0"}
    assert evicted(plan) == {"low"}


def test_a_dump_gives_the_same_answer() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    state = snapshot(nodes, [*low(3), leader()], [group("low", 3), in_order()])
    assert asked(restore(dump(state, (), SETTINGS), RESOLVER.member_key)) == asked(state)


def test_what_waits_now_may_be_refused_although_the_whole_has_a_plan() -> None:
    """Asked alone it is another question; its own answer is told, and no plan."""
    nodes = [node(f"n{i}") for i in range(4)]
    state = snapshot(nodes, [*low(), leader()], [group("low"), in_order()])
    gang = RESOLVER.resolve(KEY, state)
    no = Refusal(KEY, Code.INFEASIBLE, "not alone")
    whole = asked(state)
    answers = iter([whole, no])
    assert with_followers(gang, state, {}, lambda gang, masks: next(answers)) is no


def grouped(nodes: int) -> Plan | Refusal:
    """The same JobSet under a PodGroup that wants all four, which its owner cannot make at once."""
    lead = leader()
    lead = replace(lead, pod_group="all-four")
    pods = [*low(nodes), lead]
    groups = [group("low", nodes), group("all-four", 4, priority=100), in_order()]
    state = snapshot([node(f"n{i}") for i in range(nodes)], pods, groups)
    key = RESOLVER.member_key(lead)
    assert key == GangKey("pod-group", "default", "all-four")
    return Planner(SETTINGS, RESOLVER).plan(GangQuestion(RESOLVER.resolve(key, state), state))


def test_a_quorum_of_all_does_not_keep_the_leader_from_its_seat() -> None:
    plan = grouped(4)
    assert evicted(plan) == {"low-0", "low-1", "low-2", "low-3"}
    assert list(seats(plan)) == ["high-lead"]


def test_nor_does_anybody_go_for_the_leader_of_such_a_group_alone() -> None:
    answer = grouped(3)
    assert isinstance(answer, Refusal)
    assert answer.code == "infeasible"
