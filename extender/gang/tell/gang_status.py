"""Where each gang stands, put together from the pages of the debug API. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TypedDict

from msgspec import Struct

from extender.gang.plan.quorum_words import members_there
from extender.gang.plan.schedulers import waits_elsewhere
from extender.gang.tell.decisions import Outcome, Verb
from extender.gang.tell.leaving import Obj
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.plan import Code
from extender.model.texts import counted, some


class GangState(StrEnum):
    """Where a gang stands, in one word: what it waits for, or the state of its plan."""

    RUNNING = "running"
    INCOMPLETE = "incomplete"
    LEAVING = "leaving"
    """Its pods are evicted for another gang."""
    REFUSED = "refused"
    SUSPENDED = "suspended"
    """Its plans failed again and again. Told where that is known, which is in the console."""
    PENDING = "pending"
    """Nothing is decided."""
    REPAIR = "repair"
    """Something about it has to be repaired by a person."""
    PLANNED = PreemptionState.PLANNED.value
    EVICTING = PreemptionState.EVICTING.value
    WAITING = PreemptionState.WAITING.value
    OPEN = PreemptionState.OPEN.value
    CHANGING = PreemptionState.CHANGING.value


PREEMPTION_STATES: Mapping[str, str] = {
    PreemptionState.PLANNED: "its plan is being checked and recorded, nothing is evicted yet",
    PreemptionState.EVICTING: "evictions are being sent",
    PreemptionState.WAITING: "all evictions are sent, victims terminate",
    PreemptionState.OPEN: "the room is free, members are being bound",
    PreemptionState.CHANGING: "its plan no longer holds, another one is being made",
}
"""States of a plan in flight in words."""

SHOWN = 3
"""Pods, or gangs, named in a sentence; ``seats`` lists them all."""


class DescribedGang(TypedDict):
    """A gang as the debug API shows it."""

    gang: str
    minCount: int
    """How many members must run."""
    sizeKnown: bool
    """Whether the minimum is declared. Otherwise all members that are there count."""
    created: float | None
    """When its first member was created, in seconds since the epoch; null without a member."""
    members: int
    """Unfinished members."""
    before: int
    """Members of an earlier owner of the same name. They do not count."""
    bound: int
    """Members that have a node, do not terminate, and count for the minimum."""
    pending: int
    """Members that wait for a node."""
    gated: int
    """Members that scheduling gates keep from being scheduled."""
    lost: int
    """Members on a node that is no longer there. They do not count."""
    missing: int
    """Members that have to be created before it can start."""
    complete: bool
    """Whether enough members are there."""
    exist: str
    """How many members are there, in words."""
    unit: str
    """`all`: it is evicted completely or not at all. `single`: pod by pod."""
    startsWhole: bool
    """Whether no member gets a node before enough of them can."""
    priorityAsPreemptor: int
    """The priority with which it evicts."""
    priorityAsVictim: int
    """The priority up to which it is protected."""
    problems: tuple[str, ...]
    """What is wrong with its definition: it is not planned, and its pods are single victims."""
    unplanned: tuple[str, ...]
    """Why it is not planned although its definition is right."""
    notes: tuple[str, ...]
    """What was assumed, for example about a size that is not declared."""
    elsewhere: str
    """Which other scheduler its members wait for; else empty."""


class Standing(Struct, frozen=True, rename="camel"):
    """One gang's state; ``why`` is a sentence."""

    gang: str
    state: str
    """A GangState; of a plan in flight, what a server of another version may call it."""
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
    created: float | None = None
    """Wall clock of the first of its members that are there; None where a server does not say."""


def described(gang: Gang, schedulers: Collection[str] = ()) -> DescribedGang:
    """Return a gang as the debug API names it, and as ``standings`` wants it.

    ``schedulers``: those whose pods are planned for; none where that is not known.
    """
    return {
        "gang": str(gang.key),
        "minCount": gang.min_count,
        "sizeKnown": gang.size_known,
        "created": min((pod.created for pod in gang.members), default=None),
        "members": len(gang.members),
        "before": len(gang.before),
        "bound": len(gang.seated),
        "pending": len(gang.pending),
        "gated": len(gang.gated),
        "lost": len(gang.lost),
        "missing": gang.missing,
        "complete": gang.complete,
        "exist": members_there(gang, "member"),
        "unit": gang.unit,
        "startsWhole": gang.starts_whole,
        "priorityAsPreemptor": gang.preemptor_priority,
        "priorityAsVictim": gang.victim_priority,
        "problems": gang.problems,
        "unplanned": gang.unplanned,
        "notes": gang.notes,
        "elsewhere": waits_elsewhere(gang, schedulers),
    }


def refuses(decision: Obj, gang: Obj) -> bool:
    """Whether a decision is a refusal that stands: a definition may have been repaired since."""
    if decision["outcome"] != Outcome.REFUSAL:
        return False
    return decision["code"] != Code.CONFLICT or bool(gang["problems"] or gang.get("unplanned"))


def standings(
    gangs: Sequence[Obj],
    reservations: Sequence[Obj],
    decisions: Sequence[Obj],
    leaving: Mapping[str, str] = MappingProxyType({}),
) -> list[Standing]:
    """Return where every gang stands, by key; ``decisions`` are newest first.

    ``leaving``: gang -> for which one its pods go now (gang.tell.leaving).
    """
    preemptions = {str(preemption["gang"]): preemption for preemption in reservations}
    last: dict[str, Obj] = {}
    for decision in decisions:
        last.setdefault(str(decision["gang"]), decision)
    return [
        _standing(gang, preemptions.get(key), last.get(key), leaving.get(key, ""))
        for gang in gangs
        for key in (str(gang["gang"]),)
    ]


def _known(state: str) -> str:
    try:
        return GangState(state)
    except ValueError:
        return state


def _in_flight(preemption: Obj) -> str:
    """Return what a plan in flight waits for."""
    going = [*preemption["victimsLeft"], *preemption["waitsFor"]]
    seats, state = preemption["seats"], preemption["state"]
    if state in (GangState.PLANNED, GangState.CHANGING):
        return PREEMPTION_STATES[state]
    if state == GangState.OPEN:
        named = [f"{seat['namespace']}/{seat['name']} on {seat['node']}" for seat in seats]
        have = counted(len(seats), "member", "has", "have")
        return f"the room is free, {have} no node yet: {some(sorted(named), SHOWN)}"
    gangs = Counter(pod["gang"] for pod in going if pod["gang"])
    named = [f"{name} ({counted(count, 'pod')})" for name, count in sorted(gangs.items())]
    named += sorted(f"pod {pod['namespace']}/{pod['name']}" for pod in going if not pod["gang"])
    grace = max((pod.get("grace", 0) for pod in going), default=0)
    most = f", with at most {grace} s of grace" if grace else ""
    reserved = counted(len(seats), "seat", "is", "are")
    return f"waits for {some(named, SHOWN) or 'no pod'} to end{most}. {reserved} reserved"


def _standing(gang: Obj, preemption: Obj | None, decision: Obj | None, robber: str) -> Standing:
    state: str
    bound, pending, least = gang["bound"], gang["pending"], gang["minCount"]
    missing = gang.get("missing", max(0, least - bound))
    complete = gang.get("complete", bound + pending >= least)
    if preemption is not None:
        state, why = _known(str(preemption["state"])), _in_flight(preemption)
    elif gang["problems"]:
        state, why = GangState.REPAIR, "; ".join(gang["problems"])
    elif not missing:
        state = GangState.RUNNING
        why = f"{bound} of {counted(least, 'member', 'has', 'have')} a node"
    elif robber and not complete:
        state, why = GangState.LEAVING, f"its pods are evicted for {robber}"
    elif not complete:
        state = GangState.INCOMPLETE
        told = f"{bound + pending} of {counted(least, 'member', 'exists', 'exist')}"
        why = gang.get("exist", told)
        apart = sum(gang.get(name, 0) for name in ("before", "gated", "lost"))
        others = gang["members"] - apart - bound - pending
        if others:
            why += f", {others} more {'terminates' if others == 1 else 'terminate'}"
    elif decision is not None and refuses(decision, gang):
        state, why = GangState.REFUSED, f"{decision['code']}: {decision['message']}"
    elif decision is not None and decision.get("verb") == Verb.OBSERVE:
        state, why = GangState.PENDING, str(decision["message"])
    elif decision is not None and decision["outcome"] == Outcome.GAVE_UP:
        state, why = GangState.PENDING, f"its last plan was given up: {decision['message']}"
    else:
        state, why = GangState.PENDING, gang.get("elsewhere") or "nothing is decided yet"
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
        seats=len(preemption["seats"]) if preemption else 0,
        victims_left=len(preemption["victimsLeft"]) if preemption else 0,
        why=why,
        since=decision["time"] if decision else None,
        created=gang.get("created"),
    )
