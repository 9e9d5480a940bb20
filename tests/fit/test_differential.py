"""The same pods, the same nodes: our filters and those of the real kube-scheduler.

An extender that refuses every node is asked by kube-scheduler with exactly the
nodes that its own filters accept. Nothing is ever bound, so the state stays as
it was made and each pod is one case.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from extender.decode.from_json import decode_namespace, decode_node, decode_pod
from extender.fit.view import ClusterView
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.recorder import RecordingExtender
from tests.controlplane.scheduler import scheduler_config
from tests.fit.worlds import RUNTIME_CLASS, Maker, Object, World

pytestmark = pytest.mark.real
pytest_plugins = ["tests.controlplane.fixtures"]

SEEDS = range(1, 13)
PLUGINS = {
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
}
SPACES = {"fit-red": {"team": "a"}, "fit-blue": {"team": "b"}, "fit-bare": {}}
RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": RUNTIME_CLASS},
    "handler": "none",
    "overhead": {"podFixed": {"cpu": "350m", "memory": "100Mi"}},
}


class Refusing(RecordingExtender):
    """Refuses every node for good, so that no pod is bound and no victim is looked for."""

    def answer(self, verb: str, asked: Object) -> Any:
        assert verb == "filter"
        names = asked["NodeNames"]
        return {"NodeNames": [], "FailedAndUnresolvableNodes": dict.fromkeys(names, "recorded")}


def test_feasible_nodes_are_those_of_kube_scheduler(cluster: Cluster) -> None:
    client = cluster.client
    prepare(client)
    reasons: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    wrong: list[str] = []
    try:
        for seed in SEEDS:
            world = Maker(seed, sorted(SPACES)).world()
            cluster.control_plane.stop_scheduler()
            create(client, world)
            snapshot = read(client)
            with Refusing() as extender:
                cluster.use_scheduler(
                    scheduler_config(extender.url, prioritizeVerb=None, preemptVerb=None)
                )
                wait_tried(client, len(world.waiting))
                cluster.control_plane.stop_scheduler()
            offered = {
                each["Pod"]["metadata"]["uid"]: sorted(each["NodeNames"])
                for each in extender.calls("filter")
            }
            view = ClusterView.from_snapshot(snapshot)
            for pod in snapshot.pending.values():
                real, ours = offered.get(pod.uid, []), view.feasible_nodes(pod)
                size = "none" if not real else "all" if len(real) == len(view.nodes) else "some"
                sizes[size] += 1
                reasons.update(why(view, pod))
                if real != ours:
                    wrong.append(explain(seed, view, pod, real, world.waiting))
            clear(client)
    finally:
        clear(client)
        client.delete("RuntimeClass", RUNTIME_CLASS)
    print(f"{cluster.release.minor}: {dict(sizes)}, refusals by plugin {dict(reasons)}")
    assert not wrong, "\n" + "\n".join(wrong)
    # The worlds must ask something of every plugin, and not only yes or no for all nodes.
    assert set(reasons) == PLUGINS
    assert sizes["some"] > sum(sizes.values()) // 2


def why(view: ClusterView, pod: Pod) -> Iterable[str]:
    """The plugin behind each refusal."""
    for name in view.nodes:
        reason = view.why_not(pod, name)
        if reason is not None:
            yield reason.split(":")[0]


def explain(
    seed: int, view: ClusterView, pod: Pod, real: list[str], documents: list[Object]
) -> str:
    ours = view.feasible_nodes(pod)
    lines = [f"seed {seed}, pod {pod.key}"]
    lines += [f"  only kube-scheduler: {n}: {view.why_not(pod, n)}" for n in real if n not in ours]
    lines += [f"  only ours: {n}: {view.nodes[n]}" for n in ours if n not in real]
    spec = next(d["spec"] for d in documents if d["metadata"]["name"] == pod.name)
    return "\n".join([*lines, f"  {pod.labels} {json.dumps(spec)}"])


def prepare(client: Client) -> None:
    for name, labels in SPACES.items():
        meta = {"name": name, "labels": labels}
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    client.create(RUNTIME)
    for name in SPACES:
        client.wait_for(
            lambda name=name: client.get_or_none("ServiceAccount", "default", name),  # type: ignore[misc]
            what=f"service account in {name}",
        )


def create(client: Client, world: World) -> None:
    """Make the world, let bound pods run, then end some of them as it says."""
    client.create_all(*world.nodes, *world.bound)
    names = {each["metadata"]["name"] for each in world.nodes}

    def all_run() -> bool:
        return all(
            pod["status"]["phase"] == "Running"
            for pod in client.list("Pod", "")
            if pod["spec"]["nodeName"] in names
        )

    client.wait_for(all_run, what="bound pods to run")
    for space, name in world.terminating:
        client.delete("Pod", name, space)
    for space, name in world.finished:
        client.patch("Pod", name, {"status": {"phase": "Succeeded"}}, space, subresource="status")
    client.create_all(*world.waiting)


def read(client: Client) -> Snapshot:
    """The state as the reflector would keep it: finished pods are gone."""
    pods = [pod for each in client.list("Pod", "") if not (pod := decode_pod(each)).finished]
    bound: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node:
            bound.setdefault(pod.node, []).append(pod)
    nodes = [decode_node(each) for each in client.list("Node")]
    spaces = [decode_namespace(each) for each in client.list("Namespace")]
    return Snapshot(
        generation=1,
        nodes={node.name: node for node in nodes},
        bound={name: tuple(on) for name, on in bound.items()},
        pending={pod.uid: pod for pod in pods if not pod.node},
        namespaces={space.name: space.labels for space in spaces},
        server_version=client.request("GET", "/version")["gitVersion"],
    )


def wait_tried(client: Client, count: int) -> None:
    """Wait until kube-scheduler has decided on every waiting pod."""

    def tried() -> bool:
        pods = client.list("Pod", "", fieldSelector="spec.nodeName=")
        return len(pods) == count and all(unscheduled(pod) for pod in pods)

    def unscheduled(pod: Object) -> bool:
        conditions = pod["status"].get("conditions", ())
        return any((c["type"], c["status"]) == ("PodScheduled", "False") for c in conditions)

    client.wait_for(tried, what="every waiting pod to be tried")


def clear(client: Client) -> None:
    """Remove the world's pods and nodes."""
    for space in SPACES:
        client.delete_all("Pod", space, grace=0)
    client.delete_all("Node", "")
    client.wait_for(lambda: not client.list("Pod", ""), what="pods removed")
    client.wait_for(lambda: not client.list("Node"), what="nodes removed")
