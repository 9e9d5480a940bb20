"""Everything that runs: the control plane, the proxy, the extender and its scheduler."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from extender.kube.credentials import find_access
from extender.sandbox.ports import Ports
from extender.sandbox.process import write_kubeconfig
from extender.settings.policy import DEFAULT, WHOLE_GANGS, PolicySettings
from extender.settings.settings import (
    BindSettings,
    CacheSettings,
    PlanSettings,
    SeatSettings,
    Settings,
)
from tests.chaos.history import SQUATTERS
from tests.chaos.proxy import FaultProxy
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.harness import ControlPlane
from tests.controlplane.processes import Process
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import BINDER, scheduler_config

Found = TypeVar("Found")
NAMESPACE = "chaos"
READY_SECONDS = 180.0
BIND_SECONDS = 20.0
VICTIM_SLACK_SECONDS = 15.0
STALE_SECONDS = 5.0
HOLD_SECONDS = 13.0
"""Above kube-scheduler's longest back-off."""
POST_SECONDS = 5.0


def settings_for(namespace: str, *, barrier: bool = False) -> Settings:
    """The defaults, with deadlines short enough to pass many times in a run."""
    return replace(
        Settings(),
        cache=CacheSettings(stale_seconds=STALE_SECONDS),
        plan=PlanSettings(retry_seconds=1.0),
        policy=PolicySettings(opt_out={DEFAULT: WHOLE_GANGS}),
        seats=SeatSettings(
            bind_seconds=BIND_SECONDS,
            victim_slack_seconds=VICTIM_SLACK_SECONDS,
            record_namespace=namespace,
        ),
        bind=BindSettings(enabled=barrier, hold_seconds=HOLD_SECONDS, post_seconds=POST_SECONDS),
    )


class ImpatientClient(Client):
    """The tests' client for an API server that may be stopped at any moment."""

    def connect(self, timeout: float | None = 8.0) -> HTTPSConnection:
        """Wait for no answer longer than this."""
        return super().connect(timeout)

    def fork(self, namespace: str | None = None, token: str | None = None) -> ImpatientClient:
        """One more of the same kind."""
        return ImpatientClient(
            self.server, token or self.token, self._ca_file, namespace or self.namespace
        )


class Extender:
    """``podgroup-extender serve`` as a process; its address stays over restarts."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self._ports = Ports()
        self._port = self._ports.reserve()
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = folder / "logs" / "extender.log"
        self.process: Process | None = None
        self.meant_to_run = False
        self.starts = 0

    def configure(self, server: str) -> None:
        """Write its files; ``server`` is what it takes for the API server."""
        write_kubeconfig(self._folder / "to-proxy.kubeconfig", server)
        mine = replace(self._settings.server, host="127.0.0.1", port=self._port)
        document = msgspec.to_builtins(replace(self._settings, server=mine))
        (self._folder / "extender.yaml").write_text(json.dumps(document, indent=2) + "\n")

    def launch(self) -> None:
        """Start the process and return at once."""
        command = [sys.executable, "-m", "extender.app.main", "serve"]
        command += ["--config", str(self._folder / "extender.yaml")]
        command += ["--kubeconfig", str(self._folder / "to-proxy.kubeconfig")]
        self.process = Process("extender", command, self.log)
        self.meant_to_run = True
        self.starts += 1

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.launch()
        assert self.process is not None
        self.process.wait_ready(self.ready, READY_SECONDS)

    def end(self, grace: float) -> None:
        """SIGTERM and, when it has not ended by then, kill -9; with no grace kill at once."""
        self.meant_to_run = False
        if self.process is not None:
            self.process.signal(signal.SIGCONT)
            self.process.stop(grace)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.process is not None:
            self.process.signal(number)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.running

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        return self.get("/readyz") is not None

    def get(self, path: str) -> bytes | None:
        """An answer of its own API, None when there is no good one."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=2) as answer:
                body: bytes = answer.read()
                return body if answer.status == 200 else None
        except (OSError, HTTPException):  # it may be killed amid its answer
            return None

    def debug(self, what: str) -> list[dict[str, Any]] | None:
        """A list of the debug API, None when it does not answer."""
        body = self.get(f"/debug/{what}")
        return None if body is None else list(json.loads(body)[what])

    def decisions(self, limit: int = 200) -> list[dict[str, Any]]:
        """The last decisions, newest first; none when nobody answers."""
        body = self.get(f"/debug/decisions?limit={limit}")
        return [] if body is None else list(json.loads(body)["decisions"])

    def verb(self, body: bytes) -> bool:
        """Whether the filter verb gives a good answer."""
        asked = urllib.request.Request(
            f"{self.url}/filter", data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=2) as answer:
                return answer.status == 200 and not json.loads(answer.read()).get("Error")
        except (OSError, HTTPException, ValueError):
            return False

    def close(self) -> None:
        """End it for good."""
        self.end(0)
        self._ports.close()


class Bed:
    """The whole of it. ``in_thread`` runs what blocks, in order, beside the event loop."""

    def __init__(self, minor: str, folder: Path, seed: int, *, barrier: bool = False) -> None:
        self.barrier = barrier
        """Whether the extender binds (docs/barrier.md)."""
        self.folder = folder
        self.plane = ControlPlane(minor, folder)
        self.extender = Extender(folder, settings_for(NAMESPACE, barrier=barrier))
        self._seed = seed
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bed")
        self._proxy: FaultProxy | None = None
        self._client: ImpatientClient | None = None

    @property
    def proxy(self) -> FaultProxy:
        """Between extender and API server."""
        assert self._proxy is not None
        return self._proxy

    @property
    def client(self) -> ImpatientClient:
        """An administrator in the namespace of the run, past the proxy."""
        assert self._client is not None
        return self._client

    @property
    def cluster(self) -> Cluster:
        """The harness' helpers on that namespace."""
        return Cluster(self.plane, self.client, NAMESPACE)

    async def in_thread(self, what: Callable[[], Found]) -> Found:
        """Run something that blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    async def start(self) -> None:
        """Bring everything up."""
        await self.in_thread(self._start_plane)
        access = await self.in_thread(
            lambda: find_access(str(self.plane.extender_kubeconfig), None, None)
        )
        self._proxy = FaultProxy(access, f"{self._seed}:proxy")
        await self._proxy.start()
        self.extender.configure(self._proxy.url)
        await self.in_thread(self.extender.start)
        config = scheduler_config(self.extender.url)
        if self.barrier:
            config["extenders"].append({"urlPrefix": self.extender.url, **BINDER})
        await self.in_thread(lambda: self.plane.restart_scheduler(config))

    def _start_plane(self) -> None:
        self.plane.start()
        self._client = ImpatientClient(
            self.plane.server_url, self.plane.token, self.plane.ca_file, NAMESPACE
        )
        self.cluster.make_namespace()
        Cluster(self.plane, self._client.fork(SQUATTERS), SQUATTERS).make_namespace()
        grant_manifest(self._client, barrier=self.barrier)

    def revive_scheduler(self) -> bool:
        """Start kube-scheduler where it is not running; return whether it was not."""
        scheduler = self.plane.processes.get("kube-scheduler")
        if scheduler is not None and scheduler.running:
            return False
        self.plane.restart_scheduler()
        return True

    def restore(self) -> None:
        """Bring back every process that a fault has stopped or killed."""
        for process in self.plane.processes.values():
            process.signal(signal.SIGCONT)
        self.plane.ensure_servers()
        self.revive_scheduler()
        self.extender.signal(signal.SIGCONT)
        if not self.extender.alive:
            self.extender.start()

    async def close(self) -> None:
        """Stop everything."""
        await self.in_thread(self.extender.close)
        if self._proxy is not None:
            await self._proxy.close()
        await self.in_thread(self.plane.stop)
        self._threads.shutdown(wait=False)
