"""JobSets whose pods come in parts, as preemptors: nobody goes for the first part alone.

With JobSet's own controller, which makes the next part once the one before runs. Four low pods, a
gang of their own, fill the nodes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from extender.sandbox.process import ExtenderProcess
from tests.clients.jobset_controller import JobSetController
from tests.clients.jobset_objects import jobset, pods_of, removed, replicated, running, uids
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.objects import make_node

Obj = dict[str, Any]
SECONDS = 120.0
QUIET_SECONDS = 8.0
"""For what must not happen."""
RACK = "example.com/rack"


def _fill(cluster: Cluster) -> set[str]:
    """Let the low JobSet run on all nodes; return the UIDs of its pods.

    No Job of it fails, so that nobody else removes its pods.
    """
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    job = {"podFailurePolicy": {"rules": [ignored]}}
    cluster.client.create(jobset("low", replicated("w", 1, 4, "low", job=job)))
    cluster.client.wait_for(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs")
    return uids(running(cluster, "low"))


def _nobody_goes(cluster: Cluster, low: set[str], pods: int) -> None:
    """The first pods of the urgent JobSet wait, and low runs on."""
    cluster.client.wait_for(
        lambda: len(pods_of(cluster, "urgent")) == pods, SECONDS, "the first part is there"
    )
    time.sleep(QUIET_SECONDS)
    assert len(pods_of(cluster, "urgent")) == pods
    assert running(cluster, "urgent") == []
    assert uids(running(cluster, "low")) == low
    assert removed(cluster) == {}


def _all_run(cluster: Cluster, pods: int) -> None:
    """The urgent JobSet runs whole, and all of low has gone for it."""
    cluster.client.wait_for(
        lambda: len(running(cluster, "urgent")) == pods, SECONDS, "all of urgent runs"
    )
    _low_has_gone(cluster)


def _low_has_gone(cluster: Cluster) -> None:
    who = removed(cluster)
    assert all(name.startswith("low-") for name in who)
    assert list(who.values()) == [EXTENDER_USER] * 4
    assert running(cluster, "low") == []


def _in_parts(kind: str, workers: int) -> Obj:
    """A leader, and workers that are made once it runs."""
    after: Obj = {"dependsOn": [{"name": "leader", "status": "Ready"}]}
    order: Obj = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    after, spec = (after, {}) if kind == "dependsOn" else ({}, order)
    leader = replicated("leader", 1, 1, "high")
    return jobset("urgent", leader, replicated("workers", 1, workers, "high", **after), **spec)


@pytest.mark.parametrize("kind", ["InOrder", "dependsOn"])
async def test_nobody_goes_for_a_leader_whose_workers_have_no_room(
    kind: str, jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    def play() -> None:
        low = _fill(cluster)
        cluster.client.create(_in_parts(kind, workers=4))
        _nobody_goes(cluster, low, 1)
        cluster.client.create(make_node("one-more"))
        _all_run(cluster, 5)

    await asyncio.to_thread(play)
    informed.check()


async def test_a_leader_and_its_workers_take_the_room_of_the_low_ones(
    jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    def play() -> None:
        _fill(cluster)
        cluster.client.create(_in_parts("InOrder", workers=3))
        _all_run(cluster, 4)

    await asyncio.to_thread(play)
    informed.check()


async def test_without_the_right_to_read_jobsets_a_leader_counts_as_the_whole(
    jobsets: JobSetController, extender: ExtenderProcess, cluster: Cluster
) -> None:
    """What that right is for: all go for one pod, whose workers have no room."""

    def play() -> None:
        _fill(cluster)
        cluster.client.create(_in_parts("InOrder", workers=4))
        wait = cluster.client.wait_for
        wait(lambda: len(pods_of(cluster, "urgent")) == 5, SECONDS, "the workers are made")
        time.sleep(QUIET_SECONDS)
        assert len(running(cluster, "urgent")) == 1
        _low_has_gone(cluster)

    await asyncio.to_thread(play)
    extender.check()


def _racks(cluster: Cluster, **racks: str) -> None:
    """Put nodes into racks."""
    for node, rack in racks.items():
        cluster.client.patch("Node", node, {"metadata": {"labels": {RACK: rack}}}, "")


def _exclusive(pods: int) -> Obj:
    """Two Jobs, each with a rack of its own; of each the first pod comes first."""
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    return jobset("urgent", replicated("w", 2, pods, "high"), annotations=annotations)


def _pods_by_rack(cluster: Cluster) -> dict[str, list[str]]:
    """Rack -> Jobs of the urgent pods that run there."""
    found: dict[str, list[str]] = {}
    for pod in running(cluster, "urgent"):
        node = cluster.client.get("Node", pod["spec"]["nodeName"], "")
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        found.setdefault(node["metadata"]["labels"][RACK], []).append(job)
    return found


async def test_nobody_goes_for_the_first_pods_of_exclusive_jobs_without_room_for_the_rest(
    jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    def play() -> None:
        _racks(cluster, n0="a", n1="a", n2="b", n3="b")
        low = _fill(cluster)
        cluster.client.create(_exclusive(3))
        _nobody_goes(cluster, low, 2)
        for rack in ("a", "b"):
            cluster.client.create(make_node(f"one-more-{rack}", labels={RACK: rack}))
        _all_run(cluster, 6)
        racks = _pods_by_rack(cluster)
        assert racks.keys() == {"a", "b"}
        assert all(len(jobs) == 3 and len(set(jobs)) == 1 for jobs in racks.values())

    await asyncio.to_thread(play)
    informed.check()


async def test_nobody_goes_for_exclusive_jobs_of_which_one_has_too_small_a_rack(
    jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    """There is room for four pods, but not for two in each rack."""

    def play() -> None:
        _racks(cluster, n0="a", n1="a", n2="a", n3="b")
        low = _fill(cluster)
        cluster.client.create(_exclusive(2))
        _nobody_goes(cluster, low, 2)

    await asyncio.to_thread(play)


def _of_job(cluster: Cluster, number: int) -> list[Obj]:
    """The pods of one Job of the urgent JobSet that run."""
    return [
        pod
        for pod in running(cluster, "urgent")
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == f"urgent-w-{number}"
    ]


async def test_an_exclusive_job_that_lost_its_pods_gets_a_rack_and_the_other_runs_on(
    jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    """Its first pod comes alone again, and the webhook lets the others follow; low ones want the
    room as well."""

    def play() -> None:
        wait = cluster.client.wait_for
        _racks(cluster, n0="a", n1="a", n2="b", n3="b")
        cluster.client.create(_exclusive(2))
        wait(lambda: len(running(cluster, "urgent")) == 4, SECONDS, "all of urgent runs")
        stays, lost = uids(_of_job(cluster, 0)), uids(_of_job(cluster, 1))
        cluster.client.create(jobset("low", replicated("w", 1, 2, "low")))
        wait(lambda: len(pods_of(cluster, "low")) == 2, SECONDS, "low waits")
        for pod in _of_job(cluster, 1):
            cluster.client.delete("Pod", pod["metadata"]["name"], grace=0)

        def anew() -> bool:
            now = uids(_of_job(cluster, 1))
            return len(now) == 2 and not now & lost

        wait(anew, SECONDS, "its pods are made anew and run")
        assert uids(_of_job(cluster, 0)) == stays
        racks = _pods_by_rack(cluster)
        assert racks.keys() == {"a", "b"}
        assert all(len(jobs) == 2 and len(set(jobs)) == 1 for jobs in racks.values())

    await asyncio.to_thread(play)
    informed.check()
