"""A gang whose binds are held until all members have arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.settings.settings import BindSettings, Settings
from extender.wire.bind_json import BindArgs
from tests.gang.rig import FAST, PODS, Rig

HELD = replace(FAST, bind=BindSettings(enabled=True, hold_seconds=30.0, post_seconds=1.0))
GANG = ("g-0", "g-1", "g-2")
BINDING = r"/pods/{}/binding"
REAL = r"/pods/{}/binding$"
"""Not the rehearsal, which has a query."""


@asynccontextmanager
async def holding(settings: Settings) -> AsyncIterator[Rig]:
    """Four nodes, and an extender that binds."""
    async with Rig(settings) as one:
        await one.classes(low=1, high=1000)
        await one.nodes(4)
        yield one


async def stay() -> None:
    """A caller that does not leave."""
    await asyncio.Event().wait()


def args(rig: Rig, name: str, node: str) -> BindArgs:
    return BindArgs(name, "default", rig.cached(name).uid, node)


def bind(
    rig: Rig, name: str, node: str, gone: Callable[[], Awaitable[None]] = stay
) -> asyncio.Task[str]:
    """Ask to bind as kube-scheduler does, in a binding cycle of its own."""

    async def ask() -> str:
        return (await rig.verbs.bind(args(rig, name, node), gone)).error

    return asyncio.create_task(ask())


async def seated(rig: Rig, count: int = 3) -> dict[str, str]:
    """A gang with open seats, each member told its own: name -> node."""
    await rig.gang("g", count, "high")
    seats: dict[str, str] = {}
    names = [f"n{i}" for i in range(4)]
    for name in (f"g-{i}" for i in range(count)):
        while name not in seats:
            for node in (await rig.filter(name, *names)).node_names:
                seats[name] = node
            await asyncio.sleep(0.01)
    return seats


def preemption(rig: Rig) -> Preemption:
    found = rig.coordinator.reservations.get(rig.resolver_key("g-0"))
    assert found is not None
    return found


async def nodes_of(rig: Rig) -> dict[str, str]:
    items = (await rig.client.get(PODS))["items"]
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in items}


async def held(rig: Rig, count: int) -> None:
    await rig.until(lambda: rig.coordinator.bindings.barrier.count == count, f"{count} held")


def bound_to(seats: dict[str, str], *names: str) -> dict[str, str]:
    return {name: node if name in names else "" for name, node in seats.items()}
