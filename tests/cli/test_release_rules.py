"""``check``: feature gates that the kube-scheduler of a manifest's image does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.test_check import main, scheduler_pod

OFF = "--feature-gates=GenericWorkload=false"


@pytest.mark.parametrize(
    ("image", "gates", "unknown"),
    [
        ("registry.k8s.io/kube-scheduler:v1.34.4", OFF, ["GenericWorkload"]),
        ("registry.k8s.io/kube-scheduler:v1.33.9-eks-1", OFF, ["GenericWorkload"]),
        ("kube-scheduler:1.34.4", f"{OFF},GangScheduling=0", ["GenericWorkload", "GangScheduling"]),
        ("r.example:5000/kube-scheduler:v1.35.4", f"{OFF},GangScheduling=false", []),
        (
            "r/kube-scheduler:v1.35.4",
            f"{OFF},WorkloadAwarePreemption=0",
            ["WorkloadAwarePreemption"],
        ),
        ("r/kube-scheduler:v1.36.3", f"{OFF},WorkloadAwarePreemption=0", []),
        ("r/kube-scheduler:v1.37.0", OFF, []),
        ("r/kube-scheduler:v1.37.0", f"{OFF},GangScheduling=false", ["GangScheduling"]),
        ("r/kube-scheduler:v1.34.4", "--feature-gates=Other=true", []),
        ("r/kube-scheduler:v1.34.4@sha256:" + "0" * 64, OFF, ["GenericWorkload"]),
        # Nothing is known of these.
        ("r/kube-scheduler@sha256:" + "0" * 64, OFF, []),
        ("r.example:1/kube-scheduler", OFF, []),
        ("r/kube-scheduler:latest", OFF, []),
        ("", OFF, []),
    ],
)
def test_a_gate_that_the_release_does_not_know_is_an_error(
    image: str,
    gates: str,
    unknown: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pod = scheduler_pod("--config=/x", gates)
    if image:
        pod["spec"]["containers"][1]["image"] = image
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(pod))
    assert main("--json", "--scheduler-manifest", str(path)) == int(bool(unknown))
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["rule"] for each in found] == ["gate-unknown"] * len(unknown)
    assert [each["place"].rsplit(" ", 1)[1] for each in found] == unknown
    for each in found:
        assert "refuses to start" in each["why"]
