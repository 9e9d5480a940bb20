"""A SkyPilot cluster: bare pods that share one label.

Source: labels that SkyPilot (0.14) puts on every pod it makes. num_nodes is on
no label; losing one pod makes SkyPilot throw the whole cluster away, so the
cluster goes as a whole.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.sizes import made_by
from extender.model.gang import UNIT_ALL
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

LABEL = "skypilot-cluster-name"


class SkyPilotDialect:
    """A gang is the pods of one SkyPilot cluster."""

    name = "skypilot"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (LABEL,)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the cluster of the label."""
        cluster = pod.labels.get(LABEL)
        return GangKey(self.name, pod.namespace, cluster) if cluster else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size annotated, else an unknown one."""
        return made_by(members, f"SkyPilot cluster {key.namespace}/{key.name}")
