"""Seats are firm from the first member's answer to the last: no gang starts in part."""

from __future__ import annotations

import asyncio

from extender.gang.core.preemption import ANSWER_SECONDS
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.wire.filter_json import FilterArgs
from tests.gang.rig import Rig


async def seated(rig: Rig) -> tuple[Preemption, str]:
    """A gang of two on two free nodes, its first member on its way; return also its node."""
    await rig.gang("high", 2, "high")
    answer = await rig.filter("high-0", "n0", "n1")
    assert len(answer.node_names) == 1
    return next(iter(rig.coordinator.reservations)), answer.node_names[0]


async def test_no_more_urgent_pod_comes_between_two_members_of_a_gang(rig: Rig) -> None:
    preemption, node = await seated(rig)
    await rig.pod("urgent", cls="top")
    answer = await rig.filter("urgent", "n0", "n1")
    assert answer.node_names == []
    assert f"held for {preemption.key}" in answer.failed_and_unresolvable["n0"]
    await rig.bind("high-0", node)
    other = ({"n0", "n1"} - {node}).pop()
    assert (await rig.filter("urgent", other)).node_names == []
    assert (await rig.filter("high-1", other)).node_names == [other]
    await rig.bind("high-1", other)
    await rig.until(lambda: not len(rig.coordinator.reservations), "the gang sits")


async def test_what_a_pod_was_told_before_the_first_answer_does_not_stand(rig: Rig) -> None:
    await rig.pod("small", cls="top", cpu="1")
    await rig.pod("urgent", cls="top")
    await rig.gang("high", 2, "high")
    await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert (await rig.filter("small", "n0", "n1")).node_names == ["n0", "n1"]
    await rig.bind("small", "n0")
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: bool(rig.cached("small").node) and not preemption.doubted, "it sits")
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    for name in ("n0", "n1"):
        assert len((await rig.filter("high-0", "n0", "n1")).node_names) == 1
        assert (await rig.filter("urgent", name)).node_names == []


async def test_seats_of_members_that_went_nowhere_keep_nobody_more_urgent_away(rig: Rig) -> None:
    preemption, _ = await seated(rig)
    await rig.pod("urgent", cls="top")
    assert (await rig.filter("urgent", "n0", "n1")).node_names == []
    before = rig.coordinator.reservations.version
    preemption.answered_at -= ANSWER_SECONDS
    rig.coordinator.executor.tick()
    assert rig.coordinator.reservations.version > before  # who was refused for it is answered anew
    assert (await rig.filter("urgent", "n0", "n1")).node_names == ["n0", "n1"]


async def test_a_member_that_asks_again_before_the_seats_open_makes_them_firm_no_more(
    rig: Rig,
) -> None:
    preemption, _ = await seated(rig)
    preemption.enter(PreemptionState.CHANGING, rig.coordinator.clocks.monotonic())
    before = rig.coordinator.reservations.version
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    assert not preemption.binding
    assert rig.coordinator.reservations.version > before


async def test_a_gang_that_grows_while_it_is_seated_keeps_its_seats(rig: Rig) -> None:
    """Its size is stated nowhere: the plan is for who was there. One more fits nowhere."""
    ray = {"ray.io/cluster": "grows", "ray.io/node-type": "worker"}
    for name in ("ray-0", "ray-1"):
        await rig.pod(name, cls="high", labels=ray)
    await rig.until(lambda: rig.cache.pod_named("default", "ray-1") is not None, "both are there")
    async with asyncio.timeout(rig.patience):  # no other comes, and they are planned
        while not (answer := await rig.filter("ray-0", "n0", "n1")).node_names:
            await asyncio.sleep(0.05)
    (node,) = answer.node_names
    (preemption,) = rig.coordinator.reservations
    await rig.pod("ray-2", cls="high", labels=ray)
    await rig.until(lambda: rig.cache.pod_named("default", "ray-2") is not None, "one more")
    await rig.bind("ray-0", node)
    await rig.until(lambda: bool(rig.cached("ray-0").node), "the first sits")
    preemption.doubted = True
    rig.coordinator.executor.tick()
    other = ({"n0", "n1"} - {node}).pop()
    assert (await rig.filter("ray-1", "n0", "n1")).node_names == [other]
    await rig.bind("ray-1", other)
    await rig.until(lambda: not len(rig.coordinator.reservations), "both sit")


async def test_what_is_held_for_others_is_told_without_their_names(rig: Rig) -> None:
    preemption, _ = await seated(rig)
    await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "spy"}})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    pods = "/api/v1/namespaces/spy/pods"
    await rig.client.create(
        pods, {"metadata": {"name": "spy"}, "spec": {"containers": [container]}}
    )
    await rig.until(lambda: rig.cache.pod_named("spy", "spy") is not None, "spy")
    spy = rig.cache.pod_named("spy", "spy")
    assert spy is not None
    answer = await rig.verbs.filter(FilterArgs(spy, ["n0", "n1"]))
    told = " ".join({**answer.failed, **answer.failed_and_unresolvable}.values())
    assert "held for 1 of other namespaces" in told
    assert preemption.key.name not in told


async def test_room_taken_from_seats_that_yield_is_not_missed_by_firm_ones() -> None:
    """A pod of no gang may have what seats of a gang hold of whose members none sits. That gang's
    plan ends; a gang beside it whose first member sits goes on to its last."""
    async with Rig() as rig:
        await rig.nodes(1, cpu=12)
        await rig.classes(high=100, top=1000)
        for name in ("first", "second"):
            await rig.gang(name, 2, "high")
            await rig.coordinator.ensure(rig.resolver_key(f"{name}-0"), Verb.LOOP)
        assert len(rig.coordinator.reservations) == 2
        assert (await rig.filter("first-0", "n0")).node_names == ["n0"]
        await rig.bind("first-0", "n0")
        await rig.until(lambda: bool(rig.cached("first-0").node), "the first member sits")
        await rig.pod("urgent", cls="top")
        assert (await rig.filter("urgent", "n0")).node_names == ["n0"]
        await rig.bind("urgent", "n0")
        await rig.until(lambda: "gave-up" in rig.outcomes("second"), "it is the second's room")
        assert "gave-up" not in rig.outcomes("first")
        assert (await rig.filter("first-1", "n0")).node_names == ["n0"]
        await rig.bind("first-1", "n0")
        await rig.until(lambda: "done" in rig.outcomes("first"), "the first gang sits")


async def test_a_member_that_goes_and_is_not_needed_takes_no_other_members_seat_along(
    wide: Rig,
) -> None:
    await wide.group("high", 2, "high")
    for i in range(3):
        await wide.pod(f"high-{i}", cls="high", group="high")
    await wide.until(lambda: wide.cache.pod_named("default", "high-2") is not None, "three")
    nodes = [f"n{i}" for i in range(4)]
    (first,) = (await wide.filter("high-0", *nodes)).node_names
    (preemption,) = wide.coordinator.reservations
    assert len(preemption.seats) == 3
    await wide.bind("high-0", first)
    await wide.until(lambda: len(preemption.seats) == 2, "one sits")
    await wide.remove("high-2")
    await wide.until(lambda: wide.cache.pod_named("default", "high-2") is None, "one goes")
    assert list(wide.coordinator.reservations) == [preemption]
    assert (await wide.filter("high-1", *nodes)).node_names == list(preemption.seats.values())
    await wide.bind("high-1", preemption.seats[wide.cached("high-1").uid])
    await wide.until(lambda: not len(wide.coordinator.reservations), "the other sits")
    assert "all 2 members are bound" in wide.messages("high")


async def test_a_member_that_goes_and_was_needed_ends_the_plan(rig: Rig) -> None:
    preemption, node = await seated(rig)
    await rig.bind("high-0", node)
    await rig.until(lambda: len(preemption.seats) == 1, "one sits")
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.reservations), "its plan is over")
    assert "high-1 went away before it was bound" in rig.messages("high")
