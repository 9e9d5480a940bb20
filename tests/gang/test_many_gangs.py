"""A tenant with thousands of gangs that wait: the others, and verbs, hardly notice.

See docs/security.md, row 6.
"""

from __future__ import annotations

import asyncio

import pytest

from extender.gang.controller import hints
from extender.gang.controller.planning_rounds import CHUNK
from extender.gang.core.last_check import KeptGangs
from extender.gang.plan.fair_turns import FairTurns, Turn
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot
from tests.gang.rig import FAST, Rig
from tests.gang.world import group, pod

GANGS = 5 * CHUNK


def waits(rig: Rig, name: str, namespace: str) -> None:
    """A gang of one that fits nowhere, as the cache would show it."""
    rig.cache.store.groups["core"].put(group(name, 1, priority=0, namespace=namespace))
    rig.cache.store.pods.put(pod(f"{name}-0", group=name, namespace=namespace, cpu=99, tried=True))


async def test_a_round_is_no_longer_for_the_others_than_for_one_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each search was preceded by sorting everybody, and each round by looking at everybody at
    once: with 10,000 gangs for a third of a second of computing, in which no verb was answered."""
    async with Rig(FAST) as rig:
        await rig.nodes(1)
        await rig.stop_rounds()
        for number in range(GANGS):
            waits(rig, f"g{number}", "tenant")
        waits(rig, "mine", "honest")

        resolved = most = 0
        resolve, order = KeptGangs.resolve, FairTurns.order
        sorted_: list[int] = []

        def counted(gangs: KeptGangs, key: GangKey, snapshot: Snapshot) -> Gang:
            nonlocal resolved, most
            resolved += 1
            most = max(most, resolved)
            return resolve(gangs, key, snapshot)

        def noted(turns: FairTurns, waiting: list[Turn], now: float) -> list[Turn]:
            sorted_.append(len(waiting))
            return order(turns, waiting, now)

        monkeypatch.setattr(KeptGangs, "resolve", counted)
        monkeypatch.setattr(FairTurns, "order", noted)

        async def others() -> None:
            nonlocal resolved
            while True:
                resolved = 0
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        try:
            await rig.coordinator.rounds.round()
        finally:
            beside.cancel()
        namespaces = 2
        assert max(sorted_) <= namespaces
        assert CHUNK <= most <= 2 * CHUNK, "looked at, and not all at once"
        answered = [decision.gang for decision in rig.coordinator.decisions]
        assert "pod-group:honest/mine" in answered[-2:], "second at the latest"


async def test_pods_that_seats_kept_waiting_are_woken_whoever_has_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first 4,096 were, of whomever: a tenant with as many kept the others waiting until
    kube-scheduler tried them of itself."""
    monkeypatch.setattr(hints, "MAX_HELD_BACK", 10)
    async with Rig(FAST) as rig:
        told = rig.coordinator.hints.held_back
        for number in range(20):
            told.note(pod(f"p-{number}", namespace="tenant"))
        for number in range(6):
            told.note(pod(f"mine-{number}", namespace="honest"))
        told.note(pod("mine-0", namespace="honest"))
        kept = [each.name for each in told.pods()]
        mine = [f"mine-{i}" for i in (1, 2, 3, 4, 0)]  # who comes again is the newest
        assert kept == [*(f"p-{i}" for i in range(5, 10)), *mine]
