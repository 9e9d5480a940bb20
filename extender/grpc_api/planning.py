"""Plan: what would be done for a gang, asked of a planner that does not act."""

from __future__ import annotations

from extender.gang.plan.what_if import find_gang
from extender.gang.tell.what_ifs import WhatIf, WhatIfs
from extender.grpc_api.calls import Call, CallAnswer, parsed
from extender.grpc_api.messages import gang_plan, made, refusal
from extender.grpc_api.source import GrpcSource
from extender.model.errors import InvalidInput, NotReady
from extender.model.plan import Refusal
from extender.pb.podgroup.v1 import plan_pb2

MOST_MANIFEST = 1024 * 1024
"""Characters. YAML is read at about a megabyte a second."""
SHARE = 0.9
"""Of the time that the caller has left; the answer has to travel as well."""


class PlanCalls:
    """The handler of Plan."""

    def __init__(self, source: GrpcSource, what_ifs: WhatIfs) -> None:
        self._source = source
        self._what_ifs = what_ifs

    async def plan(self, data: bytes, call: Call) -> CallAnswer:
        """Return what would be planned now."""
        asked = parsed(plan_pb2.PlanRequest, data)
        if not asked.gang and not asked.manifest:
            raise InvalidInput("is missing, and no manifest adds one", "gang")
        if len(asked.manifest) > MOST_MANIFEST:
            raise InvalidInput(f"is longer than {MOST_MANIFEST} characters", "manifest")
        self._source.require_ready()
        found = await self._what_ifs.ask(self._question(asked, call.time_remaining()))
        if isinstance(found, Refusal):
            return plan_pb2.PlanResponse(refusal=refusal(found)), 0, 0
        count = len(found.seats) + len(found.victims)
        plan = await made(count, lambda: gang_plan(found))
        return plan_pb2.PlanResponse(plan=plan), 0, len(found.seats)

    def _question(self, asked: plan_pb2.PlanRequest, left: float | None) -> WhatIf:
        context = self._source.present()
        stale = context.asking.stale()
        if stale is not None:
            raise NotReady(stale)
        seconds = self._source.settings.plan.seconds
        if asked.HasField("search_time"):
            wanted = asked.search_time.ToNanoseconds() / 1e9
            if wanted <= 0:
                raise InvalidInput("must be positive", "search_time")
            seconds = min(seconds, wanted)
        if left is not None:
            seconds = min(seconds, left * SHARE)
        snapshot = context.shown()
        masks = {}
        if not asked.manifest:
            gang = context.resolver.resolve(find_gang(asked.gang, snapshot), snapshot)
            snapshot = context.evidence.beside(gang, snapshot)
            masks = context.evidence.masks(gang, snapshot.nodes, snapshot.in_the_way)
        return WhatIf(
            gang=asked.gang,
            manifest=asked.manifest,
            snapshot=snapshot,
            holds=tuple(context.reservations.holds()),
            masks=masks,
            seconds=seconds,
        )
