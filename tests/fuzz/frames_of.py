"""Strategies of what nobody would send to a gRPC server: calls that are nearly right, and frames.

As in bytes_of everything starts from something valid.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from hypothesis import strategies as st
from msgspec import Struct

from extender.grpc_api import health, reflecting
from extender.grpc_api.server import FILES
from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, watch_pb2
from tests.fuzz.bytes_of import Names, documents, questions
from tests.grpc_api.asking import MANIFEST
from tests.grpc_api.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    headers,
    message,
)

METHODS = tuple(
    f"/{service.full_name}/{method.name}"
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)
OTHER_METHODS = (
    f"/{health.SERVICE}/Check",
    f"/{health.SERVICE}/Watch",
    f"/{reflecting.SERVICE}/ServerReflectionInfo",
    "/podgroup.v1.ExtenderService/filter",
    "/podgroup.v1.ExtenderService/",
    "/podgroup.v1.PlanService/Filter",
    "/podgroup.v2.ExtenderService/Filter",
    "/x/y/z",
    "/" + "m" * 3000,
)
ODD_PATHS = ("", "/", "//", "*", "/podgroup.v1.ExtenderService", "no-slash", "/\x7f", "/%2f?a=b")
GANGS = ("pod-group:default/low", "low", "", ":", "a:b/c/d", "x" * 5000, "\u202e\ufeff", "\x00/")
SECONDS = (0, 1, -1, 2**63 - 1, -(2**63), 315_576_000_000)
ODD_BYTES = (
    b"\x08" + b"\xff" * 11,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x0b" * 10_000,
    b"\x0b\x0c" * 500,
    b"\x0c",
    b"\x00\x00",
    b"\x0f",
    b"\x12\x02\xff\xfe" * 300,
    b"\xfa\xff\xff\xff\x0f\x03abc",
    b"\x12\x00" * 20_000,
)
METADATA = (
    ("x-request-id", "r" * 64),
    ("x-request-id", "r" * 6000),
    ("authorization", "Bearer x"),
    ("authorization", "Bearer " + "t" * 6000),
    ("grpc-accept-encoding", "gzip,deflate,snappy," * 50),
    ("a" * 2000, "b"),
)
RAW_METADATA = (
    *METADATA,
    ("grpc-timeout", "1n"),
    ("grpc-timeout", "99999999H"),
    ("grpc-timeout", "-1S"),
    ("grpc-timeout", "1" * 500),
    ("grpc-timeout", "soon"),
    ("grpc-encoding", "gzip"),
    ("grpc-encoding", "x" * 300),
    ("grpc-status", "13"),
    ("x-bin", "not base64 !"),
    ("x-bin", "AAA"),
    ("Upper-Case", "x"),
    ("x\x00y", "z\x00"),
    ("x", "\r\nsmuggled: y"),
    ("connection", "close"),
    ("transfer-encoding", "chunked"),
    ("content-length", "99999"),
    (":path", "/again"),
    (":status", "200"),
    ("x", "v" * 20_000),
    ("", ""),
)


class Called(Struct, frozen=True):
    """A call through a real client, as far as the client lets it."""

    path: str
    messages: list[bytes]
    metadata: list[tuple[str, str]]
    seconds: float | None
    """Its deadline."""
    ends: str
    """What the caller does after its messages: "reads", "waits" (open), "cancels", "leaves"."""


class Spoken(Struct, frozen=True):
    """Frames on a connection of their own: bytes and how often they are sent."""

    pieces: list[tuple[bytes, int]]
    reads: bool
    """Whether answers are read. Who does not is gone after a moment."""


def asked(names: Names) -> dict[str, st.SearchStrategy[bytes]]:
    """Return path -> whole messages for it."""

    @st.composite
    def verbs(draw: st.DrawFn) -> bytes:
        if draw(st.integers(0, 3)) == 0:
            return extender_pb2.FilterRequest(
                pod=draw(documents(names)), node_names=["n0"]
            ).SerializeToString()
        found: dict[str, Any] = json.loads(draw(questions(names)))
        pod = json.dumps(found["Pod"]).encode()
        if "NodeNames" in found:
            given = found["NodeNames"]
            return extender_pb2.FilterRequest(pod=pod, node_names=given).SerializeToString()
        victims = {
            node: extender_pb2.NodeVictims(
                pod_uids=[each["UID"] for each in one["Pods"]],
                num_pdb_violations=one["NumPDBViolations"],
            )
            for node, one in found["NodeNameToMetaVictims"].items()
        }
        return extender_pb2.PreemptRequest(pod=pod, candidates=victims).SerializeToString()

    durations = st.builds(Duration, seconds=st.sampled_from(SECONDS), nanos=st.just(0))
    gangs = st.sampled_from(GANGS)
    manifests = st.sampled_from(
        (MANIFEST, "", "{", "a: &a [*a]", "- " * 9000, "kind: Pod\n---\n" * 400, "\ufeff\u202e")
    )
    names_of = st.sampled_from(("default", "meek-0", "low-0", "", "x" * 3000, "../.."))
    pods = st.builds(types_pb2.PodReference, namespace=names_of, name=names_of, uid=names_of)
    whole: dict[str, st.SearchStrategy[Any]] = {
        "Plan": st.builds(
            plan_pb2.PlanRequest, gang=gangs, manifest=manifests, search_time=durations
        ),
        "Explain": st.one_of(
            st.builds(plan_pb2.ExplainRequest, gang=gangs),
            st.builds(plan_pb2.ExplainRequest, pod=pods),
        ),
        "WatchSeats": st.builds(watch_pb2.WatchSeatsRequest, heartbeat=durations),
        "WatchDecisions": st.builds(watch_pb2.WatchDecisionsRequest, gang=gangs),
        "Bind": st.builds(extender_pb2.BindRequest, pod_name=names_of, node_name=names_of),
        "Check": st.builds(health_pb2.HealthCheckRequest, service=gangs),
        "Watch": st.builds(health_pb2.HealthCheckRequest, service=gangs),
        "ServerReflectionInfo": st.builds(
            reflection_pb2.ServerReflectionRequest, file_containing_symbol=gangs
        ),
    }
    return {
        path: whole[method].map(lambda made: bytes(made.SerializeToString()))
        if (method := path.rpartition("/")[2]) in whole
        else verbs()
        for path in (*METHODS, *OTHER_METHODS)
    }


@st.composite
def spoilt(draw: st.DrawFn, good: st.SearchStrategy[bytes]) -> bytes:
    """Return a message with some places cut out, doubled, or replaced."""
    data = draw(good)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        match draw(st.integers(0, 4)):
            case 0:
                data = data[:start]
            case 1:
                data = data[:start] + data[end:]
            case 2:
                data = data[:end] + data[start:]
            case 3:
                data = data[:start] + draw(st.binary(max_size=4)) + data[end:]
            case _:
                data = data[:start] + draw(st.sampled_from(ODD_BYTES)) + data[end:]
    return data


def messages(names: Names) -> dict[str, st.SearchStrategy[bytes]]:
    """Return path -> messages for it, whole and spoilt, and those of others."""
    good = asked(names)
    every = st.one_of(*good.values())
    large = st.integers(1, 400_000).map(lambda size: b"\x0a" * size)
    return {
        path: st.one_of(one, one, spoilt(one), spoilt(one), every, large, st.binary(max_size=99))
        for path, one in good.items()
    }


def calls(names: Names) -> st.SearchStrategy[list[Called]]:
    """Calls that are made at the same time on one channel."""
    by_path = messages(names)
    paths = st.sampled_from((*METHODS, *METHODS, *OTHER_METHODS))

    @st.composite
    def one(draw: st.DrawFn) -> Called:
        path = draw(paths)
        return Called(
            path=path,
            messages=draw(st.lists(by_path[path], min_size=0 if draw(odd) else 1, max_size=3)),
            metadata=draw(st.lists(st.sampled_from(METADATA), max_size=2)),
            seconds=draw(st.sampled_from((None, None, None, 0.0, 0.001, 0.05))),
            ends=draw(st.sampled_from(("reads", "reads", "reads", "waits", "cancels", "leaves"))),
        )

    odd = st.integers(0, 5).map(lambda n: n == 0)
    return st.lists(one(), min_size=1, max_size=6)


def connections(names: Names) -> st.SearchStrategy[Spoken]:
    """What is spoken on one connection: calls by hand, frames of all kinds, other protocols."""
    by_path = messages(names)
    streams = st.sampled_from((0, 1, 1, 1, 2, 3, 5, 2**31 - 1))
    sizes = st.sampled_from((0, 1, 0x3FFF, 2**31 - 1, 2**32 - 1))

    @st.composite
    def call(draw: st.DrawFn) -> list[tuple[bytes, int]]:
        path = draw(st.sampled_from((*METHODS, *OTHER_METHODS)))
        data = message(draw(by_path[path])[:16_000])
        if draw(st.integers(0, 3)) == 0:
            data = draw(st.sampled_from((b"\x01", b"\xff", b"\x00"))) + data[1:]
        if draw(st.integers(0, 3)) == 0:
            data = message(data, announced=draw(sizes) % 2**32)[:16_000]
        if draw(st.integers(0, 5)) == 0:
            path = draw(st.sampled_from(ODD_PATHS))
        more = draw(st.lists(st.sampled_from(RAW_METADATA), max_size=3))
        stream = draw(streams)
        head = frame(HEADERS, END_HEADERS, stream, _block(draw, path, more))
        cut = draw(st.integers(0, len(data)))
        last = draw(st.sampled_from((0, END_STREAM, END_STREAM)))
        times = draw(st.sampled_from((1, 1, 1, 1, 50)))
        return [
            (head, times),
            (frame(DATA, 0, stream, data[:cut]), 1),
            (frame(DATA, last, stream, data[cut:]), 1),
        ]

    @st.composite
    def any_frame(draw: st.DrawFn) -> list[tuple[bytes, int]]:
        kind = draw(st.integers(0, 12))
        payload = draw(
            st.one_of(
                st.binary(max_size=40),
                sizes.map(lambda n: struct.pack(">I", n)),
                st.tuples(st.integers(0, 9), sizes).map(lambda both: struct.pack(">HI", *both)),
                st.just(b"p" * 8),
                st.just(b"\xff" * 16_384),
            )
        )
        made = frame(kind, draw(st.sampled_from((0, 1, 4, 8, 0x20, 0xFF))), draw(streams), payload)
        if draw(st.integers(0, 5)) == 0:
            made = struct.pack(">I", draw(sizes))[1:] + made[3:]
        return [(made, draw(st.sampled_from((1, 1, 20, 2000))))]

    part = st.one_of(call(), call(), call(), any_frame())
    spoken = st.lists(part, min_size=1, max_size=6).map(
        lambda parts: [piece for each in parts for piece in each]
    )
    begun = st.tuples(
        st.sampled_from((PREFACE, PREFACE, PREFACE, PREFACE[:9], b"")),
        sizes.map(lambda n: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, n & 0x7FFFFFFF))),
        spoken,
    ).map(lambda all_of: [(all_of[0] + all_of[1], 1), *all_of[2]])
    strangers = st.sampled_from(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /filter HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
            b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
            b"\x00" * 5000,
            b"SSH-2.0-x\r\n",
        )
    ).map(lambda data: [(data, 1)])
    noise = st.lists(st.tuples(st.binary(max_size=300), st.sampled_from((1, 100))), max_size=3)
    return st.builds(
        Spoken,
        pieces=st.one_of(begun, begun, begun, begun, strangers, noise),
        reads=st.sampled_from((True, True, True, False)),
    )


def _block(draw: st.DrawFn, path: str, more: list[tuple[str, str]]) -> bytes:
    """A header block, or what is nearly one."""
    made = headers(path, *more)
    match draw(st.integers(0, 9)):
        case 0:
            return made[: draw(st.integers(0, len(made)))]
        case 1:
            return made + draw(st.binary(max_size=30))
        case 2:
            return draw(
                st.sampled_from((b"\x82" * 5000, b"\xff" * 50, b"\x3f\xe1\xff\x7f", b"\x80"))
            )
    return made
