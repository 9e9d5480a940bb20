"""How long a gang's owner waits for its pods to get a node before it gives them up.

SkyPilot, for one, deletes the pods of a new cluster after provision_timeout, 10 s unless
configured. Whoever is evicted for such a gang and takes longer to end loses its work for nothing.
"""

from __future__ import annotations

from extender.groups.sizes import staying, whole_number
from extender.model.names import quoted
from extender.model.objects import Pod
from extender.settings.settings import GroupSettings

PATIENCE = "podgroup-extender.io/patience-seconds"
"""Annotation of members: what their owner waits. The least of the members' counts, so that it
can keep a gang from evicting and never help it to."""


def patience_of(
    dialect: str, members: tuple[Pod, ...], settings: GroupSettings
) -> tuple[float | None, tuple[str, ...]]:
    """Return the seconds that the owner waits, None when that is not known, and notes."""
    patience = settings.patience_seconds.get(dialect)
    notes: tuple[str, ...] = ()
    for pod in staying(members):
        text = pod.annotations.get(PATIENCE) if pod.annotations else None
        if text is None:
            continue
        stated = whole_number(text)
        if stated is None:
            notes = (
                f"annotation {PATIENCE} of pod {pod.key} is {quoted(text)}, no whole number of "
                "at least 1: it does not count",
            )
        elif patience is None or stated < patience:
            patience = float(stated)
    return patience, notes
