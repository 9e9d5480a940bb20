"""No value does nothing in silence: it changes what is rendered, or the mode's notes name it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install.charts import CHART, DIGEST, MODES, Helm, host_file, named

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


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


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
