"""A verb is asked when what a test has made is cached, however slow a watch is."""

from __future__ import annotations

import asyncio

import pytest

from extender.sandbox import apiserver
from tests.gang.rig import Obj, Rig, full_cluster


@pytest.mark.parametrize("kind", ["Node", "PodGroup"])
async def test_a_gang_is_asked_about_when_all_of_it_is_cached(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    late, go_on = asyncio.Event(), asyncio.Event()
    send = apiserver._WatchStream.send

    async def sent(stream: apiserver._WatchStream, what: str, obj: Obj) -> None:
        if late.is_set() and stream._resource.kind == kind:
            await go_on.wait()
        await send(stream, what, obj)

    monkeypatch.setattr(apiserver._WatchStream, "send", sent)
    async with Rig() as rig:
        late.set()
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        made = asyncio.create_task(full_cluster(rig))
        done, _ = await asyncio.wait({made}, timeout=0.5)
        go_on.set()
        assert not done
        await made
        await rig.preempt("high-0", n0=["low-0"])
        assert rig.outcomes("high") == ["plan"]
