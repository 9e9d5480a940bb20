"""The kind configuration, judged by kind itself, and ``tests/kind/run`` played."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.scheduler import scheduler_config
from tests.install.charts import NEWEST
from tests.packaging.manifests import NAMESPACE, ROOT
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


CHECK = "podgroup-extender-check"
PLAYED_DOCKER = """#!/bin/sh
printf 'docker' >> "{log}"; printf ' %s' "$@" >> "{log}"; echo >> "{log}"
case "$*" in
*Config.User*) echo 65532:65532 ;;
*Config.Entrypoint*) echo '[podgroup-extender]' ;;
*Config.Cmd*) echo '[serve]' ;;
logs*) echo '{{"event":"serving"}}'; echo '{{"event":"stopped"}}' ;;
wait*) echo 0 ;;
*) echo c0ffee ;;
esac
"""
KIND = """#!/bin/sh
printf 'kind' >> "{log}"; printf ' %s' "$@" >> "{log}"; echo >> "{log}"
case "$1" in create) cp "{kubeconfig}" "$KUBECONFIG" ;; esac
"""


class Stage:
    """A PATH with the real and the played programs; ``log`` has what the played ones were told."""

    def __init__(self, folder: Path, kubeconfig: Path, real: dict[str, Path]) -> None:
        self.log = folder / "told.log"
        self.home = folder
        programs = folder / "bin"
        programs.mkdir()
        texts = {"docker": PLAYED_DOCKER, "kind": KIND, "nproc": "#!/bin/sh\necho 8\n"}
        for name, text in texts.items():
            path = programs / name
            path.write_text(text.format(log=self.log, kubeconfig=kubeconfig))
            path.chmod(0o755)
        for name, program in real.items():
            (programs / name).symlink_to(program)
        self.path = f"{programs}:{os.environ['PATH']}"

    def run(self) -> subprocess.CompletedProcess[str]:
        """The script; the caller looks at the exit status."""
        return subprocess.run(
            [str(SCRIPT)],
            env={"PATH": self.path, "HOME": str(self.home), "TMPDIR": str(self.home)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def told(self) -> list[list[str]]:
        """The played programs' command lines, in order."""
        return [line.split() for line in self.log.read_text().splitlines()]


@pytest.fixture
def stage(cluster: Cluster, helm_program: Path, kubectl: Path, tmp_path: Path) -> Iterator[Stage]:
    kubeconfig = yaml.safe_load(cluster.control_plane.kubeconfig.read_text())
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = cluster.namespace  # which is emptied afterwards
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    made = Stage(tmp_path, own, {"helm": helm_program, "kubectl": kubectl})
    yield made
    environment = {"PATH": made.path, "HOME": str(made.home), "KUBECONFIG": str(own)}
    words = ("uninstall", "podgroup-extender", "--namespace", NAMESPACE, "--ignore-not-found")
    subprocess.run([str(helm_program), *words], env=environment, check=False, timeout=60)


async def end_the_releases_test(cluster: Cluster) -> None:
    """As kubelet would, once what is in the pod has ended; test_chart.py runs that."""
    client = cluster.client

    def runs() -> bool:
        found = client.get_or_none("Pod", CHECK, NAMESPACE)
        return found is not None and found["status"]["phase"] == "Running"

    await asyncio.to_thread(client.wait_for, runs, 120, "the check's pod")
    ended = {"status": {"phase": "Succeeded"}}
    await asyncio.to_thread(
        lambda: client.patch("Pod", CHECK, ended, namespace=NAMESPACE, subresource="status")
    )


async def test_script_plays_the_reference_scenario(
    stage: Stage, cluster: Cluster, kind: Path, tmp_path: Path
) -> None:
    if cluster.release.minor != "1.37":
        pytest.skip("the script's node image is of 1.37")
    cluster.nodes(4, cpu=4)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    cluster.nodes(1, cpu=4, prefix="control-plane", taints=[taint], labels={taint["key"]: ""})
    settings = replace(
        Settings(),
        scheduler_names=("podgroup-scheduler",),
        seats=SeatSettings(record_namespace=cluster.namespace),
    )
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, settings)
    try:
        await extender.start()
        config = scheduler_config(extender.url)
        names = ("default-scheduler", "podgroup-scheduler")
        config["profiles"] = [{"schedulerName": name} for name in names]
        await asyncio.to_thread(cluster.use_scheduler, config)
        kubelet = asyncio.create_task(end_the_releases_test(cluster))
        done = await asyncio.to_thread(stage.run)
        assert done.returncode == 0, done.stderr + done.stdout
        await kubelet
    finally:
        await extender.close()
    assert done.stdout.splitlines()[-1].startswith("OK  all four low pods went")
    assert [words[1:3] for words in stage.told() if words[0] == "kind"] == [
        ["get", "clusters"],
        ["create", "cluster"],
        ["load", "docker-image"],
        ["delete", "cluster"],
    ]
    for words in stage.told():
        own = options(words)
        program = {"kind": str(kind), "docker": shutil.which("docker")}[words[0]]
        # Docker's command says what it knows without a daemon; it may be missing here.
        if program is not None:
            assert own <= known(program, *verb(words)), words


def verb(words: list[str]) -> list[str]:
    """The subcommand of a command line: one word of docker's, or two."""
    two = words[0] == "kind" or words[1] == "image"
    return words[1:3] if two else words[1:2]


def options(words: list[str]) -> set[str]:
    """The options of a command line, without those for what is run in a container."""
    image = next((i for i, word in enumerate(words) if word.startswith("podgroup-extender:")), None)
    ahead = words[:image] if words[1] == "run" else words
    return {word.partition("=")[0] for word in ahead if word.startswith("--")}


def known(program: str, *words: str) -> set[str]:
    """The options that a program says it has."""
    done = subprocess.run(
        [program, *words, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    return set(re.findall(r"(--[a-z][\w-]*)", done.stdout + done.stderr))
