"""barrier: Bind of the plugin in the face of what test_bind_barrier.py has for HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import BindSettings, GrpcSettings, SeatSettings, Settings
from tests.controlplane.build import ensure_plugin
from tests.controlplane.cluster import Cluster
from tests.controlplane.scheduler import plugin_config
from tests.scenarios import volumes
from tests.scenarios.test_bind_barrier import (
    SECONDS,
    Bed,
    test_a_member_deleted_while_binds_are_held,
    test_a_node_deleted_between_filter_and_bind,
    test_a_volume_that_cannot_be_bound_for_the_third_of_four,
    test_a_volume_that_comes_where_another_member_is_held,
    test_killed_while_binds_are_held,
)

__all__ = [
    "test_a_member_deleted_while_binds_are_held",
    "test_a_node_deleted_between_filter_and_bind",
    "test_a_volume_that_cannot_be_bound_for_the_third_of_four",
    "test_a_volume_that_comes_where_another_member_is_held",
    "test_killed_while_binds_are_held",
]
"""Played with the bed of this file."""


class Plugged(Bed):
    """The same cluster, with the plugin in kube-scheduler."""

    address = ""

    def schedule(self, **args: Any) -> None:
        """Start kube-scheduler with the plugin, with these arguments besides."""
        config = plugin_config(self.address, barrier="Bind", **args)
        self.cluster.use_scheduler(config, program=ensure_plugin(self.cluster.release.minor))


@pytest.fixture
async def bed(
    binding_rights: Cluster, tmp_path: Path, sockets: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Bed]:
    cluster = binding_rights
    hold = getattr(request, "param", 30.0)
    address = f"unix:{sockets / 'grpc.sock'}"
    settings = replace(
        Settings(),
        seats=SeatSettings(record_namespace=cluster.namespace, bind_seconds=SECONDS),
        bind=BindSettings(enabled=True, hold_seconds=hold),
        grpc=GrpcSettings(listen=address),
    )
    extender = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await extender.start()
        made = Plugged(cluster, extender)
        made.address = address
        await asyncio.to_thread(made.schedule)
        await asyncio.to_thread(cluster.priority_classes, low=1, high=1000)
        await asyncio.to_thread(volumes.storage_class, cluster.client)
        yield made
    finally:
        await extender.close()
        await asyncio.to_thread(volumes.let_go, cluster.client)
