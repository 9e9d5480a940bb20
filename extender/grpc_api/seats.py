"""WatchSeats: the seats held, by node, as a state with a version.

Readers are told states, not events: each remembers the version that it was told last, and gets
what differs from the newest one when it can take it. So a slow reader costs one number, and never
sees an old state after a new one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from google.protobuf.duration_pb2 import Duration

from extender.grpc_api.calls import Call, parsed
from extender.grpc_api.message_reading import write
from extender.grpc_api.messages import amounts, int32, made
from extender.grpc_api.source import GrpcSource
from extender.grpc_api.waiters import Waiters
from extender.model.extended_resources import limited_on
from extender.model.objects import Requests
from extender.model.plan import Hold, LeavingPod
from extender.pb.podgroup.v1 import watch_pb2
from extender.verbs.context import Context

HEARTBEAT = 5.0
LEAST_HEARTBEAT = 0.1
LOOK_SECONDS = 0.5
"""How soon a watch notices that this replica has ceased to lead."""
SLICE = 200
"""Nodes read without a pause."""
SLICE_PODS = 2000
"""Seats and pods on them that are read without a pause: booked room waits for a node's pods."""
FORGOTTEN = 1024
"""Nodes without seats that are remembered for readers that are behind."""


class SeatBoard:
    """The newest state of the present book, and at which version each node changed last."""

    def __init__(self, present: Callable[[], Context], prefix: str) -> None:
        self._present = present
        self._prefix = prefix
        self.waiters = Waiters()
        self._terms = 0
        self._reservations: object = None
        self._dirty: set[str] = set()
        self._nodes: dict[str, watch_pb2.NodeSeats] = {}
        self._changed: OrderedDict[str, int] = OrderedDict()
        """Node -> version of its last change, oldest first; nodes without seats as well."""
        self._lock = asyncio.Lock()
        self._floor = 0
        """Readers that know less than this version have to be told everything."""
        self.version = 0

    @property
    def term(self) -> str:
        """Names the book that versions are of."""
        return f"{self._prefix}-{self._terms}"

    async def renew(self) -> None:
        """Take in what has changed, all of it at once; verbs are answered in between.

        What changes meanwhile is read again, so that what is shown at the end is the state of
        that moment and not one that never was.
        """
        async with self._lock:
            fresh: dict[str, watch_pb2.NodeSeats | None] = {}
            try:
                while True:
                    if self._present().reservations is not self._reservations:
                        self._begin()
                        fresh.clear()
                    read = 0
                    for node in sorted(self._dirty)[:SLICE]:
                        fresh[node] = told = self._read(node)
                        self._dirty.discard(node)
                        read += 0 if told is None else _pods(told)
                        if read >= SLICE_PODS:
                            break
                    if not self._dirty:
                        break
                    await asyncio.sleep(0)
            except BaseException:
                # A caller that goes takes nothing along: the next one reads these again.
                self._dirty.update(fresh)
                raise
            self._show(fresh)

    def _begin(self) -> None:
        """Turn to the book of another term."""
        reservations = self._present().reservations
        self._reservations = reservations
        self._terms += 1
        self._nodes.clear()
        self._changed.clear()
        self._dirty = reservations.nodes()
        self.version, self._floor = 0, 0
        reservations.touched = self._touched

    def _show(self, fresh: Mapping[str, watch_pb2.NodeSeats | None]) -> None:
        version = self.version + 1
        for node, seats in fresh.items():
            if seats == self._nodes.get(node):
                continue
            self.version = version
            if seats is None:
                del self._nodes[node]
            else:
                self._nodes[node] = seats
            self._changed[node] = version
            self._changed.move_to_end(node)
        self._forget()

    def since(self, version: int) -> list[watch_pb2.NodeSeats] | None:
        """Return the nodes that changed after a version of this term; None: everything may have."""
        if version < self._floor:
            return None
        found: list[watch_pb2.NodeSeats] = []
        for node, changed in reversed(self._changed.items()):
            if changed <= version:
                break
            found.append(self._nodes.get(node) or watch_pb2.NodeSeats(node_name=node))
        return found

    def everything(self) -> list[watch_pb2.NodeSeats]:
        """Return all nodes with seats."""
        return list(self._nodes.values())

    def _read(self, node: str) -> watch_pb2.NodeSeats | None:
        reservations = self._present().reservations
        # A seat of the book has no claim; what is booked is told with those whom it waits for, so
        # that it is kept as soon as the reader sees them gone, however late we do.
        held: list[tuple[Hold, tuple[LeavingPod, ...], Requests]] = [
            (hold, (), ()) for hold in reservations.holds_on(node)
        ]
        held += [
            (claim.hold, tuple(each for each in claim.awaited if each[1]), claim.asked)
            for claim in reservations.booked.get(node, ())
        ]
        held.sort(key=lambda each: (-each[0].priority, each[0].uid))
        if not held:
            return None
        here = self._present().cluster.node(node)
        return watch_pb2.NodeSeats(
            node_name=node,
            seats=[
                watch_pb2.HeldSeat(
                    pod_uid=hold.uid,
                    gang=str(hold.gang),
                    priority=int32(hold.priority),
                    requests=amounts(hold.requests),
                    firm=(preemption := reservations.get(hold.gang)) is not None
                    and preemption.firm,
                    awaited=_leaving(awaited),
                    asked=amounts(asked) if awaited else (),
                    volumes="volumes" in (limited := limited_on(here, reservations.limited(hold))),
                    devices="devices" in limited,
                )
                for hold, awaited, asked in held
            ],
            leaving=_leaving(reservations.leaving_on(node)),
        )

    def _forget(self) -> None:
        """Keep what is remembered of nodes without seats within bounds."""
        if len(self._changed) > len(self._nodes) + FORGOTTEN:
            for node in [node for node in self._changed if node not in self._nodes]:
                del self._changed[node]
            self._floor = self.version

    def _touched(self, node: str) -> None:
        self._dirty.add(node)
        self.waiters.wake()


class SeatWatch:
    """The handler of WatchSeats."""

    def __init__(self, source: GrpcSource, board: SeatBoard, keys: tuple[str, ...]) -> None:
        """``keys``: label and annotation keys that members of gangs have."""
        self._source = source
        self._board = board
        self._keys = keys

    async def watch(self, data: bytes, call: Call) -> None:
        """Write the whole state, then what changes. Raises NotReady when it cannot be known."""
        asked = parsed(watch_pb2.WatchSeatsRequest, data)
        heartbeat = heartbeat_of(asked.heartbeat) if asked.HasField("heartbeat") else HEARTBEAT
        board = self._board
        loop = asyncio.get_running_loop()
        term, version, told = "", -1, 0.0
        while True:
            self._source.require_ready()
            await board.renew()
            changed = board.since(version) if board.term == term else None
            silent = loop.time() - told
            if changed or changed is None or silent >= heartbeat:
                term, version = board.term, board.version
                nodes = board.everything() if changed is None else changed
                message = partial(self._encoded, term, version, full=changed is None, nodes=nodes)
                # Returns when the caller has room for it; the board goes on meanwhile.
                await write(call, await made(len(nodes), message), None)
                told = loop.time()
                continue
            await board.waiters.wait(min(LOOK_SECONDS, heartbeat - silent))

    def _encoded(
        self, term: str, version: int, *, full: bool, nodes: list[watch_pb2.NodeSeats]
    ) -> bytes:
        message = watch_pb2.WatchSeatsResponse(
            term=term,
            version=version,
            full=full,
            nodes=nodes,
            gang_keys=self._keys if full else (),
        )
        return message.SerializeToString()


def _pods(told: watch_pb2.NodeSeats) -> int:
    return len(told.seats) + len(told.leaving) + sum(len(seat.awaited) for seat in told.seats)


def _leaving(pods: Iterable[LeavingPod]) -> list[watch_pb2.LeavingPod]:
    return [
        watch_pb2.LeavingPod(pod_uid=uid, requests=amounts(requests))
        for uid, requests in sorted(pods)
    ]


def heartbeat_of(given: Duration) -> float:
    """Return the seconds asked for, or the least that are kept."""
    return max(LEAST_HEARTBEAT, given.ToNanoseconds() / 1e9)
