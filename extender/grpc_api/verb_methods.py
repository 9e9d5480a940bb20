"""Filter, Prioritize, Preempt and Bind: messages in, the verbs' own questions, messages out."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from extender.grpc_api.calls import Call, CallAnswer, Calls, parsed
from extender.grpc_api.seats import SeatBoard
from extender.model.errors import InvalidInput, NotReady
from extender.pb.podgroup.v1 import extender_pb2
from extender.server.verb_calls import Verbs
from extender.wire.bind_json import bind_args
from extender.wire.filter_json import FilterArgs, FilterResult
from extender.wire.pod_json import read_pod
from extender.wire.preempt_json import NodeVictims, PreemptArgs


class VerbMethods:
    """The handlers of ExtenderService."""

    def __init__(self, verbs: Verbs, calls: Calls, board: SeatBoard) -> None:
        self._verbs = verbs
        self._calls = calls
        self._board = board

    async def filter(self, data: bytes, call: Call) -> CallAnswer:
        """Say which of the nodes the pod may have."""
        asked = parsed(extender_pb2.FilterRequest, data)
        args = FilterArgs(read_pod(Raw(asked.pod)), asked.node_names[:])
        result = await self._calls.going_on(self._verbs.filter(args))
        if result.error:
            # Filter's own word for an answer that would be a guess; over HTTP it travels in a 200.
            raise NotReady(result.error)
        answer = filter_response(result, args.node_names)
        if result.seat_of:
            await self._board.renew()
            answer.seat.gang = result.seat_of
            answer.seat.term, answer.seat.version = self._board.term, self._board.version
        return answer, len(args.node_names), len(result.node_names)

    async def prioritize(self, data: bytes, call: Call) -> CallAnswer:
        """Score the nodes."""
        asked = parsed(extender_pb2.PrioritizeRequest, data)
        args = FilterArgs(read_pod(Raw(asked.pod)), asked.node_names[:])
        scores = await self._calls.going_on(self._verbs.prioritize(args))
        answer = extender_pb2.PrioritizeResponse(
            scores=[
                extender_pb2.NodeScore(node_name=each.host, score=each.score) for each in scores
            ]
        )
        return answer, len(args.node_names), len(scores)

    async def preempt(self, data: bytes, call: Call) -> CallAnswer:
        """Say which pods may go, by node."""
        asked = parsed(extender_pb2.PreemptRequest, data)
        pod = read_pod(Raw(asked.pod))
        args = PreemptArgs(
            pod, {node: _candidate(node, each) for node, each in asked.candidates.items()}
        )
        result = await self._calls.going_on(self._verbs.preempt(args))
        answer = extender_pb2.PreemptResponse(
            candidates={
                node: extender_pb2.NodeVictims(
                    pod_uids=each.uids, num_pdb_violations=each.pdb_violations
                )
                for node, each in result.candidates.items()
            }
        )
        return answer, len(args.candidates), len(result.candidates)

    async def bind(self, data: bytes, call: Call) -> CallAnswer:
        """Give a pod its node, a member of a gang with the others."""
        asked = parsed(extender_pb2.BindRequest, data)
        args = bind_args(
            pod_name=asked.pod_name,
            pod_namespace=asked.pod_namespace,
            pod_uid=asked.pod_uid,
            node_name=asked.node_name,
        )
        # A caller that leaves ends the holding; what is posted by then is not called back.
        result = await self._verbs.bind(args, self._calls.holding)
        return extender_pb2.BindResponse(error=result.error), 1, int(not result.error)


def filter_response(result: FilterResult, offered: list[str]) -> extender_pb2.FilterResponse:
    """Return the answer; where all of a long list is kept it need not travel back."""
    refused = result.failed or result.failed_and_unresolvable
    if (
        not refused
        and not result.seat_of
        and (result.node_names is offered or result.node_names == offered)
    ):
        return extender_pb2.FilterResponse(unchanged=True)
    return extender_pb2.FilterResponse(
        node_names=result.node_names,
        failed=_by_reason(result.failed),
        failed_and_unresolvable=_by_reason(result.failed_and_unresolvable),
    )


def _by_reason(refused: Mapping[str, str]) -> list[extender_pb2.RefusedNodes]:
    nodes: dict[str, list[str]] = {}
    for node, reason in refused.items():
        nodes.setdefault(reason, []).append(node)
    return [
        extender_pb2.RefusedNodes(reason=reason, node_names=names)
        for reason, names in nodes.items()
    ]


def _candidate(node: str, victims: extender_pb2.NodeVictims) -> NodeVictims:
    uids = tuple(victims.pod_uids)
    where = f"candidates[{node!r}]"
    if "" in uids:
        raise InvalidInput("is empty", f"{where}.pod_uids[{uids.index('')}]")
    if victims.num_pdb_violations < 0:
        raise InvalidInput("must not be negative", f"{where}.num_pdb_violations")
    return NodeVictims(uids, victims.num_pdb_violations)
