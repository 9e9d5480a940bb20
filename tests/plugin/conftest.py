"""Fixtures of the plugin's tests on real control planes, and which of them run by default."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.scenarios.test_on_a_real_control_plane import EVERY

NEWEST = "1.37"
ON_OTHERS = ("-jobset]", "test_nobody_is_scheduled")
"""Played on each release: the sources are the same, the framework may not be."""
BY_NIGHT = (
    "test_bind.py",
    "test_tls.py",
    "test_permit.py::test_a_member",
    "test_permit.py::test_a_node",
)
"""What takes too long for every day: of each kind of trouble one is left."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the newest release most of the work, except by night."""
    if os.environ.get(EVERY):
        return
    here = Path(__file__).parent
    left = [item for item in items if item.path.is_relative_to(here) and not _chosen(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def _chosen(item: pytest.Item) -> bool:
    if any(each in item.nodeid for each in BY_NIGHT):
        return False
    return NEWEST in item.name or any(each in item.name for each in ON_OTHERS)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short name: a Unix socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="podgroup-") as folder:
        yield Path(folder)


@pytest.fixture
def binding_rights(cluster: Cluster) -> Cluster:
    """The manifests' rules, those of the bind barrier too, bound to the extender's user."""
    grant_manifest(cluster.client, barrier=True)
    return cluster
