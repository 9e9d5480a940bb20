"""Whom bind binds by itself, whom the barrier, and whom nobody."""

from __future__ import annotations

import asyncio
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


def bind(state: dict[str, Any], flight: object, stale: str | None, *, waits: bool) -> Bind:
    async def member(*args: object) -> str:
        return "by the barrier"

    async def alone(*args: object) -> str:
        return "alone"

    async def known(*args: object) -> object:
        return replace(POD, **state)

    context = SimpleNamespace(
        require_ready=lambda: None,
        cluster=SimpleNamespace(generation=1, short=lambda *each: None, stale_for=lambda: 0.0),
        book=SimpleNamespace(of_member=lambda uid: flight),
        asking=SimpleNamespace(stale=lambda: stale),
        waiting_gang=lambda pod: SimpleNamespace(key=gang_key("g")) if waits else None,
    )
    bindings = SimpleNamespace(member=member, alone=alone)
    return Bind(cast(Any, context), cast(Any, SimpleNamespace(known=known)), cast(Any, bindings))


async def asked(verb: Bind) -> str:
    args = BindArgs(name=POD.name, namespace=POD.namespace, uid=POD.uid, node="n0")
    return (await verb.answer(args, asyncio.Event().wait)).error  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "flight", "stale", "waits", "told"),
    [
        ({"node": "n0"}, FLIGHT, None, True, ""),
        ({"node": "n1"}, FLIGHT, None, True, "default/p is on n1 already"),
        ({"deleting": 5.0}, FLIGHT, None, True, "default/p is being deleted"),
        ({}, FLIGHT, None, True, "by the barrier"),
        ({}, FLIGHT, "a watch is down", True, "the plan: a watch is down"),
        ({}, None, "a watch is down", False, "alone"),
        ({}, None, None, False, "alone"),
        ({}, None, None, True, f"{gang_key('g')}: no plan in flight has a seat for p"),
    ],
)
async def test_who_binds_a_pod(
    state: dict[str, Any], flight: object, stale: str | None, *, waits: bool, told: str
) -> None:
    assert await asked(bind(state, flight, stale, waits=waits)) == told


@pytest.mark.parametrize(
    ("short", "stale", "told"),
    [
        (["cpu"], 0.0, "n0 has not enough cpu for default/p any more"),
        (["cpu", "cpu", None], 0.0, "alone"),
        ([KeyError], 0.0, "alone"),
        (["cpu"], 2.0, "alone"),
    ],
)
async def test_who_has_no_plan_is_bound_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, short: list[Any], stale: float, told: str
) -> None:
    """A bind whose answer was lost left kube-scheduler without its pod, and the next one was bound
    beside it where it had no room (seed 600062 with barrier,flaky)."""
    monkeypatch.setattr(bind_verb, "BEHIND_SECONDS", 0.1)
    verb = bind({}, None, None, waits=False)
    looks = iter(short)
    last: list[Any] = []

    def lacks(node: str, wants: object) -> str | None:
        assert node == "n0"
        last[:] = [next(looks, *last)]
        if last[0] is KeyError:
            raise KeyError(node)
        return cast("str | None", last[0])

    async def wait_change(generation: int, timeout: float) -> int:
        await asyncio.sleep(min(timeout, 0.02))
        return generation

    verb._context.cluster = SimpleNamespace(  # type: ignore[misc]
        generation=1, short=lacks, stale_for=lambda: stale, wait_change=wait_change
    )
    assert await asked(verb) == told


async def test_nobody_is_bound_before_recovery() -> None:
    verb = bind({}, None, None, waits=False)

    def not_yet() -> None:
        raise NotReady("not yet")

    verb._context.require_ready = not_yet  # type: ignore[method-assign]
    with pytest.raises(NotReady):
        await asked(verb)
