"""A verb does not wait for other gangs' searches until kube-scheduler gives it up."""

from __future__ import annotations

import asyncio

import pytest

from extender.gang.act import answering
from extender.gang.act.answering import IN_TURN
from extender.gang.tell.decisions import Verb
from extender.model.plan import Code, Refusal
from tests.gang.rig import Rig, full_cluster

PATIENCE = 30.0
"""Seconds after which a test fails that would wait for ever."""


@pytest.mark.parametrize("verb", [Verb.FILTER, Verb.PREEMPT])
async def test_a_gang_is_answered_while_another_is_planned_and_planned_by_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    monkeypatch.setattr(answering, "TURN_SECONDS", 0.01)
    await full_cluster(rig)
    key, lock = rig.resolver_key("high-0"), rig.coordinator._planning.turns.lock
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
    assert rig.coordinator.known(key) in list(rig.coordinator.book)


async def test_filter_holds_the_member_back_and_says_why(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "TURN_SECONDS", 0.01)
    await full_cluster(rig)
    async with rig.coordinator._planning.turns.lock.turn(None), asyncio.timeout(PATIENCE):
        answer = await rig.filter("high-0", "n0", "n1")
    assert answer.node_names == []
    assert answer.failed_and_unresolvable.keys() == {"n0", "n1"}
    assert all(IN_TURN in why for why in answer.failed_and_unresolvable.values())
