"""Names that YAML reads as something else, and addresses of IPv6: what is a text stays one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.check import config
from tests.install.charts import MODES, Helm, carried, host_file

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


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


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
