"""Pods about which something could not be worked out: a defect of ours, met in what a tenant wrote.

Such a pod stays where it is, as long as its record is the same: nobody goes of whom it is not known
whether they may. The question goes on with the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from extender.model.objects import Pod

MOST = 4096
"""Pods that are remembered; of the others it is found anew."""
MOST_UNTOLD = 256
REPORT = "cannot be judged ({}); please report this"


class Aside:
    """Who was set aside, and why. One thread puts in, another one may take."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Pod, str]] = {}
        """Uid -> record and reason; empty but for a defect."""
        self._untold: deque[tuple[Pod, str]] = deque(maxlen=MOST_UNTOLD)

    def put(self, pods: Iterable[Pod], error: Exception) -> None:
        """Set pods aside for an error."""
        why = REPORT.format(type(error).__name__)
        for pod in pods:
            if self.why(pod) == why:
                continue
            if len(self.kept) >= MOST:
                del self.kept[next(iter(self.kept))]
            self.kept[pod.uid] = (pod, why)
            self._untold.append((pod, why))

    def why(self, pod: Pod) -> str:
        """Return why this very record of a pod was set aside, "" when it was not."""
        kept = self.kept.get(pod.uid)
        return kept[1] if kept is not None and kept[0] is pod else ""

    def take(self) -> list[tuple[Pod, str]]:
        """Return those that were not told of yet."""
        found: list[tuple[Pod, str]] = []
        while self._untold:
            found.append(self._untold.popleft())
        return found
