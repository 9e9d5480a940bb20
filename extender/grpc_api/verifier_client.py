"""Asks the program ``verifier`` of plugin/, which runs the filters of kube-scheduler itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import grpc
from google.protobuf.message import DecodeError

from extender.gang.tell.verdicts import NoVerdict, SeatVerdict, VerifierQuestion
from extender.model.objects import Pod
from extender.model.plan import Victim
from extender.pb.podgroup.v1 import types_pb2, verifier_pb2
from extender.settings.settings import VerifierSettings

METHOD = "/podgroup.v1.VerifierService/Verify"
MOST_BYTES = 64 * 1024 * 1024
"""Of an answer: a gang of a thousand, each member refused with a page of reasons."""


class VerifierClient:
    """One connection, made when it is needed and again when it breaks. One event loop only."""

    def __init__(self, settings: VerifierSettings, seen: Callable[[], tuple[str, str]]) -> None:
        """``seen()``: the newest resourceVersions of pods and of nodes that we know; an answer on
        an older state is none."""
        self._settings = settings
        self._seen = seen
        self._channel: grpc.aio.Channel | None = None

    async def refusals(self, question: VerifierQuestion) -> Sequence[SeatVerdict]:
        """See Verifier."""
        pods, nodes = self._seen()
        asked = verifier_pb2.VerifyRequest(
            seats=[_seat(pod, node) for pod, node in question.seats],
            gone=[_named(victim) for victim in question.gone],
            held=[_seat(pod, node) for pod, node in question.held],
            pods_version=pods,
            nodes_version=nodes,
        )
        try:
            answer = await self._verify(asked.SerializeToString())
            verdict = verifier_pb2.VerifyResponse.FromString(answer)
        except grpc.aio.AioRpcError as error:
            raise NoVerdict(f"{error.code().name}: {error.details()}") from None
        except DecodeError as error:
            raise NoVerdict(f"what it says cannot be read: {error}") from None
        age = verdict.age.seconds + verdict.age.nanos / 1e9
        if age > self._settings.most_age_seconds:
            raise NoVerdict(f"its state is {age:.0f} s old")
        if not verdict.accepted and not verdict.refusals:
            raise NoVerdict("it neither accepts the plan nor refuses a member")
        return [
            SeatVerdict(
                uid=each.seat.pod.uid,
                node=each.seat.node_name,
                plugin=each.plugin,
                reasons=tuple(each.reasons),
                any_node=each.any_node,
            )
            for each in verdict.refusals
        ]

    async def _verify(self, asked: bytes) -> bytes:
        if self._channel is None:
            options = [
                ("grpc.max_receive_message_length", MOST_BYTES),
                # The library's own pauses grow to two minutes, in which no plan would be judged.
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.enable_http_proxy", 0),
            ]
            self._channel = grpc.aio.insecure_channel(self._settings.address, options=options)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(METHOD)
        return await call(asked, timeout=self._settings.seconds)

    async def close(self) -> None:
        """Ask nothing any more."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


def _seat(pod: Pod, node: str) -> types_pb2.Seat:
    return types_pb2.Seat(pod=_named(pod), node_name=node)


def _named(pod: Pod | Victim) -> types_pb2.PodReference:
    return types_pb2.PodReference(namespace=pod.namespace, name=pod.name, uid=pod.uid)
