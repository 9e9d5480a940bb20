"""Room that comes after the search is used: nobody is evicted for seats that are free by then."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.gang.rig import HIGH, LOW, PODS, Rig, full_cluster


class Gate:
    """Holds the first call of a coroutine function before (or after) it works."""

    def __init__(self, work: Any, *, after: bool) -> None:
        self.reached = False
        self.opened = asyncio.Event()
        self._work = work
        self._after = after

    async def __call__(self, *args: Any, **named: Any) -> Any:
        held, self.reached = not self.reached, True
        if held and not self._after:
            await self.opened.wait()
        result = await self._work(*args, **named)
        if held and self._after:
            await self.opened.wait()
        return result


async def _two_nodes_more(rig: Rig) -> None:
    for name in ("x0", "x1"):
        await rig.client.create(
            "/api/v1/nodes",
            {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}},
        )
    await rig.until(lambda: {"x0", "x1"} <= rig.cache.snapshot().nodes.keys(), "they are cached")


def _free_seats(rig: Rig) -> bool:
    return any(
        {seat.node for seat in flight.plan.seats} == {"x0", "x1"} and flight.state.value == "open"
        for flight in rig.coordinator.book
    )


@pytest.mark.parametrize("moment", ["search", "record"])
async def test_nodes_that_come_before_the_first_eviction_spare_the_victims(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    if moment == "search":
        owner: Any = rig.coordinator._planning.thread
        gate = Gate(owner.plan, after=True)
        monkeypatch.setattr(owner, "plan", gate)
    else:
        owner = rig.coordinator.flights.keeper
        gate = Gate(owner.write, after=False)
        monkeypatch.setattr(owner, "write", gate)
    await full_cluster(rig)
    asked = asyncio.create_task(rig.preempt("high-0", n0=["low-0"]))
    await rig.until(lambda: gate.reached, "the plan comes to that")
    await _two_nodes_more(rig)
    gate.opened.set()
    await asked
    await rig.until(lambda: _free_seats(rig), "it has seats on the new nodes")
    assert await rig.names() == {*LOW, *HIGH}


@pytest.mark.parametrize("older", [True, False])
async def test_a_list_is_no_reason_to_evict_where_a_pod_has_just_left(
    rig: Rig, *, older: bool
) -> None:
    """kube-scheduler's list was milliseconds older than the room (seed 600072 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("other", cls="high", on="n1")
    await rig.gang("high", 1, "high")
    await rig.remove("other")
    await rig.until(lambda: rig.cache.pod_named("default", "other") is None, "it is gone")
    if not older:
        rig.coordinator.evidence._emptied.clear()
    await rig.filter("high-0")
    (flight,) = rig.coordinator.book
    assert len(flight.plan.victims) == (0 if older else 1)


async def test_candidates_are_no_reason_to_evict_where_a_pod_has_just_left(rig: Rig) -> None:
    """kube-scheduler's candidates for a pod of no gang may be as old as a list."""
    await rig.group("low", 2, "low")
    for name in LOW:
        await rig.pod(name, cls="low", group="low", on="n0", cpu="2")
    await rig.pod("leaving", cls="low", on="n1")
    await rig.pod("p", cls="high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "four pods")
    await rig.remove("leaving")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "it is gone")
    assert not (await rig.preempt("p", n0=[*LOW])).candidates
    (flight,) = rig.coordinator.book
    assert [(seat.name, seat.node) for seat in flight.plan.seats] == [("p", "n1")]
    assert not flight.victims


def _is_nominated(rig: Rig, node: str) -> bool:
    other = rig.cache.pod_named("default", "other")
    return other is not None and other.nominated == node


@pytest.mark.parametrize("goes", ["cleared", "moved", "deleted"])
async def test_a_list_is_no_reason_to_evict_where_a_nomination_has_just_gone(
    rig: Rig, goes: str
) -> None:
    """kube-scheduler knew of one for some milliseconds more (508203, 508460 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("other", cls="high")
    for node in ("n1", {"cleared": None, "moved": "n9", "deleted": "n1"}[goes]):
        await rig.client.patch(f"{PODS}/other/status", {"status": {"nominatedNodeName": node}})
        await rig.until(partial(_is_nominated, rig, node or ""), "it is known")
    await rig.gang("high", 1, "high")
    if goes == "deleted":
        await rig.remove("other")
        await rig.until(lambda: rig.cache.pod_named("default", "other") is None, "it is gone")
    await rig.filter("high-0")
    (flight,) = rig.coordinator.book
    assert not flight.plan.victims


async def test_room_behind_a_nomination_is_seen_to_come(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is free while the pod is there that another was nominated for; its end leaves room
    beside the nominated one (seed 503998 with sparing)."""
    owner: Any = rig.coordinator.flights.keeper
    gate = Gate(owner.write, after=False)
    monkeypatch.setattr(owner, "write", gate)
    await rig.pod("low-0", cls="low", on="n0", cpu="4")
    await rig.pod("leaving", cls="low", on="n1", grace=60)
    await rig.client.delete(f"{PODS}/leaving", grace=60)
    await rig.pod("other", cls="top")
    await rig.client.patch(f"{PODS}/other/status", {"status": {"nominatedNodeName": "n1"}})
    await rig.until(partial(_is_nominated, rig, "n1"), "it is known")
    await rig.group("high", 1, "high")
    await rig.pod("high-0", cls="high", group="high", cpu="1")
    await rig.filter("high-0")
    (flight,) = rig.coordinator.book
    assert [victim.name for victim in flight.plan.victims] == ["low-0"]
    await rig.until(lambda: gate.reached, "its record is about to be written")
    await rig.remove("leaving")
    await rig.until(lambda: rig.cache.pod_named("default", "leaving") is None, "it is gone")
    gate.opened.set()
    await rig.until(
        lambda: any(not flight.plan.victims for flight in rig.coordinator.book), "it has a seat"
    )
    assert "low-0" in await rig.names()
