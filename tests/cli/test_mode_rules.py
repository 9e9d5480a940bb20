"""``check`` on the mode: what is and is not done, and the rights that go with it."""

from __future__ import annotations

import argparse
import copy
import json
from typing import Any

import pytest

from extender.check import config
from extender.check.documents import Document
from extender.check.findings import Finding
from extender.check.kubescheduler import configuration
from extender.check.mode_rules import MODE_RULES
from extender.check.rights_rules import OBSERVE_RIGHTS, rights_findings
from extender.check.scheduler_rules import configuration_findings
from extender.cli import check_command
from extender.cli.check_command import manifest_findings, settings_findings
from tests.cli.configurations import SAFE
from tests.packaging.manifests import MANIFESTS, pick, read, rules

OBSERVING = "mode: observe\n"
TEAM = "enforce: {namespaces: {matchLabels: {team: a}}"
OWN = ("observe/rbac.yaml", "observe/deployment.yaml", "namespace.yaml")


def documents(*names: str) -> list[Document]:
    return [Document(name, each) for name in names for each in read(name)]


def codes(findings: list[Finding]) -> set[str]:
    return {finding.rule for finding in findings} & set(MODE_RULES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        (OBSERVING, {"observing", "observe-unsaved"}),
        (OBSERVING + "observe: {file: /x}", {"observing"}),
        (
            OBSERVING + "leadership: {enabled: true}",
            {"observing", "observe-unsaved", "observe-leader"},
        ),
        (TEAM + "}", {"enforce-some"}),
        (TEAM + ", victims: all}", {"enforce-some", "enforce-all-victims"}),
        ("enforce: {victims: all}", set()),
    ],
)
def test_settings(text: str, found: set[str]) -> None:
    assert codes(list(settings_findings(config.parse(text), "c"))) == found


def examine(text: str, **entry: Any) -> set[str]:
    document = copy.deepcopy(SAFE)
    document["extenders"][0].update(entry)
    found = configuration([Document("s", document)], "s")
    return {each.rule for each in configuration_findings(found, config.parse(text), "s", None)}


def test_entry_of_an_observer_fails_open() -> None:
    assert examine(OBSERVING) == {"observe-fail-closed"}
    assert examine(OBSERVING, ignorable=True) == set()
    assert examine("", ignorable=True) == {"ignorable"}


def test_observer_need_not_be_asked() -> None:
    document = copy.deepcopy(SAFE)
    document["extenders"] = []
    found = configuration([Document("s", document)], "s")
    asked = [
        {each.rule for each in configuration_findings(found, config.parse(text), "s", None)}
        for text in (OBSERVING, "")
    ]
    assert asked == [set(), {"not-configured"}]
    assert examine(OBSERVING, ignorable=True, preemptVerb="") == set()


def test_observer_is_not_asked_to_bind() -> None:
    assert "bind" in examine(OBSERVING, ignorable=True, bindVerb="bind")


def test_rights_of_observe_mode_only_read() -> None:
    granted = rules("observe/rbac.yaml", "ClusterRole", "podgroup-extender-observe")
    assert granted == {
        (verb, group, resource)
        for (group, resource), verbs in OBSERVE_RIGHTS.items()
        for verb in verbs
    }
    assert {verb for verb, _, _ in granted} == {"get", "list", "watch"}
    kinds = {each["kind"] for each in read("observe/rbac.yaml")}
    assert kinds == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert not list(rights_findings(documents(*OWN), observes=True))


def test_rights_to_write_are_told_while_it_observes() -> None:
    found = list(rights_findings(documents("sidecar.yaml", "rbac.yaml"), observes=True))
    assert {each.rule for each in found} == {"observe-rights"}
    assert any("delete, patch on pods" in each.problem for each in found)


def test_rights_that_nothing_uses_are_errors_in_either_mode() -> None:
    given = documents(*OWN)
    role = next(each for each in given if each.value["kind"] == "ClusterRole")
    role.value["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
    for observes in (True, False):
        assert "rights-beyond" in {e.rule for e in rights_findings(given, observes=observes)}


def test_rights_to_read_only_are_not_enough_to_act() -> None:
    assert "enforce-rights" in {each.rule for each in rights_findings(documents(*OWN))}
    assert not list(rights_findings(documents("sidecar.yaml", "rbac.yaml")))


def test_manifests_pass(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    check_command.add_parser(parser.add_subparsers())
    words = ["check", "--json", "--config", str(MANIFESTS / "observe/extender-config.yaml")]
    words += [word for name in OWN for word in ("--manifest", str(MANIFESTS / name))]
    assert check_command.run(parser.parse_args(words)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["error"] == 0
    assert report["unchecked"] == []


def test_two_replicas_that_observe_do_not_plan_against_each_other() -> None:
    """Nobody acts: no leader is asked for."""
    given = documents(*OWN)
    deployment = next(each for each in given if each.value["kind"] == "Deployment")
    deployment.value["spec"]["replicas"] = 2
    found = {each.rule for each in manifest_findings(given, config.parse(OBSERVING))}
    assert "two-planners" not in found
    assert "two-planners" in {e.rule for e in manifest_findings(given, config.parse(""))}


def test_file_of_the_manifests_lies_on_a_volume() -> None:
    settings = config.load(MANIFESTS / "observe" / "extender-config.yaml")
    spec = pick("observe/deployment.yaml", "Deployment")["spec"]["template"]["spec"]
    mounts = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    assert settings.observe.file.rpartition("/")[0] in mounts
    assert settings.mode == "observe"
