"""Where each gang stands: one record, which every surface renders. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NotRequired, TypedDict

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from extender.gang.plan.quorum_words import members_there
from extender.gang.plan.schedulers import waits_elsewhere
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.leaving import Obj, after_eviction, leaving, unit_name
from extender.gang.tell.next_steps import (
    NEXT_BY_CODE,
    NEXT_BY_STATE,
    NEXT_ELSEWHERE,
    NEXT_OBSERVED,
    NEXT_UNDECIDED,
    after_refusal,
    members_to_come,
)
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Plan, Victim
from extender.model.texts import counted, rfc3339, some
from extender.settings.cost_order import work_words


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
"""States of a plan under way in words."""

NAMED = 8
"""Victims named in a condition or an event."""
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
    status: NotRequired[GangStatus]
    """Where it stands, as every surface tells it."""


class GangStatus(Struct, frozen=True, rename="camel"):
    """Where one gang stands, for people. What is shown of a gang is rendered from this alone."""

    gang: str
    state: str
    """`running`, `incomplete` and so on, or the state of its plan."""
    what: str
    """A short sentence, with the number that lacks."""
    detail: str = ""
    """More of it."""
    next: str = ""
    """What to do."""
    victims: tuple[str, ...] = ()
    """What is evicted for it, by name, with the work that is lost."""
    ends: float | None = None
    """When that is expected to end, in seconds since the epoch; null where it is not known."""
    priority: int = 0
    members: int = 0
    """Unfinished members."""
    bound: int = 0
    """Members that have a node."""
    pending: int = 0
    """Members that wait for a node."""
    min_count: int = 0
    """How many members must run."""
    seats: int = 0
    """Reservations that no member has taken yet."""
    victims_left: int = 0
    """Victims of its plan that are not gone yet."""
    since: float | None = None
    """When the newest decision was made, in seconds since the epoch; null without one."""
    created: float | None = None
    """When the first of its members was created; null where that is not known."""

    @property
    def reason(self) -> str:
        """What, with its detail."""
        return f"{self.what}; {self.detail}" if self.detail else self.what

    @property
    def text(self) -> str:
        """All of it, as one line."""
        ends = f". Expected to end by {rfc3339(self.ends)}" if self.ends is not None else ""
        return self.reason + ends + (f". Next: {self.next}" if self.next else "")


class Facts(Struct, frozen=True):
    """Pages of the debug API, read one after the other; decisions are newest first."""

    gangs: Sequence[Obj]
    reservations: Sequence[Obj]
    evictions: Sequence[Obj]
    decisions: Sequence[Obj]
    suspended: Mapping[str, str] = {}
    """Gang -> why no plan is made for it, and until when."""
    now: float | None = None
    """Wall clock at which they were read."""

    def preemption(self, gang: str) -> Obj | None:
        """Return the gang's plan under way."""
        return next((plan for plan in self.reservations if plan["gang"] == gang), None)

    def last(self, gang: str, *outcomes: str) -> Obj | None:
        """Return the newest decision about a gang, of these outcomes if any are given."""
        for decision in self.decisions:
            if decision["gang"] == gang and (not outcomes or decision["outcome"] in outcomes):
                return decision
        return None


def under_way(
    plan: Plan,
    state: str,
    seats: Mapping[str, str],
    members: Mapping[str, Pod],
    going: tuple[Iterable[Victim], Iterable[Victim]],
    lasts: float | None = None,
    left: float | None = None,
) -> Obj:
    """Return of a plan under way what a status is made of.

    ``going``: victims not gone yet, and pods that terminated before. ``lasts``: how long it has
    been in its state. ``left``: until its deadline.
    """
    untaken = [(members[uid], node) for uid, node in seats.items()]
    return {
        "gang": str(plan.gang),
        "state": state,
        "stateSeconds": lasts,
        "secondsLeft": left,
        "seats": [{"namespace": p.namespace, "name": p.name, "node": n} for p, n in untaken],
        "victimsLeft": to_builtins(list(going[0])),
        "waitsFor": to_builtins(list(going[1])),
    }


def light(decision: Decision) -> Obj:
    """Return of a decision what a status is made of."""
    return {
        "gang": decision.gang,
        "outcome": str(decision.outcome),
        "verb": str(decision.verb),
        "code": decision.code,
        "message": decision.message,
        "ways": [{"text": way.text} for way in decision.ways],
        "time": decision.time,
    }


def described(gang: Gang, schedulers: Collection[str] = ()) -> DescribedGang:
    """Return a gang as the debug API names it, and as a status is made of it.

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


class GangStatuses:
    """Makes them of one moment's facts."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._preemptions = {str(plan["gang"]): plan for plan in facts.reservations}
        self._robbers = leaving(facts.reservations, facts.evictions)
        self._last: dict[str, Obj] = {}
        for decision in facts.decisions:
            self._last.setdefault(str(decision["gang"]), decision)

    def passes(self, gang: str) -> bool:
        """Whether the status is of this moment alone: more is known than pods and decisions."""
        known = (self._preemptions, self._robbers, self._facts.suspended)
        return any(gang in each for each in known)

    def of(self, gang: Obj) -> GangStatus:
        """Return where a gang stands."""
        key = str(gang["gang"])
        preemption, decision = self._preemptions.get(key), self._last.get(key)
        said = self._said(key, gang, preemption, decision)
        suspended = self._facts.suspended.get(key, "")
        if suspended and said.state in (GangState.REFUSED, GangState.PENDING):
            said = GangStatus(key, GangState.SUSPENDED, suspended, next=NEXT_BY_CODE["suspended"])
        return replace(
            said,
            priority=gang["priorityAsPreemptor"],
            members=gang["members"],
            bound=gang["bound"],
            pending=gang["pending"],
            min_count=gang["minCount"],
            seats=len(preemption["seats"]) if preemption else 0,
            victims_left=len(preemption["victimsLeft"]) if preemption else 0,
            since=decision["time"] if decision else None,
            created=gang.get("created"),
        )

    def _said(
        self, key: str, gang: Obj, preemption: Obj | None, decision: Obj | None
    ) -> GangStatus:
        bound, pending, least = gang["bound"], gang["pending"], gang["minCount"]
        complete = gang.get("complete", bound + pending >= least)
        robber = self._robbers.get(key, "")
        if preemption is not None:
            return self._in_flight(key, preemption)
        if gang["problems"]:
            problem, *more = gang["problems"]
            return GangStatus(
                key, GangState.REPAIR, problem, "; ".join(more), next=NEXT_BY_CODE[Code.CONFLICT]
            )
        if not gang.get("missing", max(0, least - bound)):
            those = counted(pending, "member", "beyond the quorum waits", "beyond the quorum wait")
            return GangStatus(
                key,
                GangState.RUNNING,
                f"{bound} of {counted(least, 'member', 'has', 'have')} a node",
                f"{those} for kube-scheduler" if pending else "",
                NEXT_BY_CODE[Code.NOT_NEEDED],
            )
        if robber and not complete:
            after = after_eviction(self._victims_of(key, robber))
            after = f"nothing: they have their grace period; after that: {after}"
            return GangStatus(
                key, GangState.LEAVING, f"its pods are evicted for {robber}", next=after
            )
        if not complete:
            told = f"{bound + pending} of {counted(least, 'member', 'exists', 'exist')}"
            apart = sum(gang.get(name, 0) for name in ("before", "gated", "lost"))
            others = gang["members"] - apart - bound - pending
            what = gang.get("exist", told)
            if others:
                what += f", {others} more {'terminates' if others == 1 else 'terminate'}"
            return GangStatus(key, GangState.INCOMPLETE, what, next=members_to_come(gang))
        if decision is not None and (refuses(decision, gang) or _tells(decision)):
            return told_of(decision, gang)
        if not gang["startsWhole"]:
            return GangStatus(
                key,
                GangState.PENDING,
                "its members start one by one, kube-scheduler places them",
                next="`kubectl describe pod` says what kube-scheduler waits for",
            )
        if gang.get("elsewhere"):
            return GangStatus(key, GangState.PENDING, gang["elsewhere"], next=NEXT_ELSEWHERE)
        return GangStatus(key, GangState.PENDING, "nothing is decided yet", next=NEXT_UNDECIDED)

    def _in_flight(self, key: str, preemption: Obj) -> GangStatus:
        """Return what a plan under way waits for."""
        going = [*preemption["victimsLeft"], *preemption["waitsFor"]]
        seats, state = preemption["seats"], _known(str(preemption["state"]))
        follows, named = NEXT_BY_STATE.get(state, ""), victims_named(going)
        if state in (GangState.PLANNED, GangState.CHANGING):
            return GangStatus(key, state, PREEMPTION_STATES[state], next=follows, victims=named)
        if state == GangState.OPEN:
            places = [f"{seat['namespace']}/{seat['name']} on {seat['node']}" for seat in seats]
            have = counted(len(seats), "member", "has", "have")
            ends = self._after(preemption.get("secondsLeft"))
            what = f"the room is free, {have} no node yet"
            return GangStatus(key, state, what, some(sorted(places), SHOWN), follows, ends=ends)
        grace = max((pod.get("grace", 0) for pod in going), default=0)
        lost = sum(pod.get("lost", 0) for pod in going)
        errors = [
            f"{unit_name(unit['unit'], going)}: {unit['error']}"
            for unit in self._facts.evictions
            if unit["preemptor"] == preemption["gang"] and unit["error"]
        ]
        details = (
            f"{work_words(lost)} of work are lost" if lost and len(named) > 1 else "",
            f"at most {grace} s of grace" if grace else "",
            f"{counted(len(seats), 'seat', 'is', 'are')} reserved",
            *errors,
        )
        since = preemption.get("stateSeconds")
        return GangStatus(
            key,
            state,
            f"waits for {some(named, SHOWN) or 'no pod'} to end",
            "; ".join(filter(None, details)),
            follows,
            named,
            self._after(None if since is None else grace - since),
        )

    def _after(self, seconds: float | None) -> float | None:
        """Return when something ends; None where that is not known, or over."""
        if self._facts.now is None or seconds is None or seconds < 0:
            return None
        return self._facts.now + seconds

    def _victims_of(self, gang: str, robber: str) -> Sequence[Obj]:
        """Return pods of a gang that another one's plan evicts now; two unknown ones else."""
        preemption = self._preemptions.get(robber)
        left = preemption["victimsLeft"] if preemption is not None else ()
        return [each for each in left if each["gang"] == gang] or [{}, {}]


def victims_named(victims: Iterable[Obj], only: str | None = None) -> tuple[str, ...]:
    """Return victims by gang, and single ones by name, with the work that is lost with each.

    ``only``: those of other namespaces are counted. Who reads of them may not list pods there.
    """
    found: dict[tuple[int, str], list[int]] = {}
    for each in victims:
        gang, namespace = each["gang"], each["namespace"]
        if only is not None and namespace != only:
            key = (2, "other namespaces")
        else:
            key = (0, gang) if gang else (1, f"pod {namespace}/{each['name']}")
        found.setdefault(key, []).append(each.get("lost", 0))
    named = []
    for (kind, name), lost in sorted(found.items()):
        pods = counted(len(lost), "pod")
        cost = f"{work_words(sum(lost))} of work lost" if sum(lost) else ""
        if kind == 2:
            name, pods = f"{pods} of {name}", ""
        both = ", ".join(filter(None, ("" if kind == 1 else pods, cost)))
        named.append(f"{name} ({both})" if both else name)
    return tuple(named)


def status_after(decision: Decision) -> GangStatus:
    """Return what a decision alone says of its gang, for those who may read in its namespace."""
    if decision.outcome is Outcome.PLAN:
        key = GangKey.read(decision.gang)
        return status_of_plan(key, decision.victims, len(decision.seats), decision.time)
    return told_of(light(decision), {"minCount": 0})


def status_of_plan(
    gang: GangKey, victims: Sequence[Victim], seats: int, began: float
) -> GangStatus:
    """Return how a gang stands whose plan is carried out from now on, for its namespace."""
    named = victims_named(to_builtins(victims), gang.namespace)
    grace = max((victim.grace for victim in victims), default=0)
    pods = counted(len(victims), "pod", "is", "are")
    return GangStatus(
        gang=str(gang),
        state=GangState.EVICTING,
        what=f"{pods} being evicted to make room for {counted(seats, 'member')}",
        detail=f"{some(named, NAMED)}; at most {grace} s of grace",
        victims=named,
        ends=began + grace,
        next="nothing to do, nodes are reserved until all members have one",
    )


def told_of(decision: Obj, gang: Obj) -> GangStatus:
    """Return what a gang is told where this decision is the last word."""
    key, message = decision["gang"], str(decision["message"])
    if decision["outcome"] == Outcome.REFUSAL:
        what, _, detail = message.partition("; ")
        return GangStatus(key, GangState.REFUSED, what, detail, after_refusal(decision, gang))
    if decision.get("verb") == Verb.OBSERVE:
        return GangStatus(key, GangState.PENDING, message, next=NEXT_OBSERVED)
    return GangStatus(
        key, GangState.PENDING, "its last plan was given up", message, NEXT_BY_CODE[Code.PENALTY]
    )


def _tells(decision: Obj) -> bool:
    return decision.get("verb") == Verb.OBSERVE or decision["outcome"] == Outcome.GAVE_UP


def _known(state: str) -> str:
    try:
        return GangState(state)
    except ValueError:
        return state
