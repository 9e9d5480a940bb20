"""Fixtures of the plugin's tests on real control planes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest


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
