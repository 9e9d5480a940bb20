"""Why an object that tells of a gang is not among those that are known."""

from __future__ import annotations

from extender.model.names import quoted
from extender.model.snapshot import Snapshot

MOST_WHY = 200
"""Characters of the reason that are told; it may quote what the object says."""


ABSENT = "does not exist"
UNREAD = "is not served or must not be read"


def why_unknown(source: str, namespace: str, name: str, snapshot: Snapshot) -> str:
    """Return why an object is not known: its source is not read, or as ``why_absent``."""
    if source not in snapshot.group_sources:
        return UNREAD
    return why_absent(source, namespace, name, snapshot)


def why_absent(source: str, namespace: str, name: str, snapshot: Snapshot) -> str:
    """Return "does not exist", or why it cannot be read; for objects of sources that are read."""
    why = snapshot.unreadable.get((source, namespace, name))
    if why is not None:
        return f"cannot be read: {why if len(why) <= MOST_WHY else quoted(why)}"
    if (source, "", "") in snapshot.unreadable:
        return "does not exist, or cannot be read as many others of its kind"
    return ABSENT
