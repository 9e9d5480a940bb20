"""Every packaged scenario with the bind barrier, and where kube-scheduler filters every node.

A hundred nodes and fewer are not sampled: that is test_on_a_real_control_plane.py, which plays them
among 150 with kube-scheduler's own sampling too. The plugin's are in tests/plugin.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from extender.sandbox.scenario_file import load, packaged
from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config
from tests.scenarios.sampling import among_many
from tests.scenarios.test_on_a_real_control_plane import EVERY, on_stage
from tests.scenarios.ways import Http

pytestmark = pytest.mark.real

NIGHTLY = bool(os.environ.get(EVERY))


@pytest.fixture
def binding_rights(cluster: Cluster) -> Cluster:
    """The manifests' rules, those of the bind barrier too, bound to the extender's user."""
    grant_manifest(cluster.client, barrier=True)
    return cluster


def every_node(url: str) -> dict[str, Any]:
    """The documented configuration without sampling."""
    return {**scheduler_config(url), "percentageOfNodesToScore": 100}


@pytest.mark.parametrize("name", packaged() if NIGHTLY else ("jobset",))
async def test_bound_by_the_extender_among_150_nodes(
    name: str, binding_rights: Cluster, tmp_path: Path
) -> None:
    scenario = among_many(load(packaged()[name]))
    await on_stage(scenario, binding_rights, tmp_path, Http(barrier=True))


if NIGHTLY:

    @pytest.mark.parametrize("name", packaged())
    async def test_bound_by_the_extender(
        name: str, binding_rights: Cluster, tmp_path: Path
    ) -> None:
        await on_stage(load(packaged()[name]), binding_rights, tmp_path, Http(barrier=True))

    @pytest.mark.parametrize("name", packaged())
    async def test_every_one_of_150_nodes_is_filtered(
        name: str, rights: Cluster, tmp_path: Path
    ) -> None:
        await on_stage(among_many(load(packaged()[name])), rights, tmp_path, Http(every_node))
