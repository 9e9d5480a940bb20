"""A verb waits neither for others' searches nor for its own until kube-scheduler gives it up.

See docs/security.md, row 6.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.gang.controller import answering
from extender.gang.controller.answering import IN_TURN
from extender.gang.tell.decisions import Verb
from extender.model.plan import Code, Refusal
from tests.gang.rig import LOW, Rig, full_cluster
from tests.gang.test_room_of_others import Gate
from tests.gang.test_single_candidates import whole_gang_on_n0

PATIENCE = 30.0
"""Seconds after which a test fails that would wait for ever."""


def endless_patience(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but the wait for other gangs' searches end."""
    monkeypatch.setattr(rig.coordinator.answering._patience, "_seconds", 3600.0)


@pytest.mark.parametrize("verb", [Verb.FILTER, Verb.PREEMPT])
async def test_a_gang_is_answered_while_another_is_planned_and_planned_by_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    monkeypatch.setattr(answering, "TURN_SECONDS", 0.01)
    endless_patience(rig, monkeypatch)
    await full_cluster(rig)
    key, lock = rig.resolver_key("high-0"), rig.coordinator.turns.lock
    async with lock.turn(None):  # another gang's search, which takes long
        loop = asyncio.create_task(rig.coordinator.ensure(key, Verb.LOOP))
        await rig.until(lambda: bool(lock.waiters()), "the loop waits for its turn")
        async with asyncio.timeout(PATIENCE):
            answer = await rig.coordinator.ensure(key, verb)
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.message) == (Code.TURN, IN_TURN)
        assert rig.coordinator.known(key) is None  # the loop looks for gangs without an answer
        assert lock.waiters()
        assert not loop.done()
    assert not isinstance(await loop, Refusal)
    assert rig.coordinator.known(key) in list(rig.coordinator.reservations)


async def test_filter_holds_the_member_back_and_says_why(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "TURN_SECONDS", 0.01)
    endless_patience(rig, monkeypatch)
    await full_cluster(rig)
    async with rig.coordinator.turns.lock.turn(None), asyncio.timeout(PATIENCE):
        answer = await rig.filter("high-0", "n0", "n1")
    assert answer.node_names == []
    assert answer.failed_and_unresolvable.keys() == {"n0", "n1"}
    assert all(IN_TURN in why for why in answer.failed_and_unresolvable.values())


def dear(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Let each search last until the gate is open, and a verb wait a moment only."""
    planning: Any = rig.coordinator
    gate = Gate(planning.thread.plan, after=False)
    monkeypatch.setattr(planning.thread, "plan", gate)
    monkeypatch.setattr(planning.answering._patience, "_seconds", 0.05)
    return gate


@pytest.mark.parametrize("verb", [Verb.FILTER, Verb.PREEMPT])
async def test_a_verb_is_answered_while_its_own_search_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    await rig.stop_rounds()
    await full_cluster(rig)
    key, gate = rig.resolver_key("high-0"), dear(rig, monkeypatch)
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(rig.coordinator.ensure(key, verb) for _ in range(4)))
    assert {(a.code, a.message) for a in answers if isinstance(a, Refusal)} == {
        (Code.TURN, IN_TURN)
    }
    assert gate.reached
    assert not rig.coordinator.turns.lock.waiters()  # one search for all that ask
    gate.opened.set()
    await rig.until(
        lambda: rig.coordinator.reservations.get(key) is not None, "the gang has its plan"
    )


async def test_a_pod_of_no_gang_is_answered_while_its_search_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again later, and finds its plan."""
    await whole_gang_on_n0(rig, 0)
    gate = dear(rig, monkeypatch)
    async with asyncio.timeout(PATIENCE):
        answer = await rig.preempt("p", n0=[*LOW])
    assert answer.candidates == {}
    gate.opened.set()
    uid = rig.cached("p").uid
    await rig.until(
        lambda: rig.coordinator.reservations.of_member(uid) is not None, "the pod has a plan"
    )
    await rig.until_names("p")


async def test_a_pod_of_no_gang_gets_the_nodes_that_break_none_while_its_search_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.pod("single", cls="low", on="n1")
    await whole_gang_on_n0(rig, 1)
    gate = dear(rig, monkeypatch)
    async with asyncio.timeout(PATIENCE):
        answer = await rig.preempt("p", n0=[*LOW], n1=["single"])
    assert list(answer.candidates) == ["n1"]
    gate.opened.set()
    await rig.rounds()
    assert rig.coordinator.reservations.of_member(rig.cached("p").uid) is None


async def test_a_failure_after_the_answer_is_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.stop_rounds()
    await full_cluster(rig)
    gate = dear(rig, monkeypatch)
    with capture_logs() as logs:
        await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.FILTER)
        monkeypatch.setattr(gate, "_work", None)
        gate.opened.set()
        told = "planning failed after its verb was answered"
        await rig.until(lambda: any(line["event"] == told for line in logs), "it is logged")


@pytest.mark.parametrize("verb", ["filter", "preempt"])
async def test_what_a_verb_has_waited_for_its_pod_counts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    await rig.stop_rounds()
    await full_cluster(rig)
    monkeypatch.setattr(
        rig.coordinator.evidence, "now", lambda: rig.coordinator.clocks.monotonic() - 100
    )
    key = rig.resolver_key("high-0")
    if verb == "filter":
        answer = await rig.filter("high-0", "n0", "n1")
        assert all(IN_TURN in why for why in answer.failed_and_unresolvable.values())
    else:
        await rig.preempt("high-0", n0=["low-0"])
    assert rig.coordinator.reservations.get(key) is None
    await rig.until(
        lambda: rig.coordinator.reservations.get(key) is not None, "the gang has its plan"
    )
