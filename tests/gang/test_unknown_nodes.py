"""Members bound to a node that is not known: nothing is evicted for a gang that needs them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from extender.gang.tell.decisions import Verb, of_refusal
from extender.gang.tell.gang_status import Facts, described
from extender.gang.tell.next_steps import NEXT_LOST
from extender.gang.tell.story import story_of_gang
from extender.groups.resolver import Resolver
from extender.model.objects import Node, Pod
from extender.model.plan import Code, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.rig import HIGH, Rig
from tests.gang.test_squatters import open_seats
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

NODES = [node("n0"), node("n1"), node("full", cpu=3)]


def high(i: int, on: str = "", **fields: Any) -> Pod:
    return replace(pod(f"high-{i}", on=on, group="high", priority=9), **fields)


def world(*members: Pod, nodes: list[Node] = NODES) -> Snapshot:
    low = [pod(f"low-{each}", on=each) for each in ("n0", "n1")]
    low += (
        [] if any(each.node == "full" for each in members) else [pod("same", on="full", priority=9)]
    )
    return snapshot(nodes, [*low, *members], [group("high", 2)])


UNKNOWN = {
    "never-started": high(0, "gone", started=0.0, phase="Pending"),
    "started": high(0, "gone"),
    "started-long-ago": high(0, "gone", started=NOW - 3600),
}
OTHERS = {
    "ends": (high(0, "gone", deleting=NOW + 30), 2),
    "failed": (high(0, "gone", phase="Failed"), 2),
    "on-a-known-node": (high(0, "full"), 1),
    "on-a-known-node-not-ready": (high(0, "full", unready=True), 1),
}


@pytest.mark.parametrize("first", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("waiting", [1, 2])
def test_one_that_may_never_run_is_not_counted_and_nothing_is_evicted(
    first: Pod, waiting: int
) -> None:
    """With two that wait it is not known whether one seat lacks, or two."""
    state = world(first, *(high(1 + i) for i in range(waiting)))
    refusal = plan_for(state, "high")
    assert isinstance(refusal, Refusal), refusal
    assert refusal.code == Code.INCOMPLETE
    there = f"{waiting} of 2 exist, 1 more is bound to a node that is not known (high-0 to gone)"
    assert there in refusal.message
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    decision = asdict(of_refusal(refusal, time=0.0, verb=Verb.LOOP, seconds=0.0))
    told = story_of_gang(str(gang.key), Facts([described(gang)], [], [], [decision]))
    assert told is not None
    assert "terminate" not in told.reason
    assert told.next == NEXT_LOST


@pytest.mark.parametrize(("first", "victims"), OTHERS.values(), ids=OTHERS)
def test_any_other_counts_or_does_not(first: Pod, victims: int) -> None:
    assert len(evicted(plan_for(world(first, high(1), high(2)), "high"))) == victims


def test_it_counts_once_its_node_is_there() -> None:
    there = world(UNKNOWN["never-started"], high(1), nodes=[*NODES, node("gone")])
    assert len(evicted(plan_for(there, "high"))) == 1


def test_as_a_victim_it_goes_with_its_gang_and_makes_no_room() -> None:
    """On n0 alone is room to be had: two members do not fit there."""
    low = [pod(f"low-{i}", on=on, group="low") for i, on in enumerate(("n0", "gone"))]
    groups = [group("low", 2), group("high", 1), group("two", 2)]
    two = [pod(f"two-{i}", group="two", priority=9) for i in range(2)]
    state = snapshot([node("n0")], [*low, high(0), *two], groups)
    assert evicted(plan_for(state, "high")) == {"low-0", "low-1"}
    refusal = plan_for(state, "two")
    assert isinstance(refusal, Refusal)
    assert refusal.code == Code.INFEASIBLE


async def test_the_node_of_a_seated_member_is_deleted_amid_a_plan() -> None:
    """The plan ends, and nothing is evicted for the other member."""
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.pod("low", cls="low", on="n0")
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n1")
        preemption = await open_seats(rig)
        seats = {rig.cache.store.pods.by_uid[uid].name: on for uid, on in preemption.seats.items()}
        first, second = HIGH
        assert (await rig.filter(first, *seats.values())).node_names == [seats[first]]
        await rig.bind(first, seats[first])
        await rig.until(lambda: bool(rig.cached(first).node), "it sits")
        await rig.client.delete(f"/api/v1/nodes/{seats[first]}")
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "now lacks 2 members of its quorum" in rig.messages("high")
        await rig.pod("late", cls="low", on=seats[second])
        await rig.until(lambda: rig.cache.pod_named("default", "late") is not None, "late")
        assert not (await rig.filter(second, seats[second])).node_names
        assert f"({first} to {seats[first]})" in rig.messages("high")
        assert "late" in await rig.names()
