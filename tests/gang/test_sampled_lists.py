"""Above a hundred nodes a list may be a sample: seats are reached, and refused, by nomination."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller import hints
from extender.gang.controller.notifier import WAKE_ANNOTATION
from extender.gang.core import refused_seats
from extender.gang.core.reservations import Preemption
from extender.gang.plan.lists import complete, samples
from extender.gang.tell.preemption_state import PreemptionState
from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, PODS, Rig

NODES = 120
SAMPLE = [f"n{i}" for i in range(10, 110)]
"""A hundred names, without the first nodes."""


def test_a_list_of_a_hundred_names_may_be_a_sample_in_a_larger_cluster_only() -> None:
    """minFeasibleNodesToFind: kube-scheduler never stops before it has found a hundred."""
    assert complete(100, 100)
    assert complete(99, 5000)
    assert not complete(100, 101)
    assert not samples(100)
    assert samples(101)


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    """120 nodes: n0, n1 and n2 are free or low pods', the others too small for the gang."""
    monkeypatch.setattr(hints, "PAUSES", (0.0,))
    monkeypatch.setattr(hints, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(refused_seats, "MISSED_SECONDS", 0.0)
    monkeypatch.setattr(refused_seats, "ATTEMPT_SECONDS", 0.0)
    monkeypatch.setattr(refused_seats, "TURNED_SECONDS", 0.0)
    monkeypatch.setattr(Rig.until, "__defaults__", ("condition", 10.0))
    async with Rig(replace(FAST, seats=SeatSettings(bind_seconds=30.0))) as made:
        await made.classes(low=1, high=1000)
        await made.nodes(5)
        for i in range(5, NODES):
            await made.client.create(
                "/api/v1/nodes",
                {
                    "metadata": {"name": f"n{i}"},
                    "status": {"allocatable": {"cpu": "1", "pods": "110"}},
                },
            )
        await made.until(lambda: len(made.cache.snapshot().nodes) == NODES, "all nodes")
        yield made


async def opened(rig: Rig, name: str = "high") -> Preemption:
    """The gang's plan, with its seats open; kube-scheduler asks about the first member."""
    if not any(preemption.key.name == name for preemption in rig.coordinator.reservations):
        await rig.filter(f"{name}-0", *SAMPLE)
    await rig.until(
        lambda: any(
            f.key.name == name and f.state is PreemptionState.OPEN
            for f in rig.coordinator.reservations
        ),
        "its seats are open",
    )
    return next(
        preemption for preemption in rig.coordinator.reservations if preemption.key.name == name
    )


def nominated(rig: Rig, name: str) -> str:
    return rig.cached(name).nominated


async def woken(rig: Rig, name: str) -> str:
    pod = await rig.client.get(f"{PODS}/{name}")
    return str((pod["metadata"].get("annotations") or {}).get(WAKE_ANNOTATION, ""))


async def test_nobody_is_evicted_because_a_free_node_is_not_in_the_sample(rig: Rig) -> None:
    for i in range(2, 5):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3)
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", *SAMPLE)
    plan = next(iter(rig.coordinator.reservations)).plan
    assert {seat.node for seat in plan.seats} == {"n0", "n1"}
    assert plan.victims == ()


async def test_a_short_list_is_complete_and_counts(rig: Rig) -> None:
    """Of all nodes kube-scheduler accepts n1 to n4 only: something is wrong with n0."""
    await rig.gang("high", 2, "high")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    await rig.filter("high-0", "n1", "n2", "n3", "n4")
    plan = next(iter(rig.coordinator.reservations)).plan
    assert {seat.node for seat in plan.seats} == {"n1", "n2"}


async def test_members_are_nominated_to_their_open_seats_and_woken(rig: Rig) -> None:
    """Also when nobody has to go: the seat need not be in the list that they are tried with."""
    await rig.gang("high", 2, "high")
    preemption = await opened(rig)
    for name in ("high-0", "high-1"):
        seat = preemption.seats[rig.cached(name).uid]
        await rig.until(lambda name=name, seat=seat: nominated(rig, name) == seat)  # type: ignore[misc]
        assert (await rig.filter(name, seat, nominated=seat)).node_names == [seat]


async def test_a_member_that_asks_without_its_nomination_is_called_again(rig: Rig) -> None:
    """An attempt under way has cleared it, untried: no reason to leave the seat."""
    await rig.gang("high", 1, "high")
    preemption = await opened(rig)
    seat = preemption.seats[rig.cached("high-0").uid]
    await rig.until(lambda: nominated(rig, "high-0") == seat)
    for _ in range(5):
        before = await woken(rig, "high-0")
        await rig.client.patch(f"{PODS}/high-0/status", {"status": {"nominatedNodeName": None}})
        await rig.until(lambda: nominated(rig, "high-0") == "")
        assert (await rig.filter("high-0", *SAMPLE)).node_names == []
        await rig.until(lambda: nominated(rig, "high-0") == seat, "nominated again")
        while await woken(rig, "high-0") == before:
            await asyncio.sleep(0.01)
    assert preemption.state is PreemptionState.OPEN
    assert rig.outcomes("high") == ["plan"]


async def test_a_refused_nominated_seat_leads_to_another_and_is_remembered(rig: Rig) -> None:
    await rig.gang("high", 1, "high")
    seat = (await opened(rig)).seats[rig.cached("high-0").uid]
    assert (await rig.filter("high-0", *SAMPLE, nominated=seat)).node_names == []
    await rig.until(lambda: rig.outcomes("high") == ["plan", "plan"], "another plan")
    other = (await opened(rig)).seats[rig.cached("high-0").uid]
    assert other != seat
    # A gang of the same kind does not try it either.
    await rig.gang("next", 1, "high")
    assert (await opened(rig, "next")).seats[rig.cached("next-0").uid] not in (seat, other)


async def test_preempt_speaks_against_a_seat_only_when_it_was_nominated(rig: Rig) -> None:
    await rig.pod("low-4", cls="low", on="n4")
    await rig.gang("high", 1, "high")
    seat = (await opened(rig)).seats[rig.cached("high-0").uid]
    await rig.until(lambda: nominated(rig, "high-0") == seat, "nominated")
    await rig.client.patch(f"{PODS}/high-0/status", {"status": {"nominatedNodeName": None}})
    await rig.preempt("high-0", "", n4=["low-4"])
    await rig.until(lambda: nominated(rig, "high-0") == seat, "nominated again")
    assert rig.outcomes("high") == ["plan"]
    await rig.preempt("high-0", seat, n4=["low-4"])
    await rig.until(lambda: rig.outcomes("high") == ["plan", "plan"], "another plan")


async def test_a_member_that_comes_back_from_its_seat_gets_another(rig: Rig) -> None:
    """Reserve, pre-bind or bind has failed, three times."""
    await rig.gang("high", 1, "high")
    seat = (await opened(rig)).seats[rig.cached("high-0").uid]
    for _ in range(refused_seats.MOST_GIVEN):
        assert (await rig.filter("high-0", seat, nominated=seat)).node_names == [seat]
    assert (await rig.filter("high-0", seat, nominated=seat)).node_names == []
    await rig.until(lambda: rig.outcomes("high") == ["plan", "plan"], "another plan")
    assert (await opened(rig)).seats[rig.cached("high-0").uid] != seat


async def test_a_nomination_that_is_cleared_unheard_is_a_refusal_in_the_end(rig: Rig) -> None:
    """A filter before ours refuses the seat, and nothing else has room: no verb is called."""
    await rig.gang("high", 1, "high")
    seat = (await opened(rig)).seats[rig.cached("high-0").uid]
    cleared: list[str] = []  # it may be nominated again before anybody looks

    def observe(change: Any) -> None:
        old, new = change.old, change.new
        if change.kind == "pod" and old and new and old.nominated == seat and not new.nominated:
            cleared.append(new.name)

    rig.cache.subscribe(observe)
    for time in range(1, refused_seats.MOST_UNHEARD + 2):
        await rig.until(lambda: nominated(rig, "high-0") == seat, "nominated")
        await rig.client.patch(f"{PODS}/high-0/status", {"status": {"nominatedNodeName": None}})
        await rig.until(lambda time=time: len(cleared) == time, "cleared")  # type: ignore[misc]
    await rig.until(lambda: rig.outcomes("high") == ["plan", "plan"], "another plan")


async def test_seats_are_sought_a_bounded_number_of_times(rig: Rig) -> None:
    """Whatever is tried is refused, so each try could have cost somebody his place."""
    for i in range(5):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
    await rig.gang("high", 1, "high")
    tried = set()
    for _ in range(rig.settings.seats.max_replans + 1):
        seat = (await opened(rig)).seats[rig.cached("high-0").uid]
        tried.add(seat)
        await rig.filter("high-0", *SAMPLE, nominated=seat)
        await rig.until(
            lambda seat=seat: (
                seat not in [s for f in rig.coordinator.reservations for s in f.seats.values()]
            )  # type: ignore[misc]
        )
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "given up")
    assert len(tried) == rig.settings.seats.max_replans + 1


async def test_nobody_is_evicted_for_a_pod_that_was_offered_nothing_but_seats(rig: Rig) -> None:
    """A hundred nodes with seats were all that kube-scheduler has looked at; others are free."""
    names = [f"g{i}" for i in range(100)]
    for name in names:
        await rig.client.create(
            "/api/v1/nodes",
            {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}},
        )
    await rig.pod("low-4", cls="low", on="n4")
    await rig.gang("high", 104, "high")
    await opened(rig)
    await rig.pod("plain", cls="high")
    held = sorted(rig.coordinator.reservations.nodes())[:100]
    assert (await rig.filter("plain", *held)).node_names == []
    await rig.until(lambda: bool(rig.cached("plain").uid))
    while not await woken(rig, "plain"):
        await asyncio.sleep(0.01)
    assert (await rig.preempt("plain", n4=["low-4"])).candidates == {}
