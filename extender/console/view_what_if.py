"""A what-if question, and its answer beside the one without the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from extender.console.asking import Answered, WhatIfRequest
from extender.console.picture import Picture
from extender.console.plan_parts import PlanParts, plan_parts
from extender.gang.tell.difference import LevelDifference, difference
from extender.gang.tell.gang_status import GangState
from extender.model.plan import Plan, Refusal, Victim
from extender.settings.cost_order import ORDERS, order_of
from extender.settings.settings import PlanSettings

MOST_GANGS = 200
MOST_LINES = 24
MOST_DIFFERENT = 60


class WhatIfAnswer(Struct, frozen=True):
    """One answer."""

    title: str
    plan: Plan | None
    refusal: Refusal | None
    parts: PlanParts | None
    lines: Sequence[str]


class Diff(Struct, frozen=True):
    """What the changes make of a plan."""

    words: str
    spared: Sequence[Victim]
    """Who goes no more, cut to the first few."""
    spared_count: int
    added: Sequence[Victim]
    added_count: int
    levels: Sequence[LevelDifference]


def what_if(
    picture: Picture,
    settings: PlanSettings,
    asked: WhatIfRequest,
    answered: Answered | None = None,
    problem: str = "",
) -> dict[str, Any]:
    """Return what the page shows: the form, and the answer or the problem if there is one."""
    waiting = [row for row in picture.rows if row.status.state != GangState.RUNNING]
    row = next((row for row in picture.rows if row.key == asked.gang), None)
    answers: list[WhatIfAnswer] = []
    diff = None
    if answered is not None:
        answers.append(_answer(answered.plain, "As it is" if answered.changed else "The answer"))
        if answered.changed is not None:
            answers.append(_answer(answered.changed, _changes(asked)))
            diff = _diff(answered.plain, answered.changed, settings, asked.cost_order)
    return {
        "asked": asked,
        "orders": orders(settings),
        "own_order": settings.cost_order,
        "row": row,
        "waiting": waiting[:MOST_GANGS],
        "waiting_count": len(waiting),
        "answers": answers,
        "diff": diff,
        "problem": problem,
        "most_different": MOST_DIFFERENT,
    }


def _changes(asked: WhatIfRequest) -> str:
    changes = []
    if asked.priority is not None:
        changes.append(f"priority {asked.priority}")
    if asked.min_count is not None:
        changes.append(f"minCount {asked.min_count}")
    if asked.cost_order:
        changes.append(f"cost order {asked.cost_order}")
    return "With " + " and ".join(changes)


def _answer(found: Plan | Refusal, title: str) -> WhatIfAnswer:
    if isinstance(found, Refusal):
        return WhatIfAnswer(title, None, found, None, found.details[:MOST_LINES])
    parts = plan_parts(found.seats, found.victims, found.waits_for, found.costs, found.spared)
    return WhatIfAnswer(title, found, None, parts, found.explanation[:MOST_LINES])


def _diff(
    before: Plan | Refusal, after: Plan | Refusal, settings: PlanSettings, order: str
) -> Diff:
    found = difference(
        before,
        after,
        order_of(settings.cost_order, settings.cost_orders),
        order_of(order or settings.cost_order, settings.cost_orders),
    )
    return Diff(
        words=found.words,
        spared=found.spared[:MOST_DIFFERENT],
        spared_count=len(found.spared),
        added=found.added[:MOST_DIFFERENT],
        added_count=len(found.added),
        levels=found.levels,
    )


def orders(settings: PlanSettings) -> tuple[str, ...]:
    """Return the names of the cost orders that may be asked for: built in and configured."""
    return (*ORDERS, *settings.cost_orders)
