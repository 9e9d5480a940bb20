"""While kube-scheduler does not offer one member its seat, a start does not begin with another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.gang.controller import hints
from extender.gang.controller.notifier import WAKE_ANNOTATION
from extender.gang.core import refused_seats
from extender.gang.core.refused_seats import (
    MISSED_SECONDS,
    MOST_GIVEN,
    MOST_PUT_OFFS,
    MOST_UNHEARD,
)
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.open_seats import Seats
from tests.gang.rig import PODS, Rig, held_back, let_go
from tests.gang.world import pod

NODES = ("n0", "n1", "n2")


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    """Three free nodes, and a gang of three, a seat on each; nobody is called but for a reason."""
    monkeypatch.setattr(hints, "PAUSES", ())
    async with Rig() as made:
        await made.nodes(3)
        await made.classes(high=100)
        await made.gang("high", 3, "high")
        yield made


async def opened(rig: Rig) -> tuple[Preemption, dict[str, str]]:
    """The plan with its seats open, which nobody has yet, and the member of each."""
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.FILTER)
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN)
    return preemption, {pod.name: preemption.seats[uid] for uid, pod in preemption.pods.items()}


async def woken(rig: Rig, name: str) -> bool:
    pod = await rig.client.get(f"{PODS}/{name}")
    return WAKE_ANNOTATION in (pod["metadata"].get("annotations") or {})


async def until_woken(rig: Rig, name: str) -> None:
    while not await woken(rig, name):
        await asyncio.sleep(0.01)


async def test_a_start_begins_when_all_are_offered_their_seats(rig: Rig) -> None:
    """A node was gone, which kube-scheduler knew and we did not yet; two of three sat (230732)."""
    preemption, seats = await opened(rig)
    others = tuple(node for node in NODES if node != seats["high-0"])
    assert (await rig.filter("high-0", *others[:1])).node_names == []
    held = await rig.filter("high-1", *NODES)
    assert held.node_names == []
    assert "another member is not offered its own" in next(
        iter(held.failed_and_unresolvable.values())
    )
    assert not preemption.binding
    assert not await woken(rig, "high-1")
    assert (await rig.filter("high-0", *NODES)).node_names == [seats["high-0"]]
    await until_woken(rig, "high-1")
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
        await until_woken(rig, name)
        assert (await rig.filter(name, *NODES)).node_names == [seats[name]]


async def test_a_start_that_has_begun_goes_on(rig: Rig) -> None:
    """Nothing is gained by keeping the others off once one may sit."""
    _, seats = await opened(rig)
    assert (await rig.filter("high-0", *NODES)).node_names == [seats["high-0"]]
    assert (await rig.filter("high-1", seats["high-0"])).node_names == []
    assert (await rig.filter("high-2", *NODES)).node_names == [seats["high-2"]]


async def test_who_was_given_its_seat_and_is_back_begins_no_start(rig: Rig) -> None:
    """Its binding has failed: it is on its way nowhere, and the seats are not firm any more."""
    preemption, seats = await opened(rig)
    assert (await rig.filter("high-1", *NODES)).node_names == [seats["high-1"]]
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    assert preemption.binding
    assert (await rig.filter("high-1", *NODES)).node_names == []
    assert not preemption.binding


async def test_who_was_held_back_may_sit_once_two_have_swapped(rig: Rig) -> None:
    _, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-1"])).node_names == []
    assert (await rig.filter("high-2", *NODES)).node_names == []
    swapped = await rig.filter("high-1", seats["high-0"])
    assert swapped.node_names == [seats["high-0"]]
    await until_woken(rig, "high-2")
    assert (await rig.filter("high-2", *NODES)).node_names == [seats["high-2"]]


async def test_a_start_is_not_begun_by_a_swap_while_a_third_is_missed(rig: Rig) -> None:
    _, seats = await opened(rig)
    assert (await rig.filter("high-2", seats["high-0"])).node_names == []
    assert (await rig.filter("high-0", seats["high-1"])).node_names == []
    assert (await rig.filter("high-1", seats["high-0"])).node_names == [], "they have swapped"
    assert (await rig.filter("high-2", *NODES)).node_names == [seats["high-2"]]
    await until_woken(rig, "high-1")
    assert (await rig.filter("high-1", *NODES)).node_names == [seats["high-0"]]


async def test_a_preemption_after_our_own_refusal_says_nothing_about_the_seat(rig: Rig) -> None:
    """kube-scheduler goes on to preempt where a member was held back and other nodes are full."""
    preemption, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    missed = dict(preemption.missed)
    assert (await rig.filter("high-1", *NODES)).node_names == []
    assert not (await rig.preempt("high-1")).candidates
    assert preemption.missed == missed


async def test_a_preemption_of_a_later_attempt_is_about_the_seat(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node passed before us, so filter was not asked again."""
    monkeypatch.setattr(refused_seats, "TURNED_SECONDS", 0.0)
    preemption, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    assert (await rig.filter("high-1", *NODES)).node_names == []
    assert not (await rig.preempt("high-1")).candidates
    assert preemption.missed.keys() == {rig.cached(name).uid for name in ("high-0", "high-1")}


async def test_a_preemption_after_seats_that_were_not_open_yet_says_nothing_about_them(
    rig: Rig,
) -> None:
    """They opened between the two questions of one attempt."""
    record = held_back(rig, "POST", "configmaps")
    asked = asyncio.ensure_future(rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.FILTER))
    await rig.until(lambda: record.hits > 0, "its plan is being recorded")
    assert (await rig.filter("high-0", *NODES)).node_names == []
    let_go(record)
    preemption = await asked
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN)
    assert not (await rig.preempt("high-0")).candidates
    assert not preemption.missed


async def test_a_start_is_put_off_for_a_while_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not offered its seat may not be tried again for long, and others wait for it."""
    monkeypatch.setattr(refused_seats, "MISSED_SECONDS", 0.3)
    preemption, seats = await opened(rig)
    assert (await rig.filter("high-0", seats["high-2"])).node_names == []
    assert (await rig.filter("high-1", *NODES)).node_names == []
    await until_woken(rig, "high-1")
    for name in ("high-1", "high-2"):
        assert (await rig.filter(name, *NODES)).node_names == [seats[name]]
    assert preemption.missed.keys() == {rig.cached("high-0").uid}


async def test_pods_that_come_all_the_time_do_not_keep_a_refused_seat(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has every rule asked again, and none is against the seats."""
    monkeypatch.setattr(refused_seats, "MISSED_SECONDS", 0.5)
    preemption, seats = await opened(rig)
    others = tuple(node for node in NODES if node != seats["high-0"])
    comes = pod("comes", cpu=0, on=seats["high-0"], namespace="tenant")
    last = 0.0

    def changed() -> bool:
        nonlocal last
        rig.coordinator.plans.reservations.unadmitted(comes)
        if preemption.clear_from > last:
            last = preemption.clear_from
            asyncio.get_running_loop().create_task(rig.filter("high-0", *others))
        return bool(preemption.changed_for)

    assert (await rig.filter("high-0", *others)).node_names == []
    await rig.until(changed, "the plan is changed")
    assert "does not accept high-0" in preemption.changed_for


def test_who_is_put_off_again_and_again_is_not_taken_for_one_nobody_asks_about() -> None:
    """Among more than a hundred nodes each such answer clears its nomination."""
    seats = Seats()
    seats.misses("n9")
    for _ in range(2 * MOST_UNHEARD):
        assert not seats.starts()
        seats.clears(seats.one)
    assert not seats.changed
    for _ in range(2 * MOST_UNHEARD):
        seats.clears(seats.one)
    assert seats.changed


def test_the_end_of_a_put_off_calls_those_who_were_waited_for_too() -> None:
    """Nobody holds a seat for refused that is not offered only because its member is not tried."""
    seats = Seats()
    seats.misses("n9")
    assert not seats.starts()
    seats.now += MISSED_SECONDS
    (end,) = seats.ends
    end()
    assert set(seats.called) == {seats.one.uid, seats.other.uid}
    assert seats.starts()
    seats.refused.look(seats.preemption)
    assert not seats.changed, "it was called a moment ago"
    seats.now += MISSED_SECONDS
    seats.refused.look(seats.preemption)
    assert seats.changed


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize(
    ("priority", "node", "lasts"),
    [(50, "n2", False), (0, "n2", False), (-1, "n2", True), (50, "n1", True)],
)
def test_a_refusal_that_another_plan_is_the_reason_of_lasts_as_long(
    *, heard: bool, priority: int, node: str, lasts: bool
) -> None:
    """kube-scheduler adds the seats nominated to others to the pods that go: the node was left out
    for five minutes, and somebody was evicted beside its room (583948)."""
    seats = Seats()
    seats.waits_on(node, priority)
    version = seats.evidence.version()
    for _ in range(MOST_UNHEARD):
        if heard:
            seats.misses("n9")
        else:
            seats.clears(seats.other)
    seats.now += MISSED_SECONDS
    if heard:
        seats.refused.look(seats.preemption)
    else:
        seats.clears(seats.other)
    assert seats.changed
    assert seats.left_out() == {"n2"}
    assert seats.evidence.version() > version
    version = seats.evidence.version()
    seats.reservations.pod_left(node, "going")
    assert seats.left_out() == ({"n2"} if lasts else frozenset())
    assert (seats.evidence.version() > version) is not lasts


def test_a_seat_that_does_not_work_is_remembered_whoever_else_waits_there() -> None:
    """It was offered, so that other plan was in nobody's way."""
    seats = Seats()
    seats.waits_on("n2", 50)
    seats.misses("n9")
    for _ in range(MOST_GIVEN):
        assert seats.refused.seat_given(seats.preemption, seats.other)
        seats.now += MISSED_SECONDS
    assert not seats.refused.seat_given(seats.preemption, seats.other)
    seats.reservations.pod_left("n2", "going")
    assert seats.left_out() == {"n2"}


@pytest.mark.parametrize(
    ("alone", "others", "missed"),
    [
        (True, ("n9",), False),  # a list follows the nominated seat
        (True, (), False),
        (False, (), False),
        (False, ("n9",), True),  # a list follows a list: another attempt
    ],
)
def test_what_is_the_rest_of_an_attempt(
    *, alone: bool, others: tuple[str, ...], missed: bool
) -> None:
    """kube-scheduler may try a pod anew at any moment (SchedulerPopFromBackoffQ)."""
    seats = Seats()
    seats.refused.turned_away(seats.preemption, seats.other, alone=alone)
    seats.misses(*others)
    assert bool(seats.preemption.missed) is missed
    if others:
        seats.misses(*others)
        assert seats.preemption.missed, "one list belongs to it, and no more"


def test_a_start_is_put_off_some_times_and_no_more() -> None:
    """A miss that was over soon is no reason to begin without a node that is gone later."""
    seats = Seats()
    for number in range(MOST_PUT_OFFS + 1):
        seats.now += 10.0
        seats.misses("n9")
        assert seats.starts() is (number == MOST_PUT_OFFS)
        assert seats.refused.starts_with(seats.preemption, seats.other, alone=False)


async def test_members_are_seated_among_more_nodes_than_a_list_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One attempt asks about the nominated seat, and then about a sample without it: members that
    were put off had refused their seats by that, each in turn, and nobody was seated."""
    monkeypatch.setattr(hints, "PAUSES", ())
    async with Rig() as rig:
        await rig.nodes(120)
        await rig.classes(high=100)
        await rig.gang("high", 2, "high")
        await rig.until(lambda: len(rig.cache.snapshot().nodes) == 120)
        preemption, seats = await opened(rig)
        sample = [f"n{i}" for i in range(120) if f"n{i}" not in preemption.seats.values()][:100]
        missed, other = "high-0", "high-1"
        assert (await rig.filter(missed, *sample, nominated=seats[missed])).node_names == []
        for names in ([seats[other]], sample):
            answer = await rig.filter(other, *names, nominated=seats[other])
            assert answer.node_names == []
        for name in (missed, other):
            answer = await rig.filter(name, seats[name], nominated=seats[name])
            assert answer.node_names == [seats[name]]
