"""A unit that has gone in part is finished, whoever ends its plan; others are left alone."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace

from extender.gang.core.victim_group import Phase
from extender.gang.tell.decisions import Verb
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings
from tests.gang.rig import (
    FAST,
    HIGH,
    PODS,
    REAL_DELETE,
    Rig,
    anywhere,
    full_cluster,
    held_back,
    let_go,
    low_pods,
    until_no_records,
)


async def until_warned(rig: Rig, name: str, reason: str) -> None:
    """Events are written in the background."""
    deadline = time.monotonic() + 60
    warned: set[tuple[str, str]] = set()
    while (name, reason) not in warned:
        assert time.monotonic() < deadline, f"no warning {reason} about {name} in {warned}"
        found = (await rig.client.get("/api/v1/namespaces/default/events"))["items"]
        warned = {
            (event["involvedObject"]["name"], event["reason"])
            for event in found
            if event["type"] == "Warning"
        }
        await asyncio.sleep(0.02)


async def test_a_unit_gone_in_part_is_finished_when_the_plan_was_cancelled(rig: Rig) -> None:
    await full_cluster(rig)
    refused = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.remove("high-0")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert refused.hits
    rig.server.faults.clear()
    await rig.until_names("high-1")
    await until_no_records(rig)


async def test_a_unit_gone_in_part_is_finished_by_the_next_life(rig: Rig) -> None:
    """The member was deleted while the extender was down: the plan is over, the unit is not."""
    await full_cluster(rig)
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.kill()
    rig.server.faults.clear()
    await rig.remove("high-0")
    await rig.start()
    await rig.until_names("high-1")
    await until_no_records(rig)


async def test_a_unit_is_finished_by_the_next_life_though_the_clock_was_set_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first pod went, and was given an hour more, it seemed: its unit counted as untouched, and
    half a gang stayed (seed 285213)."""
    await full_cluster(rig)
    await rig.client.patch(f"{PODS}/low-0", {"metadata": {"finalizers": ["test/held"]}})
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: rig.cached("low-0").deleting > 0, "low-0 goes")
    await rig.remove("high-0")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    await rig.rounds()
    await rig.kill()
    rig.server.faults.clear()
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() - 3600.0)
    await rig.start()
    await rig.until_names("low-0", "high-1")


async def test_a_gang_that_is_whole_again_is_not_finished_by_the_next_life(rig: Rig) -> None:
    """Somebody took a member and its controller made another, while nothing could be evicted."""
    await full_cluster(rig)
    refused = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-.{REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: refused.hits > 0, "the evictions are refused")
    await rig.kill()
    rig.server.faults.clear()
    for name in ("low-0", *HIGH):
        await rig.remove(name)
    await rig.pod("low-2", cls="low", group="low", on="n0")
    await rig.start()
    await until_no_records(rig)
    assert await rig.names() == {"low-1", "low-2"}
    assert not rig.coordinator.plans.victims.unfinished()


async def test_a_unit_gone_in_part_is_finished_after_its_plan_ended_and_a_restart(rig: Rig) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    await rig.rounds()
    await rig.kill()
    rig.server.faults.clear()
    await rig.start()
    await rig.until_names()
    await until_no_records(rig)


async def test_a_unit_gone_in_part_is_finished_when_the_seats_are_taken_over(wide: Rig) -> None:
    """The urgent gang needs one of the two seats; the other half of the victims goes as well."""
    rig = wide
    await rig.gang("low", 4, "low", on="n")
    await rig.gang("high", 4, "high")
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-[123]{REAL_DELETE}", status=429)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "one has gone")
    await rig.gang("top", 1, "top")
    await rig.preempt("top-0")
    rig.server.faults.clear()
    await rig.until(
        lambda: not low_pods(rig),
        "the whole unit has gone",
    )


async def test_forty_members_go_whole_when_the_user_cancels_half_way() -> None:
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=8))) as rig:
        await rig.nodes(40)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 40, "low", on="n")
        await rig.gang("high", 40, "high")
        rig.server.faults.plan(
            Fault(times=10_000, method="DELETE", path=f"low-{REAL_DELETE}", delay=0.2)
        )
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "some are gone")
        await rig.remove("high-39")
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
        await rig.until(
            lambda: not low_pods(rig),
            "the whole unit has gone",
        )


async def test_untouched_units_of_a_cancelled_plan_are_left_alone() -> None:
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1))) as rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100)
        for i in range(4):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        await rig.gang("high", 4, "high")
        slow = held_back(rig, "DELETE", f"low-{REAL_DELETE}")
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        await rig.remove("high-3")
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
        let_go(slow)
        await rig.until(lambda: len(low_pods(rig)) == 3, "one has gone")
        await rig.rounds()
        assert len(low_pods(rig)) == 3


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (422, "Invalid"), (500, "InternalError")]
)
async def test_a_refusal_after_a_good_rehearsal_is_told_and_others_are_tried(
    wide: Rig, status: int, reason: str
) -> None:
    rig = wide
    await rig.gang("low", 2, "low", on="n")
    await rig.group("other", 2, "low")
    for i in range(2):
        await rig.pod(f"other-{i}", cls="low", group="other", on=f"n{i + 2}")
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 6, "all are cached")
    first = await rig.coordinator.ask(
        rig.coordinator.resolver.resolve(rig.resolver_key("high-0"), rig.cache.snapshot()),
        anywhere(rig),
    )
    doomed = sorted({victim.name.partition("-")[0] for victim in first.victims})  # type: ignore[union-attr]
    assert len(doomed) == 1
    rig.server.faults.plan(
        Fault(
            times=10_000,
            method="DELETE",
            path=f"{doomed[0]}-1{REAL_DELETE}",
            status=status,
            reason=reason,
        )
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "broken" in rig.outcomes("high"), "the refusal is told")
    assert rig.coordinator.plans.victims.broken()
    spared = "other" if doomed == ["low"] else "low"
    deadline = asyncio.get_running_loop().time() + 60
    while any(rig.cache.pod_named("default", f"{spared}-{i}") is not None for i in range(2)):
        # As kube-scheduler does: a 500 may end the plan before it is taken for a refusal.
        await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.FILTER)
        assert asyncio.get_running_loop().time() < deadline, "the other gang does not go instead"
        await asyncio.sleep(0.05)
    await until_warned(rig, f"{doomed[0]}-1", "GangBroken")
    # A 500 may be over later than its plan; that one has ended with a word of its own then.
    if status != 500:
        await until_warned(rig, "high-0", "PreemptionIncomplete")
    await rig.until(
        lambda: any(f.state.value == "open" for f in rig.coordinator.reservations), "open"
    )
    rig.server.faults.clear()


async def test_a_gang_whose_rest_may_not_go_is_made_whole_however_often_that_is_tried(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last member stays, so whoever takes the places of those who went is planned for."""

    async def short(seconds: float) -> None:
        await asyncio.sleep(0.2)  # between two tries there are pauses

    evictor = rig.coordinator.executor._evictor
    monkeypatch.setattr(evictor, "_clocks", replace(evictor._clocks, sleep=short))
    await full_cluster(rig)
    refused = rig.server.faults.plan(
        Fault(
            times=1_000_000,
            method="DELETE",
            path=f"low-1{REAL_DELETE}",
            status=403,
            reason="Forbidden",
        )
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "broken" in rig.outcomes("high"), "the refusal is told")
    for name in HIGH:
        await rig.remove(name)
    told = refused.hits
    await rig.until(lambda: refused.hits > told + 3, "it is tried again")
    await rig.pod("low-2", cls="low", group="low")
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is made")
    deadline = asyncio.get_running_loop().time() + rig.patience
    while (await rig.filter("low-2", "n0", "n1")).node_names != ["n0"]:
        assert asyncio.get_running_loop().time() < deadline, rig.messages("low")
        await asyncio.sleep(0.05)


async def test_a_gang_is_planned_while_half_a_unit_is_asked_for() -> None:
    """The half that may be gone any moment and the half that is not asked for yet are one unit."""
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1))) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        await full_cluster(rig)
        slow = held_back(rig, "DELETE", f"low-{REAL_DELETE}")
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "one half is asked for")
        await rig.gang("top", 2, "top")
        await rig.preempt("top-0")
        assert rig.outcomes("top") == ["plan"]
        let_go(slow)
        await rig.until_names(*HIGH, "top-0", "top-1")


async def test_a_gang_that_grows_while_its_eviction_waits_its_turn_is_compared_again() -> None:
    """Units are begun together and sent one by one; who joins meanwhile must not be left alone."""
    # The first eviction may be on its way for longer than the second after which FAST gives up.
    patient = replace(FAST.seats, victim_slack_seconds=30.0)
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1), seats=patient)) as rig:
        await rig.nodes(5)
        await rig.classes(low=1, high=100)
        await rig.pod("keep", cls="high", on="n4")
        for name, first in (("a", 0), ("b", 2)):
            await rig.group(name, 2, "low")
            for i in range(2):
                await rig.pod(f"{name}-{i}", cls="low", group=name, on=f"n{first + i}")
        await rig.gang("high", 4, "high")
        slow = held_back(rig, "DELETE", f"/[ab]-{REAL_DELETE}")
        await rig.preempt("high-0", n0=["a-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        units = rig.coordinator.plans.victims.unfinished()
        (other,) = [u.name[-1] for u in units if not u.phases.get(Phase.ASKED)]
        await rig.pod(f"{other}-2", cls="low", group=other, cpu="1", on="n4")
        await rig.until(
            lambda: rig.cache.pod_named("default", f"{other}-2") is not None, "it has joined"
        )
        let_go(slow)
        await rig.until(
            lambda: not any(p.name == f"{other}-0" for p in rig.cache.store.pods.by_uid.values()),
            "the unit goes",
        )
        await rig.until(
            lambda: (
                not any(
                    p.name.startswith(f"{other}-") for p in rig.cache.store.pods.by_uid.values()
                )
            ),
            "so does who joined it",
        )
