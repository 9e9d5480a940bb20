"""Disruption budgets are read once the record is written: the gang goes whole, or stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.plan.validity import over_budget
from extender.model.objects import DisruptionBudget, LabelSelector, Requirement
from extender.sandbox.faults import Fault
from tests.gang.rig import PODS, Rig, held_back, let_go
from tests.gang.world import pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SELECTED = Requirement("app", "In", ("x",))
READ = f"{BUDGETS}\\?fieldSelector"


async def running(rig: Rig, name: str, first: int) -> None:
    """A gang of two pods that run on two nodes, with label app=x."""
    await rig.group(name, 2, "low")
    for i in range(2):
        pod = f"{name}-{i}"
        await rig.pod(pod, cls="low", group=name, on=f"n{first + i}", labels={"app": "x"})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {"phase": "Running", "conditions": ready}}
        await rig.client.patch(f"{PODS}/{pod}/status", status)
    await rig.until(
        lambda: all(rig.cached(f"{name}-{i}").phase == "Running" for i in range(2)), "they run"
    )


async def budget(rig: Rig, name: str, allowed: int, **labels: str) -> None:
    spec = {"maxUnavailable": 2, "selector": {"matchLabels": labels}}
    await rig.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    await allows(rig, name, allowed)
    shown = rig.cache.snapshot
    await rig.until(
        lambda: any(b.name == name and b.allowed == allowed for b in shown().budgets), name
    )


async def allows(rig: Rig, name: str, allowed: int) -> None:
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def planned(rig: Rig) -> Fault:
    """Plan to evict low for high; the record is held back."""
    await running(rig, "low", 0)
    await budget(rig, "b", 2, app="x")
    record = held_back(rig, "POST", "configmaps")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: record.hits > 0, "the record is on its way")
    return record


async def refused(rig: Rig, record: Fault, told: str) -> None:
    """Once the record is written, the plan ends and no pod is evicted."""
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()
    assert told in rig.messages("high")


async def test_a_budget_that_shrinks_before_the_first_eviction_keeps_the_gang(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.stall()  # the cache does not see it
    await allows(rig, "b", 1)
    await refused(rig, record, "PodDisruptionBudget default/b allows 1 eviction now")


async def test_a_budget_whose_new_spec_is_not_counted_yet_allows_nothing(rig: Rig) -> None:
    record = await planned(rig)
    status = {"disruptionsAllowed": 2, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 1}})
    await refused(rig, record, "PodDisruptionBudget default/b allows 0 evictions now")


async def test_a_second_budget_that_comes_before_the_first_eviction_keeps_the_gang(
    rig: Rig,
) -> None:
    record = await planned(rig)
    await rig.client.patch(f"{PODS}/low-1", {"metadata": {"labels": {"second": "yes"}}})
    await budget(rig, "b2", 2, second="yes")
    await rig.until(lambda: rig.cached("low-1").labels.get("second") == "yes", "its label")
    await refused(rig, record, "'b' and 'b2' select it")


async def test_a_budget_is_read_again_before_it_refuses(rig: Rig) -> None:
    """Its spec is changed, and its controller counts a moment later."""
    record = await planned(rig)
    status = {"disruptionsAllowed": 2, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 3}})
    reads = held_back(rig, "GET", READ)
    let_go(reads)
    let_go(record)
    await rig.until(lambda: reads.hits > 0, "it is read")
    status = {"disruptionsAllowed": 3, "observedGeneration": 2}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.until_names("high-0", "high-1")


async def test_budgets_that_speak_for_no_victim_are_not_read(rig: Rig) -> None:
    await running(rig, "low", 0)
    await budget(rig, "b", 2, app="another")
    reads = rig.server.faults.plan(Fault(100, "GET", READ, status=403, reason="Forbidden"))
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until_names("high-0", "high-1")
    assert not reads.hits


async def test_requests_of_a_plan_that_has_ended_take_of_a_budget(wide: Rig) -> None:
    """3 evictions are allowed, and 2 are under way: a second gang of 2 stays."""
    rig = wide
    for number, name in enumerate(("lowx", "lowy")):
        await running(rig, name, 2 * number)
    await budget(rig, "b", 3, app="x")
    held = held_back(rig, "POST", r"lowx-[01]/eviction(?!.*dryRun)", times=2)
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["lowx-0"], n1=["lowx-1"])
    await rig.until(lambda: held.hits > 1, "the evictions are under way")
    for i in range(2):
        await rig.remove(f"high-{i}")
    plans = rig.coordinator.executor.plans
    await rig.until(lambda: not len(plans.reservations), "the plan ends")
    reads = rig.server.faults.plan(Fault(100, "GET", READ))
    await rig.gang("top", 4, "top")
    offered = {f"n{2 * n + i}": [f"low{x}-{i}"] for n, x in enumerate("xy") for i in range(2)}
    await rig.preempt("top-0", **offered)
    await rig.until(lambda: reads.hits > 1, "the budget is read, and again")
    assert {"lowy-0", "lowy-1"} <= await rig.names()
    let_go(held)
    await rig.until(lambda: "gave-up" in rig.outcomes("top"), "the plan ends")
    assert {"lowy-0", "lowy-1"} <= await rig.names()


async def test_a_pod_that_its_budget_keeps_is_in_no_other_plans_way(wide: Rig) -> None:
    """The rest of a gang that went in part waits for its own budget; others need none of it."""
    rig = wide
    await running(rig, "low", 0)
    await budget(rig, "c", 2, app="x")
    for i in (2, 3):
        # No victim for high, which searches again.
        await rig.pod(f"solo-{i}", cls="high", on=f"n{i}", labels={"app": "solo"})
    await budget(rig, "s", 2, app="solo")
    held = held_back(rig, "POST", r"low-1/eviction(?!.*dryRun)")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: held.hits > 0, "the eviction is under way")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 goes")
    await allows(rig, "c", 0)
    let_go(held)
    broken = ("gave-up", "broken")
    await rig.until(lambda: any(b in rig.outcomes("high") for b in broken), "low-1 is refused")
    await rig.gang("two", 2, "top")
    async with asyncio.timeout(rig.patience):
        while {"solo-2", "solo-3"} <= await rig.names():
            there = [rig.cache.pod_named("default", f"solo-{i}") is not None for i in (2, 3)]
            if all(there):  # else they have just gone
                await rig.preempt("two-0", n2=["solo-2"], n3=["solo-3"])
            await asyncio.sleep(0.1)


async def test_pods_whose_budget_says_no_at_each_read_are_left_for_others(rig: Rig) -> None:
    """A tenant's budget allows evictions but for the moment in which it is read."""
    await rig.nodes(1, first=2)
    await rig.classes(mid=50)
    for i in range(2):
        await rig.pod(f"bait-{i}", cls="low", on=f"n{i}", labels={"app": "x"})
    await rig.pod("other", cls="mid", on="n2")
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("other", *(f"bait-{i}" for i in range(2))):
        status = {"status": {"phase": "Running", "conditions": ready}}
        await rig.client.patch(f"{PODS}/{name}/status", status)
    pods = rig.cache.store.pods.by_uid
    await rig.until(lambda: [p.phase for p in pods.values()] == ["Running"] * 3, "they run")
    await budget(rig, "b", 2, app="x")
    get = rig.own.get

    async def zero(path: str, **named: Any) -> Any:
        if path != BUDGETS:
            return await get(path, **named)
        await allows(rig, "b", 0)
        answer = await get(path, **named)
        await allows(rig, "b", 2)
        return answer

    rig.own.get = zero  # type: ignore[method-assign]
    await rig.gang("high", 1, "high")
    offered = {f"n{i}": [f"bait-{i}"] for i in range(2)} | {"n2": ["other"]}
    async with asyncio.timeout(rig.patience):
        while "other" in await rig.names():
            if rig.cache.pod_named("default", "other") is not None:  # else it has just gone
                await rig.preempt("high-0", **offered)
            await asyncio.sleep(0.5)


async def test_nothing_is_evicted_while_budgets_cannot_be_read(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.plan(Fault(100, "GET", READ, status=403, reason="Forbidden"))
    let_go(record)
    told = "disruption budgets cannot be read, so nothing is evicted"
    await rig.until(lambda: told in rig.messages("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()


@pytest.mark.parametrize(
    ("allowed", "policy", "state", "refused"),
    [
        (2, "", {}, []),
        (1, "", {}, ["p1"]),
        (0, "", {}, ["p0", "p1"]),
        (0, "", {"phase": "Pending"}, []),
        (0, "", {"phase": "Succeeded"}, []),
        (0, "AlwaysAllow", {"unready": True}, []),
        (0, "", {"unready": True}, ["p0", "p1"]),
        (0, "", {"labels": {"app": "y"}}, []),
        (0, "", {"namespace": "other"}, []),
    ],
)
def test_what_a_budget_allows(
    allowed: int, policy: str, state: dict[str, object], refused: list[str]
) -> None:
    """As ``checkAndDecrement`` counts: neither what has ended nor what may go unready."""
    of: dict[str, object] = {"phase": "Running", "labels": {"app": "x"}, **state}
    pods = [replace(pod(f"p{i}", on="n0"), **of) for i in range(2)]
    selector = LabelSelector((SELECTED,))
    one = DisruptionBudget("u", "default", "b", selector, allowed, unready_free=bool(policy))
    assert list(over_budget(pods, [one])) == [f"uid-{name}" for name in refused]


def test_what_goes_first_takes_of_a_budget_and_refuses_nothing() -> None:
    own, other = (
        [replace(pod(name, on="n0", labels={"app": "x"}), phase="Running") for name in names]
        for names in (("p0", "p1"), ("q0", "q1"))
    )
    one = DisruptionBudget("u", "default", "b", LabelSelector((SELECTED,)), 3)
    assert not over_budget(own, [one])
    assert list(over_budget(own, [one], other)) == ["uid-p1"]
    none = replace(one, namespace="default", name="c", allowed=0)
    stuck = [replace(each, labels={"app": "y"}) for each in other]
    theirs = replace(none, selector=LabelSelector((Requirement("app", "In", ("y",)),)))
    assert not over_budget(own, [one, theirs], stuck)
    assert list(over_budget(own, [one, none])) == ["uid-p0", "uid-p1"]
