"""What may stand idle for booked gangs, as a share of what the cluster has.

Room is idle from when the first of those who are waited for ends until the last one does. The most
that can be is all of the seats' room less what the least of them has: the moment before the last
of them ends. Ends being sure makes the time known, not the room smaller.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.gang.plan.booking import BookedAmounts, Booking, add
from extender.model.snapshot import Snapshot

PODS = "pods"
"""Room for pods is no work that could be done."""


def idle(booking: Booking, snapshot: Snapshot, *, begins: bool) -> BookedAmounts:
    """Return the most that may stand idle for the booking from now on, by resource.

    ``begins``: it is to be booked now; with nobody left to wait for, it takes its seats at once.
    Else all of them are kept until it does.
    """
    waiting = [
        dict(pod.requests)
        for name in booking.nodes()
        for pod in snapshot.bound.get(name, ())
        if pod.uid in booking.awaited
    ]
    if begins and not waiting:
        return {}
    seats: BookedAmounts = {}
    for requests in booking.asked.values():
        add(seats, requests.items(), 1)
    return {
        name: amount - min((there.get(name, 0) for there in waiting), default=0)
        for name, amount in seats.items()
        if name != PODS
    }


def capacity(snapshot: Snapshot) -> BookedAmounts:
    """Return what all nodes have together."""
    total: BookedAmounts = {}
    for node in snapshot.nodes.values():
        add(total, node.allocatable, 1)
    return total


def largest_share(idles: Iterable[BookedAmounts], total: BookedAmounts) -> tuple[float, str]:
    """Return the largest share of a resource of ``total`` that these come to, and which."""
    together: BookedAmounts = {}
    for each in idles:
        add(together, ((name, max(0, amount)) for name, amount in each.items()), 1)
    worst, which = 0.0, ""
    for name, amount in sorted(together.items()):
        share = amount / total[name] if total.get(name) else 0.0
        if share > worst:
            worst, which = share, name
    return worst, which
