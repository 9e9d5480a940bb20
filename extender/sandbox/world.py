"""The sandbox's whole control plane: API server, kubelets, Jobs, budgets, scheduler loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self

from extender.sandbox.apiserver import ApiServer
from extender.sandbox.eviction import keep_budgets
from extender.sandbox.jobs import JobController
from extender.sandbox.kubelet import Kubelet
from extender.sandbox.scheduler import Scheduler
from extender.sandbox.wire import ExtenderClient


class World:
    """A context manager; ``server.url`` is where clients connect.

    ``extender_url`` is what the scheduler loop calls, "" for a scheduler without
    extender. ``minor`` is the Kubernetes minor version. A part that breaks makes
    ``check`` raise, so that a play does not wait for what will never come.
    """

    def __init__(
        self,
        minor: str = "1.37",
        *,
        extender_url: str = "",
        recreate_seconds: float = 0.5,
        backoff_scale: float = 1.0,
    ) -> None:
        self.server = ApiServer(minor)
        self._extender_url = extender_url
        self._recreate_seconds = recreate_seconds
        self._backoff_scale = backoff_scale
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        """Start everything but the scheduler, which needs the extender's address first."""
        await self.server.start()
        api = self.server.api
        self._start("kubelet", Kubelet(api).run())
        self._start("jobs", JobController(api, recreate_seconds=self._recreate_seconds).run())
        self._start("budgets", keep_budgets(api))
        if self._extender_url:
            self.start_scheduler(self._extender_url)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop everything."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.server.close()

    def start_scheduler(self, extender_url: str) -> None:
        """Start the scheduler loop; "" runs it without an extender."""
        extender = ExtenderClient(extender_url) if extender_url else None
        loop = Scheduler(self.server.api, extender, backoff_scale=self._backoff_scale)
        self._start("scheduler", loop.run())

    def check(self) -> None:
        """Raise what a part of the world died of."""
        for name, task in self._tasks.items():
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise RuntimeError(f"the sandbox's {name} broke down") from task.exception()

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.ensure_future(work)
