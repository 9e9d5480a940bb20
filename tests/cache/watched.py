"""A cache that follows the test API, what is seen of it, and faults to strike it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from extender.cache.cache import Cache
from extender.cache.stats import WatchStats
from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
Make = Callable[..., Cache]


class Faults:
    """Answers the next requests of one kind with what is queued, then gets out of the way."""

    def __init__(self, api: FakeApi, path: str = PODS) -> None:
        self.answers: list[Callable[[], web.Response]] = []
        self.path = path
        self.only: Callable[[dict[str, str]], bool] = lambda query: True
        api.script = self

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == self.path and self.answers and self.only(dict(request.query)):
            return self.answers.pop(0)()
        return None


def pods(cache: Cache) -> WatchStats:
    return cache.stats.watches["pods"]


def names(cache: Cache) -> set[str]:
    return {pod.name for pod in cache.store.pods.by_uid.values()}


async def started(make: Make, **settings: Any) -> Cache:
    cache = make(**settings)
    await cache.start()
    await cache.wait_synced(60)
    await until(lambda: pods(cache).up)
    return cache
