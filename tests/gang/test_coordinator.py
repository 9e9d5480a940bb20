"""Plans under way against a real cache, real records and a real (sandbox) API."""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Refusal
from extender.sandbox.faults import Fault
from extender.settings.settings import GroupSettings, SeatSettings
from tests.gang.rig import FAST, HIGH, LOW, Rig, full_cluster


async def test_preempt_evicts_the_gang_whole_and_members_get_their_seats(rig: Rig) -> None:
    await full_cluster(rig)
    answer = await rig.preempt("high-0", n0=["low-0"])
    assert answer.candidates == {}
    await rig.until_names(*HIGH)
    await rig.until(
        lambda: all(f.state is PreemptionState.OPEN for f in rig.coordinator.reservations),
        "seats are open",
    )
    taken = {}
    for name in HIGH:
        result = await rig.filter(name, "n0", "n1")
        assert len(result.node_names) == 1
        taken[name] = result.node_names[0]
        assert len(result.failed_and_unresolvable) == 1
        await rig.bind(name, taken[name])
    assert set(taken.values()) == {"n0", "n1"}
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")
    assert rig.outcomes("high") == ["plan", "done"]
    for _ in range(100):
        if not await rig.records():
            break
        await asyncio.sleep(0.02)
    assert await rig.records() == []


async def test_until_all_room_is_free_no_member_gets_a_node(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == []
    assert set(result.failed_and_unresolvable) == {"n0", "n1"}
    assert "waits for 2 pods" in result.failed_and_unresolvable["n0"]
    await rig.until(
        lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.WAITING
    )
    await rig.remove("low-0")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "the room is there")
    await rig.rounds()
    assert (await rig.filter("high-0", "n0")).node_names == []
    await rig.remove("low-1")
    await rig.until(lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.OPEN)


async def test_seats_are_held_against_pods_of_equal_or_lower_priority(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.WAITING
    )
    await rig.remove("low-0")
    await rig.pod("thief", cls="low")
    await rig.pod("small", cls="low", cpu="1")
    await rig.pod("urgent", cls="top")
    await rig.until_names("low-1", "thief", "small", "urgent", *HIGH)
    held = await rig.filter("thief", "n0")
    assert held.node_names == []
    assert "held for pod-group:default/high" in held.failed_and_unresolvable["n0"]
    assert (await rig.filter("small", "n0")).node_names == ["n0"]
    assert (await rig.filter("urgent", "n0")).node_names == ["n0"]


async def test_two_pods_offered_one_gap_in_turn_do_not_both_take_it(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    for name in ("a", "b"):
        await rig.pod(name, cls="low", cpu="1")
    assert (await rig.filter("a", "n0")).node_names == ["n0"]
    assert (await rig.filter("b", "n0")).node_names == []


async def test_a_more_urgent_gang_takes_the_seats_over_without_new_evictions(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.WAITING
    )
    await rig.gang("top", 2, "top")
    await rig.preempt("top-0", n0=["low-0"])
    preemption = next(iter(rig.coordinator.reservations))
    assert preemption.key.name == "top"
    assert preemption.plan.victims == ()
    assert {v.name for v in preemption.plan.waits_for} == set(LOW)
    assert rig.outcomes("high") == ["plan", "gave-up"]
    for name in LOW:
        await rig.remove(name)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN)
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    assert len((await rig.filter("top-0", "n0", "n1")).node_names) == 1


async def test_nothing_is_evicted_when_the_record_cannot_be_written(rig: Rig) -> None:
    # For as long as it is looked at: the loop tries again by itself.
    rig.server.faults.plan(Fault(times=10_000, method="POST", path="configmaps", status=500))
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "api" in rig.outcomes("high"), "the plan is given up")
    assert "nothing is evicted" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}
    rig.server.faults.clear()
    for _ in range(80):
        await rig.preempt("high-0", n0=["low-0"])
        if len(rig.coordinator.reservations):
            break
        await asyncio.sleep(0.1)
    await rig.until_names(*HIGH)


async def test_a_member_deleted_mid_plan_ends_it_and_seats_go_back(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")
    assert "high-1 went away" in rig.messages("high")


async def test_seats_nobody_takes_go_back_and_the_gang_waits_before_the_next_try() -> None:
    async with Rig(replace(FAST, seats=SeatSettings(bind_seconds=0.5))) as rig:
        await rig.nodes(2)
        await rig.classes(high=100)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the deadline passes")
        assert not len(rig.coordinator.reservations)
        assert "did not bind within" in rig.messages("high")
        await rig.filter("high-0", "n0", "n1")
        assert rig.outcomes("high")[-1] == "penalty"


async def test_a_stale_cache_refuses_gangs_and_serves_other_pods(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.pod("plain", cpu="1")
    await rig.until(lambda: rig.cache.pod_named("default", "plain") is not None)
    rig.coordinator.readiness._source = _Stale(rig)
    answer = await rig.filter("high-0", "n0")
    assert "stale" in answer.error
    assert (await rig.filter("plain", "n0", "n1")).node_names == ["n0", "n1"]
    assert (await rig.preempt("high-0", n0=["low-0"])).candidates == {}
    assert await rig.names() == {*LOW, *HIGH, "plain"}


class _Stale:
    """The rig's cache with a watch that has been down for a minute."""

    def __init__(self, rig: Rig) -> None:
        self.synced = True
        self.generation = rig.cache.generation
        self.snapshot = rig.cache.snapshot

    def stale_for(self) -> float:
        return 60.0


async def test_a_seat_kube_scheduler_will_not_offer_is_changed() -> None:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(high=100)
        await rig.gang("high", 2, "high")
        first = await rig.filter("high-0", "n0", "n1", "n2")
        seat = first.node_names[0]
        others = tuple({"n0", "n1", "n2"} - {seat})
        preemption = next(iter(rig.coordinator.reservations))
        for _ in range(80):
            result = await rig.filter("high-0", *others)
            if result.node_names:
                break
            await asyncio.sleep(0.05)
        assert result.node_names
        assert result.node_names[0] != seat
        assert preemption.over
        assert next(iter(rig.coordinator.reservations)).replans == 1


async def test_members_that_cannot_have_their_own_seats_swap(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    preemption = next(iter(rig.coordinator.reservations))
    seats = {pod.name: preemption.seats[uid] for uid, pod in preemption.pods.items()}
    await rig.filter("high-1", seats["high-0"])
    swapped = await rig.filter("high-0", seats["high-1"])
    assert swapped.node_names == [seats["high-1"]]


async def test_unknown_size_waits_until_no_member_is_added() -> None:
    labels = {"skypilot-cluster-name": "sky"}
    async with Rig(replace(FAST, groups=GroupSettings(settle_seconds=3.0))) as rig:
        await rig.nodes(2)
        await rig.pod("sky-head", labels=labels)
        first = await rig.filter("sky-head", "n0", "n1")
        assert first.node_names == []
        assert rig.outcomes("sky")[-1] == "settling"
        await rig.pod("sky-worker1", labels=labels)
        await rig.until(lambda: rig.cache.pod_named("default", "sky-worker1") is not None)
        deadline = time.monotonic() + 60
        while len((await rig.filter("sky-head", "n0", "n1")).node_names) != 1:
            assert time.monotonic() < deadline, "it settles"
            await asyncio.sleep(0.05)
        assert len(next(iter(rig.coordinator.reservations)).seats) == 2


async def test_evictions_of_a_single_pod_plan_take_the_gang_along(rig: Rig) -> None:
    await rig.gang("low", 2, "low", on="n")
    await rig.pod("urgent", cls="high")
    answer = await rig.preempt("urgent", n0=["low-0"], n1=["low-1"])
    assert answer.candidates == {}
    await rig.until_names("urgent")
    await rig.until(lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.OPEN)
    assert len((await rig.filter("urgent", "n0", "n1")).node_names) == 1


async def test_a_pod_of_no_gang_is_tried_again_when_its_plan_is_taken_over(rig: Rig) -> None:
    """Nothing else makes kube-scheduler try it before its flush of five minutes."""
    # Of long grace: the second plan is asked for while the victims of the first are leaving.
    await rig.gang("low", 2, "low", on="n", grace=60)
    await rig.pod("urgent", cls="high")
    await rig.preempt("urgent", n0=["low-0"], n1=["low-1"])
    await rig.gang("first", 2, "top")
    written = rig.server.faults.plan(Fault(times=100, method="PATCH", path="pods/urgent/status"))
    await rig.preempt("first-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("urgent"), "its seat is taken over")
    await rig.until(lambda: written.hits >= 1, "its nomination ends")
    await rig.until(lambda: not rig.cached("urgent").nominated)


async def test_a_single_pod_avoids_the_gang_for_a_cheaper_node() -> None:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        await rig.pod("alone", cls="low", on="n2")
        await rig.pod("urgent", cls="high")
        answer = await rig.preempt("urgent", n0=["low-0"], n1=["low-1"], n2=["alone"])
        assert list(answer.candidates) == ["n2"]
        assert await rig.names() == {"low-0", "low-1", "alone", "urgent"}


async def test_candidates_without_gangs_are_echoed_and_unknown_ones_dropped(rig: Rig) -> None:
    await rig.pod("a", cls="low", on="n0")
    await rig.pod("urgent", cls="high")
    await rig.until(lambda: rig.cache.pod_named("default", "urgent") is not None)
    answer = await rig.preempt("urgent", n0=["a"], n1=[])
    assert list(answer.candidates) == ["n0"]


async def test_a_refusal_from_an_old_node_list_does_not_stay(rig: Rig) -> None:
    """The list kube-scheduler sent may be older than our snapshot, and nothing changes after."""
    await rig.gang("high", 2, "high")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    refused = await rig.filter("high-0", "n0")
    assert refused.node_names == []
    assert rig.outcomes("high")[-1] == "infeasible"
    generation = rig.cache.generation
    key = rig.resolver_key("high-0")
    # It stands for ten times as long as it took to find, whatever that was.
    for _ in range(100):
        await asyncio.sleep(0.05)
        answer = await rig.coordinator.ensure(key, Verb.LOOP)
        if isinstance(answer, Preemption):
            break
    assert isinstance(answer, Preemption)
    assert rig.cache.generation == generation


async def test_members_with_volumes_only_use_nodes_that_kube_scheduler_named(rig: Rig) -> None:
    await rig.group("disk", 1, "high")
    await rig.pod("old", cls="low", on="n0")
    await rig.pod("elder", cls="low", on="n1")
    await rig.client.create(
        "/api/v1/namespaces/default/pods",
        {
            "metadata": {"name": "disk-0"},
            "spec": {
                "schedulingGroup": {"podGroupName": "disk"},
                "priorityClassName": "high",
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
                ],
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
            },
        },
    )
    await rig.until(lambda: rig.cache.pod_named("default", "disk-0") is not None)
    refused = await rig.coordinator.ensure(rig.resolver_key("disk-0"), Verb.LOOP)
    assert isinstance(refused, Refusal)
    assert refused.code == "unseen"
    for _ in range(100):  # the refusal stands for a moment
        await rig.preempt("disk-0", n1=["elder"])
        if len(rig.coordinator.reservations):
            break
        await asyncio.sleep(0.05)
    await rig.until_names("old", "disk-0")
    preemption = next(iter(rig.coordinator.reservations))
    assert set(preemption.seats.values()) == {"n1"}


async def test_asking_again_and_again_while_victims_terminate_changes_nothing(rig: Rig) -> None:
    """kube-scheduler retries a member for other reasons: its seat is not refused by that."""
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: preemption.state is PreemptionState.WAITING)
    await rig.preempt("high-0", n1=["low-1"])
    assert preemption.missed == {}
    assert next(iter(rig.coordinator.reservations)) is preemption
