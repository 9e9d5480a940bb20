"""The state of seats is read in slices, by whoever asks, and told as a whole."""

from __future__ import annotations

import asyncio

from extender.grpc_api import seats
from extender.grpc_api.seats import SeatBoard
from tests.grpc_api.test_seats import Terms, preemption, truth


async def test_a_big_state_is_shown_at_once_as_it_is_at_the_end() -> None:
    """Read in slices, with changes in between: no reader sees a state that never was."""
    terms = Terms()
    board = SeatBoard(terms, "x")
    count = 3 * seats.SLICE
    terms.reservations.open_preemption(
        preemption("a", {f"a{i}": f"n{i:04}" for i in range(count)}), ()
    )
    reading = asyncio.create_task(board.renew())
    await asyncio.sleep(0)
    assert not board.everything(), "nothing is shown before all is read"
    terms.reservations.open_preemption(
        preemption("a", {f"b{i}": f"n{i + 1:04}" for i in range(count)}), ()
    )
    other = asyncio.create_task(board.renew())
    await asyncio.gather(reading, other)
    shown = {node.node_name: [each.pod_uid for each in node.seats] for node in board.everything()}
    assert shown == truth(terms.reservations)
    assert board.version == 1


async def test_a_caller_that_goes_while_the_state_is_read_takes_nothing_from_the_others() -> None:
    """What it had read is told to whoever asks next, else mirrors lack seats for good."""
    terms = Terms()
    board = SeatBoard(terms, "x")
    await board.renew()
    before = board.version
    count = 3 * seats.SLICE
    terms.reservations.open_preemption(
        preemption("a", {f"a{i}": f"n{i:04}" for i in range(count)}), ()
    )
    reading = asyncio.create_task(board.renew())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    await board.renew()
    shown = {node.node_name: [each.pod_uid for each in node.seats] for node in board.everything()}
    assert shown == truth(terms.reservations)
    assert len(board.since(before) or ()) == count
