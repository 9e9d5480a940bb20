"""The last decisions, kept for the debug API. Bounded in number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from extender.model.objects import GangKey
from extender.model.plan import Cost, Hold, Plan, Refusal, Seat, Victim
from extender.model.snapshot import Snapshot


class Outcome(StrEnum):
    """What became of a gang."""

    PLAN = "plan"
    REFUSAL = "refusal"
    DONE = "done"
    GAVE_UP = "gave-up"
    BROKEN = "broken"
    """A victim gang has gone in part, and the rest cannot be evicted now."""


class Decision(Struct, frozen=True, kw_only=True):
    """One answer to a gang, as a person reads it later."""

    time: float
    """Wall clock, seconds since the epoch."""
    gang: str
    verb: str
    """Who asked: filter, preempt, loop, recovery."""
    outcome: Outcome
    message: str
    code: str = ""
    victims: tuple[Victim, ...] = ()
    seats: tuple[Seat, ...] = ()
    waits_for: tuple[Victim, ...] = ()
    costs: tuple[Cost, ...] = ()
    proof: str = ""
    explanation: tuple[str, ...] = ()
    generation: int = 0
    seconds: float = 0.0
    """How long planning took, or (done, gave-up) how long the plan was in flight."""


def of_plan(plan: Plan, *, time: float, verb: str, seconds: float) -> Decision:
    """Return the decision that a plan is."""
    return Decision(
        time=time,
        gang=str(plan.gang),
        verb=verb,
        outcome=Outcome.PLAN,
        message=f"{len(plan.seats)} seats, {len(plan.victims)} pods to evict, {plan.proof}",
        victims=plan.victims,
        seats=plan.seats,
        waits_for=plan.waits_for,
        costs=plan.costs,
        proof=plan.proof,
        explanation=plan.explanation,
        generation=plan.generation,
        seconds=seconds,
    )


def of_refusal(refusal: Refusal, *, time: float, verb: str, seconds: float) -> Decision:
    """Return the decision that a refusal is."""
    return Decision(
        time=time,
        gang=str(refusal.gang),
        verb=verb,
        outcome=Outcome.REFUSAL,
        code=refusal.code,
        message=refusal.message,
        explanation=refusal.details,
        generation=refusal.generation,
        seconds=seconds,
    )


class Question(Struct, frozen=True):
    """All that a search was given: asked again, it gives the same answer."""

    gang: GangKey
    snapshot: Snapshot
    holds: tuple[Hold, ...]
    masks: Mapping[str, frozenset[str]]
    offered: Mapping[str, frozenset[str]]


class Decisions:
    """A ring of decisions, newest first. A repeated refusal replaces the one before it.

    The questions behind the last few searches are kept whole (snapshots share
    what did not change between them), to be downloaded and replayed.
    """

    def __init__(self, size: int = 512, questions: int = 16) -> None:
        self._ring: deque[Decision] = deque(maxlen=size)
        self._questions: deque[Question] = deque(maxlen=questions)

    def searched(self, question: Question) -> None:
        """Keep what a search was given."""
        self._questions.appendleft(question)

    def question(self, generation: int) -> Question | None:
        """Return the last question asked on a snapshot of this generation."""
        for question in self._questions:
            if question.snapshot.generation == generation:
                return question
        return None

    def add(self, decision: Decision) -> bool:
        """Keep a decision; return False when it only repeats the gang's last one."""
        if decision.outcome is Outcome.REFUSAL:
            for kept in self._ring:
                if kept.gang == decision.gang:
                    if (kept.outcome, kept.code, kept.message) == (
                        decision.outcome,
                        decision.code,
                        decision.message,
                    ):
                        return False
                    break
        self._ring.appendleft(decision)
        return True

    def __iter__(self) -> Iterator[Decision]:
        return iter(list(self._ring))

    def to_json(self) -> list[Any]:
        """Return JSON-able values, newest first."""
        built: list[Any] = msgspec.to_builtins(list(self._ring))
        return built
