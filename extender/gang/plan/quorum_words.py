"""How many of a gang's members exist, in words."""

from __future__ import annotations

from extender.model.gang import Gang
from extender.model.names import quoted
from extender.model.texts import counted, some

MOST_PARTS_TOLD = 4


def members_there(gang: Gang, what: str = "") -> str:
    """Return how many of the quorum exist, of which parts too few do, and how many do not count:
    those that lost their node and those that are gated.

    ``what`` they are called, in the singular; "" for no word.
    """
    there = len(gang.seated) + len(gang.pending)
    exist = counted(gang.min_count, what, "exists", "exist") if what else f"{gang.min_count} exist"
    told = f"{there} of {exist}"
    short = [
        f"{count} of {part.least} of part {quoted(part.name)}" for part, count in gang.short_parts
    ]
    told += f", {some(short, MOST_PARTS_TOLD)}" if short else ""
    lost, gated = len(gang.lost), len(gang.gated)
    if lost:
        where = "a node that no longer exists" if lost == 1 else "nodes that no longer exist"
        told += f", {lost} more {'is' if lost == 1 else 'are'} bound to {where}"
    return told + (f", {gated} more {'is' if gated == 1 else 'are'} gated" if gated else "")
