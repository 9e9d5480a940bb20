"""The real verbs on a big cluster, as a factory for verbs_bench.

    python -m bench.serving.verbs_bench --verbs bench.serving.real_verbs:empty
    python -m bench.serving.verbs_bench --verbs bench.serving.real_verbs:with_seats
    python -m bench.serving.verbs_bench --verbs bench.serving.real_verbs:crowded

Input: the real cache store filled with 5,000 nodes and 150,000 pods (synthetic;
node names as verbs_bench sends them) and the pod that is asked about, no API
server behind it. ``with_seats`` holds 512 seats, so that filter has to look at
512 of the 5,000 nodes offered. ``crowded`` also has 500 other pods that were offered all of
these a moment ago, and may be on their way to any.
"""

from __future__ import annotations

from bench.serving.verbs_bench import node_names
from extender.cache.cache import Cache
from extender.gang.controller.coordinator import coordinate
from extender.gang.core.reservations import Preemption
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.model.objects import GangKey, Node, Pod
from extender.model.plan import Plan, Seat
from extender.settings.settings import Settings
from extender.verbs.room_beside_reservations import Spare
from extender.verbs.verbs import ExtenderVerbs

NODES, PODS, SEATS, OTHERS = 5_000, 150_000, 512, 500
ALLOCATABLE = (("cpu", 96_000), ("memory", 2**39), ("nvidia.com/gpu", 8), ("pods", 250))
REQUESTS = (("cpu", 500), ("memory", 2**30), ("pods", 1))
MEMBER = (("cpu", 64_000), ("memory", 2**38), ("nvidia.com/gpu", 8), ("pods", 1))


class Filled(Cache):
    """The real cache with a store that was filled by hand."""

    @property
    def synced(self) -> bool:
        """Nothing is left to be read."""
        return True


def empty() -> ExtenderVerbs:
    """No plan under way: the common case."""
    return _verbs(seats=0)


def with_seats() -> ExtenderVerbs:
    """A gang of 512 waits for victims; its seats are held."""
    return _verbs(seats=SEATS)


def crowded() -> ExtenderVerbs:
    """Seats are held, and pods beside them are scheduled a hundred a second."""
    return _verbs(SEATS, OTHERS)


def _verbs(seats: int, others: int = 0) -> ExtenderVerbs:
    settings = Settings()
    resolver = Resolver(settings.groups)
    client: KubeClient = object.__new__(KubeClient)  # never called: no decision is made here
    cache = Filled(client, settings.cache, resolver.member_key)
    offered = node_names(NODES)
    for name in offered:
        cache.store.nodes.put(Node(name=name, uid=name, allocatable=ALLOCATABLE))
    for i in range(PODS):
        cache.store.pods.put(
            Pod(
                uid=f"u{i}",
                namespace="default",
                name=f"p{i}",
                node=offered[i % NODES],
                phase="Running",
                requests=REQUESTS,
            )
        )
    cache.store.pods.put(
        Pod(
            uid="0f4f3f1e-51d1-4b2a-9d0c-2f6a5f1c9b11",
            namespace="shop",
            name="web-7d4b9c6f5-x2x8p",
            requests=REQUESTS,
        )
    )
    coordinator = coordinate(client, cache, settings, resolver, "kube-system")
    coordinator.readiness.records_read()
    if seats:
        coordinator.reservations.open_preemption(_preemption(offered[:seats]), ())
    spare = Spare(coordinator.reservations, cache, Clocks(lambda: 0.0) if others else Clocks())
    for i in range(others):
        other = Pod(uid=f"o{i}", namespace="shop", name=f"o{i}", requests=(("cpu", 10),))
        for name in offered[:seats]:
            spare.offered(other, name)
    return ExtenderVerbs(cache, coordinator, spare, settings)


def _preemption(nodes: list[str]) -> Preemption:
    key = GangKey("pod-group", "default", "urgent")
    pods = {
        f"m{i}": Pod(uid=f"m{i}", namespace="default", name=f"m{i}", requests=MEMBER)
        for i in range(len(nodes))
    }
    seats = tuple(
        Seat(uid=uid, namespace="default", name=uid, node=node)
        for uid, node in zip(pods, nodes, strict=True)
    )
    plan = Plan(gang=key, priority=1000, seats=seats, victims=())
    return Preemption(
        plan=plan,
        pods=pods,
        seats={seat.uid: seat.node for seat in seats},
        state=PreemptionState.WAITING,
        since=0.0,
    )
