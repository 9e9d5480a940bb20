"""Members that wait for another scheduler than ours get no seat: it would be held for nothing."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from extender.model.gang import Gang

NO_ASKER = "which does not ask this extender"
"""How the note on such members ends."""


def seated_by(gang: Gang, schedulers: Collection[str]) -> Gang:
    """Return the gang without those of its waiting members that name another scheduler.

    Once such a member has a node it counts as any other. The same object when there is none.
    """
    strangers = [pod for pod in gang.pending if pod.shape.scheduler not in schedulers]
    if not strangers:
        return gang
    others = ", ".join(sorted({pod.shape.scheduler for pod in strangers})[:3])
    those = "member waits" if len(strangers) == 1 else "members wait"
    note = f"{len(strangers)} {those} for {others}, {NO_ASKER}"
    gone = {pod.uid for pod in strangers}
    return replace(
        gang,
        members=tuple(pod for pod in gang.members if pod.uid not in gone),
        notes=(*gang.notes, note),
    )
