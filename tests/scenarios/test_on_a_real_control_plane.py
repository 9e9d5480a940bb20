"""Every packaged scenario holds on a real kube-scheduler, for each Kubernetes version.

The extender runs with the rights that manifests/rbac.yaml gives it and no others.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.scenario import Scenario
from extender.sandbox.scenario_file import configured, load, packaged
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane import crds
from tests.controlplane.cluster import Cluster
from tests.scenarios.older import without_pod_groups
from tests.scenarios.playing import play
from tests.scenarios.sampling import among_many
from tests.scenarios.ways import Http, Way

EVERY = "PODGROUP_EVERY_SCENARIO"
"""Set by ./run nightly: all scenarios are played among 150 nodes, which takes seven minutes on each
version; else those that differ in how seats, single pods and lives of the extender meet samples.
The tour, which shows what the others prove, is played then only."""
NIGHTLY = bool(os.environ.get(EVERY))
CHOSEN = (
    "d-disruption-per-pod",
    "i-killed-before-binding",
    "k-two-urgent-gangs",
    "l-skypilot-single-instead",
    "o1-free-nodes-count",
)


async def on_stage(
    scenario: Scenario, rights: Cluster, tmp_path: Path, way: Way | None = None
) -> None:
    """Play with an extender process and kube-scheduler, joined by HTTP unless said otherwise."""
    way = way or Http()
    if not rights.release.pod_groups:
        scenario = without_pod_groups(scenario)
        await asyncio.to_thread(crds.install, rights.client)
    settings = way.settings(
        configured(
            scenario, replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
        )
    )
    control_plane = rights.control_plane
    hooks = ExtenderProcess(tmp_path, control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await way.schedule(rights, hooks)
        async with await KubeClient.connect(str(control_plane.kubeconfig)) as client:
            await play(scenario, client, hooks, rights.namespace)
    finally:
        await hooks.close()


@pytest.mark.real
@pytest.mark.parametrize("name", [name for name in packaged() if name != "tour" or NIGHTLY])
async def test_scenario(name: str, rights: Cluster, tmp_path: Path) -> None:
    await on_stage(load(packaged()[name]), rights, tmp_path)


@pytest.mark.real
@pytest.mark.parametrize("name", packaged() if NIGHTLY else CHOSEN)
async def test_scenario_among_150_nodes(name: str, rights: Cluster, tmp_path: Path) -> None:
    """kube-scheduler offers a hundred nodes at a time, as it does by default."""
    scenario = among_many(load(packaged()[name]))
    await on_stage(scenario, rights, tmp_path)
