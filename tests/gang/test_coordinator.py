"""Plans in flight against a real cache, real records and a real (sandbox) API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from extender.gang.book import Flight, State
from extender.model.plan import Refusal
from extender.model.settings import EvictionSettings, SeatSettings
from extender.sandbox.faults import Fault
from tests.gang.rig import FAST, Rig

LOW = ("low-0", "low-1")
HIGH = ("high-0", "high-1")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


async def full_cluster(rig: Rig, *, grace: int = 0) -> None:
    """Two nodes held by a low gang of two; a high gang of two waits."""
    await rig.gang("low", 2, "low", on="n", grace=grace)
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "four pods")


async def test_preempt_evicts_the_gang_whole_and_members_get_their_seats(rig: Rig) -> None:
    await full_cluster(rig)
    answer = await rig.preempt("high-0", n0=["low-0"])
    assert answer.candidates == {}
    await rig.until_names(*HIGH)
    await rig.until(
        lambda: all(f.state is State.OPEN for f in rig.coordinator.book), "seats are open"
    )
    taken = {}
    for name in HIGH:
        result = await rig.filter(name, "n0", "n1")
        assert len(result.node_names) == 1
        taken[name] = result.node_names[0]
        assert len(result.failed_and_unresolvable) == 1
        await rig.bind(name, taken[name])
    assert set(taken.values()) == {"n0", "n1"}
    await rig.until(lambda: not len(rig.coordinator.book), "the plan ends")
    assert rig.outcomes("high") == ["plan", "done"]
    await rig.until(lambda: True)
    for _ in range(100):
        if not await rig.records():
            break
        await asyncio.sleep(0.02)
    assert await rig.records() == []


async def test_victims_are_marked_before_they_go_and_both_sides_hear_of_it(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    flight = next(iter(rig.coordinator.book))
    await rig.until(lambda: flight.state is State.WAITING, "evictions are sent")
    for name in LOW:
        pod = await rig.client.get(f"/api/v1/namespaces/default/pods/{name}")
        assert pod["metadata"]["deletionTimestamp"]
        condition = pod["status"]["conditions"][-1]
        assert (condition["type"], condition["reason"]) == (
            "DisruptionTarget",
            "PreemptionByScheduler",
        )
    for name in HIGH:
        pod = await rig.client.get(f"/api/v1/namespaces/default/pods/{name}")
        assert pod["status"]["nominatedNodeName"] in ("n0", "n1")
    events = (await rig.client.get("/api/v1/namespaces/default/events"))["items"]
    told = {(e["involvedObject"]["name"], e["reason"]) for e in events}
    assert {(name, "Preempted") for name in LOW} <= told
    assert {(name, "GangPreempting") for name in HIGH} <= told
    assert len(await rig.records()) == 1


async def test_until_all_room_is_free_no_member_gets_a_node(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == []
    assert set(result.failed_and_unresolvable) == {"n0", "n1"}
    assert "waits for 2 pods" in result.failed_and_unresolvable["n0"]
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.WAITING)
    await rig.remove("low-0")
    await asyncio.sleep(0.1)
    assert (await rig.filter("high-0", "n0")).node_names == []
    await rig.remove("low-1")
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.OPEN)


async def test_seats_are_held_against_pods_of_equal_or_lower_priority(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.WAITING)
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
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.WAITING)
    await rig.gang("top", 2, "top")
    await rig.preempt("top-0", n0=["low-0"])
    flight = next(iter(rig.coordinator.book))
    assert flight.key.name == "top"
    assert flight.plan.victims == ()
    assert {v.name for v in flight.plan.waits_for} == set(LOW)
    assert rig.outcomes("high") == ["plan", "gave-up"]
    for name in LOW:
        await rig.remove(name)
    await rig.until(lambda: flight.state is State.OPEN)
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    assert len((await rig.filter("top-0", "n0", "n1")).node_names) == 1


async def test_nothing_is_evicted_when_the_record_cannot_be_written(rig: Rig) -> None:
    # For as long as it is looked at: the loop tries again by itself.
    rig.server.faults.plan(Fault(times=10_000, method="POST", path="configmaps", status=500))
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    assert rig.outcomes("high")[-1] == "api"
    assert await rig.names() == {*LOW, *HIGH}
    rig.server.faults.clear()
    await asyncio.sleep(0.1)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)


async def test_a_rehearsal_that_is_refused_loses_no_pod(rig: Rig) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(
        Fault(times=1, method="DELETE", path="low-1", status=403, reason="Forbidden")
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert "nobody is evicted" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}
    assert (await rig.client.get("/api/v1/namespaces/default/pods/low-0"))["status"].get(
        "conditions", []
    ) == []


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_passing_refusals_are_tried_again(rig: Rig, status: int) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(Fault(times=3, method="DELETE", path="low-", status=status))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    assert "gave-up" not in rig.outcomes("high")


async def test_a_victim_recreated_under_its_name_is_left_alone(rig: Rig) -> None:
    """The UID precondition: the pod that has the name now is another one."""
    await full_cluster(rig)
    rig.server.faults.pause()
    asked = asyncio.create_task(rig.preempt("high-0", n0=["low-0"]))
    await asyncio.sleep(0.05)
    storage_pod = await rig_replace(rig, "low-0")
    rig.server.faults.resume()
    await asked
    await rig.until_names("low-0", *HIGH)
    pod = await rig.client.get("/api/v1/namespaces/default/pods/low-0")
    assert pod["metadata"]["uid"] == storage_pod


async def rig_replace(rig: Rig, name: str) -> str:
    """Delete and create a pod behind the paused HTTP server; return the new uid."""
    api = rig.server.api
    pods = next(known for known in rig.server.api.resources if known.plural == "pods")
    old = api.get(pods, "default", name)
    api.delete(pods, "default", name, grace=0)
    fresh = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": old["spec"]["containers"], "priorityClassName": "low"},
    }
    uid: str = api.create(pods, "default", fresh)["metadata"]["uid"]
    return uid


async def test_a_member_deleted_mid_plan_ends_it_and_seats_go_back(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.book), "the plan ends")
    assert "high-1 went away" in rig.messages("high")


async def test_seats_nobody_takes_go_back_and_the_gang_waits_before_the_next_try() -> None:
    async with Rig(replace(FAST, seats=SeatSettings(bind_seconds=0.5))) as rig:
        await rig.nodes(2)
        await rig.classes(high=100)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the deadline passes")
        assert not len(rig.coordinator.book)
        assert "did not bind within" in rig.messages("high")
        await rig.filter("high-0", "n0", "n1")
        assert rig.outcomes("high")[-1] == "penalty"


async def test_a_victim_that_does_not_die_ends_the_plan_without_a_second_set(rig: Rig) -> None:
    await full_cluster(rig, grace=1)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert "did not go away within the grace period" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}


async def test_the_planner_knows_the_cluster_before_the_first_question(rig: Rig) -> None:
    """Reading all pods takes long; a gang must not be the one to wait for it."""
    await full_cluster(rig)
    await rig.restart()
    planner = rig.coordinator._searcher.planner
    assert planner.seen == rig.cache.snapshot().generation
    await rig.remove("low-0")
    await rig.until(lambda: planner.seen == rig.cache.snapshot().generation)


async def test_restart_goes_on_where_the_cluster_stands(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.WAITING)
    before = dict(next(iter(rig.coordinator.book)).seats)
    await rig.restart()
    flight = next(iter(rig.coordinator.book))
    assert flight.seats == before
    assert flight.sent == set(flight.victims)
    for name in LOW:
        await rig.remove(name)
    await rig.until(lambda: flight.state is State.OPEN)
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == [before[rig.cached("high-0").uid]]


async def test_restart_between_two_evictions_sends_the_rest(rig: Rig) -> None:
    await full_cluster(rig)
    fault = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path="low-1(?!.*dryRun)", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.kill()
    assert fault.hits
    rig.server.faults.clear()
    await rig.start()
    await rig.until_names(*HIGH)
    assert rig.outcomes("high")[0] == "plan"


async def test_restart_after_everything_was_bound_drops_the_record(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    await rig.kill()
    await rig.bind("high-0", "n0")
    await rig.bind("high-1", "n1")
    await rig.start()
    for _ in range(100):
        if not await rig.records():
            break
        await asyncio.sleep(0.02)
    assert await rig.records() == []
    assert not len(rig.coordinator.book)


async def test_an_unreadable_record_is_left_alone_and_stops_nothing(rig: Rig) -> None:
    await rig.client.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {
            "metadata": {"name": "broken", "labels": {"podgroup-extender.io/plan": "in-flight"}},
            "data": {"plan": "{not json"},
        },
    )
    await rig.restart()
    assert rig.coordinator.recovered
    assert len(await rig.records()) == 1


async def test_a_stale_cache_refuses_gangs_and_serves_other_pods(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.pod("plain", cpu="1")
    await rig.until(lambda: rig.cache.pod_named("default", "plain") is not None)
    rig.coordinator._source = _Stale(rig)
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
        flight = next(iter(rig.coordinator.book))
        for _ in range(80):
            result = await rig.filter("high-0", *others)
            if result.node_names:
                break
            await asyncio.sleep(0.05)
        assert result.node_names
        assert result.node_names[0] != seat
        assert flight.cancelled
        assert next(iter(rig.coordinator.book)).replans == 1


async def test_members_that_cannot_have_their_own_seats_swap(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    flight = next(iter(rig.coordinator.book))
    seats = {pod.name: flight.seats[uid] for uid, pod in flight.pods.items()}
    await rig.filter("high-1", seats["high-0"])
    swapped = await rig.filter("high-0", seats["high-1"])
    assert swapped.node_names == [seats["high-1"]]


async def test_unknown_size_waits_until_no_member_is_added(rig: Rig) -> None:
    labels = {"skypilot-cluster-name": "sky"}
    await rig.pod("sky-head", labels=labels)
    first = await rig.filter("sky-head", "n0", "n1")
    assert first.node_names == []
    assert rig.outcomes("sky")[-1] == "settling"
    await rig.pod("sky-worker1", labels=labels)
    await rig.until(lambda: rig.cache.pod_named("default", "sky-worker1") is not None)
    await asyncio.sleep(0.3)
    result = await rig.filter("sky-head", "n0", "n1")
    assert len(result.node_names) == 1
    assert len(next(iter(rig.coordinator.book)).seats) == 2


async def test_evictions_of_a_single_pod_plan_take_the_gang_along(rig: Rig) -> None:
    await rig.gang("low", 2, "low", on="n")
    await rig.pod("urgent", cls="high")
    answer = await rig.preempt("urgent", n0=["low-0"], n1=["low-1"])
    assert answer.candidates == {}
    await rig.until_names("urgent")
    await rig.until(lambda: next(iter(rig.coordinator.book)).state is State.OPEN)
    assert len((await rig.filter("urgent", "n0", "n1")).node_names) == 1


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


async def test_attempts_of_the_rehearsal_are_bounded() -> None:
    settings = replace(FAST, eviction=EvictionSettings(attempts=1), seats=SeatSettings())
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        rig.server.faults.plan(Fault(times=1, method="DELETE", path="low-1", status=503))
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: "gave-up" in rig.outcomes("high"))


async def test_a_refusal_from_an_old_node_list_does_not_stay(rig: Rig) -> None:
    """The list kube-scheduler sent may be older than our snapshot, and nothing changes after."""
    await rig.gang("high", 2, "high")
    refused = await rig.filter("high-0", "n0")
    assert refused.node_names == []
    assert rig.outcomes("high")[-1] == "infeasible"
    generation = rig.cache.generation
    await asyncio.sleep(0.1)
    assert rig.cache.generation == generation
    answer = await rig.coordinator.ensure(rig.resolver_key("high-0"), "loop")
    assert isinstance(answer, Flight)


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
    refused = await rig.coordinator.ensure(rig.resolver_key("disk-0"), "loop")
    assert isinstance(refused, Refusal)
    assert refused.code == "unseen"
    await asyncio.sleep(0.05)
    await rig.preempt("disk-0", n1=["elder"])
    await rig.until_names("old", "disk-0")
    flight = next(iter(rig.coordinator.book))
    assert set(flight.seats.values()) == {"n1"}


async def test_an_eviction_on_its_way_is_used_by_whoever_takes_the_seats_over() -> None:
    """The request cannot be called back: taking another victim would be one too many."""
    settings = replace(FAST, eviction=EvictionSettings(concurrency=1))
    async with Rig(settings) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100, top=1000)
        for i in range(3):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        await rig.gang("high", 3, "high")
        slow = rig.server.faults.plan(
            Fault(times=1, method="DELETE", path="low-[0-9](?!.*dryRun)", delay=1.0)
        )
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        await rig.gang("top", 1, "top")
        await rig.preempt("top-0", n0=["low-0"])
        flight = next(iter(rig.coordinator.book))
        assert flight.key.name == "top"
        assert flight.plan.victims == ()
        await rig.until(lambda: flight.state is State.OPEN, "the room is there")
        await asyncio.sleep(0.3)
        assert len([name for name in await rig.names() if name.startswith("low")]) == 2


async def test_asking_again_and_again_while_victims_terminate_changes_nothing(rig: Rig) -> None:
    """kube-scheduler retries a member for other reasons: its seat is not refused by that."""
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    flight = next(iter(rig.coordinator.book))
    await rig.until(lambda: flight.state is State.WAITING)
    await rig.preempt("high-0", n1=["low-1"])
    assert flight.missed == {}
    assert next(iter(rig.coordinator.book)) is flight


async def test_pods_under_a_respected_budget_go_through_the_eviction_api(rig: Rig) -> None:
    await rig.pod("kept", cls="low", on="n0", labels={"app": "kept"})
    await rig.pod("spare", cls="low", on="n1", labels={"app": "spare"})
    for name, least in (("kept", 1), ("spare", 0)):
        await rig.client.create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {
                "metadata": {"name": name},
                "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
            },
        )
        await rig.client.patch(
            f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}/status",
            {"status": {"disruptionsAllowed": 1 - least}},
        )
    await rig.gang("high", 1, "high")
    await rig.until(
        lambda: sorted(b.allowed for b in rig.cache.snapshot().budgets) == [0, 1],
        "budgets are cached",
    )
    await rig.preempt("high-0", n0=["kept"])
    await rig.until_names("kept", "high-0")
    asked = [path for method, path in rig.server.requests if method in ("DELETE", "POST")]
    assert any("/pods/spare/eviction" in path for path in asked)
    assert not any(path.endswith("/pods/spare") for path in asked)
