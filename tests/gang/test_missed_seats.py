"""While kube-scheduler does not offer one member its seat, a start does not begin with another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.gang.act import refused_seats, requeuing
from extender.gang.act.book import Flight
from extender.gang.act.notifier import WAKE_ANNOTATION
from extender.gang.tell.decisions import Verb
from extender.gang.tell.flight_state import FlightState
from tests.gang.rig import PODS, Rig

NODES = ("n0", "n1", "n2")
NAMES = ("high-0", "high-1", "high-2")


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    """Three free nodes, and a gang of three, a seat on each; nobody is called but for a reason."""
    monkeypatch.setattr(requeuing, "PAUSES", ())
    async with Rig() as made:
        await made.nodes(3)
        await made.classes(high=100)
        await made.gang("high", 3, "high")
        yield made


async def opened(rig: Rig) -> tuple[Flight, dict[str, str]]:
    """The plan with its seats open, which nobody has yet, and the member of each."""
    flight = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.FILTER)
    assert isinstance(flight, Flight)
    await rig.until(lambda: flight.state is FlightState.OPEN)
    return flight, {pod.name: flight.seats[uid] for uid, pod in flight.pods.items()}


async def woken(rig: Rig, name: str) -> bool:
    pod = await rig.client.get(f"{PODS}/{name}")
    return WAKE_ANNOTATION in (pod["metadata"].get("annotations") or {})


async def test_a_start_begins_when_all_are_offered_their_seats(rig: Rig) -> None:
    """A node was gone, which kube-scheduler knew and we did not yet; two of three sat (230732)."""
    flight, seats = await opened(rig)
    others = tuple(node for node in NODES if node != seats["high-0"])
    assert (await rig.filter("high-0", *others[:1])).node_names == []
    held = await rig.filter("high-1", *NODES)
    assert held.node_names == []
    assert "another member is not offered its own" in next(
        iter(held.failed_and_unresolvable.values())
    )
    assert not flight.binding
    assert not await woken(rig, "high-1")
    assert (await rig.filter("high-0", *NODES)).node_names == [seats["high-0"]]
    while not await woken(rig, "high-1"):
        await asyncio.sleep(0.01)
    assert not await woken(rig, "high-2"), "it has not asked"
    for name in ("high-1", "high-2"):
        assert (await rig.filter(name, *NODES)).node_names == [seats[name]]


async def test_the_last_that_was_not_offered_its_seat_lets_the_others_in(rig: Rig) -> None:
    """Who is offered it meanwhile is held back like those that were from the beginning."""
    _, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    assert (await rig.filter("high-1", seats["high-2"])).node_names == []
    for name in ("high-0", "high-2"):
        assert (await rig.filter(name, *NODES)).node_names == []
    assert (await rig.filter("high-1", *NODES)).node_names == [seats["high-1"]]
    for name in ("high-0", "high-2"):
        while not await woken(rig, name):
            await asyncio.sleep(0.01)
        assert (await rig.filter(name, *NODES)).node_names == [seats[name]]


async def test_a_start_that_has_begun_goes_on(rig: Rig) -> None:
    """Nothing is gained by keeping the others off once one may sit."""
    _, seats = await opened(rig)
    assert (await rig.filter("high-0", *NODES)).node_names == [seats["high-0"]]
    assert (await rig.filter("high-1", seats["high-0"])).node_names == []
    assert (await rig.filter("high-2", *NODES)).node_names == [seats["high-2"]]


async def test_who_was_given_its_seat_and_is_back_begins_no_start(rig: Rig) -> None:
    """Its binding has failed: it is on its way nowhere, and the seats are not firm any more."""
    flight, seats = await opened(rig)
    assert (await rig.filter("high-1", *NODES)).node_names == [seats["high-1"]]
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    assert flight.binding
    assert (await rig.filter("high-1", *NODES)).node_names == []
    assert not flight.binding


async def test_who_was_held_back_may_sit_once_two_have_swapped(rig: Rig) -> None:
    _, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-1"])).node_names == []
    assert (await rig.filter("high-2", *NODES)).node_names == []
    swapped = await rig.filter("high-1", seats["high-0"])
    assert swapped.node_names == [seats["high-0"]]
    while not await woken(rig, "high-2"):
        await asyncio.sleep(0.01)
    assert (await rig.filter("high-2", *NODES)).node_names == [seats["high-2"]]


async def test_a_preemption_after_our_own_refusal_says_nothing_about_the_seat(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler goes on to preempt where a member was held back and other nodes are full."""
    flight, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    missed = dict(flight.missed)
    assert (await rig.filter("high-1", *NODES)).node_names == []
    assert not (await rig.preempt("high-1")).candidates
    assert flight.missed == missed
    assert (await rig.filter("high-1", seats["high-2"])).node_names == []
    assert not (await rig.preempt("high-1")).candidates
    assert set(flight.missed) == {rig.cached(name).uid for name in ("high-0", "high-1")}


async def test_a_seat_that_stays_missing_is_changed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_seats, "SILENT_SECONDS", 0.2)
    await rig.nodes(1, first=3)
    await rig.until(lambda: len(rig.cache.snapshot().nodes) == 4)
    flight, seats = await opened(rig)
    left = tuple(node for node in (*NODES, "n3") if node != seats["high-0"])
    assert (await rig.filter("high-0", *left)).node_names == []
    assert (await rig.filter("high-1", *left)).node_names == []
    await rig.until(lambda: flight.over or flight.state is not FlightState.OPEN)
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2)
    other, seats = await opened(rig)
    assert set(other.seats.values()) == set(left)
    for name in NAMES:
        assert (await rig.filter(name, *left)).node_names == [seats[name]]
