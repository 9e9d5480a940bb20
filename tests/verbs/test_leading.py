"""Only the replica that leads answers, and only within one term."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.model.errors import NotReady
from extender.verbs.leading import LeadersVerbs
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority
from extender.wire.preempt_json import NodeVictims, PreemptArgs, PreemptResult
from tests.gang.world import pod

QUESTION = FilterArgs(pod("p"), ["n0"])


class Leader:
    """A candidate that leads until told otherwise."""

    identity = "a"
    epoch = 0

    def __init__(self) -> None:
        self.acts = True
        self.asked = 0

    def describe(self) -> str:
        return "another replica leads: b"

    def note_asked(self) -> None:
        self.asked += 1


class Answers:
    """Verbs of one term; ``during`` happens while they are at work."""

    def __init__(self, during: Any = lambda: None, error: str = "") -> None:
        self.during = during
        self.error = error

    async def filter(self, args: FilterArgs) -> FilterResult:
        self.during()
        return FilterResult(args.node_names)

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        return [HostPriority("n0", 7)]

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        return PreemptResult(args.candidates)

    def stopping(self) -> None:
        self.during()

    async def bind(self, args: BindArgs, gone: Any) -> BindResult:
        self.during()
        return BindResult(self.error)


def verbs(leader: Leader, present: list[Any]) -> LeadersVerbs:
    return LeadersVerbs(lambda: present[-1], leader)


async def test_leader_answers_and_is_told_that_it_was_asked() -> None:
    leader = Leader()
    answer = await verbs(leader, [Answers()]).filter(QUESTION)
    assert answer.node_names == ["n0"]
    assert leader.asked == 1


async def test_standby_refuses_and_is_told_that_it_was_asked() -> None:
    leader = Leader()
    leader.acts = False
    with pytest.raises(NotReady, match="another replica leads: b"):
        await verbs(leader, [Answers()]).filter(QUESTION)
    assert leader.asked == 1


async def test_answer_that_outlives_its_term_is_not_given() -> None:
    leader = Leader()

    def lose() -> None:
        leader.acts = False

    with pytest.raises(NotReady):
        await verbs(leader, [Answers(lose)]).filter(QUESTION)


async def test_answer_of_an_earlier_term_is_not_given_in_the_next() -> None:
    leader = Leader()
    present: list[Any] = []
    present.append(Answers(lambda: present.append(Answers())))
    with pytest.raises(NotReady):
        await verbs(leader, present).filter(QUESTION)


@pytest.mark.parametrize("leads", [True, False])
async def test_what_breaks_off_with_the_term_is_no_error_of_its_own(*, leads: bool) -> None:
    leader = Leader()

    def break_off() -> None:
        leader.acts = leads
        raise RuntimeError("cannot schedule new futures after shutdown")

    with pytest.raises(RuntimeError if leads else NotReady):
        await verbs(leader, [Answers(break_off)]).filter(QUESTION)


BINDING = BindArgs("p", "ns", "u", "n0")


async def gone() -> None:
    """The caller never goes away."""
    await asyncio.Event().wait()


async def test_who_is_asked_to_bind_is_told_that_it_was_asked() -> None:
    leader = Leader()
    assert await verbs(leader, [Answers()]).bind(BINDING, gone) == BindResult("")
    assert leader.asked == 1


async def test_a_pod_that_was_bound_is_told_so_whoever_leads_and_a_refusal_is_not() -> None:
    for error in ("", "not now"):
        leader = Leader()

        def lose(leader: Leader = leader) -> None:
            leader.acts = False

        asked = verbs(leader, [Answers(lose, error)]).bind(BINDING, gone)
        if error:
            with pytest.raises(NotReady):
                await asked
        else:
            assert await asked == BindResult("")


async def test_each_verb_gives_the_answer_of_the_term() -> None:
    asked = verbs(Leader(), [Answers()])
    assert await asked.prioritize(QUESTION) == [HostPriority("n0", 7)]
    candidates = {"n0": NodeVictims(("u",))}
    answer = await asked.preempt(PreemptArgs(pod("p"), candidates))
    assert answer.candidates == candidates


def test_binds_that_are_held_are_told_that_the_process_stops() -> None:
    told: list[bool] = []
    verbs(Leader(), [Answers(lambda: told.append(True))]).stopping()
    assert told
