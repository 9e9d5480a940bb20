"""CompositePodGroups on a real kube-apiserver and kube-scheduler 1.37, forms of them side by side.

kube-apiserver serves them with three gates and v1alpha3 only; kube-scheduler has all of these off.
Each form has four nodes of its own, of 4 CPU, and pods of 3. The PodGroups are of class low
whatever their composite is: the priority on top counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.client import ApiError, Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.fixtures import selected_versions
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import make_node, make_pod
from tests.controlplane.rights import grant_manifest

pytestmark = pytest.mark.real

Obj = dict[str, Any]

FLAGS = (
    "--feature-gates=TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
    "--runtime-config=scheduling.k8s.io/v1alpha3=true",
)
SECONDS = 120.0


@pytest.fixture
def hierarchies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A control plane of 1.37 that serves CompositePodGroups."""
    if "1.37" not in selected_versions(request.config):
        pytest.skip("CompositePodGroup is of 1.37")
    with ControlPlane("1.37", tmp_path / "kube", apiserver_flags=FLAGS) as plane:
        cluster = Cluster(plane, plane.client("work"), "work")
        cluster.make_namespace()
        yield cluster
        cluster.client.close()


def group(kind: str, name: str, cls: str, of: str, policy: Obj, *, whole: bool) -> Obj:
    """A PodGroup or a CompositePodGroup."""
    spec: Obj = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": policy,
        "disruptionMode": {"all": {}} if whole else {"single": {}},
        "priorityClassName": cls,
    }
    if of:
        spec["parentCompositePodGroupName"] = of
    version = "v1beta1" if kind == "PodGroup" else "v1alpha3"
    api = f"scheduling.k8s.io/{version}"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


class Bed:
    """Four nodes, and what is made for them."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.nodes = [f"{name}-{i}" for i in range(4)]
        for node in self.nodes:
            client.create(make_node(node, labels={"bed": name}))

    def tree(
        self, cls: str, *, least: int | None = 2, whole: bool = True, parts: bool = False
    ) -> None:
        """A composite in a basic one, with two PodGroups of two; ``parts``: these say all."""
        top = f"{self.name}-{cls}"
        policy: Obj = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
        kind = "CompositePodGroup"
        made = [
            group(kind, f"{top}-top", cls, "", {"basic": {}}, whole=False),
            group(kind, top, "low", f"{top}-top", policy, whole=whole),
        ]
        made += [
            group("PodGroup", f"{top}-{part}", "low", top, {"gang": {"minCount": 2}}, whole=parts)
            for part in "ab"
        ]
        for each in made:
            self.client.create(each)

    def members(self, cls: str) -> list[str]:
        return [f"{self.name}-{cls}-{part}-{i}" for part in "ab" for i in range(2)]

    def pods(self, cls: str, *, bound: bool = False) -> list[str]:
        """The four pods of the tree of a class."""
        names = self.members(cls)
        self.client.create_all(
            *(
                self._pod(name, cls, name[:-2], self.nodes[at] if bound else None)
                for at, name in enumerate(names)
            )
        )
        return names

    def single(self, cls: str) -> str:
        name = f"{self.name}-single-{cls}"
        self.client.create(self._pod(name, cls, None, None))
        return name

    def _pod(self, name: str, cls: str, of: str | None, node: str | None) -> Obj:
        chosen = {"nodeSelector": {"bed": self.name}}
        return make_pod(name, cpu=3, priority_class=cls, pod_group=of, node=node, spec=chosen)

    def refused(self, *names: str) -> None:
        """Wait until kube-scheduler has tried these pods; none of them has a node."""
        self.client.wait_for(lambda: self._tried(names), SECONDS, f"{self.name}: refused")

    def _tried(self, names: tuple[str, ...]) -> bool:
        pods = [self.client.get("Pod", name) for name in names]
        assert not any(pod["spec"].get("nodeName") for pod in pods), names
        conditions = [pod["status"].get("conditions", ()) for pod in pods]
        return all(
            any(each["type"] == "PodScheduled" and each["status"] == "False" for each in found)
            for found in conditions
        )

    def stay(self, names: list[str]) -> None:
        pods = [self.client.get("Pod", name) for name in names]
        assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods), names

    def gone(self, names: list[str]) -> None:
        for name in names:
            self.client.wait_gone("Pod", name)


def whole(bed: Bed) -> None:
    """Starts whole in place of another, nothing in part; goes whole, not for its peer."""
    low, last = bed.members("low"), bed.nodes[-1]
    bed.client.patch("Node", last, {"spec": {"unschedulable": True}})
    high = bed.pods("high")
    bed.refused(*high)
    bed.stay(low)
    bed.client.patch("Node", last, {"spec": {"unschedulable": False}})
    bed.client.wait_running(*high, timeout=SECONDS)
    assert [bed.client.get_or_none("Pod", name) for name in low] == [None] * 4
    bed.refused(bed.single("high"))
    bed.stay(high)
    bed.client.wait_running(bed.single("top"), timeout=SECONDS)
    bed.gone(high)


def parts(bed: Bed) -> None:
    """The composite says single and its groups all: one group goes, the other stays."""
    low = bed.members("low")
    bed.client.wait_running(bed.single("high"), timeout=SECONDS)
    there = [bed.client.get_or_none("Pod", name) is not None for name in low]
    assert there in ([True, True, False, False], [False, False, True, True]), there


def basic(bed: Bed) -> None:
    """A basic composite that says all: a group starts by itself, everybody goes together."""
    low = bed.members("low")
    bed.client.wait_running(bed.single("high"), timeout=SECONDS)
    bed.gone(low)
    for node in bed.nodes:
        if bed.client.get("Pod", f"{bed.name}-single-high")["spec"]["nodeName"] != node:
            closed = node
            break
    bed.client.patch("Node", closed, {"spec": {"unschedulable": True}})
    high = bed.pods("high")
    bed.client.wait_for(lambda: sum(map(bed_runs(bed), high)) == 2, SECONDS, "one group runs")
    runs = [bed_runs(bed)(name) for name in high]
    assert runs in ([True, True, False, False], [False, False, True, True]), runs


def bed_runs(bed: Bed) -> Any:
    """Whether a pod has a node."""
    return lambda name: bool(bed.client.get("Pod", name)["spec"].get("nodeName"))


def cycle(bed: Bed) -> None:
    """Two composites above each other: the API server takes them, and nobody starts or goes."""
    low = bed.members("low")
    high = bed.pods("high")
    bed.refused(*high)
    bed.stay(low)
    event = "is above itself"
    bed.client.wait_for(
        lambda: any(event in each.get("note", "") for each in events(bed.client, high[0])),
        SECONDS,
        "why is told",
    )
    bed.stay(low)


def events(client: Client, pod: str) -> list[Obj]:
    """Events about a pod, of both API groups, as of events.k8s.io."""
    found = client.list("events.k8s.io/v1/Event")
    return [each for each in found if each.get("regarding", {}).get("name") == pod]


PLAYS = {"whole": whole, "parts": parts, "basic": basic, "cycle": cycle}


def prepare(client: Client) -> dict[str, Bed]:
    """Every bed with its trees, and the low one on its nodes."""
    beds = {name: Bed(client, name) for name in PLAYS}
    for name, bed in beds.items():
        least = None if name == "basic" else 2
        bed.tree("low", least=least, whole=name != "parts", parts=name == "parts")
        if name != "cycle":
            bed.tree("high", least=least)
        bed.pods("low", bound=True)
    for at, above in ((1, 2), (2, 1)):
        made = group("CompositePodGroup", f"c{at}", "high", f"c{above}", {"basic": {}}, whole=True)
        client.create(made)
    for part in "ab":
        name = f"cycle-high-{part}"
        client.create(group("PodGroup", name, "high", "c1", {"gang": {"minCount": 2}}, whole=True))
    return beds


async def test_forms_of_composites(hierarchies: Cluster, tmp_path: Path) -> None:
    cluster, client = hierarchies, hierarchies.client
    await asyncio.to_thread(grant_manifest, client)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100, top=1000)
    beds = await asyncio.to_thread(prepare, client)
    for bed in beds.values():
        await asyncio.to_thread(client.wait_running, *bed.members("low"), timeout=SECONDS)
    settings = replace(Settings(), seats=SeatSettings(record_namespace=cluster.namespace))
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        results = await asyncio.gather(
            *(asyncio.to_thread(play, beds[name]) for name, play in PLAYS.items()),
            return_exceptions=True,
        )
        failed = [
            f"{name}: {type(result).__name__}: {result}"
            for name, result in zip(PLAYS, results, strict=True)
            if isinstance(result, BaseException)
        ]
        assert not failed, "\n".join(failed)
    finally:
        await hooks.close()


def test_it_is_not_served_without_its_gates(cluster: Cluster) -> None:
    """As the releases are set up elsewhere: the kind is not there, its name is dropped from a
    PodGroup of 1.37."""
    with pytest.raises(ApiError, match="404"):
        cluster.client.request("GET", "/apis/scheduling.k8s.io/v1alpha3")
    if cluster.release.minor == "1.37":
        made = group("PodGroup", "g", "", "root", {"gang": {"minCount": 2}}, whole=True)
        del made["spec"]["priorityClassName"]
        assert "parentCompositePodGroupName" not in cluster.client.create(made)["spec"]
