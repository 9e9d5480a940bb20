"""Members of a gang that runs in part are deleted (seats.rollback: delete), without the barrier.

Only once it is sure that it runs in part: a member that was given its seat may be bound to it
though the binding is not seen yet.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, HIGH, Rig

ROLLBACK = replace(
    FAST, seats=SeatSettings(bind_seconds=2.0, victim_slack_seconds=1.0, rollback="delete")
)


async def given_up_half_way(rig: Rig) -> str:
    """Bind the first member, let the second one have its answer; return its seat."""
    await rig.nodes(2)
    await rig.classes(high=100)
    await rig.gang("high", 2, "high")
    seats: dict[str, str] = {}
    deadline = asyncio.get_running_loop().time() + rig.patience
    while len(seats) < len(HIGH):
        assert asyncio.get_running_loop().time() < deadline, rig.messages("high")
        for name in HIGH:
            answer = (await rig.filter(name, "n0", "n1")).node_names
            if len(answer) == 1:
                seats[name] = answer[0]
        await asyncio.sleep(0.02)
    await rig.bind("high-0", seats["high-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert "in-part" in rig.outcomes("high")
    return seats["high-1"]


async def test_nobody_is_rolled_back_while_a_member_is_on_its_way_to_its_seat() -> None:
    async with Rig(ROLLBACK) as rig:
        seat = await given_up_half_way(rig)
        await rig.rounds()
        assert await rig.names() == set(HIGH)
        await rig.bind("high-1", seat)
        rolled_back = rig.coordinator.partly_bound.waiting.rolled_back
        await rig.until(lambda: not rolled_back(rig.resolver_key("high-0")), "it is decided")
        assert await rig.names() == set(HIGH)
        assert rig.coordinator.partly_bound.counted["rolled-back"] == 0


async def test_who_sits_is_rolled_back_once_nobody_is_on_the_way() -> None:
    """Nobody plans for the gang before: who is about to go would be counted as its own."""
    async with Rig(ROLLBACK) as rig:
        await given_up_half_way(rig)
        plans = rig.outcomes("high").count("plan")
        await rig.until_names("high-1")
        assert rig.outcomes("high").count("plan") == plans
        assert rig.coordinator.partly_bound.counted["rolled-back"] == 1
