"""What kube-scheduler may evict for a pod is looked at again after a search."""

from __future__ import annotations

import pytest

from extender.gang.plan.candidates import Candidates
from extender.model.gang import Gang
from extender.model.plan import Plan, Refusal
from tests.gang.rig import PODS, Rig, full_cluster

NODE = {
    "metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}},
    "status": {"allocatable": {"cpu": "4", "pods": "110"}},
}
PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}


async def test_a_victim_that_was_protected_during_the_search_is_not_allowed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.client.create("/api/v1/nodes", NODE)
    await full_cluster(rig)
    await rig.pod("single", cls="low", on="n2")
    await rig.pod("urgent", cls="top")
    ask = rig.coordinator.ask

    async def slow(single: Gang, candidates: Candidates) -> Plan | Refusal | None:
        answer = await ask(single, candidates)
        await rig.client.patch(f"{PODS}/single", PROTECTED)
        await rig.until(lambda: bool(rig.cached("single").annotations), "it is protected")
        return answer

    before = await rig.preempt("urgent", n0=["low-0"], n2=["single"])
    assert list(before.candidates) == ["n2"]
    monkeypatch.setattr(rig.coordinator, "ask", slow)
    answer = await rig.preempt("urgent", n0=["low-0"], n2=["single"])
    assert "n2" not in answer.candidates
