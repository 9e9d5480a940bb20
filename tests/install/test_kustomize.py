"""``kubectl apply -k manifests/`` and ``helm install`` give the same objects."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install.charts import Helm, Object
from tests.packaging.manifests import MANIFESTS
from tools.manifests import COMMON, SECOND, kube_version

Key = tuple[str, str, str]
GENERATED = "podgroup-scheduler-config"


def by_key(text: str) -> dict[Key, Object]:
    """The objects of a stream, without what names a content: (kind, namespace, name) -> object."""
    # kustomize writes the content's hash behind the name, wherever the name is used.
    text = re.sub(rf"\b{GENERATED}-[a-z0-9]{{10}}\b", GENERATED, text)
    objects = [each for each in yaml.safe_load_all(text) if each]
    for each in objects:
        if each["kind"] == "ConfigMap":
            # Files, as they are read: one of them says in a comment where it comes from.
            each["data"] = {name: yaml.safe_load(file) for name, file in each["data"].items()}
    return {_key(each): each for each in objects}


def _key(each: Object) -> Key:
    metadata = each["metadata"]
    return each["kind"], metadata.get("namespace", ""), metadata["name"]


def built(kubectl: Path, directory: Path) -> dict[Key, Object]:
    """What kustomize makes of a directory."""
    done = subprocess.run(
        [str(kubectl), "kustomize", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def rendered(helm: Helm) -> dict[Key, Object]:
    """What Helm applies of the chart with the values that the manifests are rendered with."""
    words = [word for item in {**COMMON, **SECOND}.items() for word in ("--set", "=".join(item))]
    # Without the test of the release, which is no part of an installation.
    done = helm.template({}, *words, "--kube-version", kube_version(), "--skip-tests")
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


def test_kustomize_gives_what_helm_gives(kubectl: Path, helm: Helm) -> None:
    ours, theirs = built(kubectl, MANIFESTS), rendered(helm)
    assert ours.keys() == theirs.keys()
    different = {
        key: (json.dumps(ours[key], sort_keys=True), json.dumps(theirs[key], sort_keys=True))
        for key in ours
        if ours[key] != theirs[key]
    }
    assert not different


def test_a_difference_is_noticed(kubectl: Path, helm: Helm, tmp_path: Path) -> None:
    """The comparison looks into the objects: one right more is one difference."""
    for path in MANIFESTS.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    rights = tmp_path / "rbac.yaml"
    rights.write_text(rights.read_text().replace("verbs: [get", "verbs: [deletecollection, get", 1))
    ours: dict[Key, Any] = built(kubectl, tmp_path)
    theirs = rendered(helm)
    assert [key[0] for key in ours if ours[key] != theirs[key]] == ["ClusterRole"]
