"""gRPC on a Unix socket: its directory is there, and kube-scheduler beside it reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install.charts import MODES, Helm, findings, host_file, named

SOCKETS = ("/run/podgroup-extender", "/tmp", "/tmp/deeper")
NAMES = {"second-scheduler": "podgroup-scheduler", "deployment": "podgroup-extender"}


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


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
