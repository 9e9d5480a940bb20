"""``check``: shipped installations pass; unsafe changes, and changes at random, are told.

See docs/security.md, rows 7, 10 and 13.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender.app.main import main
from extender.check import documents
from extender.check.documents import Document
from extender.check.flag_rules import FLAG_RULES
from extender.check.network_rules import NETWORK_RULES
from extender.check.pod_rules import POD_RULES
from extender.check.rights_rules import RIGHTS_RULES
from extender.check.tenant_rules import LIMIT_RULES, POLICY_RULES
from extender.cli import check_command
from extender.model.errors import InvalidInput
from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, WAYS, Installation
from tests.cli.unsafe_changes import Change, on_settings, others_bound, signed
from tests.cli.unsafe_installations import (
    AROUND,
    CALLS,
    FLAGS,
    LISTENERS,
    PODS,
    RIGHTS,
    SETTINGS,
    TENANTS,
)
from tests.packaging.manifests import MANIFESTS

TENANTS_TRUSTED = {
    "hint shields-for-all",  # PodDisruptionBudgets count, as Kubernetes promises.
    "hint records-unsigned",  # A key is the administrator's to make.
}
ACCEPTED = {
    SECOND: {
        "warning image-tag",  # A digest is known only once an image was built and pushed.
        "hint shared-account",  # A pod has one account.
        "hint egress-anywhere",  # The API server's address is each cluster's own.
        "hint open-metrics",  # Behind the NetworkPolicy, for Prometheus.
        *TENANTS_TRUSTED,
    },
    STATIC: {"warning image-tag", *TENANTS_TRUSTED},
    DEPLOYMENT: {
        "warning image-tag",
        "warning ignorable-filter",  # Or its own pod could never be placed again.
        "warning example-address",  # Of the control plane, to be written by who installs.
        "hint egress-anywhere",
        *TENANTS_TRUSTED,
    },
}
"""What is said about the manifests as they are."""
CASES = [*PODS, *AROUND, *RIGHTS, *CALLS, *LISTENERS, *TENANTS, *FLAGS, *SETTINGS]


def named(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """``severity rule`` of everything that is found."""
    return {f"{each.severity} {each.rule}" for each in installation.check(monkeypatch)}


@pytest.mark.parametrize("way", WAYS)
def test_shipped_installation_passes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(Installation(way), monkeypatch) == ACCEPTED[way]
    assert not any(line.startswith("error") for line in ACCEPTED[way])


@pytest.mark.parametrize(("way", "change", "expected"), CASES)
def test_unsafe_change_is_found(
    way: str, change: Change, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(way)
    change(installation)
    found = named(installation, monkeypatch)
    assert found >= expected
    assert not expected & ACCEPTED[way]


def test_every_rule_on_manifests_and_tenants_is_broken_by_a_case() -> None:
    broken = {line.split()[1] for each in CASES for line in each.values[-1]}
    accepted = {line.split()[1] for lines in ACCEPTED.values() for line in lines}
    tables = (POD_RULES, NETWORK_RULES, RIGHTS_RULES, POLICY_RULES, LIMIT_RULES, FLAG_RULES)
    rules = {name for table in tables for name in table}
    assert rules <= broken | accepted


@pytest.mark.parametrize("way", WAYS)
def test_a_digest_ends_the_warning_about_tags(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(way)
    for field in ("initContainers", "containers"):
        for container in installation.pod.get(field, []):
            container["image"] += "@sha256:" + "0" * 64
    assert "warning image-tag" not in named(installation, monkeypatch)


@pytest.mark.parametrize("way", WAYS)
def test_a_key_and_selectors_end_the_hints_about_tenants(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key, who writes ConfigMaps and cannot read it is no danger."""
    installation = Installation(way)
    signed(others_bound("writers", ("configmaps", "create")))(installation)
    chosen = {"namespaces": {"matchLabels": {"podgroup-extender.io/opt-out": "allowed"}}}
    rules = {"PodDisruptionBudget": {**chosen, "shields": "gang"}, "DaemonSet": chosen}
    on_settings("policy", optOut=rules)(installation)
    assert named(installation, monkeypatch) == ACCEPTED[way] - TENANTS_TRUSTED


def test_addresses_end_the_remarks_about_them(monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(DEPLOYMENT)
    for policy in installation.objects("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for peer in rule["from"]:
                if "ipBlock" in peer:
                    peer["ipBlock"]["cidr"] = "10.1.0.0/28"
        for rule in policy["spec"].get("egress", []):
            rule.setdefault("to", [{"ipBlock": {"cidr": "10.1.0.0/28"}}])
    found = named(installation, monkeypatch)
    assert not found & {"warning example-address", "hint egress-anywhere"}


SEED, CHANGES = 20261123, 600
FILES = [path for path in sorted(MANIFESTS.rglob("*.yaml")) if path.parent.name != "krew"]
KEY = "@key@"
KEYS = ("null", "5", "true", "1.5", "2026-11-23", '"\\ud83d"', '""')
"""As YAML has them."""
HALF = "\ud83d"
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        5,
        -1,
        1.5,
        10**30,
        "",
        "x",
        HALF,
        "a\0b",
        "9" * 5000,
        "http://[",
        "::",
    ),
    *([], [5], [None], [[]], [{}], ["x", 5], {}, {"a": 5}, {"a": {}}, {"name": []}, {"": ""}),
    *("--port=" + "9" * 5000, "1e999s", "A=perhaps", "unix:", "[::1]:x"),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with each of its keys or positions."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield value, key
        yield from places(value[key])


def changed(document: Any, chance: random.Random) -> str:
    """A document, changed at one place, as text."""
    made = copy.deepcopy(document)
    inside, key = chance.choice(list(places(made)))
    match chance.randrange(8):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[KEY] = inside.pop(key)
        case 2:
            inside[key] = [inside[key]]
        case _:
            inside[key] = chance.choice(ODD)
    return json.dumps(made).replace(f'"{KEY}"', chance.choice(KEYS))


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[Path, list[Document]]:
    """What is shipped, read once and given to whoever reads it; what ConfigMaps carry, apart."""
    known: dict[Path, list[Document]] = {}
    for path in FILES:
        known[path] = documents.read(path)
        if any(documents.kind_of(each) == "ConfigMap" for each in known[path]):
            known[path.with_suffix(".plain")] = documents.opened(known[path])
    monkeypatch.setattr(documents, "read", lambda path: known[path])
    return known


def asked(path: Path) -> argparse.Namespace:
    """The command line that checks a file together with those that go with it."""
    given = {
        "config": MANIFESTS / "extender-config.yaml",
        "scheduler_config": MANIFESTS / "kube-scheduler-config.yaml",
        "scheduler_manifest": None,
        "scheduler_feature_gates": None,
        "extender_url": None,
        "manifest": [MANIFESTS / "deployment.yaml", MANIFESTS / "rbac.yaml"],
        "json": True,
    }
    if "scheduler-config" in path.name:
        given["scheduler_config"] = path
    elif path.name.startswith("extender-config"):
        given["config"] = path
    elif path.name == "kube-scheduler.yaml":
        given["scheduler_manifest"] = path
    else:
        given["manifest"] = [path, *(MANIFESTS / name for name in ("deployment.yaml", "rbac.yaml"))]
    return argparse.Namespace(**given)


def test_every_change_is_answered(
    files: dict[Path, list[Document]], capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    statuses: Counter[int] = Counter()
    for number in range(CHANGES):
        path = chance.choice(list(files))
        before = files[path]
        position = chance.randrange(len(before))
        text = changed(before[position].value, chance)
        try:
            files[path] = [
                *before[:position],
                *documents.parse(text, str(path)),
                *before[position + 1 :],
            ]
        except InvalidInput:
            statuses[2] += 1
            continue
        try:
            status = check_command.run(asked(path))
        except Exception as problem:
            raise AssertionError(f"change {number} of {path.name}: {text[:3000]}") from problem
        finally:
            files[path] = before
        out, err = capsys.readouterr()
        statuses[status] += 1
        if status == 2:
            assert err.startswith("error: "), (number, text)
            assert str(path) in err, (number, err)
        else:
            assert json.loads(out)["findings"] is not None
    # Many changes are of no form, and many are allowed (the files have an error as they stand: the
    # configuration is for a port without TLS).
    assert min(statuses[1], statuses[2]) > CHANGES // 4, statuses


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ConfigMap\nmetadata: hello", "ConfigMap: metadata: Expected `object | null`"),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{command: 5}]}",
            "Pod a: spec.containers[0].command: Expected `array | null`, got `int`",
        ),
        (
            "kind: NetworkPolicy\nspec: {podSelector: {matchExpressions: "
            "[{key: a, operator: In, values: 5}]}}",
            "NetworkPolicy: spec.podSelector.matchExpressions[0].values: Expected `array | null`",
        ),
    ],
)
def test_a_manifest_that_is_none(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert main(["check", "--manifest", str(path)]) == 2
    assert f"error: {path}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "serve"])
def test_a_config_map_that_is_none(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("kind: ConfigMap\nmetadata: hello\ndata: {a.yaml: ''}")
    more = [str(path), "--gang", "x"] if command == "plan" else []
    assert main([command, "--config", str(path), *more]) == 2
    assert f"error: {path}: ConfigMap: metadata must be a mapping" in capsys.readouterr().err


def test_half_a_character_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    text = (
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", %s}'
    )
    path.write_text(text % '"profiles": [{"pluginConfig": ["\\ud83d"]}]')
    assert main(["check", "--scheduler-config", str(path)]) == 2
    assert "not valid YAML: half of a character" in capsys.readouterr().err
    # Two halves are how JSON writes what is beyond 16 bits.
    (whole,) = documents.parse('{"a": "\\ud83d\\ude00", "b": "\\u00e9"}', "given")
    assert whole.value == {"a": "\N{GRINNING FACE}", "b": "\u00e9"}
