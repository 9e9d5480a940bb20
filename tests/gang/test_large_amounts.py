"""Members and pods that ask for much of one resource and nothing of the others.

See docs/security.md, row 4.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.incremental.planning_cache import PlanningCache
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Node, Pod
from extender.model.owner_kinds import DEVICE_CLASS_SOURCE
from extender.model.plan import Plan, Refusal
from extender.settings.settings import Settings
from tests.gang.world import NOW, evicted, group, plan_for, pod, seats, snapshot

GIB = 1 << 30


def node(name: str, resource: str, amount: int) -> Node:
    return Node(
        name=name,
        uid=name,
        labels={"kubernetes.io/hostname": name},
        allocatable=(("cpu", 64_000), (resource, amount), ("pods", 110)),
    )


def asks(member: Pod, resource: str, amount: int) -> Pod:
    return replace(member, requests=((resource, amount), ("pods", 1)))


@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage"])
@pytest.mark.parametrize("whole", [16 * GIB, 1 << 44, 1 << 51, 1 << 53, 1 << 60])
def test_half_a_node_each_of_a_resource_other_than_cpu(resource: str, whole: int) -> None:
    """One node, one small pod of low priority, two members of half a node: the pod goes."""
    victim = asks(pod("low", on="n0", priority=0), resource, whole // 16)
    members = [
        asks(pod(f"high-{i}", priority=10, group="high"), resource, whole // 2) for i in range(2)
    ]
    state = snapshot([node("n0", resource, whole)], [victim, *members], [group("high", 2)])
    assert evicted(plan_for(state, "high")) == {"low"}


@pytest.mark.parametrize("ask", [1 << 53, 1 << 62, (1 << 63) - 1])
def test_a_request_beyond_every_node_is_a_plain_no(ask: int) -> None:
    members = [asks(pod(f"high-{i}", priority=10, group="high"), "memory", ask) for i in range(3)]
    state = snapshot([node("n0", "memory", 1 << 40)], members, [group("high", 3)])
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert answer.code == "infeasible"


def test_the_largest_amounts_an_object_can_name() -> None:
    """2^63 - 1 of a resource on the nodes, held by a pod, asked for by the members."""
    most = (1 << 63) - 1
    nodes = [node(f"n{i}", "memory", most) for i in range(2)]
    low = [asks(pod(f"low-{i}", on=f"n{i}", priority=0), "memory", most) for i in range(2)]
    members = [asks(pod(f"high-{i}", priority=10, group="high"), "memory", most) for i in range(2)]
    state = snapshot(nodes, [*low, *members], [group("high", 2)])
    answer = plan_for(state, "high")
    assert isinstance(answer, Plan), answer
    assert evicted(answer) == {"low-0", "low-1"}


MOST = (1 << 63) - 1


@pytest.mark.parametrize("each", [1 << 52, 1 << 60, MOST])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_pods_that_claim_more_than_int64_together_are_victims_like_others(
    resource: str, each: int
) -> None:
    """Whoever may create pods may write any request, and name the node itself."""
    nodes = [node(f"n{i}", "memory", 64 * GIB) for i in range(3)]
    low = [
        asks(pod(f"low-{i}-{k}", on=f"n{i}", priority=0), resource, each)
        for i in range(3)
        for k in range(3)
    ]
    high = [asks(pod(f"high-{i}", priority=10, group="high"), resource, 40_000) for i in range(2)]
    answer = plan_for(snapshot(nodes, [*low, *high], [group("high", 2)]), "high")
    assert isinstance(answer, Plan), answer
    used = set(seats(answer).values())
    # Each node has room for one member of this resource's 64 only if everybody there is gone.
    assert evicted(answer) == {one.name for one in low if one.node in used}
    assert len(used) == (2 if resource == "cpu" else 1)


def test_no_room_is_invented_where_pods_claim_more_than_int64_together() -> None:
    nodes = [node("n0", "memory", 64 * GIB)]
    low = [asks(pod(f"low-{k}", on="n0", priority=0), "memory", MOST) for k in range(2)]
    high = [asks(pod(f"high-{i}", priority=10, group="high"), "memory", 40 * GIB) for i in range(2)]
    answer = plan_for(snapshot(nodes, [*low, *high], [group("high", 2)]), "high")
    assert isinstance(answer, Refusal)
    assert "1 short" in answer.message
    assert answer.message.startswith("cannot fit: ")


@pytest.mark.parametrize("crowd", [1, 1200])
def test_what_a_pod_claims_does_not_slow_the_census_down(crowd: int) -> None:
    """The plain census takes seconds on a large cluster; no tenant may choose it for everybody."""
    nodes = [node(f"n{i}", "memory", 64 * GIB) for i in range(2)]
    low = [asks(pod(f"low-{k}", on="n0", priority=0), "memory", MOST) for k in range(crowd)]
    resolver = Resolver(Settings().groups)
    planning = PlanningCache(resolver, Settings())
    first = type(planning.census)
    planning.renew(snapshot(nodes, low))
    assert type(planning.census) is first


def test_what_a_member_asks_does_not_slow_the_census_down(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{i}", "memory", 64 * GIB) for i in range(2)]
    sizes = (1 << 30, MOST)
    high = [
        asks(pod(f"high-{i}", priority=10, group="high"), "memory", size)
        for i, size in enumerate(sizes)
    ]
    state = snapshot(nodes, high, [group("high", 2)])
    expected = plan_for(state, "high")
    assert isinstance(expected, Refusal)
    monkeypatch.setattr("extender.gang.incremental.planning_cache.Census", None)
    assert plan_for(state, "high") == expected


def test_a_claim_beyond_the_node_is_no_shield() -> None:
    """What a pod cannot have is not lost with it."""
    device = "example.com/gpu"
    nodes = [node(f"n{i}", device, 4) for i in range(2)]
    liar = replace(
        pod("liar", on="n0", started=NOW - 10), requests=(("cpu", 60_000), (device, MOST))
    )
    other = replace(pod("other", on="n1"), requests=(("cpu", 60_000), (device, 3)))
    high = replace(pod("high", priority=10, group="high"), requests=(("cpu", 60_000),))
    answer = plan_for(snapshot(nodes, [liar, other, high], [group("high", 1)]), "high")
    assert isinstance(answer, Plan)
    assert evicted(answer) == {"other"}
    assert {cost.level: cost.value for cost in answer.costs}["work@0"] == 3 * (100 + 300)
    alone = plan_for(snapshot(nodes[:1], [liar, high], [group("high", 1)]), "high")
    assert isinstance(alone, Plan)
    assert {cost.level: cost.value for cost in alone.costs}["work@0"] == 4 * (10 + 300)


def test_a_claim_of_devices_that_no_node_counts_is_no_shield() -> None:
    """kubelet runs a pod that names its node, whatever it asks for of what a DeviceClass names."""
    device = "example.com/gpu"
    of = GroupObject(DEVICE_CLASS_SOURCE, "u", "", "gpu", of=device)
    nodes = [
        Node(name=f"n{i}", uid=f"n{i}", allocatable=(("cpu", 8000), ("pods", 9))) for i in (0, 1)
    ]
    liar = replace(
        pod("liar", on="n0", started=NOW - 10), requests=(("cpu", 8000), (device, 10**9))
    )
    other = replace(
        pod("other", on="n1", started=NOW - 10**6), requests=(("cpu", 8000), (device, 8))
    )
    high = replace(pod("high", priority=10, group="high"), requests=(("cpu", 8000),))
    answer = plan_for(snapshot(nodes, [liar, other, high], [group("high", 1), of]), "high")
    assert evicted(answer) == {"liar"}
