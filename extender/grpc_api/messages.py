"""From the model's records to messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from extender.gang.tell import decisions
from extender.model import plan as model
from extender.model.objects import Pod, Requests
from extender.pb.podgroup.v1 import types_pb2, watch_pb2

T = TypeVar("T")
MANY = 500
"""Pods from which on a message is made on another thread: ten thousand take a quarter second."""
INT64 = 2**63 - 1
INT32 = 2**31 - 1


async def made(count: int, make: Callable[[], T]) -> T:
    """Return ``make()``; verbs are answered meanwhile when ``count`` pods are in it."""
    return make() if count < MANY else await asyncio.to_thread(make)


def int64(value: int) -> int:
    """Return the value, or the nearest one that the field can hold."""
    return max(-INT64 - 1, min(INT64, value))


def int32(value: int) -> int:
    """Return the value, or the nearest one that the field can hold."""
    return max(-INT32 - 1, min(INT32, value))


def reference(pod: Pod) -> types_pb2.PodReference:
    """Return the pod's names."""
    return types_pb2.PodReference(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def seat(found: model.Seat) -> types_pb2.Seat:
    """Return a member's place."""
    pod = types_pb2.PodReference(namespace=found.namespace, name=found.name, uid=found.uid)
    return types_pb2.Seat(pod=pod, node_name=found.node)


def victim(found: model.Victim) -> types_pb2.Victim:
    """Return a pod that goes."""
    return types_pb2.Victim(
        pod=types_pb2.PodReference(namespace=found.namespace, name=found.name, uid=found.uid),
        node_name=found.node,
        priority=int32(found.priority),
        gang=found.gang,
        grace=seconds(found.grace),
        reason=found.reason,
        unit=found.unit,
    )


def costs(found: Iterable[model.Cost]) -> list[types_pb2.Cost]:
    """Return the levels of a cost."""
    return [
        types_pb2.Cost(level=each.level, value=int64(each.value), bound=int64(each.bound))
        for each in found
    ]


def gang_plan(found: model.Plan) -> types_pb2.GangPlan:
    """Return a plan."""
    return types_pb2.GangPlan(
        gang=str(found.gang),
        priority=int32(found.priority),
        seats=[seat(each) for each in found.seats],
        victims=[victim(each) for each in found.victims],
        waits_for=[victim(each) for each in found.waits_for],
        costs=costs(found.costs),
        proof=found.proof,
        explanation=found.explanation,
        takes_over=[str(key) for key in found.takes_over],
        generation=max(0, found.generation),
    )


def ways(found: Iterable[model.Way]) -> list[types_pb2.Way]:
    """Return what would change a refusal."""
    return [
        types_pb2.Way(
            text=each.text,
            priority=None if each.priority is None else int32(each.priority),
            min_count=None if each.min_count is None else int32(each.min_count),
        )
        for each in found
    ]


def refusal(found: model.Refusal) -> types_pb2.Refusal:
    """Return a refusal."""
    return types_pb2.Refusal(
        gang=str(found.gang),
        code=found.code,
        message=found.message,
        details=found.details,
        generation=max(0, found.generation),
        ways=ways(found.ways),
    )


def decision(found: decisions.Decision) -> types_pb2.Decision:
    """Return a decision."""
    time = Timestamp()
    time.FromNanoseconds(int(found.time * 1e9))
    return types_pb2.Decision(
        time=time,
        gang=found.gang,
        verb=found.verb,
        outcome=str(found.outcome),
        message=found.message,
        code=found.code,
        victims=[victim(each) for each in found.victims],
        seats=[seat(each) for each in found.seats],
        waits_for=[victim(each) for each in found.waits_for],
        costs=costs(found.costs),
        proof=found.proof,
        explanation=found.explanation,
        generation=max(0, found.generation),
        took=seconds(found.seconds),
        ways=ways(found.ways),
    )


def amounts(requests: Requests) -> list[watch_pb2.ResourceAmount]:
    """Return what a pod requests."""
    return [watch_pb2.ResourceAmount(name=name, amount=int64(each)) for name, each in requests]


def seconds(value: float) -> Duration:
    """Return a time span, cut to what a Duration can say (10,000 years)."""
    span = Duration()
    span.FromNanoseconds(int(max(0.0, min(value, 3.15e11)) * 1e9))
    return span
