"""The manifests agree with each other, with ``check``, and with what the tests run."""

from __future__ import annotations

import argparse
import json
import tomllib
from typing import Any

import pytest
import yaml

from extender.check import config
from extender.check.documents import Document
from extender.check.rights_rules import (
    CLUSTER_RIGHTS,
    OPTIONAL_RIGHTS,
    OWN_RIGHTS,
    GrantedRights,
    rights_findings,
)
from extender.cli import check_command
from tests.cli.installations import WAYS
from tests.controlplane.releases import RELEASES
from tests.controlplane.scheduler import EXTENDER
from tests.packaging.manifests import (
    MANIFESTS,
    NAMESPACE,
    ROOT,
    names,
    pick,
    pod_specs,
    read,
    rules,
)

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEWEST = list(RELEASES.values())[-1]


@pytest.mark.parametrize("way", WAYS)
def test_documented_command_lets_the_files_pass(
    way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is found in them is in tests/cli/test_check_unsafe.py."""
    parser = argparse.ArgumentParser()
    check_command.add_parser(parser.add_subparsers())
    words = [str(MANIFESTS / word) if word.endswith(".yaml") else word for word in WAYS[way].words]
    assert check_command.run(parser.parse_args(["check", "--json", *words])) == 0
    assert json.loads(capsys.readouterr().out)["unchecked"] == []


@pytest.mark.parametrize(
    "name", ["kube-scheduler-config.yaml", "static-pod/kube-scheduler-config.yaml"]
)
def test_documented_entry_is_the_one_that_tests_use(name: str) -> None:
    (document,) = read(name)
    (entry,) = document["extenders"]
    assert {key: value for key, value in entry.items() if key != "urlPrefix"} == EXTENDER
    assert "percentageOfNodesToScore" not in document


def test_kustomization_has_every_file_and_generates_what_is_mounted() -> None:
    (kustomization,) = read("kustomization.yaml")
    assert all((MANIFESTS / name).is_file() for name in kustomization["resources"])
    (generator,) = kustomization["configMapGenerator"]
    assert all((MANIFESTS / name).is_file() for name in generator["files"])
    spec = pick("sidecar.yaml", "Deployment")["spec"]["template"]["spec"]
    configmaps = {v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v}
    assert configmaps == {
        generator["name"],
        pick("extender-config.yaml", "ConfigMap")["metadata"]["name"],
    }
    (scheduler,) = spec["containers"]
    assert f"--config=/etc/kubernetes/scheduler/{generator['files'][0]}" in scheduler["command"]


def test_everything_lies_in_its_own_namespace() -> None:
    elsewhere = {
        (name, each["kind"], each["metadata"]["namespace"])
        for name in names()
        for each in read(name)
        if each["metadata"].get("namespace", NAMESPACE) != NAMESPACE
    }
    assert elsewhere == {
        ("sidecar.yaml", "RoleBinding", "kube-system"),
        ("static-pod/kube-scheduler.yaml", "Pod", "kube-system"),
    }


def test_plan_records_go_where_the_role_allows_them() -> None:
    role = pick("rbac.yaml", "Role")
    static = config.load(MANIFESTS / "static-pod" / "extender-config.yaml")
    assert static.seats.record_namespace == role["metadata"]["namespace"] == NAMESPACE
    for name in ("extender-config.yaml", "deployment.yaml"):
        # In a pod the service account's namespace is taken.
        assert config.load(MANIFESTS / name).seats.record_namespace == ""


def test_our_own_pods_are_never_victims() -> None:
    for name in ("extender-config.yaml", "deployment.yaml", "static-pod/extender-config.yaml"):
        assert NAMESPACE in config.load(MANIFESTS / name).plan.protected_namespaces


def test_no_pod_needs_the_scheduler_that_needs_it() -> None:
    second = pick("sidecar.yaml", "Deployment")["spec"]["template"]["spec"]
    (document,) = read("kube-scheduler-config.yaml")
    served = {profile["schedulerName"] for profile in document["profiles"]}
    assert second["schedulerName"] == "default-scheduler"
    assert second["schedulerName"] not in served
    (split,) = read("kube-scheduler-config-split.yaml")
    assert [entry["ignorable"] for entry in split["extenders"] if "filterVerb" in entry] == [True]
    assert [entry["ignorable"] for entry in split["extenders"] if "preemptVerb" in entry] == [False]


@pytest.mark.parametrize(("name", "spec"), list(pod_specs()))
def test_extender_container_is_locked_down(name: str, spec: dict[str, Any]) -> None:
    containers = spec.get("initContainers", []) + spec["containers"]
    (extender,) = [each for each in containers if each["name"] == "extender"]
    merged = {**spec.get("securityContext", {}), **extender["securityContext"]}
    assert merged["runAsNonRoot"] is True
    assert merged["runAsUser"] == merged["runAsGroup"] == 65532
    assert merged["seccompProfile"] == {"type": "RuntimeDefault"}
    assert merged["allowPrivilegeEscalation"] is False
    assert merged["readOnlyRootFilesystem"] is True
    assert merged["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(extender)
    assert extender["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert set(extender["resources"]) == {"requests", "limits"}
    assert spec["priorityClassName"].startswith("system-")


@pytest.mark.parametrize(("kind", "used"), [("ClusterRole", CLUSTER_RIGHTS), ("Role", OWN_RIGHTS)])
def test_rights_are_those_that_check_knows(kind: str, used: GrantedRights) -> None:
    """And what check knows is what a real API server has seen used: test_real_rights.py."""
    granted = rules("rbac.yaml", kind, "podgroup-extender")
    assert granted == {
        (verb, group, resource) for (group, resource), verbs in used.items() for verb in verbs
    }


def test_optional_rights_are_those_that_check_knows() -> None:
    name = "podgroup-extender-other-groups"
    assert rules("rbac-other-groups.yaml", "ClusterRole", name) == {
        (verb, group, resource)
        for (group, resource), verbs in OPTIONAL_RIGHTS.items()
        for verb in verbs
    }
    files = ("sidecar.yaml", "rbac.yaml", "rbac-other-groups.yaml")
    documents = [Document(file, each) for file in files for each in read(file)]
    assert not list(rights_findings(documents))


@pytest.mark.parametrize("way", ["sidecar.yaml", "deployment.yaml", "observe/deployment.yaml"])
def test_optional_rights_are_for_whoever_was_installed(way: str) -> None:
    """docs/migrate.md: the one that observes reads the sizes of Volcano's gangs."""
    account = pick(way, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    subjects = pick("rbac-other-groups.yaml", "ClusterRoleBinding")["subjects"]
    assert {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE} in subjects


def test_namespace_denies_by_default() -> None:
    policy = pick("namespace.yaml", "NetworkPolicy")
    assert policy["metadata"]["namespace"] == NAMESPACE
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("name", ["sidecar.yaml", "deployment.yaml"])
def test_tokens_are_mounted_where_they_are_used(name: str) -> None:
    spec = pick(name, "Deployment")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert pick("rbac.yaml", "ServiceAccount")["automountServiceAccountToken"] is False
    (volume,) = [each for each in spec["volumes"] if each["name"] == "token"]
    sources = {key: value for each in volume["projected"]["sources"] for key, value in each.items()}
    # The three files that a client in a pod looks for.
    files = [sources["serviceAccountToken"]["path"]]
    files += [
        each["path"] for kind in ("configMap", "downwardAPI") for each in sources[kind]["items"]
    ]
    assert sorted(files) == ["ca.crt", "namespace", "token"]
    assert 600 <= sources["serviceAccountToken"]["expirationSeconds"] <= 3600
    for container in spec.get("initContainers", []) + spec["containers"]:
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "token"]
        assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
        assert mount["readOnly"] is True


def test_images_are_the_versions_of_this_release() -> None:
    wanted = {
        f"podgroup-extender:{PROJECT['version']}",
        f"registry.k8s.io/kube-scheduler:{NEWEST.version}",
    }
    used = {
        each["image"]
        for _, spec in pod_specs()
        for each in spec.get("initContainers", []) + spec["containers"]
    }
    assert used == wanted
    (kustomization,) = read("kustomization.yaml")
    tags = {
        f"{image.get('newName', image['name'])}:{image['newTag']}"
        for image in kustomization["images"]
    }
    assert tags == wanted


@pytest.mark.parametrize("minor", list(RELEASES))
def test_examples_are_the_reference_scenario(minor: str) -> None:
    release = RELEASES[minor]
    text = (MANIFESTS / "examples" / f"jobset-{minor}.yaml").read_text()
    for gate in release.apiserver_gates:
        assert f"{gate}=true" in text
    assert f"--runtime-config={release.runtime_config}" in text
    values = {each["metadata"]["name"]: each["value"] for each in read("priority-classes.yaml")}
    assert values == {"low": 1, "high": 100000}
    documents = list(yaml.safe_load_all(text))
    for name in values:
        mine = [
            each
            for each in documents
            if each["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name
        ]
        (group,) = [each for each in mine if each["kind"] == "PodGroup"]
        jobs = [each["spec"] for each in mine if each["kind"] == "Job"]
        assert group["apiVersion"] == release.group_api
        assert group["spec"]["disruptionMode"] == release.disruption_all
        assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 4
        assert [job["completions"] for job in jobs] == [2, 2]
        for job in jobs:
            pod = job["template"]["spec"]
            assert pod["schedulingGroup"] == {"podGroupName": name}
            assert pod["priorityClassName"] == group["spec"]["priorityClassName"] == name
            assert pod["terminationGracePeriodSeconds"] == 0
            assert pod["containers"][0]["resources"]["requests"] == {"cpu": "3"}
