"""Who destroys or binds has to hold the lease at that moment."""

from __future__ import annotations

from collections.abc import Callable

from extender.sandbox.resources import LEASES
from extender.sandbox.storage import Storage
from tests.simulation.loop import OWNER
from tests.simulation.replicas import Replicas


class LeaseChecks:
    """Asked at each such request of one of several replicas."""

    def __init__(
        self, storage: Storage, broken: Callable[[str, str], None], time: Callable[[], float]
    ) -> None:
        self.dropped = -100.0
        """When somebody deleted the lease."""
        self._storage = storage
        self._broken = broken
        self._time = time

    def evicts(self, host: Replicas, name: str, uid: str) -> None:
        """Only the holder of the lease evicts."""
        doubled = host.doubled(OWNER.get(), uid)
        if doubled:
            self._broken("doubled", f"{name} is evicted, and {doubled}")
        self.holds(host, name, "evicted")

    def holds(self, host: Replicas, name: str, what: str) -> None:
        """Only the holder of the lease does this."""
        owner = OWNER.get()
        leases = self._storage.all(LEASES.key)
        if self._time() - self.dropped < 6.0:
            return  # who held it cannot know before it renews
        holder = leases[0]["spec"].get("holderIdentity") if leases else ""
        if holder != host.identity(owner):
            self._broken("fenced", f"{name} is {what} while {holder or 'nobody'} holds the lease")
