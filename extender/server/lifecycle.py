"""The listening sockets, uvicorn, and a stop that finishes what was begun.

Health has a listener of its own where the settings say so: its connections are counted apart, so
that the kubelet is answered however many callers crowd the verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import ssl
from collections.abc import Coroutine, Iterator
from typing import Any

import structlog
import uvicorn

from extender.model.errors import InvalidInput
from extender.server.access_rules import Rules, health_rules, verbs_rules
from extender.server.app import App
from extender.server.certificates import Certificates
from extender.server.connections import Connections, ListenerLimits, Place
from extender.server.diagnostics import DebugSource, Health
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.pages import Pages
from extender.server.protocol import LimitedProtocol
from extender.server.tokens import Tokens
from extender.server.verb_calls import Verbs
from extender.settings.settings import ServerSettings

CERTIFICATE_CHECK_SECONDS = 5.0
BACKLOG = 1024
HEALTH_CONNECTIONS = 64


class Server:
    """Serves the verbs until told to stop.

    ``health`` says whether the process is ready and alive. ``port`` and ``health_port`` are the
    bound ports as soon as ``started`` is set (a port 0 in the settings takes a free one; no
    listener for health: 0). ``tokens`` reviews those who ask for metrics and debug pages from
    elsewhere. ``load`` is shared with gRPC, if that is served. ``binds``: the bind verb is served.
    ``pages``: what is at /ui/, if anything.
    """

    def __init__(
        self,
        settings: ServerSettings,
        verbs: Verbs,
        debug: DebugSource,
        health: Health,
        metrics: Metrics,
        *,
        tokens: Tokens | None = None,
        load: Load | None = None,
        binds: bool = False,
        pages: Pages | None = None,
        certificate_check_seconds: float = CERTIFICATE_CHECK_SECONDS,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._certificate_check_seconds = certificate_check_seconds
        self.app = App(
            verbs, debug, health, metrics, settings, tokens, load, binds=binds, pages=pages
        )
        self.started = asyncio.Event()
        self.port = 0
        self.health_port = 0
        self.listeners: list[_Uvicorn] = []
        """The verbs' and, where there is one, that of health; once started."""

    @property
    def url(self) -> str:
        """Where the verbs are, once started."""
        return self._url(self._settings.host, self.port)

    @property
    def health_url(self) -> str:
        """Where health is, once started: the listener of its own, if there is one."""
        settings = self._settings
        if not self.health_port:
            return self.url
        return self._url(settings.health_host or settings.host, self.health_port)

    def _url(self, host: str, port: int) -> str:
        scheme = "https" if self._settings.tls_cert_file else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain.

        On stop readiness goes first; calls under way (and those that still come
        in) have drain_seconds, then what is left is answered with 503. Raises
        InvalidInput when an address or the TLS files cannot be used.
        """
        settings = self._settings
        log = structlog.get_logger()
        async with contextlib.AsyncExitStack() as stack:
            context = health_context = None
            if settings.tls_cert_file:
                certificates = Certificates(settings, self._metrics.reloaded)
                context, health_context = certificates.context, certificates.health_context
                self._metrics.certificate("server", lambda: certificates.expiry)
                watch = asyncio.create_task(certificates.watch(self._certificate_check_seconds))
                stack.callback(watch.cancel)
            listener = _listen(settings.host, settings.port)
            stack.callback(listener.close)
            self.port = listener.getsockname()[1]
            rules, places = verbs_rules(settings), settings.max_connections
            servers = self.listeners = [self._server(listener, rules, context, places)]
            if settings.health_port is not None:
                beside = _listen(settings.health_host or settings.host, settings.health_port)
                stack.callback(beside.close)
                self.health_port = beside.getsockname()[1]
                rules = health_rules(settings)
                servers.append(self._server(beside, rules, health_context, HEALTH_CONNECTIONS))
            serving = [asyncio.create_task(server.serve([server.listener])) for server in servers]
            for task in serving:
                stack.callback(task.cancel)
            stopping = asyncio.create_task(stop.wait())
            stack.callback(stopping.cancel)
            for server in servers:
                await _first(server.listens.wait(), *serving)
            self.started.set()
            log.info("serving", url=self.url, health=self.health_url)
            await asyncio.wait((*serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                left = await self._drain()
                for server in servers:
                    # Whole seconds are what uvicorn takes; zero cuts off at once.
                    server.config.timeout_graceful_shutdown = math.ceil(left)
            for server in servers:
                server.should_exit = True
            await asyncio.gather(*serving)
            # Calls that were cut off still send their 503.
            await asyncio.wait_for(self.app.idle(), 1.0)
            log.info("stopped")

    def _server(
        self, listener: socket.socket, rules: Rules, context: ssl.SSLContext | None, places: int
    ) -> _Uvicorn:
        config = uvicorn.Config(
            self.app.door(rules),
            interface="asgi3",
            http=LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=self._settings.keep_alive_seconds,
        )
        config.load()
        limits = ListenerLimits.of(self._settings, places)
        return _Uvicorn(config, listener, context, Connections(limits, self._metrics.refused))

    async def _drain(self) -> float:
        """Wait for calls under way; return how much of the time for it is left."""
        self.app.drain()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.drain_seconds
        structlog.get_logger().info("stopping", in_flight=self.app.in_flight)
        try:
            await asyncio.wait_for(self.app.idle(), self._settings.drain_seconds)
        except TimeoutError:
            return 0.0
        return max(0.0, deadline - loop.time())


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` at the first SIGTERM or SIGINT; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def first() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, first)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. An empty host is every address of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host}:{port}: {error}", "server") from None
    listener.setblocking(False)  # noqa: FBT003 - takes no keyword
    return listener


async def _first(work: Coroutine[Any, Any, Any], *others: asyncio.Task[None]) -> None:
    """Wait for ``work``, or for the first of the others, whose error comes out."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, *others), return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            if other.done():
                other.result()
    finally:
        task.cancel()


class _Uvicorn(uvicorn.Server):
    """uvicorn on connections that are accepted and bounded here, and without hands on signals."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        connections: Connections,
    ) -> None:
        super().__init__(config)
        self.listener = listener
        self.listens = asyncio.Event()
        self._context = context
        self._connections = connections
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs the loop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then tell."""
        loop = asyncio.get_running_loop()

        def make(place: Place) -> LimitedProtocol:
            return LimitedProtocol(self.config, self.server_state, self._connections, place, loop)

        self.servers = []
        self._tasks = [
            asyncio.create_task(self._connections.accept(self.listener, make, self._context)),
            asyncio.create_task(self._connections.sweep()),
        ]
        self.started = True
        self.listens.set()

    async def on_tick(self, counter: int) -> bool:
        """Look whether to exit. Raises what ended the accepting."""
        for task in self._tasks:
            if task.done():
                task.result()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, then finish."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.close()
        await super().shutdown(sockets)
