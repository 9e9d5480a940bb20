"""Plans and refusals in words that a person can act on."""

from __future__ import annotations

from collections import Counter

from extender.gang.build import Built
from extender.gang.victims import Candidate
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem import Infeasible

MAX_DETAILS = 20


def victim_reason(pod: Pod, unit: Candidate, used_nodes: set[str]) -> str:
    """Return why this pod goes: for its room, or because its gang goes whole."""
    if not unit.whole:
        return f"its room on {pod.node} is needed"
    if pod.node in used_nodes:
        return f"its room on {pod.node} is needed and its gang goes whole"
    return f"its gang goes whole; {pod.node} itself is not used"


def explain_plan(gang: Gang, built: Built, plan: Plan) -> tuple[str, ...]:
    """Return the story of a plan, line by line."""
    problem = built.problem
    lines = [
        f"{gang.key} (priority {gang.preemptor_priority}) wants {problem.need} seats: "
        + ", ".join(f"{cls.count} x {cls.name}" for cls in problem.classes)
    ]
    lines += gang.notes
    if not plan.victims and not plan.waits_for and not plan.takes_over:
        lines.append("it fits into free room: nobody is evicted")
    whole = sum(1 for unit in built.pool.units if unit.whole)
    lines.append(
        f"considered {len(built.pool.units)} victim units ({whole} whole gangs) and "
        f"{len(built.pool.terminating)} terminating pods on {len(problem.nodes)} usable nodes; "
        f"{len(built.pool.excluded)} pods there may not be evicted"
    )
    if plan.victims:
        gangs = Counter(victim.gang for victim in plan.victims if victim.gang)
        parts = [f"{count} pods of {name}" for name, count in sorted(gangs.items())]
        singles = sum(1 for victim in plan.victims if not victim.gang)
        if singles:
            parts.append(f"{singles} single pods")
        lines.append(f"evicts {len(plan.victims)} pods: " + ", ".join(parts))
    if plan.waits_for:
        lines.append(f"waits for {len(plan.waits_for)} pods that terminate already")
    for key in plan.takes_over:
        lines.append(f"takes over the seats held for the less urgent {key}")
    lines.append(_proof_line(plan))
    unmodelled = sorted({kind for pod in gang.pending for kind in pod.shape.unmodelled})
    if unmodelled:
        lines.append(
            "not checked here but by kube-scheduler when members are seated: "
            + ", ".join(unmodelled)
        )
    return tuple(lines)


def _proof_line(plan: Plan) -> str:
    if plan.proof == "optimal":
        return "proved: no other victims cost less at any level of the cost order"
    for cost in plan.costs:
        if cost.value != cost.bound:
            return (
                f"not proved least: {cost.level} costs {cost.value}, "
                f"and at least {cost.bound} is certain"
            )
    return "not proved least: a placement rule had to be checked after the search"


def explain_refusal(
    gang: Gang, built: Built, answer: Infeasible, snapshot: Snapshot, struck: bool
) -> Refusal:
    """Return why the gang cannot run now, naming who stands in the way."""
    problem = built.problem
    if not problem.nodes:
        message = "no node accepts any member (node selector, taints or size)"
    elif not gang.preempts:
        message = "does not fit into free room, and its preemptionPolicy is Never"
    elif answer.proved and not struck:
        message = "cannot fit even with every allowed victim gone: " + "; ".join(answer.reasons)
    else:
        message = "no solution was found: " + "; ".join(answer.reasons)
    stays = [
        f"{entry.pod.namespace}/{entry.pod.name} stays on {entry.pod.node}: {entry.reason}"
        for entry in sorted(built.pool.excluded, key=lambda e: (e.pod.node, e.pod.uid))
    ]
    if len(stays) > MAX_DETAILS:
        stays = [*stays[:MAX_DETAILS], f"and {len(stays) - MAX_DETAILS} more pods that stay"]
    return Refusal(
        gang=gang.key,
        code="infeasible",
        message=message,
        details=(*gang.notes, *stays),
        generation=snapshot.generation,
    )
