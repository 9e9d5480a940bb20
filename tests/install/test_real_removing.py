"""The commands of docs/install.md, "Removing", run as they stand there with the real kubectl."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.packaging.manifests import NAMESPACE, ROOT

OURS, THEIRS = "podgroup-extender.io/Scheduled", "example.com/Other"
ENFORCED, SCRAPES = "podgroup-extender.io/enforce", "podgroup-extender.io/metrics"


def commands() -> list[str]:
    """The blocks of commands of that section."""
    page = (ROOT / "docs/install.md").read_text().partition("## Removing")[2].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", page, re.DOTALL)


class Shell:
    """A shell in the checkout, with the cluster's kubeconfig and our kubectl on PATH."""

    def __init__(self, folder: Path, kubectl: Path, cluster: Cluster) -> None:
        (folder / "bin").mkdir()
        (folder / "bin/kubectl").symlink_to(kubectl)
        self._environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.control_plane.kubeconfig),
        }

    def run(self, script: str) -> str:
        """Run it; every command in it has to work."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, kubectl: Path, cluster: Cluster) -> Shell:
    return Shell(tmp_path, kubectl, cluster)


def test_manifests_go_as_they_came(shell: Shell) -> None:
    (manifests, _) = commands()
    shell.run(
        "kubectl apply -k manifests/ && "
        "kubectl apply -f manifests/rbac-other-groups.yaml -f manifests/barrier/rbac.yaml"
    )
    every = "clusterroles,clusterrolebindings,namespaces"
    assert f"namespace/{NAMESPACE}\n" in shell.run(f"kubectl get {every} -o name")
    shell.run(manifests)
    left = shell.run(f"kubectl get {every} -o name").split()
    left += shell.run("kubectl -n kube-system get rolebindings -o name").split()
    # Kubernetes has a podgroup-protection-controller of its own.
    assert [e for e in left if "podgroup" in e and "/system:controller:" not in e] == []


def test_what_stays_goes_with_the_commands(shell: Shell, cluster: Cluster) -> None:
    (_, rest) = commands()
    client = cluster.client
    state = {"status": "True", "reason": "Test", "message": "", "observedGeneration": 1}
    state["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    kinds = {"plain": [], "both": [THEIRS, OURS], "ours": [OURS], "theirs": [THEIRS]}
    for name, types in kinds.items():
        cluster.pod_group(name, 1)
        conditions = [{"type": each, **state} for each in types]
        client.patch("PodGroup", name, {"status": {"conditions": conditions}}, subresource="status")
    labels = {ENFORCED: "true", SCRAPES: "true", "team": "a"}
    client.patch("Namespace", cluster.namespace, {"metadata": {"labels": labels}})
    shell.run("kubectl apply -f manifests/priority-classes.yaml")

    shell.run(rest)

    for name, types in kinds.items():
        status = client.get("PodGroup", name, cluster.namespace).get("status") or {}
        assert [c["type"] for c in status.get("conditions") or [] if c["type"] in types] == [
            each for each in types if each != OURS
        ]
    found = client.get("Namespace", cluster.namespace)["metadata"]["labels"]
    assert not {ENFORCED, SCRAPES} & set(found)
    assert found["team"] == "a"
    classes = shell.run("kubectl get priorityclasses -o name")
    assert "/low\n" not in classes
    assert "/high\n" not in classes
