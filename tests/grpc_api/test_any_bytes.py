"""Whatever bytes come: an answer or an error that says what is wrong, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.grpc_api.calls import Calls
from extender.grpc_api.seats import SeatBoard
from extender.grpc_api.verb_methods import VerbMethods
from extender.model.errors import InvalidInput
from extender.pb.podgroup.v1 import extender_pb2
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.settings.settings import Settings
from tests.grpc_api.test_calls import POD
from tests.server.doubles import Echo

WHOLE = [
    extender_pb2.FilterRequest(pod=POD, node_names=["n0", "n1"]).SerializeToString(),
    extender_pb2.PreemptRequest(
        pod=POD, candidates={"n0": extender_pb2.NodeVictims(pod_uids=["a"], num_pdb_violations=1)}
    ).SerializeToString(),
]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A whole question with some bytes changed, cut off or put in."""
    data = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[place:] = b""
            case 1:
                data[place : place + 1] = draw(st.binary(max_size=3))
            case _:
                data[place:place] = draw(st.binary(max_size=9))
    return bytes(data)


@settings(max_examples=300, deadline=None)
@given(data=st.one_of(st.binary(max_size=200), spoilt()))
def test_any_bytes(data: bytes) -> None:
    async def ask() -> None:
        metrics = Metrics()
        nobody = cast("Any", None)
        options = Settings()
        every = Calls(metrics, options, nobody, Load(options.server))
        calls = VerbMethods(Echo(), every, SeatBoard(nobody, "x"))
        for verb in (calls.filter, calls.prioritize, calls.preempt):
            with contextlib.suppress(InvalidInput):
                message, nodes_in, nodes_out = await verb(data, nobody)
                message.SerializeToString()
                assert nodes_in >= 0 <= nodes_out
        metrics.close()

    asyncio.run(ask())
