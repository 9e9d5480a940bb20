"""Kueue's queues and groups of plain pods for the tests, and what has become of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.clients.kueue_controller import API, GATE, MANAGED, QUEUE
from tests.controlplane.client import ApiError
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.groups import recorded

Obj = dict[str, Any]
CPU = 3
"""Of each pod: one fills a node of four."""
LOCAL_QUEUE = "user-queue"
WORKLOAD = f"{API}/Workload"
CLASS = "kueue.x-k8s.io/priority-class"


def queues(cluster: Cluster, quota: int) -> None:
    """One queue with so much CPU; a more urgent Workload preempts less urgent ones in it."""
    flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": quota}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    for kind, name, body in (
        ("ResourceFlavor", "any", {}),
        ("ClusterQueue", "all", spec),
        ("LocalQueue", LOCAL_QUEUE, {"clusterQueue": "all"}),
    ):
        made = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": body}
        cluster.client.create(made)

    def active() -> bool:
        status = cluster.client.get(f"{API}/ClusterQueue", "all", "").get("status", {})
        return any(
            each["type"] == "Active" and each["status"] == "True"
            for each in status.get("conditions", ())
        )

    cluster.client.wait_for(active, 60, "the queue admits")


def used(cluster: Cluster) -> int:
    """CPU of the quota that is given away."""
    status = cluster.client.get(f"{API}/ClusterQueue", "all", "").get("status", {})
    totals = [
        int(each["total"])
        for flavor in status.get("flavorsReservation", ())
        for each in flavor["resources"]
    ]
    return sum(totals)


def member(
    gang: str,
    i: int,
    size: int,
    priority_class: str | None,
    *,
    name: str = "",
    retriable: bool = True,
    labels: Mapping[str, str] | None = None,
) -> Obj:
    """A pod of a group, as its maker writes it: without what Kueue adds."""
    meta = recorded.kueue(i, size, gang)
    del meta["labels"][MANAGED]
    del meta["annotations"]["kueue.x-k8s.io/role-hash"]
    meta["labels"] |= {"gang": gang, QUEUE: LOCAL_QUEUE, **(labels or {})}
    if not retriable:
        meta["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    return make_pod(
        name or f"{gang}-{i}",
        CPU,
        priority_class=priority_class,
        labels=meta["labels"],
        annotations=meta["annotations"],
        grace=1,
    )


def make(cluster: Cluster, gang: str, size: int, priority_class: str | None, **more: Any) -> None:
    """Make a whole group."""
    cluster.client.create_all(*(member(gang, i, size, priority_class, **more) for i in range(size)))


def pods_of(cluster: Cluster, gang: str) -> list[Obj]:
    """All pods of a group, whatever has become of them."""
    return cluster.client.list("Pod", labelSelector=f"gang={gang}")


def staying(cluster: Cluster, gang: str) -> list[Obj]:
    """Those that neither go nor have ended."""
    return [
        pod
        for pod in pods_of(cluster, gang)
        if not pod["metadata"].get("deletionTimestamp")
        and pod["status"].get("phase") in ("Pending", "Running")
    ]


def gated(cluster: Cluster, gang: str) -> list[Obj]:
    """Those at Kueue's gate."""
    return [
        pod
        for pod in staying(cluster, gang)
        if {"name": GATE} in pod["spec"].get("schedulingGates", ())
    ]


def running(cluster: Cluster, gang: str) -> list[Obj]:
    """Those that run."""
    return [pod for pod in staying(cluster, gang) if pod["status"]["phase"] == "Running"]


def finish(cluster: Cluster, gang: str) -> None:
    """Let all its pods end well, as kubelets would report it."""
    for pod in running(cluster, gang):
        name = pod["metadata"]["name"]
        ended = {"status": {"phase": "Succeeded"}}
        cluster.client.patch("Pod", name, ended, subresource="status")


def condition_of(cluster: Cluster, gang: str, kind: str) -> str:
    """The reason of a condition of the group's Workload that is true; "" where it is not."""
    try:
        found = cluster.client.get_or_none(WORKLOAD, gang)
    except ApiError:
        return ""
    for each in (found or {}).get("status", {}).get("conditions", ()):
        if each["type"] == kind and each["status"] == "True":
            return str(each["reason"])
    return ""


def removed(cluster: Cluster) -> dict[str, str]:
    """Pod -> who asked first for its removal, in that order: a user, of Kueue's ``kueue``."""
    found: dict[str, str] = {}
    for record in cluster.control_plane.removals():
        if (
            record["objectRef"]["namespace"] == cluster.namespace
            and record["responseStatus"]["code"] == 200
            and "dryRun" not in record["requestURI"]
        ):
            kueue = record.get("userAgent", "").startswith("kueue")
            who = "kueue" if kueue else record["user"]["username"]
            found.setdefault(record["objectRef"].get("name", ""), who)
    return found
