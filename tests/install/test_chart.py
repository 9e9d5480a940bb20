"""What the chart renders: safe by ``check``, the values do what they say, bad ones are refused.

See docs/security.md, row 13.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender import __version__
from extender.check import config
from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from tests.install.charts import (
    CHART,
    DIGEST,
    MODES,
    NEWEST,
    Helm,
    Object,
    carried,
    findings,
    host_file,
    lay_out,
    named,
)
from tests.packaging.manifests import MANIFESTS
from tools import manifests, values_schema
from tools.manifests import COMMON, SECOND, kube_version

PINNED = {
    "image": {"digest": DIGEST},
    "scheduler": {"image": {"digest": DIGEST}},
    "networkPolicy": {"schedulerCIDRs": ["10.0.0.0/28"], "apiServerCIDRs": ["10.0.0.0/28"]},
}
BARRIER = {"bindBarrier": {"enabled": True}}
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one replica": {"replicas": 1},
    "three replicas": {"replicas": 3},
    "bind barrier": BARRIER,
    "bind barrier for every pod": {"bindBarrier": {"enabled": True, "managedResources": []}},
    "other groups": {"rbac": {"otherGroups": True}},
    "all groups and barrier": {**BARRIER, "rbac": {"otherGroups": True}},
    "gRPC on a socket": {"grpc": {"listen": "unix:/run/podgroup-extender/grpc.sock"}},
    "own record key": {"recordKey": {"existingSecret": "mine"}},
    "generated record key": {"recordKey": {"generate": True}},
    "record key on the host": {"staticPod": {"recordKeyFile": "/etc/podgroup-extender/r.key"}},
    "more flags": {
        "scheduler": {
            "extraArgs": ["--v=2", "--tls-min-version=VersionTLS13"],
            "image": {"digest": DIGEST},
        }
    },
    "a tenth of the nodes": {
        "scheduler": {"percentageOfNodesToScore": 10, "image": {"digest": DIGEST}}
    },
    "settings": {"config": {"plan": {"costOrder": "fewest-pods"}, "seats": {"bindSeconds": 90}}},
    "monitoring": {
        "monitoring": {
            "podMonitor": {"enabled": True},
            "rules": {"enabled": True},
            "dashboard": {"enabled": True},
        }
    },
    "gRPC on a port": {
        "grpc": {
            "listen": "0.0.0.0:9090",
            "clients": [{"podSelector": {"matchLabels": {"app": "x"}}}],
        }
    },
}
NOT_HERE = {
    ("deployment", "bind barrier"),
    ("deployment", "bind barrier for every pod"),
    ("deployment", "all groups and barrier"),
    ("static-pod", "own record key"),
    ("static-pod", "generated record key"),
    # A port that others reach needs certificates, which only the Deployment has.
    ("second-scheduler", "gRPC on a port"),
    ("static-pod", "gRPC on a port"),
}


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mode", MODES)
def test_check_passes(helm: Helm, mode: str, variant: str, tmp_path: Path) -> None:
    if (mode, variant) in NOT_HERE:
        assert helm.template({"mode": mode, **VARIANTS[variant]}).returncode == 1
        return
    objects = helm.objects({**PINNED, **VARIANTS[variant], "mode": mode})
    # Warnings too: with addresses and digests filled in, nothing is left to say but hints.
    found = {f.rule for f in findings(objects, mode, tmp_path) if f.severity != "hint"}
    # The price of the Deployment, and why it needs an ignorable entry: docs/operations.md.
    assert found == ({"ignorable-filter"} if mode == "deployment" else set())


def test_the_pod_of_helm_test_goes_when_it_has_passed() -> None:
    """One that failed stays for its log, and "What stays" says so."""
    pod = (CHART / "templates/tests/check.yaml").read_text()
    assert "helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded\n" in pod
    name = re.search(r"(?m)^  name: (.*)", pod)
    assert name is not None
    stays = (CHART.parents[1] / "docs/install.md").read_text().partition("## Removing")[2]
    assert f"Pod `{name[1]}`" in stays.partition("\n## ")[0]


@pytest.mark.parametrize("mode", MODES)
def test_defaults_are_warned_about_but_not_wrong(helm: Helm, mode: str, tmp_path: Path) -> None:
    found = findings(helm.objects({"mode": mode}), mode, tmp_path)
    assert {f.severity for f in found} <= {"warning", "hint"}


def test_manifests_are_what_the_chart_gives(helm_program: Path) -> None:
    assert manifests.main(["--check", "--helm", str(helm_program)]) == 0


def test_a_changed_manifest_is_noticed(
    helm_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        (manifests.MANIFESTS / "kustomization.yaml").read_text()
    )
    monkeypatch.setattr(manifests, "MANIFESTS", tmp_path)
    assert manifests.main(["--check", "--helm", str(helm_program)]) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "daemonset"}, "mode"),
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": 10}, "replicas"),  # A roll-out needs one more, and the quota has ten.
        ({"image": {"digest": "sha256:abc"}}, "digest"),
        ({"image": {"repository": "x@sha256:abc"}}, "repository"),
        ({"priorityClassName": "low"}, "priorityClassName"),
        ({"scheduler": {"name": "default-scheduler"}}, "name"),
        ({"scheduler": {"percentageOfNodesToScore": 101}}, "percentageOfNodesToScore"),
        ({"scheduler": {"percentageOfNodesToScore": "10"}}, "percentageOfNodesToScore"),
        *(
            ({"scheduler": {"extraArgs": [word]}}, "extraArgs")
            for word in (
                "--leader-elect=false",
                "--leader_elect=false",
                "--leader-elect-resource-name=kube-scheduler",
                "--config=/tmp/x",
                "--secure-port=0",
                "--authorization-always-allow-paths=/*",
                "--master=http://x",
                "--write-config-to=/tmp/x",
                "--",
            )
        ),
        ({"networkPolicy": {"schedulerCIDRs": []}}, "schedulerCIDRs"),
        ({"networkPolicy": {"traces": {"ports": []}}}, "ports"),
        ({"networkPolicy": {"traces": {"receivers": [{}]}}}, "receivers"),
        ({"grpc": {"listen": "9090"}}, "listen"),
        ({"mode": "deployment", "bindBarrier": {"enabled": True}}, "bindBarrier.enabled"),
        ({"mode": "static-pod", "recordKey": {"generate": True}}, "staticPod.recordKeyFile"),
        ({"recordKey": {"generate": True, "existingSecret": "x"}}, "one key signs"),
        ({"config": {"leadership": {"enabled": False}}}, "leadership.enabled"),
        ({"config": {"plan": {"seconds": 5}}}, "httpTimeoutSeconds"),
        ({"config": {"server": {"host": "0.0.0.0"}}}, "config.server.host"),
        ({"config": {"server": {"port": 9000}}}, "config.server.port"),
        ({"config": {"server": {"healthPort": 9001}}}, "config.server.healthPort"),
        ({"config": {"server": {"healthPort": None}}}, "config.server.healthPort"),
        # What the program would refuse at its start, when the old pods are about to go.
        ({"config": {"plan": {"secnods": 2}}}, "secnods"),
        ({"config": {"enforce": {"namespace": {}}}}, "'namespace' not allowed"),
        ({"config": {"mode": "observ"}}, "'enforce', 'observe'"),
        ({"config": {"plan": 3}}, "/config/plan': got number, want object"),
        ({"config": {"plan": {"seconds": "2.5"}}}, "/config/plan/seconds': got string"),
        ({"config": {"leadership": True}}, "/config/leadership': got boolean"),
        ({"config": {"plan": {"seconds": -1}}}, "/config/plan/seconds': minimum"),
        ({"config": {"fairness": {"idleShare": 1.5}}}, "/config/fairness/idleShare': maximum"),
        ({"config": {"leadership": {"namespace": "b"}}}, "config.leadership.namespace is b"),
        ({"config": {"seats": {"recordNamespace": "b"}}}, "config.seats.recordNamespace is b"),
        ({"config": {"status": {"namespace": "b"}}}, "config.status.namespace is b"),
        ({"config": {"observe": {"file": "/x"}}}, "config.observe.file"),
        # What the pods, rights and files of this chart know nothing of.
        ({"config": {"observe": {"file": "/x/y"}, "mode": "observe"}}, "root is read-only"),
        ({"config": {"server": {"host": "127.0.0.1.example.com"}}}, "config.server.host"),
        ({"config": {"bind": {"enabled": True}}}, "bindBarrier.enabled"),
        ({"config": {"bind": {"enabled": True}, "mode": "observe"}}, "bindBarrier.enabled"),
        ({**BARRIER, "config": {"bind": {"enabled": False}}}, "bindBarrier.enabled"),
        ({**BARRIER, "config": {"bind": {"holdSeconds": 35}}}, "bindBarrier.httpTimeoutSeconds"),
        ({"config": {"seats": {"recordKeyFile": "/etc/key"}}}, "say it as recordKey"),
        (
            {"mode": "deployment", "config": {"leadership": {"labelPod": False}}},
            "leadership.labelPod is false",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(helm: Helm, values: dict[str, Any], said: str) -> None:
    done = helm.template(values)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_value_that_is_taken_out_is_told(helm: Helm) -> None:
    """Null: without a mode files of three modes were rendered, without replicas there were none."""

    def refused(name: str) -> bool:
        done = helm.template({}, "--set-json", f"{name}=null")
        assert (
            done.returncode == 0 or f"missing property '{name.rpartition('.')[2]}'" in done.stderr
        )
        return done.returncode != 0

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {name for name in values if not refused(name)} == {
        *("imagePullSecrets", "resources", "nodeSelector", "tolerations", "podLabels"),
    }
    assert refused("scheduler.httpTimeoutSeconds")
    assert refused("monitoring.rules.enabled")


def test_every_documented_setting_passes_the_schema(helm: Helm) -> None:
    """The defaults of all keys, and what documents show that is no default."""
    settings = msgspec.to_builtins(Settings())
    for key in ("server", "leadership", "observe"):
        del settings[key]  # The modes' own, which the chart lays down.
    rules = {"default": {"namespaces": None}, "DaemonSet": {"preemptorsBelow": 2_000_000}}
    enforce = {"namespaces": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}
    values = {"config": {**settings, "policy": {"optOut": rules}, "enforce": enforce}}
    done = helm.template(values)
    assert done.returncode == 0, done.stderr


def test_every_value_is_described_by_the_schema_and_used(helm: Helm) -> None:
    """Unknown keys are refused at each level, so values.yaml passing means that all are known."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert helm.template(values).returncode == 0
    text = "".join(p.read_text() for p in (CHART / "templates").rglob("*.*"))
    unused = [
        f"{key}.{inner}"
        for key, value in values.items()
        if isinstance(value, dict) and key not in ("config", "resources", "nodeSelector")
        for inner in value
        if not re.search(rf"\b{key}\.{inner}\b|\$image\.{inner}\b", text)
    ]
    assert unused == []


def test_scheduler_is_of_the_clusters_version(helm: Helm) -> None:
    for asked, used in (("v1.36.3", "v1.36.3"), ("v1.37.0-eks-1a2b3c", "v1.37.0")):
        done = helm.template({}, "--kube-version", asked)
        assert f"registry.k8s.io/kube-scheduler:{used}\n" in done.stdout, done.stderr
    assert helm.template({}, "--kube-version", "v1.33.9").returncode != 0


@pytest.mark.parametrize(
    ("cluster", "tag", "given"),
    [
        ("v1.34.4", "", False),
        ("v1.34.4-gke.1", "", False),
        ("v1.35.4", "", True),
        ("v1.37.0", "", True),
        # A kube-scheduler one minor behind its API server.
        ("v1.35.4", "v1.34.4", False),
        ("v1.35.4", "patched", True),
    ],
)
def test_no_gate_is_given_that_the_scheduler_does_not_know(
    helm: Helm, cluster: str, tag: str, *, given: bool
) -> None:
    """One that is unknown keeps kube-scheduler from starting: extender/check/scheduler_rules.py."""
    values = {"scheduler": {"image": {"tag": tag}}} if tag else {}
    for mode in ("second-scheduler", "static-pod"):
        done = helm.template({"mode": mode, **values}, "--kube-version", cluster)
        assert done.returncode == 0, done.stderr
        assert ("GenericWorkload=false" in done.stdout) is given


@pytest.mark.parametrize("mode", MODES)
def test_kube_scheduler_looks_at_as_many_nodes_as_asked(
    helm: Helm, mode: str, tmp_path: Path
) -> None:
    def asked(**scheduler: Any) -> Any:
        values = {"mode": mode, "scheduler": {"image": {"digest": DIGEST}, **scheduler}}
        objects = helm.objects({**PINNED, **values})
        lay_out(objects, mode, tmp_path)
        configuration = yaml.safe_load((tmp_path / "kube-scheduler-config.yaml").read_text())
        return configuration.get("percentageOfNodesToScore")

    # Nothing said is kube-scheduler's own rule.
    assert asked() is None
    assert asked(percentageOfNodesToScore=0) is None
    assert asked(percentageOfNodesToScore=10) == 10


def test_a_changed_configuration_rolls_the_pods_out(helm: Helm) -> None:
    def mark(values: dict[str, Any]) -> str:
        pod = named(helm.objects(values), "Deployment", "podgroup-scheduler")["spec"]["template"]
        return str(pod["metadata"]["annotations"]["podgroup-extender.io/config"])

    marks = {mark(v) for v in ({}, {"config": {"plan": {"seconds": 2}}}, BARRIER)}
    assert len(marks) == 3
    assert mark({}) == mark({"podDisruptionBudget": {"enabled": False}})


def test_settings_are_laid_over_the_modes_own(helm: Helm) -> None:
    objects = helm.objects(
        {"mode": "static-pod", "config": {"plan": {"protectedNamespaces": ["a"], "seconds": 2}}}
    )
    config = yaml.safe_load(host_file(objects, "extender-config.yaml"))
    assert config["plan"] == {"seconds": 2, "pdbPolicy": "respect", "protectedNamespaces": ["a"]}
    assert config["leadership"] == {"enabled": True}
    assert config["server"]["host"] == "127.0.0.1"


def test_everything_is_in_the_releases_namespace(helm: Helm) -> None:
    for mode in MODES:
        done = helm.template({"mode": mode}, "--namespace", "elsewhere")
        spaces = {
            each["metadata"].get("namespace") for each in yaml.safe_load_all(done.stdout) if each
        }
        assert spaces <= {"elsewhere", "kube-system", None}
        assert "namespace: podgroup-extender\n" not in done.stdout


@pytest.mark.parametrize("mode", ["second-scheduler", "deployment"])
def test_traces_may_leave_where_they_are_sent(helm: Helm, mode: str) -> None:
    """The policy lets the pods reach the receiver of config.tracing, and nobody without one."""
    config = {"tracing": {"endpoint": "http://collector.telemetry:4318/v1/traces"}}
    receivers = [{"namespaceSelector": {"matchLabels": {"name": "telemetry"}}}]

    def ways(values: dict[str, Any]) -> list[dict[str, Any]]:
        objects = helm.objects({"mode": mode, "networkPolicy": {"dns": False}, **values})
        (policy,) = (
            e["spec"] for e in objects if e["kind"] == "NetworkPolicy" and e["spec"].get("ingress")
        )
        found: list[dict[str, Any]] = policy["egress"]
        return found

    (api_server,) = ways({})
    plain = [{"protocol": "TCP", "port": 4318}]
    assert ways({"config": config}) == [api_server, {"ports": plain}]
    traces = {"receivers": receivers, "ports": [14318]}
    policy = {"dns": False, "traces": traces}
    assert ways({"config": config, "networkPolicy": policy}) == [
        api_server,
        {"ports": [{"protocol": "TCP", "port": 14318}], "to": receivers},
    ]
    # What is not sent needs no way out.
    assert ways({"networkPolicy": policy}) == [api_server]


def test_chart_is_the_programs_version_and_the_tested_kubernetes(helm: Helm) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    done = helm.run("lint", "--strict", str(CHART), "--kube-version", NEWEST.version)
    assert done.returncode == 0, done.stdout


def test_the_release_test_asks_what_check_can_answer(
    helm: Helm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its command line, run on the files that it mounts."""
    from extender.app.main import main

    for mode in ("second-scheduler", "deployment"):
        objects = helm.objects({"mode": mode})
        pod = named(objects, "Pod", "podgroup-extender-check")["spec"]
        (container,) = pod["containers"]
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        for volume in pod["volumes"]:
            for kind, key in (("configMap", "name"), ("secret", "secretName")):
                if kind not in volume:
                    continue
                source = named(objects, kind[0].upper() + kind[1:], volume[kind][key])
                directory = tmp_path / mounts[volume["name"]].lstrip("/")
                directory.mkdir(parents=True, exist_ok=True)
                for name, text in (source.get("data") or source["stringData"]).items():
                    (directory / name).write_text(text)
        words = [word.replace("=/etc/", f"={tmp_path}/etc/") for word in container["args"]]
        assert main(words) == 0, capsys.readouterr().out


VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
GROUPS: list[dict[str, Any]] = yaml.safe_load((CHART / "files/ignored.yaml").read_text())["values"]
IGNORED = {
    mode: {name: d for g in GROUPS if mode in g["modes"] for name, d in g["defaults"].items()}
    for mode in MODES
}
PEERS = [{"podSelector": {"matchLabels": {"app": "x"}}}]
PORT = {"grpc.listen": "0.0.0.0:9090"}
TRACES = {"config": {"tracing": {"endpoint": "http://collector:4318/v1/traces"}}}
CHANGED: dict[str, Any] = {
    "imagePullSecrets": [{"name": "mine"}],
    "config": {"plan": {"seconds": 2}},
    "image.digest": DIGEST,
    "scheduler.image.digest": DIGEST,
    "scheduler.image.tag": "v1.34.4",
    "scheduler.extraArgs": ["--v=2"],
    "scheduler.resources": {"requests": {"cpu": "3"}},
    "scheduler.percentageOfNodesToScore": 10,
    "bindBarrier.managedResources": ["example.com/gpu"],
    "tls.allowedNames": ["someone"],
    "service.clusterIP": "10.96.0.7",
    "service.address": "10.96.0.8",
    "grpc.listen": "unix:/run/podgroup-extender/g.sock",
    "grpc.clients": PEERS,
    "networkPolicy.schedulerCIDRs": ["10.0.0.0/28"],
    "networkPolicy.apiServerCIDRs": ["10.0.0.0/28"],
    "networkPolicy.apiServerPorts": [8443],
    "networkPolicy.traces.receivers": PEERS,
    "networkPolicy.traces.ports": [14318],
    "verifier.image": "example.com/verifier:1.37",
    "verifier.resources": {"requests": {"cpu": "3"}},
    "staticPod.recordKeyFile": "/etc/podgroup-extender/records.key",
    "resources": {"requests": {"cpu": "3"}},
    "priorityClassName": "system-other",
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "nodeSelector": {"a": "b"},
    "tolerations": [],
    "monitoring.podMonitor.labels": {"a": "b"},
    "monitoring.podMonitor.authorization": {"credentials": {"name": "a", "key": "b"}},
    "monitoring.podMonitor.tlsConfig": {"insecureSkipVerify": True},
    "monitoring.rules.labels": {"a": "b"},
    "monitoring.dashboard.labels": {"a": "b"},
    "mode": "",
}
"""Another value than the default, where the schema asks for more than another text or number."""
BESIDE: dict[str, dict[str, Any]] = {
    "verifier.resources": {"verifier.image": "example.com/verifier:1.37"},
    "bindBarrier.managedResources": {"bindBarrier.enabled": True},
    "bindBarrier.httpTimeoutSeconds": {"bindBarrier.enabled": True},
    "grpc.clients": PORT,
    "networkPolicy.traces.receivers": TRACES,
    "networkPolicy.traces.ports": TRACES,
    **{
        f"monitoring.{of}.{name}": {f"monitoring.{of}.enabled": True}
        for of in ("podMonitor", "rules", "dashboard")
        for name in ("labels", "interval", "authorization", "tlsConfig", "runbooks")
    },
}
"""What a value needs beside it to mean anything at all."""


def leaves(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Name and default of each value; a map without keys of its own is one."""
    for key, value in values.items():
        name = f"{above}{key}"
        whole = name in CHANGED or not isinstance(value, dict) or not value
        if whole:
            yield name, value
        else:
            yield from leaves(value, f"{name}.")


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1}`` as values are written."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        place = reduce(lambda found, key: found.setdefault(key, {}), above, result)
        place[last] = value
    return result


def another(name: str, default: Any) -> Any:
    """A value that is not the default."""
    if name in CHANGED:
        return CHANGED[name]
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else f"{default or 'k'}8"


@pytest.mark.parametrize("mode", MODES)
def test_each_value_has_an_effect_or_is_named(helm: Helm, mode: str) -> None:
    """Refusing it is telling, too. The record key is random where it is made."""
    rendered: dict[str, str] = {}

    def text(flat: dict[str, Any]) -> str:
        key = repr(flat)
        if key not in rendered:
            done = helm.template(nested({"mode": mode, **flat}))
            # Refused by the chart is told; by the schema it would be this test's own mistake.
            assert "schema" not in done.stderr, done.stderr
            rendered[key] = done.stdout if done.returncode == 0 else f"refused: {done.stderr}"
        return rendered[key]

    silent, idle = set(), set()
    for name, default in leaves(VALUES):
        if name == "mode":
            continue
        beside = BESIDE.get(name, {})
        after = text({**beside, name: another(name, default)})
        before = text(beside)
        if before == after or (before.startswith("refused") and after.startswith("refused")):
            silent.add(name)
        elif not after.startswith("refused"):
            idle |= {name} & IGNORED[mode].keys()
    assert silent - IGNORED[mode].keys() == set(), "nothing comes of them, and nobody is told"
    assert idle == set(), "they do something, and are said to do nothing"


def test_the_tables_defaults_are_those_of_the_values() -> None:
    defaults = dict(leaves(VALUES))
    for mode in MODES:
        for name, default in IGNORED[mode].items():
            assert defaults[name] == default, name
    assert {mode for group in GROUPS for mode in group["modes"]} <= set(MODES)


@pytest.mark.parametrize("mode", MODES)
def test_notes_name_what_is_ignored_and_nothing_else(helm: Helm, mode: str, tmp_path: Path) -> None:
    assert "Ignored in this mode" not in helm.notes({"mode": mode}, tmp_path)
    changed = {
        name: another(name, default)
        for name, default in leaves(VALUES)
        if any(name in IGNORED[each] for each in MODES)
    }
    notes = helm.notes(nested({"mode": mode, **changed}), tmp_path)
    _, _, listed = notes.partition("Ignored in this mode:\n")
    told = {
        line.split(":")[0].strip()
        for line in listed.partition("\n\n")[0].splitlines()
        if line.startswith("  ")
    }
    assert told == IGNORED[mode].keys()


@pytest.mark.parametrize("mode", MODES)
def test_notes_say_that_the_runbooks_links_lead_nowhere(
    helm: Helm, mode: str, tmp_path: Path
) -> None:
    def told(**rules: Any) -> bool:
        values = {"mode": mode, "monitoring": {"rules": rules}}
        return "monitoring.rules.runbooks" in helm.notes(values, tmp_path)

    assert told(enabled=True)
    assert not told(enabled=False)
    assert not told(enabled=True, runbooks="https://wiki/runbooks")


def test_a_static_pod_is_what_the_values_say(helm: Helm) -> None:
    def pod(**values: Any) -> dict[str, Any]:
        objects = helm.objects({"mode": "static-pod", **values})
        found: dict[str, Any] = yaml.safe_load(host_file(objects, "kube-scheduler.yaml"))
        return found

    plain = pod()
    assert plain["spec"]["priorityClassName"] == "system-node-critical"
    (scheduler,) = plain["spec"]["containers"]
    assert scheduler["resources"] == {"requests": {"cpu": "100m"}}
    mark = plain["metadata"]["annotations"]["podgroup-extender.io/config"]
    changed = pod(
        podLabels={"team": "a"},
        podAnnotations={"note": "b"},
        priorityClassName="system-cluster-critical",
        scheduler={"resources": {"limits": {"memory": "8Gi"}}},
        config={"plan": {"seconds": 2}},
    )
    assert changed["metadata"]["labels"] == {**plain["metadata"]["labels"], "team": "a"}
    assert changed["metadata"]["annotations"]["note"] == "b"
    # kubelet looks at this file alone, so a changed configuration has to change it.
    assert changed["metadata"]["annotations"]["podgroup-extender.io/config"] != mark
    assert changed["spec"]["priorityClassName"] == "system-cluster-critical"
    (scheduler,) = changed["spec"]["containers"]
    assert scheduler["resources"] == {"requests": {"cpu": "100m"}, "limits": {"memory": "8Gi"}}


@pytest.mark.parametrize(
    "key",
    [
        "app.kubernetes.io/name",
        "app.kubernetes.io/component",
        "podgroup-extender.io/leader",
        "component",
        "tier",
    ],
)
def test_labels_by_which_the_pods_are_known_are_refused(helm: Helm, key: str) -> None:
    """The Service, policies and budgets select by them, and each would be a key twice."""
    done = helm.template({"podLabels": {key: "true"}})
    assert done.returncode != 0
    assert "podLabels" in done.stderr
    assert helm.template({"podLabels": {"app.kubernetes.io/part-of": "x"}}).returncode == 0


def test_annotations_for_prometheus_are_the_users_where_given(helm: Helm) -> None:
    values = {"mode": "deployment", "podAnnotations": {"prometheus.io/scrape": "false"}}
    done = helm.template(values)
    assert done.stdout.count("prometheus.io/scrape") == 1
    pod = named(helm.objects(values), "Deployment", "podgroup-extender")["spec"]["template"]
    assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "false"
    assert helm.template({"podAnnotations": {"podgroup-extender.io/config": "x"}}).returncode != 0


OBSERVE: dict[str, Any] = {
    "config": {"mode": "observe"},
    "image": {"digest": DIGEST},
    "scheduler": {"image": {"digest": DIGEST}},
    "networkPolicy": {"schedulerCIDRs": ["10.0.0.0/28"], "apiServerCIDRs": ["10.0.0.0/28"]},
}
READS = {"get", "list", "watch"}


@pytest.mark.parametrize("mode", MODES)
def test_check_has_only_hints(helm: Helm, mode: str, tmp_path: Path) -> None:
    objects = helm.objects({**OBSERVE, "mode": mode})
    found = {f.rule for f in findings(objects, mode, tmp_path) if f.severity != "hint"}
    assert found == set()


@pytest.mark.parametrize("mode", MODES)
def test_kube_scheduler_goes_on_without_an_answer(helm: Helm, mode: str, tmp_path: Path) -> None:
    lay_out(helm.objects({**OBSERVE, "mode": mode}), mode, tmp_path)
    configuration = yaml.safe_load((tmp_path / "kube-scheduler-config.yaml").read_text())
    assert [entry["ignorable"] for entry in configuration["extenders"]] in ([True], [True, True])


@pytest.mark.parametrize("mode", MODES)
def test_the_extenders_own_rights_only_read(helm: Helm, mode: str) -> None:
    """kube-scheduler's, in the same pod, are its own."""
    objects = helm.objects({**OBSERVE, "mode": mode, "rbac": {"otherGroups": True}})
    roles = [e for e in objects if e["kind"] in ("Role", "ClusterRole") and "rules" in e]
    granted = {
        verb
        for role in roles
        if role["metadata"]["name"].startswith("podgroup-extender")
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert granted <= READS
    bound = {e["roleRef"]["name"] for e in objects if e["kind"].endswith("Binding")}
    assert "system:auth-delegator" not in bound


def test_the_service_leads_to_who_observes(helm: Helm) -> None:
    """Nobody leads there, so nobody wears the leader's label: the Service would lead nowhere."""
    objects = helm.objects({**OBSERVE, "mode": "deployment"})
    selector = named(objects, "Service", "podgroup-extender")["spec"]["selector"]
    pod = named(objects, "Deployment", "podgroup-extender")["spec"]["template"]["metadata"]
    assert selector.items() <= pod["labels"].items()


@pytest.mark.parametrize(
    ("mode", "name"),
    [("second-scheduler", "podgroup-scheduler"), ("deployment", "podgroup-extender")],
)
def test_one_counts_and_keeps_what_it_has_counted(helm: Helm, mode: str, name: str) -> None:
    objects = helm.objects({**OBSERVE, "mode": mode, "replicas": 3})
    spec = named(objects, "Deployment", name)["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    (extender,) = [each for each in containers if each["name"] == "extender"]
    mounts = {each["name"]: each["mountPath"] for each in extender["volumeMounts"]}
    kept = yaml.safe_load(
        named(objects, "ConfigMap", "podgroup-extender-config")["data"]["config.yaml"]
    )
    assert kept["observe"]["file"] == f"{mounts['observed']}/observe.json"
    assert {"name": "observed", "emptyDir": {"sizeLimit": "256Mi"}} in pod["volumes"]
    budget = named(objects, "PodDisruptionBudget", name)["spec"]
    assert "minAvailable" not in budget


def test_a_static_pod_keeps_it_too(helm: Helm) -> None:
    objects = helm.objects({**OBSERVE, "mode": "static-pod"})
    pod = yaml.safe_load(host_file(objects, "kube-scheduler.yaml"))["spec"]
    (extender,) = pod["initContainers"]
    assert {"name": "observed", "mountPath": "/var/lib/podgroup-extender"} in extender[
        "volumeMounts"
    ]
    assert {"name": "observed", "emptyDir": {"sizeLimit": "256Mi"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bindBarrier": {"enabled": True}}, "bindBarrier.enabled: a binding is a write"),
        ({"grpc": {"listen": "unix:/run/podgroup-extender/g.sock"}}, "grpc.listen: observe mode"),
    ],
)
def test_what_would_write_is_refused(helm: Helm, more: dict[str, Any], said: str) -> None:
    done = helm.template({**OBSERVE, **more})
    assert done.returncode != 0
    assert said in done.stderr


def test_the_schema_of_config_is_the_programs() -> None:
    assert values_schema.main(["--check"]) == 0


def test_ranges_that_the_program_tells_are_the_schemas() -> None:
    """Every number that -1 is refused for by a rule of its own has a range in the schema."""
    shapes = json.loads(values_schema.SCHEMA.read_text())["definitions"]
    ranges = ("minimum", "exclusiveMinimum")
    others = {  # They depend on another setting.
        *("server.maxBytesInFlight", "plan.longestRetrySeconds"),
        *("leadership.renewSeconds", "status.heartbeatSeconds"),
    }
    without = set()
    for section, shape in shapes["Settings"]["properties"].items():
        name = shape.get("$ref", "").rpartition("/")[2]
        for key, value in shapes.get(name, {}).get("properties", {}).items():
            try:
                validate(msgspec.convert({section: {key: -1}}, Settings))
            except msgspec.ValidationError:
                assert value.get("type") not in ("number", "integer"), key
            except InvalidInput:
                if not any(word in value for word in ranges):
                    without.add(f"{section}.{key}")
    assert without == others


def test_a_changed_setting_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "values.schema.json"
    stale.write_text(values_schema.SCHEMA.read_text().replace('"costOrder"', '"costOrdr"'))
    monkeypatch.setattr(values_schema, "SCHEMA", stale)
    assert values_schema.main(["--check"]) == 1


SOCKETS = ("/run/podgroup-extender", "/tmp", "/tmp/deeper")
NAMES = {"second-scheduler": "podgroup-scheduler", "deployment": "podgroup-extender"}


def pod(objects: list[dict[str, Any]], mode: str) -> dict[str, Any]:
    """The spec of the extender's pod."""
    if mode == "static-pod":
        found: dict[str, Any] = yaml.safe_load(host_file(objects, "kube-scheduler.yaml"))["spec"]
        return found
    spec: dict[str, Any] = named(objects, "Deployment", NAMES[mode])["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("directory", SOCKETS)
@pytest.mark.parametrize("mode", MODES)
def test_every_container_that_uses_it_has_the_directory(
    helm: Helm, mode: str, directory: str, tmp_path: Path
) -> None:
    values = {"mode": mode, "grpc": {"listen": f"unix:{directory}/g.sock"}}
    objects = helm.objects(values)
    assert "socket-unmounted" not in {f.rule for f in findings(objects, mode, tmp_path)}
    spec = pod(objects, mode)
    volumes = {each["name"] for each in spec["volumes"] if "emptyDir" in each}
    shared: set[str] = set()
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        places = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len(set(places)) == len(places), "two volumes at one place are refused"
        (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == directory)
        assert not mount.get("readOnly")
        assert mount["name"] in volumes
        shared.add(mount["name"])
    # One volume: another one at the same place would be another, empty directory.
    assert len(shared) == 1


@pytest.mark.parametrize("mode", MODES)
def test_check_tells_of_a_socket_without_a_directory(helm: Helm, mode: str, tmp_path: Path) -> None:
    values = {"mode": mode, "grpc": {"listen": "unix:/run/podgroup-extender/g.sock"}}
    objects = helm.objects(values)
    text = yaml.safe_dump_all(objects).replace(
        "/run/podgroup-extender/g.sock", "/run/elsewhere/g.sock"
    )
    moved = list(yaml.safe_load_all(text))
    assert "socket-unmounted" in {f.rule for f in findings(moved, mode, tmp_path)}


@pytest.mark.parametrize(
    "listen",
    ["unix:/etc/podgroup-extender/g.sock", "unix:/var/run/secrets/g.sock", "unix:/run/g.sock"],
)
def test_a_directory_that_the_pod_needs_is_not_hidden(helm: Helm, listen: str) -> None:
    done = helm.template({"grpc": {"listen": listen}})
    assert done.returncode != 0
    assert "grpc.listen: an empty directory is mounted" in done.stderr


def test_the_address_is_said_where_the_volumes_go_by_it(helm: Helm) -> None:
    done = helm.template({"config": {"grpc": {"listen": "unix:/run/podgroup-extender/g.sock"}}})
    assert done.returncode != 0
    assert "config.grpc.listen" in done.stderr


TEXTS = frozenset(
    (
        *("namespace", "recordNamespace", "resourceNamespace", "name", "schedulerName"),
        *("secretName", "image", "cidr", "interval", "priorityClassName", "recordKeyFile"),
        *("clusterIP", "listen", "mountPath"),
    )
)
ODD: dict[str, Any] = {
    "image": {"repository": "[fd00::5]:5000/podgroup-extender"},
    "scheduler": {"name": "123", "image": {"repository": "[fd00::5]:5000/kube-scheduler"}},
    "recordKey": {"existingSecret": "true"},
    "tls": {"secretName": "1e3"},
    "priorityClassName": "system-a: b",
    "networkPolicy": {"schedulerCIDRs": ["::/0", "fd00::/8"], "apiServerCIDRs": ["::1/128"]},
    "monitoring": {"podMonitor": {"enabled": True, "interval": "30"}, "rules": {"enabled": True}},
    "rbac": {"otherGroups": True},
    "namespace": {"create": True},
    "staticPod": {"recordKeyFile": "/etc/podgroup-extender/a: b #c"},
}


def places(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Where each scalar stands, in files that an object carries too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from places(inner, f"{at}[]")
    elif isinstance(value, str) and at.endswith(".yaml"):
        for document in yaml.safe_load_all(value):
            yield from places(document, f"{at}:")
    else:
        yield at, value


@pytest.mark.parametrize("space", ["123", "1e3", "true", "null", "a" * 63])
@pytest.mark.parametrize("mode", MODES)
def test_texts_are_no_numbers(helm: Helm, mode: str, space: str) -> None:
    values = {**ODD, "mode": mode}
    if mode == "static-pod":
        del values["recordKey"]
    done = helm.template(values, "--namespace", space)
    assert done.returncode == 0, done.stderr
    found = list(places([each for each in yaml.safe_load_all(done.stdout) if each]))
    named = [(at, value) for at, value in found if at.rpartition(".")[2] in TEXTS]
    assert [(at, value) for at, value in named if not isinstance(value, str)] == []
    shown = {value for _, value in named}
    own = {"second-scheduler": {"123", "true"}, "deployment": {"1e3", "true", "::/0"}}
    assert shown >= own.get(mode, {"/etc/podgroup-extender/a: b #c"}) | {space}


@pytest.mark.parametrize("mode", MODES)
def test_the_configuration_has_the_odd_names(helm: Helm, mode: str) -> None:
    """As the program reads it."""
    done = helm.template({"mode": mode, "scheduler": {"name": "123"}}, "--namespace", "1e3")
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    if mode == "static-pod":
        text = host_file(objects, "extender-config.yaml")
    else:
        text = carried(objects, "ConfigMap", "podgroup-extender-config", "config.yaml")
    settings = config.parse(text)
    assert settings.plan.protected_namespaces == ("kube-system", "1e3")
    assert settings.scheduler_names == (("123",) if mode == MODES[0] else ("default-scheduler",))


def test_the_plugin_s_loopback_may_be_of_ipv6(helm: Helm) -> None:
    objects = helm.objects({"grpc": {"listen": "[::1]:9090"}})
    text = carried(objects, "ConfigMap", "podgroup-extender-config", "config.yaml")
    assert config.parse(text).grpc.listen == "[::1]:9090"


@pytest.mark.parametrize("key", ["clusterIP", "address"])
def test_an_address_of_ipv6_is_written_as_urls_have_it(helm: Helm, key: str) -> None:
    def prefixes(address: str) -> set[str]:
        objects = helm.objects({"mode": "deployment", "service": {key: address}})
        written = yaml.safe_load(host_file(objects, "kube-scheduler-config.yaml"))
        return {entry["urlPrefix"] for entry in written["extenders"]}

    assert prefixes("fd00::1") == {"https://[fd00::1]:8888"}
    assert prefixes("10.96.0.7") == {"https://10.96.0.7:8888"}
    if key == "address":
        assert prefixes("[fd00::1]") == {"https://[fd00::1]:8888"}
        assert prefixes("extender.example.com") == {"https://extender.example.com:8888"}


Key = tuple[str, str, str]
GENERATED = "podgroup-scheduler-config"


def by_key(text: str) -> dict[Key, Object]:
    """The objects of a stream, without what names a content: (kind, namespace, name) -> object."""
    # kustomize writes the content's hash behind the name, wherever the name is used.
    text = re.sub(rf"\b{GENERATED}-[a-z0-9]{{10}}\b", GENERATED, text)
    objects = [each for each in yaml.safe_load_all(text) if each]
    for each in objects:
        if each["kind"] == "ConfigMap":
            # Files, as they are read: one of them says in a comment where it comes from.
            each["data"] = {name: yaml.safe_load(file) for name, file in each["data"].items()}
    return {_key(each): each for each in objects}


def _key(each: Object) -> Key:
    metadata = each["metadata"]
    return each["kind"], metadata.get("namespace", ""), metadata["name"]


def built(kubectl: Path, directory: Path) -> dict[Key, Object]:
    """What kustomize makes of a directory."""
    done = subprocess.run(
        [str(kubectl), "kustomize", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def rendered(helm: Helm) -> dict[Key, Object]:
    """What Helm applies of the chart with the values that the manifests are rendered with."""
    words = [word for item in {**COMMON, **SECOND}.items() for word in ("--set", "=".join(item))]
    # Without the test of the release, which is no part of an installation.
    done = helm.template({}, *words, "--kube-version", kube_version(), "--skip-tests")
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


@pytest.fixture
def kustomize_helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


def test_kustomize_gives_what_helm_gives(kubectl: Path, kustomize_helm: Helm) -> None:
    ours, theirs = built(kubectl, MANIFESTS), rendered(kustomize_helm)
    assert ours.keys() == theirs.keys()
    different = {
        key: (json.dumps(ours[key], sort_keys=True), json.dumps(theirs[key], sort_keys=True))
        for key in ours
        if ours[key] != theirs[key]
    }
    assert not different


def test_a_difference_is_noticed(kubectl: Path, kustomize_helm: Helm, tmp_path: Path) -> None:
    """The comparison looks into the objects: one right more is one difference."""
    for path in MANIFESTS.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    rights = tmp_path / "rbac.yaml"
    rights.write_text(rights.read_text().replace("verbs: [get", "verbs: [deletecollection, get", 1))
    ours: dict[Key, Any] = built(kubectl, tmp_path)
    theirs = rendered(kustomize_helm)
    assert [key[0] for key in ours if ours[key] != theirs[key]] == ["ClusterRole"]
