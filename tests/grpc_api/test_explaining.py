"""Explain: where a gang stands, from waiting to running, and what is wrong with a question."""

from __future__ import annotations

import grpc
import pytest

from extender.pb.podgroup.v1 import plan_pb2, types_pb2
from tests.grpc_api.asking import One
from tests.grpc_api.test_calls import refused

Code = grpc.StatusCode
State = plan_pb2.ExplainResponse


async def test_explain_follows_a_gang_from_waiting_to_running(one: One) -> None:
    rig = one.rig
    found = await one.explain_gang("low")
    assert (found.gang, found.state) == ("pod-group:default/low", State.STATE_RUNNING)
    await rig.group("high", 2, "high")
    await rig.pod("high-0", cls="high", group="high")
    await rig.preempt("high-0", n0=["low-0"])
    found = await one.explain_gang("high")
    assert found.state == State.STATE_REFUSED
    assert "1 of 2 members exist" in found.reasons[0]
    rig.server.faults.clear()
    await rig.pod("high-1", cls="high", group="high")
    await rig.preempt("high-1", n0=["low-0"])
    await rig.until_names("high-0", "high-1")
    found = await one.explain_gang("high")
    assert found.state == State.STATE_IN_FLIGHT
    assert {each.pod.name for each in found.flight.seats} == {"high-0", "high-1"}
    assert found.decisions[0].outcome == "plan"
    assert {each.pod.name for each in found.decisions[0].victims} == {"low-0", "low-1"}
    member = await one.explain_pod("high-0")
    assert member.gang == "pod-group:default/high"
    assert member.reasons[0].startswith("its seat is on n")

    gone = await one.explain_pod("low-0")
    assert gone.state == State.STATE_GONE
    assert [each.gang for each in gone.evicted_by] == ["pod-group:default/high"]
    broken = await one.explain_gang("low")
    assert broken.state == State.STATE_GONE
    assert [each.gang for each in broken.evicted_by] == ["pod-group:default/high"]

    for seat in found.flight.seats:
        await rig.bind(seat.pod.name, seat.node_name)
    await rig.until(lambda: not list(rig.coordinator.reservations), "seated")
    found = await one.explain_gang("high")
    assert found.state == State.STATE_RUNNING
    assert (await one.explain_pod("high-0")).state == State.STATE_RUNNING


async def test_explain_a_pod_of_no_gang(one: One) -> None:
    rig = one.rig
    await rig.pod("plain", cls="low", cpu="4")
    await rig.until(lambda: rig.cache.pod_named("default", "plain") is not None)
    found = await one.explain_pod("plain")
    assert (found.gang, found.state) == ("", State.STATE_SCHEDULER)
    assert "no held seat is in its way" in found.reasons[0]
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    found = await one.explain_pod("", uid=rig.cached("plain").uid)
    assert found.state == State.STATE_SCHEDULER
    assert "room is held for pod-group:default/high" in " ".join(found.reasons)


async def test_explain_a_gang_nobody_has_asked_about(one: One) -> None:
    rig = one.rig
    rig.coordinator._reading.pending_gangs.keys = lambda: []  # type: ignore[method-assign]
    await rig.gang("high", 2, "high")
    found = await one.explain_gang("high")
    assert found.state == State.STATE_UNDECIDED
    assert "nothing is decided yet" in found.reasons[0]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (plan_pb2.ExplainRequest(), "neither a pod nor a gang is given"),
        (plan_pb2.ExplainRequest(gang="nobody"), "no gang is named"),
        (plan_pb2.ExplainRequest(pod=types_pb2.PodReference(name="x")), "give the uid"),
    ],
)
async def test_explain_says_what_is_wrong_with_a_question(
    one: One, asked: plan_pb2.ExplainRequest, text: str
) -> None:
    code, found = await refused(one.callers.plan.Explain(asked))
    assert code is Code.INVALID_ARGUMENT
    assert text in found
