"""What one preemption costs a Job, by its failure policy, on real controllers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest

Obj = dict[str, Any]
IGNORE = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
COUNT = [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]
JOBS: dict[str, Obj] = {
    "none-left": {"backoffLimit": 0},
    "one-left": {"backoffLimit": 1},
    "ignored": {"backoffLimit": 0, "podFailurePolicy": {"rules": IGNORE}},
    "fails": {"backoffLimit": 6, "podFailurePolicy": {"rules": COUNT}},
}
"""Job -> what its spec says."""
FAILED = {"none-left": "BackoffLimitExceeded", "fails": "PodFailurePolicy"}
"""Job -> the reason for which one preemption fails it for good; the others make the pod again."""
SECONDS = 120.0


def _job(name: str, spec: Obj) -> Obj:
    pod = make_pod(name, cpu=3, priority_class="low")
    pod["spec"] |= {"restartPolicy": "Never"}
    template = {"metadata": {"labels": {"job": name}}, "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completionMode": "Indexed", "completions": 1, "template": template, **spec},
    }


def _failed(job: Obj) -> str:
    """The reason for which a Job has failed, or is about to."""
    found = [
        str(condition.get("reason"))
        for condition in job.get("status", {}).get("conditions", ())
        if condition["type"] in ("Failed", "FailureTarget") and condition["status"] == "True"
    ]
    return found[-1] if found else ""


def _play(cluster: Cluster) -> None:
    client = cluster.client

    def pods(name: str) -> list[Obj]:
        labelled = [
            pod
            for pod in client.list("Pod")
            if pod["metadata"].get("labels", {}).get("job") == name
        ]
        return [pod for pod in labelled if not pod["metadata"].get("deletionTimestamp")]

    client.create_all(*(_job(name, spec) for name, spec in JOBS.items()))

    def running() -> bool:
        return all(
            [pod["status"].get("phase") for pod in pods(name)] == ["Running"] for name in JOBS
        )

    client.wait_for(running, SECONDS, "all Jobs run")
    before = {pod["metadata"]["uid"] for name in JOBS for pod in pods(name)}
    high = [
        make_pod(f"high-{i}", cpu=3, priority_class="high", labels={"skypilot-cluster-name": "h"})
        for i in range(len(JOBS))
    ]
    client.create_all(*high)
    client.wait_running(*(pod["metadata"]["name"] for pod in high), timeout=SECONDS)

    def settled() -> bool:
        for name in JOBS:
            if name in FAILED:
                if _failed(client.get("Job", name)) != FAILED[name]:
                    return False
            elif not any(pod["metadata"]["uid"] not in before for pod in pods(name)):
                return False
        return True

    client.wait_for(settled, SECONDS, "each Job has failed or made its pod again")
    for name in JOBS.keys() - FAILED.keys():
        assert not _failed(client.get("Job", name)), name


@pytest.mark.real
async def test_what_one_preemption_costs_a_job(cluster: Cluster, tmp_path: Path) -> None:
    await asyncio.to_thread(grant_manifest, cluster.client)
    await asyncio.to_thread(cluster.nodes, len(JOBS))
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100)
    seats = SeatSettings(record_namespace=cluster.namespace)
    settings = replace(Settings(), seats=seats)
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        await asyncio.to_thread(_play, cluster)
    finally:
        await hooks.close()
