"""Nodes that pods of no gang were lately offered, until it is seen what became of them.

kube-scheduler assumes a pod on its node long before the binding shows in our cache. A plan that
is made in between counts the room twice, and its gang would start in part. Whoever is offered a
node after the seats are held is judged by them (verbs.room_beside_reservations). What was offered
before is waited for. A binding that is shown settles it; time does only while bindings are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.model.objects import GangKey, Pod, Requests
from extender.model.plan import Hold

OFFER_SECONDS = 4.0
"""How long a node that was offered to a pod counts as possibly taken by it, of the time in which a
binding would have been seen."""
FORGOTTEN = 128
"""How many old offers are forgotten with each new one, at most."""
MOST_NAMES = 500_000
"""Names of nodes that are kept, of all offers together: a hundred bytes each at most. How many pods
are asked about within OFFER_SECONDS is for whoever makes pods to choose."""
BLIND_SECONDS = 2.0
"""For how long after the start it is not known what a life before has offered."""
NOBODY = GangKey("offer", "", "")


class AssumedPod(Struct, frozen=True):
    """One answer to one pod."""

    requests: Requests
    priority: int
    nodes: Sequence[str] | None
    """None: anywhere, for all that is kept. Seats open OFFER_SECONDS later at most for that."""
    time: float
    shown: float
    """For how long, of all time until then, changes had been shown."""


class AssumedPods:
    """Unsettled offers by pod, oldest first."""

    def __init__(
        self,
        clocks: Clocks,
        blind_seconds: float,
        source: ClusterSource | None = None,
        most_names: int = MOST_NAMES,
    ) -> None:
        """``source`` tells for how long changes may have been missed; None: none are."""
        self._clocks = clocks
        self._blind_seconds = blind_seconds
        self._source = source
        self._looked = clocks.monotonic()
        self._shown = 0.0
        self._most_names = most_names
        self._made: dict[str, AssumedPod] = {}
        self._named: dict[str, int] = {}
        """Uid -> how many names are kept, the oldest first."""
        self._names = 0
        self._seeing = 0.0
        """From when on every offer that still counts is known."""

    def begin(self) -> None:
        """The process begins to answer: what was offered before is not known."""
        self._seeing = self._clocks.monotonic() + self._blind_seconds

    def look(self) -> None:
        """Take note of whether changes are shown; to be called often."""
        now = self._clocks.monotonic()
        passed = now - self._looked
        self._looked = now
        stale = 0.0 if self._source is None else self._source.stale_for()
        self._shown += max(0.0, passed - stale)

    def note(self, pod: Pod, nodes: Sequence[str] | None) -> None:
        """A pod may be on one of these nodes from now on, on any for None; its earlier offer is
        void."""
        self.look()
        self._drop(pod.uid)
        self._made[pod.uid] = AssumedPod(
            pod.requests, pod.priority, nodes, self._looked, self._shown
        )
        if nodes is not None:
            self._named[pod.uid] = len(nodes)
            self._names += len(nodes)
        for oldest in list(islice(self._made, FORGOTTEN)):
            if self._counts(self._made[oldest]):
                break
            self._drop(oldest)
        while self._names > self._most_names:
            oldest = next(iter(self._named))
            self._names -= self._named.pop(oldest)
            self._made[oldest] = replace(self._made[oldest], nodes=None)

    def settled(self, uid: str) -> AssumedPod | None:
        """The pod is bound, gone or asked about again; return what it was offered last."""
        return self._drop(uid)

    def offered(self, uid: str) -> Sequence[str] | None:
        """Return the nodes that a pod was offered and may be on its way to, None = any."""
        self.look()
        offer = self._made.get(uid)
        return () if offer is None or not self._counts(offer) else offer.nodes

    def unsettled(self, uid: str) -> bool:
        """Whether the pod may still come to be bound to what it was offered last."""
        self.look()
        offer = self._made.get(uid)
        return offer is not None and self._counts(offer)

    def _counts(self, offer: AssumedPod) -> bool:
        return self._shown - offer.shown <= OFFER_SECONDS

    def _drop(self, uid: str) -> AssumedPod | None:
        self._names -= self._named.pop(uid, 0)
        return self._made.pop(uid, None)

    def unknown(self, since: float) -> bool:
        """Whether a life before may have offered room that seats held at ``since`` count on."""
        return self._clocks.monotonic() < self._seeing and since < self._seeing

    def in_the_way(
        self, since: float, nodes: AbstractSet[str], priority: int, until: float = inf
    ) -> list[Hold]:
        """Return what pods may take of the nodes although seats are held there.

        Those that were offered one before ``since``, when the seats came to be held, and those
        above ``priority``, which the seats have not kept away before ``until``.
        """
        self.look()
        wanted = frozenset(nodes)
        found = []
        for uid, offer in self._made.items():
            first = offer.time < since or offer.priority > priority
            if first and offer.time < until and self._counts(offer):
                found += [
                    Hold(NOBODY, 0, uid, name, offer.requests)
                    for name in sorted(
                        wanted if offer.nodes is None else wanted.intersection(offer.nodes)
                    )
                ]
        return found
