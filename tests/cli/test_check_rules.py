"""``check``: each rule on configuration, listeners, barrier, mode, limits and replicas.

See docs/security.md, row 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from msgspec import Struct
from msgspec.structs import fields

from extender.app import main as command
from extender.check import config
from extender.check.bind_rules import BIND_RULES, hold_findings
from extender.check.catalogue import RULES
from extender.check.config import parse
from extender.check.documents import Document
from extender.check.extender_entry_rules import ENTRY_RULES
from extender.check.findings import Finding
from extender.check.kubescheduler import configuration, parse_gates
from extender.check.listener_rules import grpc_findings, listener_findings, require_closed
from extender.check.mode_rules import MODE_RULES
from extender.check.replica_rules import replica_findings
from extender.check.rights_rules import BIND_RIGHTS, OBSERVE_RIGHTS, rights_findings
from extender.check.scheduler_rules import SCHEDULER_RULES, configuration_findings, gate_findings
from extender.check.tenant_rules import LIMIT_RULES, limit_findings
from extender.cli import check_command
from extender.cli.check_command import manifest_findings, settings_findings
from extender.gang.leader_election.lease import LABEL
from extender.model.errors import InvalidInput
from extender.settings.settings import GrpcSettings, LeadershipSettings, ServerSettings, Settings
from extender.settings.settings_rules import validate
from tests.cli.configurations import OTHER, SAFE, Change, beside, ours, preemption_args, split, top
from tests.packaging.manifests import MANIFESTS, pick, read, rules

ENTRY = "extenders[0]"


def examine(
    change: Change | None = None, settings: str = "", url: str | None = None
) -> list[Finding]:
    """The findings on a safe configuration with one change."""
    document = copy.deepcopy(SAFE)
    if change is not None:
        change(document)
    found = configuration([Document("s", document)], "s")
    return list(configuration_findings(found, config.parse(settings), "s", url))


def case(name: str, change: Change, *expected: str, settings: str = "") -> Any:
    """A change to the safe configuration, and ``severity rule place`` of findings; @ is ours."""
    return pytest.param(change, settings, [line.replace("@", ENTRY) for line in expected], id=name)


CASES = [
    case("fails open", ours(ignorable=True), "error ignorable @.ignorable"),
    case("full nodes", ours(nodeCacheCapable=False), "error node-cache-capable @.nodeCacheCapable"),
    case(
        "all nodes",
        top(percentageOfNodesToScore=100),
        "hint percentage-of-nodes percentageOfNodesToScore",
    ),
    case("half of the nodes", top(percentageOfNodesToScore=50)),
    case(
        "all nodes in a profile",
        lambda d: d["profiles"][0].update(percentageOfNodesToScore=100),
        "hint percentage-of-nodes profiles[0].percentageOfNodesToScore",
    ),
    case("no filter", ours(filterVerb=None), "error no-filter @"),
    case("no preempt", ours(preemptVerb=None), "error no-preempt @"),
    case(
        "prioritize",
        ours(prioritizeVerb="prioritize", weight=1),
        "hint prioritize @.prioritizeVerb",
    ),
    case("other path", ours(filterVerb="predicates/filter"), "error verb-path @.filterVerb"),
    case("slash before the verb", ours(preemptVerb="/preempt"), "error verb-path @.preemptVerb"),
    case(
        "path in the address",
        ours(urlPrefix="http://127.0.0.1:8888/scheduler/"),
        "error url-path @.urlPrefix",
    ),
    case("slash after the address", ours(urlPrefix="http://127.0.0.1:8888/")),
    case(
        "no weight",
        ours(prioritizeVerb="prioritize", weight=0),
        "hint prioritize @.prioritizeVerb",
        "error weight @.weight",
    ),
    case("weight alone", ours(weight=1), "warning weight-unused @.weight"),
    case(
        "managed resources",
        ours(managedResources=[{"name": "nvidia.com/gpu"}]),
        "error managed-resources @.managedResources",
    ),
    case("short", ours(httpTimeout="3s"), "error timeout-short @.httpTimeout"),
    case("tight", ours(httpTimeout="3500ms"), "warning timeout-tight @.httpTimeout"),
    case("long", ours(httpTimeout="1m"), "warning timeout-long @.httpTimeout"),
    case(
        "default timeout against a long search",
        ours(httpTimeout=None),
        "error timeout-short @.httpTimeout",
        settings="plan: {seconds: 5}",
    ),
    case("no unit", ours(httpTimeout="5"), "error timeout-format @.httpTimeout"),
    case("negative", ours(httpTimeout="-5s"), "error timeout-format @.httpTimeout"),
    case("no scheme", ours(urlPrefix="127.0.0.1:8888"), "error url @.urlPrefix"),
    case("no address", ours(urlPrefix=None), "error url @.urlPrefix"),
    case("port out of range", ours(urlPrefix="http://127.0.0.1:99999"), "error url @.urlPrefix"),
    case(
        "other port", ours(urlPrefix="http://127.0.0.1:80"), "error url-port-loopback @.urlPrefix"
    ),
    case(
        "a Service's port",
        ours(urlPrefix="http://10.0.0.9:80"),
        "hint url-port @.urlPrefix",
        settings="server: {host: 0.0.0.0}",
    ),
    case(
        "server on loopback, caller elsewhere",
        ours(urlPrefix="http://10.0.0.9:8888"),
        "error url-host @.urlPrefix",
    ),
    case(
        "cluster DNS",
        ours(urlPrefix="http://podgroup-extender.ns.svc:8888"),
        "warning url-dns @.urlPrefix",
        settings="server: {host: 0.0.0.0}",
    ),
    case("https asked for over http", ours(enableHTTPS=True), "error https-scheme @.enableHTTPS"),
    case(
        "https to a plain server",
        ours(urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"}),
        "error tls-mismatch @.urlPrefix",
    ),
    case(
        "http to a TLS server",
        ours(),
        "error tls-mismatch @.urlPrefix",
        settings="server: {tlsCertFile: /c, tlsKeyFile: /k}",
    ),
    case(
        "TLS without an authority",
        ours(urlPrefix="https://127.0.0.1:8888", enableHTTPS=True),
        "warning tls-ca @.tlsConfig",
        settings="server: {tlsCertFile: /c, tlsKeyFile: /k}",
    ),
    case(
        "client certificate wanted",
        ours(urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"}),
        "error tls-client @.tlsConfig",
        settings="server: {tlsCertFile: /c, tlsKeyFile: /k, clientCaFile: /ca}",
    ),
    case("split in two entries", split, "warning ignorable-filter extenders[1].ignorable"),
    case(
        "asked twice",
        lambda d: d["extenders"].append(d["extenders"][0]),
        "error verb-twice extenders[1].filterVerb",
        "error verb-twice extenders[1].preemptVerb",
    ),
    case("another before us", beside(OTHER), "hint filter-before extenders[0].filterVerb"),
    case(
        "another after us",
        beside(OTHER, before=False),
        "warning filter-after extenders[1].filterVerb",
    ),
    case(
        "an ignorable one is asked last, wherever it stands",
        beside(OTHER | {"ignorable": True}),
        "warning filter-after extenders[0].filterVerb",
    ),
    case(
        "another preempts before us",
        beside({"urlPrefix": "http://127.0.0.1:1", "preemptVerb": "p"}),
        "warning preempt-other extenders[0].preemptVerb",
    ),
    case(
        "another preempts after us",
        beside({"urlPrefix": "http://127.0.0.1:1", "preemptVerb": "p"}, before=False),
        "error preempt-after extenders[1].preemptVerb",
    ),
    case(
        "only others",
        lambda d: d.update(extenders=[OTHER, OTHER]),
        "error not-configured extenders",
    ),
    case("no extender at all", lambda d: d.pop("extenders"), "error not-configured extenders"),
    case(
        "few candidates",
        preemption_args(minCandidateNodesPercentage=10),
        "hint candidate-nodes profiles[0].pluginConfig[0].args.minCandidateNodesPercentage",
    ),
    case(
        "preemption off",
        lambda d: d["profiles"][0].update(
            plugins={"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
        ),
        "warning default-preemption-off profiles[0].plugins",
    ),
    case(
        "scheduler-plugins' gangs at multiPoint",
        lambda d: d["profiles"][0].update(
            plugins={"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
        ),
        "warning coscheduling profiles[0].plugins",
    ),
    case(
        "scheduler-plugins' gangs at permit",
        lambda d: d["profiles"][0].update(
            plugins={"permit": {"enabled": [{"name": "Coscheduling"}]}}
        ),
        "warning coscheduling profiles[0].plugins",
    ),
    case(
        "scheduler of another name",
        ours(),
        "error scheduler-name profiles",
        "warning scheduler-unknown profiles",
        settings="schedulerNames: [gang]",
    ),
    case(
        "one profile too many",
        lambda d: d["profiles"].append(
            {"schedulerName": "b", "pluginConfig": d["profiles"][0]["pluginConfig"]}
        ),
        "warning scheduler-name profiles",
        settings="schedulerNames: [default-scheduler]",
    ),
]


@pytest.mark.parametrize(("change", "settings", "expected"), CASES)
def test_unsafe_value_is_found_at_its_place(
    change: Change, settings: str, expected: list[str]
) -> None:
    found = examine(change, settings)
    assert [f"{f.severity} {f.rule} {f.place}" for f in found] == [
        " s: ".join(line.rsplit(" ", 1)) for line in expected
    ]
    for finding in found:
        assert finding.problem
        assert finding.why
        assert finding.repair


def test_every_rule_is_broken_by_a_case() -> None:
    broken = {line.split()[1] for each in CASES for line in each.values[-1]}
    on_the_command_line = {"feature-gate", "gate-unknown", "config-flag"}
    assert broken == (ENTRY_RULES.keys() | SCHEDULER_RULES.keys()) - on_the_command_line


def test_safe_configuration_has_no_finding() -> None:
    assert examine() == []


def test_plugins_may_be_switched_off_by_star_and_on_by_name() -> None:
    def plugins(**points: Any) -> Change:
        return lambda document: document["profiles"][0].update(plugins=points)

    star = [{"name": "*"}]
    named = [{"name": "DefaultPreemption"}]
    off = [f.rule for f in examine(plugins(multiPoint={"disabled": star}))]
    assert off == ["default-preemption-off"]
    assert examine(plugins(multiPoint={"disabled": star}, postFilter={"enabled": named})) == []


@pytest.mark.parametrize(
    ("settings", "points"),
    [
        ("mode: observe", {"permit": {"enabled": [{"name": "Coscheduling"}]}}),
        ("", {"permit": {"disabled": [{"name": "Coscheduling"}]}}),
        ("", {"queueSort": {"enabled": [{"name": "Coscheduling"}]}}),
    ],
)
def test_coscheduling_is_named_where_it_holds_members(
    settings: str, points: dict[str, Any]
) -> None:
    change: Change = lambda d: d["profiles"][0].update(plugins=points)  # noqa: E731
    assert "coscheduling" not in [f.rule for f in examine(change, settings)]


def test_our_entry_is_found_by_address_when_it_is_given() -> None:
    service = ours(urlPrefix="http://10.0.0.9:80/")
    hidden: Change = lambda d: (service(d), beside(OTHER)(d))  # noqa: E731
    settings = "server: {host: 0.0.0.0}"
    assert [f.rule for f in examine(hidden, settings)] == ["not-configured"]
    known = [f.rule for f in examine(hidden, settings, "http://10.0.0.9:80")]
    assert known == ["url-port", "filter-before"]
    assert [f.rule for f in examine(hidden, settings, "http://10.0.0.8")] == ["not-configured"]


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ("", []),
        ("GenericWorkload=false,GangScheduling=0,Other=true", []),
        ("GenericWorkload=true", ["GenericWorkload"]),
        ("kube:GenericWorkload=T, GangScheduling=true", ["GenericWorkload", "GangScheduling"]),
        ("WorkloadAwarePreemption=1", ["WorkloadAwarePreemption"]),
        ("AllBeta=true", ["AllBeta"]),
        ("AllAlpha=true,GenericWorkload=false", []),
        ("GenericWorkload=true,GenericWorkload=false", []),
    ],
)
def test_gang_gates_must_be_off_in_the_scheduler(gates: str, expected: list[str]) -> None:
    found = list(gate_findings(parse_gates(gates, "g"), "g"))
    assert [f.place for f in found] == [f"g: {gate}" for gate in expected]
    assert {f.severity for f in found} <= {"error"}


def test_margins_follow_the_settings() -> None:
    slow = config.parse("plan: {seconds: 8}")
    assert slow != Settings()
    assert [f.rule for f in examine(ours(httpTimeout="11s"), "plan: {seconds: 8}")] == []


ON = "bind: {enabled: true}"
BINDER: dict[str, Any] = {
    "urlPrefix": "http://127.0.0.1:8888",
    "bindVerb": "bind",
    "ignorable": False,
    "httpTimeout": "45s",
}
SOME = {"managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": True}]}


def bind_examine(settings: str, *entries: dict[str, Any], **first: Any) -> list[Finding]:
    document = copy.deepcopy(SAFE)
    document["extenders"][0].update(first)
    document["extenders"] += entries
    found = configuration([Document("s", document)], "s")
    return list(configuration_findings(found, config.parse(settings), "s", None))


BIND_CASES = [
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


@pytest.mark.parametrize(("settings", "entries", "expected"), BIND_CASES)
def test_entries(settings: str, entries: list[dict[str, Any]], expected: list[str]) -> None:
    found = [
        f"{each.severity} {each.rule} {each.place.removeprefix('s: ')}"
        for each in bind_examine(settings, *entries)
    ]
    assert found == expected


def test_bind_on_the_entry_of_other_verbs() -> None:
    found = {each.rule for each in bind_examine(ON, bindVerb="bind")}
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


OBSERVING = "mode: observe\n"
TEAM = "enforce: {namespaces: {matchLabels: {team: a}}"
OWN = ("observe/rbac.yaml", "observe/deployment.yaml", "namespace.yaml")


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
def test_mode_settings(text: str, found: set[str]) -> None:
    assert codes(list(settings_findings(config.parse(text), "c"))) == found


def mode_examine(text: str, **entry: Any) -> set[str]:
    document = copy.deepcopy(SAFE)
    document["extenders"][0].update(entry)
    found = configuration([Document("s", document)], "s")
    return {each.rule for each in configuration_findings(found, config.parse(text), "s", None)}


def test_entry_of_an_observer_fails_open() -> None:
    assert mode_examine(OBSERVING) == {"observe-fail-closed"}
    assert mode_examine(OBSERVING, ignorable=True) == set()
    assert mode_examine("", ignorable=True) == {"ignorable"}


def test_observer_need_not_be_asked() -> None:
    document = copy.deepcopy(SAFE)
    document["extenders"] = []
    found = configuration([Document("s", document)], "s")
    asked = [
        {each.rule for each in configuration_findings(found, config.parse(text), "s", None)}
        for text in (OBSERVING, "")
    ]
    assert asked == [set(), {"not-configured"}]
    assert mode_examine(OBSERVING, ignorable=True, preemptVerb="") == set()


def test_observer_is_not_asked_to_bind() -> None:
    assert "bind" in mode_examine(OBSERVING, ignorable=True, bindVerb="bind")


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


LIMIT_CASES = {
    "plan: {seconds: 20, overrunSeconds: 40}": "warning overrun-late f: plan.overrunSeconds",
    "plan: {namespaceShare: 1}": "hint share-whole f: plan.namespaceShare",
    "server: {headSeconds: 86400}": "warning limit-wide f: server.headSeconds",
    "plan: {retrySeconds: 0}": "warning retry-at-once f: plan.retrySeconds",
    "seats: {suspendSeconds: 1}": "warning never-suspended f: seats.suspendSeconds",
    "seats: {giveUps: 0}": "warning never-suspended f: seats.giveUps",
    "plan: {budgetsPerNamespace: 5000}": "warning limit-wide f: plan.budgetsPerNamespace",
    "seats: {giveUps: 101}": "warning limit-wide f: seats.giveUps",
    "eviction: {longestGraceSeconds: 604800}": "warning grace-endless "
    "f: eviction.longestGraceSeconds",
}


@pytest.mark.parametrize(("text", "expected"), LIMIT_CASES.items())
def test_a_limit_that_does_not_limit_is_found(text: str, expected: str) -> None:
    found = list(limit_findings(parse(text), "f"))
    assert [f"{one.severity} {one.rule} {one.place}" for one in found] == [expected]
    assert all(one.why and one.repair for one in found)


def test_every_rule_has_a_case_and_the_defaults_break_none() -> None:
    assert {line.split()[1] for line in LIMIT_CASES.values()} == LIMIT_RULES.keys()
    assert LIMIT_RULES.keys() <= RULES.keys()
    assert list(limit_findings(parse(""), "f")) == []


def floats(shape: type[Struct], path: str = "") -> Iterator[str]:
    """Yield the keys below that take a number with a fraction."""
    for row in fields(shape):
        name = f"{path}.{row.encode_name}".lstrip(".")
        if isinstance(row.type, type) and issubclass(row.type, Struct):
            yield from floats(row.type, name)
        elif row.type is float:
            yield name
        elif get_origin(row.type) is dict and get_args(row.type)[1] is float:
            yield f"{name}.kai"


@pytest.mark.parametrize("value", ["0.1e-320", "1.0e-300", "1.0e-9"])
@pytest.mark.parametrize("key", list(floats(Settings)))
def test_a_number_next_to_nothing_is_refused_by_name_with_its_bound(key: str, value: str) -> None:
    *sections, last = key.split(".")
    text = f"{last}: {value}"
    for section in reversed(sections):
        text = f"{section}: {{{text}}}"
    if key != "plan.namespaceShare" and last.endswith(("Share", "Ratio")):
        assert parse(text), "a share of almost nothing is none"
        return
    known = key.removesuffix(".kai")
    with pytest.raises(InvalidInput, match=rf"{re.escape(known)}\S* must (?!be positive)"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "plan: {namespaceShare: 0}",
        "plan: {retrySeconds: -1}",
        "seats: {victimSlackSeconds: -1}",
        "plan: {namespaceShare: 1.5}",
        "plan: {overrunSeconds: 0}",
        "plan: {budgetsPerNamespace: 0}",
        "plan: {budgetsPerNamespace: 100001}",
        "plan: {longestRetrySeconds: 1}",
        "seats: {giveUps: -1}",
        "seats: {suspendSeconds: 0}",
        "eviction: {longestGraceSeconds: 0}",
        "eviction: {perNamespaceHour: -1}",
    ],
)
def test_values_out_of_range_are_refused_by_name(text: str) -> None:
    key = text.split("{")[1].split(":")[0]
    with pytest.raises(InvalidInput, match=key):
        parse(text)


OFF = Settings()
REPLICA_ON = Settings(leadership=LeadershipSettings(enabled=True, label_pod=True))


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
        (deployment(2, None), REPLICA_ON, []),
        (deployment(1, "Recreate", path="/readyz"), OFF, []),
        (deployment(2, None, path="/readyz"), REPLICA_ON, ["standby-not-ready"] * 2),
        (POD, OFF, ["static-pods"]),
        (POD, REPLICA_ON, []),
        (service(), OFF, []),
        (service(LABEL), REPLICA_ON, []),
        (service(), REPLICA_ON, ["service-standby"]),
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


PAIR = {"tls_cert_file": "c", "tls_key_file": "k"}
CALLERS = PAIR | {"client_ca_file": "ca"}
NAMED = CALLERS | {"allowed_names": ("system:kube-scheduler",)}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({}, []),
        ({"host": "::1"}, []),
        ({"host": "localhost"}, []),
        ({"host": "127.8.0.1"}, []),
        ({"host": "0.0.0.0"}, ["open-port", "plain-tokens"]),
        ({"host": ""}, ["open-port", "plain-tokens"]),
        ({"host": "::"}, ["open-port", "plain-tokens"]),
        ({"host": "10.0.0.7"}, ["open-port", "plain-tokens"]),
        ({"host": "scheduler.example"}, ["open-port", "plain-tokens"]),
        ({"host": "0.0.0.0"} | PAIR, ["open-port"]),
        ({"host": "0.0.0.0"} | CALLERS, ["open-port"]),
        ({"host": "0.0.0.0"} | NAMED, []),
        ({"host": "0.0.0.0", "open_metrics": True} | NAMED, ["open-metrics"]),
        (CALLERS, ["any-certificate"]),
        ({"health_port": 8889, "health_host": "0.0.0.0"}, ["plain-tokens"]),
        (
            {"health_port": 8889, "health_host": "0.0.0.0", "open_metrics": True},
            ["open-metrics"],
        ),
        (
            {"health_port": 8889, "health_host": "0.0.0.0", "open_metrics": True, "debug": True},
            ["open-metrics", "plain-tokens"],
        ),
        ({"health_port": 8889, "health_host": "0.0.0.0"} | PAIR, []),
    ],
)
def test_findings(given: dict[str, Any], rules: list[str]) -> None:
    server = ServerSettings(**given)
    validate(Settings(server=server))
    assert [finding.rule for finding in listener_findings(server, "f")] == rules
    if "open-port" not in rules:
        require_closed(server, allowed=False)
        return
    with pytest.raises(InvalidInput, match=r"server\.host"):
        require_closed(server, allowed=False)


def test_an_open_port_has_to_be_allowed_twice() -> None:
    shut = ServerSettings(host="0.0.0.0")
    told = ServerSettings(host="0.0.0.0", allow_open_port=True)
    for server, allowed in ((shut, True), (told, False)):
        with pytest.raises(InvalidInput, match="allowOpenPort"):
            require_closed(server, allowed=allowed)
    require_closed(told, allowed=True)


@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], []])
def test_serve_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({} if words else {"server": {"host": "0.0.0.0"}}))
    assert command.main(["serve", "--config", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert "server.host: is '0.0.0.0', and no certificate is asked" in said
    assert "--allow-open-port" in said


def test_check_calls_it_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"server": {"host": "0.0.0.0", "openMetrics": True}}))
    assert command.main(["check", "--json", "--config", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["severity"], each["rule"]) for each in found] == [
        ("error", "open-port"),
        ("hint", "open-metrics"),
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"allowed_names": ("a",)}, "server.allowedNames needs server.clientCaFile"),
        (CALLERS | {"allowed_names": ("",)}, "must not hold an empty name"),
        ({"health_port": 8888}, "server.healthPort must be another port"),
        ({"health_port": 70000}, "server.healthPort must be 0..65535"),
        ({"health_host": "0.0.0.0"}, "server.healthHost needs server.healthPort"),
        ({"max_header_bytes": 10}, "server.maxHeaderBytes"),
        ({"max_connections": 1}, "server.maxConnections"),
        ({"max_bytes_in_flight": 1}, "server.maxBytesInFlight"),
        ({"head_seconds": 0}, "server.headSeconds"),
        ({"body_seconds": 0}, "server.bodySeconds"),
        ({"pod_wait_seconds": 1.5}, "server.podWaitSeconds"),
    ],
)
def test_values_out_of_range(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        validate(Settings(server=ServerSettings(**given)))


@pytest.mark.parametrize(
    ("listen", "more", "rules"),
    [
        ("", {}, []),
        ("127.0.0.1:1", {}, []),
        ("127.0.0.1:1", CALLERS, ["any-certificate"]),
        ("127.0.0.1:1", NAMED, []),
        ("unix:/s", {}, []),
    ],
)
def test_findings_about_grpc(listen: str, more: dict[str, Any], rules: list[str]) -> None:
    settings = Settings(grpc=GrpcSettings(listen=listen, **more))
    validate(settings)
    assert [finding.rule for finding in grpc_findings(settings, "f")] == rules
