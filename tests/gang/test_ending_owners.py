"""A plan under way ends when the deletion of its gang's PodGroup or owner begins."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GroupObject, Owner
from extender.model.plan import Code, Refusal
from tests.gang.rig import Rig, half_evicted, held_back
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot


def delete(rig: Rig) -> None:
    """The PodGroup gets a deletionTimestamp; its protection keeps it while pods of it are there."""
    table = rig.cache.store.groups["core"]
    row = table.rows["core", "default", "high"]
    table.put(replace(row, ending=True, version=10**9))


def test_nothing_is_evicted_for_it_and_a_gang_that_runs_is_not_told_of_it() -> None:
    pods = [pod("low", on="n0", priority=1), pod("high", group="high", priority=100)]
    row = group("high", 1, priority=100)
    assert evicted(plan_for(snapshot([node("n0")], pods, [row]), "high")) == {"low"}
    state = snapshot([node("n0")], pods, [replace(row, ending=True)])
    refusal = plan_for(state, "high")
    assert isinstance(refusal, Refusal)
    assert refusal.code == Code.CONFLICT
    assert refusal.message == "PodGroup default/high is being deleted"


async def test_before_the_first_eviction_the_plan_ends() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        hung = held_back(rig, "POST", "configmaps", times=10_000)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: hung.hits > 0, "the record hangs")
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_between_two_evictions_the_second_is_not_sent() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await half_evicted(rig)
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        rig.server.faults.clear()
        await rig.rounds()
        assert await rig.names() == {"low-1", "high-0", "high-1"}


@pytest.fixture
async def of_three(patient: Rig) -> Rig:
    """Of high-0 to high-2, a Job made each, two make the quorum; there is room for two."""
    rig = patient
    for i in range(2):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=i)
    await rig.group("high", 2, "high")
    for i in range(3):
        await rig.pod(f"high-{i}", cls="high", group="high", job=f"j{i}")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 5, "all pods are cached")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")
    return rig


def seated(rig: Rig) -> set[str]:
    return {
        preemption.pods[uid].name
        for preemption in rig.coordinator.reservations
        for uid in preemption.seats
    }


def ends(rig: Rig, member: str) -> None:
    """The deletion of the Job that made a member begins."""
    name = f"j{member[-1]}"
    row = GroupObject(source="job", uid=f"uid-{name}", namespace="default", name=name, ending=True)
    rig.cache.store.groups["job"].put(row)


@pytest.mark.parametrize("opened", [False, True])
async def test_the_end_of_a_job_whose_pod_has_no_seat_ends_no_plan(
    of_three: Rig,
    opened: bool,  # noqa: FBT001
) -> None:
    rig = of_three
    (preemption,) = rig.coordinator.reservations
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    if opened:
        await rig.remove("low-1")
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    ends(rig, other)
    await rig.rounds()
    assert list(rig.coordinator.reservations) == [preemption]
    assert preemption.state in (PreemptionState.WAITING, PreemptionState.OPEN)
    assert rig.outcomes("high") == ["plan"]


async def test_another_member_has_the_seat_of_one_whose_job_ends(of_three: Rig) -> None:
    rig = of_three
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    ends(rig, goes := max(seated(rig)))
    await rig.until(lambda: other in seated(rig), "the other member has a seat")
    assert goes not in seated(rig)
    assert "gave-up" not in rig.outcomes("high")
    assert await rig.names() == {"low-1", "high-0", "high-1", "high-2"}


async def test_the_end_of_a_job_whose_pod_is_bound_ends_no_plan(of_three: Rig) -> None:
    """It would be a plan in vain; a new one waits for the room of the pod that goes."""
    rig = of_three
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    await rig.nodes(1, first=2)
    await rig.bind(other, "n2")
    await rig.until(lambda: rig.cached(other).node == "n2", "it is bound")
    ends(rig, other)
    await rig.rounds()
    assert len(seated(rig)) == 2
    assert rig.outcomes("high") == ["plan"]


def test_nothing_is_evicted_while_a_member_with_a_node_goes_with_its_job() -> None:
    low = [pod(f"low-{i}", on=f"n{i}", priority=1) for i in range(2)]
    job = GroupObject(source="job", uid="uid-old", namespace="default", name="old", ending=True)
    old = replace(
        pod("old-0", on="n2", group="high", priority=100), owner=Owner("Job", "old", "uid-old")
    )
    new = [pod(f"new-{i}", group="high", priority=100) for i in range(2)]
    nodes = [node(f"n{i}") for i in range(3)]
    refusal = plan_for(
        snapshot(nodes, [*low, old, *new], [group("high", 2, priority=100), job]), "high"
    )
    assert isinstance(refusal, Refusal)
    assert refusal.message == "Job default/old is being deleted"
    gone = replace(old, deleting=NOW + 5)
    state = snapshot(nodes, [*low, gone, *new], [group("high", 2, priority=100), job])
    assert len(evicted(plan_for(state, "high"))) == 1
