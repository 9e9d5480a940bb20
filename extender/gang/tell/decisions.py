"""The last decisions, kept for the debug API. Bounded in number and in bytes."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec
from cachetools import LRUCache
from msgspec import Struct

from extender.gang.tell.ring import Ring
from extender.model.objects import GangKey
from extender.model.plan import Code, Cost, Hold, Plan, Proof, Refusal, Seat, Victim, Way
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

REFUSAL_BYTES = 4 * 1024 * 1024
DECISION_BYTES = 64 * 1024 * 1024
MOST_GANGS = 4096
"""Gangs whose last decision is remembered, so that its repetition is not kept."""
BARE_BYTES = 800
PERSON_BYTES = 400


class Outcome(StrEnum):
    """What became of a gang."""

    PLAN = "plan"
    REFUSAL = "refusal"
    DONE = "done"
    GAVE_UP = "gave-up"
    BROKEN = "broken"
    """A victim gang was evicted in part, and the rest cannot be evicted now."""
    IN_PART = "in-part"
    """Some members were bound, and the rest of the quorum cannot be."""
    OBSERVED = "observed"
    """In observe mode: what became of a gang without us."""


class ObservedEnd(StrEnum):
    """In observe mode: what became of a gang without us."""

    WHOLE = "whole"
    """It had its quorum."""
    GONE = "gone"
    """Its members went away before it had its quorum."""
    BROKEN = "broken"
    """A scheduler's preemption took its quorum, and evicted all of it."""
    HALF_BROKEN = "half-broken"
    """A scheduler's preemption took its quorum, and left some of its members on their nodes."""


DecisionCode = Code | ObservedEnd | Literal[""]
"""Why there is no plan, or what became of the gang in observe mode; "" where neither is told."""


class Verb(StrEnum):
    """Who asked."""

    FILTER = "filter"
    PREEMPT = "preempt"
    BIND = "bind"
    LOOP = "loop"
    """The loop that looks after preemptions and pending gangs."""
    RECOVERY = "recovery"
    """Records of a replica that came before."""
    OBSERVE = "observe"


class Decision(Struct, frozen=True, kw_only=True):
    """One answer to a gang, as a person reads it later."""

    time: float
    """Wall clock, seconds since the epoch."""
    gang: str
    verb: Verb
    """What asked."""
    outcome: Outcome
    """What became of the gang."""
    message: str
    """The same as a sentence."""
    code: DecisionCode = ""
    """Why there is no plan; in observe mode what became of the gang."""
    victims: tuple[Victim, ...] = ()
    """Pods to evict, by descending priority."""
    seats: tuple[Seat, ...] = ()
    """The members' nodes."""
    waits_for: tuple[Victim, ...] = ()
    """Pods that terminate already and whose room is needed."""
    costs: tuple[Cost, ...] = ()
    """The cost, level by level, the most important first."""
    proof: Proof = Proof.NONE
    """What is proved of the cost."""
    explanation: tuple[str, ...] = ()
    """How it came about, line by line."""
    spared: str = ""
    """Which victims more free room would spare."""
    ways: tuple[Way, ...] = ()
    """What would change a refusal."""
    generation: int = 0
    """Generation of the snapshot that was decided on."""
    seconds: float = 0.0
    """How long planning took; with done and gave-up how long the plan was carried out."""


def of_plan(plan: Plan, *, time: float, verb: Verb, seconds: float) -> Decision:
    """Return the decision that a plan is."""
    return Decision(
        time=time,
        gang=str(plan.gang),
        verb=verb,
        outcome=Outcome.PLAN,
        message=f"{counted(len(plan.seats), 'seat')}, "
        f"{counted(len(plan.victims), 'pod')} to evict, {plan.proof}",
        victims=plan.victims,
        seats=plan.seats,
        waits_for=plan.waits_for,
        costs=plan.costs,
        proof=plan.proof,
        explanation=plan.explanation,
        spared=plan.spared,
        generation=plan.generation,
        seconds=seconds,
    )


def of_refusal(refusal: Refusal, *, time: float, verb: Verb, seconds: float) -> Decision:
    """Return the decision that a refusal is."""
    return Decision(
        time=time,
        gang=str(refusal.gang),
        verb=verb,
        outcome=Outcome.REFUSAL,
        code=refusal.code,
        message=refusal.message,
        explanation=refusal.details,
        ways=refusal.ways,
        generation=refusal.generation,
        seconds=seconds,
    )


class SearchInput(Struct, frozen=True):
    """All that a search was given: asked again, it gives the same answer."""

    gang: GangKey
    snapshot: Snapshot
    holds: tuple[Hold, ...]
    masks: Mapping[str, frozenset[str]]
    offered: Mapping[str, frozenset[str]]


class Decisions:
    """The last decisions, newest first. A repeated refusal is not kept twice.

    Refusals have a ring of their own: there may be many a second, and a tenant can cause as many
    as it likes; what was planned, evicted, done and given up stays readable beside them. The
    questions behind the last few searches are kept whole (snapshots share what did not change
    between them), to be downloaded and replayed: the last ones, and the last that led to a plan.
    """

    def __init__(self, size: int = 512, questions: int = 16) -> None:
        self._refusals: Ring[Decision] = Ring(size, REFUSAL_BYTES)
        self._real: Ring[Decision] = Ring(size, DECISION_BYTES)
        self._questions: deque[SearchInput] = deque(maxlen=questions // 2)
        self._planned: deque[SearchInput] = deque(maxlen=questions // 2)
        self._last: LRUCache[str, tuple[str, str, str]] = LRUCache(MOST_GANGS)
        """Gang -> outcome, code and message of its last decision."""
        self._number = 0
        self.forgotten: Counter[str] = Counter()
        """"refusal" or "decision" -> how many made room for later ones."""

    def searched(self, question: SearchInput) -> None:
        """Keep what a search was given."""
        self._questions.appendleft(question)

    @property
    def number(self) -> int:
        """How many were kept so far; another number, another decision."""
        return self._number

    def generations(self) -> set[int]:
        """Return the generations of the snapshots whose questions are kept."""
        return {each.snapshot.generation for each in (*self._questions, *self._planned)}

    def question(self, generation: int) -> SearchInput | None:
        """Return the last question asked on a snapshot of this generation."""
        for question in (*self._questions, *self._planned):
            if question.snapshot.generation == generation:
                return question
        return None

    def add(self, decision: Decision) -> bool:
        """Keep a decision; return False when it only repeats the gang's last one."""
        refused = decision.outcome is Outcome.REFUSAL
        said = (decision.outcome, decision.code, decision.message)
        if refused and self._last.get(decision.gang) == said:
            return False
        self._last[decision.gang] = said
        if decision.outcome is Outcome.PLAN:
            for question in self._questions:
                if question.snapshot.generation == decision.generation and (
                    str(question.gang) == decision.gang
                ):
                    self._planned.appendleft(question)
                    break
        self._number += 1
        ring, kind = (self._refusals, "refusal") if refused else (self._real, "decision")
        gone = ring.add(self._number, decision, _namespace(decision.gang), _size(decision))
        if gone:
            self.forgotten[kind] += gone
        return True

    @property
    def size(self) -> int:
        """Estimated bytes of what is kept, questions aside."""
        return self._refusals.size + self._real.size

    def __iter__(self) -> Iterator[Decision]:
        numbered = heapq.merge(
            self._refusals.newest_first(),
            self._real.newest_first(),
            key=lambda entry: entry[0],
            reverse=True,
        )
        return iter([decision for _, decision in numbered])

    def to_json(self) -> list[Any]:
        """Return JSON-able values, newest first."""
        built: list[Any] = msgspec.to_builtins(list(self))
        return built


def _namespace(gang: str) -> str:
    return GangKey.read(gang).namespace


def _size(decision: Decision) -> int:
    """Estimate a decision's bytes; seats and victims are some hundred each."""
    people = len(decision.victims) + len(decision.seats) + len(decision.waits_for)
    return (
        BARE_BYTES
        + len(decision.message)
        + sum(map(len, decision.explanation))
        + len(decision.spared)
        + sum(len(way.text) for way in decision.ways)
        + PERSON_BYTES * people
    )
