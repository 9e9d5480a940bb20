"""Where acting gets the cluster from."""

from __future__ import annotations

from typing import Protocol

from extender.model.snapshot import Snapshot


class ClusterSource(Protocol):
    """What the coordinator needs of the cache."""

    @property
    def synced(self) -> bool:
        """Whether every list has been read once."""

    @property
    def generation(self) -> int:
        """Grows with every change; cheaper than a snapshot."""

    def snapshot(self) -> Snapshot:
        """Return the present state."""

    def stale_for(self) -> float:
        """Return how many seconds a needed watch has been silent while down."""


class PlanningSource(Protocol):
    """The cluster as planning sees it."""

    def shown(self) -> Snapshot:
        """Return the newest snapshot, with evictions that are on their way."""
