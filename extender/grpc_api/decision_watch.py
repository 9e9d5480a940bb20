"""WatchDecisions: decisions one by one, at the reader's pace."""

from __future__ import annotations

from functools import partial

from extender.gang.tell.decisions import Decision
from extender.grpc_api.calls import Call, parsed
from extender.grpc_api.message_reading import write
from extender.grpc_api.messages import decision, made
from extender.grpc_api.seats import LOOK_SECONDS
from extender.grpc_api.source import GrpcSource
from extender.pb.podgroup.v1 import watch_pb2


class DecisionWatch:
    """The handler of WatchDecisions."""

    def __init__(self, source: GrpcSource) -> None:
        self._source = source

    async def watch(self, data: bytes, call: Call) -> None:
        """Write decisions until the caller leaves. Raises NotReady when they are made elsewhere."""
        asked = parsed(watch_pb2.WatchDecisionsRequest, data)
        feed = self._source.decisions
        seen = feed.start(asked.backlog, asked.gang)
        missed = 0
        while True:
            self._source.require_ready()
            found, number = feed.after(seen)
            if found is None:
                await feed.waiters.wait(LOOK_SECONDS)
                continue
            missed += number - seen - 1
            seen = number
            if asked.gang and found.gang != asked.gang:
                continue
            count = len(found.seats) + len(found.victims)
            await write(call, await made(count, partial(_encoded, found, missed)), None)
            missed = 0


def _encoded(found: Decision, missed: int) -> bytes:
    message = watch_pb2.WatchDecisionsResponse(decision=decision(found), missed=missed)
    return message.SerializeToString()
