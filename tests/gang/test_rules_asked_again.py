"""Every rule is asked again before the first eviction and before the seats open.

Between the search and these moments a rule may break that seats rest on: affinity, a host port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from extender.gang.controller import executor
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import PODS, Rig, held_back, let_go

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
PORT = [{"containerPort": 80, "hostPort": 80}]


def beside(app: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


async def create(
    rig: Rig, name: str, cls: str, cpu: str, *, node: str = "", ports: bool = False, **spec: Any
) -> None:
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    if ports:
        container["ports"] = PORT
    if node:
        spec["nodeName"] = node
    labels = {"app": "high"} if "schedulingGroup" in spec else {}
    made = {"containers": [container], "priorityClassName": cls, **spec}
    await rig.client.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": made})
    await shown(rig, name)


async def member(rig: Rig, name: str, *, ports: bool = False, **spec: Any) -> None:
    group = {"podGroupName": "high"}
    await create(rig, name, "high", "3", ports=ports, schedulingGroup=group, **spec)


async def shown(rig: Rig, name: str) -> None:
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, f"{name} is seen")


async def gone(rig: Rig, name: str) -> None:
    await rig.remove(name)
    await rig.until(lambda: rig.cache.pod_named("default", name) is None, f"{name} is gone")


async def terminates(rig: Rig) -> None:
    await rig.client.delete(f"{PODS}/target", grace=20)
    await rig.until(lambda: rig.cached("target").deleting > 0, "it terminates")


async def loses_its_label(rig: Rig) -> None:
    await rig.client.patch(f"{PODS}/target", {"metadata": {"labels": {"app": "x"}}})
    await rig.until(lambda: rig.cached("target").labels.get("app") == "x", "another label")


async def shy_pod_comes(rig: Rig) -> None:
    keeps_off = {"podAntiAffinity": beside("high")}
    await create(rig, "shy", "top", "1m", node="n0", affinity=keeps_off)


async def port_is_taken(rig: Rig) -> None:
    await create(rig, "web", "top", "1m", node="n0", ports=True)


Happening = Callable[[Rig], Awaitable[None]]


@pytest.mark.parametrize(
    "happens",
    [lambda rig: gone(rig, "target"), terminates, loses_its_label, shy_pod_comes, port_is_taken],
    ids=["deleted", "terminates", "another-label", "anti-affinity", "port"],
)
async def test_no_pod_is_evicted_for_a_seat_that_a_rule_forbids_by_now(
    rig: Rig, happens: Happening
) -> None:
    await rig.pod("low", cls="low", on="n0", cpu="2")
    await rig.pod("target", cls="top", on="n0", cpu="500m", labels={"app": "db"}, grace=30)
    await rig.group("high", 1, "high")
    near = {"podAffinity": beside("db")}
    await member(rig, "high-0", ports=happens is port_is_taken, affinity=near)
    await rig.until_cached(GROUPS, lambda: {key[2] for key in rig.cache.snapshot().groups})
    record = held_back(rig, "POST", "configmaps")
    await rig.preempt("high-0", n0=["low"])
    await rig.until(lambda: record.hits > 0, "the record is on its way")
    await happens(rig)
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it is given up")
    assert "low" in await rig.names()


async def test_no_seat_opens_where_the_pod_it_needs_beside_it_is_gone(rig: Rig) -> None:
    await rig.pod("low", cls="low", on="n0", cpu="2", grace=30)
    await rig.pod("target", cls="top", on="n0", cpu="500m", labels={"app": "db"})
    await rig.group("high", 2, "high")
    await member(rig, "high-0", affinity={"podAffinity": beside("db")})
    await rig.pod("high-1", cls="high", group="high")
    await shown(rig, "high-1")
    await rig.preempt("high-0", n0=["low"])
    await rig.until(lambda: rig.cached("low").deleting > 0, "low terminates")
    plan = next(iter(rig.coordinator.reservations))
    await gone(rig, "target")
    await rig.remove("low")
    await rig.until(lambda: plan.state is not PreemptionState.WAITING, "it is asked again")
    assert PreemptionState.OPEN not in (plan.state, *plan.path)
    assert not (await rig.filter("high-1", "n0", "n1")).node_names


async def test_no_half_gang_starts_beside_a_pod_that_took_the_port(rig: Rig) -> None:
    """It was offered the seat's node while the victim terminated: it asks for little."""
    await rig.pod("low", cls="low", on="n0", cpu="2", grace=30)
    await rig.group("high", 2, "high")
    for at in range(2):
        await member(rig, f"high-{at}", ports=True)
    await rig.preempt("high-0", n0=["low"])
    await rig.until(lambda: rig.cached("low").deleting > 0, "low terminates")
    plan = next(iter(rig.coordinator.reservations))
    await create(rig, "web", "low", "10m", ports=True)
    assert "n0" in ((await rig.filter("web", "n0", "n1")).node_names or ())
    await rig.bind("web", "n0")
    await rig.until(lambda: rig.cached("web").node == "n0", "web has the port")
    await gone(rig, "low")
    await rig.until(lambda: plan.state is not PreemptionState.WAITING, "it is asked again")
    for name in ("high-0", "high-1"):
        assert not (await rig.filter(name, "n1")).node_names


async def test_a_comparison_that_fails_keeps_no_seat_closed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.pod("low", cls="low", on="n0", cpu="2", grace=30)
    await rig.group("high", 2, "high")
    for at in range(2):
        await rig.pod(f"high-{at}", cls="high", group="high")
        await shown(rig, f"high-{at}")
    await rig.preempt("high-0", n0=["low"])
    await rig.until(lambda: rig.cached("low").deleting > 0, "low terminates")
    thread, failed = rig.coordinator.thread, 0
    check = thread.check

    async def fails_once(*asked: Any, **options: Any) -> str | None:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise ValueError("a defect")
        return await check(*asked, **options)

    monkeypatch.setattr(thread, "check", fails_once)
    monkeypatch.setattr(executor, "unchanged", lambda *_: False)
    plan = next(iter(rig.coordinator.reservations))
    await gone(rig, "low")
    await rig.until(lambda: plan.state is PreemptionState.OPEN, "the seats open")
    assert failed > 1
