"""The real extender as a process of its own, so that it can be killed like one.

Works against any API server that a kubeconfig names: the sandbox's or a real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from extender.kube.credentials import find_access
from extender.model.errors import ExtenderError
from extender.sandbox.ports import Ports
from extender.sandbox.proxy import ApiProxy
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings

READY_SECONDS = 180.0
"""An extender that cannot start ends; one that is only slow has this long."""
_TAIL = 40


class ExtenderBroke(ExtenderError):  # noqa: N818 - reads as what has happened
    """The extender's process did not start, or died without being killed."""


class ExtenderProcess:
    """``serve`` behind a proxy to the API server; implements hooks.Hooks.

    ``folder`` gets its configuration, kubeconfig and log. ``url`` is for
    kube-scheduler and stays the same over restarts.
    """

    def __init__(self, folder: Path, kubeconfig: str | Path, settings: Settings) -> None:
        self._folder = folder
        self._target = str(kubeconfig)
        self._settings = settings
        # In observe mode verbs are answered whatever is known of the cluster.
        self._ready_path = "/readyz/caches" if settings.mode == OBSERVE else "/readyz"
        self._ports = Ports()
        self._port = self._ports.reserve()
        self._proxy: ApiProxy | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = folder / "extender.log"

    async def start(self) -> None:
        """Start proxy and process; return when the extender is ready."""
        access = await asyncio.to_thread(find_access, self._target, None, None)
        self._proxy = ApiProxy(access)
        await self._proxy.start()
        write_kubeconfig(self._folder / "extender.kubeconfig", self._proxy.url)
        server = msgspec.structs.replace(self._settings.server, host="127.0.0.1", port=self._port)
        document = msgspec.to_builtins(msgspec.structs.replace(self._settings, server=server))
        (self._folder / "extender.yaml").write_text(json.dumps(document, indent=2) + "\n")
        await self.start_extender()

    async def close(self) -> None:
        """Stop the process (SIGTERM, then -9) and the proxy."""
        process = self._process
        if process is not None and process.returncode is None:
            self._killed = True
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 15)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._proxy is not None:
            await self._proxy.close()
        self._ports.close()

    async def start_extender(self) -> None:
        """Start the process and wait until it is ready."""
        if self.extender_alive():
            raise ExtenderBroke("the extender is to be started, but it runs")
        self._killed = False
        command = [sys.executable, "-m", "extender.app.main", "serve"]
        command += ["--config", str(self._folder / "extender.yaml")]
        command += ["--kubeconfig", str(self._folder / "extender.kubeconfig")]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
            )
        end = asyncio.get_running_loop().time() + READY_SECONDS
        while not await self._ready():
            self.check()
            if asyncio.get_running_loop().time() > end:
                raise ExtenderBroke(
                    f"the extender is not ready in {READY_SECONDS:g} s{self._tail()}"
                )
            await asyncio.sleep(0.05)

    async def kill_extender(self) -> None:
        """Kill -9."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def kill_extender_after(self, deletes: int) -> None:
        """Kill -9 once this many more evictions have gone through."""
        assert self._proxy is not None
        self._proxy.strike_after(deletes, self.kill_extender)

    async def slow_evictions(self, seconds: float) -> None:
        """Let every eviction take this long on its way, one at a time."""
        assert self._proxy is not None
        self._proxy.eviction_seconds = seconds

    @property
    def asked(self) -> dict[str, int]:
        """How many requests the extender has sent to the API server, by method."""
        return {} if self._proxy is None else dict(self._proxy.methods)

    def extender_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def decisions(self) -> list[dict[str, Any]]:
        """Return the debug API's decisions, newest first; empty while it does not answer."""
        timeout = aiohttp.ClientTimeout(total=5)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}/debug/decisions") as answer,
            ):
                if answer.status != 200:
                    return []
                found: list[dict[str, Any]] = (await answer.json())["decisions"]
                return found
        except (aiohttp.ClientError, OSError, TimeoutError):
            return []

    def check(self) -> None:
        """Raise ExtenderBroke when the process has ended and nobody killed it."""
        if self._process is not None and self._process.returncode is not None and not self._killed:
            code = self._process.returncode
            raise ExtenderBroke(f"the extender ended by itself (status {code}){self._tail()}")

    async def _ready(self) -> bool:
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}{self._ready_path}") as answer,
            ):
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "".join(f"\n    {line}" for line in ["; its log ends with", *lines[-_TAIL:]])


def write_kubeconfig(path: Path, server: str) -> None:
    """Write a kubeconfig for a server that wants no credentials."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": server}}],
        "users": [{"name": "sandbox", "user": {}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
