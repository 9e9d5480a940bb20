"""grpc.health.v1: whether verbs are answered, as /readyz says it.

https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2

from extender.grpc_api.calls import parsed
from extender.grpc_api.message_reading import Call, Message, MessageLimits, write

LOOK_SECONDS = 0.25
MOST = 8
"""Watches at a time, and as many checks."""
MOST_NAME = 256
SERVICE = "grpc.health.v1.Health"
Status = health_pb2.HealthCheckResponse


class HealthCalls:
    """The handlers of grpc.health.v1.Health; every service is as ready as the process."""

    def __init__(
        self, ready: Callable[[], list[str]], services: frozenset[str], limits: MessageLimits
    ) -> None:
        self._ready = ready
        self._services = services
        self._limits = limits
        self._draining = False

    def drain(self) -> None:
        """Say that nothing is served any more."""
        self._draining = True

    async def check(self, call: Call) -> None:
        """Tell the state of a service; "" is the whole server."""
        service = await self._asked(call)
        if service and service not in self._services:
            await call.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {service!r}")
        await write(call, self._status(service).SerializeToString(), self._limits.seconds)

    async def watch(self, call: Call) -> None:
        """Write the state of a service now and whenever it changes."""
        service = await self._asked(call)
        told: Status | None = None
        while True:
            status = self._status(service)
            if status != told:
                await write(call, status.SerializeToString(), self._limits.seconds)
                told = status
            if self._draining:
                # The reader's library may drop a message that a status follows at once.
                await asyncio.sleep(LOOK_SECONDS)
                await call.abort(grpc.StatusCode.UNAVAILABLE, "stopping")
            await asyncio.sleep(LOOK_SECONDS)

    async def _asked(self, call: Call) -> str:
        message = Message(self._limits)
        try:
            data = await message.read(call)
        finally:
            message.release()
        return parsed(health_pb2.HealthCheckRequest, data).service[:MOST_NAME]

    def _status(self, service: str) -> Status:
        if service and service not in self._services:
            return Status(status=Status.SERVICE_UNKNOWN)
        fine = not self._draining and not self._ready()
        return Status(status=Status.SERVING if fine else Status.NOT_SERVING)
