"""How a pod is looked up that the cache does not have yet, or has with scheduling gates."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from msgspec.structs import replace

from extender.model.errors import UnknownPod
from extender.model.objects import Pod
from extender.verbs.pod_lookup import SHOWN, PodLookup
from tests.event_time import passes, turns
from tests.gang.world import pod

TOLD = pod("p")
GATED = replace(TOLD, gated=True)
SECONDS = 10.0


class Cache:
    """What it has of one pod; ``put`` is a change."""

    def __init__(self, found: Pod | None) -> None:
        self.found = found
        self.generation = 1
        self.waited: list[tuple[int, float]] = []
        self._changed = asyncio.Event()

    def pod(self, uid: str) -> Pod | None:
        return self.found if uid == TOLD.uid else None

    def put(self, found: Pod | None) -> None:
        self.found = found
        self.generation += 1
        self._changed.set()

    async def wait_change(self, generation: int, timeout: float) -> int:
        self.waited.append((generation, round(timeout)))
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            pass
        return self.generation


def looked_up(cache: Cache, told: Pod = TOLD) -> asyncio.Task[Pod]:
    return asyncio.create_task(PodLookup(cast(Any, cache), SECONDS).pod(told))


async def test_one_that_is_there_is_not_waited_for() -> None:
    cache = Cache(TOLD)
    assert await looked_up(cache) is TOLD
    assert cache.waited == []


@pytest.mark.parametrize("before", [None, GATED], ids=["not there", "gated"])
async def test_one_that_comes_soon_is_waited_for(before: Pod | None) -> None:
    cache = Cache(before)
    looking = looked_up(cache)
    await passes(4)
    assert not looking.done()
    cache.put(before)  # of another pod
    await passes(4)
    assert not looking.done()
    cache.put(TOLD)
    await turns()
    assert looking.result() is TOLD
    assert cache.waited == [(1, 10), (2, 6)]


@pytest.mark.parametrize(
    ("found", "words", "absent"),
    [(None, "is known here after 10 s", True), (GATED, "scheduling gates", False)],
    ids=["not there", "gated"],
)
async def test_it_is_waited_for_so_long(found: Pod | None, words: str, *, absent: bool) -> None:
    looking = looked_up(Cache(found))
    await passes(9)
    assert not looking.done()
    await passes(1.5)
    with pytest.raises(UnknownPod, match=words) as refused:
        looking.result()
    assert refused.value.absent is absent


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (replace(TOLD, node="n0"), "has a node already: n0"),
        (replace(TOLD, deleting=5.0), "is being deleted"),
        (replace(TOLD, name="q"), "is that of default/q, not of default/p"),
        (replace(TOLD, namespace="other"), "is that of other/p, not of default/p"),
    ],
)
async def test_one_that_nobody_schedules_or_that_is_another_is_refused(
    found: Pod, words: str
) -> None:
    cache = Cache(found)
    with pytest.raises(UnknownPod, match=words) as refused:
        await looked_up(cache)
    assert not refused.value.absent
    assert cache.waited == []


async def test_of_a_callers_words_so_many_characters_are_repeated() -> None:
    for length, cut in ((SHOWN, False), (SHOWN + 1, True)):
        looking = looked_up(Cache(None), replace(TOLD, uid="u" * length))
        await passes(SECONDS + 1)
        with pytest.raises(UnknownPod) as refused:
            looking.result()
        assert (f"UID {'u' * SHOWN}... " in str(refused.value)) is cut
        assert (f"UID {'u' * SHOWN} " in str(refused.value)) is not cut
