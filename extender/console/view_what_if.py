"""A what-if question, and its answer beside the one without the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from extender.console.asking import Answered, Asked
from extender.console.picture import Picture
from extender.console.plan_parts import PlanParts, plan_parts
from extender.model.plan import Plan, Refusal, Victim

MOST_GANGS = 200
MOST_LINES = 24
MOST_DIFFERENT = 60


class Answer(Struct, frozen=True):
    """One answer."""

    title: str
    plan: Plan | None
    refusal: Refusal | None
    parts: PlanParts | None
    lines: Sequence[str]


class LevelDiff(Struct, frozen=True):
    """A cost level of both plans."""

    level: str
    before: int
    after: int


class Diff(Struct, frozen=True):
    """What the changes make of a plan."""

    words: str
    spared: Sequence[Victim]
    """Who goes no more, cut to the first few."""
    spared_count: int
    added: Sequence[Victim]
    added_count: int
    levels: Sequence[LevelDiff]


def what_if(
    picture: Picture,
    asked: Asked,
    answered: Answered | None = None,
    problem: str = "",
) -> dict[str, Any]:
    """Return what the page shows: the form, and the answer or the problem if there is one."""
    waiting = [row for row in picture.rows if row.state != "running"]
    row = next((row for row in picture.rows if row.key == asked.gang), None)
    answers: list[Answer] = []
    diff = None
    if answered is not None:
        answers.append(_answer(answered.plain, "As it is" if answered.changed else "The answer"))
        if answered.changed is not None:
            answers.append(_answer(answered.changed, _changes(asked)))
            diff = _diff(answered.plain, answered.changed)
    return {
        "asked": asked,
        "row": row,
        "waiting": waiting[:MOST_GANGS],
        "waiting_count": len(waiting),
        "answers": answers,
        "diff": diff,
        "problem": problem,
        "most_different": MOST_DIFFERENT,
    }


def _changes(asked: Asked) -> str:
    changes = []
    if asked.priority is not None:
        changes.append(f"priority {asked.priority}")
    if asked.min_count is not None:
        changes.append(f"minCount {asked.min_count}")
    return "With " + " and ".join(changes)


def _answer(found: Plan | Refusal, title: str) -> Answer:
    if isinstance(found, Refusal):
        return Answer(title, None, found, None, found.details[:MOST_LINES])
    parts = plan_parts(found.seats, found.victims, found.waits_for, found.costs)
    return Answer(title, found, None, parts, found.explanation[:MOST_LINES])


def _diff(before: Plan | Refusal, after: Plan | Refusal) -> Diff:
    was = before.victims if isinstance(before, Plan) else ()
    now = after.victims if isinstance(after, Plan) else ()
    spared = _without(was, now)
    added = _without(now, was)
    costs = {cost.level: cost.value for cost in before.costs} if isinstance(before, Plan) else {}
    then = {cost.level: cost.value for cost in after.costs} if isinstance(after, Plan) else {}
    levels = [
        LevelDiff(level, costs.get(level, 0), then.get(level, 0))
        for level in dict.fromkeys((*costs, *then))
        if costs.get(level, 0) != then.get(level, 0)
    ]
    return Diff(
        words=_words(before, after, len(spared), len(added)),
        spared=spared[:MOST_DIFFERENT],
        spared_count=len(spared),
        added=added[:MOST_DIFFERENT],
        added_count=len(added),
        levels=levels,
    )


def _without(some: Sequence[Victim], others: Sequence[Victim]) -> list[Victim]:
    names = {victim.uid for victim in others}
    return [victim for victim in some if victim.uid not in names]


def _words(before: Plan | Refusal, after: Plan | Refusal, spared: int, added: int) -> str:
    if isinstance(before, Refusal) and isinstance(after, Refusal):
        return "Refused either way."
    if isinstance(before, Refusal):
        return f"It would run, and {_pods(added)} would be evicted for it."
    if isinstance(after, Refusal):
        return "It would not run any more."
    if not spared and not added:
        return f"The same {_pods(len(before.victims))} would be evicted."
    return f"{_pods(added)} more and {spared} fewer would be evicted: {_total(before, after)}."


def _total(before: Plan, after: Plan) -> str:
    return f"{len(after.victims)} instead of {len(before.victims)}"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
