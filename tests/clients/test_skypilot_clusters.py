"""SkyPilot's own commands, on a cluster with room for one of its clusters of four pods.

It ends where a kubelet would be needed: the pods run, and SkyPilot cannot reach into them.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from extender.sandbox.process import ExtenderProcess
from tests.clients.sky import Sky
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER

Obj = dict[str, Any]
CLUSTER = "skypilot-cluster-name"
NO_KUBELET = "Failed to get ssh user"
"""What SkyPilot says when its first command inside of a pod fails."""
AT_ONCE = {"terminationGracePeriodSeconds": 0}


def pods_of(cluster: Cluster, name: str) -> list[Obj]:
    """The pods of one of SkyPilot's clusters; it lengthens the name by its user's hash."""
    found = cluster.client.list("Pod")
    return [pod for pod in found if pod["metadata"]["labels"][CLUSTER].startswith(f"{name}-")]


def removed(cluster: Cluster) -> dict[str, str]:
    """Pod -> who has it removed, of all that were so far."""
    return {
        record["objectRef"]["name"]: record["user"]["username"]
        for record in cluster.control_plane.removals()
        if record["objectRef"]["namespace"] == cluster.namespace
        # kwok only finishes what somebody else has asked for.
        and record["user"]["username"] != "kwok"
    }


def _play(cluster: Cluster, sky: Sky) -> None:
    assert "Kubernetes: enabled [compute]" in sky.run("check", "kubernetes")

    def launch(name: str, priority_class: str, **kubernetes: Any) -> str:
        spec = {"priorityClassName": priority_class, **AT_ONCE}
        task = sky.task(name, 4, 3, spec, **kubernetes)
        return sky.run("launch", "-y", "-c", name, task, status=1)

    assert NO_KUBELET in launch("low", "low", provision_timeout=60)
    low = pods_of(cluster, "low")
    assert [pod["status"]["phase"] for pod in low] == ["Running"] * 4
    assert removed(cluster) == {}

    # SkyPilot waits 10 seconds for an equal one, and tells why it gave up.
    told = launch("equal", "low")
    assert NO_KUBELET not in told
    assert pods_of(cluster, "equal") == []
    assert {pod["metadata"]["uid"] for pod in pods_of(cluster, "low")} == {
        pod["metadata"]["uid"] for pod in low
    }

    assert NO_KUBELET in launch("high", "high", provision_timeout=60)
    assert [pod["status"]["phase"] for pod in pods_of(cluster, "high")] == ["Running"] * 4
    assert pods_of(cluster, "low") == []
    who = removed(cluster)
    assert [who[pod["metadata"]["name"]] for pod in low] == [EXTENDER_USER] * 4

    status = sky.run("status", "-r")
    # Told here, unless its server's own refresh, once a minute, has told it before.
    assert not re.search(r"^low\s", status, re.MULTILINE), status
    reasons = [each for each in sky.happened("low") if "preempted by skypilot:" in each]
    assert len(reasons) == 4, sky.happened("low")

    sky.run("down", "-y", "high")
    cluster.client.wait_for(lambda: not pods_of(cluster, "high"), what="high is down")
    assert "No existing clusters" in sky.run("status")


async def test_a_cluster_is_preempted_whole_and_told_so(
    extender: ExtenderProcess, sky: Sky, cluster: Cluster
) -> None:
    await asyncio.to_thread(_play, cluster, sky)
    extender.check()
