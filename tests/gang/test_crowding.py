"""More urgent pods that keep coming and go elsewhere do not keep a gang out for ever."""

from __future__ import annotations

import asyncio
import time

import pytest

from extender.gang.core import preemption as machine
from extender.gang.scheduler_view import assumed_pods
from extender.gang.tell.decisions import Verb
from tests.gang.rig import Rig


class Stream:
    """Urgent pods, four a second: each is offered all nodes and goes to the large one."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._count = 0
        self.refused = 0
        """How many were not offered a small node."""
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._one(self._count))
                self._count += 1
                await asyncio.sleep(0.25)

    async def _one(self, number: int) -> None:
        name = f"urgent-{number}"
        await self._rig.pod(name, cls="top", cpu="2")
        answer = await self._rig.filter(name, "n0", "n1", "large")
        self.refused += "n0" not in answer.node_names
        assert "large" in answer.node_names
        await asyncio.sleep(0.4)
        await self._rig.bind(name, "large")

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_a_stream_of_more_urgent_pods_is_kept_away_for_a_while(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CROWDED_SECONDS", 1.0)
    monkeypatch.setattr(assumed_pods, "OFFER_SECONDS", 1.0)
    status = {"allocatable": {"cpu": "4000", "pods": "1100"}}
    await rig.client.create("/api/v1/nodes", {"metadata": {"name": "large"}, "status": status})
    await rig.until(lambda: "large" in rig.cache.snapshot().nodes, "it is there")
    stream = Stream(rig)
    await rig.until(lambda: rig.cache.pod_named("default", "urgent-2") is not None, "they come")
    await rig.gang("calm", 2, "high")
    deadline = time.monotonic() + 60
    seated: dict[str, str] = {}
    while len(seated) < 2:
        assert time.monotonic() < deadline, "the gang is seated"
        for name in {"calm-0", "calm-1"} - seated.keys():
            answer = await rig.filter(name, "n0", "n1")
            if answer.node_names:
                (seated[name],) = answer.node_names
                await rig.bind(name, seated[name])
        await asyncio.sleep(0.05)
    await rig.until(lambda: not len(rig.coordinator.reservations), "all sit")
    assert stream.refused
    refused = stream.refused
    await stream.end()
    # Nothing is kept from them afterwards but the room that is taken.
    await rig.pod("late", cls="top", cpu="1")
    assert "n0" in (await rig.filter("late", "n0", "n1", "large")).node_names
    assert refused < 200


async def test_it_ends_when_no_member_comes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.gang("calm", 2, "high")
    await rig.coordinator.ensure(rig.resolver_key("calm-0"), Verb.LOOP)
    (preemption,) = rig.coordinator.reservations
    await rig.pod("urgent", cls="top")
    rig.coordinator.reservations.keep_away(preemption, time.monotonic())
    assert (await rig.filter("urgent", "n0", "n1")).node_names == []
    monkeypatch.setattr(machine, "CLOSED_SECONDS", 0.0)
    await rig.until(lambda: not preemption.closed, "it passes")
    assert (await rig.filter("urgent", "n0", "n1")).node_names == ["n0", "n1"]
