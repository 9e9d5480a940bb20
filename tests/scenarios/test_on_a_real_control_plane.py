"""Every packaged scenario holds on a real kube-scheduler, for each Kubernetes version.

The extender runs with the rights that manifests/rbac.yaml gives it and no others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.model.settings import SeatSettings, Settings
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.scenario import Scenario
from extender.sandbox.scenario_file import configured, load, packaged
from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config
from tests.scenarios.playing import play
from tests.scenarios.sampling import among_many

EVERY = "PODGROUP_EVERY_SCENARIO"
"""Set by ./run nightly: all scenarios are played among 150 nodes, which takes seven minutes on each
version; else those that differ in how seats, single pods and lives of the extender meet samples."""
CHOSEN = (
    "d-disruption-per-pod",
    "i-killed-before-binding",
    "k-two-urgent-gangs",
    "l-skypilot-single-instead",
    "o1-free-nodes-count",
)

Config = Callable[[str], dict[str, Any]]


@pytest.fixture
def rights(cluster: Cluster) -> Cluster:
    """The manifest's rules, bound to the test bed's user for the extender."""
    grant_manifest(cluster.client)
    return cluster


async def on_stage(scenario: Scenario, config: Config, rights: Cluster, tmp_path: Path) -> None:
    """Play with an extender process; ``config`` makes kube-scheduler's configuration of its URL."""
    settings = configured(
        scenario, replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
    )
    control_plane = rights.control_plane
    hooks = ExtenderProcess(tmp_path, control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(rights.use_scheduler, config(hooks.url))
        async with await KubeClient.connect(str(control_plane.kubeconfig)) as client:
            await play(scenario, client, hooks, rights.namespace)
    finally:
        await hooks.close()


@pytest.mark.real
@pytest.mark.parametrize("name", packaged())
async def test_scenario(name: str, rights: Cluster, tmp_path: Path) -> None:
    await on_stage(load(packaged()[name]), scheduler_config, rights, tmp_path)


@pytest.mark.real
@pytest.mark.parametrize("name", packaged() if os.environ.get(EVERY) else CHOSEN)
async def test_scenario_among_150_nodes(name: str, rights: Cluster, tmp_path: Path) -> None:
    """kube-scheduler offers a hundred nodes at a time, as it does by default."""
    scenario = among_many(load(packaged()[name]))
    await on_stage(scenario, scheduler_config, rights, tmp_path)
