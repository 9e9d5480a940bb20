"""States, cost levels and amounts in words, and the signs that go with them."""

from __future__ import annotations

from extender.gang.tell.standing import FLIGHT_STATES
from extender.model.cost_order import LEVELS

STATES = {
    "running": "all of its quorum have a node",
    "leaving": "its pods are evicted for a more urgent gang",
    "evicting": FLIGHT_STATES["evicting"],
    "waiting": FLIGHT_STATES["waiting"],
    "changing": FLIGHT_STATES["changing"],
    "planned": FLIGHT_STATES["planned"],
    "open": FLIGHT_STATES["open"],
    "refused": "it cannot be helped now; nothing is evicted for it",
    "suspended": "its plans failed again and again: it is left alone for a while",
    "pending": "nothing is decided yet",
    "incomplete": "fewer members exist than its quorum needs",
    "repair": "something about it has to be repaired by a person",
}
"""State -> what it means."""

NAMES = {
    "evicting": "evicting",
    "waiting": "victims leave",
    "changing": "planned anew",
    "planned": "planned",
    "open": "taking seats",
    "repair": "needs repair",
}
"""State -> what it is called, where that is not the state's own name."""

TONES = {
    "running": "good",
    "done": "good",
    "open": "move",
    "evicting": "move",
    "waiting": "move",
    "changing": "move",
    "planned": "move",
    "plan": "move",
    "refused": "stop",
    "refusal": "stop",
    "suspended": "stop",
    "repair": "stop",
    "broken": "stop",
    "in-part": "stop",
    "gave-up": "warn",
    "incomplete": "warn",
    "leaving": "warn",
    "evicted": "warn",
    "pending": "warn",
}
"""State or outcome -> which colour and sign it has."""

SIGNS = {"good": "●", "move": "▶", "stop": "■", "warn": "▲"}

OUTCOMES = {
    "plan": "plan made",
    "refusal": "refused",
    "done": "seated",
    "gave-up": "given up",
    "broken": "went in part",
    "in-part": "bound in part",
    "observed": "observed",
}


ENDS = {
    "waiting": "still waits",
    "whole": "has its quorum",
    "gone": "gone without it",
}
"""How an observed gang's waiting ended."""


def level_words(level: str) -> str:
    """Return what a cost level counts."""
    kind, at, priority = level.partition("@")
    if at:
        return f"{'gangs broken' if kind == 'gangs' else 'pods evicted'} of priority {priority}"
    return LEVELS.get(level, level)


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
