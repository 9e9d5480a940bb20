"""A pod made anew in a unit that has gone in part is a victim of its own plan, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extender.gang.core.evictions import Evictions
from extender.gang.core.flight_units import FlightUnits
from extender.model.plan import Plan, Victim
from tests.gang.rig import Rig, full_cluster


def victim(name: str) -> Victim:
    return Victim(
        uid=name, namespace="ns", name=name, node="n", priority=1, grace=0, unit="pod-group:ns/low"
    )


@pytest.fixture
async def touched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[Evictions, Plan]:
    """Of plan "a"'s unit "old-0" is going by our hand and "old-1" is asked for without an answer;
    a later plan "b" names "old-1" and "new-2", which was made since."""
    preemptions = rig.coordinator.preemptions

    async def unanswered(*args: Any, asking: Callable[[], None], **named: Any) -> None:
        asking()
        await asyncio.Event().wait()

    monkeypatch.setattr(preemptions._evictor, "remove", unanswered)
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: len(rig.coordinator.reservations) == 1, "a plan is made")
    plan = next(iter(rig.coordinator.reservations)).plan
    evictions = preemptions.evictions
    monkeypatch.setattr(preemptions._check, "of_victim", lambda *args, **named: "")
    monkeypatch.setattr(preemptions.units, "still_holds", lambda unit: True)
    for name, uids in (("a", ("old-0", "old-1")), ("b", ("old-1", "new-2"))):
        # By the Eviction API: who is seen going before it has answered counts as gone by our hand.
        evictions.begin(plan, name, map(victim, uids), frozenset(uids), "")
        if name == "a":
            await rig.until(lambda: "old-0" in evictions.expected(), "both are asked for")
            evictions.going("old-0")
    return evictions, plan


def names(evictions: Evictions, plan_id: str) -> set[str]:
    return {uid for unit in evictions.of_plan(plan_id) for uid in unit.victims}


async def test_it_is_let_go_of_with_its_plan(touched: tuple[Evictions, Plan]) -> None:
    evictions, _ = touched
    (unit,) = evictions.of_plan("b")
    assert unit.must_go == {"old-1"}
    evictions.going("old-1")  # it had to go anyhow, and says nothing about who came since
    assert unit.must_go == {"old-1"}
    evictions.release("a")
    evictions.release("b")
    evictions._driver._not_done(unit, "new-2")  # its request came to nothing
    evictions._let_go(unit)
    assert names(evictions, "b") == {"old-1"}
    assert not evictions.takes("new-2")
    evictions.gone("old-0")
    evictions.gone("old-1")
    assert not names(evictions, "a") | names(evictions, "b")


async def test_its_condition_is_taken_back_when_it_stays(
    touched: tuple[Evictions, Plan], rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers would count a pod as disrupted that runs on."""
    evictions, _ = touched
    unmarked: list[str] = []

    async def unmark(victim: Victim) -> None:
        unmarked.append(victim.uid)

    monkeypatch.setattr(rig.coordinator.preemptions._evictor, "unmark", unmark)
    (unit,) = evictions.of_plan("b")
    await rig.until(lambda: "new-2" in unit.marked, "it is asked for")
    evictions.release("a")
    evictions.release("b")
    evictions._driver._not_done(unit, "new-2")
    evictions._let_go(unit)
    await rig.until(lambda: bool(unmarked), "the condition is taken back")
    assert unmarked == ["new-2"]


async def test_once_it_goes_by_our_hand_the_rest_goes_too(touched: tuple[Evictions, Plan]) -> None:
    evictions, plan = touched
    evictions.begin(plan, "c", map(victim, ("new-2", "new-3")), frozenset(), "")
    evictions.release("a")
    evictions.release("b")
    evictions.going("new-2")
    (unit,) = evictions.of_plan("c")
    assert unit.must_go == {"new-2", "new-3"}
    evictions.release("c")
    assert names(evictions, "c") == {"new-2", "new-3"}


async def test_an_answer_that_comes_after_the_end_says_nothing_of_it(
    touched: tuple[Evictions, Plan],
) -> None:
    evictions, _ = touched
    (old,) = evictions.of_plan("a")
    evictions.gone("old-0")
    evictions.gone("old-1")
    assert not evictions.of_plan("a")
    evictions._driver._accepted(old, victim("old-1"))
    (unit,) = evictions.of_plan("b")
    assert not unit.must_go & {"new-2"}


async def test_who_was_on_its_way_when_its_gang_went_goes_with_the_rest(
    touched: tuple[Evictions, Plan], rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its binding came after the gang was judged; alone it would run for nobody."""
    evictions, _ = touched
    (unit,) = evictions.of_plan("a")
    pod = rig.cached("low-1")
    evictions.joined(unit.name, pod, unit.touched_at - 0.1)
    assert pod.uid not in unit.victims  # nothing is recorded of that plan (seed 115787)
    monkeypatch.setattr(FlightUnits, "recorded", lambda self, unit: True)
    evictions.joined(unit.name, pod, unit.touched_at + 0.1)
    assert pod.uid not in unit.victims  # offered a node after that: one of the gang's next life
    evictions.joined("pod-group:ns/other", pod, unit.touched_at - 0.1)
    assert pod.uid not in unit.victims
    evictions.joined(unit.name, pod, unit.touched_at - 0.1)
    assert evictions.takes(pod.uid)
    evictions.release("a")
    assert pod.uid in names(evictions, "a")


async def test_a_binding_is_compared_with_what_was_offered(rig: Rig) -> None:
    seen: list[tuple[str, str]] = []
    evictions = rig.coordinator.preemptions.evictions
    evictions.joined = lambda name, pod, offered: seen.append((name, pod.name))  # type: ignore[method-assign]
    await rig.gang("low", 1, "low", on="n")
    await rig.pod("low-late", cls="low", group="low")
    assert (await rig.filter("low-late", "n1")).node_names == ["n1"]
    await rig.bind("low-late", "n1")
    await rig.until(lambda: bool(seen), "its binding is seen")
    assert seen == [("pod-group:default/low", "low-late")]


async def test_an_offer_is_void_once_the_pod_is_asked_about_again(rig: Rig) -> None:
    """A member that was offered a node long ago has a seat of its gang's next life: it was not on
    its way when its gang went."""
    seen: list[str] = []
    evictions = rig.coordinator.preemptions.evictions
    evictions.joined = lambda name, pod, offered: seen.append(pod.name)  # type: ignore[method-assign]
    await rig.gang("low", 1, "low", on="n")
    await rig.pod("low-late", cls="low", group="low")
    assert (await rig.filter("low-late", "n1")).node_names == ["n1"]
    await rig.remove("low-0")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "its gang is gone")
    while not (await rig.filter("low-late", "n0", "n1")).node_names:
        await asyncio.sleep(0.05)
    (preemption,) = rig.coordinator.reservations
    (node,) = preemption.seats.values()
    await rig.bind("low-late", node)
    await rig.until(lambda: bool(rig.cached("low-late").node), "it sits")
    assert not seen
