"""Why a gang waits, or which gang took its room: its status, and the decision behind it. Pure."""

from __future__ import annotations

from msgspec import Struct

from extender.gang.tell.decisions import Outcome, Verb
from extender.gang.tell.gang_status import Facts, GangState, GangStatuses
from extender.gang.tell.leaving import Obj, leaving, lost_words
from extender.gang.tell.next_steps import NEXT_BY_STATE
from extender.model.texts import rfc3339


class Story(Struct, frozen=True):
    """An answer to "why": what about whom, the decision behind it, and what to do."""

    subject: str
    state: str
    reason: str
    decision: Obj | None = None
    next: str = ""
    also: tuple[str, ...] = ()
    gang: str = ""
    """The gang that it is about, or that the pod is a member of, by its key; "" for none."""


def story_of_gang(gang: str, facts: Facts) -> Story | None:
    """Return the story of a gang by its key as text, None when the server knows no such gang."""
    found = next((one for one in facts.gangs if one["gang"] == gang), None)
    if found is None:
        return None
    status = GangStatuses(facts).of(found)
    decision = facts.last(gang)
    if status.state == GangState.LEAVING:
        robber = leaving(facts.reservations, facts.evictions)[gang]
        decision = facts.last(robber, "plan")
    if status.state in NEXT_BY_STATE and facts.preemption(gang) is not None:
        decision = facts.last(gang, "plan") or decision
    ends = [] if status.ends is None else [f"expected to end by {rfc3339(status.ends)}"]
    also = [*filter(None, [status.detail]), *ends, *found["notes"]]
    if status.state != GangState.RUNNING:
        also += _taken_from(gang, facts)
    subject = f"gang {gang}"
    return Story(subject, status.state, status.what, decision, status.next, tuple(also), gang)


def _taken_from(gang: str, facts: Facts) -> list[str]:
    """Return which gang evicted the gang's pods, from the newest plan that did."""
    for decision in facts.decisions:
        taken = [victim for victim in decision["victims"] if victim["gang"] == gang]
        if not taken or decision["outcome"] != Outcome.PLAN:
            continue
        one = len(taken) == 1
        were = "was chosen" if one else "were chosen"
        chosen = "would be chosen" if decision.get("verb") == Verb.OBSERVE else were
        kind = "a victim" if one else "victims"
        return [
            f"{len(taken)} of its pods {chosen} as {kind} for {decision['gang']}: "
            f"{taken[0]['reason']}{lost_words(taken)}"
        ]
    return []
