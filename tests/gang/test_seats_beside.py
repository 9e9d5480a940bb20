"""Seats of two plans on one node: what one counts on to go leaves the other's room alone."""

from __future__ import annotations

import pytest

from extender.gang.core.preemption import End
from extender.gang.core.reservations import Preemption
from extender.gang.plan.new_room import room_came
from extender.gang.tell.decisions import Verb
from extender.model.plan import Hold
from tests.gang.rig import LOW, Rig, held_back, let_go, refuse
from tests.gang.world import gang_key, node, pod, snapshot


async def gang(rig: Rig, name: str, cpu: str, cls: str, *, on: tuple[str, ...] = ()) -> None:
    """Two pods of a PodGroup that goes whole."""
    await rig.group(name, 2, cls)
    for i, place in enumerate(on or ("", "")):
        await rig.pod(f"{name}-{i}", cls=cls, group=name, cpu=cpu, on=place)
    await rig.until(lambda: rig.cache.pod_named("default", f"{name}-1") is not None, name)


async def planned(rig: Rig, name: str) -> Preemption:
    answer = await rig.coordinator.ensure(rig.resolver_key(f"{name}-0"), Verb.LOOP)
    assert isinstance(answer, Preemption), answer
    return answer


async def test_seats_that_go_back_while_an_eviction_is_tried_again_are_room(rig: Rig) -> None:
    """The cluster is the same, so nobody looked again (seed 761895 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.gang("first", 1, "high")
    first = await planned(rig, "first")
    assert [seat.node for seat in first.plan.seats] == ["n1"]
    await rig.gang("second", 1, "high")
    busy = refuse(rig, "low-0")
    second = await planned(rig, "second")
    asks = rig.coordinator.plans.victims.asks
    await rig.until(lambda: busy.hits > 0 and not asks(second.id), "it has to be tried again")
    rig.coordinator.executor.feed(End(first, "its seats go back", penal=True))
    busy.times = busy.hits
    await rig.until(lambda: second.over, "another plan is made")
    await rig.rounds()
    assert "low-0" in await rig.names()
    assert [
        seat.node for preemption in rig.coordinator.reservations for seat in preemption.plan.seats
    ] == ["n1"]


async def two_plans(rig: Rig) -> tuple[Preemption, Preemption]:
    """The first fills both nodes; the second evicts a small pod on each for its own small ones."""
    for i in range(2):
        await rig.pod(f"top-{i}", cls="top", cpu="1", on=f"n{i}")
    await gang(rig, "low", "1", "low", on=("n0", "n1"))
    await gang(rig, "first", "2", "high")
    first = await planned(rig, "first")
    assert not first.plan.victims
    await gang(rig, "second", "1", "high")
    second = await planned(rig, "second")
    assert {victim.name for victim in second.plan.victims} == {*LOW}
    return first, second


async def test_a_plan_holds_beside_another_that_has_to_evict_first(rig: Rig) -> None:
    """It was changed, for the other's seats had no room yet (seed 504034 with sparing)."""
    held = held_back(rig, "DELETE", "/low-", times=100)
    first, second = await two_plans(rig)
    assert rig.coordinator.preconditions.problem(first) == ""
    assert rig.coordinator.preconditions.problem(second) == ""
    let_go(held)
    await rig.until(lambda: not second.victims, "the low gang is gone")
    assert rig.coordinator.preconditions.problem(first) == ""
    assert first.replans == second.replans == 0


@pytest.mark.parametrize("cpu", ["1", "2"])
async def test_what_one_gives_back_beyond_its_seats_is_not_counted_on(rig: Rig, cpu: str) -> None:
    """Whether it goes at all is not sure before it is gone."""
    held = held_back(rig, "DELETE", "/low-", times=100)
    first, _ = await two_plans(rig)
    await rig.pod("late", cls="top", cpu=cpu, on="n0")
    await rig.until(lambda: rig.cache.pod_named("default", "late") is not None, "late")
    assert "n0 has no room" in rig.coordinator.preconditions.problem(first)
    let_go(held)


def test_room_for_one_of_two_members_is_news_where_both_have_their_seats() -> None:
    """The other has room elsewhere, where nothing has changed (seed 985133 with sparing)."""
    waiting = [pod("a", cpu=1), pod("b", cpu=1)]
    full = [pod("low-0", on="n0", cpu=3), pod("low-1", on="n1", cpu=3)]
    state = snapshot([node("n0"), node("n1")], [*full, *waiting])
    members = {each.uid: each for each in waiting}
    seats = dict.fromkeys(members, "n0")
    other = pod("other", cpu=2)
    beside = Hold(
        gang=gang_key("other"), priority=1, uid=other.uid, node="n0", requests=other.requests
    )
    assert room_came(members, seats, state, state, [beside], []) == "n0"
    assert not room_came(members, seats, state, state, [], [beside])
    assert not room_came(members, seats, state, state, [beside], [beside])
