"""What to do about a gang that waits, by its refusal or the state of its plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from extender.gang.plan.schedulers import NO_ASKER
from extender.gang.tell.leaving import Obj
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Code

TRY = "`what-if -f FILE` tries a change without making it"

NEXT_BY_CODE = {
    "infeasible": (
        "`what-if GANG` says what would change it: more room, a smaller quorum and a higher "
        f"priority are tried; {TRY}"
    ),
    "conflict": "repair what is named above; until then no pod is evicted for it, and its pods may "
    "still be victims",
    "not-needed": "no action is needed: its quorum has nodes",
    "incomplete": "create the members that are missing: look at its Job or JobSet, at quota and "
    "at admission; nothing is evicted before they exist",
    "stale": "look at the server's connection to the API server: /readyz and its log say more",
    "settling": "no action is needed: it is planned for in a moment; a PodGroup with minCount "
    "saves the wait",
    "penalty": "no action is needed: it is planned for again soon; `decisions GANG` says why its "
    "plan failed",
    "booked": "no action is needed: it starts in its turn; `/debug/limits` says which pods it "
    "waits for",
    "unseen": "no action is needed: kube-scheduler's next attempt decides; if it stays pending, "
    "look at the members' volumes and claims with `kubectl describe pod`",
    "changed": "no action is needed: it is planned for again with the next attempt",
    "suspended": "repair what made its plans fail, see above; it is planned for again when the "
    "time given is over",
    "turn": "no action is needed: it is planned for when other namespaces have had theirs",
    "budget": "wait until its namespace may evict again, or plan for fewer victims",
    "not-enforced": "no action is needed: it is left to kube-scheduler; to have it planned "
    "for, choose its namespace in enforce.namespaces",
    "scale-up": "no action is needed: the node is used once it is there; plan.scaleUp says "
    "whether and plan.scaleUpSeconds how long nodes are waited for",
    "api": "look at the server's log and its rights (manifests/rbac.yaml)",
}
"""Refusal code -> what to do; a test compares it with the codes that there are."""

NEXT_GATED = (
    "no action is needed here: the owner of the gates removes them (spec.schedulingGates), Kueue "
    "when there is quota; nothing is evicted before that"
)
NEXT_LOST = (
    "no action is needed if that node registers; else the pod is deleted within a minute or two "
    "(pod garbage collection of kube-controller-manager), and a pod without an owner has to be "
    "made again"
)
NEXT_ELSEWHERE = (
    "let its pods name a scheduler that calls this extender (schedulerName in their template); for "
    "a plan that is only looked at, name theirs in schedulerNames of an extender that observes"
)

NEXT_OBSERVED = "no action is needed: what is observed is left to kube-scheduler"
NEXT_UNDECIDED = (
    "wait for kube-scheduler's next attempt; if none comes, compare its pods' schedulerName "
    "with the scheduler that has the extender (`check` compares configurations)"
)

NEXT_BY_STATE: Mapping[str, str] = {
    PreemptionState.PLANNED: "no action is needed: evictions begin when the plan is recorded",
    PreemptionState.EVICTING: "no action is needed: the victims are being evicted; `seats GANG` "
    "lists them",
    PreemptionState.WAITING: "no action is needed: the victims have their grace period; "
    "`seats GANG` lists them",
    PreemptionState.OPEN: "no action is needed: kube-scheduler tries its members again; if one "
    "stays, `kubectl describe pod` says what kube-scheduler has against its seat",
    PreemptionState.CHANGING: "no action is needed: another plan is being made",
}


def after_refusal(decision: Obj, gang: Obj) -> str:
    """Return the next step where a gang is refused."""
    if "preemptionPolicy is Never" in decision["message"]:
        return "wait for free room, or give it a PriorityClass that preempts"
    if decision["code"] == Code.INCOMPLETE:
        return NEXT_ELSEWHERE if NO_ASKER in decision["message"] else members_to_come(gang)
    # What would change it; a server of another version does not say.
    ways = [way["text"] for way in decision.get("ways", ())]
    several = "any of: " if len(ways) > 1 else ""
    if ways:
        return f"{several}{'; '.join(ways)}. {TRY}"
    return NEXT_BY_CODE.get(decision["code"], "see the server's log")


def members_to_come(gang: Obj) -> str:
    """Return the next step where too few members can be placed; an old server counts neither."""
    gated, lost = gang.get("gated", 0), gang.get("lost", 0)
    there = gang.get("bound", 0) + gang.get("pending", 0)
    if lost and there + lost >= gang["minCount"]:
        return NEXT_LOST
    if gated and there + gated >= gang["minCount"]:
        return NEXT_GATED
    return NEXT_BY_CODE["incomplete"]
