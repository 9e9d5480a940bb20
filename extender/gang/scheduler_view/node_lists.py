"""Which nodes kube-scheduler itself has accepted for members with needs we do not model.

Volumes and claimed devices decide on their own where a pod can go. For such a
member only nodes count that kube-scheduler has named lately: in filter those it
accepts now, in preempt those it would accept after evictions there. A node on which
it has refused a seat does not count for a while, whatever the member needs.

What it would evict is kept with the node, as far as those pods have volumes: it accepts the node
without them (extender.gang.plan.volumes). That is true of the pods with volumes that were there.
When another comes, or one of them leaves, the node is not named any more, and kube-scheduler tries
the pod again where one leaves.

kube-scheduler tries each member when its own time comes, and no event may follow when what it said
of one counts no more. So such a member is to be tried again while what it said of others of its
gang counts (``run_out``): else a gang whose members were tried far apart would never be planned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from math import inf
from types import MappingProxyType
from typing import Any

from cachetools import FIFOCache, TTLCache
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.plan.question import Masks
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.model.fair_lru import Shares
from extender.model.gang import Gang
from extender.model.objects import DEFAULT_SCHEDULER, Node, Pod
from extender.model.snapshot import Snapshot

MEMORY_SECONDS = 60.0
MOST_NAMES = 500_000
"""Of all pods together. One takes a hundred bytes of a set at most; equal ones are one string."""
NOTHING: frozenset[str] = frozenset()
NO_NODES: Mapping[str, Any] = MappingProxyType({})
NAMED_SECONDS = 360.0
"""For how long it is remembered that a node was named for a pod. kube-scheduler tries each pod
again after five minutes at most (podMaxInUnschedulablePodsDuration)."""
MAX_NAMED = 65536
REFUSED_SECONDS = 300.0
"""How long a refused seat is remembered: the gang's next plans, and those of gangs like it, leave
the node alone. Longer than the pauses between plans, so that nobody is evicted there again."""
MAX_REFUSED = 65536
MAX_REFUSED_WHILE = 256
"""Each is asked for its reason whenever a verb is answered. Where there are more, the oldest is
forgotten: its node counts again, and is refused again."""
LIST_SECONDS = 1.0
"""How much older than its question kube-scheduler's list of nodes may be, at most."""
FREED_SECONDS = 60.0
"""For how long it is remembered that a node may have room: lists wait for their gang's turn."""
MAX_SCHEDULERS = 100


class Evicting(Struct, frozen=True):
    """A node that kube-scheduler accepts for a pod once others have gone."""

    uids: tuple[str, ...]
    """Those of them that have volumes."""
    there: frozenset[str]
    """Uids of all pods with volumes that were on the node."""
    shown: frozenset[str]
    """Those of ``uids`` that were known to be there: where one is not any more it has gone."""


class _Named(Struct, frozen=True):
    node: str
    """One of the nodes named last."""
    since: float
    """Monotonic."""


class _Accepted(Struct, frozen=True):
    names: frozenset[str]
    """Nodes that are accepted whichever pods with volumes stay."""
    evicting: Mapping[str, Evicting]
    """The others."""
    until: float


class AcceptedNodes:
    """Node names by pod uid, for a while: bounded by names, shared by namespace.

    A list may have every node of the cluster in it, and each pod that waits has one. What a pod
    is, and how many wait, is a tenant's to choose: whoever has most in here loses its oldest.
    """

    def __init__(self, clocks: Clocks, most: int = MOST_NAMES) -> None:
        self._clocks = clocks
        self._kept: Shares[str, _Accepted] = Shares(most)
        """By uid, sized by how many names were named."""

    @property
    def size(self) -> int:
        """How many names there are."""
        return self._kept.size

    def __contains__(self, uid: str) -> bool:
        return self.get(uid) is not None

    def get(self, uid: str) -> frozenset[str] | None:
        """Return the nodes named for the pod within the minute, as they are or whichever pods with
        volumes stay there; None when no node was named."""
        known = self._known(uid)
        return None if known is None else known.names

    def evicting(self, uid: str) -> Mapping[str, Evicting]:
        """Return the nodes named for the pod within the minute from which pods with volumes have to
        go first."""
        known = self._known(uid)
        return NO_NODES if known is None else known.evicting

    def _known(self, uid: str) -> _Accepted | None:
        known = self._kept.get(uid)
        return known if known is not None and self._clocks.monotonic() < known.until else None

    def add(
        self, pod: Pod, nodes: Iterable[str], evicting: Mapping[str, Evicting | None] = NO_NODES
    ) -> bool:
        """Note that these were named for the pod as well; return whether that is new.

        ``evicting``: others, from which pods have to go first; None: it is not known which. What is
        said of a node last counts.
        """
        now = self._clocks.monotonic()
        self._kept.forget(lambda accepted: accepted.until <= now)
        named = frozenset(map(sys.intern, nodes))
        known = self._known(pod.uid) or _Accepted(NOTHING, NO_NODES, now)
        names = known.names if named <= known.names else known.names | named
        others = known.evicting
        if evicting or not named.isdisjoint(others):
            names = names.difference(evicting)
            said_before = others.keys() - named - evicting.keys()
            others = {node: others[node] for node in said_before}
            others |= {sys.intern(node): said for node, said in evicting.items() if said}
        kept = _Accepted(names, others, now + MEMORY_SECONDS)
        size = len(names) + sum(1 + len(said.uids) + len(said.there) for said in others.values())
        self._kept.put(pod.uid, kept, pod.namespace, size)
        return names != known.names or others != known.evicting


class NodeLists:
    """Accepted nodes by pod uid, remembered for a minute."""

    def __init__(self, clocks: Clocks, source: ClusterSource | None = None) -> None:
        """``source`` has all nodes there are; None: room comes on nodes that are named alone."""
        self.accepted = AcceptedNodes(clocks)
        self._named_for: Shares[str, _Named] = Shares(MAX_NAMED)
        """By uid, pods that have not been returned as run out since."""
        self._refused: TTLCache[tuple[object, str], str] = TTLCache(
            maxsize=MAX_REFUSED, ttl=REFUSED_SECONDS, timer=clocks.monotonic
        )
        """Kinds of pods, with the node that was refused them as a seat."""
        self._refused_while: FIFOCache[tuple[object, str], Callable[[], bool]] = FIFOCache(
            maxsize=MAX_REFUSED_WHILE
        )
        """The same for as long as something holds."""
        self._refusals = 0
        self._named = 0
        """How often a node was named for a pod for which it was not named before."""
        self._freed: dict[str, float] = {}
        """Nodes that have come, or a pod has left, lately, and when, the latest last."""
        self._all_freed = -inf
        """When any of them may have got room last."""
        self._source = source
        self._clocks = clocks
        self.asked_at = -inf
        """Monotonic time at which kube-scheduler asked about a pod last."""
        self.schedulers: frozenset[str] = frozenset()
        """Those that have asked about a pod."""

    def now(self) -> float:
        """Return the monotonic time by which lists have their age."""
        return self._clocks.monotonic()

    def accepts(
        self, pod: Pod, nodes: Iterable[str], victims: Mapping[str, tuple[str, ...]] = NO_NODES
    ) -> None:
        """Note that kube-scheduler named these nodes for the pod; ``victims``: node -> uids of the
        pods that it would evict there first."""
        self.asked_at = self._clocks.monotonic()
        if pod.shape.scheduler not in self.schedulers and len(self.schedulers) < MAX_SCHEDULERS:
            self.schedulers |= {pod.shape.scheduler}
        if not pod.shape.unmodelled:
            return
        named, evicting = frozenset(nodes), NO_NODES
        self._named_for.forget(lambda each: self.asked_at - each.since >= NAMED_SECONDS)
        if named:
            self._named_for.put(pod.uid, _Named(min(named), self.asked_at), pod.namespace)
        if victims and pod.shape.volumes and self._source is not None:
            evicting = _evicting(pod, victims, self._source.snapshot())
            named = named.difference(evicting)
        if self.accepted.add(pod, named, evicting):
            self._named += 1

    def beside(self, gang: Gang, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the pods that have to go for the volumes of members."""
        found = self.in_the_way(gang, snapshot)
        return replace(snapshot, in_the_way=found) if found else snapshot

    def in_the_way(
        self, gang: Gang, snapshot: Snapshot
    ) -> dict[str, Mapping[str, tuple[str, ...]]]:
        """Return, by member uid and node, the pods with volumes that have to go first for members
        of its kind, of nodes with the same pods with volumes in the snapshot as then."""
        by_kind: dict[object, dict[str, tuple[str, ...]]] = {}
        members = [pod for pod in gang.pending if pod.shape.volumes]
        for pod in members:
            for node, said in self.accepted.evicting(pod.uid).items():
                now = _with_volumes(node, snapshot)
                # Those that were to go may have gone: nothing else has changed then.
                if now <= said.there and said.there - now <= said.shown:
                    uids = tuple(uid for uid in said.uids if uid in now)
                    found = by_kind.setdefault(_kind(pod), {})
                    found[node] = min(found.get(node, uids), uids)
        return {pod.uid: by_kind[_kind(pod)] for pod in members if _kind(pod) in by_kind}

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Note which node a pod has left, is nominated to no more, or takes another part of: a list
        that the node is not in may be older."""
        if old is None:
            return
        left = old.node or old.nominated
        same = new is not None and (left, old.requests) == (new.node or new.nominated, new.requests)
        if left and not same:
            self.freed((left,))

    def observe_node(self, old: Node | None, new: Node | None) -> None:
        """Note which node has come, or takes other pods than before."""
        if new is not None and (old is None or _offers(old) != _offers(new)):
            self.freed((new.name,))

    def freed(self, nodes: Iterable[str] | None) -> None:
        """Note nodes that may have room since now, None = any."""
        now = self._clocks.monotonic()
        if nodes is None:
            self._all_freed = now
            return
        for node in nodes:
            self._freed.pop(node, None)
            self._freed[node] = now
        while self._freed and now - self._freed[first := next(iter(self._freed))] > FREED_SECONDS:
            del self._freed[first]

    def not_older(self, lists: Masks | None, asked: float) -> Masks | None:
        """Return lists by member uid, with the nodes they may lack for being older than a room.

        ``asked``: when the question came that they are of, monotonic.

        Without them somebody was evicted beside room that had come milliseconds before.
        """
        if not lists:
            return lists
        freed = self.freed_since(asked)
        return {uid: names | freed for uid, names in lists.items()}

    def freed_since(self, asked: float) -> frozenset[str]:
        """Return the nodes that may have room since kube-scheduler began to make up the question
        that came at ``asked``, monotonic."""
        since = asked - LIST_SECONDS
        if self._all_freed > since and self._source is not None:
            return frozenset(self._source.snapshot().nodes)
        latest = takewhile(lambda each: each[1] > since, reversed(self._freed.items()))
        return frozenset(name for name, _ in latest)

    def unseen(self, gang: Gang) -> Pod | None:
        """Return a member for whose kind no node was ever named, None when all is known."""
        seen = {_kind(pod) for pod in gang.pending if pod.uid in self.accepted}
        for pod in gang.pending:
            if pod.shape.unmodelled and _kind(pod) not in seen:
                return pod
        return None

    def run_out(self, gang: Gang, snapshot: Snapshot) -> list[tuple[Pod, str]]:
        """Return the members of which kube-scheduler has named nodes that count no more, as they
        were named too long ago or have other pods with volumes by now; each with one of its nodes.

        None while nothing counts that was said of others. None twice, unless nodes were named for
        it in between: it would name none again. One that DynamicResources alone refused everywhere
        is not woken by that: no pod's end frees a device to it, and that of a claim it waits for.
        """
        members = [pod for pod in gang.pending if pod.shape.unmodelled]
        seen = {_kind(pod) for pod in members if pod.uid in self.accepted}
        there = self.in_the_way(gang, snapshot)
        if not any(self.accepted.get(pod.uid) or there.get(pod.uid) for pod in members):
            return []
        found = []
        for pod in members:
            changed = self.accepted.evicting(pod.uid).keys() - there.get(pod.uid, NO_NODES).keys()
            if changed or _kind(pod) not in seen:
                named = self._named_for.pop(pod.uid)
                found += [] if named is None else [(pod, named.node)]
        return found

    def refuses(
        self, pod: Pod, node: str, holds: Callable[[], bool] | None = None, why: str = ""
    ) -> None:
        """Note that kube-scheduler refuses pods like this one on a node that has room; for a
        while, or for as long as ``holds()``. ``why``: what its filters say, where they were asked.
        """
        if holds is None:
            self._refused[_kind(pod), node] = why
        else:
            self._refused_while[_kind(pod), node] = holds
        self._refusals += 1

    def version(self) -> int:
        """Return a number that grows with each refused seat, with each that is forgotten, with each
        scheduler that asks for the first time (what waited for it is another gang then), and with
        each node that is named for a pod with needs we do not model."""
        others = len(self.schedulers - {DEFAULT_SCHEDULER}) + self._named
        if not self._refusals:
            return others
        self._refused.expire()
        self._forget()
        return others + 2 * self._refusals - len(self._refused) - len(self._refused_while)

    def _forget(self) -> None:
        """Forget the refusals whose reason is gone."""
        over = [key for key, holds in self._refused_while.items() if not holds()]
        for key in over:
            del self._refused_while[key]

    def refused_words(self, gang: Gang) -> list[str]:
        """Return what kube-scheduler's filters say of nodes that members may not use, by node."""
        kinds = {_kind(pod) for pod in gang.pending} if self._refused else set()
        return sorted(
            {
                f"{node}: {why}"
                for (kind, node), why in self._refused.items()
                if why and kind in kinds
            }
        )

    def masks(
        self,
        gang: Gang,
        nodes: Iterable[str],
        in_the_way: Mapping[str, Mapping[str, tuple[str, ...]]] = NO_NODES,
    ) -> dict[str, frozenset[str]]:
        """Return, per member uid, the nodes that do not count for its kind; those do from which
        pods have to go first (``in_the_way``), also where a seat was refused before."""
        masks = self._unnamed(gang, nodes)
        refused: dict[object, set[str]] = {}
        self._forget()
        for kind, node in (*self._refused, *self._refused_while):
            refused.setdefault(kind, set()).add(node)
        for pod in gang.pending if refused else ():
            if (kind := _kind(pod)) in refused:
                masks[pod.uid] = masks.get(pod.uid, frozenset()) | refused[kind]
        for uid, found in in_the_way.items():
            if uid in masks:
                masks[uid] = masks[uid].difference(found)
        return masks

    def _unnamed(self, gang: Gang, nodes: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return, per member uid, the nodes that nobody has named for its kind."""
        by_kind: dict[object, frozenset[str]] = {}
        for pod in gang.pending:
            known = self.accepted.get(pod.uid)
            if known is not None and pod.shape.unmodelled:
                by_kind[_kind(pod)] = by_kind.get(_kind(pod), frozenset()) | known
        if not by_kind:
            return {}
        everything = frozenset(nodes)
        return {
            pod.uid: everything - by_kind[_kind(pod)]
            for pod in gang.pending
            if _kind(pod) in by_kind
        }


def _evicting(
    pod: Pod, victims: Mapping[str, tuple[str, ...]], snapshot: Snapshot
) -> dict[str, Evicting | None]:
    """Return the nodes where kube-scheduler would evict pods with volumes for this one.

    None where another pod with volumes and no less priority is nominated: kube-scheduler counts
    that pod, so these victims may be for its volumes. A victim that is not known here may have
    volumes.
    """
    nominated = {
        other.nominated
        for other in snapshot.pending.values()
        if other.nominated
        and other.uid != pod.uid
        and other.priority >= pod.priority
        and other.shape.volumes
    }
    found: dict[str, Evicting | None] = {}
    for node, uids in victims.items():
        there = _with_volumes(node, snapshot)
        known = {other.uid for other in snapshot.bound.get(node, ())}
        holding = tuple(sorted(uid for uid in uids if uid in there or uid not in known))
        if holding:
            said = Evicting(holding, there.union(holding), there.intersection(holding))
            found[node] = None if node in nominated else said
    return found


def _with_volumes(node: str, snapshot: Snapshot) -> frozenset[str]:
    """Return the uids of the pods with volumes on a node."""
    return frozenset(pod.uid for pod in snapshot.bound.get(node, ()) if pod.shape.volumes)


def _offers(node: Node) -> tuple[object, ...]:
    return node.uid, node.unschedulable, node.allocatable, node.taints, node.labels


def _kind(pod: Pod) -> object:
    """What pods have to share for one's luck with a node to tell of another's. Claims are of a
    namespace: what nobody may use of one's says nothing of another's."""
    return (pod.requests, pod.shape, pod.namespace if pod.shape.unmodelled else "")
