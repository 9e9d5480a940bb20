"""Who was evicted before, with everything but kube-scheduler: written, signed, read again."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from extender.gang.core.victim_group import Claim, Sent
from extender.gang.fairness.eviction_history import KEY, NAME, EvictedBefore
from extender.kube.api_errors import NotFound
from extender.model.objects import GangKey
from extender.model.plan import Victim
from extender.settings.fairness import FairnessSettings, ProtectionSettings
from tests.gang.rig import FAST, HIGH, LOW, Rig

KEPT = replace(
    FAST,
    fairness=FairnessSettings(
        protection=ProtectionSettings(enabled=True, first_seconds=1000.0, same_namespace=True)
    ),
)


async def evicted_once(rig: Rig) -> None:
    """The low gang was evicted for the high one, which is gone, and runs again."""
    await rig.nodes(2)
    await rig.classes(low=1, high=100, higher=101)
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    for name in HIGH:
        await rig.filter(name, "n0", "n1")
    await rig.until_names(*HIGH)
    for name in HIGH:
        await rig.remove(name)
    await rig.until_names()
    for i, name in enumerate(LOW):
        await rig.pod(name, cls="low", group="low", on=f"n{i}")
    await rig.until_names(*LOW)


def told_of(rig: Rig) -> list[EvictedBefore]:
    return rig.coordinator.eviction_history.describe()


async def written(rig: Rig) -> str:
    try:
        found = await rig.client.get(f"/api/v1/namespaces/kube-system/configmaps/{NAME}")
    except NotFound:
        return ""
    return str(found["data"][KEY])


async def until_written(rig: Rig) -> None:
    deadline = time.monotonic() + rig.patience
    while '"resumed":0.0' in (text := await written(rig)) or not text:
        assert time.monotonic() < deadline, text


async def test_it_outlives_a_restart_and_yields_to_who_is_more_urgent() -> None:
    async with Rig(KEPT) as rig:
        rig.record_key = b"k" * 32
        await rig.restart()
        await evicted_once(rig)
        await rig.gang("again", 2, "high")
        await rig.filter("again-0", "n0", "n1")
        await rig.until(lambda: "protected until" in rig.messages("again"), "it is told why")
        [before] = told_of(rig)
        assert (before["evicted"], before["lastPriority"]) == (1, 100)
        await until_written(rig)
        await rig.restart()
        assert told_of(rig) == [before]
        await rig.filter("again-0", "n0", "n1")
        await rig.until(lambda: "protected until" in rig.messages("again"), "it is told again")
        assert {*LOW} <= await rig.names()
        await rig.gang("urgent", 2, "higher")
        for name in ("urgent-0", "urgent-1"):
            await rig.filter(name, "n0", "n1")
        await rig.until_names("again-0", "again-1", "urgent-0", "urgent-1")


async def test_what_we_have_not_signed_is_not_believed() -> None:
    async with Rig(KEPT) as rig:
        rig.record_key = b"k" * 32
        await rig.restart()
        await evicted_once(rig)
        await until_written(rig)
        path = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"
        text = (await written(rig)).replace('"priority":100', '"priority":101')
        await rig.kill()
        await rig.client.patch(path, {"data": {KEY: text}})
        await rig.start()
        assert told_of(rig) == []


@pytest.mark.parametrize("text", ["[", "{}", '[{"lineage": 5}]'])
async def test_what_cannot_be_read_is_left_out(text: str) -> None:
    async with Rig(KEPT) as rig:
        base = "/api/v1/namespaces/kube-system/configmaps"
        await rig.client.create(base, {"metadata": {"name": NAME}, "data": {KEY: text}})
        await rig.restart()
        assert told_of(rig) == []


async def test_a_single_pod_does_not_evict_who_is_spared_either() -> None:
    async with Rig(KEPT) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, higher=101)
        await rig.pod("bare", cls="low", on="n0", cpu="4")
        await rig.pod("other", cls="high", on="n1", cpu="4")
        await rig.until_names("bare", "other")
        key = GangKey("pod-group", "default", "high")
        claim = Claim(plan_id="p", preemptor=key, priority=100, message="", uids=frozenset())
        bare = rig.cached("bare")
        rig.coordinator.eviction_history.taken([bare])
        victim = Victim(bare.uid, "default", "bare", "n0", bare.priority)
        sent = Sent(claim, "x", whole=False, victim=victim, ours=True, claims=(claim,))
        rig.coordinator.eviction_history.sent(sent)
        await rig.remove("bare")
        await rig.until_names("other")
        await rig.pod("bare", cls="low", on="n0", cpu="4")
        await rig.until_names("bare", "other")
        await rig.pod("single", cls="high", cpu="4")
        await rig.pod("urgent", cls="higher", cpu="4")
        assert (await rig.preempt("single", n0=["bare"])).candidates == {}
        assert list((await rig.preempt("urgent", n0=["bare"])).candidates) == ["n0"]
