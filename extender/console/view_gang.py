"""One gang: why it is where it is, its plan, its life, its members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from extender.console.capture import Capture, PreemptionSeen
from extender.console.gang_rows import (
    GangReader,
    key_of,
)
from extender.console.missing import Missing
from extender.console.paging import page_of
from extender.console.picture import Picture
from extender.console.plan_parts import PlanParts, plan_parts
from extender.console.query import Query
from extender.console.timeline import timeline
from extender.console.view_observed import beside
from extender.gang.plan.what_if import find_gang
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.errors import InvalidInput
from extender.model.plan import Proof

PAGE = 50
MOST_LINES = 24


class Shown(Struct, frozen=True):
    """A plan, and where it comes from."""

    parts: PlanParts
    title: str
    proof: Proof
    time: float
    generation: int
    preemption: PreemptionSeen | None = None


def gang(picture: Picture, reader: GangReader, query: Query) -> dict[str, Any]:
    """Return what the page shows. Raises Missing."""
    capture = picture.capture
    name = _named(query.text("name"), capture)
    found = reader.gang(name, capture)
    decisions = [one for one in capture.decisions if _concerns(one, name)]
    if found is None and not decisions:
        raise Missing(f"no gang {name!r}: nothing is known of it, and nothing was decided lately")
    preemption = next((one for one in capture.preemptions if str(one.plan.gang) == name), None)
    own = [one for one in decisions if one.gang == name]
    row = next((one for one in picture.rows if one.key == name), None)
    refusal = next((one for one in own[:1] if one.outcome is Outcome.REFUSAL), None)
    members = page_of(found.members if found is not None else (), query.page(), PAGE)
    return {
        "name": name,
        "key": key_of(name),
        "gang": found,
        "row": row,
        "refusal": refusal,
        "refusal_lines": refusal.explanation[:MOST_LINES] if refusal is not None else (),
        "plan": _plan(preemption, own),
        "moments": timeline(found, name, decisions),
        "members": members,
        "held": dict(preemption.seats) if preemption is not None else {},
        "replayable": capture.replayable,
        "beside": beside(capture.observed, name),
    }


def _named(text: str, capture: Capture) -> str:
    """Return the full name; a short one will do while it is clear."""
    if not text:
        raise Missing("no gang is named")
    if key_of(text) is not None:
        return text
    try:
        return str(find_gang(text, capture.snapshot))
    except InvalidInput as problem:
        raise Missing(problem.message) from None


def _concerns(decision: Decision, name: str) -> bool:
    return decision.gang == name or any(victim.gang == name for victim in decision.victims)


def _plan(preemption: PreemptionSeen | None, own: Sequence[Decision]) -> Shown | None:
    if preemption is not None:
        plan = preemption.plan
        left = {victim.uid for victim in preemption.victims}
        parts = plan_parts(
            plan.seats,
            plan.victims,
            plan.waits_for,
            plan.costs,
            plan.spared,
            untaken=preemption.seats.keys(),
            left=left,
            sent=preemption.sent,
        )
        return Shown(parts, "The open plan", plan.proof, 0.0, plan.generation, preemption)
    made = next((one for one in own if one.outcome is Outcome.PLAN), None)
    if made is None:
        return None
    parts = plan_parts(made.seats, made.victims, made.waits_for, made.costs, made.spared)
    title = "What would be done" if made.verb is Verb.OBSERVE else "Its last plan"
    return Shown(parts, title, made.proof, made.time, made.generation)
