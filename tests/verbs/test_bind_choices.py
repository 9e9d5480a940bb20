"""Whom bind binds by itself, whom the barrier, and whom nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from extender.model.errors import NotReady
from extender.verbs import bind as bind_verb
from extender.verbs.bind import Bind
from extender.wire.bind_json import BindArgs
from tests.gang.world import gang_key, pod

POD = pod("p", group="g")
FLIGHT = SimpleNamespace(key="the plan")


def bind(state: dict[str, Any], preemption: object, stale: str | None, *, waits: bool) -> Bind:
    async def member(*args: object) -> str:
        return "by the barrier"

    async def alone(*args: object) -> str:
        return "alone"

    async def known(*args: object) -> object:
        return replace(POD, **state)

    context = SimpleNamespace(
        require_ready=lambda: None,
        cluster=Rooms([None]),
        reservations=SimpleNamespace(of_member=lambda uid: preemption),
        asking=SimpleNamespace(stale=lambda: stale),
        waiting_gang=lambda pod: SimpleNamespace(key=gang_key("g")) if waits else None,
    )
    bindings = SimpleNamespace(member=member, alone=alone)
    return Bind(cast(Any, context), cast(Any, SimpleNamespace(known=known)), cast(Any, bindings))


async def asked(verb: Bind) -> str:
    args = BindArgs(name=POD.name, namespace=POD.namespace, uid=POD.uid, node="n0")
    return (await verb.answer(args, asyncio.Event().wait)).error  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "preemption", "stale", "waits", "told"),
    [
        ({"node": "n0"}, FLIGHT, None, True, ""),
        ({"node": "n1"}, FLIGHT, None, True, "default/p is on n1 already"),
        ({"deleting": 5.0}, FLIGHT, None, True, "default/p is being deleted"),
        ({}, FLIGHT, None, True, "by the barrier"),
        ({}, FLIGHT, "a watch is down", True, "the plan: a watch is down"),
        ({}, None, "a watch is down", False, "alone"),
        ({}, None, None, False, "alone"),
        ({}, None, None, True, f"{gang_key('g')}: no open plan has a seat for p"),
    ],
)
async def test_who_binds_a_pod(
    state: dict[str, Any], preemption: object, stale: str | None, *, waits: bool, told: str
) -> None:
    assert await asked(bind(state, preemption, stale, waits=waits)) == told


class Rooms:
    """A cluster of one node, which lacks ``short`` at each look, then what it lacked last."""

    def __init__(
        self, short: Sequence[str | None], *, stale: float = 0.0, node: str = "n0"
    ) -> None:
        self.generation = 1
        self.wanted: list[object] = []
        self.changed: Callable[[], None] = lambda: None
        self._short = list(short)
        self._stale = stale
        self._node = node

    def snapshot(self) -> SimpleNamespace:
        return SimpleNamespace(nodes={self._node: None})

    def stale_for(self) -> float:
        return self._stale

    def short(self, node: str, wants: object) -> str | None:
        self.wanted.append(wants)
        return self._short.pop(0) if len(self._short) > 1 else self._short[0]

    async def wait_change(self, generation: int, timeout: float) -> int:
        self.changed()
        await asyncio.sleep(max(0.0, min(timeout, 0.02)))
        return generation


@pytest.mark.parametrize(
    ("rooms", "told"),
    [
        (Rooms(["cpu"]), "n0 has not enough cpu for default/p any more"),
        (Rooms(["cpu", "cpu", None]), "alone"),
        (Rooms(["cpu"], node="n1"), "alone"),
        (Rooms(["cpu"], stale=2.0), "alone"),
    ],
)
async def test_who_has_no_plan_is_bound_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, rooms: Rooms, told: str
) -> None:
    """A bind whose answer was lost left kube-scheduler without its pod, and the next one was bound
    beside it where it had no room (seed 600062 with barrier,flaky)."""
    monkeypatch.setattr(bind_verb, "BEHIND_SECONDS", 0.1)
    verb = bind({}, None, None, waits=False)
    verb._context.cluster = cast(Any, rooms)  # type: ignore[misc]
    assert await asked(verb) == told


async def test_what_kube_scheduler_may_not_count_is_not_asked_for() -> None:
    """Of an extended resource that is a device, or ignored, a node need not have any."""
    amounts = (("cpu", 1000), ("memory", 0), ("nvidia.com/gpu", 8))
    verb = bind({"requests": amounts}, None, None, waits=False)
    rooms = Rooms([None])
    verb._context.cluster = cast(Any, rooms)  # type: ignore[misc]
    assert await asked(verb) == "alone"
    assert rooms.wanted == [[("cpu", 1000)]]


async def test_who_has_waited_for_room_is_looked_at_anew() -> None:
    """A member of its gang may have left the room, and it is no more than its quorum then."""
    verb = bind({}, None, None, waits=False)
    rooms = Rooms(["cpu", None])
    verb._context.cluster = cast(Any, rooms)  # type: ignore[misc]

    def gone() -> None:
        waiting = SimpleNamespace(key=gang_key("g"))
        verb._context.waiting_gang = lambda pod: waiting  # type: ignore

    rooms.changed = gone
    assert "no open plan has a seat" in await asked(verb)


async def test_nobody_is_bound_before_recovery() -> None:
    verb = bind({}, None, None, waits=False)

    def not_yet() -> None:
        raise NotReady("not yet")

    verb._context.require_ready = not_yet  # type: ignore[method-assign]
    with pytest.raises(NotReady):
        await asked(verb)
