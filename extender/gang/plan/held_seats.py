"""Seats that other gangs hold: the room they take, and what those that give way would free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from extender.gang.plan.question import GangQuestion
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.search.census import Releases, Seatings, plus
from extender.search.problem import Unit, Vector


def gives_way(hold: Hold, gang: Gang) -> bool:
    """Whether the gang may take the seat over: it is more urgent, and nobody is being seated."""
    return not hold.firm and hold.priority < gang.preemptor_priority and gang.preempts


def gangs_giving_way(question: GangQuestion) -> set[GangKey]:
    """Return the gangs whose seats the gang may take over."""
    return {hold.gang for hold in question.holds if gives_way(hold, question.gang)}


def held_for_others(
    question: GangQuestion, taken: Collection[GangKey]
) -> Iterator[tuple[Pod, str]]:
    """Yield the waiting pods of other gangs for which a seat is held, each with its node; not of
    those ``taken``: their seats are given up for the plan."""
    for hold in question.holds:
        pod = question.snapshot.pending.get(hold.uid)
        if pod is not None and hold.gang != question.gang.key and hold.gang not in taken:
            yield pod, hold.node


def seatings(
    holds: Iterable[Hold], gang: Gang, places: Mapping[str, int], resources: tuple[str, ...]
) -> dict[int, Seatings]:
    """Return what seats of other gangs take, by the nodes' place among the usable ones."""
    none: Vector = (0,) * len(resources)
    found: dict[int, Seatings] = {}
    for hold in holds:
        at = places.get(hold.node)
        if at is None:
            continue
        amounts = vector(hold.requests, resources)
        held, spare = found.get(at, (none, none))
        if gives_way(hold, gang):
            spare = plus(spare, amounts)
        found[at] = Seatings(plus(held, amounts), spare)
    return found


def taken_over(
    holds: Iterable[Hold], gang: Gang, places: Mapping[str, int], blocking: AbstractSet[str]
) -> dict[GangKey, list[Hold]]:
    """Return the seats that give way, by their gang, where that frees room or lets members in.

    ``places``: the usable nodes. ``blocking``: uids of pods that keep members off some node.
    """
    found: dict[GangKey, list[Hold]] = {}
    for hold in holds:
        if (hold.node in places or hold.uid in blocking) and gives_way(hold, gang):
            found.setdefault(hold.gang, []).append(hold)
    return found


def reservations(
    taken: Mapping[GangKey, Sequence[Hold]],
    names: Sequence[str],
    resources: tuple[str, ...],
    cost: Vector,
    blocking: AbstractSet[str],
) -> Iterator[tuple[Unit, GangKey]]:
    """Yield a unit for each gang whose seats on the nodes named, or whose rules, would be gone."""
    for key, holds in sorted(taken.items()):
        released = releases_of(holds, names, resources)
        if released or any(hold.uid in blocking for hold in holds):
            yield Unit(uid=f"reservation {key}", releases=released, cost=cost, pods=0), key


def vector(requests: Iterable[tuple[str, int]], resources: tuple[str, ...]) -> Vector:
    """Return the amounts in the order of ``resources``; 0 for what is not asked for."""
    amounts = dict(requests)
    return tuple(amounts.get(resource, 0) for resource in resources)


def releases_of(
    holds: Iterable[Hold], names: Sequence[str], resources: tuple[str, ...]
) -> Releases:
    """Return what the nodes named would have more of without these seats."""
    index = {name: at for at, name in enumerate(names)}
    total: dict[int, Vector] = {}
    for hold in holds:
        if hold.node in index:
            amounts = vector(hold.requests, resources)
            before = total.get(index[hold.node])
            total[index[hold.node]] = amounts if before is None else plus(before, amounts)
    return tuple(sorted(total.items()))


def beyond_leaving(
    holds: Iterable[Hold],
    leaves: Callable[[GangKey, str], bool],
    snapshot: Snapshot,
    counted: Iterable[str],
) -> list[Hold]:
    """Return what seats take of their nodes beyond what those who still have to leave for them give
    back: the seats, smaller by what these pods have on the same node.

    ``leaves``: whether a gang's plan counts on it that the pod of this uid goes. What such pods
    have beyond its own seats is nobody else's before they are gone. ``counted``: uids that count as
    gone otherwise, so that their room is not given away twice.
    """
    left: dict[tuple[GangKey, str], dict[str, int]] = {}
    done = set(counted)
    found = []
    for hold in holds:
        at = (hold.gang, hold.node)
        if at not in left:
            amounts: dict[str, int] = {}
            left[at] = amounts
            for pod in snapshot.bound.get(hold.node, ()):
                if pod.uid not in done and leaves(hold.gang, pod.uid):
                    done.add(pod.uid)
                    for name, amount in pod.requests:
                        amounts[name] = amounts.get(name, 0) + amount
        found.append(_less(hold, left[at]))
    return found


def _less(hold: Hold, left: dict[str, int]) -> Hold:
    """Return the seat without what is left there, which is used up by it."""
    requests = []
    for name, amount in hold.requests:
        used = min(amount, left.get(name, 0))
        if used:
            left[name] -= used
        requests.append((name, amount - used))
    return replace(hold, requests=tuple(requests))
