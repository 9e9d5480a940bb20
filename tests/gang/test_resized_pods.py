"""Pods that are resized in place while a plan holds seats (KEP-1287)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.plan.new_room import MOST_NODES, room_came
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import FAST, HIGH, LOW, PODS, Rig, full_cluster
from tests.gang.test_room_of_others import Gate
from tests.gang.world import node, pod, snapshot


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(FAST) as made:
        await made.nodes(2)
        await made.classes(low=1, high=100)
        yield made


async def asks_for(rig: Rig, name: str, cpu: str) -> None:
    """Change what a pod asks for, and wait until that is seen."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    await rig.client.patch(f"{PODS}/{name}", {"spec": {"containers": [container]}})
    wanted = ("cpu", int(cpu) * 1000)
    await rig.until(lambda: wanted in rig.cached(name).requests, f"{name} asks for {cpu}")


async def opened(rig: Rig) -> Preemption:
    """Seats of the gang "high", open, none of them taken."""
    await rig.gang("high", 2, "high")
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(preemption, Preemption)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    return preemption


async def test_nobody_is_seated_when_another_member_has_outgrown_its_seat(rig: Rig) -> None:
    """The seats are open, and no node has changed: the gang would start in part."""
    await opened(rig)
    await asks_for(rig, "high-1", "5")
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
    assert "there is no other plan" in rig.messages("high")


async def test_a_plan_is_compared_when_a_pod_beside_its_seat_grows(rig: Rig) -> None:
    await rig.pod("beside", cls="high", cpu="1", on="n0")
    preemption = await opened(rig)
    assert set(preemption.seats.values()) == {"n0", "n1"}
    await asks_for(rig, "beside", "2")
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
    assert "there is no other plan" in rig.messages("high")


async def test_a_seat_takes_what_its_member_asks_for_now(rig: Rig) -> None:
    """Another plan counted on the room beside the old seat, and evicted for it (seed 601791)."""
    preemption = await opened(rig)
    await rig.nodes(1, first=2)
    await asks_for(rig, "high-1", "4")
    uid = rig.cached("high-1").uid
    held = {hold.uid: dict(hold.requests)["cpu"] for hold in rig.coordinator.reservations.holds()}
    assert held[uid] == 4000
    assert dict(preemption.pods[uid].requests)["cpu"] == 4000


async def test_members_that_need_less_spare_the_victims(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They fit beside them before anybody had gone (KEP-1287)."""
    await full_cluster(rig)
    keeper: Any = rig.coordinator.executor._keeper
    gate = Gate(keeper.write, after=False)
    monkeypatch.setattr(keeper, "write", gate)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: gate.reached, "its record is about to be written")
    for name in HIGH:
        await asks_for(rig, name, "1")
    gate.opened.set()
    await rig.until(
        lambda: any(
            preemption.state is PreemptionState.OPEN for preemption in rig.coordinator.reservations
        ),
        "the seats are open",
    )
    assert {*LOW} <= await rig.names()


def test_room_on_a_node_beyond_the_first_ones_is_seen_by_one_that_asks_for_less() -> None:
    """Of many nodes only some are looked at: those that have changed first."""
    nodes = [node(f"n{i:03}") for i in range(MOST_NODES + 50)]
    full = [pod(f"b{each.name}", on=each.name, cpu=4) for each in nodes]
    big, small = pod("m", cpu=3), pod("m", cpu=2)
    before = snapshot(nodes, [*full, big])
    last = nodes[-1].name
    now = replace(before, bound={**before.bound, last: ()}, pending={big.uid: small})
    assert room_came({big.uid: small}, {big.uid: "n000"}, before, now, [], []) == last
