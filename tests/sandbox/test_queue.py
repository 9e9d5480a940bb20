"""Who is tried next, and what brings a parked pod back."""

from __future__ import annotations

import asyncio

import pytest

from extender.sandbox.queue import Event, SchedulingQueue
from tests.event_time import turns


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def popped(queue: SchedulingQueue) -> str | None:
    popping = asyncio.create_task(queue.pop())
    await turns()
    if popping.done():
        return popping.result().uid
    popping.cancel()
    return None


async def test_priority_then_age() -> None:
    queue = SchedulingQueue(Clock())
    for uid, priority, since in (("old", 1, 0.0), ("new", 1, 5.0), ("urgent", 9, 9.0)):
        queue.add(uid, priority, since)
    assert [await popped(queue) for _ in range(4)] == ["urgent", "old", "new", None]


@pytest.mark.parametrize(
    ("plugin", "event", "wakes"),
    [
        ("NodeResourcesFit", "pod-gone", True),
        ("NodeResourcesFit", "node", True),
        ("NodeResourcesFit", "own", False),
        ("NodeResourcesFit", "pod-bound", False),
        ("NodeAffinity", "pod-gone", False),
        ("NodeAffinity", "node", True),
        ("InterPodAffinity", "pod-bound", True),
        ("Extender", "pod-changed", True),
        ("Extender", "own", True),
    ],
)
async def test_what_wakes_whom(plugin: str, event: Event, *, wakes: bool) -> None:
    queue = SchedulingQueue(Clock())
    queue.add("p", 1, 0.0)
    queue.park(await queue.pop(), frozenset({plugin}))
    assert await popped(queue) is None
    queue.wake(event, "p")
    assert (await popped(queue) == "p") is wakes


async def test_another_pods_own_update_wakes_nobody() -> None:
    queue = SchedulingQueue(Clock())
    queue.add("p", 1, 0.0)
    queue.park(await queue.pop(), frozenset({"Extender"}))
    queue.wake("own", "q")
    assert await popped(queue) is None


async def test_an_event_during_the_attempt_is_not_lost() -> None:
    queue = SchedulingQueue(Clock())
    queue.add("p", 1, 0.0)
    entry = await queue.pop()
    queue.wake("node")
    queue.park(entry, frozenset({"NodeResourcesFit"}))
    assert await popped(queue) == "p"


async def test_back_off_is_cut_short_by_an_idle_queue_but_not_after_an_error() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock)
    queue.add("p", 1, 0.0)
    queue.retry(await queue.pop())
    assert await popped(queue) is None
    clock.now = 1.1
    assert await popped(queue) == "p"


async def test_a_pod_in_back_off_lets_others_go_first() -> None:
    queue = SchedulingQueue(Clock())
    queue.add("urgent", 9, 0.0)
    queue.park(await queue.pop(), frozenset({"NodeResourcesFit"}))
    queue.add("p", 1, 0.0)
    queue.wake("node")
    assert [await popped(queue), await popped(queue)] == ["p", "urgent"]


async def test_back_off_doubles_up_to_ten_seconds() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock)
    queue.add("p", 1, 0.0)
    waits = []
    for _ in range(6):
        entry = await queue.pop()
        queue.retry(entry)
        waits.append(entry.ready - clock.now)
        clock.now = entry.ready
    assert waits == [1, 2, 4, 8, 10, 10]


async def test_a_removed_pod_never_comes() -> None:
    queue = SchedulingQueue(Clock())
    queue.add("p", 1, 0.0)
    assert "p" in queue
    queue.remove("p")
    assert "p" not in queue
    assert await popped(queue) is None
