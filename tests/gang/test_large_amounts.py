"""Members and pods that ask for much of one resource and nothing of the others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.model.objects import Node, Pod
from extender.model.plan import Plan, Refusal
from tests.gang.world import evicted, group, plan_for, pod, snapshot

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
