"""Nothing is left half done: whatever ends a plan, at whatever moment.

Each test plays one case in which a written promise was once found broken. kube-scheduler's
part is played by asking the verbs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from extender.gang.act import evictions
from extender.gang.act.book import State
from extender.gang.act.unit import Fate, Unit
from extender.gang.tell.decisions import Verb
from extender.model.plan import Refusal
from extender.model.settings import EvictionSettings, SeatSettings
from extender.sandbox.faults import Fault
from tests.gang.rig import (
    FAST,
    HIGH,
    LOW,
    PODS,
    Rig,
    full_cluster,
    held_back,
    let_go,
    low_pods,
)

REAL_DELETE = r"(?!.*dryRun)"
"""The sandbox sees ?dryRun=All in the path of a rehearsal."""
QUICK = replace(
    FAST,
    eviction=EvictionSettings(attempts=2),
    seats=SeatSettings(bind_seconds=30.0, victim_slack_seconds=0.5),
)


@pytest.fixture
async def wide() -> AsyncIterator[Rig]:
    """Four nodes, and settings that give up soon."""
    async with Rig(QUICK) as rig:
        await rig.nodes(4)
        await rig.classes(low=1, mid=20, high=100, top=1000)
        yield rig


async def cordon(rig: Rig, node: str) -> None:
    await rig.client.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    await rig.until(lambda: rig.cache.snapshot().nodes[node].unschedulable, "the cordon is seen")


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


async def until_no_records(rig: Rig) -> None:
    deadline = time.monotonic() + 60
    while await rig.records():
        assert time.monotonic() < deadline, "a plan record stays"
        await asyncio.sleep(0.02)


async def test_a_failed_eviction_of_a_more_urgent_plan_makes_nobody_a_victim(wide: Rig) -> None:
    """Priority 20 never evicts priority 100, although somebody at 1000 once asked for it."""
    rig = wide
    for i in range(4):
        await rig.pod(f"busy-{i}", cls="high", on=f"n{i}")
    await rig.gang("top", 4, "top")
    slow = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"busy-{REAL_DELETE}", status=503)
    )
    await rig.preempt("top-0", n0=["busy-0"])
    await rig.until(lambda: slow.hits >= 4, "real evictions are asked for")
    await rig.remove("top-0")
    await rig.until(lambda: not len(rig.coordinator.book), "the urgent plan ends")
    units = rig.coordinator.flights.evictions.unfinished
    await rig.until(
        lambda: all(Fate.ASKED not in unit.fates.values() for unit in units()),
        "no request of it is under way",
    )
    rig.server.faults.clear()
    await rig.gang("mid", 2, "mid")
    for _ in range(2):
        await rig.preempt("mid-0", n0=["busy-0"])
        await rig.rounds()
    assert {f"busy-{i}" for i in range(4)} <= await rig.names()


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
    assert not rig.coordinator.flights.evictions.unfinished()


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
        rig.coordinator.resolver.resolve(rig.resolver_key("high-0"), rig.cache.snapshot()), {}
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
    assert rig.coordinator.flights.evictions.broken()
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
    await rig.until(lambda: any(f.state.value == "open" for f in rig.coordinator.book), "open")
    rig.server.faults.clear()


async def test_a_recorded_plan_that_does_not_fit_any_more_evicts_nobody(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evictions, "WATCH_SECONDS", 0.5)  # else a minute, as its record
    await full_cluster(rig)
    asked = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-{REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: asked.hits > 0, "evictions are asked for")
    await rig.kill()
    await rig.client.patch("/api/v1/nodes/n0", {"spec": {"unschedulable": True}})
    rig.server.faults.clear()
    await rig.start()
    await rig.rounds(10)
    assert await rig.names() == {*LOW, *HIGH}
    await until_no_records(rig)


async def test_a_record_written_with_a_lost_answer_is_one_plan_not_two(rig: Rig) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(Fault(times=1, method="POST", path="configmaps", drop="after"))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    assert len(await rig.records()) == 1
    assert rig.outcomes("high") == ["plan"]


async def test_a_record_nobody_could_read_back_comes_to_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The POST was done, the answer and every reading lost: "nothing is evicted" stays true."""
    monkeypatch.setattr(evictions, "WATCH_SECONDS", 0.5)  # else a minute, as its record
    await full_cluster(rig)
    rig.server.faults.plan(Fault(times=1, method="POST", path="configmaps", drop="after"))
    lost = rig.server.faults.plan(Fault(times=10_000, path="configmaps", status=500))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "api" in rig.outcomes("high"), "the plan is given up")
    for name in HIGH:
        await rig.remove(name)
    await rig.until_names(*LOW)
    assert lost.hits
    rig.server.faults.clear()
    await rig.restart()
    await rig.rounds()
    assert await rig.names() == set(LOW)
    await until_no_records(rig)


async def _while_searching(rig: Rig, happens: str) -> None:
    """Let a pod go while the search is under way, and the cache learn of it."""
    thread = rig.coordinator._planner_thread
    search = thread.plan
    done: list[str] = []

    async def plan(*args: object, **more: object) -> object:
        answer = await search(*args, **more)  # type: ignore[arg-type]
        if not done:
            done.append(happens)
            await rig.remove(happens)
            await rig.until(lambda: rig.cache.pod_named("default", happens) is None)
        return answer

    thread.plan = plan  # type: ignore[method-assign, assignment]


async def test_nobody_goes_for_a_gang_that_became_incomplete_during_the_search(rig: Rig) -> None:
    await full_cluster(rig)
    await _while_searching(rig, "high-1")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.rounds()
    assert await rig.names() == {*LOW, "high-0"}
    assert not len(rig.coordinator.book)


async def test_a_victim_that_left_during_the_search_is_not_waited_for(rig: Rig) -> None:
    await full_cluster(rig)
    await _while_searching(rig, "low-0")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: any(f.state.value == "open" for f in rig.coordinator.book), "open")


async def test_a_pod_waited_for_that_left_during_the_search_is_not_waited_for(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    for name in LOW:
        await rig.client.delete(f"{PODS}/{name}")
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "both terminate")
    await _while_searching(rig, "low-0")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: len(rig.coordinator.book) == 1, "there is a plan")
    await rig.remove("low-1")
    await rig.until(lambda: any(f.state.value == "open" for f in rig.coordinator.book), "open")


async def test_seats_of_a_gang_that_is_being_seated_are_not_taken_over(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    assert len(first.node_names) == 1
    await rig.gang("top", 2, "top")
    await rig.filter("top-0", "n0", "n1")
    await rig.preempt("top-0")
    assert [flight.key.name for flight in rig.coordinator.book] == ["high"]
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "the first member sits")
    await rig.rounds()
    await rig.preempt("top-0")
    assert [flight.key.name for flight in rig.coordinator.book] == ["high"]
    second = await rig.filter("high-1", *({"n0", "n1"} - set(first.node_names)))
    await rig.bind("high-1", second.node_names[0])
    await rig.until(lambda: not len(rig.coordinator.book), "the first gang sits")
    for _ in range(60):  # now it goes whole
        await rig.preempt("top-0")
        if await rig.names() == {"top-0", "top-1"}:
            break
        await asyncio.sleep(0.1)
    assert await rig.names() == {"top-0", "top-1"}


@pytest.mark.parametrize("delete", [False, True])
async def test_seats_do_not_open_on_a_node_that_was_closed_meanwhile(
    rig: Rig, *, delete: bool
) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "victims terminate")
    if delete:
        await rig.client.delete("/api/v1/nodes/n1")
        await rig.until(lambda: "n1" not in rig.cache.snapshot().nodes, "the node is gone")
    else:
        await cordon(rig, "n1")
    for name in LOW:
        await rig.remove(name)
    await rig.rounds()
    for name in HIGH:
        assert (await rig.filter(name, "n0")).node_names == []
    assert all(flight.state.value != "open" for flight in rig.coordinator.book)


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


async def test_the_slow_end_of_one_plans_record_leaves_the_next_plans_alone(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    slow = held_back(rig, "DELETE", "configmaps")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "victims terminate")
    await rig.remove("high-1")
    await rig.until(lambda: slow.hits == 1, "the first record is being deleted")
    await rig.pod("high-1", cls="high", group="high")
    for _ in range(50):
        await rig.preempt("high-0", n0=["low-0"])
        if len(rig.coordinator.book):
            break
        await asyncio.sleep(0.05)
    flight = next(iter(rig.coordinator.book))
    let_go(slow)
    await rig.rounds()
    assert await rig.records()
    assert not flight.over
    await rig.kill()
    await rig.start()
    assert len(rig.coordinator.book) == 1


async def test_deadlines_do_not_wait_for_a_search() -> None:
    settings = replace(FAST, seats=SeatSettings(bind_seconds=2.0))
    async with Rig(settings) as rig:
        await rig.nodes(4)
        await rig.classes(high=100)
        await rig.gang("held", 2, "high")
        await rig.filter("held-0", "n0", "n1", "n2", "n3")
        assert len(rig.coordinator.book) == 1
        planner = rig.coordinator._planner_thread.planner
        search = planner.plan
        searching, seats_back = threading.Event(), threading.Event()

        def plan(*args: object, **more: object) -> object:
            searching.set()
            seats_back.wait(60)
            return search(*args, **more)  # type: ignore[arg-type]

        planner.plan = plan  # type: ignore[method-assign, assignment]
        await rig.gang("other", 2, "high")
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        # The loop itself plans what kube-scheduler has tried in vain.
        await rig.client.patch(f"{PODS}/other-0/status", {"status": {"conditions": [tried]}})
        await rig.until(searching.is_set, "the other gang is searched for")
        try:
            await rig.until(lambda: "gave-up" in rig.outcomes("held"), "the seats go back")
        finally:
            seats_back.set()


async def test_a_hanging_record_keeps_nobody_else_waiting(wide: Rig) -> None:
    rig = wide
    await rig.gang("slow", 2, "high")
    await rig.gang("quick", 2, "high")
    hung = held_back(rig, "POST", "configmaps")
    first = asyncio.create_task(rig.filter("slow-0", "n0", "n1", "n2", "n3"))
    await rig.until(lambda: hung.hits == 1, "the first record hangs")
    answer = await rig.filter("quick-0", "n0", "n1", "n2", "n3")
    assert len(answer.node_names) == 1
    assert not first.done()
    let_go(hung)
    await first


async def test_a_protected_pod_is_spared_at_the_last_moment(rig: Rig) -> None:
    """Protection that came after the plan counts: each eviction is checked on present objects."""
    await full_cluster(rig)
    mark = held_back(rig, "PATCH", "low-./status", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "the victims are being marked")
    before = {name: rig.cached(name) for name in LOW}
    for name in LOW:
        await rig.client.patch(
            f"{PODS}/{name}",
            {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}},
        )
    await rig.until(lambda: all(rig.cached(name) != before[name] for name in LOW), "protected")
    let_go(mark)
    await rig.until(lambda: not len(rig.coordinator.book), "the plan is over")
    await rig.rounds()
    assert await rig.names() == {*LOW, *HIGH}
    assert not len(rig.coordinator.book)


async def test_nominations_are_cleared_even_when_that_fails_at_first(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "nominated")
    rig.server.faults.plan(Fault(times=3, method="PATCH", path="high-0/status", status=503))
    await rig.remove("high-1")
    await rig.until(lambda: not rig.cached("high-0").nominated, "the nomination is cleared")


async def test_nominations_left_by_a_life_before_are_cleared(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "nominated")
    await rig.kill()
    await rig.remove("high-1")
    await rig.start()
    await rig.until(lambda: not rig.cached("high-0").nominated, "the nomination is cleared")


async def test_a_node_that_closes_between_record_and_eviction_spares_the_victims(rig: Rig) -> None:
    await full_cluster(rig)
    mark = held_back(rig, "PATCH", "low-./status", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "the victims are being marked")
    await cordon(rig, "n1")
    let_go(mark)
    await rig.rounds()
    assert await rig.names() == {*LOW, *HIGH}


async def test_a_single_pod_does_not_evict_who_is_just_being_seated(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "one member sits")
    await rig.pod("urgent", cls="top")
    answer = await rig.preempt("urgent", **{first.node_names[0]: ["high-0"]})
    assert answer.candidates == {}


async def test_a_gang_that_loses_a_seated_member_is_not_seated_in_part(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "one member sits")
    await rig.remove("high-0")
    await rig.until(lambda: not len(rig.coordinator.book), "the plan is over")
    left = ({"n0", "n1"} - set(first.node_names)).pop()
    assert (await rig.filter("high-1", left)).node_names == []


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
        units = rig.coordinator.flights.evictions.unfinished()
        (other,) = [u.name[-1] for u in units if "asked" not in {f.value for f in u.fates.values()}]
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


async def test_a_plan_that_is_being_changed_evicts_nobody_when_its_rehearsal_ends(
    rig: Rig,
) -> None:
    await full_cluster(rig)
    slow = held_back(rig, "DELETE", "dryRun", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    flight = next(iter(rig.coordinator.book))
    await rig.until(lambda: slow.hits > 0, "it is rehearsed")
    rig.coordinator.flights.change(flight)
    let_go(slow)
    await rig.rounds()
    assert flight.state is State.CHANGING
    assert set(LOW) <= await rig.names()


async def test_a_victim_that_goes_by_itself_is_not_asked_to_go_sooner() -> None:
    """Its owner's longer grace period was cut short while our request waited its turn."""
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1))) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        for i in range(3):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=30)
        await rig.gang("high", 3, "high")
        slow = held_back(rig, "DELETE", f"low-{REAL_DELETE}")
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        evictions = rig.coordinator.flights.evictions
        later, _ = [u.name for u in evictions.unfinished() if "waiting" in fates_of(u)]
        name = next(p.name for p in rig.cache.store.pods.by_uid.values() if p.uid == later)
        await rig.client.delete(f"{PODS}/{name}", grace=60)
        await rig.until(lambda: rig.cached(name).deleting > 0, "it goes by itself")
        counted = rig.server.faults.plan(
            Fault(times=10, method="DELETE", path=f"{name}{REAL_DELETE}", delay=0.01)
        )
        let_go(slow)
        await rig.rounds()
        assert counted.hits == 0


async def test_a_request_whose_fate_cannot_be_read_back_is_not_forgotten(rig: Rig) -> None:
    """Neither answer nor reading back: until it is known, nobody is evicted in its place."""
    await full_cluster(rig)
    uid = rig.cached("low-1").uid
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-{REAL_DELETE}", status=500)
    )
    unread = rig.server.faults.plan(
        Fault(times=10_000, method="GET", path="pods/low-1$", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: unread.hits > 0, "the pod cannot be read")
    evictions = rig.coordinator.flights.evictions
    seen = unread.hits

    def still_unread() -> bool:
        assert uid in evictions.expected()
        return unread.hits > seen + 3

    await rig.until(still_unread, "it is read back again and again")
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.book), "the plan is over")
    await rig.rounds()  # what was on its way when the plan ended has its answer
    assert uid in evictions.expected()
    rig.server.faults.clear()
    await rig.until(lambda: uid not in evictions.expected(), "it is seen unharmed")
    assert await rig.names() == {*LOW, "high-0"}


async def test_nothing_is_planned_on_a_cache_that_went_stale_in_the_queue(rig: Rig) -> None:
    """A search waits its turn for seconds; what it begins with must be fresh then."""
    await full_cluster(rig)
    turns = rig.coordinator._turns
    async with turns.lock.turn(None):
        asked = asyncio.create_task(rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP))
        await rig.until(lambda: bool(turns.lock.waiters()), "it waits for its turn")
        rig.cache.stale_for = lambda: 60.0  # type: ignore[method-assign]
    answer = await asked
    assert isinstance(answer, Refusal)
    assert answer.code == "stale"
    assert not len(rig.coordinator.book)


async def test_no_plan_is_changed_on_a_cache_that_went_stale_in_the_queue(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    flight = next(iter(rig.coordinator.book))
    await rig.until(lambda: flight.state is State.WAITING, "evictions are sent")
    searches: list[bool] = []
    thread, fresh = rig.coordinator._planner_thread, rig.cache.stale_for
    search = thread.plan

    async def plan(*args: object, **more: object) -> object:
        searches.append(rig.coordinator.stale() is None)
        return await search(*args, **more)  # type: ignore[arg-type]

    thread.plan = plan  # type: ignore[method-assign, assignment]
    lock = rig.coordinator._turns.lock
    async with lock.turn(None):
        rig.coordinator._replan(flight, "for a test")
        await rig.until(lambda: bool(lock._urgent), "it waits for its turn")
        rig.cache.stale_for = lambda: 60.0  # type: ignore[method-assign]
    await rig.rounds()
    assert searches == []
    assert flight.state is State.CHANGING
    rig.cache.stale_for = fresh  # type: ignore[method-assign]
    await rig.until(lambda: flight.over, "another plan takes its place")
    assert searches == [True]


def fates_of(unit: Unit) -> set[str]:
    return {fate.value for fate in unit.fates.values()}
