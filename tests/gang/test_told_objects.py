"""What a gang's PodGroup, Jobs and JobSet are told beside its pods."""

from __future__ import annotations

from typing import Any

from extender.gang.plan.assemble import assemble
from extender.gang.status.notices import MOST_MAKERS, objects_of
from extender.model.objects import GangKey, Owner, Pod
from tests.gang.rig import Rig, full_cluster

EVENTS = "/api/v1/namespaces/default/events"
EMPTY = assemble(lambda pod: None, nodes=(), pods=(), now=0.0)
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/jobset-uid": "uid-train"}


async def told(rig: Rig, *wanted: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Events, once these (kind, name, reason) are among them."""
    while True:
        items: list[dict[str, Any]] = (await rig.client.get(EVENTS))["items"]
        found = {
            (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["reason"])
            for each in items
        }
        if found.issuperset(wanted):
            return items


async def test_podgroup_job_and_jobset_read_why_their_gang_waits(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.group("large", 3, "top")
    for i in range(3):
        await rig.pod(f"large-{i}", cls="top", group="large", labels=JOBSET, job=f"train-{i // 2}")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 7, "seven pods")
    for _ in range(3):
        await rig.filter("large-0", "n0", "n1")
    reason = "GangDoesNotFit"
    items = await told(
        rig,
        ("PodGroup", "large", reason),
        ("JobSet", "train", reason),
        ("Job", "train-0", reason),
        ("Job", "train-1", reason),
    )
    about = [each for each in items if each["involvedObject"]["kind"] != "Pod"]
    assert len(about) == 4, "each once a minute"
    assert all("cannot fit: " in each["message"] for each in about)
    (jobset,) = (each for each in about if each["involvedObject"]["kind"] == "JobSet")
    assert jobset["involvedObject"]["uid"] == "uid-train"
    assert jobset["involvedObject"]["apiVersion"] == "jobset.x-k8s.io/v1alpha2"


async def test_every_member_reads_why_its_gang_waits(rig: Rig) -> None:
    """`kubectl describe` of any of them: only the first four had an event."""
    await full_cluster(rig)
    await rig.group("wide", 9, "top")
    for i in range(9):
        await rig.pod(f"wide-{i}", cls="top", group="wide")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 13, "thirteen pods")
    await rig.filter("wide-0", "n0", "n1")
    await told(rig, *(("Pod", f"wide-{i}", "GangDoesNotFit") for i in range(9)))


async def test_names_of_other_namespaces_are_not_told_to_the_preemptors_owner(rig: Rig) -> None:
    await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "secret"}})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    spec = {"nodeName": "n0", "priorityClassName": "low", "containers": [container]}
    pods = "/api/v1/namespaces/secret/pods"
    await rig.client.create(pods, {"metadata": {"name": "merger-0"}, "spec": spec})
    await rig.pod("low-1", cls="low", on="n1")
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "all")
    await rig.preempt("high-0", n0=[], n1=["low-1"])
    items = await told(rig, ("PodGroup", "high", "GangPreempting"))
    (text,) = {each["message"] for each in items if each["reason"] == "GangPreempting"}
    assert "pod default/low-1, 1 pod of other namespaces; at most 30 s of grace" in text
    assert "merger" not in "".join(each["message"] for each in items)


async def test_both_podgroups_read_of_a_preemption_once(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    items = await told(
        rig,
        ("PodGroup", "high", "GangPreempting"),
        ("PodGroup", "low", "Preempted"),
        ("Pod", "low-0", "Preempted"),
        ("Pod", "low-1", "Preempted"),
    )
    (went,) = (
        each
        for each in items
        if (each["involvedObject"]["kind"], each["reason"]) == ("PodGroup", "Preempted")
    )
    assert "pod-group:default/high" in went["message"]
    assert went["message"].endswith("it is evicted as a whole")


async def test_a_waiting_member_has_one_reason_for_all_nodes(rig: Rig) -> None:
    """kube-scheduler counts equal reasons together: `kubectl describe pod` is one sentence."""
    await full_cluster(rig, grace=300)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(rig.coordinator.reservations.holds()), "seats")
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == []
    (why,) = set(result.failed_and_unresolvable.values())
    assert why.startswith("pod-group:default/high: seat on n")
    assert ", " not in why, "kube-scheduler sets reasons apart by that"
    await rig.pod("alone-0", cls="top", group="nowhere")
    result = await rig.filter("alone-0", "n0", "n1")
    (why,) = set(result.failed_and_unresolvable.values())
    assert "PodGroup default/nowhere (scheduling.k8s.io) does not exist" in why


def test_a_gang_of_many_jobs_and_made_up_jobsets_costs_a_few_events() -> None:
    pods = [
        Pod(
            uid=f"u{i}",
            namespace="a",
            name=f"p{i}",
            owner=Owner("Job", f"j{i}", f"uj{i}"),
            labels={
                "jobset.sigs.k8s.io/jobset-name": f"s{i}",
                "jobset.sigs.k8s.io/jobset-uid": f"us{i}",
            },
        )
        for i in range(100)
    ]
    found = objects_of(GangKey("jobset", "a", "s"), pods, EMPTY)
    assert len(found) == 2 * MOST_MAKERS
    single = Pod(uid="u", namespace="a", name="p", owner=Owner("ReplicaSet", "r", "ur"))
    assert objects_of(GangKey("custom", "a", "s"), [single], EMPTY) == []
