"""A gang of which a member is pending again: did the others run before that one was made?

Members of a gang that goes whole are single victims below its size, for what has not come together
loses nothing together. But a gang that lost a pod to a node or a user, and whose controller makes
another, had come together. What tells both apart are the times on the pods: nobody of a gang that
is half made waits for less long than the others run.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.model.objects import Pod

NEWCOMER_SECONDS = 60.0
"""So long others must have run when the oldest that waits was made: controllers make the pods of
one start within seconds, and the clock of a kubelet, which says when a pod started, may be off."""


def ran_before(members: Iterable[Pod]) -> int:
    """Return how many ran for a minute when the oldest of those that wait was made.

    0 where nobody waits, or somebody has waited for as long as the others run. Those on their way
    out are not asked. Nobody gains by it: without the one that waits its gang, or one that states
    fewer, goes whole in the same way.
    """
    waits: list[float] = []
    runs: list[float] = []
    for pod in members:
        if pod.deleting:
            continue
        if not pod.node:
            waits.append(pod.created)
        elif pod.started:
            runs.append(pod.started)
    if not waits:
        return 0
    least = min(waits) - NEWCOMER_SECONDS
    return sum(started <= least for started in runs)
