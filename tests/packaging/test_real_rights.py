"""rbac.yaml holds exactly the rights that the extender uses, as a real API server audits them."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.gang.controller.records import documents_of
from extender.gang.core.record import Record
from extender.gang.plan.scale_up import REQUEST
from extender.gang.status.group_conditions import TYPE
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat
from extender.sandbox.ports import Ports
from extender.settings.settings import Settings
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import make_pdb, make_pod
from tests.controlplane.processes import Process
from tests.packaging.manifests import NAMESPACE, pick, read, rules
from tests.scenarios.volumes import bound_claim

pytestmark = pytest.mark.real

Right = tuple[str, str, str]

MEMBERS = 4

RARE = {
    ("get", "", "pods"),
    *((verb, "scheduling.k8s.io", "compositepodgroups") for verb in ("list", "watch")),
}
"""Used only when an eviction's answer is unclear (the pod is read back), and where the API server
has the gate CompositePodGroup: tests/scenarios/test_composites_on_a_real_control_plane.py."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A watch is recorded when it is answered, not when it ends.
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [EXTENDER_USER]}, {"level": "None"}],
}

COSCHEDULING_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        # The API server wants a reason for every CRD of a *.k8s.io group.
        "annotations": {"api-approved.kubernetes.io": "unapproved, test only"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def audited(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """A control plane of the same version that records every request of the extender."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path / 'audit.jsonl'}"]
    with ControlPlane(control_plane.version, tmp_path / "kube", apiserver_flags=flags) as plane:
        yield Cluster(plane, plane.client("work"), "work")


@pytest.fixture
def ports() -> Iterator[Ports]:
    """Loopback ports."""
    reserved = Ports()
    yield reserved
    reserved.close()


def install(cluster: Cluster) -> None:
    """The namespace and rbac.yaml, bound to the test bed's extender user."""
    client = cluster.client
    client.create(pick("namespace.yaml", "Namespace"))
    for document in read("rbac.yaml"):
        for subject in document.get("subjects", []):
            if subject["kind"] == "User":
                subject["name"] = EXTENDER_USER
        client.create(document)


def start_extender(cluster: Cluster, port: int, directory: Path) -> Process:
    """The real ``serve``, with LIST before WATCH so that both rights are used."""
    config = directory / "config.yaml"
    config.write_text(
        f"server: {{port: {port}}}\ncache: {{watchList: false}}\n"
        f"seats: {{recordNamespace: {NAMESPACE}}}\n"
        "leadership: {enabled: true}\n"
        "status: {seconds: 1}\n"
    )
    command = [sys.executable, "-m", "extender.app.main", "serve", f"--config={config}"]
    process = Process(
        "extender",
        [*command, f"--kubeconfig={cluster.control_plane.extender_kubeconfig}"],
        directory / "extender.log",
    )
    process.wait_ready(lambda: answers(f"http://127.0.0.1:{port}/readyz"), 120)
    return process


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def audit(path: Path) -> tuple[set[Right], list[dict[str, Any]]]:
    """The rights that were used, and the records of refused requests."""
    used: set[Right] = set()
    refused: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        target = record.get("objectRef")
        if target is None or "resource" not in target:
            continue  # Discovery, which every authenticated user may read.
        name = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        if record.get("responseStatus", {}).get("code") == 403:
            refused.append(record)
        used.add((record["verb"], target.get("apiGroup", ""), name))
    return used, refused


def said(group: dict[str, Any]) -> str:
    """What the PodGroup's condition of ours has as reason."""
    conditions = group.get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == TYPE), "")


def whole_status(client: Client) -> dict[str, Any] | None:
    """What the status ConfigMap says once both gangs' doings are in it."""
    found = client.get_or_none("ConfigMap", Settings().status.name, NAMESPACE)
    status = yaml.safe_load(found["data"]["status"]) if found else {}
    if not status or not status["evictionsLastHour"]["byResult"]:
        return None
    assert status["leader"]["identity"]
    assert status["watches"]["fresh"]
    return status if status["gangs"]["byState"].get("running") == 1 else None


def test_rights_are_those_that_are_used(audited: Cluster, ports: Ports, tmp_path: Path) -> None:
    """One gang takes the place of another, whose pods are partly under a budget. Its members share
    a claim."""
    client = audited.client
    install(audited)
    audited.make_namespace()
    client.create(COSCHEDULING_CRD)
    audited.priority_classes(low=1, high=100000)
    audited.nodes(MEMBERS, cpu=4)

    # What a life before has left is taken over and, its gang being gone, dropped.
    leftover = Record(
        id="0" * 12,
        plan=Plan(
            gang=GangKey("pod-group", "work", "gone"),
            priority=1,
            seats=(Seat(uid="gone", namespace="work", name="gone-0", node="n0"),),
            victims=(),
        ),
        made=0.0,
    )
    for document in documents_of(leftover):
        client.create(document, NAMESPACE)
    port = ports.reserve()
    extender = start_extender(audited, port, tmp_path)
    try:
        audited.use_extender(f"http://127.0.0.1:{port}")
        low, high = ([f"{gang}-{i}" for i in range(MEMBERS)] for gang in ("low", "high"))
        audited.pod_group("low", MEMBERS, disruption="all", priority_class="low")
        for name in low:
            labels = {"budget": "yes"} if name == low[0] else {}
            client.create(make_pod(name, 3, priority_class="low", pod_group="low", labels=labels))
        client.wait_running(*low)
        client.create(make_pdb("some", {"budget": "yes"}, minAvailable=0))
        client.wait_for(
            lambda: client.get("PodDisruptionBudget", "some")["status"].get("disruptionsAllowed"),
            what="budget counted",
        )
        audited.pod_group("high", MEMBERS, disruption="all", priority_class="high")
        spec = bound_claim(client, "data", "ReadWriteMany")
        for name in high:
            client.create(
                make_pod(
                    name,
                    3,
                    priority_class="high",
                    pod_group="high",
                    annotations={REQUEST: "is-not-there"},
                    spec=spec,
                )
            )
        client.wait_running(*high)
        client.wait_for(
            lambda: not client.get_or_none("ConfigMap", leftover.name, NAMESPACE),
            what="record dropped",
        )
        client.wait_for(
            lambda: client.list(
                "Event", fieldSelector="involvedObject.name=high-0,source=podgroup-extender"
            ),
            what="event on the preemptor",
        )
        client.wait_for(lambda: said(client.get("PodGroup", "high")), what="condition")
        client.wait_for(lambda: whole_status(client), what="status with what was evicted")
    finally:
        extender.stop()

    used, refused = audit(tmp_path / "audit.jsonl")
    (lease,) = (
        rule
        for rule in pick("rbac.yaml", "Role")["rules"]
        if rule["resources"] == ["leases"] and "resourceNames" in rule
    )
    assert lease["resourceNames"] == [Settings().leadership.name]
    assert refused == []
    granted = rules("rbac.yaml", "ClusterRole", "podgroup-extender") | rules(
        "rbac.yaml", "Role", "podgroup-extender"
    )
    assert used <= granted
    assert granted - used <= RARE
