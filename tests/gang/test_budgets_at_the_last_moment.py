"""Disruption budgets are read once the record is written: the gang goes whole, or stays."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan.validity import over_budget
from extender.model.objects import DisruptionBudget, LabelSelector, Requirement
from extender.sandbox.faults import Fault
from tests.gang.rig import PODS, Rig, held_back, let_go
from tests.gang.world import pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


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
    await rig.client.patch(f"{BUDGETS}/{name}/status", {"status": {"disruptionsAllowed": allowed}})


async def planned(rig: Rig) -> Fault:
    """Plan to evict low for high; the record is held back."""
    await running(rig, "low", 0)
    await budget(rig, "b", 2, app="x")
    record = held_back(rig, "POST", "configmaps")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: record.hits > 0, "the record is on its way")
    return record


async def test_a_budget_that_shrinks_before_the_first_eviction_keeps_the_gang(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.stall()  # the cache does not see it
    await allows(rig, "b", 1)
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()
    assert "PodDisruptionBudget default/b allows 1 eviction now" in rig.messages("high")


async def test_a_budget_whose_new_spec_is_not_counted_yet_allows_nothing(rig: Rig) -> None:
    record = await planned(rig)
    status = {"disruptionsAllowed": 2, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 1}})
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()
    assert "PodDisruptionBudget default/b allows 0 evictions now" in rig.messages("high")


async def test_a_second_budget_that_comes_before_the_first_eviction_keeps_the_gang(
    rig: Rig,
) -> None:
    record = await planned(rig)
    await rig.client.patch(f"{PODS}/low-1", {"metadata": {"labels": {"second": "yes"}}})
    await budget(rig, "b2", 2, second="yes")
    await rig.until(lambda: rig.cached("low-1").labels.get("second") == "yes", "its label")
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()
    assert "b, b2 select it" in rig.messages("high").replace("'", "")


async def test_a_budget_that_the_cache_does_not_show_yet_is_waited_for(rig: Rig) -> None:
    """Its pods would be deleted, past the Eviction API."""
    await running(rig, "low", 0)
    record = held_back(rig, "POST", "configmaps")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: record.hits > 0, "the record is on its way")
    rig.server.faults.stall()
    spec = {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "x"}}}
    await rig.client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    await allows(rig, "b", 2)
    reads = held_back(rig, "GET", f"{BUDGETS}$", times=2)
    let_go(reads)
    evictions = held_back(rig, "POST", "eviction")
    let_go(evictions)
    deletions = held_back(rig, "DELETE", "pods/low", times=2)
    let_go(record)
    await rig.until(lambda: reads.hits == 2, "the budgets are read again")
    assert not deletions.hits
    assert {"low-0", "low-1"} <= await rig.names()
    rig.server.faults.flow()
    await rig.until_names("high-0", "high-1")
    assert evictions.hits
    assert not deletions.hits


async def test_nothing_is_evicted_while_budgets_cannot_be_read(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.plan(Fault(100, "GET", f"{BUDGETS}$", status=403, reason="Forbidden"))
    let_go(record)
    told = "disruption budgets cannot be read, so nothing is evicted"
    await rig.until(lambda: told in rig.messages("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()


@pytest.mark.parametrize(
    ("allowed", "policy", "state", "refused"),
    [
        (2, "", {}, ""),
        (1, "", {}, "p1"),
        (0, "", {}, "p0"),
        (0, "", {"phase": "Pending"}, ""),
        (0, "", {"phase": "Succeeded"}, ""),
        (0, "AlwaysAllow", {"unready": True}, ""),
        (0, "", {"unready": True}, "p0"),
        (0, "", {"labels": {"app": "y"}}, ""),
        (0, "", {"namespace": "other"}, ""),
    ],
)
def test_what_a_budget_allows(
    allowed: int, policy: str, state: dict[str, object], refused: str
) -> None:
    """As ``checkAndDecrement`` counts: neither what has ended nor what may go unready."""
    of: dict[str, object] = {"phase": "Running", "labels": {"app": "x"}, **state}
    pods = [replace(pod(f"p{i}", on="n0"), **of) for i in range(2)]
    selector = LabelSelector((Requirement("app", "In", ("x",)),))
    one = DisruptionBudget("u", "default", "b", selector, allowed, unready_free=bool(policy))
    found = over_budget(pods, [one])
    assert (found[0].name if found else "") == refused
