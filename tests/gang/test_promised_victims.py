"""Members that come to a gang which is about to be evicted, is being evicted, or has been."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace

from extender.gang.controller.notifier import WAKE_ANNOTATION
from extender.gang.controller.preconditions import Preconditions
from extender.gang.controller.requests import Evictor
from extender.gang.core import victim_group
from extender.gang.runtime.clocks import Clocks
from extender.model.plan import Victim
from extender.sandbox.faults import Fault
from extender.settings.settings import SeatSettings
from tests.gang.rig import (
    FAST,
    HIGH,
    LOW,
    REAL_DELETE,
    Rig,
    answered_later,
    full_cluster,
    held_back,
    let_go,
    refuse,
)

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
STARTS_ONE_BY_ONE = {
    "metadata": {"name": "low"},
    "spec": {
        "schedulingPolicy": {"basic": {}},
        "disruptionMode": {"all": {}},
        "priorityClassName": "low",
    },
}


async def test_who_is_to_go_is_not_counted_as_running(rig: Rig) -> None:
    """A gang was completed with a member that went a moment later: it ran in part (seed 29284)."""
    await rig.gang("low", 2, "low", on="n", whole=False)
    await rig.gang("high", 1, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "three pods")
    held = held_back(rig, "POST", "configmaps")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    (preemption,) = rig.coordinator.reservations
    (victim,) = preemption.victims.values()
    (stays,) = {"low-0", "low-1"} - {victim.name}
    await rig.until(lambda: held.hits > 0, "the record is being written")
    await rig.remove(stays)
    await rig.until(lambda: rig.cache.pod_named("default", stays) is None, "another has gone")
    await rig.pod("low-2", cls="low", group="low")
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is made anew")
    answer = await rig.filter("low-2", "n0", "n1")
    assert not answer.node_names
    assert f"{victim.name} is being evicted for" in answer.failed_and_unresolvable["n0"]
    let_go(held)
    # Whatever becomes of that plan, the gang is looked at again.
    deadline = time.monotonic() + 60
    while "is being evicted for" in answer.failed_and_unresolvable.get("n0", ""):
        assert time.monotonic() < deadline, "it waits for ever"
        await asyncio.sleep(0.05)
        answer = await rig.filter("low-2", "n0", "n1")


async def test_nobody_joins_a_gang_that_is_to_go(rig: Rig) -> None:
    """A member beyond the quorum was let through, and had to go with the others."""
    await full_cluster(rig)
    held = held_back(rig, "POST", "configmaps")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: held.hits > 0, "the record is being written")
    await rig.nodes(1, first=2)
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    answer = await rig.filter("low-2", "n2")
    assert not answer.node_names
    assert "is being evicted for" in answer.failed_and_unresolvable["n2"]
    let_go(held)
    await rig.until_names("low-2", *HIGH)


async def pair(rig: Rig, *, together: bool) -> None:
    """Gang low of two, which goes whole and perhaps starts so, on n0 and n1; another one waits."""
    if together:
        await full_cluster(rig)
    else:
        await rig.client.create(GROUPS, STARTS_ONE_BY_ONE)
        for i, name in enumerate(LOW):
            await rig.pod(name, cls="low", group="low", on=f"n{i}")
        await rig.gang("high", 2, "high")
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "four pods")


@pytest.mark.parametrize("together", [True, False])
async def test_nobody_joins_a_gang_whose_rest_still_has_to_go(rig: Rig, *, together: bool) -> None:
    """Its plan had ended, with a request that was not answered: a member that was made anew got a
    node, the rest went, and it was left alone (seed 557852, where members start one by one)."""
    await pair(rig, together=together)
    await rig.nodes(1, first=2)
    held = held_back(rig, "DELETE", f"low-1{REAL_DELETE}")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.until(lambda: held.hits > 0, "the request for the other is on its way")
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    answer = await rig.filter("low-2", "n2")
    assert not answer.node_names
    assert not (await rig.preempt("low-2", n1=["low-1"])).candidates
    let_go(held)
    await rig.until_names("low-2", "high-0")
    if together:
        await rig.pod("low-3", cls="low", group="low", cpu="1")
    else:
        await rig.until(lambda: WAKE_ANNOTATION in rig.cached("low-2").annotations, "it is woken")
    deadline = time.monotonic() + 60
    while not (await rig.filter("low-2", "n0", "n1", "n2")).node_names:
        assert time.monotonic() < deadline, "it waits for ever"
        await asyncio.sleep(0.05)


async def newcomer_waits_for_the_rest(rig: Rig) -> None:
    """low-0 has gone, low-1 cannot be evicted, the plan is over, and low-2 is kept off."""
    refuse(rig, "low-1")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await rig.filter("low-2", "n2")).node_names


@pytest.mark.parametrize("together", [True, False])
async def test_nobody_joins_a_gang_while_it_is_not_known_by_whose_hand_one_has_gone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """The eviction was done, and not answered for 15 s: a pod made anew made the gang whole again,
    then its rest was evicted and the new one was left alone (seed 540162)."""
    await pair(rig, together=together)
    await rig.nodes(1, first=2)
    answer = answered_later(rig, monkeypatch)
    await newcomer_waits_for_the_rest(rig)
    assert rig.coordinator.reservations.of_member(rig.cached("low-2").uid) is None
    answer.set()
    await rig.until(
        lambda: any(u.touched for u in rig.coordinator.plans.victims.unfinished()),
        "the rest must go",
    )
    assert not (await rig.filter("low-2", "n2")).node_names
    rig.server.faults.clear()
    await rig.until_names("low-2", "high-0")


async def test_who_comes_before_it_is_known_who_took_the_first_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when the first of its gang was seen going (seed 36156).

    We let nobody in meanwhile, but a pod may come to a node without us.
    """
    answers, real = asyncio.Event(), Evictor.remove

    async def slow(self: Evictor, victim: Victim, **named: object) -> object:
        if victim.name == "low-1":
            await answers.wait()
            return await real(self, victim, **named)  # type: ignore[arg-type]
        answer = await real(self, victim, **named)  # type: ignore[arg-type]
        await answers.wait()
        return answer

    monkeypatch.setattr(Evictor, "remove", slow)
    await rig.group("low", 1, "low")
    for i in range(2):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "one has gone")
    await rig.remove("high-0")
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    await rig.pod("low-2", cls="low", group="low")
    assert not (await rig.filter("low-2", "n0")).node_names
    await rig.bind("low-2", "n0")
    await rig.until(lambda: bool(rig.cached("low-2").node), "it runs")
    answers.set()
    evictions = rig.coordinator.plans.victims
    await rig.until(lambda: not evictions.unfinished(), "the unit is finished, or let go of")
    assert "low-2" in await rig.names()


async def test_who_cannot_be_evicted_stays_while_others_are_seated_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was counted as running, and then it could be evicted after all (seed 45057)."""
    monkeypatch.setattr(victim_group, "REFUSED_PAUSE", 1.0)
    monkeypatch.setattr(victim_group, "LOOK_SECONDS", 0.05)
    stays, completing = 0, Preconditions.completing

    def counted(self: Preconditions, name: str) -> bool:
        nonlocal stays
        found = completing(self, name)
        stays += found
        return found

    monkeypatch.setattr(Preconditions, "completing", counted)
    patient = replace(FAST, seats=SeatSettings(bind_seconds=30.0))
    async with Rig(patient) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        await rig.pod("keep", cls="high", on="n2")
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 5, "all nodes are full")
        refused = Fault(times=10**6, method="DELETE", path=f"low-1{REAL_DELETE}", status=403)
        rig.server.faults.plan(refused)
        await rig.preempt("high-0", n0=["low-0"])
        evictions = rig.coordinator.plans.victims
        await rig.until(lambda: bool(evictions.broken()), "the other half cannot be evicted")
        # It is tried again every second or two.
        rig.coordinator.executor._evictor._clocks = Clocks()
        for name in (*HIGH, "keep"):
            await rig.remove(name)
        await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
        await rig.pod("low-2", cls="low", group="low")
        deadline = time.monotonic() + 60
        while not (await rig.filter("low-2", "n0", "n2")).node_names:
            assert time.monotonic() < deadline, "it gets no seat"
            await asyncio.sleep(0.05)
        rig.server.faults.clear()
        hits = refused.hits
        await rig.until(lambda: stays >= 5, "its turn has come, again and again")
        assert refused.hits == hits
        assert await rig.names() == {"low-1", "low-2"}
        (preemption,) = rig.coordinator.reservations
        await rig.bind("low-2", preemption.seats[rig.cached("low-2").uid])
        await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
        assert await rig.names() == {"low-1", "low-2"}
