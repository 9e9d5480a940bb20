"""States, cost levels and amounts in words, and the signs that go with them."""

from __future__ import annotations

from extender.gang.tell.gang_status import PREEMPTION_STATES, GangState
from extender.settings.cost_order import LEVELS, cost_words

THIN = "\N{NARROW NO-BREAK SPACE}"
"""What stands between thousands."""
STATES = {
    GangState.RUNNING: "all of its quorum have a node",
    GangState.LEAVING: "its pods are evicted for a more urgent gang",
    GangState.EVICTING: PREEMPTION_STATES[GangState.EVICTING],
    GangState.WAITING: PREEMPTION_STATES[GangState.WAITING],
    GangState.CHANGING: PREEMPTION_STATES[GangState.CHANGING],
    GangState.PLANNED: PREEMPTION_STATES[GangState.PLANNED],
    GangState.OPEN: PREEMPTION_STATES[GangState.OPEN],
    GangState.REFUSED: "it does not fit now; nothing is evicted for it",
    GangState.SUSPENDED: "its plans failed repeatedly: no plan is made for a while",
    GangState.PENDING: "nothing is decided yet",
    GangState.INCOMPLETE: "fewer members exist than its quorum needs",
    GangState.REPAIR: "its definition has to be repaired",
}
"""State -> what it means."""

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
    GangState.INCOMPLETE: "warn",
    GangState.LEAVING: "warn",
    "evicted": "warn",
    GangState.PENDING: "warn",
}
"""State or outcome -> which colour and sign it has."""

SIGNS = {"good": "●", "move": "▶", "stop": "■", "warn": "▲"}

OUTCOMES = {
    "plan": "plan made",
    "refusal": "refused",
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
