"""What the chart renders: safe by ``check``, the values do what they say, bad ones are refused.

See docs/security.md, row 13.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender import __version__
from extender.settings.settings import Settings
from tests.install.charts import (
    CHART,
    DIGEST,
    MODES,
    NEWEST,
    Helm,
    findings,
    host_file,
    lay_out,
    named,
)
from tools import manifests

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
