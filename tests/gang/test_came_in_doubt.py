"""All of a unit is gone and no request for it is answered: who comes to a node meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from extender.kube.api_errors import Unavailable
from tests.gang.rig import LOW, Rig
from tests.gang.test_whose_hand import goes, late_member_sits, the_plan_ends


@pytest.fixture
def rig(patient: Rig) -> Rig:
    return patient


class Answers:
    """Those to the evictions of "low", which are held until they are let go."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch, *, lost: bool = False) -> None:
        self.let_go = asyncio.Event()
        self.given: Counter[str] = Counter()
        delete = rig.own.delete

        async def late(path: str, **named: Any) -> Any:
            answer = await delete(path, **named)
            if path.endswith(LOW) and not named["dry_run"]:
                await self.let_go.wait()
                self.given[path] += 1
                if lost:
                    raise Unavailable(0, "Unavailable", "no answer")
            return answer

        monkeypatch.setattr(rig.own, "delete", late)


async def gone_unanswered(rig: Rig) -> None:
    """Both of "low" are evicted and gone; low-late may have n2 and waits."""
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2", cpu="3")
    await rig.gang("low", 2, "low", on="n")
    await rig.pod("low-late", cls="low", group="low", cpu="1", grace=30)
    await rig.gang("high", 2, "high")
    assert (await rig.filter("low-late", "n2")).node_names == ["n2"]
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: not any(rig.cache.pod_named("default", n) for n in LOW), "both gone")
    await rig.rounds()


@pytest.mark.parametrize("sits", ["before the answers", "after them"])
@pytest.mark.parametrize("lost", [False, True])
async def test_it_goes_as_well(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, sits: str, *, lost: bool
) -> None:
    answers = Answers(rig, monkeypatch, lost=lost)
    await gone_unanswered(rig)
    if sits == "before the answers":
        await late_member_sits(rig)
        await rig.rounds()
        answers.let_go.set()
    else:
        answers.let_go.set()
        await rig.rounds()
        await rig.bind("low-late", "n2")
    await rig.until(lambda: goes(rig, "low-late"), "it goes as well")


async def test_nobody_goes_for_a_plan_whose_record_is_gone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was owed when its plan ended; then an answer came."""
    answers = Answers(rig, monkeypatch)
    await gone_unanswered(rig)
    await late_member_sits(rig)
    await rig.rounds()
    await the_plan_ends(rig)
    while await rig.records():
        await asyncio.sleep(0.05)
    answers.let_go.set()
    await rig.until(lambda: answers.given.total() == 2, "both are answered")
    await rig.rounds(2)
    assert not goes(rig, "low-late")
