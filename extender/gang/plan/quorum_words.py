"""How many of a gang's members exist, in words."""

from __future__ import annotations

from extender.model.gang import Gang
from extender.model.names import quoted
from extender.model.texts import counted, some

MOST_PARTS_TOLD = 4
MOST_LOST_TOLD = 2


def members_there(gang: Gang, what: str = "") -> str:
    """Return how many of the quorum exist, of which parts too few do, and how many do not count:
    those whose node is not known and those that are gated.

    ``what`` they are called, in the singular; "" for no word.
    """
    there = len(gang.seated) + len(gang.pending)
    exist = counted(gang.min_count, what, "exists", "exist") if what else f"{gang.min_count} exist"
    told = f"{there} of {exist}"
    short = [
        f"{count} of {part.least} of part {quoted(part.name)}" for part, count in gang.short_parts
    ]
    told += f", {some(short, MOST_PARTS_TOLD)}" if short else ""
    gated = len(gang.gated)
    lost = [f"{p.name} to {p.node}" for p in gang.members if p.uid in gang.lost]
    if lost:
        where = "is bound to a node" if len(lost) == 1 else "are bound to nodes"
        are = "is" if len(lost) == 1 else "are"
        told += f", {len(lost)} more {where} that {are} not known ({some(lost, MOST_LOST_TOLD)})"
    return told + (f", {gated} more {'is' if gated == 1 else 'are'} gated" if gated else "")
