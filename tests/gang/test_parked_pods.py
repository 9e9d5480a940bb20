"""An urgent pod of no gang that is refused in preempt for now is tried again once that is over.

Where all nodes are full for kube-scheduler, filter is not asked, and the pod waits for an event of
kube-scheduler's own filters: a nomination that ends is one, a changed annotation is none.
"""

from __future__ import annotations

import pytest

from extender.decode.from_json import decode_pod
from extender.gang.controller.hints import MAX_HELD_BACK
from extender.model.errors import UnknownPod
from extender.sandbox.faults import Fault
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.rig import HIGH, Rig, full_cluster, held_back, let_go


def nominations(rig: Rig, name: str) -> Fault:
    """Count the nominations of a pod: one that is written, and one that is cleared."""
    return rig.server.faults.plan(Fault(times=1000, method="PATCH", path=f"pods/{name}/status"))


async def until_woken(rig: Rig, written: Fault, name: str) -> None:
    await rig.until(lambda: written.hits == 2, f"{name} was nominated, and is not any more", 3)
    await rig.until(lambda: not rig.cached(name).nominated)


async def seated(rig: Rig) -> tuple[str, str]:
    """One member of two sits and the other is on its way to ``other``: all nodes are full."""
    await rig.gang("high", 2, "high")
    (node,) = (await rig.filter("high-0", "n0", "n1")).node_names
    await rig.bind("high-0", node)
    await rig.until(lambda: bool(rig.cached("high-0").node), "it sits")
    (other,) = {"n0", "n1"} - {node}
    assert (await rig.filter("high-1", other)).node_names == [other]
    return node, other


async def test_a_pod_that_may_not_preempt_a_gang_that_is_being_seated(rig: Rig) -> None:
    node, other = await seated(rig)
    await rig.pod("urgent", cls="top")
    answer = await rig.preempt("urgent", **{node: ["high-0"]})
    assert not answer.candidates
    written = nominations(rig, "urgent")
    await rig.bind("high-1", other)
    await until_woken(rig, written, "urgent")


async def test_a_pod_that_may_not_preempt_beside_seats(rig: Rig) -> None:
    await rig.classes(mid=20)
    await full_cluster(rig)
    marks = held_back(rig, "PATCH", "low-.*/status", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: marks.hits > 0, "evictions are about to be sent")
    await rig.pod("mid", cls="mid")
    answer = await rig.preempt("mid", n0=["low-0"], n1=["low-1"])
    assert not answer.candidates
    written = nominations(rig, "mid")
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    let_go(marks)
    await until_woken(rig, written, "mid")


async def test_a_pod_whose_victim_is_placed_and_not_shown_yet(rig: Rig) -> None:
    await rig.classes(mid=20)
    await rig.pod("a", cls="mid")
    await rig.pod("other", cls="top", on="n1")
    assert (await rig.filter("a", "n0")).node_names == ["n0"]
    await rig.pod("nine", cls="top")
    answer = await rig.preempt("nine", n0=["a"])
    assert not answer.candidates
    written = nominations(rig, "nine")
    await rig.bind("a", "n0")
    await until_woken(rig, written, "nine")
    assert list((await rig.preempt("nine", n0=["a"])).candidates) == ["n0"]


async def test_a_pod_is_tried_again_when_no_end_is_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stood against it: it does not wait for kube-scheduler's five minutes."""
    node, _ = await seated(rig)
    await rig.pod("urgent", cls="top")
    await rig.preempt("urgent", **{node: ["high-0"]})
    written = nominations(rig, "urgent")
    held = rig.coordinator.hints.held_back
    monkeypatch.setattr("extender.gang.controller.hints.PARKED_SECONDS", 0.0)
    await until_woken(rig, written, "urgent")
    assert not held.pods()


async def test_a_pod_that_kube_scheduler_nominated_before(rig: Rig) -> None:
    """Its own nomination ends: kube-scheduler keeps it where an extender allows no node."""
    node, other = await seated(rig)
    await rig.pod("urgent", cls="top")
    await rig.preempt("urgent", **{node: ["high-0"]})
    path = "/api/v1/namespaces/default/pods/urgent/status"
    await rig.client.patch(path, {"status": {"nominatedNodeName": node}}, kind="merge")
    await rig.until(lambda: bool(rig.cached("urgent").nominated), "it is nominated")
    await rig.bind("high-1", other)
    await rig.until(lambda: not rig.cached("urgent").nominated, "it is not any more", 3)


@pytest.mark.parametrize("status", [404, 413, 500])
async def test_a_pod_that_another_one_was_to_wake(rig: Rig, status: int) -> None:
    """One nomination that ends wakes all that are less urgent: not where it cannot be written."""
    node, other = await seated(rig)
    await rig.classes(higher=9000)
    await rig.pod("urgent", cls="top")
    await rig.pod("more", cls="higher")
    await rig.preempt("more", **{node: ["high-0"]})
    await rig.preempt("urgent", **{node: ["high-0"]})
    refused = Fault(times=1000, method="PATCH", path="pods/more/status", status=status)
    rig.server.faults.plan(refused)
    written = nominations(rig, "urgent")
    await rig.bind("high-1", other)
    await until_woken(rig, written, "urgent")
    assert refused.hits


def asked_about(rig: Rig, uid: str, namespace: str) -> None:
    rig.coordinator.hints.held_back.asked(uid, namespace, ["n0"])


async def test_a_pod_that_is_asked_about_before_it_is_seen(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it waited for ends before the watch has shown it: it is still to be woken."""
    node, _ = await seated(rig)
    victim = rig.cached("high-0")
    rig.server.faults.stall()
    await rig.pod("urgent", cls="top")
    raw = await rig.client.get("/api/v1/namespaces/default/pods/urgent")
    with pytest.raises(UnknownPod):
        await rig.verbs.preempt(PreemptArgs(decode_pod(raw), {node: NodeVictims((victim.uid,))}))
    rig.coordinator.hints.held_back.wake_all()
    written = nominations(rig, "urgent")
    monkeypatch.setattr("extender.gang.controller.hints.PARKED_SECONDS", 0.0)
    rig.server.faults.flow()
    await until_woken(rig, written, "urgent")


async def test_invented_pods_keep_no_other_from_being_woken(rig: Rig) -> None:
    node, _ = await seated(rig)
    await rig.pod("urgent", cls="top")
    for number in range(MAX_HELD_BACK + 1):
        asked_about(rig, f"invented-{number}", f"ns-{number}")
    await rig.preempt("urgent", **{node: ["high-0"]})
    assert [pod.name for pod in rig.coordinator.hints.held_back.pods()] == ["urgent"]


async def preempts_on_n0(rig: Rig) -> None:
    """A pod may preempt on n0, is nominated there, and its victim is gone; n1 is full."""
    await rig.pod("v", cls="low", on="n0", grace=30)
    await rig.pod("w", cls="top", on="n1")
    await rig.pod("urgent", cls="top")
    await rig.until(lambda: rig.cache.pod_named("default", "w") is not None, "w is cached")
    assert list((await rig.preempt("urgent", n0=["v"])).candidates) == ["n0"]
    path = "/api/v1/namespaces/default/pods/urgent/status"
    await rig.client.patch(path, {"status": {"nominatedNodeName": "n0"}}, kind="merge")
    await rig.remove("v")
    await rig.until(lambda: bool(rig.cached("urgent").nominated), "it is nominated")
    await rig.until(lambda: rig.cache.pod_named("default", "v") is None, "its victim is gone")


@pytest.mark.parametrize("ended", [True, False])
async def test_a_pod_that_preempts_keeps_its_nomination(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    """Its victims are gone and it is not bound yet: no plan that ends, and no time, takes it."""
    await preempts_on_n0(rig)
    cleared = nominations(rig, "urgent")
    held = rig.coordinator.hints.held_back
    if ended:
        held.wake_all()
    else:
        monkeypatch.setattr("extender.gang.controller.hints.PARKED_SECONDS", 0.0)
        await rig.until(lambda: not held.pods(), "it has come to kube-scheduler", 3)
    await rig.rounds()
    assert (cleared.hits, rig.cached("urgent").nominated) == (0, "n0")


async def test_a_pod_of_no_gang_whose_plan_does_not_hold_after_a_restart(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    for name in HIGH:
        await rig.remove(name)
    await rig.pod("urgent", cls="top")
    await rig.preempt("urgent", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(rig.cached("urgent").nominated), "its seat is written")
    node = rig.cached("urgent").nominated
    await rig.kill()
    await rig.client.delete(f"/api/v1/nodes/{node}")
    await rig.start()
    await rig.until(lambda: not rig.cached("urgent").nominated, "it is cleared", 3)


@pytest.mark.parametrize("job", ["", "indexed"])
async def test_a_pod_that_comes_while_no_extender_answers(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """kube-scheduler had no answer, and no event comes that its own filters wait for."""
    labels = {"batch.kubernetes.io/job-completion-index": "0"} if job else None
    await rig.pod("full", cls="low", on="n0")
    await rig.kill()
    await rig.pod("urgent", cls="top", labels=labels, job=job)
    written = nominations(rig, "urgent")
    await rig.start()
    monkeypatch.setattr("extender.gang.controller.hints.PARKED_SECONDS", 0.0)
    await until_woken(rig, written, "urgent")
