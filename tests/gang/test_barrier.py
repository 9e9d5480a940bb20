"""The bind barrier: members of a plan get their nodes together, or nobody gets one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from extender.gang.core import refused_seats
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.errors import UnknownPod
from extender.sandbox.faults import Fault
from extender.settings.settings import BindSettings
from tests.gang.held_binds import (
    BINDING,
    GANG,
    HELD,
    args,
    bind,
    bound_to,
    held,
    holding,
    nodes_of,
    preemption,
    seated,
    stay,
)
from tests.gang.rig import FAST, Rig

SHORT = replace(FAST, bind=BindSettings(enabled=True, hold_seconds=0.3, post_seconds=1.0))
FEW = replace(FAST, bind=BindSettings(enabled=True, max_held=1))


@pytest.fixture
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with holding(getattr(request, "param", HELD)) as one:
        yield one


# -- all together ---------------------------------------------------------------------------


async def test_nobody_is_bound_before_the_last_has_arrived(rig: Rig) -> None:
    seats = await seated(rig)
    first = [bind(rig, name, seats[name]) for name in GANG[:2]]
    await held(rig, 2)
    assert await nodes_of(rig) == bound_to(seats)
    (shown,) = rig.coordinator.bindings.describe()
    assert shown["missing"] == ["default/g-2"]
    last = bind(rig, "g-2", seats["g-2"])
    assert await asyncio.gather(*first, last) == ["", "", ""]
    assert await nodes_of(rig) == seats
    await rig.until(lambda: rig.outcomes("g")[-1] == "done", "the plan is done")
    assert rig.coordinator.bindings.barriers["opened"] == 1
    assert rig.coordinator.bindings.describe() == []


async def test_a_bind_that_is_asked_for_again_is_answered_once_it_is_done(rig: Rig) -> None:
    seats = await seated(rig)
    first = bind(rig, "g-0", seats["g-0"])
    await held(rig, 1)
    again = bind(rig, "g-0", seats["g-0"])
    assert "again" in await first
    rest = [bind(rig, name, seats[name]) for name in GANG[1:]]
    assert await asyncio.gather(again, *rest) == ["", "", ""]
    await rig.until(lambda: bool(rig.cached("g-0").node), "the cache has it")
    assert await bind(rig, "g-0", seats["g-0"]) == ""
    assert "already" in await bind(rig, "g-0", "n9")


async def test_a_pod_of_no_gang_is_bound_at_once(rig: Rig) -> None:
    await rig.pod("plain", cpu="1")
    await rig.filter("plain", "n0")
    assert await bind(rig, "plain", "n0") == ""
    assert (await nodes_of(rig))["plain"] == "n0"


async def test_a_gang_of_one_is_bound_at_once_and_not_rehearsed(rig: Rig) -> None:
    seats = await seated(rig, 1)
    assert await bind(rig, "g-0", seats["g-0"]) == ""
    asked = [path for method, path in rig.server.requests if "binding" in path]
    assert len(asked) == 1


# -- one can no longer come -------------------------------------------------------------------


async def test_a_member_that_is_deleted_lets_nobody_through(rig: Rig) -> None:
    seats = await seated(rig)
    first = [bind(rig, name, seats[name]) for name in GANG[:2]]
    await held(rig, 2)
    await rig.remove("g-2")
    for error in await asyncio.gather(*first):
        assert "no member is bound" in error
        assert "g-2 went away" in error
    assert set((await nodes_of(rig)).values()) == {""}


async def test_a_node_that_is_gone_lets_nobody_through_and_the_plan_is_changed(rig: Rig) -> None:
    seats = await seated(rig)
    first = [bind(rig, name, seats[name]) for name in GANG[:2]]
    await held(rig, 2)
    old = preemption(rig)
    await rig.client.delete(f"/api/v1/nodes/{seats['g-2']}")
    for error in await asyncio.gather(*first):
        assert "no member is bound" in error
        assert "is gone" in error
    await rig.until(
        lambda: preemption(rig) is not old and preemption(rig).state is PreemptionState.OPEN,
        "another plan is open",
    )
    assert seats["g-2"] not in preemption(rig).seats.values()
    assert set((await nodes_of(rig)).values()) == {""}


@pytest.mark.parametrize("rig", [SHORT], indirect=True)
async def test_who_does_not_come_in_time_is_named_and_seats_are_kept(rig: Rig) -> None:
    seats = await seated(rig)
    errors = await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG[:2]])
    assert all("no member is bound" in each and "g-2 did not arrive" in each for each in errors)
    assert preemption(rig).state is PreemptionState.OPEN
    assert len(preemption(rig).seats) == 3
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]


async def test_a_caller_that_leaves_is_not_counted_as_arrived(rig: Rig) -> None:
    """kube-scheduler has given the pod up, and what it had reserved for it."""
    seats = await seated(rig)
    leaves = asyncio.Event()

    async def gone() -> None:
        await leaves.wait()

    first = bind(rig, "g-0", seats["g-0"], gone)
    second = bind(rig, "g-1", seats["g-1"])
    await held(rig, 2)
    leaves.set()
    assert "left" in await first
    third = bind(rig, "g-2", seats["g-2"])
    await held(rig, 2)
    assert await nodes_of(rig) == bound_to(seats)
    back = bind(rig, "g-0", seats["g-0"])
    assert list(await asyncio.gather(back, second, third)) == ["", "", ""]


async def test_a_cancelled_call_is_not_counted_either(rig: Rig) -> None:
    seats = await seated(rig)
    first = bind(rig, "g-0", seats["g-0"])
    await held(rig, 1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await held(rig, 0)


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (422, "Invalid"), (409, "Conflict")]
)
async def test_a_binding_that_would_be_refused_is_known_before_anybody_is_bound(
    rig: Rig, status: int, reason: str
) -> None:
    seats = await seated(rig)
    path = BINDING.format("g-1") + ".*dryRun"
    fault = rig.server.faults.plan(
        Fault(times=100, method="POST", path=path, status=status, reason=reason)
    )
    errors = await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG])
    assert all("no member is bound" in each and "g-1" in each for each in errors), errors
    assert await nodes_of(rig) == bound_to(seats)
    assert fault.hits
    fault.times = 0
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]


async def test_the_term_ends_while_binds_are_held(rig: Rig) -> None:
    seats = await seated(rig)
    first = bind(rig, "g-0", seats["g-0"])
    await held(rig, 1)
    rig.coordinator.bindings.stop("this replica does not lead any more")
    assert "does not lead" in await first
    assert "does not lead" in await bind(rig, "g-1", seats["g-1"])
    assert await nodes_of(rig) == bound_to(seats)


async def test_killed_with_binds_held_nobody_is_bound_and_the_next_life_goes_on(rig: Rig) -> None:
    seats = await seated(rig)
    first = [bind(rig, name, seats[name]) for name in GANG[:2]]
    await held(rig, 2)
    await rig.restart()
    await asyncio.gather(*first)
    assert await nodes_of(rig) == bound_to(seats)
    again = {name: (await rig.filter(name, *seats.values())).node_names for name in GANG}
    assert again == {name: [node] for name, node in seats.items()}
    assert await asyncio.gather(*[bind(rig, name, seats[name]) for name in GANG]) == ["", "", ""]


# -- errors of the question -------------------------------------------------------------------


async def test_another_node_than_the_seat_is_an_error(rig: Rig) -> None:
    seats = await seated(rig)
    assert f"its seat is on {seats['g-0']}" in await bind(rig, "g-0", seats["g-1"])
    assert rig.coordinator.bindings.barrier.count == 0


async def test_a_member_without_a_plan_is_not_bound(rig: Rig) -> None:
    await rig.group("g", 2, "high")
    await rig.pod("g-0", cls="high", group="g")
    await rig.until(lambda: rig.cache.pod_named("default", "g-0") is not None)
    assert "no open plan has a seat" in await bind(rig, "g-0", "n0")
    assert (await nodes_of(rig))["g-0"] == ""


async def test_a_pod_made_anew_is_never_bound_by_an_old_call(rig: Rig) -> None:
    await rig.pod("plain", cpu="1")
    await rig.until(lambda: rig.cache.pod_named("default", "plain") is not None)
    old = args(rig, "plain", "n0")
    await rig.remove("plain")
    await rig.pod("plain", cpu="1")
    await rig.until(lambda: rig.cache.pod(old.uid) is None, "the old pod is not cached any more")
    with pytest.raises(UnknownPod):
        await rig.verbs.bind(old, stay)
    assert (await nodes_of(rig))["plain"] == ""


async def test_a_pod_made_anew_that_the_cache_has_not_seen_is_refused_by_the_api(rig: Rig) -> None:
    await rig.pod("plain", cpu="1")
    await rig.until(lambda: rig.cache.pod_named("default", "plain") is not None)
    rig.server.faults.stall()
    old = args(rig, "plain", "n0")
    await rig.remove("plain")
    await rig.pod("plain", cpu="1")
    assert "another pod's" in (await rig.verbs.bind(old, stay)).error
    assert (await nodes_of(rig))["plain"] == ""


# -- while some are held ----------------------------------------------------------------------


async def test_a_seat_that_was_refused_once_is_changed_while_others_are_held(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those held are assumed on their nodes, so kube-scheduler may have no node left for which it
    would ask about the member whose seat it has refused: it does not ask again."""
    monkeypatch.setattr(refused_seats, "MISSED_SECONDS", 0.3)
    seats = await seated(rig)
    first = [bind(rig, name, seats[name]) for name in GANG[:2]]
    await held(rig, 2)
    old = preemption(rig)
    await rig.filter("g-2", seats["g-0"])
    for error in await asyncio.gather(*first):
        assert "does not accept g-2" in error
    await rig.until(
        lambda: preemption(rig) is not old and preemption(rig).state is PreemptionState.OPEN,
        "another plan is open",
    )
    assert preemption(rig).seats[rig.cached("g-2").uid] != seats["g-2"]


@pytest.mark.parametrize("rig", [FEW], indirect=True)
async def test_more_than_may_be_held_are_refused(rig: Rig) -> None:
    seats = await seated(rig)
    first = bind(rig, "g-0", seats["g-0"])
    await held(rig, 1)
    assert "bind.maxHeld" in await bind(rig, "g-1", seats["g-1"])
    assert rig.coordinator.bindings.barrier.count == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize("rig", [FEW], indirect=True)
async def test_who_is_the_last_to_come_is_not_held_and_so_never_one_too_many(rig: Rig) -> None:
    """Nor is a member that is held already and asks again."""
    seats = await seated(rig, 2)
    first = bind(rig, "g-0", seats["g-0"])
    await held(rig, 1)
    again = bind(rig, "g-0", seats["g-0"])
    assert "again" in await first
    assert await bind(rig, "g-1", seats["g-1"]) == ""
    assert await again == ""
    assert await nodes_of(rig) == seats


async def test_a_stale_cache_lets_no_member_through(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = await seated(rig)
    monkeypatch.setattr(rig.coordinator, "stale", lambda: "the cache is stale")
    assert "stale" in await bind(rig, "g-0", seats["g-0"])
    assert rig.coordinator.bindings.barrier.count == 0


async def test_nothing_is_posted_by_who_does_not_lead_any_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = await seated(rig)
    monkeypatch.setattr(rig.coordinator.bindings, "_leadership", SimpleNamespace(acts=False))
    calls = [bind(rig, name, seats[name]) for name in GANG]
    await held(rig, 3)
    rig.coordinator.bindings.tick()
    rig.coordinator.bindings.stop("this replica does not lead any more")
    assert all("no member is bound" in error for error in await asyncio.gather(*calls))
    assert await nodes_of(rig) == bound_to(seats)
    assert not [path for method, path in rig.server.requests if path.endswith("/binding")]
