"""What has been seen of a run: pods, groups, nodes, faults. No I/O and no clock of its own.

Every method that takes note of something is told when it happened (wall clock seconds, because
the API server's audit log has no other). The invariants read this and nothing else, so that a
made-up history tests them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.chaos.groups import GroupSpec

EXTENDER = "extender"
SCHEDULER = "system:kube-scheduler"
SQUATTERS = "squatters"
"""Namespace of pods that come without being scheduled."""
FINISHED = ("Succeeded", "Failed")
KEPT_SECONDS = 180.0
"""How long a pod that is gone is remembered."""
MAX_TOLD = 20_000


@dataclass(slots=True)
class PodSeen:
    """One pod as a watch shows it at one moment."""

    uid: str
    name: str
    group: str
    cpu: int
    priority: int
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    nominated: str = ""
    disrupted: str = ""
    """Message of the condition DisruptionTarget."""
    ready: bool = False
    """Whether it runs and is ready."""
    squats: bool = False
    """It came without being scheduled."""


@dataclass(slots=True)
class PodLife:
    """A pod from its first to its last event."""

    seen: PodSeen
    created_at: float
    bound_at: float = 0.0
    ready_since: float = 0.0
    """Since when it has been ready; 0 while it is not."""
    deleting_at: float = 0.0
    finished_at: float = 0.0
    gone_at: float = 0.0
    disrupted: str = ""
    """Message of the condition DisruptionTarget when its deletion began."""
    removed_at: float = 0.0
    """When the first request to remove it was accepted."""
    removed_by: str = ""
    """Whose request that was."""

    @property
    def exists(self) -> bool:
        """Whether the object is there."""
        return not self.gone_at

    @property
    def alive(self) -> bool:
        """Whether it is there to stay: neither on its way out nor finished."""
        return not (self.gone_at or self.deleting_at or self.finished_at)

    @property
    def seated(self) -> bool:
        """Whether it is alive on a node."""
        return self.alive and bool(self.seen.node)

    def sat(self, at: float) -> bool:
        """Whether it was alive on a node at a time."""
        ends = (self.gone_at, self.deleting_at, self.finished_at)
        return 0.0 < self.bound_at <= at and all(not end or end >= at for end in ends)

    @property
    def holds_room(self) -> bool:
        """Whether kube-scheduler counts it against its node."""
        return bool(self.seen.node) and not self.gone_at and not self.finished_at


@dataclass(frozen=True, slots=True)
class Break:
    """A unit ``all`` of which one pod was evicted by the extender."""

    at: float
    victim: str
    survivors: frozenset[str]
    """Uids of its other members that had been on a node for a while then."""


@dataclass(slots=True)
class GroupLife:
    """A group from its arrival on."""

    spec: GroupSpec
    arrived_at: float
    leaving_at: float = 0.0
    """When its user began to remove it, or it began to finish."""
    pods: set[str] = field(default_factory=set)
    """Uids of the pods that exist."""
    first_bound_at: float = 0.0
    """When the first of the members that are bound now was; 0 with none bound."""
    was_whole: bool = False
    """Whether it has had its quorum since."""
    lost_one: bool = False
    """Whether a bound member went before it had its quorum."""
    breaks: list[Break] = field(default_factory=list)

    @property
    def present(self) -> bool:
        """Whether its user wants it to run."""
        return not self.leaving_at


@dataclass(slots=True)
class Fault:
    """One injected fault."""

    kind: str
    detail: str
    begun: float
    ended: float = 0.0
    hits: int = 1
    """Requests it met; 1 where it is no matter of requests."""
    blinds: bool = False
    """Whether the extender may have seen or sent nothing, or late, while it lasted."""
    touches_scheduler: bool = False
    """Whether kube-scheduler may have lost the answer to a binding."""

    def overlaps(self, begin: float, end: float) -> bool:
        """Whether it was there at any moment in between."""
        return self.begun <= end and (not self.ended or self.ended >= begin)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A request to remove a pod that the API server has accepted first."""

    at: float
    uid: str
    by: str
    asked: bool = False
    """Whether the Eviction API was asked, which has the last word on budgets."""


class History:
    """The run so far, and the story of it in words."""

    def __init__(self) -> None:
        self.pods: dict[str, PodLife] = {}
        self.groups: dict[str, GroupLife] = {}
        self.nodes: dict[str, int] = {}
        """Milli-cores of each node that takes pods."""
        self.closed_nodes: dict[str, int] = {}
        """The same of nodes that are cordoned or not ready."""
        self.records: dict[str, str] = {}
        """Name of each plan record and the gang it is for."""
        self.faults: list[Fault] = []
        self.disturbed: deque[tuple[float, str]] = deque(maxlen=5000)
        """When a node or a member was changed by hand, and how."""
        self.placed: list[tuple[float, str]] = []
        """When a gang got its quorum."""
        self.evictions: list[Eviction] = []
        self.story: deque[tuple[float, str]] = deque(maxlen=MAX_TOLD)
        self.arrived = 0

    # -- told by the runner -----------------------------------------------------------------

    def tell(self, at: float, text: str) -> None:
        """Add a line to the story."""
        self.story.append((at, text))

    def arrive(self, spec: GroupSpec, at: float) -> None:
        """A user brings a group."""
        self.groups[spec.name] = GroupLife(spec, at)
        self.arrived += 1
        self.tell(at, f"arrives: {spec}")

    def leave(self, name: str, at: float, why: str) -> None:
        """A user begins to take a group away, or it begins to finish."""
        self.groups[name].leaving_at = at
        self.tell(at, f"{name} {why}")

    def forget(self, name: str) -> None:
        """Nothing is left of a group."""
        self.groups.pop(name, None)

    def disturb(self, at: float, what: str) -> None:
        """A node or a member is changed by hand."""
        self.disturbed.append((at, what))

    def begin(self, fault: Fault) -> None:
        """A fault begins."""
        self.faults.append(fault)
        self.tell(fault.begun, f"FAULT {fault.kind}: {fault.detail}")

    def end(self, fault: Fault, at: float) -> None:
        """A fault is over."""
        fault.ended = at
        self.tell(at, f"fault over: {fault.kind}")

    # -- told by watches --------------------------------------------------------------------

    def take(self, seen: PodSeen, at: float) -> None:
        """A pod was made or changed."""
        life = self.pods.get(seen.uid)
        if life is None:
            life = self.pods[seen.uid] = PodLife(seen, at)
            if seen.group in self.groups:
                self.groups[seen.group].pods.add(seen.uid)
        was_seated = life.seated
        if seen.node and not life.bound_at:
            life.bound_at = at
            self.tell(at, f"{seen.name} is bound to {seen.node}")
        if not seen.deleting:  # a kubelet that ends a pod says that it is not ready
            life.ready_since = (life.ready_since or at) if seen.ready else 0.0
        if seen.phase in FINISHED and not life.finished_at:
            life.finished_at = at
        if seen.deleting and not life.deleting_at:
            life.deleting_at, life.disrupted = at, seen.disrupted
            if not life.finished_at and seen.node:
                told = f" ({seen.disrupted})" if seen.disrupted else ""
                self.tell(at, f"{seen.name} is being deleted on {seen.node}{told}")
        life.seen = seen
        self._recount(seen.group, at, lost=was_seated and not life.seated)

    def gone(self, uid: str, at: float) -> None:
        """A pod's object was removed."""
        life = self.pods.get(uid)
        if life is None or life.gone_at:
            return
        was_seated = life.seated
        life.gone_at = at
        life.disrupted = life.disrupted or life.seen.disrupted
        if was_seated:
            self.tell(at, f"{life.seen.name} is gone from {life.seen.node}")
        group = self.groups.get(life.seen.group)
        if group is not None:
            group.pods.discard(uid)
        self._recount(life.seen.group, at, lost=was_seated)

    def removed(
        self, uid: str, at: float, by: str, margin: float, *, asked: bool = False
    ) -> Eviction | None:
        """A removal was accepted; return it if it was the first one of that pod.

        ``asked``: it came through the Eviction API.

        ``margin``: a sibling bound less than this many seconds before is not taken for one
        that the extender must have known.
        """
        life = self.pods.get(uid)
        if life is None or life.removed_by:
            return None
        life.removed_at, life.removed_by = at, by
        eviction = Eviction(at, uid, by, asked)
        self.evictions.append(eviction)
        group = self.groups.get(life.seen.group)
        if (
            by == EXTENDER
            and group is not None
            and group.spec.unit == "all"
            and self._ran(group, uid, at)
        ):
            group.breaks.append(
                Break(
                    at,
                    uid,
                    frozenset(
                        other
                        for other in group.pods
                        if other != uid
                        and self.pods[other].seated
                        and self.pods[other].bound_at < at - margin
                    ),
                )
            )
        return eviction

    def _ran(self, group: GroupLife, uid: str, at: float) -> bool:
        """Whether the group had its quorum right before a pod of it was removed at a time.

        Without it its pods go one by one (promise 2). The audit log may be read long after the
        watch has told that the pod is gone.
        """
        lives = [life for life in self.pods.values() if life.seen.group == group.spec.name]
        sat = sum(life.seen.uid == uid or life.sat(at) for life in lives)
        return bool(self.pods[uid].bound_at) and sat >= group.spec.min_count

    def _recount(self, name: str, at: float, *, lost: bool) -> None:
        group = self.groups.get(name)
        if group is None:
            return
        seated = sum(self.pods[uid].seated for uid in group.pods)
        if lost and not group.was_whole:
            group.lost_one = True
        if not seated:
            group.first_bound_at, group.was_whole, group.lost_one = 0.0, False, False
            return
        if not group.first_bound_at:
            group.first_bound_at = at
        if seated >= group.spec.min_count and not group.was_whole:
            group.was_whole = True
            if group.spec.is_gang:
                self.placed.append((at, name))
                self.tell(at, f"{name} runs: {seated} members")

    # -- asked by the invariants ------------------------------------------------------------

    def of(self, name: str) -> list[PodLife]:
        """The existing pods of a group."""
        group = self.groups.get(name)
        return [self.pods[uid] for uid in sorted(group.pods)] if group else []

    def on_node(self, node: str) -> Iterator[PodLife]:
        """The pods that count against a node."""
        return (life for life in self.pods.values() if life.holds_room and life.seen.node == node)

    def blind(self, begin: float, end: float) -> bool:
        """Whether a fault kept the extender from seeing or acting at any moment in between."""
        return any(fault.blinds and fault.overlaps(begin, end) for fault in self.recent_faults())

    def recent_faults(self) -> Iterable[Fault]:
        """The last faults, newest first; enough for every question about the last minutes."""
        return list(reversed(self.faults[-200:]))

    def prune(self, now: float) -> None:
        """Forget pods that have been gone for long."""
        old = now - KEPT_SECONDS
        for uid in [u for u, life in self.pods.items() if life.gone_at and life.gone_at < old]:
            del self.pods[uid]
