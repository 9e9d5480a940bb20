"""``kubectl gang`` with the real kubectl, from the archive that Krew unpacks, against a real API
server that forwards to the extender's pod. kubelet is played (tests/cli/forwarding_node.py), and so
is Krew: it unpacks the archive and links the program that the manifest names into a directory on
PATH."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import Settings
from tests.cli.forwarding_node import ForwardingNode, documented_rules
from tests.controlplane.cluster import Cluster
from tests.packaging.manifests import ROOT
from tools.krew_archive import MANIFEST, archive

PROGRAM = """#!/bin/sh
PYTHONPATH={root} exec {python} -m extender.app.main "$@"
"""


class Desk:
    """Somebody's machine: kubectl, the plugin and the program on PATH, and a kubeconfig."""

    def __init__(self, folder: Path, kubectl: Path, kubeconfig: str, namespace: str) -> None:
        store, self.programs = folder / "store", folder / "bin"
        self.programs.mkdir()
        (plugin,) = yaml.safe_load(MANIFEST.read_text())["spec"]["platforms"]
        with tarfile.open(fileobj=io.BytesIO(archive())) as packed:
            # The parameter came with Python 3.11.4; the archive is our own.
            if hasattr(tarfile, "data_filter"):
                packed.extractall(store, filter="data")
            else:
                packed.extractall(store)
        (self.programs / "kubectl-gang").symlink_to(store / plugin["bin"])
        (self.programs / "kubectl").symlink_to(kubectl)
        program = self.programs / "podgroup-extender"
        program.write_text(PROGRAM.format(root=ROOT, python=sys.executable))
        program.chmod(0o755)
        self._environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": kubeconfig,
        }
        self._where = ("--extender-namespace", namespace)

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        return subprocess.run(
            [str(self.programs / "kubectl"), *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def gang(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``kubectl gang``."""
        return self.kubectl("gang", *words, *self._where)


@pytest.fixture
async def desk(cluster: Cluster, kubectl: Path, tmp_path: Path) -> AsyncIterator[Desk]:
    cluster.priority_classes(low=1)
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, Settings())
    async with ForwardingNode(cluster) as node:
        try:
            await extender.start()
            node.pod("a", urlsplit(extender.url).port or 0)
            kubeconfig = await asyncio.to_thread(node.reader, documented_rules())
            yield Desk(tmp_path, kubectl, kubeconfig, cluster.namespace)
        finally:
            await extender.close()


async def test_kubectl_finds_the_plugin_and_it_asks_the_server(desk: Desk) -> None:
    listed = await asyncio.to_thread(desk.kubectl, "plugin", "list")
    assert str(desk.programs / "kubectl-gang") in listed.stdout
    assert "warning" not in listed.stderr.lower()
    gangs = await asyncio.to_thread(desk.gang, "gangs", "-o", "json")
    assert gangs.returncode == 0, gangs.stderr
    assert json.loads(gangs.stdout) == {"gangs": []}
    why = await asyncio.to_thread(desk.gang, "why", "nobody")
    assert why.returncode == 1
    assert "no pod or gang 'nobody' is known" in why.stderr
