"""``check``: each unsafe value is found, once, at its place; a safe configuration is quiet."""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cli import check, config
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.kubescheduler import configuration, parse_gates, seconds
from extender.cli.scheduler_rules import configuration_findings, gate_findings
from extender.model.errors import InvalidInput
from extender.model.settings import Settings

Object = dict[str, Any]
Change = Callable[[Object], object]

SAFE: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 100,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:8888",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": "5s",
        }
    ],
}

OTHER: Object = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f", "nodeCacheCapable": True}


def examine(
    change: Change | None = None, settings: str = "", url: str | None = None
) -> list[Finding]:
    """The findings on a safe configuration with one change."""
    document = copy.deepcopy(SAFE)
    if change is not None:
        change(document)
    found = configuration([Document("s", document)], "s")
    return list(configuration_findings(found, config.parse(settings), "s", url))


def ours(**values: Any) -> Change:
    """Change our entry; None removes a key."""

    def change(document: Object) -> None:
        entry = document["extenders"][0]
        entry.update(values)
        for key in [key for key, value in entry.items() if value is None]:
            del entry[key]

    return change


def top(**values: Any) -> Change:
    """Change the document itself."""
    return lambda document: document.update(values)


def preemption_args(**args: Any) -> Change:
    """Replace the arguments of DefaultPreemption."""
    return lambda document: document["profiles"][0].update(
        pluginConfig=[{"name": "DefaultPreemption", "args": args}]
    )


def split(document: Object) -> None:
    """Filter fails open, preempt fails closed."""
    whole = document["extenders"][0]
    preempt = {k: whole[k] for k in ("urlPrefix", "preemptVerb", "nodeCacheCapable")}
    rest = {k: v for k, v in whole.items() if k != "preemptVerb"} | {"ignorable": True}
    document["extenders"] = [preempt, rest]


def beside(*others: Object, before: bool = True) -> Change:
    """Put other extenders before or after ours."""
    return lambda document: document.update(
        extenders=[*others, *document["extenders"]] if before else [*document["extenders"], *others]
    )


def test_safe_configuration_has_no_finding() -> None:
    assert examine() == []


ENTRY = "s: extenders[0]"
CASES: list[tuple[str, Change, str, list[tuple[str, str, str]]]] = [
    ("fails open", ours(ignorable=True), "", [("error", "ignorable", f"{ENTRY}.ignorable")]),
    (
        "full nodes",
        ours(nodeCacheCapable=False),
        "",
        [("error", "node-cache-capable", f"{ENTRY}.nodeCacheCapable")],
    ),
    (
        "sampled nodes",
        top(percentageOfNodesToScore=50),
        "",
        [("error", "percentage-of-nodes", "s: percentageOfNodesToScore")],
    ),
    (
        "adaptive sample",
        lambda d: d.pop("percentageOfNodesToScore"),
        "",
        [("error", "percentage-of-nodes", "s: percentageOfNodesToScore")],
    ),
    (
        "profile overrides the sample",
        lambda d: d["profiles"][0].update(percentageOfNodesToScore=10),
        "",
        [("error", "percentage-of-nodes", "s: profiles[0].percentageOfNodesToScore")],
    ),
    ("no filter", ours(filterVerb=None), "", [("error", "no-filter", ENTRY)]),
    ("no preempt", ours(preemptVerb=None), "", [("error", "no-preempt", ENTRY)]),
    (
        "no prioritize",
        ours(prioritizeVerb=None, weight=None),
        "",
        [("warning", "no-prioritize", ENTRY)],
    ),
    (
        "other path",
        ours(filterVerb="predicates/filter"),
        "",
        [("error", "verb-path", f"{ENTRY}.filterVerb")],
    ),
    (
        "slash before the verb",
        ours(preemptVerb="/preempt"),
        "",
        [("error", "verb-path", f"{ENTRY}.preemptVerb")],
    ),
    (
        "path in the address",
        ours(urlPrefix="http://127.0.0.1:8888/scheduler/"),
        "",
        [("error", "url-path", f"{ENTRY}.urlPrefix")],
    ),
    ("slash after the address", ours(urlPrefix="http://127.0.0.1:8888/"), "", []),
    ("no weight", ours(weight=0), "", [("error", "weight", f"{ENTRY}.weight")]),
    (
        "weight alone",
        ours(prioritizeVerb=None),
        "",
        [("warning", "no-prioritize", ENTRY), ("warning", "weight-unused", f"{ENTRY}.weight")],
    ),
    ("binds", ours(bindVerb="bind"), "", [("error", "bind", f"{ENTRY}.bindVerb")]),
    (
        "managed resources",
        ours(managedResources=[{"name": "nvidia.com/gpu"}]),
        "",
        [("error", "managed-resources", f"{ENTRY}.managedResources")],
    ),
    ("short", ours(httpTimeout="3s"), "", [("error", "timeout-short", f"{ENTRY}.httpTimeout")]),
    (
        "tight",
        ours(httpTimeout="3500ms"),
        "",
        [("warning", "timeout-tight", f"{ENTRY}.httpTimeout")],
    ),
    ("long", ours(httpTimeout="1m"), "", [("warning", "timeout-long", f"{ENTRY}.httpTimeout")]),
    (
        "default timeout against a long search",
        ours(httpTimeout=None),
        "plan: {seconds: 5}",
        [("error", "timeout-short", f"{ENTRY}.httpTimeout")],
    ),
    ("no unit", ours(httpTimeout="5"), "", [("error", "timeout-format", f"{ENTRY}.httpTimeout")]),
    (
        "negative",
        ours(httpTimeout="-5s"),
        "",
        [("error", "timeout-format", f"{ENTRY}.httpTimeout")],
    ),
    ("no scheme", ours(urlPrefix="127.0.0.1:8888"), "", [("error", "url", f"{ENTRY}.urlPrefix")]),
    ("no address", ours(urlPrefix=None), "", [("error", "url", f"{ENTRY}.urlPrefix")]),
    (
        "port out of range",
        ours(urlPrefix="http://127.0.0.1:99999"),
        "",
        [("error", "url", f"{ENTRY}.urlPrefix")],
    ),
    (
        "other port",
        ours(urlPrefix="http://127.0.0.1:80"),
        "",
        [("hint", "url-port", f"{ENTRY}.urlPrefix")],
    ),
    (
        "server on loopback, caller elsewhere",
        ours(urlPrefix="http://10.0.0.9:8888"),
        "",
        [("error", "url-host", f"{ENTRY}.urlPrefix")],
    ),
    (
        "cluster DNS",
        ours(urlPrefix="http://podgroup-extender.ns.svc:8888"),
        "server: {host: 0.0.0.0}",
        [("warning", "url-dns", f"{ENTRY}.urlPrefix")],
    ),
    (
        "https asked for over http",
        ours(enableHTTPS=True),
        "",
        [("error", "https-scheme", f"{ENTRY}.enableHTTPS")],
    ),
    (
        "https to a plain server",
        ours(urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"}),
        "",
        [("error", "tls-mismatch", f"{ENTRY}.urlPrefix")],
    ),
    (
        "http to a TLS server",
        ours(),
        "server: {tlsCertFile: /c, tlsKeyFile: /k}",
        [("error", "tls-mismatch", f"{ENTRY}.urlPrefix")],
    ),
    (
        "TLS without an authority",
        ours(urlPrefix="https://127.0.0.1:8888", enableHTTPS=True),
        "server: {tlsCertFile: /c, tlsKeyFile: /k}",
        [("warning", "tls-ca", f"{ENTRY}.tlsConfig")],
    ),
    (
        "client certificate wanted",
        ours(urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"}),
        "server: {tlsCertFile: /c, tlsKeyFile: /k, clientCaFile: /ca}",
        [("error", "tls-client", f"{ENTRY}.tlsConfig")],
    ),
    (
        "split in two entries",
        split,
        "",
        [("warning", "ignorable-filter", "s: extenders[1].ignorable")],
    ),
    (
        "asked twice",
        lambda d: d["extenders"].append(d["extenders"][0]),
        "",
        [
            ("error", "verb-twice", f"s: extenders[1].{verb}")
            for verb in ("filterVerb", "prioritizeVerb", "preemptVerb")
        ],
    ),
    ("another before us", beside(OTHER), "", []),
    (
        "another after us",
        beside(OTHER, before=False),
        "",
        [("warning", "filter-after", "s: extenders[1].filterVerb")],
    ),
    (
        "an ignorable one is asked last, wherever it stands",
        beside(OTHER | {"ignorable": True}),
        "",
        [("warning", "filter-after", "s: extenders[0].filterVerb")],
    ),
    (
        "another preempts before us",
        beside({"urlPrefix": "http://127.0.0.1:1", "preemptVerb": "p"}),
        "",
        [("warning", "preempt-other", "s: extenders[0].preemptVerb")],
    ),
    (
        "another preempts after us",
        beside({"urlPrefix": "http://127.0.0.1:1", "preemptVerb": "p"}, before=False),
        "",
        [("error", "preempt-after", "s: extenders[1].preemptVerb")],
    ),
    (
        "only others",
        lambda d: d.update(extenders=[OTHER, OTHER]),
        "",
        [("error", "not-configured", "s: extenders")],
    ),
    (
        "no extender at all",
        lambda d: d.pop("extenders"),
        "",
        [("error", "not-configured", "s: extenders")],
    ),
    (
        "few candidates",
        preemption_args(minCandidateNodesPercentage=10),
        "",
        [
            (
                "hint",
                "candidate-nodes",
                "s: profiles[0].pluginConfig[0].args.minCandidateNodesPercentage",
            )
        ],
    ),
    (
        "preemption off",
        lambda d: d["profiles"][0].update(
            plugins={"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
        ),
        "",
        [("warning", "default-preemption-off", "s: profiles[0].plugins")],
    ),
    (
        "scheduler of another name",
        ours(),
        "schedulerNames: [gang]",
        [
            ("error", "scheduler-name", "s: profiles"),
            ("warning", "scheduler-unknown", "s: profiles"),
        ],
    ),
    (
        "one profile too many",
        lambda d: d["profiles"].append(
            {"schedulerName": "b", "pluginConfig": d["profiles"][0]["pluginConfig"]}
        ),
        "schedulerNames: [default-scheduler]",
        [("warning", "scheduler-name", "s: profiles")],
    ),
]


@pytest.mark.parametrize(
    ("change", "settings", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_unsafe_value_is_found_at_its_place(
    change: Change, settings: str, expected: list[tuple[str, str, str]]
) -> None:
    found = examine(change, settings)
    assert [(f.severity, f.rule, f.place) for f in found] == expected
    for finding in found:
        assert finding.problem
        assert finding.why
        assert finding.repair


def test_plugins_may_be_switched_off_by_star_and_on_by_name() -> None:
    def plugins(**points: Any) -> Change:
        return lambda document: document["profiles"][0].update(plugins=points)

    star = [{"name": "*"}]
    named = [{"name": "DefaultPreemption"}]
    off = [f.rule for f in examine(plugins(multiPoint={"disabled": star}))]
    assert off == ["default-preemption-off"]
    assert examine(plugins(multiPoint={"disabled": star}, postFilter={"enabled": named})) == []


def test_our_entry_is_found_by_address_when_it_is_given() -> None:
    service = ours(urlPrefix="http://10.0.0.9:80/")
    hidden: Change = lambda d: (service(d), beside(OTHER)(d))  # noqa: E731
    settings = "server: {host: 0.0.0.0}"
    assert [f.rule for f in examine(hidden, settings)] == ["not-configured"]
    assert [f.rule for f in examine(hidden, settings, "http://10.0.0.9:80")] == ["url-port"]
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


# From files to exit status -------------------------------------------------------------------


def write(path: Path, *documents: Any) -> str:
    """Write YAML documents and return the path as an argument."""
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def main(*arguments: str) -> int:
    """Run the command as the program does."""
    parser = argparse.ArgumentParser()
    check.add_parser(parser.add_subparsers())
    return check.run(parser.parse_args(["check", *arguments]))


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
    ours(ignorable=True, prioritizeVerb=None, weight=None)(unsafe)
    path = write(tmp_path / "s.yaml", unsafe)
    assert main("--scheduler-config", path, "--scheduler-feature-gates", "") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"error   {path}: extenders[0].ignorable: is true")
    assert lines[1].startswith("        why:    whenever a call fails")
    assert lines[2].startswith("        repair: write ignorable: false")
    assert lines[3].startswith(f"warning {path}: extenders[0]: prioritizeVerb is missing")
    assert lines[-1] == "1 errors, 1 warnings, 0 hints"


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
    path = write(
        tmp_path / "c.yaml", {"plan": {"pdbPolicy": "prefer"}, "server": {"host": "0.0.0.0"}}
    )
    assert main("--json", "--config", path) == 0
    report = json.loads(capsys.readouterr().out)
    assert [f["rule"] for f in report["findings"]] == ["pdb-policy", "open-port"]


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
        ("--scheduler-manifest", {"kind": "Pod", "spec": 3}, "0 containers run kube-scheduler"),
        (
            "--scheduler-manifest",
            scheduler_pod("--feature-gates=A"),
            "--feature-gates: 'A' is not NAME=true",
        ),
        (
            "--scheduler-manifest",
            {"kind": "Pod", "spec": {"containers": [{"command": "kube-scheduler"}]}},
            "command of a container must be a list of strings",
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


def test_nothing_to_check_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 2
    assert "nothing to check" in capsys.readouterr().err


def test_margins_follow_the_settings() -> None:
    slow = config.parse("plan: {seconds: 8}")
    assert slow != Settings()
    assert [f.rule for f in examine(ours(httpTimeout="11s"), "plan: {seconds: 8}")] == []
