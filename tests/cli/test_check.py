"""``check`` as a command: its files, its findings, the exit status."""

from __future__ import annotations

import argparse
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.check import config
from extender.check.kubescheduler import parse_gates, seconds
from extender.cli import check_command
from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
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


@pytest.mark.parametrize("text", ["A", "A=", "=true", "A=yes", "A=true=false"])
def test_malformed_gates_are_bad_input(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"g: .* is not NAME=true or NAME=false"):
        parse_gates(text, "g")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", 5.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (".5s", 0.5),
        ("-1s", -1.0),
        ("0", 0.0),
        ("", None),
        ("5", None),
        ("5 s", None),
        ("s", None),
        ("5sx", None),
    ],
)
def test_go_durations(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


def test_nothing_given_means_defaults() -> None:
    assert config.load(None) == Settings()
    assert config.parse("") == Settings()
    assert config.parse("# only a comment\n") == Settings()


def test_keys_are_camel_case_and_the_rest_keeps_its_default() -> None:
    settings = config.parse(
        "schedulerNames: [a, b]\nplan: {seconds: 1, pdbPolicy: prefer}\n"
        "groups: {unit: {jobset: single}}\n"
    )
    assert settings.scheduler_names == ("a", "b")
    assert settings.plan.seconds == 1.0
    assert settings.plan.pdb_policy == "prefer"
    assert settings.groups.unit == {"jobset": "single"}
    assert settings.server == Settings().server


def test_configmap_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "cm.yaml"
    path.write_text(
        "kind: Service\n---\nkind: ConfigMap\nmetadata: {name: c}\n"
        "data:\n  config.yaml: |\n    server: {port: 9}\n  note.txt: 'not: [yaml'\n"
    )
    assert config.load(path).server.port == 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {prot: 1}", "f: server: unknown key 'prot'; did you mean port?"),
        ("severs: {}", "f: unknown key 'severs'; did you mean server?"),
        ("zzz: 1", "f: unknown key 'zzz'; known keys: schedulerNames, server, api, cache"),
        ("server: {port: high}", "f: server.port: Expected `int`, got `str`"),
        ("server: {port: 70000}", "f: server.port must be 0..65535"),
        ("server: {port: 1.5}", "f: server.port: Expected `int`, got `float`"),
        ("plan: {pdbPolicy: maybe}", "f: plan.pdbPolicy: 'maybe' is none of prefer, respect"),
        ("mode: observ", "f: mode: 'observ' is none of enforce, observe"),
        ("groups: {unit: {jobset: x}}", "f: groups.unit[...]: 'x' is none of all, single"),
        ("plan: {seconds: .nan}", "f: plan.seconds must be a number: it is nan"),
        ("groups: {dialects: [1]}", "f: groups.dialects[0]: Expected `str`, got `int`"),
        ("groups: {dialects: [jobste]}", "f: groups.dialects: 'jobste' is no dialect"),
        ("groups: {unit: {pod-group: all}}", "f: groups.unit: pod-group groups state their own"),
        ("plan:", "f: plan: Expected `object`, got `null`"),
        ("- 1", "f: Expected `object`, got `array`"),
        ("a: 1\na: 2", "f:2:1: not valid YAML: key 'a' is given twice"),
        ("a: [1", "f:1:6: not valid YAML: expected ',' or ']'"),
        ("? [1]\n: 2", "f:1:3: not valid YAML: a list or mapping cannot be a key"),
        ("!!python/object:os.system {}", "f:1:1: not valid YAML: could not determine a constr"),
        ("server: {}\n---\nplan: {}", "f: 2 documents with settings; one is expected"),
        ("kind: Pod", "f: has no settings, only Pod"),
        ("kind: ConfigMap\ndata: [1]", "f: ConfigMap: data must be a mapping"),
        (
            "kind: ConfigMap\nmetadata: {name: c}\ndata: {a.yaml: 'server: {prot: 1}'}",
            "f (ConfigMap c, a.yaml): server: unknown key 'prot'",
        ),
    ],
)
def test_mistakes_are_named(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        config.parse(text, "f")
    assert str(problem.value).startswith(expected)


def test_unreadable_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.yaml: cannot be read: No such file"):
        config.load(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff\xfe")
    with pytest.raises(InvalidInput, match=r"binary\.yaml: not UTF-8 at byte 3"):
        config.load(binary)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (5 * 1024 * 1024))
    with pytest.raises(InvalidInput, match=r"huge\.yaml: more than 4194304 bytes"):
        config.load(huge)
    deep = tmp_path / "deep.yaml"
    deep.write_text("[" * 100_000)
    with pytest.raises(InvalidInput, match=r"deep\.yaml"):
        config.load(deep)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("leadership: {name: ../x}", "leadership.name must be a name"),
        ("leadership: {namespace: a/../b}", "leadership.namespace must be a name"),
        ('seats: {recordNamespace: "x?y"}', "seats.recordNamespace must be a name"),
        ("status: {namespace: A}", "status.namespace must be"),
        ('plan: {protectedNamespaces: ["kube-*"]}', "there are no patterns"),
        ('plan: {protectedNamespaces: [""]}', "there are no patterns"),
    ],
)
def test_a_name_that_no_object_can_have_is_refused(text: str, wrong: str) -> None:
    """It would stand in a path of the API server, or protect nothing."""
    with pytest.raises(InvalidInput, match=re.escape(wrong)):
        config.parse(text)


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
