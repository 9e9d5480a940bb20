"""A booked start: seats that a gang will have once pods that run there have ended.

Nobody is evicted for it. A booking names seats, and on each of their nodes the pods whose room
they count on. What it claims of a node now is what its seats ask for less what those pods still
hold; so nothing is claimed of room that comes by itself, and all of a seat's room once it is free.

Pure: one snapshot in, amounts out. Times are wall clock seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from extender.fit.static import static_mask
from extender.gang.plan.ends import End, limit_of
from extender.model.gang import Gang
from extender.model.objects import GangKey, Node, Pod, PodShape, Requests
from extender.model.plan import Hold, LeavingPod, Plan
from extender.model.snapshot import Snapshot

SLACK_SECONDS = 30.0
"""How much later than it should a pod may be gone before it counts as late: a kubelet looks at
limits every ten seconds or so."""
PASS_SECONDS = 10.0
"""So long before the start a pod has to be gone that is let in: its limit counts from when a
kubelet has it, some seconds after it was given its node."""
BOOKED = "booked:"
"""Before a gang's key and a node, in place of a pod's uid: a hold that stands for a booking."""
Ends = Mapping[str, End]
"""Pod uid -> its end, for pods that end by themselves."""
BookedAmounts = dict[str, int]


class Booking(Struct, frozen=True, dict=True):
    """A gang's booked start."""

    gang: GangKey
    priority: int
    made: float
    start: float | None
    """When its seats come free; None: nobody knows."""
    seats: Mapping[str, str]
    """Member uid -> node."""
    requests: Mapping[str, Requests]
    """Member uid -> what it asks for."""
    awaited: frozenset[str]
    """Uids of the running pods whose room its seats count on."""
    domain: frozenset[str]
    """Names of the nodes that some member could use if they were empty."""

    @cached_property
    def asked(self) -> Mapping[str, BookedAmounts]:
        """What its seats ask for together, by the node that has them."""
        found: dict[str, BookedAmounts] = {}
        for uid, name in self.seats.items():
            add(found.setdefault(name, {}), self.requests[uid], 1)
        return found

    def nodes(self) -> Set[str]:
        """Return the nodes that have its seats."""
        return self.asked.keys()


class BookingClaim(Struct, frozen=True):
    """What one booking keeps of one node now, and whose room there it counts on."""

    hold: Hold
    """Of no amounts while those who are awaited hold all that it asks for."""
    start: float | None
    """Wall clock time at which its gang starts; None: not known."""
    asked: Requests
    """What its seats there ask for, all of it kept once nobody is awaited any more."""
    awaited: tuple[LeavingPod, ...]
    """The pods there that it counts on besides."""


def domain_of(gang: Gang, snapshot: Snapshot) -> frozenset[str]:
    """Return the nodes that some member of the gang could use if they were empty."""
    nodes = list(snapshot.nodes.values())
    found: set[str] = set()
    kinds: set[tuple[object, Requests]] = set()
    for pod in gang.pending:
        kind = (pod.shape, pod.requests)
        if kind in kinds:
            continue
        kinds.add(kind)
        mask = static_mask(pod, nodes)
        found.update(
            node.name for node, fine in zip(nodes, mask, strict=True) if fine and _has(node, pod)
        )
    return frozenset(found)


def _has(node: Node, pod: Pod) -> bool:
    there = dict(node.allocatable)
    return all(there.get(name, 0) >= amount for name, amount in pod.requests)


def ends_in(snapshot: Snapshot, end_of: Callable[[Pod], End | None]) -> dict[str, End]:
    """Return the ends of all bound pods that are made to end, by uid."""
    found: dict[str, End] = {}
    for pods in snapshot.bound.values():
        for pod in pods:
            end = end_of(pod)
            if end is not None:
                found[pod.uid] = end
    return found


def moments(ends: Ends, snapshot: Snapshot, domain: frozenset[str]) -> list[float]:
    """Return the known ends on these nodes, likely ones and sure ones, ascending, each once."""
    found: set[float] = set()
    for name in domain:
        for pod in snapshot.bound.get(name, ()):
            end = ends.get(pod.uid)
            if end is not None:
                found.update(at for at in (end.at, end.by) if at is not None)
    return sorted(found)


def as_if_ending(
    snapshot: Snapshot, ends: Ends, until: float | None, generation: int, gang: GangKey
) -> Snapshot:
    """Return the snapshot with those terminating that end by ``until`` (None: whenever they do).

    To a search, pods that terminate are room that costs no eviction, and of them it waits for as
    few as it can. The gang's own members stay what they are. ``generation`` has to be another one
    than that of any other snapshot the planner is shown.

    Who terminates already, but not soon, is shown as one that goes now as well.
    """
    bound: dict[str, tuple[Pod, ...]] = {}
    for name, pods in snapshot.bound.items():
        own = {pod.uid for pod in snapshot.members.get(gang, ()) if pod.node == name}
        changed = [
            replace(pod, deleting=snapshot.now or 1.0)
            if pod.uid not in own
            and not 0 < pod.deleting <= snapshot.now
            and _ends_by(ends.get(pod.uid), until)
            else pod
            for pod in pods
        ]
        same = all(new is old for new, old in zip(changed, pods, strict=True))
        bound[name] = pods if same else tuple(changed)
    return replace(snapshot, generation=generation, bound=bound, unevictable={}, stayed={})


def _ends_by(end: End | None, until: float | None) -> bool:
    if end is None:
        return False
    return until is None or (end.at is not None and end.at <= until)


def not_its_own(gang: Gang, end_of: Callable[[Pod], End | None]) -> Callable[[Pod], End | None]:
    """Return the ends that the gang may wait for: those of its owner's own pods only where a
    kubelet sees to them. Else whoever owns it decides for how long others wait."""
    owners = {(pod.namespace, pod.owner.uid) for pod in gang.members if pod.owner is not None}

    def end(pod: Pod) -> End | None:
        found = end_of(pod)
        if found is not None and found.by is None and pod.owner is not None:
            return None if (pod.namespace, pod.owner.uid) in owners else found
        return found

    return end


def as_asker(gang: Gang) -> Gang:
    """Return the gang as one that may evict nobody: it asks for room that comes by itself."""
    return replace(gang, preempts=False)


def booked(
    gang: Gang,
    plan: Plan,
    start: float | None,
    snapshot: Snapshot,
    domain: frozenset[str],
) -> Booking:
    """Return the booking of seats that were found with ``as_if_ending``."""
    requests = {pod.uid: pod.requests for pod in gang.pending}
    return Booking(
        gang=gang.key,
        priority=gang.preemptor_priority,
        made=snapshot.now,
        start=start,
        seats={seat.uid: seat.node for seat in plan.seats if seat.uid in requests},
        requests={seat.uid: requests[seat.uid] for seat in plan.seats if seat.uid in requests},
        awaited=frozenset(victim.uid for victim in plan.waits_for),
        domain=domain,
    )


def waited_for(
    booking: Booking, pods: Iterable[Pod], ends: Callable[[Pod], End | None]
) -> Iterator[Pod]:
    """Yield those of a node's pods whose room the seats there may count on: who was awaited from
    the first, and who surely is gone when the start has come."""
    for pod in pods:
        if pod.uid in booking.awaited:
            yield pod
        elif booking.start is not None:
            end = ends(pod)
            if end is not None and end.by is not None and end.by <= booking.start:
                yield pod


def claims(
    bookings: Iterable[Booking],
    node: str,
    pods: Sequence[Pod],
    ends: Callable[[Pod], End | None],
    promised: Container[str],
) -> Iterator[tuple[Booking, BookedAmounts, tuple[LeavingPod, ...]]]:
    """Yield for each booking what it keeps of the node's free room now, only what is above
    nothing, and whom it waits for there with what of their room it counts on.

    No pod's room is counted on twice: the more urgent booking has it, then the older one; that of
    ``promised`` pods (uids) is a plan's.
    """
    left: dict[str, BookedAmounts] = {}
    for booking in sorted(bookings, key=lambda each: (-each.priority, each.made, each.gang)):
        wants = dict(booking.asked.get(node, {}))
        awaited: list[LeavingPod] = []
        for pod in waited_for(booking, pods, ends):
            if pod.uid not in left:
                left[pod.uid] = {} if pod.uid in promised else dict(pod.requests)
            has = left[pod.uid]
            counted = {name: min(wants.get(name, 0), amount) for name, amount in has.items()}
            add(wants, counted.items(), -1)
            add(has, counted.items(), -1)
            awaited.append((pod.uid, tuple((name, n) for name, n in counted.items() if n > 0)))
        yield booking, {name: n for name, n in wants.items() if n > 0}, tuple(awaited)


def add(total: BookedAmounts, requests: Iterable[tuple[str, int]], sign: int) -> None:
    """Add amounts to others, or take them away."""
    for name, amount in requests:
        total[name] = total.get(name, 0) + sign * amount


def problem(
    booking: Booking,
    gang: Gang,
    snapshot: Snapshot,
    taken: Mapping[str, BookedAmounts],
    ends: Callable[[Pod], End | None],
) -> str:
    """Return why the booked seats cannot come free as they should, "" when they can.

    ``taken``: what others' seats and bookings take of each node.
    """
    kinds: dict[str, dict[PodShape, Pod]] = {}
    for pod in gang.pending:
        if pod.uid in booking.seats:
            kinds.setdefault(booking.seats[pod.uid], {}).setdefault(pod.shape, pod)
    for name in sorted(booking.nodes()):
        node = snapshot.nodes.get(name)
        if node is None or node.unschedulable:
            return f"node {name} takes no pods any more"
        if not all(static_mask(pod, [node])[0] for pod in kinds.get(name, {}).values()):
            return f"members may not have node {name} any more"
        pods = snapshot.bound.get(name, ())
        gone = {pod.uid for pod in waited_for(booking, pods, ends)}
        left: BookedAmounts = dict(node.allocatable)
        add(left, taken.get(name, {}).items(), -1)
        for pod in pods:
            if pod.uid not in gone:
                add(left, pod.requests, -1)
        for resource, amount in booking.asked[name].items():
            if amount > left.get(resource, 0):
                return f"on node {name} others have taken {resource} that it counted on"
    return ""


def kept_from(gang: Gang, booking: Booking) -> bool:
    """Whether the booking keeps its room from the gang: one as urgent or less, and not its own."""
    return gang.key != booking.gang and gang.preemptor_priority <= booking.priority


def keep_off(claims: Iterable[BookingClaim], pod: Pod, now: float) -> list[BookingClaim]:
    """Return the claims on a node that keep this pod off: of gangs as urgent or more, and not what
    it is surely gone before when it is placed ``now``."""
    limit = limit_of(pod, now)
    return [
        claim
        for claim in claims
        if claim.hold.priority >= pod.priority
        and (claim.start is None or limit is None or limit + PASS_SECONDS > claim.start)
    ]


def holds_against(
    gang: Gang, bookings: Sequence[Booking], snapshot: Snapshot, ends: Callable[[Pod], End | None]
) -> Iterator[Hold]:
    """Yield what a search for the gang has to leave to these bookings, a hold for each and node.

    Room of awaited pods that the gang could evict is no room of the gang's: it is taken off
    nothing.
    """
    for name in sorted({name for booking in bookings for name in booking.nodes()}):
        pods = [
            pod
            for pod in snapshot.bound.get(name, ())
            if pod.deleting or pod.priority >= gang.preemptor_priority
        ]
        there = [booking for booking in bookings if name in booking.nodes()]
        for booking, amounts, _ in claims(there, name, pods, ends, ()):
            if amounts:
                yield as_hold(booking, name, amounts)


def as_hold(booking: Booking, node: str, amounts: Mapping[str, int]) -> Hold:
    """Return a claim as a hold. No pod has its uid; it is firm: nobody takes it over."""
    return Hold(
        gang=booking.gang,
        priority=booking.priority,
        uid=f"{BOOKED}{booking.gang}@{node}",
        node=node,
        requests=tuple(sorted(amounts.items())),
        firm=True,
    )
