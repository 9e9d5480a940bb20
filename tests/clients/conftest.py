"""Every test here drives a real client or controller: `./run test-clients`, no other command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import GroupSettings, SeatSettings, Settings
from tests.clients import installation
from tests.clients.jobset_controller import JobSetController
from tests.clients.kueue_controller import KueueController
from tests.clients.sky import Sky
from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.install.programs import KUBECTL
from tests.install.programs import ensure as built

CLIENTS = {"sky", "jobsets", "kueue"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a client."""
    for item in items:
        if CLIENTS & set(getattr(item, "fixturenames", ())):
            item.add_marker("clients")
            item.add_marker("real")


@pytest.fixture(scope="session")
def skypilot() -> Path:
    """The folder with SkyPilot's programs."""
    if lacks := installation.lacking():
        pytest.fail(f"SkyPilot wants Debian's {' '.join(lacks)}; apt-get install them as root")
    return installation.ensure()


@contextlib.asynccontextmanager
async def serving(
    cluster: Cluster, folder: Path, groups: GroupSettings | None = None
) -> AsyncIterator[ExtenderProcess]:
    """The extender, asked by kube-scheduler; four nodes with room for one pod of 3 CPU each."""
    await asyncio.to_thread(cluster.nodes, 4)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100)
    seats = SeatSettings(record_namespace=cluster.namespace)
    settings = replace(Settings(), seats=seats, groups=groups or GroupSettings())
    process = ExtenderProcess(folder, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await process.start()
        await asyncio.to_thread(cluster.use_extender, process.url)
        yield process
    finally:
        await process.close()


@pytest.fixture
async def extender(rights: Cluster, tmp_path: Path) -> AsyncIterator[ExtenderProcess]:
    """With the rights that it has to have."""
    async with serving(rights, tmp_path) as process:
        yield process


@pytest.fixture
def jobsets(cluster: Cluster, tmp_path: Path) -> Iterator[JobSetController]:
    """JobSet's controller for the test's cluster."""
    made = JobSetController(tmp_path / "jobset", cluster.control_plane, cluster.client)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def kueue(cluster: Cluster, tmp_path: Path) -> Iterator[KueueController]:
    """Kueue's manager for the test's cluster."""
    made = KueueController(tmp_path / "kueue", cluster.control_plane, cluster.client)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
async def informed(
    jobsets: JobSetController, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[ExtenderProcess]:
    """The extender, which may read JobSets and their Jobs as well."""
    await asyncio.to_thread(grant_manifest, cluster.client, others=True)
    async with serving(cluster, tmp_path) as process:
        yield process


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
