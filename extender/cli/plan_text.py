"""A plan or a refusal as a person reads it."""

from __future__ import annotations

from typing import Any

from extender.cli.cluster_question import ClusterQuestion
from extender.gang.tell import difference
from extender.model.plan import Plan, Refusal
from extender.settings.cost_order import cost_words, order_of


def document(answer: Plan | Refusal) -> dict[str, Plan | Refusal]:
    """Return the answer as programs read it: one key says what it is."""
    return {"plan" if isinstance(answer, Plan) else "refusal": answer}


def told(answer: Plan | Refusal) -> list[str]:
    """Return the answer as lines of text."""
    if isinstance(answer, Refusal):
        return [
            f"no plan for {answer.gang} ({answer.code}): {answer.message}",
            *(f"  {line}" for line in answer.details),
            *(f"  would change it: {way.text}" for way in answer.ways),
        ]
    lines = [f"plan for {answer.gang}, priority {answer.priority}: {answer.proof}"]
    lines += [f"  {line}" for line in answer.explanation]
    lines.append("seats:")
    lines += [f"  {seat.namespace}/{seat.name} -> {seat.node}" for seat in answer.seats]
    lines.append("victims:" if answer.victims else "victims: none")
    lines += [
        f"  {victim.namespace}/{victim.name} on {victim.node} (priority {victim.priority}"
        + (f", {victim.gang}" if victim.gang else "")
        + f"): {victim.reason}"
        for victim in answer.victims
    ]
    costs = [cost for cost in answer.costs if cost.value or cost.bound]
    lines.append("cost (level: value, proved lower bound):" if costs else "cost: nothing")
    lines += [
        f"  {cost.level}: {cost_words(cost.level, cost.value, cost.bound)}, "
        f"{cost_words(cost.level, cost.bound, cost.value)}"
        for cost in costs
    ]
    return lines


def compared(
    question: ClusterQuestion,
    found: Plan | Refusal,
    other: ClusterQuestion,
    changed: Plan | Refusal,
) -> tuple[list[str], dict[str, Any]]:
    """Return, as lines and for programs, an answer beside the one by another cost order."""
    plan = question.settings.plan
    name = other.settings.plan.cost_order
    made = difference.difference(
        found,
        changed,
        order_of(plan.cost_order, plan.cost_orders),
        order_of(name, plan.cost_orders),
    )
    lines = [f"as it is, cost order {plan.cost_order}:", *(f"  {line}" for line in told(found))]
    lines += [f"with cost order {name}:", *(f"  {line}" for line in told(changed))]
    values = {
        **document(found),
        "changed": {"cost_order": name, **document(changed)},
        "difference": made,
    }
    return lines + difference.told(made), values
