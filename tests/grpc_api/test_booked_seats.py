"""WatchSeats tells booked room with the pods that it waits for."""

from __future__ import annotations

import asyncio

from extender.gang.plan.booking import BookingClaim
from extender.grpc_api import seats
from extender.grpc_api.seats import SeatBoard
from extender.model.objects import GangKey, Requests
from extender.model.plan import Hold
from extender.pb.podgroup.v1 import watch_pb2
from tests.grpc_api.test_seats import Terms


async def test_booked_room_is_told_with_those_it_waits_for() -> None:
    """Else who is quicker than the next message takes what one of them leaves."""
    terms = Terms()
    gang = GangKey("pod-group", "default", "big")
    one, other, none = ("one", (("cpu", 3000),)), ("other", (("cpu", 1000),)), ("none", ())

    def reservations(*awaited: tuple[str, Requests], kept: int) -> None:
        requests = (("cpu", kept),) if kept else ()
        hold = Hold(gang=gang, priority=7, uid="booked", node="n1", requests=requests)
        terms.reservations.book_room({"n1": (BookingClaim(hold, None, (("cpu", 4000),), awaited),)})

    async def told() -> watch_pb2.HeldSeat:
        await board.renew()
        (node,) = board.everything()
        return node.seats[0]

    board = SeatBoard(terms, "x")
    reservations(other, one, none, kept=0)
    seat = await told()
    assert (seat.gang, seat.priority, seat.firm) == ("pod-group:default/big", 7, False)
    assert not seat.requests
    assert [(each.name, each.amount) for each in seat.asked] == [("cpu", 4000)]
    counted = [each.pod_uid for each in seat.awaited]
    assert counted == ["one", "other"], "nobody of whom nothing is counted on"
    told_of = [(each.name, each.amount) for each in seat.awaited[1].requests]
    assert told_of == [("cpu", 1000)]
    reservations(other, kept=3000)
    assert [each.pod_uid for each in (await told()).awaited] == ["other"]
    reservations(kept=4000)
    seat = await told()
    assert (list(seat.awaited), list(seat.asked)) == ([], [])
    assert [each.amount for each in seat.requests] == [4000]


async def test_many_awaited_pods_are_read_in_small_pieces() -> None:
    """Nodes of one seat are read many at a time; these have as many pods as a node can run."""
    terms = Terms()
    board = SeatBoard(terms, "x")
    await board.renew()
    gang, count, each = GangKey("pod-group", "default", "big"), seats.SLICE, 110

    def claim(node: str) -> BookingClaim:
        hold = Hold(gang=gang, priority=7, uid=f"booked@{node}", node=node, requests=())
        awaited = tuple((f"{node}-{i}", (("cpu", 10),)) for i in range(each))
        return BookingClaim(hold, None, (("cpu", 4000),), awaited)

    terms.reservations.book_room({f"n{i}": (claim(f"n{i}"),) for i in range(count)})
    reading = asyncio.create_task(board.renew())
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= count * each // seats.SLICE_PODS
    assert len(board.everything()) == count
