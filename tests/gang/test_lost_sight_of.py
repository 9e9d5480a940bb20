"""A member that comes to its node while a request for its unit is lost sight of, and may arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from extender.kube.api_errors import Unavailable
from tests.gang.rig import PODS, Rig, refuse
from tests.gang.test_whose_hand import (
    GRACE,
    goes,
    late_member_sits,
    the_plan_ends,
    unit_of,
    with_a_late_member,
)


@pytest.fixture
def rig(patient: Rig) -> Rig:
    return patient


async def lost(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, readable: bool = True
) -> Callable[[], Awaitable[None]]:
    """No DELETE of low-0 is answered, and none arrives before what is returned is called: then all
    of its gang go, low-late too."""
    delete, get, requests = rig.own.delete, rig.own.get, []

    async def unanswered(path: str, **named: Any) -> Any:
        if not path.endswith("low-0") or named["dry_run"]:
            return await delete(path, **named)
        requests.append((path, named))
        raise Unavailable(0, "Unavailable", "no answer")

    async def read(path: str, *args: Any, **named: Any) -> Any:
        if requests and not readable and path.endswith("low-0"):
            raise Unavailable(0, "Unavailable", "no answer")
        return await get(path, *args, **named)

    monkeypatch.setattr(rig.own, "delete", unanswered)
    monkeypatch.setattr(rig.own, "get", read)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(
        lambda: bool(requests) and not (unit := unit_of(rig)).undecided and unit.doubtful_until > 0,
        "it is lost sight of",
    )

    async def arrives() -> None:
        path, named = requests[-1]  # an earlier one may be of an older version of the pod
        await rig.client.delete(path, **named)
        await rig.until(lambda: goes(rig, "low-0"), "it goes by our hand")
        rig.server.faults.clear()
        await rig.until(lambda: goes(rig, "low-1"), "so does the rest")
        await rig.until(lambda: goes(rig, "low-late"), "and who came")

    return arrives


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize("before", [True, False])
async def test_who_comes_while_a_request_is_lost_sight_of_goes_with_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, readable: bool, before: bool
) -> None:
    """It was left alone where it came after the answer was given up."""
    await with_a_late_member(rig)
    arrives = await lost(rig, monkeypatch, readable=readable)
    if before:
        await late_member_sits(rig)
    await the_plan_ends(rig)
    if not before:
        await late_member_sits(rig)
    await rig.rounds()
    await arrives()


async def test_who_is_let_in_while_a_request_is_lost_sight_of_goes_with_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made after the plan had ended, and nothing was known to be owed."""
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2", cpu="2")
    await rig.gang("low", 2, "low", on="n", grace=GRACE)
    await rig.gang("high", 2, "high")
    refuse(rig, "low-1")
    arrives = await lost(rig, monkeypatch)
    await the_plan_ends(rig)
    await rig.rounds()
    await rig.pod("low-late", cls="low", group="low", cpu="1", grace=GRACE)
    assert (await rig.filter("low-late", "n2")).node_names == ["n2"]
    await late_member_sits(rig)
    await arrives()


async def test_a_quorum_that_was_let_in_meanwhile_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of ours arrives: its user deletes one of four, and two are enough."""
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2", cpu="1")
    await rig.gang("low", 2, "low", on="n", grace=GRACE)
    await rig.gang("high", 2, "high")
    refuse(rig, "low-1")
    await lost(rig, monkeypatch)
    await the_plan_ends(rig)
    await rig.rounds()
    for name in ("low-2", "low-3"):
        await rig.pod(name, cls="low", group="low", cpu="1", grace=GRACE)
        assert (await rig.filter(name, "n2")).node_names == ["n2"]
        await rig.bind(name, "n2")
    await rig.until(lambda: all(rig.cached(f"low-{i}").node for i in (2, 3)), "both sit")
    await rig.client.delete(f"{PODS}/low-0")
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "it counts as ours")
    await rig.rounds()
    assert not goes(rig, "low-2")
    assert not goes(rig, "low-3")


async def test_who_came_goes_with_the_rest_after_a_restart(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who had come meanwhile was known to the process alone."""
    await with_a_late_member(rig)
    await asyncio.sleep(2.1)  # it was made before the record for sure, by whole seconds
    arrives = await lost(rig, monkeypatch)
    await the_plan_ends(rig)
    await late_member_sits(rig)
    await rig.rounds(2)
    assert [victim.name for _, victim in unit_of(rig).came] == ["low-late"]
    assert await rig.records(), "it says what is owed"
    await rig.restart()
    await arrives()
