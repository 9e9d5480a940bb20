"""How kube-scheduler and the extender are joined in a scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import BindSettings, GrpcSettings, Settings
from tests.controlplane.build import ensure_plugin
from tests.controlplane.cluster import Cluster
from tests.controlplane.scheduler import BINDER, plugin_config, scheduler_config

Config = Callable[[str], dict[str, Any]]


class Way(Protocol):
    """One way to join them."""

    barrier: bool
    """Whether the extender binds, and needs the rights to."""

    def settings(self, settings: Settings) -> Settings:
        """Return the extender's settings as this way needs them."""

    async def schedule(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        """Start kube-scheduler, the extender being ready."""


class Http:
    """A stock kube-scheduler; ``config`` makes its configuration of the extender's URL."""

    def __init__(self, config: Config = scheduler_config, *, barrier: bool = False) -> None:
        self._config = config
        self.barrier = barrier

    def settings(self, settings: Settings) -> Settings:
        return replace(settings, bind=BindSettings(enabled=True)) if self.barrier else settings

    async def schedule(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        config = self._config(extender.url)
        if self.barrier:
            config["extenders"].append({"urlPrefix": extender.url, **BINDER})
        await asyncio.to_thread(cluster.use_scheduler, config)


class Plugin:
    """A kube-scheduler that is built with the plugin. ``folder`` gets the extender's socket."""

    def __init__(self, folder: Path, *, barrier: bool = False, **args: Any) -> None:
        self._address = f"unix:{folder / 'grpc.sock'}"
        self._args = {**args, **({"barrier": "Bind"} if barrier else {})}
        self.barrier = barrier

    def settings(self, settings: Settings) -> Settings:
        made = replace(settings, grpc=GrpcSettings(listen=self._address))
        return replace(made, bind=BindSettings(enabled=True)) if self.barrier else made

    async def schedule(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        program = await asyncio.to_thread(ensure_plugin, cluster.release.minor)
        config = plugin_config(self._address, **self._args)
        await asyncio.to_thread(cluster.use_scheduler, config, program=program)
