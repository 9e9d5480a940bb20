"""Why a gang waits, or who took its room: reason, decision and next step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from extender.gang.plan.schedulers import NO_ASKER
from extender.gang.tell.decisions import Outcome, Verb
from extender.gang.tell.gang_status import GangState, Standing, refuses, standings
from extender.gang.tell.leaving import Obj, after_eviction, leaving, lost_words, unit_name
from extender.model.plan import Code
from extender.model.texts import counted

TRY = "`what-if -f FILE` tries a change without making it"

NEXT_BY_CODE = {
    "infeasible": (
        "`what-if GANG` says what would change it: more room, a smaller quorum and a higher "
        f"priority are tried; {TRY}"
    ),
    "conflict": "repair what is named above; until then no pod is evicted for it, and its pods may "
    "still be victims",
    "not-needed": "nothing: its quorum has nodes",
    "incomplete": "create the members that are missing: look at its Job or JobSet, at quota and "
    "at admission; nothing is evicted before they exist",
    "stale": "look at the server's connection to the API server: /readyz and its log say more",
    "settling": "nothing, it is planned for in a moment; a PodGroup with minCount saves the wait",
    "penalty": "nothing, it is planned for again soon; `decisions GANG` says why its plan failed",
    "booked": "nothing, it starts in its turn; `/debug/limits` says which pods it waits for",
    "unseen": "nothing, kube-scheduler's next attempt decides; if it stays pending, look at the "
    "members' volumes and claims with `kubectl describe pod`",
    "changed": "nothing: it is planned for again with the next attempt",
    "suspended": "repair what made its plans fail, see above; it is planned for again when the "
    "time given is over",
    "turn": "nothing: it is planned for when other namespaces have had theirs",
    "budget": "wait until its namespace may evict again, or plan for fewer victims",
    "not-enforced": "nothing, it is left to kube-scheduler; to have it planned "
    "for, choose its namespace in enforce.namespaces",
    "api": "look at the server's log and its rights (manifests/rbac.yaml)",
}
"""Refusal code -> what to do; a test compares it with the codes that there are."""

NEXT_GATED = (
    "nothing here: the owner of the gates removes them (spec.schedulingGates), Kueue when there is "
    "quota; nothing is evicted before that"
)
NEXT_LOST = (
    "nothing, if that node registers; else the pod is deleted within a minute or two (pod garbage "
    "collection of kube-controller-manager), and a pod without an owner has to be made again"
)
NEXT_ELSEWHERE = (
    "let its pods name a scheduler that calls this extender (schedulerName in their template); for "
    "a plan that is only looked at, name theirs in schedulerNames of an extender that observes"
)

NEXT_BY_STATE: Mapping[str, str] = {
    GangState.PLANNED: "nothing: evictions begin when the plan is recorded",
    GangState.EVICTING: "nothing: the victims are being evicted; `seats GANG` lists them",
    GangState.WAITING: "nothing: the victims have their grace period; `seats GANG` lists them",
    GangState.OPEN: "nothing: kube-scheduler tries its members again; if one stays, `kubectl "
    "describe pod` says what kube-scheduler has against its seat",
    GangState.CHANGING: "nothing: another plan is being made",
}


class Facts(Struct, frozen=True):
    """Pages of the debug API, read one after the other; decisions are newest first."""

    gangs: Sequence[Obj]
    reservations: Sequence[Obj]
    evictions: Sequence[Obj]
    decisions: Sequence[Obj]

    def preemption(self, gang: str) -> Obj | None:
        """Return the gang's plan in flight."""
        return next((plan for plan in self.reservations if plan["gang"] == gang), None)

    def last(self, gang: str, *outcomes: str) -> Obj | None:
        """Return the newest decision about a gang, of these outcomes if any are given."""
        for decision in self.decisions:
            if decision["gang"] == gang and (not outcomes or decision["outcome"] in outcomes):
                return decision
        return None


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
    found = [one for one in facts.gangs if one["gang"] == gang]
    if not found:
        return None
    robbers = leaving(facts.reservations, facts.evictions)
    standing = standings(found, facts.reservations, facts.decisions, robbers)[0]
    reason, follows = _reason(standing, found[0], facts)
    decision = facts.last(gang)
    if standing.state == GangState.LEAVING:
        decision = facts.last(robbers[gang], "plan")
    if standing.state in NEXT_BY_STATE and facts.preemption(gang) is not None:
        decision = facts.last(gang, "plan") or decision
    also = list(found[0]["notes"])
    if standing.state != GangState.RUNNING:
        also += _taken_from(gang, facts)
    return Story(f"gang {gang}", standing.state, reason, decision, follows, tuple(also), gang)


def _reason(standing: Standing, gang: Obj, facts: Facts) -> tuple[str, str]:
    """Return why the gang is where it is, and the next step."""
    preemption = facts.preemption(standing.gang)
    if preemption is not None:
        return standing.why + _errors(preemption, facts), NEXT_BY_STATE.get(standing.state, "")
    if standing.state == GangState.REPAIR:
        return standing.why, NEXT_BY_CODE["conflict"]
    if standing.state == GangState.RUNNING:
        beyond = standing.pending
        those = counted(beyond, "member", "beyond the quorum waits", "beyond the quorum wait")
        more = f"; {those} for kube-scheduler" if beyond else ""
        return standing.why + more, NEXT_BY_CODE["not-needed"]
    if standing.state == GangState.LEAVING:
        return standing.why, _after(standing.gang, facts)
    if standing.state == GangState.INCOMPLETE:
        return standing.why, _members_to_come(gang)
    decision = facts.last(standing.gang)
    if decision is not None and refuses(decision, gang):
        if "preemptionPolicy is Never" in decision["message"]:
            return standing.why, "wait for free room, or give it a PriorityClass that preempts"
        if decision["code"] == Code.INCOMPLETE:
            elsewhere = NO_ASKER in decision["message"]
            return standing.why, NEXT_ELSEWHERE if elsewhere else _members_to_come(gang)
        return standing.why, _ways(decision) or NEXT_BY_CODE.get(
            decision["code"], "see the server's log"
        )
    if decision is not None and decision["outcome"] == Outcome.GAVE_UP:
        return standing.why, NEXT_BY_CODE["penalty"]
    if decision is not None and decision.get("verb") == Verb.OBSERVE:
        return (
            standing.why,
            "nothing: what is observed is left to kube-scheduler",
        )
    if not gang["startsWhole"]:
        return standing.why, "`kubectl describe pod` says what kube-scheduler waits for"
    if gang.get("elsewhere"):
        return standing.why, NEXT_ELSEWHERE
    return standing.why, (
        "wait for kube-scheduler's next attempt; if none comes, compare its pods' schedulerName "
        "with the scheduler that has the extender (`check` compares configurations)"
    )


def _members_to_come(gang: Obj) -> str:
    """Return the next step where too few members can be placed; an old server counts neither."""
    gated, lost = gang.get("gated", 0), gang.get("lost", 0)
    if lost and gang["bound"] + gang["pending"] + lost >= gang["minCount"]:
        return NEXT_LOST
    if gated and gang["bound"] + gang["pending"] + gated >= gang["minCount"]:
        return NEXT_GATED
    return NEXT_BY_CODE["incomplete"]


def _after(gang: str, facts: Facts) -> str:
    """Return what comes when the pods of a gang that is leaving have gone."""
    victims = next((found for _, found in _taking(gang, facts)), [])
    came = after_eviction(victims or [{"owner": None}, {"owner": None}])
    return f"nothing: they have their grace period; after that: {came}"


def _ways(decision: Obj) -> str:
    """Return what would change a refusal; a server of another version does not say."""
    ways = [way["text"] for way in decision.get("ways", ())]
    several = "any of: " if len(ways) > 1 else ""
    return f"{several}{'; '.join(ways)}. {TRY}" if ways else ""


def _errors(preemption: Obj, facts: Facts) -> str:
    """Return what refuses evictions of a plan in flight."""
    going = [*preemption["victimsLeft"], *preemption["waitsFor"]]
    errors = [
        f"{unit_name(unit['unit'], going)}: {unit['error']}"
        for unit in facts.evictions
        if unit["plan"] == preemption["plan"] and unit["error"]
    ]
    return "".join(f"; {error}" for error in errors)


def _taken_from(gang: str, facts: Facts) -> list[str]:
    """Return who evicted the gang's pods, from the newest plan that did."""
    for decision, taken in _taking(gang, facts):
        one = len(taken) == 1
        were = "was chosen" if one else "were chosen"
        chosen = "would be chosen" if decision.get("verb") == Verb.OBSERVE else were
        kind = "a victim" if one else "victims"
        return [
            f"{len(taken)} of its pods {chosen} as {kind} for {decision['gang']}: "
            f"{taken[0]['reason']}{lost_words(taken)}"
        ]
    return []


def _taking(gang: str, facts: Facts) -> Iterator[tuple[Obj, list[Obj]]]:
    """Yield the plans that named members as victims, newest first, with those victims."""
    for decision in facts.decisions:
        taken = [victim for victim in decision["victims"] if victim["gang"] == gang]
        if taken and decision["outcome"] == Outcome.PLAN:
            yield decision, taken
