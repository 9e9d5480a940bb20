"""A managed job of SkyPilot that is preempted: its controller makes all of its pods again.

The job is preempted while SkyPilot sets its pods up, for without a kubelet no job gets beyond that.
So the controller launches it again, and does not yet call that a recovery.
"""

from __future__ import annotations

import asyncio

from extender.sandbox.process import ExtenderProcess
from tests.clients.kubelet import SilentKubelet
from tests.clients.sky import Sky
from tests.clients.test_skypilot_clusters import AT_ONCE, CLUSTER, pods_of, removed
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.objects import make_pod

SECONDS = 180.0
"""The controller waits 36 to 84 seconds before it launches again."""


def _play(cluster: Cluster, sky: Sky) -> None:
    client = cluster.client

    def running() -> bool:
        phases = [pod["status"].get("phase") for pod in pods_of(cluster, "low")]
        return phases == ["Running"] * 4

    spec = {"priorityClassName": "low", **AT_ONCE}
    with SilentKubelet() as first:
        first.named_by(client)
        task = sky.task("low", 4, 3, spec, provision_timeout=-1)
        sky.run("jobs", "launch", "-y", "-d", "-n", "low", task)
        client.wait_for(running, SECONDS, "the job's pods run")
        assert first.asked.wait(SECONDS), "SkyPilot did not go on to set the pods up"
        low = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods_of(cluster, "low")}
        high = [
            make_pod(f"high-{i}", cpu=3, priority_class="high", labels={CLUSTER: "high-1"})
            for i in range(4)
        ]
        client.create_all(*high)
        names = [pod["metadata"]["name"] for pod in high]
        client.wait_running(*names, timeout=SECONDS)
        who = removed(cluster)
        assert {name: who.get(name) for name in low} == dict.fromkeys(low, EXTENDER_USER)
        assert pods_of(cluster, "low") == []

    def made_again() -> bool:
        return len(pods_of(cluster, "low")) == 4

    client.wait_for(made_again, SECONDS, "the controller makes the pods again")
    again = pods_of(cluster, "low")
    assert {pod["metadata"]["name"] for pod in again} == low.keys()
    assert not {pod["metadata"]["uid"] for pod in again} & set(low.values())
    assert not any(pod["spec"].get("nodeName") for pod in again), "bound beside a full cluster"

    with SilentKubelet() as second:
        second.named_by(client)
        for name in names:
            client.delete("Pod", name, grace=0)
        client.wait_for(running, SECONDS, "the job's pods run again")
        assert {pod["metadata"]["uid"] for pod in pods_of(cluster, "low")} == {
            pod["metadata"]["uid"] for pod in again
        }
    assert "Retrying to launch the cluster" in sky.controller_log(1)


async def test_a_preempted_job_is_launched_again(
    extender: ExtenderProcess, sky: Sky, cluster: Cluster
) -> None:
    await asyncio.to_thread(_play, cluster, sky)
    extender.check()
