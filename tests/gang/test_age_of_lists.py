"""A list of nodes says nothing of room that came within a second before its question, or since.

It is as old as the question that it came with, however long its pod was waited for.
"""

from __future__ import annotations

import asyncio

import pytest

from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.wire.filter_json import FilterArgs
from tests.gang.rig import HIGH, Rig, full_cluster
from tests.gang.test_resized_pods import asks_for


@pytest.mark.parametrize("waited", [True, False])
async def test_the_wait_for_a_pod_makes_no_list_younger(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, waited: bool
) -> None:
    """Nodes had come within a second before the question, and were found wanting in its list."""
    await full_cluster(rig)
    member = rig.cached("high-0")
    known, look = asyncio.Event(), rig.cache.pod
    if not waited:
        known.set()
    monkeypatch.setattr(
        rig.cache, "pod", lambda uid: look(uid) if known.is_set() or uid != member.uid else None
    )
    for name in ("x0", "x1"):
        await rig.client.create(
            "/api/v1/nodes",
            {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}},
        )
    await rig.until(lambda: {"x0", "x1"} <= rig.cache.snapshot().nodes.keys(), "they are cached")
    evidence = rig.coordinator.evidence
    seen, now = evidence.now(), evidence.now
    skipped = 0.0
    monkeypatch.setattr(evidence, "now", lambda: now() + skipped)
    asked = asyncio.create_task(rig.verbs.filter(FilterArgs(member, ["n9"])))
    await rig.until(lambda: evidence.now() - seen < 1.0, "it has come in time")
    await asyncio.sleep(0)
    if waited:
        skipped = 1.5
        known.set()
    await asked
    assert not _victims(rig)


async def test_who_was_offered_any_node_and_is_gone_may_have_left_room(rig: Rig) -> None:
    """kube-scheduler had assumed it on n1, and the room was still its when the list was made."""
    await rig.pod("low-0", cls="low", on="n0", cpu="2")
    await rig.pod("late", cls="high", cpu="2")
    await rig.group("high", 1, "high")
    await rig.pod("high-0", cls="high", group="high", cpu="4")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "all pods")
    assert (await rig.filter("late", "n0", "n1")).node_names == ["n0", "n1"]
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    await rig.remove("late")
    await rig.until(lambda: rig.cache.pod_named("default", "late") is None, "it is gone")
    await rig.filter("high-0", "n9")
    assert not _victims(rig)


async def test_a_pod_that_asks_for_less_leaves_room(rig: Rig) -> None:
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("other", cls="top", on="n1")
    await rig.gang("high", 1, "high")
    rig.coordinator.evidence._freed.clear()
    await asks_for(rig, "other", "1")
    await rig.filter("high-0", "n9")
    assert not _victims(rig)


async def test_a_seat_that_is_lost_alone_leaves_room(rig: Rig) -> None:
    """The plan goes on with the other one, as its gang wants no more by now."""
    await rig.nodes(1, first=2)
    await rig.pod("low-0", cls="low", on="n2", cpu="1")
    await rig.group("high", 2, "high")
    for name in HIGH:
        await rig.pod(name, cls="high", group="high", cpu="4")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "all pods")
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    seats = {pod.name: preemption.seats[uid] for uid, pod in preemption.pods.items()}
    assert (await rig.filter("high-1", *seats.values())).node_names == [seats["high-1"]]
    wants = {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/high"
    await rig.client.patch(path, wants)
    resolve = rig.coordinator.resolver.resolve
    await rig.until(
        lambda: resolve(preemption.key, rig.cache.snapshot()).min_count == 1, "it wants one"
    )
    rig.coordinator.evidence._freed.clear()
    await rig.remove("high-1")
    await rig.until(lambda: len(preemption.seats) == 1, "the seat is given back")
    assert not preemption.over
    await rig.group("late", 1, "high")
    await rig.pod("late-0", cls="high", group="late", cpu="4")
    await rig.filter("late-0", "n9")
    assert not _victims(rig)


def _victims(rig: Rig) -> list[str]:
    assert len(rig.coordinator.reservations)
    return [
        victim.name
        for preemption in rig.coordinator.reservations
        for victim in preemption.plan.victims
    ]
