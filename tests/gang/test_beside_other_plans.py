"""Two gangs are planned for at once: what one plan is about to evict is gone for the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gang.rig import PODS, Rig

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HOST = "kubernetes.io/hostname"


async def made(rig: Rig, name: str, cls: str, *, on: str = "", group: str = "", **of: Any) -> None:
    """A pod of 2 CPU, or of ``cpu``, with ``labels``; ``near``: beside a pod with app=near."""
    requests = {"requests": {"cpu": of.get("cpu", "2")}}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": requests}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": cls,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if on:
        spec["nodeName"] = on
    if near := of.get("near"):
        term = {"labelSelector": {"matchLabels": {"app": near}}, "topologyKey": HOST}
        spec["affinity"] = {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    meta = {"name": name, "labels": of.get("labels", {})}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, f"{name} is there")


async def known(rig: Rig, *groups: str) -> None:
    await rig.until(
        lambda: set(groups) <= {key[2] for key in rig.cache.snapshot().groups}, "groups are known"
    )


async def settled(rig: Rig, *gangs: str) -> set[str]:
    """Return the pods once no plan evicts any more."""
    await rig.until(lambda: any(rig.outcomes(gang) for gang in gangs), "it is decided")
    await asyncio.sleep(2)
    return set(await rig.names())


async def test_pods_of_one_gang_are_spared_for_two_plans_together(wide: Rig) -> None:
    """A gang of 2 has 4 pods that may be evicted one by one: 2 of them, and not 3. What the second
    plan takes besides is a pod of no gang."""
    rig = wide
    await rig.nodes(1, first=4)
    await rig.pod("solo", cls="low", on="n4")
    await rig.group("low", 2, "low", whole=False)
    for i in range(4):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.gang("one", 1, "high")
    await rig.gang("two", 2, "high")
    offered = {f"n{i}": [f"low-{i}"] for i in range(4)} | {"n4": ["solo"]}
    await asyncio.gather(rig.preempt("one-0", **offered), rig.preempt("two-0", **offered))
    async with asyncio.timeout(rig.patience):
        names = set(await rig.names())
        while len(names & {"solo", *(f"low-{i}" for i in range(4))}) > 2:
            left = {node: pods for node, pods in offered.items() if pods[0] in names}
            await rig.preempt("two-0", **left)
            await asyncio.sleep(0.1)
            names = set(await rig.names())
    assert "solo" not in names
    assert len([name for name in names if name.startswith("low")]) == 2


@pytest.mark.parametrize("first", ["a", "b"])
async def test_a_pod_that_members_need_beside_them_is_wanted_by_another_plan(
    wide: Rig, first: str
) -> None:
    """Whichever is planned first, nothing is evicted for b-0 that db does not stay beside."""
    rig = wide
    for n in range(4):
        labels = {HOST: "z" if n < 2 else f"n{n}"}
        await rig.client.patch(f"/api/v1/nodes/n{n}", {"metadata": {"labels": labels}})
    for n in (2, 3):
        await rig.pod(f"full-{n}", cls="top", on=f"n{n}", cpu="4")
    for n in (0, 1):
        await rig.pod(f"same-{n}", cls="top", on=f"n{n}", cpu="2")
    await made(rig, "db", "low", on="n0", labels={"app": "db"})
    await made(rig, "other", "mid", on="n1")
    for name in ("a", "b"):
        await rig.group(name, 1, "high")
    await made(rig, "a-0", "high", group="a")
    await made(rig, "b-0", "high", group="b", near="db")
    await known(rig, "a", "b")
    nodes = rig.cache.snapshot
    await rig.until(
        lambda: all(nodes().nodes[n].labels.get(HOST) == "z" for n in ("n0", "n1")), "labels"
    )
    offered = {"a": {"n0": ["db"]}, "b": {"n1": ["other"]}}
    order = ("a", "b") if first == "a" else ("b", "a")
    await asyncio.gather(*(rig.preempt(f"{gang}-0", **offered[gang]) for gang in order))
    names = await settled(rig, "a", "b")
    assert len({"db", "other"} & names) == 1


@pytest.mark.parametrize("allowed", [3, 4])
async def test_one_budget_allows_what_two_plans_evict_together(wide: Rig, allowed: int) -> None:
    """Of two gangs of 2 that are evicted as a whole one stays where 3 evictions are allowed."""
    rig = wide
    for number, name in enumerate(("lowx", "lowy")):
        await rig.group(name, 2, "low")
        for i in range(2):
            node = f"n{2 * number + i}"
            await made(rig, f"{name}-{i}", "low", on=node, group=name, cpu="3", labels={"app": "x"})
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await rig.client.patch(f"{PODS}/{name}-{i}/status", {"status": ready})
    await known(rig, "lowx", "lowy")
    await rig.until(
        lambda: all(
            pod.phase == "Running" for pods in rig.cache.snapshot().bound.values() for pod in pods
        ),
        "they run",
    )
    spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": allowed}
    await rig.client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    shown = rig.cache.snapshot
    await rig.until(lambda: any(b.allowed == allowed for b in shown().budgets), "budget")
    await rig.gang("high", 2, "high")
    await rig.gang("top", 2, "high")
    offered = {f"n{2 * n + i}": [f"low{x}-{i}"] for n, x in enumerate("xy") for i in range(2)}
    await asyncio.gather(rig.preempt("high-0", **offered), rig.preempt("top-0", **offered))
    names = await settled(rig, "high", "top")
    left = {name for name in names if name.startswith("low")}
    assert left in ({"lowx-0", "lowx-1"}, {"lowy-0", "lowy-1"}) or (allowed == 4 and not left)


async def test_two_plans_may_want_the_same_gang_gone(wide: Rig) -> None:
    """It is evicted once, and no pod of it counts twice."""
    rig = wide
    await rig.group("low", 4, "low")
    for i in range(4):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.gang("one", 1, "high")
    await rig.gang("two", 2, "high")
    offered = {f"n{i}": [f"low-{i}"] for i in range(4)}
    await asyncio.gather(rig.preempt("one-0", **offered), rig.preempt("two-0", **offered))
    names = await settled(rig, "one", "two")
    assert not [name for name in names if name.startswith("low")]
    assert not [each for gang in ("one", "two") for each in rig.outcomes(gang) if each == "refusal"]
