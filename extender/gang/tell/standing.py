"""Where each gang stands, put together from the pages of the debug API. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from extender.gang.plan.quorum_words import members_there
from extender.model.gang import Gang

Obj = Mapping[str, Any]

FLIGHT_STATES = {
    "planned": "its plan is rehearsed and recorded, nothing is evicted yet",
    "evicting": "evictions are being sent",
    "waiting": "all evictions are sent, victims terminate",
    "open": "the room is there, members take their seats",
    "changing": "its plan does not hold any more, another one is searched for",
}
"""States of a plan in flight (gang.act.book.State) in words."""


class Standing(Struct, frozen=True, rename="camel"):
    """One gang's state; ``state`` is one word, ``why`` a sentence."""

    gang: str
    state: str
    """running, incomplete, leaving, refused, pending (nothing is decided), repair, or a plan's
    state."""
    priority: int
    members: int
    bound: int
    pending: int
    min_count: int
    seats: int
    victims_left: int
    why: str
    since: float | None = None
    """Wall clock of the newest decision, None without one."""


def described(gang: Gang) -> dict[str, object]:
    """Return a gang as the debug API names it, and as ``standings`` wants it."""
    return {
        "gang": str(gang.key),
        "minCount": gang.min_count,
        "sizeKnown": gang.size_known,
        "members": len(gang.members),
        "bound": len(gang.bound),
        "pending": len(gang.pending),
        "missing": gang.missing,
        "complete": gang.complete,
        "exist": members_there(gang, " members"),
        "unit": gang.unit,
        "startsWhole": gang.starts_whole,
        "priorityAsPreemptor": gang.preemptor_priority,
        "priorityAsVictim": gang.victim_priority,
        "problems": gang.problems,
        "unplanned": gang.unplanned,
        "notes": gang.notes,
    }


def refuses(decision: Obj, gang: Obj) -> bool:
    """Whether a decision is a refusal that stands: a definition may have been repaired since."""
    if decision["outcome"] != "refusal":
        return False
    return decision["code"] != "conflict" or bool(gang["problems"] or gang.get("unplanned"))


def standings(
    gangs: Sequence[Obj],
    reservations: Sequence[Obj],
    decisions: Sequence[Obj],
    leaving: Mapping[str, str] = MappingProxyType({}),
) -> list[Standing]:
    """Return where every gang stands, by key; ``decisions`` are newest first.

    ``leaving``: gang -> for which one its pods go now (gang.tell.leaving).
    """
    flights = {str(flight["gang"]): flight for flight in reservations}
    last: dict[str, Obj] = {}
    for decision in decisions:
        last.setdefault(str(decision["gang"]), decision)
    return [
        _standing(gang, flights.get(key), last.get(key), leaving.get(key, ""))
        for gang in gangs
        for key in (str(gang["gang"]),)
    ]


def _standing(gang: Obj, flight: Obj | None, decision: Obj | None, robber: str) -> Standing:
    bound, pending, least = gang["bound"], gang["pending"], gang["minCount"]
    missing = gang.get("missing", max(0, least - bound))
    complete = gang.get("complete", bound + pending >= least)
    if flight is not None:
        state, why = str(flight["state"]), FLIGHT_STATES.get(str(flight["state"]), "")
        if flight["waitsFor"]:
            why += f"; {len(flight['waitsFor'])} pods that terminate already are waited for"
    elif gang["problems"]:
        state, why = "repair", "; ".join(gang["problems"])
    elif not missing:
        state, why = "running", f"{bound} of {least} members have a node"
    elif robber and not complete:
        state, why = "leaving", f"its pods are evicted for {robber}"
    elif not complete:
        state = "incomplete"
        why = gang.get("exist", f"{bound + pending} of {least} members exist")
        if others := gang["members"] - bound - pending:
            why += f", {others} more terminate or are gated"
    elif decision is not None and refuses(decision, gang):
        state, why = "refused", f"{decision['code']}: {decision['message']}"
    elif decision is not None and decision.get("verb") == "observe":
        state, why = "pending", str(decision["message"])
    elif decision is not None and decision["outcome"] == "gave-up":
        state, why = "pending", f"its last plan was given up: {decision['message']}"
    else:
        state, why = "pending", "nothing is decided yet"
        if not gang["startsWhole"]:
            why = "its members start one by one, kube-scheduler places them"
    return Standing(
        gang=str(gang["gang"]),
        state=state,
        priority=gang["priorityAsPreemptor"],
        members=gang["members"],
        bound=bound,
        pending=pending,
        min_count=least,
        seats=len(flight["seats"]) if flight else 0,
        victims_left=len(flight["victimsLeft"]) if flight else 0,
        why=why,
        since=decision["time"] if decision else None,
    )
