"""The chart with ``config.mode: observe``: nothing that stands beside kube-scheduler changes it.

See docs/observe.md. What the program itself cannot do there is tested in tests/observe.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install.charts import DIGEST, MODES, Helm, findings, host_file, lay_out, named

OBSERVE: dict[str, Any] = {
    "config": {"mode": "observe"},
    "image": {"digest": DIGEST},
    "scheduler": {"image": {"digest": DIGEST}},
    "networkPolicy": {"schedulerCIDRs": ["10.0.0.0/28"], "apiServerCIDRs": ["10.0.0.0/28"]},
}
READS = {"get", "list", "watch"}


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize("mode", MODES)
def test_check_has_only_hints(helm: Helm, mode: str, tmp_path: Path) -> None:
    objects = helm.objects({**OBSERVE, "mode": mode})
    found = {f.rule for f in findings(objects, mode, tmp_path) if f.severity != "hint"}
    assert found == set()


@pytest.mark.parametrize("mode", MODES)
def test_kube_scheduler_goes_on_without_an_answer(helm: Helm, mode: str, tmp_path: Path) -> None:
    lay_out(helm.objects({**OBSERVE, "mode": mode}), mode, tmp_path)
    configuration = yaml.safe_load((tmp_path / "kube-scheduler-config.yaml").read_text())
    assert [entry["ignorable"] for entry in configuration["extenders"]] in ([True], [True, True])


@pytest.mark.parametrize("mode", MODES)
def test_the_extenders_own_rights_only_read(helm: Helm, mode: str) -> None:
    """kube-scheduler's, in the same pod, are its own."""
    objects = helm.objects({**OBSERVE, "mode": mode, "rbac": {"otherGroups": True}})
    roles = [e for e in objects if e["kind"] in ("Role", "ClusterRole") and "rules" in e]
    granted = {
        verb
        for role in roles
        if role["metadata"]["name"].startswith("podgroup-extender")
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert granted <= READS
    bound = {e["roleRef"]["name"] for e in objects if e["kind"].endswith("Binding")}
    assert "system:auth-delegator" not in bound


def test_the_service_leads_to_who_observes(helm: Helm) -> None:
    """Nobody leads there, so nobody wears the leader's label: the Service would lead nowhere."""
    objects = helm.objects({**OBSERVE, "mode": "deployment"})
    selector = named(objects, "Service", "podgroup-extender")["spec"]["selector"]
    pod = named(objects, "Deployment", "podgroup-extender")["spec"]["template"]["metadata"]
    assert selector.items() <= pod["labels"].items()


@pytest.mark.parametrize(
    ("mode", "name"),
    [("second-scheduler", "podgroup-scheduler"), ("deployment", "podgroup-extender")],
)
def test_one_counts_and_keeps_what_it_has_counted(helm: Helm, mode: str, name: str) -> None:
    objects = helm.objects({**OBSERVE, "mode": mode, "replicas": 3})
    spec = named(objects, "Deployment", name)["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    (extender,) = [each for each in containers if each["name"] == "extender"]
    mounts = {each["name"]: each["mountPath"] for each in extender["volumeMounts"]}
    kept = yaml.safe_load(
        named(objects, "ConfigMap", "podgroup-extender-config")["data"]["config.yaml"]
    )
    assert kept["observe"]["file"] == f"{mounts['observed']}/observe.json"
    assert {"name": "observed", "emptyDir": {"sizeLimit": "256Mi"}} in pod["volumes"]
    budget = named(objects, "PodDisruptionBudget", name)["spec"]
    assert "minAvailable" not in budget


def test_a_static_pod_keeps_it_too(helm: Helm) -> None:
    objects = helm.objects({**OBSERVE, "mode": "static-pod"})
    pod = yaml.safe_load(host_file(objects, "kube-scheduler.yaml"))["spec"]
    (extender,) = pod["initContainers"]
    assert {"name": "observed", "mountPath": "/var/lib/podgroup-extender"} in extender[
        "volumeMounts"
    ]
    assert {"name": "observed", "emptyDir": {"sizeLimit": "256Mi"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bindBarrier": {"enabled": True}}, "bindBarrier.enabled: a binding is a write"),
        ({"grpc": {"listen": "unix:/run/podgroup-extender/g.sock"}}, "grpc.listen: observe mode"),
    ],
)
def test_what_would_write_is_refused(helm: Helm, more: dict[str, Any], said: str) -> None:
    done = helm.template({**OBSERVE, **more})
    assert done.returncode != 0
    assert said in done.stderr
