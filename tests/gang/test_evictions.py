"""How a plan's victims go: rehearsed, marked, tried again, never a pod too many."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Plan
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings, SeatSettings
from tests.gang.rig import (
    FAST,
    HIGH,
    LOW,
    PODS,
    Rig,
    anywhere,
    full_cluster,
    half_evicted,
    held_back,
    let_go,
)


async def test_victims_are_marked_before_they_go_and_both_sides_hear_of_it(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: preemption.state is PreemptionState.WAITING, "evictions are sent")
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


async def test_a_rehearsal_that_is_refused_loses_no_pod(rig: Rig) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(
        Fault(times=1, method="DELETE", path="low-1", status=403, reason="Forbidden")
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert "no pod is evicted" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}
    assert (await rig.client.get("/api/v1/namespaces/default/pods/low-0"))["status"].get(
        "conditions", []
    ) == []


@pytest.mark.parametrize("status", [403, 500])
async def test_after_a_rehearsal_that_is_refused_others_are_tried(rig: Rig, status: int) -> None:
    """The next plan took the same pod, and the next, for ever; 500 is a webhook that is down."""
    for name in ("low-0", "low-1"):
        await rig.pod(name, cls="low", on=f"n{name[-1]}")
    await rig.gang("high", 1, "high")
    gang = rig.coordinator.resolver.resolve(rig.resolver_key("high-0"), rig.cache.snapshot())
    plan = await rig.coordinator.ask(gang, anywhere(rig))
    assert isinstance(plan, Plan)
    (first,) = plan.victims
    rig.server.faults.plan(Fault(times=10_000, method="DELETE", path=first.name, status=status))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert rig.coordinator.preconditions.shown().unevictable.keys() == {first.uid}
    answer = await rig.coordinator.ask(gang, anywhere(rig))
    assert isinstance(answer, Plan)
    assert {victim.name for victim in answer.victims} == {*LOW} - {first.name}


async def test_an_outage_of_the_api_is_no_refusal_of_a_pod(rig: Rig) -> None:
    """Nothing is said of a pod that cannot be read either."""
    await full_cluster(rig)
    for method in ("DELETE", "GET"):
        rig.server.faults.plan(Fault(times=10_000, method=method, path="pods/low-", status=503))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert not rig.coordinator.preconditions.shown().unevictable


async def test_a_conflict_is_a_pod_gone_only_when_it_is_gone(rig: Rig) -> None:
    """An admission webhook may answer 409; taken for a gone pod, half a gang was evicted."""
    await full_cluster(rig)
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path="low-1", status=409, reason="Conflict")
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert "no pod is evicted" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}


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
    await rig.until(lambda: len(rig.coordinator.reservations) > 0, "it is planned, and held")
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


async def test_a_victim_that_does_not_die_ends_the_plan_without_a_second_set(rig: Rig) -> None:
    await full_cluster(rig, grace=1)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    assert "did not go away within the grace period" in rig.messages("high")
    assert await rig.names() == {*LOW, *HIGH}


async def test_attempts_of_the_rehearsal_are_bounded() -> None:
    settings = replace(FAST, eviction=EvictionSettings(attempts=1), seats=SeatSettings())
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        rig.server.faults.plan(Fault(times=1, method="DELETE", path="low-1", status=503))
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: "gave-up" in rig.outcomes("high"))


async def test_an_eviction_on_its_way_is_used_by_whoever_takes_the_seats_over() -> None:
    """The request cannot be called back: taking another victim would be one too many."""
    settings = replace(FAST, eviction=EvictionSettings(concurrency=1))
    async with Rig(settings) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100, top=1000)
        for i in range(3):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        await rig.gang("high", 3, "high")
        slow = held_back(rig, "DELETE", "low-[0-9](?!.*dryRun)")
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        await rig.gang("top", 1, "top")
        await rig.preempt("top-0", n0=["low-0"])
        preemption = next(iter(rig.coordinator.reservations))
        assert preemption.key.name == "top"
        assert preemption.plan.victims == ()
        let_go(slow)
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the room is there")
        await rig.rounds()
        assert len([name for name in await rig.names() if name.startswith("low")]) == 2


async def test_pods_under_a_respected_budget_go_through_the_eviction_api(rig: Rig) -> None:
    await rig.pod("kept", cls="low", on="n0", labels={"app": "kept"})
    await rig.pod("spare", cls="low", on="n1", labels={"app": "spare"})
    for name in ("kept", "spare"):  # the Eviction API asks no budget about a pending pod
        await rig.client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
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
            {"status": {"disruptionsAllowed": 1 - least, "observedGeneration": 1}},
        )
    # Before the gang, or a round plans for it as if there were no budgets.
    await rig.until(
        lambda: sorted(b.allowed for b in rig.cache.snapshot().budgets) == [0, 1],
        "budgets are cached",
    )
    await rig.gang("high", 1, "high")
    await rig.preempt("high-0", n0=["kept"])
    await rig.until_names("kept", "high-0")
    asked = [path for method, path in rig.server.requests if method in ("DELETE", "POST")]
    assert any("/pods/spare/eviction" in path for path in asked)
    assert not any(path.endswith("/pods/spare") for path in asked)


async def test_a_budget_that_comes_between_two_evictions_of_a_plan_is_asked(rig: Rig) -> None:
    """Which pods budgets cover was read once, when the first pod went."""
    await half_evicted(rig)
    await rig.client.create(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {
            "metadata": {"name": "late"},
            "spec": {"minAvailable": 1, "selector": {}},
        },
    )
    # A DELETE that is under way when the budget comes is refused, as those before.
    asked = ("POST", f"{PODS}/low-1/eviction")
    await rig.until(lambda: asked in rig.server.requests, "the Eviction API is asked")
