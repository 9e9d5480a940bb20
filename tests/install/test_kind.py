"""The kind configuration, judged by kind itself, with a docker that can only say who it is.

kind reads, completes and validates a configuration before it makes the first container, and asks
Docker for nothing before that but its name and abilities.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.install.charts import NEWEST
from tests.packaging.manifests import ROOT
from tools.manifests import kube_version

CLUSTER = ROOT / "tests" / "kind" / "cluster.yaml"
SCRIPT = ROOT / "tests" / "kind" / "run"

DOCKER = """#!/bin/sh
echo "$*" >> "$0.log"
case "$1" in
-v | version | --version) echo "Docker version 29.0.0, build 0" ;;
info)
    echo '{"CgroupDriver": "systemd", "CgroupVersion": "2", "SecurityOptions": [],'
    echo ' "MemoryLimit": true, "PidsLimit": true, "CPUShares": true}'
    ;;
ps | network | inspect) ;;
*) exit 1 ;;
esac
"""


(NODE_IMAGE,) = re.findall(r"(?m)^node_image=(.*)$", SCRIPT.read_text())


def text() -> str:
    """The configuration as the script writes it."""
    return CLUSTER.read_text().replace("SYSTEM_CPU", '"4"')


def create(kind: Path, config: str, directory: Path) -> tuple[str, list[str]]:
    """What kind says, and what it asked of docker."""
    docker = directory / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    done = subprocess.run(
        [str(kind), "create", "cluster", "--config", "-", "--image", NODE_IMAGE],
        env={"HOME": str(directory), "PATH": f"{directory}:{os.environ['PATH']}"},
        input=config,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stderr, (directory / "docker.log").read_text().splitlines()


def images(asked: list[str]) -> bool:
    """Whether kind came as far as the nodes' image."""
    return any(NODE_IMAGE in line for line in asked)


def test_kind_takes_the_configuration(kind: Path, tmp_path: Path) -> None:
    said, asked = create(kind, text(), tmp_path)
    assert images(asked), said


def test_nodes_image_is_the_one_that_kind_was_released_with(kind: Path) -> None:
    """Version and digest are compiled into kind, and the version is the manifests' own."""
    assert NODE_IMAGE.encode() in kind.read_bytes()
    assert NODE_IMAGE.startswith(f"kindest/node:{kube_version()}@sha256:")


@pytest.mark.parametrize(
    "change",
    [
        ("role: worker", "role: labourer"),
        ("runtimeConfig:", "runtimeConfiguration:"),
        ("v1alpha4", "v1alpha9"),
    ],
)
def test_kind_would_have_refused_a_wrong_one(
    kind: Path, change: tuple[str, str], tmp_path: Path
) -> None:
    said, asked = create(kind, text().replace(*change), tmp_path)
    assert "ERROR" in said
    assert not images(asked)


def test_gates_are_those_of_the_release() -> None:
    document = yaml.safe_load(text())
    assert [gate for gate, on in document["featureGates"].items() if on] == [
        *NEWEST.apiserver_gates
    ]
    served = [f"{key}={value}" for key, value in document["runtimeConfig"].items()]
    assert served == [NEWEST.runtime_config]
    patch = yaml.safe_load(document["kubeadmConfigPatches"][0])
    assert patch == {"kind": "KubeletConfiguration", "systemReserved": {"cpu": "4"}}


def test_script_can_be_read_and_names_what_is_there() -> None:
    subprocess.run(["sh", "-n", str(SCRIPT)], check=True)
    for path in re.findall(r"\$here/([\w./-]+)", SCRIPT.read_text()):
        if not path.endswith("jobset-"):
            assert (ROOT / path).exists() or path == ".kind-kubeconfig", path
    minor = kube_version().removeprefix("v").rpartition(".")[0]
    assert (ROOT / "manifests" / "examples" / f"jobset-{minor}.yaml").exists()
