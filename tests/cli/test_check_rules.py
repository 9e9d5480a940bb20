"""``check``: each unsafe value is found, once, at its place; a safe configuration is quiet."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from extender.check import config
from extender.check.documents import Document
from extender.check.extender_entry_rules import ENTRY_RULES
from extender.check.findings import Finding
from extender.check.kubescheduler import configuration, parse_gates
from extender.check.scheduler_rules import SCHEDULER_RULES, configuration_findings, gate_findings
from extender.settings.settings import Settings
from tests.cli.configurations import (
    OTHER,
    SAFE,
    Change,
    beside,
    ours,
    preemption_args,
    split,
    top,
)

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
