"""The listening socket, uvicorn, and a stop that finishes what was begun."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from collections.abc import Iterator

import structlog
import uvicorn

from extender.model.errors import InvalidInput
from extender.model.settings import ServerSettings
from extender.server.app import App, Health, Verbs
from extender.server.debug import DebugSource
from extender.server.metrics import Metrics
from extender.server.tls import Certificates

CERTIFICATE_CHECK_SECONDS = 5.0
BACKLOG = 1024


class Server:
    """Serves the verbs until told to stop.

    ``health`` says whether the process is ready and alive. ``port`` is the
    bound port as soon as ``started`` is set (settings.port 0 takes a free one).
    """

    def __init__(
        self,
        settings: ServerSettings,
        verbs: Verbs,
        debug: DebugSource,
        health: Health,
        metrics: Metrics,
        *,
        certificate_check_seconds: float = CERTIFICATE_CHECK_SECONDS,
    ) -> None:
        self._settings = settings
        self._certificate_check_seconds = certificate_check_seconds
        source = debug if settings.debug else None
        self.app = App(verbs, source, health, metrics, settings.max_body_bytes)
        self.started = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        """Where the verbs are, once started."""
        scheme = "https" if self._settings.tls_cert_file else "http"
        host = self._settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain.

        On stop readiness goes first; calls in flight (and those that still come
        in) have drain_seconds, then what is left is answered with 503. Raises
        InvalidInput when the address or the TLS files cannot be used.
        """
        settings = self._settings
        certificates = Certificates(settings) if settings.tls_cert_file else None
        listener = _listen(settings.host, settings.port)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self.app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            backlog=BACKLOG,
        )
        config.load()
        if certificates is not None:
            config.ssl = certificates.context
        server = _Uvicorn(config, self.started)
        log = structlog.get_logger()
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(listener.close)
            if certificates is not None:
                watch = asyncio.create_task(certificates.watch(self._certificate_check_seconds))
                stack.callback(watch.cancel)
            serving = asyncio.create_task(server.serve([listener]))
            stack.callback(serving.cancel)
            stopping = asyncio.create_task(stop.wait())
            stack.callback(stopping.cancel)
            log.info("serving", url=self.url)
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                left = await self._drain()
                # Whole seconds are what uvicorn takes; zero cuts off at once.
                config.timeout_graceful_shutdown = math.ceil(left)
                server.should_exit = True
            await serving
            # Calls that were cut off still send their 503.
            await asyncio.wait_for(self.app.idle(), 1.0)
            log.info("stopped")

    async def _drain(self) -> float:
        """Wait for calls in flight; return how much of the time for it is left."""
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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host}:{port}: {error}", "server") from None
    listener.setblocking(False)
    return listener


class _Uvicorn(uvicorn.Server):
    """uvicorn without hands on the process's signals, and with a sign that it listens."""

    def __init__(self, config: uvicorn.Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._started_event = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs the loop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        self._started_event.set()
