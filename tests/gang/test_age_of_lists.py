"""A list is as old as the question that it came with, however long its pod was waited for."""

from __future__ import annotations

import asyncio

import pytest

from extender.wire.filter_json import FilterArgs
from tests.gang.rig import Rig, full_cluster


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
    (flight,) = rig.coordinator.book
    assert not flight.plan.victims
