"""What has become of the victims of a record that a life before has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.gang.plan.validity import present
from extender.model.objects import Pod
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot


class RecordedVictims:
    """Those of one record, on one snapshot.

    ``created``: when the record was made, in whole seconds of the API server's clock; 0: unknown.
    ``leaves``: whether a pod's end is near, at a wall time.
    """

    def __init__(
        self, snapshot: Snapshot, created: float, leaves: Callable[[Pod, float], bool]
    ) -> None:
        self.snapshot = snapshot
        self.created = created
        self._leaves = leaves

    def leaves(self, victim: Victim) -> bool:
        """Whether a victim is there and on its way out.

        Its end may be far off by a clock that was set back meanwhile; it was not when the record
        was made, by the API server's clock.
        """
        pod = present(victim, self.snapshot)
        moments = (self.snapshot.now, self.created)
        return pod is not None and any(self._leaves(pod, now) for now in moments)

    def begun(self, unit: Iterable[Victim]) -> bool:
        """Whether a pod of a unit has gone, or is about to."""
        return any(not present(v, self.snapshot) or self.leaves(v) for v in unit)
