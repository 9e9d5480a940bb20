"""Kueue's part in a play: gates, finalizers, its own preemption, and pods that are made again."""

from __future__ import annotations

import pytest

from extender.sandbox.api_status import Obj
from extender.sandbox.resources import PODS
from extender.sandbox.scenario_file import parse
from extender.sandbox.world import World
from tests.sandbox.test_playing import HEAD, play

FINALIZER = ["kueue.x-k8s.io/managed"]
GANG = "  - create: {gang: g, dialect: kueue, priorityClass: low, pods: 2, cpu: 3%s}\n"
IN = GANG % ""
NOT_REPAIRED = ", annotations: {kueue.x-k8s.io/retriable-in-group: 'false'}"
ADMITTED = "  - admit: g\n  - waitRunning: g\n"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.sandbox.runner.EXPECT_SECONDS", 1.0)
    monkeypatch.setattr("extender.sandbox.narrator._SETTLE", 0.0)


async def played(steps: str) -> tuple[list[str], list[Obj]]:
    """Play with a scheduler that nobody restrains; return failures and all states of the pods."""
    seen: list[Obj] = []

    async def look(world: World) -> None:
        world.server.api.storage.observe(
            lambda change: (
                seen.append({**change.new, "gone": change.type == "DELETED"})
                if change.resource == PODS.key
                else None
            )
        )

    outcome, _, _ = await play(parse(HEAD + "steps:\n" + steps), during=look)
    return outcome.failures, seen


def last(seen: list[Obj], name: str) -> Obj:
    return [pod for pod in seen if pod["metadata"]["name"] == name][-1]


def conditions(pod: Obj) -> dict[str, str]:
    return {
        each["type"]: each["reason"]
        for each in pod["status"].get("conditions", ())
        if "reason" in each
    }


async def test_a_group_comes_gated_and_under_the_finalizer() -> None:
    failures, seen = await played(IN + "  - sleep: 0.5\n  - expect: {pending: {g: 2}}\n")
    assert failures == []
    first = seen[0]
    assert first["metadata"]["finalizers"] == FINALIZER
    assert first["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "g"
    assert first["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
    gates = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
    assert [each["name"] for each in first["spec"]["schedulingGates"]] == gates


async def test_who_has_his_node_is_admitted_already() -> None:
    failures, seen = await played(GANG % ", nodes: ['n[0-1]']" + "  - waitRunning: g\n")
    assert failures == []
    assert not any("schedulingGates" in pod["spec"] for pod in seen)
    assert all(pod["metadata"]["finalizers"] == FINALIZER for pod in seen)


async def test_it_admits_pod_by_pod() -> None:
    steps = IN + "  - admit: {name: g, count: 1}\n  - waitRunning: {name: g, count: 1}\n"
    steps += "  - sleep: 0.3\n  - expect: {running: {g: 1}}\n  - admit: g\n  - waitRunning: g\n"
    failures, _ = await played(steps)
    assert failures == []


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("admit: g", "g has 0 gated pods, to admit 1"),
        ("admit: {name: g, count: 3}", "g has 0 gated pods, to admit 3"),
    ],
)
async def test_who_is_not_gated_cannot_be_admitted(step: str, says: str) -> None:
    failures, _ = await played(f"{IN}  - admit: g\n  - {step}\n")
    assert failures == [f"step 2 (admit): {says}"]


async def test_what_it_preempts_is_no_eviction_and_stays_under_the_finalizer() -> None:
    steps = (GANG % ", grace: 1") + "  - admit: g\n  - waitRunning: g\n  - preempt: g\n"
    failures, seen = await played(steps + "  - expect: {evicted: {}, notRunning: [g]}\n")
    assert failures == []
    for name in ("g-0", "g-1"):
        pod = last(seen, name)
        assert pod["status"]["phase"] == "Failed"
        assert pod["metadata"]["finalizers"] == FINALIZER
        assert conditions(pod)["TerminationTarget"] == "WorkloadEvictedDueToPreempted"


async def test_the_room_of_those_who_ended_is_free_and_their_successors_are_gated() -> None:
    steps = IN + "  - admit: g\n  - waitRunning: g\n  - preempt: g\n"
    steps += "  - create: {gang: h, priorityClass: low, pods: 2, cpu: 3}\n  - waitRunning: h\n"
    steps += "  - recreate: g\n  - expect: {evicted: {}, pending: {g: 2}, running: {h: 2}}\n"
    steps += "  - finish: h\n  - admit: g\n  - waitRunning: g\n"
    failures, seen = await played(steps)
    assert failures == []
    uids = {pod["metadata"]["uid"] for pod in seen if pod["metadata"]["name"] == "g-0"}
    assert len(uids) == 2


async def test_an_eviction_after_the_recreation_is_seen_again() -> None:
    steps = IN + "  - admit: g\n  - waitRunning: g\n  - recreate: g\n  - admit: g\n"
    steps += "  - waitRunning: g\n  - create: {pod: one, priorityClass: high, cpu: 3}\n"
    failures, _ = await played(steps + "  - waitRunning: one\n  - expect: {evicted: {g: 1}}\n")
    assert failures == []


async def test_a_deleted_group_is_finalized() -> None:
    failures, seen = await played(IN + "  - delete: g\n  - expect: {evicted: {}}\n")
    assert failures == []
    assert "finalizers" not in seen[-1]["metadata"]


async def test_bare_pods_without_kueue_are_made_again_too() -> None:
    steps = "  - create: {gang: s, dialect: skypilot, pods: 2, cpu: 3, nodes: ['n[0-1]']}\n"
    steps += "  - waitRunning: s\n  - recreate: s\n  - waitRunning: s\n"
    failures, seen = await played(steps + "  - expect: {evicted: {}, running: {s: 2}}\n")
    assert failures == []
    heads = {pod["metadata"]["uid"] for pod in seen if pod["metadata"]["name"] == "s-head"}
    assert len(heads) == 2


async def test_a_group_that_is_not_to_be_repaired_is_gone_once_all_have_ended() -> None:
    steps = GANG % NOT_REPAIRED + ADMITTED + "  - preempt: g\n  - sleep: 0.5\n"
    failures, seen = await played(steps + "  - expect: {evicted: {}, notRunning: [g]}\n")
    assert failures == []
    for name in ("g-0", "g-1"):
        assert last(seen, name)["status"]["phase"] == "Failed"
        assert last(seen, name)["gone"]


@pytest.mark.parametrize("more", ["", "  - finish: g\n  - sleep: 0.5\n"], ids=["runs", "ended"])
async def test_one_that_still_runs_keeps_the_finalizers_of_all(more: str) -> None:
    steps = GANG % NOT_REPAIRED + ADMITTED + "  - create: {pod: one, priorityClass: high, cpu: 3}\n"
    failures, seen = await played(steps + "  - waitRunning: one\n  - sleep: 0.5\n" + more)
    assert failures == []
    pods = [last(seen, name) for name in ("g-0", "g-1")]
    # The one that was evicted goes; the other is left, and nobody has deleted it.
    assert sorted(pod["gone"] for pod in pods) == [False, bool(more)]
    kept = [pod["metadata"].get("finalizers") for pod in pods if not pod["gone"]]
    assert kept == ([None] if more else [FINALIZER, FINALIZER])


async def test_the_finalizers_of_a_group_that_ended_well_go() -> None:
    failures, seen = await played(IN + ADMITTED + "  - finish: g\n  - sleep: 0.5\n")
    assert failures == []
    for name in ("g-0", "g-1"):
        assert last(seen, name)["status"]["phase"] == "Succeeded"
        assert "finalizers" not in last(seen, name)["metadata"]


async def test_a_group_of_which_one_failed_waits_to_be_repaired() -> None:
    steps = IN + ADMITTED + "  - create: {pod: one, priorityClass: high, cpu: 3}\n"
    steps += "  - waitRunning: one\n  - finish: g\n  - sleep: 0.5\n"
    failures, seen = await played(steps)
    assert failures == []
    for name in ("g-0", "g-1"):
        assert last(seen, name)["metadata"]["finalizers"] == FINALIZER
