"""``check`` as a command: from files to what is printed and the exit status."""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cli import check_command
from tests.cli.configurations import SAFE, Object, ours
from tests.packaging.manifests import MANIFESTS


def write(path: Path, *documents: Any) -> str:
    """Write YAML documents and return the path as an argument."""
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def main(*arguments: str) -> int:
    """Run the command as the program does."""
    parser = argparse.ArgumentParser()
    check_command.add_parser(parser.add_subparsers())
    return check_command.run(parser.parse_args(["check", *arguments]))


def scheduler_pod(*command: str) -> Object:
    """A kube-scheduler Pod with a container beside it."""
    return {
        "kind": "Pod",
        "spec": {
            "containers": [
                {"name": "log", "command": ["tail"], "args": ["-f", "/log"]},
                {"name": "s", "command": ["/usr/bin/kube-scheduler"], "args": list(command)},
            ]
        },
    }


def test_fine_is_zero_and_says_what_was_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("--scheduler-config", write(tmp_path / "s.yaml", SAFE)) == 0
    printed = capsys.readouterr().out
    assert "not checked: kube-scheduler's feature gates" in printed
    assert printed.endswith("0 errors, 0 warnings, 0 hints\n")


def test_errors_are_one_and_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unsafe = copy.deepcopy(SAFE)
    ours(ignorable=True, weight=1)(unsafe)
    path = write(tmp_path / "s.yaml", unsafe)
    assert main("--scheduler-config", path, "--scheduler-feature-gates", "") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"error   {path}: extenders[0].ignorable: is true")
    assert lines[1].startswith("        why:    when a call fails")
    assert lines[2].startswith("        repair: write ignorable: false")
    assert lines[3].startswith(f"warning {path}: extenders[0].weight: is 1 without a")
    assert lines[-1] == "1 error, 1 warning, 0 hints"


def test_json_has_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unsafe = copy.deepcopy(SAFE)
    ours(ignorable=True)(unsafe)
    path = write(tmp_path / "s.yaml", unsafe)
    assert main("--json", "--scheduler-config", path) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"error": 1, "warning": 0, "hint": 0}
    assert [f["rule"] for f in report["findings"]] == ["ignorable"]
    assert set(report["findings"][0]) == {
        "severity", "rule", "place", "problem", "why", "repair"
    }  # fmt: skip
    assert len(report["unchecked"]) == 1


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        (["--config=/x", "--feature-gates=GenericWorkload=false"], []),
        (["--config", "/x", "--feature-gates", "GenericWorkload=true"], ["feature-gate"]),
        (["--config=/x", "--feature-gates=A=true", "--feature-gates=AllBeta=1"], ["feature-gate"]),
        (["--leader-elect"], ["config-flag"]),
    ],
)
def test_flags_are_read_from_pods_and_templates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], rules: list[str]
) -> None:
    pod = scheduler_pod(*command)
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": pod["spec"]}}}
    for manifest in (pod, deployment):
        path = write(tmp_path / "m.yaml", {"kind": "Service"}, manifest)
        assert main("--json", "--scheduler-manifest", path) == int(bool(rules))
        report = json.loads(capsys.readouterr().out)
        assert [f["rule"] for f in report["findings"]] == rules


def test_doubtful_settings_are_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "c.yaml", {"plan": {"pdbPolicy": "prefer"}})
    assert main("--json", "--config", path) == 0
    report = json.loads(capsys.readouterr().out)
    assert [f["rule"] for f in report["findings"]] == ["pdb-policy"]


@pytest.mark.parametrize(
    ("option", "document", "expected"),
    [
        ("--scheduler-config", {"kind": "Pod"}, "0 documents of kind KubeSchedulerConfiguration"),
        ("--scheduler-config", SAFE | {"apiVersion": "v0"}, "apiVersion: 'v0'"),
        (
            "--scheduler-config",
            SAFE | {"extenders": [{"ignoreable": True}]},
            "extenders[0]: unknown key 'ignoreable'; did you mean ignorable?",
        ),
        (
            "--scheduler-config",
            SAFE | {"extenders": [{"httpTimeout": 5}]},
            "extenders[0].httpTimeout: Expected `str`, got `int`",
        ),
        (
            "--scheduler-config",
            SAFE | {"extenders": [{"tlsConfig": {"cafile": "/x"}}]},
            "extenders[0].tlsConfig: unknown key 'cafile'; did you mean caFile?",
        ),
        ("--scheduler-manifest", {"kind": "Pod", "spec": {}}, "0 containers run kube-scheduler"),
        ("--scheduler-manifest", {"kind": "Pod", "spec": 3}, "Pod: spec: Expected `object | null`"),
        (
            "--scheduler-manifest",
            scheduler_pod("--feature-gates=A"),
            "--feature-gates: 'A' is not NAME=true",
        ),
        (
            "--scheduler-manifest",
            {"kind": "Pod", "spec": {"containers": [{"command": "kube-scheduler"}]}},
            "spec.containers[0].command: Expected `array | null`, got `str`",
        ),
        ("--config", {"server": {"port": -1}}, "server.port must be 0..65535"),
    ],
)
def test_bad_input_is_two(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    document: Object,
    expected: str,
) -> None:
    path = write(tmp_path / "x.yaml", document)
    assert main(option, path) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {path}: ")
    assert expected in printed.err


def test_rights_that_nobody_gave_are_not_called_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sidecar, rights = str(MANIFESTS / "sidecar.yaml"), str(MANIFESTS / "rbac.yaml")
    missing = "the rights of the extender's account"
    for arguments, said in (([], True), (["--manifest", rights], False)):
        main("--scheduler-manifest", sidecar, *arguments)
        assert (missing in capsys.readouterr().out) is said


def test_nothing_to_check_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 2
    assert "nothing to check" in capsys.readouterr().err
