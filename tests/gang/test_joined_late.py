"""A member that came to a node when its unit had gone in part is in no record of the plan.

It was there when the unit went, so it goes with the rest, also where the process is killed before
it could: the next life finds it in the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from extender.gang.core.record import Others
from extender.gang.core.record_objects import LABEL
from extender.gang.core.reservations import Preemption
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, Rig

REAL_DELETE = "(?!.*dryRun)"
SURVIVORS = ("low-2",)
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Three of "low" run (minCount 3), "low-late" may have n3 and waits, "high" needs two nodes;
    all are a second older than any plan."""
    async with Rig() as rig:
        await rig.nodes(4)
        await rig.classes(low=10, high=100)
        await rig.pod("busy", cls="high", on="n3")
        await rig.gang("low", 3, "low", on="n")
        await rig.pod("low-late", cls="low", group="low", cpu="1")
        await rig.gang("high", 2, "high")
        assert (await rig.filter("low-late", "n3")).node_names == ["n3"]
        newest = max(pod.created for pod in rig.cache.store.pods.by_uid.values())
        await rig.until(lambda: time.time() >= newest + 1.0, "a second has passed")
        yield rig


async def touched(rig: Rig, *refused: str) -> None:
    """Of the unit "low-0" and "low-1" have gone; the others cannot go yet."""
    rig.server.faults.plan(
        Fault(10_000, "DELETE", f"({'|'.join(refused)}){REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until_names("busy", "low-late", *SURVIVORS, *HIGH)


async def until_no_records(rig: Rig) -> None:
    while await rig.records():
        await asyncio.sleep(0.01)


async def next_life(rig: Rig) -> None:
    """What the plan was for is over, and nothing is refused any more."""
    await rig.kill()
    rig.server.faults.clear()
    await rig.remove("high-0")


async def test_it_goes_when_it_was_bound_while_nobody_looked(rig: Rig) -> None:
    await touched(rig, *SURVIVORS)
    await next_life(rig)
    await rig.bind("low-late", "n3")
    await rig.start()
    await rig.until_names("busy", "high-1")
    await until_no_records(rig)


@pytest.mark.parametrize("off", [-3600.0, 3600.0])
async def test_it_goes_whatever_the_clock_of_the_life_before_said(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    """That clock was an hour behind: the member seemed to be made since the record, and stayed."""
    keeper = rig.coordinator.preemptions.keeper
    write = keeper.write

    async def written(preemption: Preemption, made: float, others: Others) -> None:
        await write(preemption, made + off, others)

    monkeypatch.setattr(keeper, "write", written)
    await touched(rig, *SURVIVORS)
    await next_life(rig)
    await rig.bind("low-late", "n3")
    await rig.start()
    await rig.until_names("busy", "high-1")
    await until_no_records(rig)


async def test_it_goes_when_it_was_seen_and_could_not_be_evicted_in_time(rig: Rig) -> None:
    await touched(rig, *SURVIVORS, "low-late")
    uid = rig.cached("low-late").uid
    await rig.bind("low-late", "n3")
    await rig.until(lambda: rig.coordinator.preemptions.evictions.takes(uid), "it has to go")
    await next_life(rig)
    await rig.start()
    await rig.until_names("busy", "high-1")
    await until_no_records(rig)


async def test_it_goes_though_all_others_of_its_unit_are_gone(rig: Rig) -> None:
    await touched(rig, *SURVIVORS, "low-late")
    await next_life(rig)
    await rig.bind("low-late", "n3")
    for name in SURVIVORS:
        await rig.remove(name)
    await rig.start()
    await rig.until_names("busy", "high-1")
    await until_no_records(rig)


async def test_it_stays_where_the_next_life_of_its_gang_has_begun(rig: Rig) -> None:
    """Who came since has a node: the gang is being made anew, with the old member in it."""
    await touched(rig, *SURVIVORS)
    await next_life(rig)
    await rig.bind("low-late", "n3")
    for name in SURVIVORS:
        await rig.remove(name)
    await rig.pod("low-new", cls="low", group="low", cpu="0", on="n3")
    await rig.start()
    await rig.until_names("busy", "low-late", "low-new", "high-1")
    await until_no_records(rig)


async def test_it_stays_so_where_the_record_was_made_again_since(rig: Rig) -> None:
    """A record that is gone is written anew, or put back: it is younger than it says."""
    await touched(rig, *SURVIVORS)
    await next_life(rig)
    await rig.bind("low-late", "n3")
    for name in SURVIVORS:
        await rig.remove(name)
    await rig.pod("low-new", cls="low", group="low", cpu="0", on="n3")
    (record,) = await rig.records()
    meta = {key: record["metadata"][key] for key in ("name", "labels", "annotations")}
    await rig.client.delete(f"{CONFIG_MAPS}/{meta['name']}")
    made = time.time()
    while time.time() < made + 2.0:  # the new member is older by more than a second
        await asyncio.sleep(0.1)
    await rig.client.create(CONFIG_MAPS, {**record, "metadata": meta})
    await rig.start()
    await until_no_records(rig)
    assert await rig.names() == {"busy", "low-late", "low-new", "high-1"}


async def test_a_waiting_member_stays(rig: Rig) -> None:
    await touched(rig, *SURVIVORS)
    await next_life(rig)
    await rig.start()
    await rig.until_names("busy", "low-late", "high-1")
    await until_no_records(rig)


async def test_it_goes_when_it_is_all_that_an_ended_plan_owes(rig: Rig) -> None:
    """The record of an ended plan says who is owed, and of which unit."""
    await touched(rig, *SURVIVORS, "low-late")
    uid = rig.cached("low-late").uid
    await rig.bind("low-late", "n3")
    await rig.until(lambda: rig.coordinator.preemptions.evictions.takes(uid), "it has to go")
    rig.server.faults.clear()
    rig.server.faults.plan(Fault(10_000, "DELETE", f"low-late{REAL_DELETE}", status=503))
    await rig.until_names("busy", "low-late", *HIGH)
    await rig.remove("high-0")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    while [each["metadata"]["labels"][LABEL] for each in await rig.records()] != ["finishing"]:
        await asyncio.sleep(0.01)
    await rig.kill()
    rig.server.faults.clear()
    await rig.start()
    await rig.until_names("busy", "high-1")
    await until_no_records(rig)
