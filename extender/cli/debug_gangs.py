"""The gangs as the debug API shows them, in either mode."""

from __future__ import annotations

from extender.gang.act.source import Source
from extender.groups.resolver import Resolver


def described(source: Source, resolver: Resolver) -> list[object]:
    """Return the gangs as resolved, with problems and notes."""
    return [
        {
            "gang": str(gang.key),
            "minCount": gang.min_count,
            "sizeKnown": gang.size_known,
            "members": len(gang.members),
            "bound": len(gang.bound),
            "pending": len(gang.pending),
            "unit": gang.unit,
            "startsWhole": gang.starts_whole,
            "priorityAsPreemptor": gang.preemptor_priority,
            "priorityAsVictim": gang.victim_priority,
            "problems": gang.problems,
            "notes": gang.notes,
        }
        for gang in resolver.resolve_all(source.snapshot())
    ]
