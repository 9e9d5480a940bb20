"""Indexed Jobs, Deployments and StatefulSets, made by Kubernetes' own controllers: the first as
gangs that go whole, and start whole where that is configured; the others as single pods.

Four nodes have room for one pod each, and each owner makes four. Other systems' pods are in
test_systems_on_a_real_control_plane.py; these have owners that have to exist.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.groups.indexed_job import INDEX
from extender.groups.scheduling_plugins_label import MIN_LABEL, NAME_LABEL
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import GroupSettings, SeatSettings, Settings
from tests.clients.jobset_objects import removed, uids
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.objects import make_job, make_pod
from tests.controlplane.rights import grant_manifest
from tests.controlplane.watching import Watch

Obj = dict[str, Any]
JOB = "batch.kubernetes.io/job-name"
KINDS = ("Job", "Deployment", "StatefulSet")
"""Each has four nodes of its own: job0 to job3, and so on."""
SECONDS = 120.0
WATCHED = 5.0
"""Seconds in which nothing must happen after a refusal."""


def _in(kind: str) -> Obj:
    return {"nodeSelector": {"bed": kind}}


class Play:
    """The four nodes, and who comes."""

    def __init__(self, cluster: Cluster, watch: Watch) -> None:
        self.client = cluster.client
        self.cluster = cluster
        self._watch = watch

    def job(self, name: str) -> None:
        """Make a Job of four of the priority class of its name; lost pods come back after 10 s."""
        pod = make_pod(name, cpu=3, priority_class=name, spec=_in("Job"))
        self.client.create(make_job(name, 4, pod, backoff_per_index=True))

    def single(self, name: str, cls: str, cpu: int = 3) -> None:
        """Make a pod of no gang."""
        self.client.create(make_pod(name, cpu=cpu, priority_class=cls, spec=_in("Job")))

    def of(self, job: str) -> list[Obj]:
        """Its pods that do not go."""
        pods = self.client.list("Pod", labelSelector=f"{JOB}={job}")
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    def running(self, job: str) -> list[Obj]:
        """Its four pods, when all run."""

        def found() -> list[Obj]:
            pods = [pod for pod in self.of(job) if pod["status"].get("phase") == "Running"]
            return pods if len(pods) == 4 else []

        return self.client.wait_for(found, SECONDS, f"all of {job} runs")

    def refused(self, found: Callable[[], list[Obj]], count: int) -> list[Obj]:
        """So many pods, each tried in vain."""

        def tried(pod: Obj) -> bool:
            found = pod["status"].get("conditions", ())
            return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in found)

        def waiting() -> list[Obj]:
            pods = [pod for pod in found() if tried(pod)]
            return pods if len(pods) == count else []

        return self.client.wait_for(waiting, SECONDS, f"{count} pods are refused")

    def nothing_happens(self, here: list[Obj], waiting: list[Obj]) -> None:
        """Nobody of ``here`` goes, and nobody of ``waiting`` gets a node, for some seconds."""
        time.sleep(WATCHED)
        gone = self._watch.deleting().keys() & (uids(here) | uids(waiting))
        bound = {e.uid for e in self._watch.events if e.object["spec"].get("nodeName")}
        assert not gone
        assert not bound & uids(waiting)

    def went(self, pods: list[Obj]) -> None:
        """All of these were removed, by the extender, and are gone."""
        for pod in pods:
            self.client.wait_gone("Pod", pod["metadata"]["name"], timeout=SECONDS)
        who = removed(self.cluster)
        assert [who.get(pod["metadata"]["name"]) for pod in pods] == [EXTENDER_USER] * len(pods)

    def get(self, name: str) -> list[Obj]:
        """One pod by its name."""
        return [self.client.get("Pod", name)]


@asynccontextmanager
async def playing(
    cluster: Cluster, groups: GroupSettings, base: Path, *, others: bool = True
) -> AsyncIterator[Play]:
    client = cluster.client
    await asyncio.to_thread(grant_manifest, client, others=others)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100, top=1000)
    for kind in KINDS:
        await asyncio.to_thread(cluster.nodes, 4, prefix=kind.lower(), labels={"bed": kind})
    seats = SeatSettings(record_namespace=cluster.namespace)
    settings = replace(Settings(), seats=seats, groups=groups)
    hooks = ExtenderProcess(base, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        yield Play(cluster, await asyncio.to_thread(cluster.watch))
        hooks.check()
    finally:
        await hooks.close()


def _four_go_or_none(play: Play) -> None:
    play.job("low")
    low = play.running("low")
    play.single("peer", "low")
    play.single("huge", "top", cpu=5)
    waiting = [
        *play.refused(lambda: play.get("peer"), 1),
        *play.refused(lambda: play.get("huge"), 1),
    ]
    play.nothing_happens(low, waiting)
    play.single("urgent", "high")
    play.client.wait_running("urgent", timeout=SECONDS)
    play.went(low)


def _nothing_in_part(play: Play) -> None:
    play.job("low")
    low = play.running("low")
    play.client.patch("Node", "job3", {"spec": {"unschedulable": True}})
    play.job("high")
    waiting = play.refused(lambda: play.of("high"), 4)
    play.nothing_happens(low, waiting)
    play.client.patch("Node", "job3", {"spec": {"unschedulable": False}})
    high = play.running("high")
    assert uids(high) == uids(waiting)
    play.went(low)
    # Four go for one, and made again they do not run in part on the three nodes that are left.
    play.single("urgent", "top")
    play.client.wait_running("urgent", timeout=SECONDS)
    play.went(high)
    play.nothing_happens([], play.refused(lambda: play.of("high"), 4))


def _replicas(kind: str, cls: str) -> Obj:
    """Four replicas for the nodes of this kind, all made at once."""
    name = f"{kind.lower()}-{cls}"
    labels = {"app": name}
    pod = make_pod(name, cpu=3, priority_class=cls, spec=_in(kind))
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec: Obj = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"podManagementPolicy": "Parallel", "serviceName": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _one_by_one(play: Play, kind: str) -> None:
    client, last = play.client, f"{kind.lower()}3"
    names = {cls: f"{kind.lower()}-{cls}" for cls in ("low", "high")}

    def running(cls: str, count: int) -> list[Obj]:
        def found() -> list[Obj]:
            pods = client.list("Pod", labelSelector=f"app={names[cls]}")
            pods = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            pods = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            return pods if len(pods) == count else []

        return client.wait_for(found, SECONDS, f"{count} of {names[cls]} run")

    client.create(_replicas(kind, "low"))
    low = running("low", 4)
    client.patch("Node", last, {"spec": {"unschedulable": True}})
    client.create(_replicas(kind, "high"))
    high = running("high", 3)
    (left,) = running("low", 1)
    assert left["spec"]["nodeName"] == last
    assert uids([left]) < uids(low)
    client.create(make_pod(f"{kind.lower()}-top", cpu=3, priority_class="top", spec=_in(kind)))
    client.wait_running(f"{kind.lower()}-top", timeout=SECONDS)
    stay = running("high", 2)
    time.sleep(WATCHED)
    assert uids(running("high", 2)) == uids(stay) < uids(high)
    assert uids(running("low", 1)) == uids([left])


def _no_wait_for_what_is_done(play: Play) -> None:
    """A gang of two whose Job has completed index 0, and that pod was deleted after. A pod of low
    priority takes the node of the other one, which is lost; nodes are job0 and job1."""
    client = play.client
    for name in ("job2", "job3"):
        client.patch("Node", name, {"spec": {"unschedulable": True}})
    labels = {NAME_LABEL: "train", MIN_LABEL: "2"}
    pod = make_pod("train", cpu=3, priority_class="high", labels=labels, spec=_in("Job"))
    client.create(make_job("train", 2, pod, backoff_per_index=True))

    def run() -> list[Obj]:
        pods = [pod for pod in play.of("train") if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == 2 else []

    by_index = {
        each["metadata"]["annotations"][INDEX]: each
        for each in client.wait_for(run, SECONDS, "both run")
    }
    done, lost = (by_index[index]["metadata"]["name"] for index in ("0", "1"))
    client.patch("Pod", done, {"status": {"phase": "Succeeded"}}, subresource="status")
    client.wait_for(
        lambda: client.get("Job", "train")["status"].get("succeeded") == 1, SECONDS, "it is counted"
    )
    client.delete("Pod", done)
    client.wait_gone("Pod", done, timeout=SECONDS)
    play.single("low-0", "low")
    client.wait_running("low-0", timeout=SECONDS)
    play.single("low-1", "low")
    client.delete("Pod", lost)
    client.wait_running("low-1", timeout=SECONDS)

    def again() -> list[Obj]:
        pods = play.of("train")
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    (back,) = client.wait_for(again, SECONDS, "index 1 runs again")
    assert back["metadata"]["annotations"][INDEX] == "1"
    gone = removed(play.cluster)
    assert [name for name in ("low-0", "low-1") if gone.get(name) == EXTENDER_USER] != []
    assert len(client.list("Pod", labelSelector=f"{JOB}=train")) == 1


@pytest.mark.real
async def test_the_replacement_of_a_lost_member_waits_for_none_that_is_done(
    cluster: Cluster, tmp_path: Path
) -> None:
    """With the rights and settings that are the default: f8 of issue 34."""
    async with playing(cluster, GroupSettings(), tmp_path, others=False) as play:
        await asyncio.to_thread(_no_wait_for_what_is_done, play)


@pytest.mark.real
async def test_an_indexed_job_goes_whole_and_replicas_one_by_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with playing(cluster, GroupSettings(), tmp_path) as play:
        await asyncio.gather(
            asyncio.to_thread(_four_go_or_none, play),
            asyncio.to_thread(_one_by_one, play, "Deployment"),
            asyncio.to_thread(_one_by_one, play, "StatefulSet"),
        )


@pytest.mark.real
async def test_an_indexed_job_that_starts_whole_does_not_start_in_part(
    cluster: Cluster, tmp_path: Path
) -> None:
    groups = GroupSettings(starts_whole={"indexed-job": True})
    async with playing(cluster, groups, tmp_path) as play:
        await asyncio.to_thread(_nothing_in_part, play)
