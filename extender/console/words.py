"""States, cost levels and amounts in words, and the signs that go with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.gang.tell.decisions import Decision, Outcome
from extender.gang.tell.gang_status import GangState
from extender.model.plan import Code
from extender.settings.cost_order import LEVELS, cost_words

THIN = "\N{NARROW NO-BREAK SPACE}"
"""What stands between thousands."""
NAMES = {
    GangState.EVICTING: "evicting",
    GangState.WAITING: "victims terminate",
    GangState.CHANGING: "planned again",
    GangState.PLANNED: "planned",
    GangState.OPEN: "taking seats",
    GangState.REPAIR: "needs repair",
}
"""State -> what it is called, where that is not the state's own name."""

TONES = {
    GangState.RUNNING: "good",
    "done": "good",
    GangState.OPEN: "move",
    GangState.EVICTING: "move",
    GangState.WAITING: "move",
    GangState.CHANGING: "move",
    GangState.PLANNED: "move",
    "plan": "move",
    GangState.REFUSED: "stop",
    "refusal": "stop",
    GangState.SUSPENDED: "stop",
    GangState.REPAIR: "stop",
    "broken": "stop",
    "in-part": "stop",
    "gave-up": "warn",
    GangState.LEAVING: "warn",
    "evicted": "warn",
    GangState.PENDING: "warn",
}
"""State or outcome -> which colour and sign it has."""

SIGNS = {"good": "●", "move": "▶", "stop": "■", "warn": "▲", "plain": "◌"}

WAITS = "waits"
PASSING: Mapping[str, str] = {
    Code.INCOMPLETE: GangState.INCOMPLETE,
    Code.NOT_NEEDED: WAITS,
    Code.STALE: WAITS,
    Code.CHANGED: WAITS,
    Code.SETTLING: WAITS,
    Code.PENALTY: WAITS,
    Code.TURN: WAITS,
    Code.BOOKED: WAITS,
}
"""Code of a refusal that time or the gang's owner ends by itself -> what it is called."""

OUTCOMES = {
    "plan": "plan made",
    "refusal": "refused",
    GangState.INCOMPLETE: "incomplete",
    WAITS: "waits",
    "done": "seated",
    "gave-up": "given up",
    "broken": "partly evicted",
    "in-part": "bound in part",
    "observed": "observed",
}


ENDS = {
    "waiting": "still waits",
    "whole": "has its quorum",
    "gone": "ended without it",
}
"""How an observed gang's waiting ended."""


KINDS = {
    "grace": "pods that end too late",
    "work": "work lost",
    "gangs": "gangs broken",
    "pods": "pods evicted",
}
"""What the levels of one priority count."""


def tone(name: str) -> str:
    """Return which colour and sign a state or an outcome has."""
    return TONES.get(name, "plain")


def kind_of(decision: Decision) -> str:
    """Return what a decision is called and coloured by: its outcome, but for what passes."""
    if decision.outcome is not Outcome.REFUSAL:
        return decision.outcome
    return PASSING.get(decision.code, decision.outcome)


def folded(decisions: Iterable[Decision]) -> list[tuple[Decision, int]]:
    """Return decisions, newest first, and for how many each stands.

    What passes is told once for a gang as long as nothing else is decided about it.
    """
    found: list[tuple[Decision, int]] = []
    last: dict[str, int] = {}
    """Gang -> where the decision about it stands that was found last."""
    for decision in decisions:
        at = last.get(decision.gang)
        kind = kind_of(decision)
        passes = kind in (GangState.INCOMPLETE, WAITS)
        if passes and at is not None and kind == kind_of(found[at][0]):
            found[at] = (found[at][0], found[at][1] + 1)
            continue
        last[decision.gang] = len(found)
        found.append((decision, 1))
    return found


def level_words(level: str) -> str:
    """Return what a cost level counts."""
    kind, at, priority = level.partition("@")
    if at:
        return f"{KINDS.get(kind, kind)} of priority {priority}"
    return LEVELS.get(level, level)


def cost(value: int, level: str, beside: int) -> str:
    """Return what a plan costs at a level, work in GPU-hours; ``beside``: see ``cost_words``."""
    text = cost_words(level, value, beside)
    return (f"{value:,}" if text.isdecimal() else text).replace(",", THIN)


def later(seconds: float) -> str:
    """Return how much later something was, in its two largest units; pods' times are whole."""
    left, parts = max(0, round(seconds)), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        parts += [f"{count} {unit}"] if count else []
    return f"after {' '.join(parts[:2]) or '0 s'}"


def amount(resource: str, value: int) -> str:
    """Return an amount as a person writes it: cores, binary gigabytes, whole devices."""
    if resource == "cpu":
        return f"{value / 1000:g}" if value % 10 == 0 or value < 10_000 else f"{value / 1000:.1f}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if abs(value) >= size:
                return f"{value / size:.1f}".rstrip("0").rstrip(".") + unit
        return str(value)
    return str(value)


def short(resource: str) -> str:
    """Return a resource's name without its domain."""
    return resource.rpartition("/")[2]
