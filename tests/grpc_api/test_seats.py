"""WatchSeats: the whole state first, then what changes; old states are never told."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.plan.booking import BookingClaim
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.markers import gang_keys
from extender.grpc_api import seats
from extender.grpc_api.seats import SeatBoard
from extender.model.objects import GangKey, Pod, Requests
from extender.model.plan import Hold, Plan, Seat
from extender.pb.podgroup.v1 import extender_pb2, watch_pb2
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from extender.verbs.context import Context
from extender.wire.filter_json import FilterArgs, FilterResult
from tests.gang.rig import Rig
from tests.grpc_api.site import Callers, Site, calling, serving, serving_rig
from tests.server.doubles import Echo

Mirror = dict[str, list[str]]


class Term:
    """The part of a Context that is looked at."""

    resolver = None

    def __init__(self) -> None:
        self.reservations = Reservations()
        self.cluster: Any = self

    def node(self, name: str) -> None:
        """No node is known."""


class Terms:
    """A replica's present term."""

    def __init__(self) -> None:
        self.term = Term()

    def __call__(self) -> Context:
        return cast("Context", self.term)

    @property
    def reservations(self) -> Reservations:
        return self.term.reservations


def preemption(
    name: str, places: dict[str, str], priority: int = 10, cpu: int = 1000
) -> Preemption:
    key = GangKey("pod-group", "default", name)
    pods = {
        uid: Pod(uid=uid, namespace="default", name=uid, requests=(("cpu", cpu),)) for uid in places
    }
    found = tuple(
        Seat(uid=uid, namespace="default", name=uid, node=node) for uid, node in places.items()
    )
    plan = Plan(gang=key, priority=priority, seats=found, victims=())
    return Preemption(
        plan=plan, pods=pods, seats=dict(places), state=PreemptionState.WAITING, since=0.0
    )


def taken_in(mirror: Mirror, message: watch_pb2.WatchSeatsResponse) -> None:
    """What a reader does with a message."""
    if message.full:
        mirror.clear()
    for node in message.nodes:
        mirror[node.node_name] = [each.pod_uid for each in node.seats]
        if not node.seats:
            del mirror[node.node_name]


def truth(reservations: Reservations) -> Mirror:
    return {
        node: sorted(hold.uid for hold in reservations.holds_on(node))
        for node in reservations.nodes()
    }


async def next_of(call: Any) -> watch_pb2.WatchSeatsResponse:
    found: watch_pb2.WatchSeatsResponse = await asyncio.wait_for(call.read(), 60)
    return found


def watching(callers: Callers, heartbeat: float | None = None) -> Any:
    asked = watch_pb2.WatchSeatsRequest()
    if heartbeat is not None:
        asked.heartbeat.FromNanoseconds(int(heartbeat * 1e9))
    return callers.watch.WatchSeats(asked)


async def test_first_everything_then_what_changes() -> None:
    terms = Terms()
    terms.reservations.open_preemption(
        preemption("a", {"u1": "n1", "u2": "n2"}), [("n1", "victim", (("cpu", 500), ("pods", 1)))]
    )
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers)
        first = await next_of(call)
        assert first.full
        assert first.term
        by_name = {node.node_name: node for node in first.nodes}
        assert set(by_name) == {"n1", "n2"}
        seat = by_name["n1"].seats[0]
        assert (seat.pod_uid, seat.gang, seat.priority) == ("u1", "pod-group:default/a", 10)
        assert [(each.name, each.amount) for each in seat.requests] == [("cpu", 1000)]
        assert by_name["n1"].leaving[0].pod_uid == "victim"
        assert by_name["n1"].leaving[0].requests[0].amount == 500

        terms.reservations.pod_left("n1", "victim")
        second = await next_of(call)
        assert (second.full, second.term) == (False, first.term)
        assert second.version > first.version
        assert [(node.node_name, len(node.leaving)) for node in second.nodes] == [("n1", 0)]

        terms.reservations.seat_taken("u2")
        third = await next_of(call)
        # The other seat is firm now, so it is told as well.
        assert {node.node_name: len(node.seats) for node in third.nodes} == {"n1": 1, "n2": 0}
        call.cancel()


async def test_most_urgent_seat_first() -> None:
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}, priority=1), ())
    terms.reservations.open_preemption(preemption("b", {"u2": "n1"}, priority=2**40), ())
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        node = (await next_of(watching(callers))).nodes[0]
        assert [each.pod_uid for each in node.seats] == ["u2", "u1"]
        assert node.seats[0].priority == 2**31 - 1, "cut to what the field holds"


async def test_seats_are_firm_from_the_first_answer_on() -> None:
    """Everywhere, although only one member was answered."""
    terms = Terms()
    one, other = (
        preemption("a", {"u1": "n1", "u2": "n2"}),
        preemption("b", {"u3": "n3", "u4": "n4"}),
    )
    terms.reservations.open_preemption(one, ())
    terms.reservations.open_preemption(other, ())
    board = SeatBoard(terms, "x")

    async def firm() -> set[str]:
        await board.renew()
        return {node.node_name for node in board.everything() if node.seats[0].firm}

    assert await firm() == set()
    terms.reservations.answered(one, "u1", 0.0)
    assert await firm() == {"n1", "n2"}
    terms.reservations.not_coming(one, ["u1"])
    assert await firm() == set()
    terms.reservations.seat_taken("u4")
    assert await firm() == {"n3"}
    terms.reservations.keep_away(one, 1.0)
    assert await firm() == {"n1", "n2", "n3"}, "kept clear before the first member comes"


async def test_amounts_beyond_the_field_are_cut_and_do_not_end_the_stream() -> None:
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}, cpu=10**30), ())
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        found = await next_of(watching(callers))
        assert found.nodes[0].seats[0].requests[0].amount == 2**63 - 1


async def test_the_first_message_says_by_what_members_are_known() -> None:
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}), ())
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers)
        first = await next_of(call)
        assert tuple(first.gang_keys) == gang_keys(Settings().groups)
        assert "jobset.sigs.k8s.io/jobset-name" in first.gang_keys
        terms.reservations.seat_taken("u1")
        assert not (await next_of(call)).gang_keys
        call.cancel()


async def test_an_open_seat_names_a_version_that_shows_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when nobody has watched before, and when only the seat was on offer."""
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1", "u2": "n2"}), ())
    verbs = Echo()

    async def seated(args: FilterArgs) -> FilterResult:
        return FilterResult(node_names=["n1"], seat_of="pod-group:default/a")

    monkeypatch.setattr(verbs, "filter", seated)
    async with serving(verbs, context=terms) as site, calling(site.target) as callers:
        pod = b'{"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": {}}'
        asked = extender_pb2.FilterRequest(pod=pod, node_names=["n1"])
        answer = await callers.extender.Filter(asked)
        assert (answer.unchanged, list(answer.node_names)) == (False, ["n1"])
        assert answer.seat.gang == "pod-group:default/a"
        call = watching(callers)
        first = await next_of(call)
        assert (first.term, first.version) == (answer.seat.term, answer.seat.version)
        assert {node.node_name for node in first.nodes} == {"n1", "n2"}
        terms.reservations.seat_taken("u2")
        assert (await callers.extender.Filter(asked)).seat.version > first.version
        call.cancel()


async def test_a_heartbeat_says_that_nothing_has_changed() -> None:
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}), ())
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers, heartbeat=0.0)
        first = await next_of(call)
        second = await next_of(call)
        assert (second.term, second.version) == (first.term, first.version)
        assert not second.full
        assert not second.nodes


async def test_a_slow_reader_gets_the_newest_state_and_no_more_of_it() -> None:
    """Far more changes than any buffer holds while nobody reads: the mirror is right at last."""
    terms = Terms()
    reservations = terms.reservations
    nodes = 400
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers)
        mirror: Mirror = {}
        taken_in(mirror, await next_of(call))
        changes = 0
        for turn in range(60):
            places = {f"u{turn}-{i}": f"node-with-a-long-name-{i}" for i in range(nodes)}
            reservations.open_preemption(preemption("a", places), ())
            changes += 1
            await asyncio.sleep(0.001)
        reservations.seat_taken(f"u59-{nodes - 1}")
        told = 0
        while mirror != truth(reservations):
            taken_in(mirror, await next_of(call))
            told += 1
        assert told < changes, "states in between were left out"
        assert len(mirror) == nodes - 1


async def test_another_term_is_told_from_the_start() -> None:
    terms = Terms()
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}), ())
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers)
        first = await next_of(call)
        terms.term = Term()
        terms.reservations.open_preemption(preemption("b", {"u2": "n2"}), ())
        second = await next_of(call)
        assert second.full
        assert second.term != first.term
        assert [node.node_name for node in second.nodes] == ["n2"]


async def ended(call: Any) -> tuple[grpc.StatusCode, str]:
    async def to_its_end() -> None:
        while True:
            await next_of(call)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await to_its_end()
    return caught.value.code(), caught.value.details() or ""


async def test_a_replica_that_ceases_to_lead_ends_its_watches() -> None:
    terms = Terms()
    async with serving(Echo(), context=terms) as site, calling(site.target) as callers:
        call = watching(callers)
        await next_of(call)
        site.reasons.append("another replica leads: b")
        assert await ended(call) == (grpc.StatusCode.UNAVAILABLE, "another replica leads: b")
        again = watching(callers)
        assert (await ended(again))[0] is grpc.StatusCode.UNAVAILABLE


async def test_stopping_ends_watches_at_once() -> None:
    settings = Settings(
        grpc=GrpcSettings(listen="127.0.0.1:0"), server=ServerSettings(drain_seconds=60.0)
    )
    async with serving(Echo(), settings, Terms()) as site, calling(site.target) as callers:
        call = watching(callers)
        await next_of(call)
        site.stop.set()
        assert await ended(call) == (grpc.StatusCode.UNAVAILABLE, "stopping")


async def test_streams_are_bounded_and_counted() -> None:
    settings = Settings(grpc=GrpcSettings(listen="127.0.0.1:0", max_streams=2))
    async with serving(Echo(), settings, Terms()) as site, calling(site.target) as callers:
        calls = [watching(callers) for _ in range(2)]
        for call in calls:
            await next_of(call)
        assert 'grpc_streams{watch="watch-seats"} 2.0' in site.scrape()
        code, text = await ended(watching(callers))
        assert (code, text) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "2 streams are open already",
        )
        calls[0].cancel()
        await gone(site)
        await next_of(watching(callers))


async def gone(site: Site) -> None:
    async with asyncio.timeout(60):
        while 'grpc_streams{watch="watch-seats"} 2.0' in site.scrape():
            await asyncio.sleep(0.01)


async def test_a_broken_question_is_answered() -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        call = callers.raw_stream("/podgroup.v1.WatchService/WatchSeats")(b"\xff")
        assert (await ended(call))[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_heartbeats_have_a_least() -> None:
    assert seats.heartbeat_of(Duration(seconds=7)) == 7
    assert seats.heartbeat_of(Duration(seconds=-7)) == seats.LEAST_HEARTBEAT


async def test_nodes_without_seats_are_forgotten_and_readers_behind_are_told_everything() -> None:
    terms = Terms()
    board = SeatBoard(terms, "x")
    terms.reservations.open_preemption(preemption("keeps", {"k": "kept"}), ())
    await board.renew()
    behind = board.version
    for i in range(2 * seats.FORGOTTEN):
        terms.reservations.open_preemption(preemption("a", {"u": f"n{i}"}), ())
        await board.renew()
    assert len(board._changed) <= seats.FORGOTTEN + 3
    assert board.since(behind) is None
    assert {node.node_name for node in board.everything()} == {"kept", f"n{i}"}
    newest = board.version
    terms.reservations.close(GangKey("pod-group", "default", "a"))
    await board.renew()
    assert [node.node_name for node in board.since(newest) or ()] == [f"n{i}"]


async def test_an_unchanged_state_keeps_its_version() -> None:
    terms = Terms()
    board = SeatBoard(terms, "x")
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}), ())
    await board.renew()
    version = board.version
    terms.reservations.open_preemption(preemption("a", {"u1": "n1"}), ())
    await board.renew()
    assert board.version == version
    assert board.since(version) == []


async def test_a_real_plan_is_seen_from_hold_to_binding() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        async with serving_rig(rig) as site, calling(site.target) as callers:
            call = watching(callers)
            mirror: Mirror = {}
            taken_in(mirror, await next_of(call))
            assert mirror == {}
            await rig.gang("high", 2, "high")
            await rig.preempt("high-0", n0=["low-0"])
            while len(mirror) < 2:
                taken_in(mirror, await next_of(call))
            uids = {rig.cached("high-0").uid, rig.cached("high-1").uid}
            assert {uid for found in mirror.values() for uid in found} == uids
            await rig.until_names("high-0", "high-1")
            for node, (uid,) in list(mirror.items()):
                name = "high-0" if uid == rig.cached("high-0").uid else "high-1"
                await rig.bind(name, node)
            while mirror:
                taken_in(mirror, await next_of(call))


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
