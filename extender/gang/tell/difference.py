"""What another priority, quorum or cost order makes of a plan, beside the plan as it is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from extender.model.plan import Plan, Refusal, Victim
from extender.model.texts import counted
from extender.settings.cost_order import CostLevel, cost_words


class LevelDifference(Struct, frozen=True):
    """A cost level that both answers count, with its value in each."""

    level: str
    before: int
    after: int


class Difference(Struct, frozen=True):
    """What a change makes of an answer."""

    words: str
    """A sentence."""
    spared: Sequence[Victim]
    """Who goes no more."""
    added: Sequence[Victim]
    """Who goes as well."""
    levels: Sequence[LevelDifference]


def difference(
    before: Plan | Refusal,
    after: Plan | Refusal,
    before_order: Sequence[str] = (),
    after_order: Sequence[str] = (),
) -> Difference:
    """Compare two answers to the same question.

    The orders are those of model.cost_order that the answers were found with. A level that only one
    of them has was not counted for the other answer, which is another thing than 0: it is left out.
    """
    was = before.victims if isinstance(before, Plan) else ()
    now = after.victims if isinstance(after, Plan) else ()
    spared, added = _without(was, now), _without(now, was)
    costs = _costs(before)
    then = _costs(after)
    levels = [
        LevelDifference(level, costs.get(level, 0), then.get(level, 0))
        for level in dict.fromkeys((*costs, *then))
        if costs.get(level, 0) != then.get(level, 0)
        and _counts(level, before_order) == _counts(level, after_order)
    ]
    return Difference(_words(before, after, len(spared), len(added)), spared, added, levels)


def told(found: Difference) -> list[str]:
    """Return a difference as lines of text."""
    lines = [f"what the change makes of it: {found.words}"]
    for sign, victims in (("+", found.added), ("-", found.spared)):
        for victim in victims:
            of = f", {victim.gang}" if victim.gang else ""
            name = f"{victim.namespace}/{victim.name}"
            lines.append(f"  {sign} {name} on {victim.node} (priority {victim.priority}{of})")
    lines += [
        f"  {one.level}: {cost_words(one.level, one.before, one.after)} before, "
        f"{cost_words(one.level, one.after, one.before)} changed"
        for one in found.levels
    ]
    return lines


def _costs(answer: Plan | Refusal) -> dict[str, int]:
    return {cost.level: cost.value for cost in answer.costs} if isinstance(answer, Plan) else {}


def _counts(level: str, order: Sequence[str]) -> bool:
    """Whether an order counts a level, which may be that of one priority."""
    kind, at, _ = level.partition("@")
    if not at:
        return level in order
    by_work = CostLevel.WORK_BY_PRIORITY in order
    return by_work or (kind in ("gangs", "pods") and CostLevel.BY_PRIORITY in order)


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
    total = f"{len(after.victims)} instead of {len(before.victims)}"
    return f"{_pods(added)} more and {spared} fewer would be evicted: {total}."


def _pods(count: int) -> str:
    return counted(count, "pod")
