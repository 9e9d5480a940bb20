"""Who comes to a node while it is in doubt whether its unit goes by our hand goes with the unit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.kube.api_errors import Unavailable
from tests.gang.rig import Rig
from tests.gang.test_whose_hand import (
    goes,
    late_member_sits,
    the_plan_ends,
    unit_of,
    with_a_late_member,
)


@pytest.fixture
def rig(patient: Rig) -> Rig:
    return patient


@pytest.mark.parametrize("sits", ["before the answers", "after them"])
@pytest.mark.parametrize("lost", [False, True])
async def test_the_last_of_the_unit_is_gone_and_no_request_is_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, sits: str, *, lost: bool
) -> None:
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2", cpu="3")
    await rig.gang("low", 2, "low", on="n")
    await rig.pod("low-late", cls="low", group="low", cpu="1", grace=30)
    await rig.gang("high", 2, "high")
    assert (await rig.filter("low-late", "n2")).node_names == ["n2"]
    go_on, delete = asyncio.Event(), rig.own.delete

    async def late(path: str, **named: Any) -> Any:
        answer = await delete(path, **named)
        if path.endswith(("low-0", "low-1")) and not named["dry_run"]:
            await go_on.wait()
            if lost:
                raise Unavailable(0, "Unavailable", "no answer")
        return answer

    monkeypatch.setattr(rig.own, "delete", late)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    both = ("low-0", "low-1")
    await rig.until(lambda: all(rig.cache.pod_named("default", n) is None for n in both), "gone")
    await rig.rounds()
    if sits == "after them":
        go_on.set()
        await rig.rounds()
    await rig.bind("low-late", "n2")
    if sits == "before the answers":
        await rig.until(lambda: bool(rig.cached("low-late").node), "it is bound")
        await rig.rounds()
        go_on.set()
    await rig.until(lambda: goes(rig, "low-late"), "it goes as well")


@pytest.mark.parametrize("restart", [False, True])
async def test_a_request_arrives_that_was_lost_sight_of(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, restart: bool
) -> None:
    """Who had come meanwhile was known to the process alone."""
    await with_a_late_member(rig)
    await asyncio.sleep(2.1)  # it was made before the record for sure, by whole seconds
    delete, requests = rig.own.delete, []

    async def unanswered(path: str, **named: Any) -> Any:
        if not path.endswith("low-0") or named["dry_run"]:
            return await delete(path, **named)
        requests.append((path, named))
        raise Unavailable(0, "Unavailable", "no answer")

    monkeypatch.setattr(rig.own, "delete", unanswered)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(requests) and unit_of(rig).doubtful_until > 0, "it is lost")
    await the_plan_ends(rig)
    await late_member_sits(rig)
    await rig.rounds(2)
    assert [victim.name for _, victim in unit_of(rig).came] == ["low-late"]
    assert await rig.records(), "it says what is owed"
    if restart:
        await rig.restart()
    path, named = requests[-1]
    await rig.client.delete(path, **named)
    await rig.until(lambda: goes(rig, "low-0"), "it goes by our hand")
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "so does the rest")
    await rig.until(lambda: goes(rig, "low-late"), "and who came")
