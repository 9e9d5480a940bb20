"""Pods whose eviction was accepted, and that are there after all: the storage was put back."""

from __future__ import annotations

import pytest

from extender.gang.act import evictions, flights
from extender.sandbox.resources import PODS
from tests.gang.limited import tried
from tests.gang.rig import HIGH, LOW, Rig, full_cluster

KEY = PODS.key


async def test_pods_that_are_back_are_victims_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They counted as on their way out for ever, so every plan waited for them in vain."""
    monkeypatch.setattr(evictions, "RETURNED_SECONDS", 0.2)
    monkeypatch.setattr(flights, "LOOK_AFTER_SECONDS", 0.05)
    await full_cluster(rig)
    for name in HIGH:
        await tried(rig, name)
    storage = rig.server.api.storage
    before = {name: storage.get(KEY, "default", name) for name in LOW}
    for name in LOW:
        held = {"metadata": {"finalizers": ["test/held"]}}
        await rig.client.patch(f"/api/v1/namespaces/default/pods/{name}", held)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the victims go")
    for pod in before.values():
        assert pod is not None
        storage.put(KEY, pod)
    await rig.until_names(*HIGH)
