"""grpc.health.v1: whether verbs are answered, as /readyz says it.

https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2

from extender.grpc_api.calls import Call, parsed
from extender.model.errors import InvalidInput

LOOK_SECONDS = 0.25
SERVICE = "grpc.health.v1.Health"
Status = health_pb2.HealthCheckResponse


class HealthCalls:
    """The handlers of grpc.health.v1.Health; every service is as ready as the process."""

    def __init__(self, ready: Callable[[], list[str]], services: frozenset[str]) -> None:
        self._ready = ready
        self._services = services
        self._draining = False

    def drain(self) -> None:
        """Say that nothing is served any more."""
        self._draining = True

    async def check(self, data: bytes, call: Call) -> bytes:
        """Return the state of a service; "" is the whole server."""
        try:
            service = parsed(health_pb2.HealthCheckRequest, data).service
        except InvalidInput as error:
            await call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if service and service not in self._services:
            await call.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {service!r}")
        return self._status(service).SerializeToString()

    async def watch(self, data: bytes, call: Call) -> None:
        """Write the state of a service now and whenever it changes."""
        try:
            service = parsed(health_pb2.HealthCheckRequest, data).service
        except InvalidInput as error:
            await call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        told: Status | None = None
        while True:
            status = self._status(service)
            if status != told:
                await call.write(status.SerializeToString())
                told = status
            if self._draining:
                await call.abort(grpc.StatusCode.UNAVAILABLE, "stopping")
            await asyncio.sleep(LOOK_SECONDS)

    def _status(self, service: str) -> Status:
        if service and service not in self._services:
            return Status(status=Status.SERVICE_UNKNOWN)
        fine = not self._draining and not self._ready()
        return Status(status=Status.SERVING if fine else Status.NOT_SERVING)
