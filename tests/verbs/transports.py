"""One question over either transport, told and answered in kube-scheduler's JSON."""

from __future__ import annotations

import json
from typing import Any, Protocol

import aiohttp
import grpc

from extender.pb.podgroup.v1 import extender_pb2

Obj = dict[str, Any]
HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNIMPLEMENTED: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 413,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
}


class Transport(Protocol):
    """How a test calls."""

    name: str

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        """Return the HTTP status (or its like) and the answer as JSON has it."""


class OverHttp:
    """As kube-scheduler calls."""

    name = "http"

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._http.post(f"{self._url}/{verb}", data=data) as answer:
            return answer.status, await answer.json(content_type=None)


class OverGrpc:
    """The same question as a message; bytes go as they are."""

    name = "grpc"

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        path = f"/podgroup.v1.ExtenderService/{verb.capitalize()}"
        data = body if isinstance(body, bytes) else _request(verb, body)
        try:
            answer: bytes = await self._channel.unary_unary(path)(data)
        except grpc.aio.AioRpcError as error:
            return HTTP_STATUS[error.code()], {"error": error.details()}
        return 200, _answer(verb, answer, body)


def _request(verb: str, body: Obj) -> bytes:
    asked = {name.casefold(): value for name, value in body.items()}
    pod = json.dumps(asked["pod"]).encode() if "pod" in asked else b""
    if verb == "preempt":
        victims = {
            node: extender_pb2.NodeVictims(
                pod_uids=[pod["UID"] for pod in found.get("Pods") or ()],
                num_pdb_violations=found.get("NumPDBViolations", 0),
            )
            for node, found in asked.get("nodenametometavictims", {}).items()
        }
        return extender_pb2.PreemptRequest(pod=pod, candidates=victims).SerializeToString()
    kind = extender_pb2.FilterRequest if verb == "filter" else extender_pb2.PrioritizeRequest
    return kind(pod=pod, node_names=asked.get("nodenames", [])).SerializeToString()


def _answer(verb: str, data: bytes, body: Any) -> Any:
    if verb == "preempt":
        found = extender_pb2.PreemptResponse.FromString(data).candidates
        return {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in each.pod_uids],
                    "NumPDBViolations": each.num_pdb_violations,
                }
                for node, each in found.items()
            }
        }
    if verb == "prioritize":
        scores = extender_pb2.PrioritizeResponse.FromString(data).scores
        return [{"Host": each.node_name, "Score": each.score} for each in scores]
    answer = extender_pb2.FilterResponse.FromString(data)
    offered = next(value for name, value in body.items() if name.casefold() == "nodenames")
    return {
        "NodeNames": offered if answer.unchanged else list(answer.node_names),
        "FailedNodes": _reasons(answer.failed),
        "FailedAndUnresolvableNodes": _reasons(answer.failed_and_unresolvable),
        "Error": "",
    }


def _reasons(refused: Any) -> dict[str, str]:
    return {node: each.reason for each in refused for node in each.node_names}
