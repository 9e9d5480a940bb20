"""Gangs of other systems on a real kube-scheduler, all side by side in one cluster.

Each system has four nodes of its own. Its pods are those of tests/groups/recorded.py without
their owners, which no controller here has made (the garbage collector would take such pods); its
objects are of kinds without a schema. With each:

1. A low gang of four runs; a high one is made, and one of the four nodes is closed: for seconds
   nobody is evicted, nobody bound. The node opens: all of the high one run, none of the low one is
   left.
2. A pod of equal priority changes nothing. A more urgent single pod: all four of the gang go. Where
   the gang's size is stated, one of its pods has succeeded before, and its node is closed: the
   other three are one gang still, and all three go.

Gangs with parts need three pods only, and the first must be one of them: it may sit on that one
node alone, so that any three others would have room before it opens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.custom_groups import CustomGroup
from extender.settings.settings import GroupSettings, SeatSettings, Settings
from tests.controlplane import crds
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_node, make_pod
from tests.controlplane.rights import grant_manifest
from tests.controlplane.watching import Watch
from tests.groups import owners, recorded

Obj = dict[str, Any]
Meta = Callable[[int, int, str], Obj]

CUSTOM = CustomGroup(name="ours", annotation="x.example/run", size_annotation="x.example/pods")
SECONDS = 120.0
NAMESPACE = "NAMESPACE"
"""Stands for that of the test, in annotations."""
WITH_ONE_DONE = {*recorded.STATED, *recorded.OBJECTS, "custom", "scheduling-plugins"} - {
    "leader-worker-set",
    "leader-worker-set-kueue",
}
"""Those that state a size, but LeaderWorkerSets, whose pods do not end."""
WATCHED = 5.0
"""Seconds in which nothing must happen after a refusal: kube-scheduler and the extender's own
loop have tried everybody again by then."""


def _custom(i: int, size: int, gang: str) -> Obj:
    return {"annotations": {"x.example/run": gang, "x.example/pods": str(size)}}


def _jobset(i: int, size: int, gang: str) -> Obj:
    return owners.jobset_pod(i, "w", gang, index=i)


def _gang_group(i: int, size: int, gang: str) -> Obj:
    """Koordinator's: two gangs of two that start at once."""
    groups = f'["{NAMESPACE}/{gang}-a","{NAMESPACE}/{gang}-b"]'
    pod = recorded.koordinator(i, 2, f"{gang}-{'ab'[i % 2]}")
    pod["annotations"]["gang.scheduling.koordinator.sh/groups"] = groups
    return pod


SYSTEMS: dict[str, Meta] = {
    **recorded.EVERY,
    "koordinator-groups": _gang_group,
    "train-job": owners.train_job,
    **recorded.PARTS,
    "custom": _custom,
    "skypilot": recorded.skypilot,
    "jobset": _jobset,
    "scheduling-plugins": recorded.coscheduling,
}


def _objects(system: str, gang: str) -> list[Obj]:
    """What tells the size of a gang of four, where the pods do not."""
    if system in recorded.OBJECTS:
        return [recorded.group_document(system, 4, gang)]
    if system in recorded.PARTS:
        return [recorded.parts_document(system, 4, gang)]
    if system == "scheduling-plugins":
        made = recorded.group_document("volcano", 4, gang)
        return [{**made, "apiVersion": "scheduling.x-k8s.io/v1alpha1"}]
    if system in ("jobset", "train-job"):
        part = "w" if system == "jobset" else "node"
        return [owners.jobset(owners.replicated(part, each=4), name=gang)]
    if system == "ray-cluster":
        spec = {"workerGroupSpecs": [{"groupName": "small-group", "replicas": 3}]}
        return [owners.document("ray-cluster", gang, spec)]
    if system == "training-operator":
        replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
        return [owners.document("pytorchjob", gang, {"pytorchReplicaSpecs": replicas})]
    return []


class Play:
    """One system's part."""

    def __init__(self, client: Client, watch: Watch, system: str) -> None:
        self._client = client
        self._watch = watch
        self._system = system
        self._short = system.replace("-", "")
        self._nodes = [f"{self._short}-{i}" for i in range(4)]

    def prepare(self) -> None:
        """Its nodes, with the low gang on them, and what explains its gangs."""
        for name in self._nodes:
            self._client.create(make_node(name, labels={"bed": self._short}))
        for cls in ("low", "high"):
            for made in _objects(self._system, self._gang(cls)):
                meta = {"name": made["metadata"]["name"]}
                self._client.create({**made, "metadata": meta})
        self._client.create_all(*self._members("low", bound=True))

    def run(self) -> None:
        """Both steps."""
        client, last = self._client, self._nodes[-1]
        low, high = self._names("low"), self._names("high")
        client.wait_running(*low, timeout=SECONDS)
        client.patch("Node", last, {"spec": {"unschedulable": True}})
        client.create_all(*self._members("high"))
        client.wait_for(lambda: self._refused(high), SECONDS, f"{self._system}: refused")
        self._stays(low, waiting=high)
        client.patch("Node", last, {"spec": {"unschedulable": False}})
        client.wait_running(*high, timeout=SECONDS)
        assert [client.get_or_none("Pod", name) for name in low] == [None] * 4, self._system
        peer = f"{self._short}-high"
        client.create(self._single("high"))
        client.wait_for(lambda: self._refused([peer]), SECONDS, f"{self._system}: its peer")
        self._stays(high, waiting=[peer])
        if self._system in WITH_ONE_DONE:
            self._succeed(high.pop())
        client.create(self._single("top"))
        client.wait_running(f"{self._short}-top", timeout=SECONDS)
        for name in high:
            client.wait_gone("Pod", name)

    def _succeed(self, name: str) -> None:
        """One is done; nobody comes to its node."""
        node = self._client.get("Pod", name)["spec"]["nodeName"]
        self._client.patch("Node", node, {"spec": {"unschedulable": True}})
        self._client.patch("Pod", name, {"status": {"phase": "Succeeded"}}, subresource="status")

    def _gang(self, cls: str) -> str:
        return f"{cls}{self._short}-0"

    def _names(self, cls: str) -> list[str]:
        return [f"{self._gang(cls)}-{i}" for i in range(4)]

    def _members(self, cls: str, *, bound: bool = False) -> list[Obj]:
        """Four pods of 3 CPU for nodes of 4."""
        pods = []
        for i, name in enumerate(self._names(cls)):
            meta = SYSTEMS[self._system](i, 4, self._gang(cls))
            found = meta.get("annotations", {}).items()
            annotations = {k: v.replace(NAMESPACE, self._client.namespace) for k, v in found}
            chosen = {"bed": self._short}
            if self._system in recorded.PARTS and not i and not bound:
                chosen["kubernetes.io/hostname"] = self._nodes[-1]
            pods.append(
                make_pod(
                    name,
                    cpu=3,
                    priority_class=cls,
                    labels=meta.get("labels"),
                    annotations=annotations,
                    node=self._nodes[i] if bound else None,
                    spec={"nodeSelector": chosen},
                )
            )
        return pods

    def _single(self, cls: str) -> Obj:
        chosen = {"nodeSelector": {"bed": self._short}}
        return make_pod(f"{self._short}-{cls}", cpu=3, priority_class=cls, spec=chosen)

    def _refused(self, names: list[str]) -> bool:
        pods = [self._client.get("Pod", name) for name in names]
        assert not any(pod["spec"].get("nodeName") for pod in pods), self._system
        return all(
            any(
                condition["type"] == "PodScheduled" and condition["status"] == "False"
                for condition in pod["status"].get("conditions", ())
            )
            for pod in pods
        )

    def _stays(self, here: list[str], *, waiting: list[str]) -> None:
        """For some seconds nobody of ``here`` is deleted, and nobody of ``waiting`` bound."""
        time.sleep(WATCHED)
        gone = set(self._watch.deleting().values()) & {*here, *waiting}
        bound = {
            event.name for event in self._watch.events if event.object["spec"].get("nodeName")
        } & set(waiting)
        assert not gone, f"{self._system}: {gone} went"
        assert not bound, f"{self._system}: {bound} got a node"


@pytest.mark.real
async def test_gangs_of_other_systems(cluster: Cluster, tmp_path: Path) -> None:
    client = cluster.client
    await asyncio.to_thread(grant_manifest, client, others=True)
    await asyncio.to_thread(crds.install, client)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100, top=1000)
    groups = GroupSettings(
        custom=(CUSTOM,), unit={"scheduling-plugins": "all", "scheduling-plugins-label": "all"}
    )
    seats = SeatSettings(record_namespace=cluster.namespace)
    settings = replace(Settings(), seats=seats, groups=groups)
    watch = await asyncio.to_thread(cluster.watch)
    plays = [Play(client, watch, system) for system in SYSTEMS]
    for play in plays:
        await asyncio.to_thread(play.prepare)
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        failed: list[str] = []
        for system, result in zip(
            SYSTEMS,
            await asyncio.gather(
                *(asyncio.to_thread(play.run) for play in plays), return_exceptions=True
            ),
            strict=True,
        ):
            if isinstance(result, BaseException):
                failed.append(f"{system}: {type(result).__name__}: {result}")
        assert not failed, "\n".join(failed)
    finally:
        await hooks.close()
