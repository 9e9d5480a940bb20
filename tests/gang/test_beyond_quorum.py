"""Members beyond the quorum are tried again once it is seated."""

from __future__ import annotations

import asyncio

from extender.gang.tell.decisions import Verb
from tests.gang.rig import PODS, Rig


async def test_a_member_without_a_seat_is_woken_when_the_quorum_sits(rig: Rig) -> None:
    """Nothing made kube-scheduler try it: bindings of others are no reason to, and it waited
    five minutes beside free nodes."""
    await rig.group("g", 1, "high")
    await rig.pod("g-0", cls="high", group="g")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 1, "the first is cached")
    await rig.coordinator.ensure(rig.resolver_key("g-0"), Verb.FILTER)
    (preemption,) = rig.coordinator.reservations
    (seat,) = preemption.seats.values()
    await rig.pod("g-1", cls="high", group="g")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 2, "both are cached")
    answer = await rig.filter("g-1", "n0", "n1")
    assert answer.node_names == []
    before = await rig.client.get(f"{PODS}/g-1")
    await rig.bind("g-0", seat)
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is done")
    woken = before["metadata"].get("annotations")
    for _ in range(600):
        pod = await rig.client.get(f"{PODS}/g-1")
        if pod["metadata"].get("annotations") != woken:
            break
        await asyncio.sleep(0.05)
    else:
        raise AssertionError("it is not woken")
