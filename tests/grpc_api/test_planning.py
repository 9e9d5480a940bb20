"""Plan and Explain: true answers, and nothing comes of asking.

See docs/security.md, row 12.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from typing import Any

import grpc
import pytest

from extender.gang.controller.planner_thread import THREADS
from extender.gang.tell import what_ifs
from extender.model.objects import GangKey
from extender.model.plan import Code as RefusalCode
from extender.model.plan import Refusal
from extender.pb.podgroup.v1 import plan_pb2, types_pb2
from tests.grpc_api.asking import MANIFEST, One
from tests.grpc_api.test_calls import refused

Code = grpc.StatusCode
JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set}
spec:
  replicatedJobs:
    - name: w
      replicas: 2
      template:
        spec:
          template:
            spec:
              priorityClassName: high
              containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""


async def test_a_plan_for_a_manifest_names_victims_and_touches_nothing(one: One) -> None:
    generation = one.rig.cache.generation
    answer = await one.plan("new", MANIFEST)
    plan = answer.plan
    assert answer.WhichOneof("answer") == "plan"
    assert (plan.gang, plan.priority, plan.proof) == ("pod-group:default/new", 100, "optimal")
    assert {each.pod.name for each in plan.victims} == {"low-0", "low-1"}
    assert {each.unit for each in plan.victims} == {"pod-group:default/low"}
    assert {(each.pod.name, each.node_name) for each in plan.seats} == {
        ("train-0", "n0"),
        ("train-1", "n1"),
    }
    assert plan.explanation
    assert any(each.level == "gangs@1" and each.value == each.bound == 1 for each in plan.costs)
    assert one.rig.cache.generation == generation
    assert not list(one.rig.coordinator.reservations)
    assert not list(one.rig.coordinator.decisions)
    # Asked again, the planner that is kept gives the same answer.
    assert await one.plan("new", MANIFEST) == answer


async def test_a_manifest_is_read_as_the_command_line_reads_it(one: One) -> None:
    """Pods of a NonIndexed Job have no index and are no gang; a JobSet becomes its Jobs' pods."""
    job = MANIFEST.partition("---")[2]
    alone = job.replace("      schedulingGroup: {podGroupName: new}\n", "")
    answer = await one.plan("train", alone)
    assert answer.plan.gang == "indexed-job:default/train"
    code, text = await refused(one.plan("train", alone.replace("completionMode: Indexed", "")))
    assert code is Code.INVALID_ARGUMENT
    assert "no gang is named 'train'" in text
    answer = await one.plan("set", JOB_SET)
    assert {each.pod.name for each in answer.plan.seats} == {"set-w-0-0", "set-w-1-0"}


async def test_the_one_gang_of_a_manifest_need_not_be_named(one: One) -> None:
    assert await one.plan("", MANIFEST) == await one.plan("new", MANIFEST)
    code, text = await refused(one.plan("", f"{MANIFEST}---{JOB_SET}"))
    assert code is Code.INVALID_ARGUMENT
    assert "pod-group:default/new: name the one that is meant" in text
    code, text = await refused(one.plan("", "kind: Pod\nmetadata: {name: alone}\nspec: {}"))
    assert code is Code.INVALID_ARGUMENT
    assert "the manifest adds no gang with pods" in text


async def test_what_would_change_a_refusal_is_told(one: One) -> None:
    """By Plan, and by Explain of what was refused; as numbers where there are some to ask with."""
    larger = MANIFEST.replace("minCount: 2", "minCount: 3").replace(
        "parallelism: 2", "parallelism: 3"
    )
    refusal = (await one.plan("new", larger)).refusal
    assert refusal.code == "infeasible"
    assert any(way.min_count == 2 for way in refusal.ways)
    assert all(way.HasField("min_count") is (way.min_count > 0) for way in refusal.ways)
    urgent = (await one.plan("new", MANIFEST.replace("high", "low"))).refusal
    assert [way.priority for way in urgent.ways if way.HasField("priority")] == [2]
    assert all(way.text for way in (*refusal.ways, *urgent.ways))

    await one.rig.gang("big", 3, "high")
    await one.rig.preempt("big-0")
    explained = await one.explain_gang("big")
    assert explained.state == plan_pb2.ExplainResponse.STATE_REFUSED
    assert any(way.min_count == 2 for way in explained.ways)
    assert list(explained.decisions[0].ways) == list(explained.ways)


async def test_a_gang_that_exists_and_one_that_needs_nothing(one: One) -> None:
    answer = (await one.plan("default/low")).refusal
    assert answer.code == "not-needed"
    assert "all 2 members of the quorum have a node" in answer.message


JOBS_OF_NOTHING = """
kind: JobSet
metadata: {name: new}
spec:
  replicatedJobs:
  - {name: a, replicas: 100000, template: {spec: {parallelism: 0, template: {spec: {}}}}}
"""


@pytest.mark.parametrize(
    ("gang", "manifest", "text"),
    [
        ("", "", "gang: is missing"),
        ("nobody", "", "no gang is named 'nobody'"),
        ("new", "a: [", "manifest:1:5: not valid YAML"),
        ("new", "- 1", "manifest: a document is not an object"),
        ("new", "a: &x [1]\nb: *x", "aliases are not taken here"),
        ("new", MANIFEST.replace("high", "none", 2), "PriorityClass 'none' is not in the cluster"),
        (
            "new",
            MANIFEST.replace("parallelism: 2", "parallelism: 99999"),
            "99999 pods are too many",
        ),
        ("new", JOBS_OF_NOTHING, "JobSet default/new: more than 10000 Jobs"),
        (
            "new",
            MANIFEST.replace("parallelism: 2", "parallelism: 9000").replace(
                "template:", "template:\n    metadata: {annotations: {x: " + "x" * 200_000 + "}}", 1
            ),
            "the Jobs' pods are more than 67108864 bytes",
        ),
        (
            "new",
            MANIFEST.replace("parallelism: 2", "parallelism: x"),
            "spec.parallelism must be",
        ),
        (
            "low",
            "kind: Pod\napiVersion: v1\nmetadata: {name: low-0}\nspec: {}",
            "Pod default/low-0 of the manifest is there already and has a node, n0",
        ),
        ("low", "kind: Pod\napiVersion: v1\nmetadata: []", "metadata must be a mapping"),
        ("new", " " * (1024 * 1024 + 1), "manifest: is longer than 1048576 characters"),
    ],
)
async def test_a_bad_question_is_answered_with_what_and_where(
    one: One, gang: str, manifest: str, text: str
) -> None:
    code, found = await refused(one.plan(gang, manifest))
    assert code is Code.INVALID_ARGUMENT
    assert text in found
    assert 'bad_input_total{transport="grpc",verb="plan"} 1.0' in one.site.scrape()
    assert (await one.plan("low")).refusal.code == "not-needed", "the next one is answered"


async def test_not_ready_and_not_leading_are_unavailable(one: One) -> None:
    one.site.reasons.append("another replica leads: b")
    assert await refused(one.plan("low")) == (Code.UNAVAILABLE, "another replica leads: b")
    code, _ = await refused(one.callers.plan.Explain(plan_pb2.ExplainRequest(gang="low")))
    assert code is Code.UNAVAILABLE


class Endless:
    """A planner whose search ends only when it is told to."""

    began = threading.Event()
    ended: list[str]

    def __init__(self, *_: Any) -> None:
        pass

    def see(self, snapshot: Any) -> None:
        pass

    def plan(self, question: Any, *, deadline: float, cancel: array[int]) -> Refusal:
        Endless.began.set()
        while not cancel[0] and time.monotonic() < deadline:
            time.sleep(0.001)
        Endless.ended.append("cancelled" if cancel[0] else "deadline")
        return Refusal(gang=question.gang.key, code=RefusalCode.INFEASIBLE, message="cut")


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> type[Endless]:
    monkeypatch.setattr(what_ifs, "Planner", Endless)
    Endless.began = threading.Event()
    Endless.ended = []
    return Endless


async def begun(search: type[Endless]) -> None:
    await asyncio.to_thread(search.began.wait, 10)


async def ended(search: type[Endless], count: int = 1) -> None:
    async with asyncio.timeout(60):
        while len(search.ended) < count:
            await asyncio.sleep(0.005)


async def test_a_caller_that_leaves_ends_the_search(one: One, endless: type[Endless]) -> None:
    call = one.plan("low")
    await begun(endless)
    call.cancel()
    await ended(endless)
    assert endless.ended == ["cancelled"]


async def test_the_callers_deadline_ends_the_search(one: One, endless: type[Endless]) -> None:
    """A little before it, so that what was found can still be told."""
    answer = await one.plan("low", timeout=3.0)
    assert answer.refusal.message == "cut"
    assert endless.ended == ["deadline"]


async def test_a_search_time_ends_the_search(one: One, endless: type[Endless]) -> None:
    asked = plan_pb2.PlanRequest(gang="low")
    asked.search_time.FromMilliseconds(20)
    assert (await one.callers.plan.Plan(asked)).refusal.message == "cut"
    asked.search_time.FromMilliseconds(0)
    assert (await refused(one.callers.plan.Plan(asked)))[0] is Code.INVALID_ARGUMENT


async def test_the_stop_ends_a_search(one: One, endless: type[Endless]) -> None:
    """By name the thread is one of those that the end of the process does not wait for."""
    assert what_ifs.THREAD.startswith(THREADS)
    call = one.plan("low")
    await begun(endless)
    one.site.server._what_ifs.close()
    await ended(endless)
    assert endless.ended == ["cancelled"]
    assert (await call).refusal.message == "cut"


async def test_questions_queue_up_to_a_bound(one: One, endless: type[Endless]) -> None:
    calls = [one.plan("low") for _ in range(what_ifs.MOST_WAITING + 1)]
    await begun(endless)
    async with asyncio.timeout(60):
        while True:
            code, text = await refused(one.plan("low", timeout=0.5))
            if code is Code.RESOURCE_EXHAUSTED:
                break
    assert text == "5 questions wait already"
    for call in calls:
        call.cancel()
    await ended(endless)
    async with asyncio.timeout(60):
        while one.site.server._what_ifs._asked:
            await asyncio.sleep(0.005)
    request = plan_pb2.PlanRequest(gang="low")
    request.search_time.FromMilliseconds(100)
    answer = await one.callers.plan.Plan(request, timeout=60)
    assert answer.refusal.message == "cut", "room again, as soon as the thread is through"


async def test_a_kept_planner_is_let_go_of(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_ifs, "KEPT_SECONDS", 0.01)
    asks = one.site.server._what_ifs
    await one.plan("low")
    async with asyncio.timeout(60):
        while asks._planners:
            await asyncio.sleep(0.005)
    assert (await one.plan("low")).refusal.gang == str(GangKey("pod-group", "default", "low"))


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
    assert found.state == State.STATE_PREEMPTING
    assert {each.pod.name for each in found.preemption.seats} == {"high-0", "high-1"}
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

    for seat in found.preemption.seats:
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
