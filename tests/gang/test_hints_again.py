"""Hints that others wait for are written again: a nomination left, a wake-up that met an error.

A nomination that stays keeps room for nobody, and who was held back for a seat and is not woken
waits up to five minutes for kube-scheduler to try it of itself.
"""

from __future__ import annotations

import pytest

from extender.gang.act.notifier import WAKE_ANNOTATION
from extender.sandbox.faults import Fault
from tests.gang.rig import PODS, Rig

CONFLICT = {"status": 409, "reason": "Conflict"}
"""A patch without a version may get one as well: the server gives up after some tries."""
FAILURES = (CONFLICT, {"status": 500}, {"status": 429})


async def single(rig: Rig, *, nominated: str = "") -> None:
    """A pod of no gang that waits beside a protected one, and perhaps is nominated."""
    await rig.pod("low-0", cls="low", on="n0")
    note = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
    await rig.client.patch(f"{PODS}/low-0", note)
    await rig.pod("p", cls="high")
    if nominated:
        status = {"status": {"nominatedNodeName": nominated}}
        await rig.client.patch(f"{PODS}/p/status", status)
    await rig.until(
        lambda: (
            (found := rig.cache.pod_named("default", "p")) is not None
            and found.nominated == nominated
            and bool(rig.cached("low-0").annotations)
        ),
        "both pods are cached",
    )


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_nomination_is_cleared_in_the_end(rig: Rig, failure: dict[str, object]) -> None:
    await single(rig, nominated="n0")
    fault = Fault(times=2, method="PATCH", path="/pods/p/status", **failure)  # type: ignore[arg-type]
    rig.server.faults.plan(fault)
    rig.coordinator.notices.nominations.clear([rig.cached("p")])
    await rig.until(lambda: not rig.cached("p").nominated, "the nomination is cleared")
    assert fault.hits == 2


@pytest.mark.parametrize("failure", FAILURES)
async def test_who_was_held_back_is_woken_in_the_end(rig: Rig, failure: dict[str, object]) -> None:
    await single(rig)
    fault = Fault(times=2, method="PATCH", path="/pods/p", **failure)  # type: ignore[arg-type]
    rig.server.faults.plan(fault)
    rig.coordinator.notices.held_back.note(rig.cached("p"))
    rig.coordinator.notices.held_back.wake_all()
    await rig.until(lambda: WAKE_ANNOTATION in rig.cached("p").annotations, "it is woken")
    assert fault.hits == 2


async def test_a_single_that_gets_no_node_loses_the_nomination_of_a_life_before(rig: Rig) -> None:
    """kube-scheduler clears it when it finds no candidate, and not when we allow it none."""
    await single(rig, nominated="n1")
    assert not (await rig.preempt("p", n0=["low-0"])).candidates
    await rig.until(lambda: not rig.cached("p").nominated, "the nomination is cleared")


async def test_a_single_that_gets_a_node_is_nominated_by_kube_scheduler(rig: Rig) -> None:
    await single(rig, nominated="n1")
    await rig.client.patch(f"{PODS}/low-0", {"metadata": {"annotations": None}})
    await rig.until(lambda: not rig.cached("low-0").annotations, "nobody is protected")
    assert list((await rig.preempt("p", n0=["low-0"])).candidates) == ["n0"]
    await rig.rounds()
    assert rig.cached("p").nominated == "n1"
