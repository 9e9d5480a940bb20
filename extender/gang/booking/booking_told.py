"""What is told of booked starts: in /debug/limits and in decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from extender.gang.booking.booked_room import BookedRoom
from extender.gang.booking.booking_line import BookingLine
from extender.gang.plan.booking import Booking
from extender.gang.plan.ends import End
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted, rfc3339


def described(
    booking: Booking,
    snapshot: Snapshot,
    room: BookedRoom,
    end_of: Callable[[Pod], End | None],
    line: BookingLine,
) -> dict[str, Any]:
    """Return, for a person, whom the gang waits for and what it keeps."""
    found: dict[str, Any] = {
        "gang": str(booking.gang),
        "priority": booking.priority,
        "booked": True,
        "since": rfc3339(booking.made),
        "start": None if booking.start is None else rfc3339(booking.start),
        "seats": dict(sorted(booking.seats.items())),
        "waitsFor": [
            {"namespace": pod.namespace, "name": pod.name, "node": pod.node, **_told(end)}
            for name in sorted(booking.nodes())
            for pod in snapshot.bound.get(name, ())
            if pod.uid in booking.awaited and (end := end_of(pod) or End(None))
        ],
        "keeps": {
            hold.node: dict(hold.requests)
            for name in sorted(booking.nodes())
            for hold in room.on(name)
            if hold.gang == booking.gang
        },
    }
    behind = line.why_behind(booking.gang)
    return {**found, "lostItsTurn": behind} if behind else found


def not_booked(reasons: Mapping[GangKey, str], line: BookingLine) -> list[dict[str, Any]]:
    """Return, for a person, who waits for a booked start, and why."""
    return [
        {
            "gang": str(key),
            "booked": False,
            "why": "; ".join(each for each in (line.why_behind(key), why) if each),
        }
        for key, why in reasons.items()
    ]


def story(booking: Booking) -> Refusal:
    """Return what the owner is told of a booking."""
    when = "when they end" if booking.start is None else f"by {rfc3339(booking.start)}"
    return Refusal(
        gang=booking.gang,
        code=Code.BOOKED,
        message=f"booked start: its seats are on {counted(len(booking.nodes()), 'node')}, and "
        f"{counted(len(booking.awaited), 'pod', 'there is', 'there are')} waited for, {when}; "
        "nobody is evicted, and what comes free there is kept for it",
    )


def lost(key: GangKey, why: str) -> Refusal:
    """Return what the owner of a gang is told that has lost its turn."""
    return Refusal(
        gang=key,
        code=Code.BOOKED,
        message=f"its booked start has lost its turn: {why}; it is kept only as long as nobody "
        "else wants the room, and the gang waits behind the others",
    )


def _told(end: End) -> dict[str, object]:
    """``sure``: a kubelet sees to an end, be it a later one than is likely."""
    at, by = (None if each is None else rfc3339(each) for each in (end.at, end.by))
    return {"ends": at, "endsBy": by, "sure": by is not None}
