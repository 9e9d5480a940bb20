"""What the extender relies on in each release, said so narrowly that a newer one fails here first.

A further minor is pinned in releases.py; before anything else is played on it, this file tells what
it says differently: the documents of the extender protocol (exact fields, both ways), where groups
of pods are declared, and which feature gates kube-scheduler knows.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from extender.cache.unfamiliar import READ_VERSIONS, untested
from extender.check.scheduler_rules import KNOWN_GATES
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.recorder import Object, RecordingExtender, agree

pytestmark = pytest.mark.real

GROUP_FIELDS = {"1.34": set(), "1.35": {"workloadRef"}, "1.36": {"schedulingGroup"}}
"""Fields of a pod's spec that name its group; from 1.36 on as there."""


class Strict(RecordingExtender):
    """Keeps ``kept`` of the nodes; binds nothing, as its answer to bind says."""

    kept = "n1"

    def answer(self, verb: str, asked: Object) -> Any:
        if verb == "filter" and asked["Pod"]["metadata"]["name"] == "led":
            names = [name for name in asked["NodeNames"] if name == self.kept]
            return {
                "Nodes": None,
                "NodeNames": names,
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {
                    name: "held for another" for name in asked["NodeNames"] if name != self.kept
                },
                "Error": "",
            }
        if verb == "bind":
            return {"Error": "the barrier holds it"}
        return agree(verb, asked)


def test_the_questions_have_the_fields_that_are_read_and_no_others(cluster: Cluster) -> None:
    client = cluster.client
    cluster.priority_classes(low=1, high=9)
    cluster.nodes(2)
    with RecordingExtender() as extender:
        cluster.use_extender(extender.url, prioritizeVerb="prioritize", weight=1)
        client.create_all(*(make_pod(f"low-{i}", 3, priority_class="low") for i in range(2)))
        client.wait_running("low-0", "low-1")
        client.create(make_pod("high", 3, priority_class="high"))
        client.wait_running("high")
        for verb in ("filter", "prioritize"):
            for asked in extender.calls(verb):
                assert set(asked) == {"Pod", "Nodes", "NodeNames"}
                assert asked["Nodes"] is None
        (asked, *_) = extender.calls("preempt", "high")
    assert set(asked) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
    assert not asked["NodeNameToVictims"]
    assert set(asked["NodeNameToMetaVictims"]) == {"n0", "n1"}
    for victims in asked["NodeNameToMetaVictims"].values():
        assert set(victims) == {"Pods", "NumPDBViolations"}
        assert [set(pod) for pod in victims["Pods"]] == [{"UID"}]


def test_a_filter_answer_is_obeyed_and_its_reason_told(cluster: Cluster) -> None:
    client = cluster.client
    cluster.nodes(3)
    with Strict() as extender:
        cluster.use_extender(extender.url)
        client.create(make_pod("led", 1))
        (pod,) = client.wait_running("led")
        assert pod["spec"]["nodeName"] == "n1"
        client.delete("Pod", "led", grace=0)
        client.wait_gone("Pod", "led")
        extender.kept = "none of them"
        client.create(make_pod("led", 1))

        def told() -> str:
            conditions = client.get("Pod", "led")["status"].get("conditions", ())
            return next((c.get("message", "") for c in conditions if c["status"] == "False"), "")

        assert "3 held for another" in client.wait_for(told, what="the refusal")


def test_a_bind_question_has_the_fields_that_are_read(cluster: Cluster) -> None:
    cluster.nodes(1)
    with Strict() as extender:
        cluster.use_extender(extender.url, bindVerb="bind")
        made = cluster.client.create(make_pod("a", 1))
        cluster.client.wait_for(lambda: extender.calls("bind"), what="bind")
        (asked, *_) = extender.calls("bind")
    assert asked == {
        "PodName": "a",
        "PodNamespace": cluster.namespace,
        "PodUID": made["metadata"]["uid"],
        "Node": "n0",
    }


def test_groups_are_declared_where_they_are_read(cluster: Cluster) -> None:
    release, client = cluster.release, cluster.client
    served = {
        each["version"]
        for each in client.request("GET", "/apis/scheduling.k8s.io")["versions"]
        if each["version"] != "v1"
    }
    assert served == ({release.group_api.rpartition("/")[2]} if release.group_api else set())
    assert served <= READ_VERSIONS
    kinds = {
        each["name"]
        for version in served
        for each in client.request("GET", f"/apis/scheduling.k8s.io/{version}")["resources"]
    }
    assert ("podgroups" in kinds) is release.pod_groups
    schemas = client.request("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    fields = schemas["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    expected = GROUP_FIELDS.get(release.minor, GROUP_FIELDS["1.36"])
    suspects = {each for each in fields if "roup" in each or "orkload" in each}
    assert suspects == expected, "a pod names its group by a field that is not read"
    assert untested(release.version) == ""


def test_the_gates_that_check_knows(cluster: Cluster) -> None:
    """Those of kube-scheduler's own gang scheduling; any other than these would go unnoticed."""
    program = cluster.control_plane.processes["kube-scheduler"].command[0]
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    here = tuple(int(part) for part in cluster.release.minor.split("."))
    for gate, (first, last) in KNOWN_GATES.items():
        expected = first <= here and (last is None or here <= last)
        assert (f"kube:{gate}=" in known) is expected, gate
