"""A real server to ask: ``serve`` in this process, on the sandbox's API server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from msgspec.structs import replace
from structlog.testing import capture_logs

from extender.app.main import main
from extender.app.observing import observe
from extender.app.serve_command import serve
from extender.kube.api_errors import Conflict
from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.ports import Ports
from extender.sandbox.process import write_kubeconfig
from extender.sandbox.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from extender.settings.mode import ObserveSettings
from extender.settings.settings import CacheSettings, PlanSettings, ServerSettings, Settings
from extender.settings.status import StatusSettings
from extender.settings.tracing import TracingSettings

READY_SECONDS = 120.0
_PORTS = Ports()
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups"


def free_port() -> int:
    """A loopback port on which nothing listens; no other socket gets it while the tests run."""
    return _PORTS.reserve()


class Live:
    """Commands are run against ``url`` with ``ask``."""

    def __init__(
        self, api: ApiServer, client: KubeClient, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.api = api
        self.client = client
        self.url = url
        self._capsys = capsys

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command as it stands; return status, output and what else was said."""
        self._capsys.readouterr()
        # In a thread: the commands have a loop of their own, and the server is on this one.
        try:
            status = await asyncio.to_thread(main, arguments)
        except SystemExit as ended:
            status = int(str(ended.code))
        out, err = self._capsys.readouterr()
        return status, out, err

    async def ask(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command with --url."""
        return await self.run(*arguments, "--url", self.url)

    async def preempt(self, name: str, *nodes: str) -> None:
        """Ask for a pod as kube-scheduler does."""
        pod = await self.client.get(f"/api/v1/namespaces/team/pods/{name}")
        body = {"Pod": pod, "NodeNameToMetaVictims": {node: {"Pods": []} for node in nodes}}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{self.url}/preempt", json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    tls: ssl.SSLContext | None = None,
    *,
    observing: ObserveSettings | None = None,
    status: StatusSettings | None = None,
    tracing: TracingSettings | None = None,
    **server: Any,
) -> AsyncIterator[Live]:
    """A server on a cluster of four nodes: gang ``low`` of four runs, ``high`` waits.

    ``observing``: it is in observe mode.
    """
    api = ApiServer(bookmark_seconds=0.2)
    await api.start()
    # The server is in this process: its log is no part of what the commands print.
    with capture_logs():
        async with await KubeClient.connect(server=api.url) as client:
            await _fill(client)
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, api.url)
            port = free_port()
            settings = Settings(
                server=ServerSettings(port=port, log_level="error", **server),
                cache=CacheSettings(watch_list=True),
                plan=PlanSettings(seconds=3.0),
                status=status or StatusSettings(),
                tracing=tracing or TracingSettings(),
            )
            work = serve
            if observing is not None:
                settings = replace(settings, mode="observe", observe=observing)
                work = observe
            running = asyncio.create_task(work(settings, str(kubeconfig)))
            live = Live(api, client, f"{'https' if tls else 'http'}://127.0.0.1:{port}", capsys)
            try:
                await asyncio.wait_for(_ready(live.url, running, tls), READY_SECONDS)
                yield live
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await api.close()


async def _ready(url: str, running: asyncio.Task[None], tls: ssl.SSLContext | None) -> None:
    async with aiohttp.ClientSession() as http:
        while True:
            if running.done():
                await running
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(f"{url}/readyz", ssl=tls or True) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)


async def _fill(client: KubeClient) -> None:
    for name in ("team", "podgroup-extender", "kube-system"):
        with contextlib.suppress(Conflict):
            await client.create(NAMESPACES.path(), {"metadata": {"name": name}})
    for name, value in (("low", 1), ("high", 100000)):
        await client.create(
            PRIORITY_CLASSES.path(),
            {"metadata": {"name": name}, "value": value},
        )
    for i in range(4):
        await client.create(
            NODES.path(),
            {
                "metadata": {"name": f"n{i}"},
                "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
            },
        )
    for name in ("low", "high"):
        await group(client, name, 4)
        for i in range(4):
            await pod(client, f"{name}-{i}", name, f"n{i}" if name == "low" else "")


async def group(client: KubeClient, name: str, least: int, priority: str = "") -> None:
    await client.create(
        GROUPS,
        {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": least}},
                "disruptionMode": {"all": {}},
                "priorityClassName": priority or name,
            },
        },
    )


async def pod(
    client: KubeClient, name: str, gang: str, node: str = "", cpu: str = "3", **spec: Any
) -> None:
    membership = {"schedulingGroup": {"podGroupName": gang}} if gang else {}
    await client.create(
        PODS.path("team"),
        {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                ],
                "priorityClassName": gang or "low",
                **({"nodeName": node} if node else {}),
                **membership,
                **spec,
            },
        },
    )


class Kubelet:
    """Forwards ports as kubelet does behind the API server, which is the one ``api``."""

    def __init__(self, api: ApiServer) -> None:
        self.ports: dict[str, int] = {}
        """Pod -> the real port behind its port."""
        self.asked: list[tuple[str, str, str]] = []
        """(pod, ports, protocols) of each connection."""
        self.headers: list[str] = []
        self.url = ""
        self._api = api
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Kubelet:
        app = web.Application()
        path = "/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
        app.router.add_get(path, self._forward)
        app.router.add_get("/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _pass(self, request: web.Request) -> web.Response:
        async with (
            aiohttp.ClientSession() as http,
            http.get(self._api.url + request.path_qs) as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, content_type="application/json"
            )

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["pod"]
        port = request.query["ports"]
        self.asked.append((name, port, request.headers.get("Sec-WebSocket-Protocol", "")))
        self.headers.append(request.headers.get("Authorization", ""))
        if name not in self.ports:
            return web.json_response({"kind": "Status", "message": "no such pod"}, status=404)
        return await bridged(request, port, self.ports[name])


async def bridged(request: web.Request, port: str, behind: int) -> web.WebSocketResponse:
    """Be kubelet for one forwarded connection: ``port`` is what was asked for, ``behind`` is real.

    Protocol: pkg/streaming/portforward/websocket.go of k8s.io/cri-streaming.
    """
    link = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
    await link.prepare(request)
    number = int(port).to_bytes(2, "little")
    await link.send_bytes(b"\0" + number)
    await link.send_bytes(b"\1" + number)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", behind)
    except OSError as error:
        await link.send_bytes(b"\1" + f"error forwarding port {port}: {error}".encode())
        await link.close()
        return link

    async def out() -> None:
        while data := await reader.read(1000):
            await link.send_bytes(b"\0" + data)
        await link.close()

    sending = asyncio.create_task(out())
    async for message in link:
        if message.type is WSMsgType.BINARY and message.data[0] == 0:
            writer.write(message.data[1:])
    sending.cancel()
    writer.close()
    return link
