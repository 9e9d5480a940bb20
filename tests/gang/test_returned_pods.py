"""Pods that are there, or wait, after all: the storage was put back to before they went, or sat."""

from __future__ import annotations

import pytest

from extender.gang.core import preemption as machine
from extender.gang.core import victim_group
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.resources import PODS
from tests.gang.limited import tried
from tests.gang.rig import HIGH, LOW, Rig, full_cluster

KEY = PODS.key


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stays is found within a second."""
    monkeypatch.setattr(victim_group, "RETURNED_SECONDS", 0.2)
    monkeypatch.setattr(machine, "LOOK_AFTER_SECONDS", 0.05)


async def hold(rig: Rig, *names: str) -> None:
    """Have these pods stay on their way out."""
    held = {"metadata": {"finalizers": ["test/held"]}}
    for name in names:
        await rig.client.patch(f"/api/v1/namespaces/default/pods/{name}", held)


@pytest.mark.usefixtures("soon")
async def test_pods_that_are_back_are_victims_again(rig: Rig) -> None:
    """They counted as on their way out for ever, so every plan waited for them in vain."""
    await full_cluster(rig)
    for name in HIGH:
        await tried(rig, name)
    storage = rig.server.api.storage
    before = {name: storage.get(KEY, "default", name) for name in LOW}
    await hold(rig, *LOW)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the victims go")
    for pod in before.values():
        assert pod is not None
        storage.put(KEY, pod)
    await rig.until_names(*HIGH)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("late", [True, False])
async def test_who_is_back_goes_when_others_of_its_unit_have_gone_for_good(
    rig: Rig, *, late: bool
) -> None:
    """``late``: it is back after all had gone, so that nothing was owed any more."""
    await full_cluster(rig)
    storage = rig.server.api.storage
    before = storage.get(KEY, "default", "low-0")
    assert before is not None
    await hold(rig, "low-1")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: bool(rig.cached("low-1").deleting), "the victims go")
    await rig.until_names("low-1", *HIGH)
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan is over")
    if not late:
        storage.put(KEY, before)
        await rig.until_names("low-0", "low-1")
    free = {"metadata": {"finalizers": None}}
    await rig.client.patch("/api/v1/namespaces/default/pods/low-1", free)
    if late:
        await rig.until_names()
        await rig.until(lambda: not rig.cache.store.pods.by_uid, "nobody is cached")
        storage.put(KEY, before)
        await rig.until(lambda: bool(rig.cache.store.pods.by_uid), "it is back")
    await rig.until_names()


@pytest.mark.usefixtures("soon")
async def test_who_is_back_goes_beside_others_of_its_unit_that_are_back_on_their_way_out(
    rig: Rig,
) -> None:
    """The backup was taken amid the evictions: all are there again, and one goes."""
    await full_cluster(rig)
    storage = rig.server.api.storage
    before = storage.get(KEY, "default", "low-0")
    assert before is not None
    await hold(rig, *LOW)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the victims go")
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan is over")
    storage.put(KEY, before)
    await rig.until_names("low-1")
    assert rig.cached("low-1").deleting


@pytest.mark.usefixtures("soon")
async def test_a_unit_that_is_back_whole_stays(rig: Rig) -> None:
    await full_cluster(rig)
    storage = rig.server.api.storage
    before = {name: storage.get(KEY, "default", name) for name in LOW}
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan is over")
    for pod in before.values():
        assert pod is not None
        storage.put(KEY, pod)
    unfinished = rig.coordinator.plans.victims.unfinished
    await rig.until(lambda: bool(unfinished()), "it is looked at again")
    await rig.until(lambda: not unfinished(), "it owes nobody")
    assert await rig.names() == set(LOW)


async def test_members_whose_binding_was_lost_have_their_seats_again(rig: Rig) -> None:
    """Who sat counted as seated for ever: the last to come ended the plan, the others waited."""
    await rig.gang("high", 2, "high")
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    seats = dict(preemption.seats)
    one, other = rig.cached("high-0").uid, rig.cached("high-1").uid
    storage = rig.server.api.storage
    before = storage.get(KEY, "default", "high-0")
    assert before is not None
    await rig.bind("high-0", seats[one])
    await rig.until(lambda: set(preemption.seats) == {other}, "one sits")
    deadline = preemption.deadline
    storage.put(KEY, before)
    await rig.until(lambda: preemption.seats == seats, "its seat is held again")
    assert preemption.deadline > deadline, "who begins anew has the time that all have"
    await rig.until(lambda: not preemption.doubted, "the plan is compared")
    assert (await rig.filter("high-0", *seats.values())).node_names == [seats[one]]
    await rig.bind("high-1", seats[other])
    await rig.until(lambda: set(preemption.seats) == {one}, "the other sits")
    assert not preemption.over
    await rig.bind("high-0", seats[one])
    await rig.until(lambda: preemption.over, "the plan ends")
    assert rig.outcomes("high")[-1] == "done"


async def test_who_sat_before_a_restart_has_its_seat_again(rig: Rig) -> None:
    """It was not among those that waited then: nothing was known of it (seeds 600826, 601696)."""
    await rig.gang("high", 2, "high")
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    seats, one = dict(preemption.seats), rig.cached("high-0").uid
    storage = rig.server.api.storage
    before = storage.get(KEY, "default", "high-0")
    assert before is not None
    await rig.bind("high-0", seats[one])
    await rig.until(lambda: one not in preemption.seats, "one sits")
    await rig.kill()
    await rig.start()
    (resumed,) = rig.coordinator.reservations
    assert one not in resumed.seats
    storage.put(KEY, before)
    reservations = rig.coordinator.reservations
    await rig.until(lambda: reservations.of_member(one) is resumed, "its seat is held again")
    assert resumed.seats == seats
    assert {hold.uid for hold in reservations.holds()} == seats.keys()


@pytest.mark.usefixtures("soon")
async def test_who_was_refused_as_one_was_going_is_looked_at_again(rig: Rig) -> None:
    """The cluster did not change when it was found to stay: the answer was kept (seed 600366)."""
    await full_cluster(rig)
    storage = rig.server.api.storage
    before = {name: storage.get(KEY, "default", name) for name in LOW}
    await hold(rig, *LOW)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the victims go")
    version = rig.coordinator.plans.victims.refusals.version
    for pod in before.values():
        assert pod is not None
        storage.put(KEY, pod)
    refusals = rig.coordinator.plans.victims.refusals
    await rig.until(lambda: refusals.version > version, "answers do not stand any more")
