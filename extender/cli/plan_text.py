"""A plan or a refusal as a person reads it."""

from __future__ import annotations

from extender.model.plan import Plan, Refusal


def document(answer: Plan | Refusal) -> dict[str, Plan | Refusal]:
    """Return the answer as programs read it: one key says what it is."""
    return {"plan" if isinstance(answer, Plan) else "refusal": answer}


def told(answer: Plan | Refusal) -> list[str]:
    """Return the answer as lines of text."""
    if isinstance(answer, Refusal):
        return [
            f"no plan for {answer.gang} ({answer.code}): {answer.message}",
            *(f"  {line}" for line in answer.details),
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
    lines += [f"  {cost.level}: {cost.value}, {cost.bound}" for cost in costs]
    return lines
