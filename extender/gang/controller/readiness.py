"""Whether gangs can be decided now: the caches, the lease and the plan records have to be there."""

from __future__ import annotations

from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.cluster_source import ClusterSource
from extender.model.errors import NotReady


class Readiness:
    """Of one term. ``recovered`` is set once the records of a life before are taken in."""

    def __init__(self, source: ClusterSource, leadership: Leadership, stale_seconds: float) -> None:
        """``stale_seconds``: for how long a watch may bring nothing while it is down."""
        self._source = source
        self._leadership = leadership
        self._stale_seconds = stale_seconds
        self.recovered = False

    @property
    def begun(self) -> bool:
        """Whether there is anything to look after: plans of before are known, and the cluster."""
        return self.recovered and self._source.synced

    def require(self) -> None:
        """Raise NotReady until caches are synced, plans recovered and the lease is ours."""
        if not self._source.synced:
            raise NotReady("caches are not synced yet")
        if not self._leadership.acts:
            raise NotReady("another replica leads")
        if not self.recovered:
            raise NotReady("plan records are not read yet")

    def stale(self) -> str | None:
        """Return why gangs cannot be decided now: the cache may be behind the cluster."""
        if self._source.stale_for() > self._stale_seconds:
            return "the cache is stale: a watch is down and has brought nothing for too long"
        return None

    def behind(self) -> bool:
        """Whether nothing irreversible may rest on the cache now: some watch is down.

        What ``stale`` permits is a plan, which is compared again before its first eviction. An
        eviction, or a seat that is given away, is not taken back.
        """
        return self._source.stale_for() > 0
