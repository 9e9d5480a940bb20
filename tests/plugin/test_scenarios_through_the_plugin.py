"""The packaged scenarios hold through the plugin as they do over HTTP, on real control planes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extender.sandbox.scenario_file import load, packaged
from tests.controlplane.cluster import Cluster
from tests.scenarios.sampling import among_many
from tests.scenarios.test_on_a_real_control_plane import EVERY, on_stage
from tests.scenarios.ways import Plugin

CORE = (
    "d-disruption-per-pod",
    "i-killed-before-binding",
    "jobset",
    "k-two-urgent-gangs",
    "l-skypilot-single-instead",
    "r-a-turn-for-everybody",
)
"""What ./run test-real plays; ./run nightly plays all of them."""
NIGHTLY = bool(os.environ.get(EVERY))


@pytest.mark.real
@pytest.mark.parametrize("name", packaged() if NIGHTLY else CORE)
async def test_scenario(name: str, rights: Cluster, tmp_path: Path, sockets: Path) -> None:
    await on_stage(load(packaged()[name]), rights, tmp_path, Plugin(sockets))


@pytest.mark.real
@pytest.mark.parametrize("name", packaged() if NIGHTLY else ("o1-free-nodes-count",))
async def test_scenario_among_150_nodes(
    name: str, rights: Cluster, tmp_path: Path, sockets: Path
) -> None:
    await on_stage(among_many(load(packaged()[name])), rights, tmp_path, Plugin(sockets))


@pytest.mark.real
@pytest.mark.parametrize("name", packaged() if NIGHTLY else ("jobset",))
async def test_scenario_bound_by_the_extender(
    name: str, binding_rights: Cluster, tmp_path: Path, sockets: Path
) -> None:
    way = Plugin(sockets, barrier=True)
    await on_stage(load(packaged()[name]), binding_rights, tmp_path, way)


if NIGHTLY:

    @pytest.mark.real
    @pytest.mark.parametrize("name", packaged())
    async def test_scenario_among_150_nodes_bound_by_the_extender(
        name: str, binding_rights: Cluster, tmp_path: Path, sockets: Path
    ) -> None:
        way = Plugin(sockets, barrier=True)
        await on_stage(among_many(load(packaged()[name])), binding_rights, tmp_path, way)
