"""The test bed tests itself: what other tests take for granted has to hold on each version."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.controlplane.client import ApiError
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_job, make_pdb, make_pod, make_pod_group
from tests.controlplane.recorder import RecordingExtender
from tests.controlplane.releases import RELEASES

pytestmark = pytest.mark.real


def test_version_is_the_pinned_one(cluster: Cluster) -> None:
    assert cluster.client.request("GET", "/version")["gitVersion"] == cluster.release.version


def test_pod_is_scheduled_and_runs(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.client.create(make_pod("a"))
    (pod,) = cluster.client.wait_running("a")
    conditions = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    assert pod["spec"]["nodeName"] == "n0"
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"
    assert pod["status"]["startTime"]
    assert pod["status"]["podIP"]


def test_node_status_is_what_the_test_asked_for(cluster: Cluster) -> None:
    cluster.nodes(1, cpu=8, resources={"nvidia.com/gpu": 4}, labels={"zone": "a"})
    node = cluster.client.wait_for(
        lambda: (
            (found := cluster.client.get("Node", "n0"))
            and found["status"].get("conditions")
            and found
        ),
        what="node ready",
    )
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert node["metadata"]["labels"]["zone"] == "a"
    assert not node["spec"].get("taints")


@pytest.mark.parametrize("asked", [0, 3])
def test_deletion_takes_the_grace_period(cluster: Cluster, asked: int) -> None:
    cluster.nodes(1)
    cluster.client.create(make_pod("a", grace=30))
    cluster.client.wait_running("a")
    started = time.monotonic()
    cluster.client.delete("Pod", "a", grace=asked)
    cluster.client.wait_gone("Pod", "a")
    assert asked <= time.monotonic() - started < 30


def test_change_while_terminating_does_not_restart_the_grace_period(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.client.create(make_pod("a"))
    cluster.client.wait_running("a")
    started = time.monotonic()
    cluster.client.delete("Pod", "a", grace=6)
    time.sleep(5)
    cluster.client.patch("Pod", "a", {"metadata": {"annotations": {"seen": "yes"}}})
    cluster.client.wait_gone("Pod", "a")
    assert 6.0 <= time.monotonic() - started < 11.0


def test_annotation_overrides_the_grace_period(cluster: Cluster) -> None:
    cluster.nodes(1)
    annotations = {"pod-delete.stage.kwok.x-k8s.io/delay": "2s"}
    cluster.client.create(make_pod("a", annotations=annotations))
    cluster.client.wait_running("a")
    started = time.monotonic()
    cluster.client.delete("Pod", "a", grace=600)
    cluster.client.wait_gone("Pod", "a")
    assert 2.0 <= time.monotonic() - started < 600.0


def test_successor_of_the_same_name_is_not_removed(cluster: Cluster) -> None:
    cluster.nodes(1)
    watch = cluster.watch()
    uids = []
    for _ in range(4):
        uids.append(cluster.client.create(make_pod("a"))["metadata"]["uid"])
        cluster.client.wait_running("a")
        cluster.client.delete("Pod", "a", grace=1)
        watch.wait_for(lambda e: e.type == "DELETED" and e.uid == uids[-1], what="pod deleted")
    last = cluster.client.create(make_pod("a"))["metadata"]["uid"]
    cluster.client.wait_running("a")
    watch.settle(1.5)
    assert set(watch.deleted()) == set(uids)
    assert cluster.client.get("Pod", "a")["metadata"]["uid"] == last


def test_finished_pod_is_left_alone(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.client.create_all(make_pod("good"), make_pod("bad"))
    cluster.client.wait_running("good", "bad")
    for name, phase in (("good", "Succeeded"), ("bad", "Failed")):
        cluster.client.patch("Pod", name, {"status": {"phase": phase}}, subresource="status")
    cluster.watch().settle(1.0)
    assert cluster.client.get("Pod", "good")["status"]["phase"] == "Succeeded"
    assert cluster.client.get("Pod", "bad")["status"]["phase"] == "Failed"


@pytest.mark.parametrize("disruption", [None, "single", "all"])
def test_pod_group_fields_are_kept(cluster: Cluster, disruption: str | None) -> None:
    release = cluster.release
    cluster.priority_classes(urgent=1000)
    made = cluster.pod_group("g", 2, disruption=disruption, priority_class="urgent")
    expected = release.disruption_all if disruption == "all" else release.disruption_single
    assert made["spec"]["disruptionMode"] == expected
    assert made["spec"]["priority"] == 1000
    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


def test_members_of_a_pod_group_run_as_plain_pods(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.pod_group("g", 5)
    cluster.client.create(make_pod("a", pod_group="g"))
    (pod,) = cluster.client.wait_running("a")
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_pod_group_is_protected_while_it_has_members(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.pod_group("g", 1)
    cluster.client.create(make_pod("a", pod_group="g"))
    cluster.client.wait_running("a")
    cluster.client.wait_for(
        lambda: cluster.client.get("PodGroup", "g")["metadata"].get("finalizers"),
        what="protection finalizer",
    )
    cluster.client.delete("PodGroup", "g")
    assert cluster.client.get("PodGroup", "g")["metadata"]["deletionTimestamp"]
    cluster.client.delete("Pod", "a", grace=0)
    cluster.client.wait_gone("PodGroup", "g")


def _running(cluster: Cluster, job: str) -> dict[str, str]:
    """The running pods of an indexed Job: index to UID."""
    pods = cluster.client.list("Pod", labelSelector=f"batch.kubernetes.io/job-name={job}")
    return {
        each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: each["metadata"][
            "uid"
        ]
        for each in pods
        if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
    }


def _wait_job(cluster: Cluster, job: str, count: int) -> dict[str, str]:
    """Wait until so many pods of a Job run."""
    return cluster.client.wait_for(
        lambda: found if len(found := _running(cluster, job)) == count else {},
        what=f"job {job} to run",
    )


@pytest.mark.parametrize("replacement", ["TerminatingOrFailed", "Failed"])
def test_pods_of_indexed_jobs_come_back(cluster: Cluster, replacement: str) -> None:
    cluster.nodes(2)
    for job in ("x", "y"):
        spec = {"podReplacementPolicy": replacement}
        pod = make_pod("t", grace=1)
        cluster.client.create(make_job(job, 2, pod, backoff_per_index=True, spec=spec))
    before = {job: _wait_job(cluster, job, 2) for job in ("x", "y")}
    watch = cluster.watch()
    cluster.client.delete_all("Pod", selector="batch.kubernetes.io/job-name=x")
    after = _wait_job(cluster, "x", 2)
    assert set(after) == {"0", "1"}
    assert not set(after.values()) & set(before["x"].values())
    assert _running(cluster, "y") == before["y"]
    # The Job controller keeps the old pod until the new one of its index is there.
    cluster.client.wait_for(
        lambda: set(watch.deleted()) == set(before["x"].values()), what="old pods gone"
    )
    if replacement == "Failed":  # Nobody but a kubelet, hence kwok, reports that phase.
        for uid in before["x"].values():
            assert watch.of(uid)[-1].object["status"]["phase"] == "Failed"


def test_disruption_budget_is_counted_and_honoured(cluster: Cluster) -> None:
    cluster.nodes(1)
    cluster.client.create(make_pdb("keep", {"app": "web"}, minAvailable=2))
    cluster.client.create_all(*(make_pod(f"web-{i}", labels={"app": "web"}) for i in range(3)))
    cluster.client.wait_running("web-0", "web-1", "web-2")
    cluster.client.wait_for(
        lambda: (
            cluster.client.get("PodDisruptionBudget", "keep")["status"]["disruptionsAllowed"] == 1
        ),
        what="one disruption allowed",
    )
    cluster.client.evict("web-0")
    with pytest.raises(ApiError) as refused:
        cluster.client.evict("web-1")
    assert refused.value.status == 429


def test_extender_is_asked_all_three_questions(cluster: Cluster) -> None:
    client = cluster.client
    cluster.priority_classes(low=1, high=9)
    cluster.nodes(2)
    with RecordingExtender() as extender:
        cluster.use_extender(extender.url)
        watch = cluster.watch()
        for index in range(2):
            client.create(make_pod(f"low-{index}", 3, priority_class="low"))
        client.wait_running("low-0", "low-1")
        assert sorted(extender.calls("filter", "low-0")[0]["NodeNames"]) == ["n0", "n1"]
        assert not extender.calls("preempt")
        cluster.pod_group("g", 1, priority_class="high")
        client.create(make_pod("high", 3, priority_class="high", pod_group="g"))
        client.wait_running("high")
    asked: dict[str, Any] = extender.calls("preempt", "high")[0]
    assert set(asked["NodeNameToMetaVictims"]) == {"n0", "n1"}
    assert asked["Pod"]["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    assert len(watch.deleted()) == 1
    assert watch.deleted() == watch.disrupted()
    (who,) = {
        each["user"]["username"]
        for each in cluster.control_plane.removals()
        if each["objectRef"].get("namespace") == cluster.namespace
    }
    assert who == "system:kube-scheduler"


def test_extender_user_has_no_rights_until_bound(cluster: Cluster) -> None:
    token = cluster.control_plane.extender_token
    with cluster.client.fork() as admin, cluster.client.fork(token=token) as limited:
        with pytest.raises(ApiError) as refused:
            limited.request("GET", "/api/v1/nodes")
        assert refused.value.status == 403
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
        admin.create({**rbac, "kind": "ClusterRole", "metadata": {"name": "see"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "see"}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "extender"}
        admin.create(
            {
                **rbac,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "see"},
                "roleRef": role,
                "subjects": [user],
            }
        )

        def allowed() -> bool:
            try:
                limited.request("GET", "/api/v1/nodes")
            except ApiError:
                return False
            return True

        admin.wait_for(allowed, what="the binding to count")


def test_scheduler_gates_are_switchable(cluster: Cluster) -> None:
    cluster.nodes(1)
    config = cluster.control_plane.scheduler_document
    cluster.use_scheduler(config, gates=cluster.release.wap_gates)
    cluster.pod_group("g", 2)
    cluster.client.create(make_pod("a", pod_group="g"))
    cluster.client.create(make_pod("plain"))
    cluster.client.wait_running("plain")
    time.sleep(1)
    assert cluster.client.get("Pod", "a")["status"]["phase"] == "Pending"
    cluster.client.create(make_pod("b", pod_group="g"))
    cluster.client.wait_running("a", "b")


def test_watch_survives_a_restart_of_the_api_server(cluster: Cluster) -> None:
    cluster.nodes(1)
    watch = cluster.watch()
    cluster.client.create(make_pod("before"))
    cluster.client.wait_running("before")
    cluster.control_plane.restart("kube-apiserver")
    cluster.client.create(make_pod("after"))
    cluster.client.wait_running("after")
    watch.wait_for(lambda event: event.name == "after", what="event after the restart")
    cluster.client.delete("Pod", "before", grace=0)
    watch.wait_for(lambda event: event.type == "DELETED", what="deletion seen")
    assert [each.name for each in watch.events if each.type == "ADDED"] == ["before", "after"]
    assert list(watch.deleted().values()) == ["before"]


def test_nothing_is_left_of_the_tests_before(cluster: Cluster) -> None:
    assert not cluster.client.list("Node")
    assert not cluster.client.list("Pod", "")
    if cluster.release.pod_groups:
        assert not cluster.client.list("PodGroup", "")
    assert [
        each["metadata"]["name"]
        for each in cluster.client.list("PriorityClass")
        if not each["metadata"]["name"].startswith("system-")
    ] == []
    spaces = {
        each["metadata"]["name"]
        for each in cluster.client.list("Namespace")
        if "deletionTimestamp" not in each["metadata"]
    }
    assert spaces == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        cluster.namespace,
    }


def test_pod_group_builder_spells_each_release() -> None:
    spelt = {
        minor: make_pod_group(each, "g", 1, disruption="all")["spec"]["disruptionMode"]
        for minor, each in RELEASES.items()
    }
    assert spelt == {"1.36": "PodGroup", "1.37": {"all": {}}}
