"""Every packaged scenario holds on a real kube-scheduler, for each Kubernetes version.

The extender runs with the rights that manifests/rbac.yaml gives it and no others.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.model.settings import SeatSettings, Settings
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.scenario_file import configured, load, packaged
from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.scenarios.playing import play


@pytest.fixture
def rights(cluster: Cluster) -> Cluster:
    """The manifest's rules, bound to the test bed's user for the extender."""
    grant_manifest(cluster.client)
    return cluster


@pytest.mark.real
@pytest.mark.parametrize("name", packaged())
async def test_scenario(name: str, rights: Cluster, tmp_path: Path) -> None:
    scenario = load(packaged()[name])
    settings = configured(
        scenario, replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
    )
    control_plane = rights.control_plane
    hooks = ExtenderProcess(tmp_path, control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(rights.use_extender, hooks.url)
        async with await KubeClient.connect(str(control_plane.kubeconfig)) as client:
            await play(scenario, client, hooks, rights.namespace)
    finally:
        await hooks.close()
