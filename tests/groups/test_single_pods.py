"""Pods of Deployments, StatefulSets and DaemonSets are no gang, whatever is written on them."""

from __future__ import annotations

from typing import Any

import pytest

from extender.groups.resolver import Resolver
from extender.settings.settings import GroupSettings
from tests.groups.owner_gangs import made

RESOLVER = Resolver(GroupSettings())
REPLICAS: dict[str, dict[str, str]] = {
    "ReplicaSet": {"app": "web", "pod-template-hash": "5d8f7c6b9"},
    "StatefulSet": {
        "app": "web",
        "controller-revision-hash": "web-5d8f7c6b9",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    },
    "DaemonSet": {
        "app": "web",
        "controller-revision-hash": "5d8f7c6b9",
        "pod-template-generation": "1",
    },
}
"""Owner -> labels of its pods, as the controllers of Kubernetes 1.37 write them."""


def replica(kind: str, **annotations: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    return {
        "labels": REPLICAS[kind],
        "annotations": annotations,
        "ownerReferences": [owner],
        "generateName": "web-",
    }


@pytest.mark.parametrize("kind", REPLICAS)
def test_they_are_single(kind: str) -> None:
    assert RESOLVER.member_key(made("web-0", replica(kind))) is None


@pytest.mark.parametrize("kind", REPLICAS)
@pytest.mark.parametrize("size", ["1", "4"])
def test_the_size_of_a_gang_makes_none_of_them(kind: str, size: str) -> None:
    meta = replica(kind, **{"podgroup-extender.io/gang-size": size})
    assert RESOLVER.member_key(made("web-0", meta)) is None


@pytest.mark.parametrize("kind", REPLICAS)
def test_the_group_that_another_scheduler_derives_for_them_makes_none(kind: str) -> None:
    """Volcano and KAI make a PodGroup for every pod that asks for them."""
    derived = {"scheduling.k8s.io/group-name": "podgroup-u", "pod-group-name": "pg-web-u"}
    assert RESOLVER.member_key(made("web-0", replica(kind, **derived))) is None


@pytest.mark.parametrize("kind", REPLICAS)
def test_a_label_on_their_template_makes_a_gang_of_them(kind: str) -> None:
    meta = replica(kind)
    meta["labels"] = {**meta["labels"], "scheduling.x-k8s.io/pod-group": "web"}
    key = RESOLVER.member_key(made("web-0", meta))
    assert key is not None
    assert key.dialect == "scheduling-plugins"
