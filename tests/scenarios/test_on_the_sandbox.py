"""Every packaged scenario holds on the sandbox, with the extender in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.kube.client import KubeClient
from extender.sandbox.command import sandbox
from extender.sandbox.scenario import scaled
from extender.sandbox.scenario_file import configured, load, packaged
from extender.settings.settings import Settings
from tests.scenarios.older import without_pod_groups
from tests.scenarios.playing import play

TIME_SCALE = 0.15
"""Graces of 20 s become 3 s."""


@pytest.mark.parametrize("name", packaged())
async def test_scenario(name: str, tmp_path: Path) -> None:
    scenario = scaled(load(packaged()[name]), TIME_SCALE)
    async with (
        sandbox("1.37", configured(scenario, Settings()), tmp_path) as hooks,
        await KubeClient.connect(server=hooks.api_url) as client,
    ):
        await play(scenario, client, hooks, "play")


async def test_the_reference_scenario_with_the_pod_groups_of_1_36(tmp_path: Path) -> None:
    async with (
        sandbox("1.36", Settings(), tmp_path) as hooks,
        await KubeClient.connect(server=hooks.api_url) as client,
    ):
        await play(load(packaged()["jobset"]), client, hooks, "play")


@pytest.mark.parametrize("name", ["jobset", "d-disruption-per-pod", "i-killed-before-binding"])
async def test_where_there_are_no_pod_groups(name: str, tmp_path: Path) -> None:
    """As on Kubernetes 1.34, of which all are played on a real one: ./run test-real --kube=1.34."""
    scenario = scaled(without_pod_groups(load(packaged()[name])), TIME_SCALE)
    async with (
        sandbox("1.34", configured(scenario, Settings()), tmp_path) as hooks,
        await KubeClient.connect(server=hooks.api_url) as client,
    ):
        await play(scenario, client, hooks, "play")
