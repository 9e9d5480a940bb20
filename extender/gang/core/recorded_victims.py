"""The victims that a record names, and what has become of them since a life before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from extender.gang.core.record import Others, Record
from extender.gang.plan.validity import present
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Victim
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


def whole_units(record: Record) -> list[list[Victim]]:
    """Return the victims that go together or not at all, by unit."""
    whole = sorted((v for v in record.plan.victims if v.unit), key=lambda v: (v.unit, v.uid))
    return [list(unit) for _, unit in groupby(whole, key=lambda v: v.unit)]


def others_of(plan: Plan, snapshot: Snapshot) -> Others:
    """Return the members of the plan's units that are none of its victims."""
    named = {victim.uid for victim in plan.victims}
    units = sorted({victim.unit for victim in plan.victims if victim.unit})
    members = [pod for unit in units for pod in snapshot.members.get(GangKey.read(unit), ())]
    return Others(bound=tuple(pod.uid for pod in members if pod.node and pod.uid not in named))
