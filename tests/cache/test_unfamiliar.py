"""What is not known of this API server is said, loudly and once."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from extender.cache.unfamiliar import untested
from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi
from tests.cache.watched import Make

GROUP = "/apis/scheduling.k8s.io"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v1.34.4", ""),
        ("v1.37.0-eks-1a2b3c", ""),
        ("v1.37.9", ""),
        ("v1.33.12", "1.33 is older"),
        ("v1.38.0-alpha.1", "1.38 is newer"),
        ("v2.0.0", "2.0 is newer"),
        ("v1.9.0", "1.9 is older"),
        ("", "unknown"),
        ("v0.0.0-master+$Format:%H$", "0.0 is older"),
        ("nonsense", "unknown"),
    ],
)
def test_a_release_that_was_never_tested_is_named(version: str, said: str) -> None:
    told = untested(version)
    assert said in told if said else told == ""


class Server:
    """The fake API server with a version, and versions of scheduling.k8s.io."""

    def __init__(self, api: FakeApi, version: str, serving: dict[str, list[str]]) -> None:
        self.version, self.serving = version, serving
        api.script = self._answer

    async def _answer(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == "/version":
            return web.json_response({"gitVersion": self.version})
        if request.path == GROUP:
            return web.json_response({"versions": [{"version": each} for each in self.serving]})
        version = request.path.removeprefix(f"{GROUP}/")
        if version in self.serving:
            resources = [{"name": each, "verbs": ["list"]} for each in self.serving[version]]
            return web.json_response({"resources": resources})
        return None


def _errors(logs: Any) -> list[str]:
    return [each["event"] for each in logs if each["log_level"] == "error"]


async def test_nothing_is_said_of_a_release_that_was_tested(api: FakeApi, make: Make) -> None:
    Server(api, "v1.37.0", {"v1": ["priorityclasses"], "v1alpha1": ["workloads"]})
    cache = make(discovery_seconds=0.02)
    with capture_logs() as logs:
        await cache.start()
        await cache.wait_synced(60)
        await until(lambda: cache.stats.discoveries > 3)
    assert _errors(logs) == []
    assert cache.stats.unfamiliar == ()


async def test_a_newer_release_is_told_once_and_again_when_it_changes(
    api: FakeApi, make: Make
) -> None:
    server = Server(api, "v1.38.0", {"v1": ["priorityclasses", "podgroups"]})
    cache = make(discovery_seconds=0.02)
    with capture_logs() as logs:
        await cache.start()
        await cache.wait_synced(60)
        await until(lambda: cache.stats.unfamiliar)
        seen = cache.stats.discoveries
        await until(lambda: cache.stats.discoveries > seen + 3)
        assert len(_errors(logs)) == 2
        first, second = cache.stats.unfamiliar
        assert "1.38 is newer" in first
        assert "scheduling.k8s.io/v1" in second
        assert "podgroups" in second
        server.version, server.serving = "v1.37.2", {"v1": ["priorityclasses"]}
        await until(lambda: cache.stats.unfamiliar == ())
    assert len(_errors(logs)) == 2
    assert not cache.problem()
