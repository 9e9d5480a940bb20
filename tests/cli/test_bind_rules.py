"""``check`` on the bind barrier: entry, times, rights; its own manifests are quiet."""

from __future__ import annotations

import argparse
import copy
import json
from typing import Any

import pytest
import yaml

from extender.check import config
from extender.check.bind_rules import BIND_RULES, hold_findings
from extender.check.catalogue import RULES
from extender.check.documents import Document
from extender.check.findings import Finding
from extender.check.kubescheduler import configuration
from extender.check.rights_rules import BIND_RIGHTS, rights_findings
from extender.check.scheduler_rules import configuration_findings
from extender.cli import check_command
from tests.cli.configurations import SAFE
from tests.packaging.manifests import MANIFESTS, read, rules

ON = "bind: {enabled: true}"
BINDER: dict[str, Any] = {
    "urlPrefix": "http://127.0.0.1:8888",
    "bindVerb": "bind",
    "ignorable": False,
    "httpTimeout": "45s",
}
SOME = {"managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": True}]}


def examine(settings: str, *entries: dict[str, Any], **first: Any) -> list[Finding]:
    document = copy.deepcopy(SAFE)
    document["extenders"][0].update(first)
    document["extenders"] += entries
    found = configuration([Document("s", document)], "s")
    return list(configuration_findings(found, config.parse(settings), "s", None))


CASES = [
    (ON, [BINDER], []),
    ("", [BINDER], ["error bind extenders[1].bindVerb"]),
    (ON, [], ["warning bind-unused extenders[0]"]),
    (ON, [BINDER | {"ignorable": True}], ["error bind-ignorable extenders[1].ignorable"]),
    (ON, [BINDER | {"bindVerb": "Bind"}], ["error verb-path extenders[1].bindVerb"]),
    (ON, [BINDER, BINDER], ["error verb-twice extenders[2].bindVerb"]),
    (
        ON,
        [BINDER | SOME],
        ["error bind-ignored extenders[1].managedResources[0].ignoredByScheduler"],
    ),
    (ON, [BINDER | {"httpTimeout": "36s"}], ["error bind-timeout extenders[1].httpTimeout"]),
    (ON, [BINDER | {"httpTimeout": ""}], ["error bind-timeout extenders[1].httpTimeout"]),
    ("bind: {enabled: true, holdSeconds: 24}", [BINDER | {"httpTimeout": "36s"}], []),
    (
        ON,
        [BINDER | {"urlPrefix": "http://127.0.0.1:8888/x"}],
        ["error url-path extenders[1].urlPrefix"],
    ),
]


@pytest.mark.parametrize(("settings", "entries", "expected"), CASES)
def test_entries(settings: str, entries: list[dict[str, Any]], expected: list[str]) -> None:
    found = [
        f"{each.severity} {each.rule} {each.place.removeprefix('s: ')}"
        for each in examine(settings, *entries)
    ]
    assert found == expected


def test_bind_on_the_entry_of_other_verbs() -> None:
    found = {each.rule for each in examine(ON, bindVerb="bind")}
    assert found == {"bind-shared", "bind-timeout"}


def test_settings() -> None:
    def rules_of(text: str) -> list[str]:
        return [each.rule for each in hold_findings(config.parse(text), "s")]

    assert rules_of("") == rules_of(ON) == []
    assert rules_of("{bind: {enabled: true, holdSeconds: 60}}") == ["bind-hold"]
    assert rules_of("{bind: {holdSeconds: 60}}") == []
    assert rules_of("{seats: {rollback: delete}}") == ["rollback"]


def documents(*names: str) -> list[Document]:
    return [Document(name, each) for name in names for each in read(name)]


def test_the_right_to_bind_is_granted_with_the_barrier_only() -> None:
    def found(*names: str, binds: bool) -> list[str]:
        return [each.rule for each in rights_findings(documents(*names), binds=binds)]

    assert found("rbac.yaml", "barrier/rbac.yaml", binds=True) == []
    assert found("rbac.yaml", binds=False) == []
    assert found("rbac.yaml", binds=True) == ["bind-right"]
    assert found("rbac.yaml", "barrier/rbac.yaml", binds=False) == ["rights-beyond"]


def test_the_manifest_grants_what_check_knows() -> None:
    assert rules("barrier/rbac.yaml", "ClusterRole", "podgroup-extender-bind") == {
        (verb, group, resource)
        for (group, resource), verbs in BIND_RIGHTS.items()
        for verb in verbs
    }


def test_the_manifests_of_the_barrier_are_as_safe(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    check_command.add_parser(parser.add_subparsers())

    def found(folder: str, *more: str) -> list[str]:
        words = ["check", "--json", "--config", str(MANIFESTS / folder / "extender-config.yaml")]
        words += ["--scheduler-config", str(MANIFESTS / folder / "kube-scheduler-config.yaml")]
        words += ["--scheduler-manifest", str(MANIFESTS / "sidecar.yaml")]
        for name in ("namespace.yaml", "rbac.yaml", *more):
            words += ["--manifest", str(MANIFESTS / name)]
        assert check_command.run(parser.parse_args(words)) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["unchecked"] == []
        return [each["rule"] for each in told["findings"]]

    assert found("barrier", "barrier/rbac.yaml") == found("")


@pytest.mark.parametrize("name", ["extender-config.yaml", "kube-scheduler-config.yaml"])
def test_they_differ_from_the_plain_ones_by_the_barrier_alone(name: str) -> None:
    (plain,), (more,) = read(name), read(f"barrier/{name}")
    if "data" in plain:
        plain, more = (yaml.safe_load(each["data"]["config.yaml"]) for each in (plain, more))
        assert more.pop("bind")["enabled"]
    else:
        assert more["extenders"].pop()["bindVerb"] == "bind"
    assert more == plain


def test_every_rule_is_known() -> None:
    assert BIND_RULES.keys() <= RULES.keys()
