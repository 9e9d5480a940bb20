"""``check`` on replicas: each rule fires where it should and nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from extender.check.documents import Document
from extender.check.replica_rules import replica_findings
from extender.gang.leader_election.lease import LABEL
from extender.settings.settings import LeadershipSettings, Settings

OFF = Settings()
ON = Settings(leadership=LeadershipSettings(enabled=True, label_pod=True))


def container(path: str = "/readyz/caches") -> dict[str, Any]:
    probe = {"httpGet": {"path": path, "port": 8888}}
    return {"name": "extender", "startupProbe": probe, "readinessProbe": probe}


def deployment(replicas: int | None, strategy: str | None, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"spec": {"containers": [container(**more)]}}}
    if replicas is not None:
        spec["replicas"] = replicas
    if strategy is not None:
        spec["strategy"] = {"type": strategy}
    return {"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def service(*labels: str) -> dict[str, Any]:
    selector = {"app": "x", **dict.fromkeys(labels, "true")}
    return {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": selector}}


POD = {
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"initContainers": [container()], "containers": [{"name": "kube-scheduler"}]},
}


def found(value: dict[str, Any], settings: Settings) -> list[str]:
    return [each.rule for each in replica_findings([Document("f", value)], settings)]


@pytest.mark.parametrize(
    ("value", "settings", "rules"),
    [
        (deployment(1, "Recreate"), OFF, []),
        (deployment(None, "Recreate"), OFF, []),
        (deployment(2, "Recreate"), OFF, ["two-planners"]),
        (deployment(1, None), OFF, ["two-planners"]),
        (deployment(1, "RollingUpdate"), OFF, ["two-planners"]),
        (deployment(2, None), ON, []),
        (deployment(1, "Recreate", path="/readyz"), OFF, []),
        (deployment(2, None, path="/readyz"), ON, ["standby-not-ready"] * 2),
        (POD, OFF, ["static-pods"]),
        (POD, ON, []),
        (service(), OFF, []),
        (service(LABEL), ON, []),
        (service(), ON, ["service-standby"]),
        (
            service(LABEL),
            Settings(leadership=LeadershipSettings(enabled=True)),
            ["no-leader-label"],
        ),
        (
            deployment(2, None),
            Settings(leadership=LeadershipSettings(enabled=True, identity="a")),
            ["shared-identity"],
        ),
    ],
)
def test_rules(value: dict[str, Any], settings: Settings, rules: list[str]) -> None:
    assert found(value, settings) == rules


def test_other_programs_are_none_of_our_business() -> None:
    other = copy.deepcopy(deployment(3, None))
    other["spec"]["template"]["spec"]["containers"][0]["name"] = "web"
    assert found(other, OFF) == []
    assert found({"kind": "Deployment", "spec": None}, OFF) == []
