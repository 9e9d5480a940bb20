"""Members that wait for another scheduler than ours get no seat: it would be held for nothing."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.texts import counted, some

NO_ASKER = "which does not call this extender"
"""How the note on such members ends."""


def seated_by(gang: Gang, schedulers: Collection[str]) -> Gang:
    """Return the gang without those of its waiting members that name another scheduler.

    Once such a member has a node it counts as any other. The same object when there is none.
    """
    strangers = _strangers(gang, schedulers)
    if not strangers:
        return gang
    gone = {pod.uid for pod in strangers}
    return replace(
        gang,
        members=tuple(pod for pod in gang.members if pod.uid not in gone),
        notes=(*gang.notes, _told(strangers)),
    )


def waits_elsewhere(gang: Gang, schedulers: Collection[str]) -> str:
    """Return that members wait for other schedulers, "" where none does or nobody knows ours."""
    strangers = _strangers(gang, schedulers) if schedulers else []
    return _told(strangers) if strangers else ""


def _strangers(gang: Gang, schedulers: Collection[str]) -> list[Pod]:
    return [pod for pod in gang.pending if pod.shape.scheduler not in schedulers]


def _told(strangers: list[Pod]) -> str:
    others = some(sorted({pod.shape.scheduler for pod in strangers}))
    return f"{counted(len(strangers), 'member', 'waits', 'wait')} for {others}, {NO_ASKER}"
