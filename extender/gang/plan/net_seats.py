"""What seats take of their nodes beyond what those who still have to leave for them give back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from extender.model.objects import GangKey
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot


def net_seats(
    holds: Iterable[Hold],
    leaves: Callable[[GangKey, str], bool],
    snapshot: Snapshot,
    counted: Iterable[str],
) -> list[Hold]:
    """Return the seats, smaller by what these pods have on the same node.

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
