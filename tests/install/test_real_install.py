"""The chart on a real API server: installed, changed, rolled back, removed, installed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.cluster import Cluster
from tests.install.charts import CHART, MODES, Helm, Object

RELEASE = "podgroup-extender"

NAMESPACED = (
    *("ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"),
    *("PodDisruptionBudget", "ResourceQuota", "Lease", "Deployment", "Pod"),
)

SIGNED: dict[str, Object] = {
    "second-scheduler": {"recordKey": {"generate": True}},
    "deployment": {"recordKey": {"generate": True}},
    "static-pod": {},
}

AT_ONCE: Object = {"podAnnotations": {"pod-delete.stage.kwok.x-k8s.io/delay": "0s"}}
"""kwok keeps grace periods, and nobody here has anything to finish."""

OPERATOR = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which no API server has by itself."""


class Site:
    """A namespace to install into, and Helm to do it with."""

    def __init__(self, cluster: Cluster, helm: Helm) -> None:
        self.cluster = cluster
        self.helm = helm
        self.namespace = cluster.namespace
        cluster.nodes(2, cpu=16, labels={"node-role.kubernetes.io/control-plane": ""})
        enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        cluster.client.patch("Namespace", self.namespace, enforce)

    def do(self, verb: str, *words: str, values: Object | None = None) -> str:
        """One command of Helm that has to work."""
        command = [*verb.split(), RELEASE, "--namespace", self.namespace, *words]
        if verb in ("install", "upgrade"):
            command[2:2] = [str(CHART)]
            command += ["--values", "-"]
            values = {**AT_ONCE, **(values or {})}
        done = self.helm.run(*command, stdin=json.dumps(values or {}))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def there(self) -> set[str]:
        """Everything of a kind that the chart or the extender makes."""
        found = {
            f"{kind} {each['metadata']['namespace']}/{each['metadata']['name']}"
            for kind in NAMESPACED
            for space in (self.namespace, "kube-system")
            for each in self.cluster.client.list(kind, space)
            # kube-system has leases and pods of its own that come and go.
            if space == self.namespace or kind == "RoleBinding"
        }
        return found | {
            f"{kind} {each['metadata']['name']}"
            for kind in ("ClusterRole", "ClusterRoleBinding")
            for each in self.cluster.client.list(kind, "")
        }

    def get(self, kind: str, name: str) -> Object:
        """One object of the release."""
        return self.cluster.client.get(kind, name, self.namespace)

    def key(self) -> str:
        """The key that signs records."""
        return str(self.get("Secret", "podgroup-extender-records")["data"]["key"])


@pytest.fixture
def site(cluster: Cluster, helm_program: Path, tmp_path: Path) -> Iterator[Site]:
    made = Site(cluster, Helm(helm_program, tmp_path, cluster.control_plane.kubeconfig))
    yield made
    # Also after a failure: the next test finds cluster roles without an owner otherwise.
    made.helm.run("uninstall", RELEASE, "--namespace", made.namespace, "--ignore-not-found")


@pytest.mark.parametrize("mode", MODES)
def test_every_object_is_accepted_strictly(site: Site, mode: str) -> None:
    values: Object = {
        "mode": mode,
        "namespace": {"create": False},
        "rbac": {"otherGroups": True},
        "bindBarrier": {"enabled": mode != "deployment"},
        "monitoring": {"dashboard": {"enabled": True}},
        "grpc": {"listen": "unix:/run/podgroup-extender/grpc.sock"},
        **SIGNED[mode],
    }
    client = site.cluster.client
    done = site.helm.template(values, "--namespace", site.namespace)
    assert done.returncode == 0, done.stderr
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": RELEASE}}
    client.create(account)  # Pods are refused without theirs.
    for document in rendered(done.stdout):
        kinds = f"{document['apiVersion']}/{document['kind']}"
        if document["metadata"]["name"] == RELEASE and document["kind"] == "ServiceAccount":
            continue
        template = document.get("spec", {}).get("template")
        tried = [(kinds, document)]
        if template:
            pod = {"apiVersion": "v1", "kind": "Pod", **template}
            named = {**template["metadata"], "name": "x", "namespace": site.namespace}
            tried.append(("v1/Pod", {**pod, "metadata": named}))
        for kind, each in tried:
            path = client.resource(kind).path(each["metadata"].get("namespace") or "")
            client.request("POST", path, each, dryRun="All", fieldValidation="Strict")


def rendered(text: str) -> list[Object]:
    """Objects that an API server without the Prometheus operator knows."""
    found = [each for each in yaml.safe_load_all(text) if each]
    return [each for each in found if each["kind"] not in OPERATOR]


@pytest.mark.parametrize("mode", MODES)
def test_install_upgrade_rollback_uninstall(site: Site, mode: str) -> None:
    before = site.there()
    site.do("install", values={"mode": mode, **SIGNED[mode]})
    first = site.there()
    runs = mode != "static-pod"
    name = "podgroup-extender" if mode == "deployment" else "podgroup-scheduler"
    if runs:
        running(site, 2)
        key = site.key()
        assert len(key) > 40
    # What the extender makes by itself, as it would be found amid a plan.
    record: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
    site.cluster.client.create({**record, "metadata": {"name": "podgroup-extender-plan-1"}})
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": RELEASE}}
    site.cluster.client.create(lease)

    change: Object = {"replicas": 3, "config": {"plan": {"seconds": 2}}}
    site.do("upgrade", "--reuse-values", values=change)
    assert first < site.there() | pods(first)
    if runs:
        running(site, 3)
        assert site.key() == key
        deployment = site.get("Deployment", name)
        assert deployment["spec"]["replicas"] == 3
        assert int(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]) == 2
    if mode == "deployment":
        address = site.get("Service", RELEASE)["spec"]["clusterIP"]
        # Its second rendering knows what the cluster has chosen.
        assert f"https://{address}:8888" in site.do("get manifest")
    site.do("rollback", "1")
    if runs:
        running(site, 2)
        assert site.key() == key

    site.do("uninstall", "--wait")
    site.cluster.client.wait_for(lambda: not site.cluster.client.list("Pod", site.namespace))
    kept = {
        f"ConfigMap {site.namespace}/podgroup-extender-plan-1",
        f"Lease {site.namespace}/{RELEASE}",
    }
    if runs:
        kept.add(f"Secret {site.namespace}/podgroup-extender-records")
    assert site.there() - before == kept

    site.do("install", values={"mode": mode, **SIGNED[mode]})
    assert site.there() >= first - pods(first)
    if runs:
        assert site.key() == key


def pods(things: set[str]) -> set[str]:
    """Those with names that change."""
    return {
        each for each in things if each.startswith(("Pod ", "Secret ")) and "sh.helm" not in each
    }


def running(site: Site, count: int) -> None:
    """Wait until as many pods run; the namespace refuses any that is not locked down."""
    selector = "app.kubernetes.io/name=podgroup-extender"

    def enough() -> bool:
        found = site.cluster.client.list("Pod", site.namespace, labelSelector=selector)
        return len(found) == count and all(p["status"]["phase"] == "Running" for p in found)

    site.cluster.client.wait_for(enough, what=f"{count} pods")


def test_rights_come_and_go_with_their_values(site: Site) -> None:
    site.do("install")
    roles = {"ClusterRole podgroup-extender-bind", "ClusterRole podgroup-extender-other-groups"}
    assert not roles & site.there()
    values: Object = {"bindBarrier": {"enabled": True}, "rbac": {"otherGroups": True}}
    site.do("upgrade", values=values)
    assert roles <= site.there()
    site.do("upgrade", "--reset-values")
    assert not roles & site.there()


def test_another_mode_leaves_nothing_of_the_one_before(site: Site) -> None:
    site.do("install")
    site.do("upgrade", "--wait", values={"mode": "static-pod"})
    site.cluster.client.wait_for(lambda: not site.cluster.client.list("Pod", site.namespace))
    names = {each.rpartition("/")[2] for each in site.there() if site.namespace in each}
    assert "podgroup-extender-host-files" in names
    assert not names & {"podgroup-scheduler", "podgroup-extender-config"}


def test_a_second_release_is_refused(site: Site) -> None:
    """Its names are taken: two extenders would promise the same room twice."""
    site.do("install")
    words = ("install", "another", str(CHART), "--namespace", site.namespace)
    done = site.helm.run(*words)
    assert done.returncode != 0
    assert "invalid ownership metadata" in done.stderr


def test_helm_takes_over_what_manifests_made(site: Site) -> None:
    empty = site.there()
    done = site.helm.template(AT_ONCE, "--namespace", site.namespace, "--skip-tests")
    for document in rendered(done.stdout):
        site.cluster.client.create(document, document["metadata"].get("namespace", ""))
    before = site.get("Deployment", "podgroup-scheduler")["metadata"]["uid"]
    site.do("install", "--take-ownership")
    assert site.get("Deployment", "podgroup-scheduler")["metadata"]["uid"] == before
    site.do("uninstall", "--wait")
    assert {each for each in site.there() - empty if not each.startswith("Pod ")} == set()


def test_the_releases_test_runs_as_a_pod(site: Site) -> None:
    """kubelet's part is played: the pod's end is written. test_chart.py runs what is in it."""
    site.do("install")
    client = site.cluster.client
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(site.do, "test", "--timeout", "60s")
        pod = "podgroup-extender-check"

        def runs() -> bool:
            found = client.get_or_none("Pod", pod, site.namespace)
            return found is not None and found["status"]["phase"] == "Running"

        client.wait_for(runs, what="the check's pod")
        client.patch("Pod", pod, {"status": {"phase": "Succeeded"}}, subresource="status")
        assert "Succeeded" in asked.result(timeout=90)
