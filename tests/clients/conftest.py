"""Every test here drives a real client: ``./run test-clients``, and no other command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.model.settings import SeatSettings, Settings
from extender.sandbox.process import ExtenderProcess
from tests.clients import installation
from tests.clients.sky import Sky
from tests.controlplane.cluster import Cluster
from tests.install.programs import KUBECTL
from tests.install.programs import ensure as built


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a client."""
    for item in items:
        if "sky" in getattr(item, "fixturenames", ()):
            item.add_marker("clients")
            item.add_marker("real")


@pytest.fixture(scope="session")
def skypilot() -> Path:
    """The folder with SkyPilot's programs."""
    if lacks := installation.lacking():
        pytest.fail(f"SkyPilot wants Debian's {' '.join(lacks)}; apt-get install them as root")
    return installation.ensure()


@pytest.fixture
async def extender(rights: Cluster, tmp_path: Path) -> AsyncIterator[ExtenderProcess]:
    """The extender, asked by kube-scheduler; four nodes with room for one pod of 3 CPU each."""
    await asyncio.to_thread(rights.nodes, 4)
    await asyncio.to_thread(rights.priority_classes, low=1, high=100)
    settings = replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
    process = ExtenderProcess(tmp_path, rights.control_plane.extender_kubeconfig, settings)
    try:
        await process.start()
        await asyncio.to_thread(rights.use_extender, process.url)
        yield process
    finally:
        await process.close()


@pytest.fixture
def sky(skypilot: Path, cluster: Cluster, tmp_path: Path) -> Iterator[Sky]:
    """SkyPilot for the test's namespace."""
    home = tmp_path / "home"
    home.mkdir()
    made = Sky(home, skypilot, built(KUBECTL))
    try:
        made.start(cluster.control_plane.kubeconfig, cluster.namespace)
        yield made
    finally:
        made.stop()
