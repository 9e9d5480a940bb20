"""Pods that we keep off every node are woken once that is over.

kube-scheduler tries them of itself, but only after five minutes.
"""

from __future__ import annotations

import pytest

from extender.gang.act.notifier import WAKE_ANNOTATION
from tests.gang.rig import LOW, REAL_DELETE, Rig, full_cluster, held_back, let_go
from tests.gang.test_promised_victims import pair


async def until_woken(rig: Rig, name: str) -> None:
    await rig.until(lambda: WAKE_ANNOTATION in rig.cached(name).annotations, f"{name} is woken")


async def test_who_is_beyond_the_quorum_of_a_gang_that_stays_after_all(rig: Rig) -> None:
    """It was refused with its gang, for which nobody looks: it has its quorum."""
    await full_cluster(rig)
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="top", on="n2", cpu="2")
    await rig.until(lambda: rig.cache.pod_named("default", "busy") is not None)
    marks = held_back(rig, "PATCH", "low-.*/status", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: marks.hits > 0, "evictions are about to be sent")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await rig.filter("low-2", "n2")).node_names
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    let_go(marks)
    await rig.until(lambda: not rig.coordinator.flights.evictions.unfinished(), "it is let go of")
    assert {*LOW} <= await rig.names()
    await until_woken(rig, "low-2")


@pytest.mark.parametrize("together", [True, False])
async def test_who_is_asked_about_in_preempt_alone(rig: Rig, *, together: bool) -> None:
    """filter is not asked where every node is full, and preempt noted nobody."""
    await pair(rig, together=together)
    deletes = held_back(rig, "DELETE", f"low-.*{REAL_DELETE}", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: deletes.hits > 0, "evictions are sent")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await rig.preempt("low-2", n1=["low-1"])).candidates
    let_go(deletes)
    await rig.until_names("low-2", "high-0", "high-1")
    await until_woken(rig, "low-2")
