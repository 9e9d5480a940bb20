"""Health, metrics and the debug API over a real socket."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest

from extender.server import diagnostics
from extender.server.diagnostics import Health
from extender.settings.settings import ServerSettings
from tests.server.doubles import Row, Running, Source, running
from tests.wire.documents import dump, filter_by_name


class TestHealth:
    async def test_alive(self, site: Running, web: aiohttp.ClientSession) -> None:
        site.reasons = ["pods are not synced"]
        for path in ("/healthz", "/livez"):
            async with web.get(site.url(path)) as answer:
                assert (answer.status, await answer.text()) == (200, "ok")

    async def test_ready(self, site: Running, web: aiohttp.ClientSession) -> None:
        async with web.get(site.url("/readyz")) as answer:
            assert answer.status == 200
        site.reasons = ["pods are not synced", "not the leader"]
        async with web.get(site.url("/readyz")) as answer:
            assert answer.status == 503
            assert (await answer.json())["reasons"] == site.reasons

    async def test_dead_parts_ask_for_a_restart(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        site.dead = ["tick has made no progress for 61 s"]
        for path in ("/healthz", "/livez"):
            async with web.get(site.url(path)) as answer:
                assert answer.status == 500
                assert (await answer.json())["reasons"] == site.dead

    async def test_standby_is_warm_and_not_ready(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        site.reasons = ["another replica leads: a"]
        async with web.get(site.url("/readyz/caches")) as answer:
            assert answer.status == 200
        site.cold = ["the cache is stale"]
        async with web.get(site.url("/readyz/caches")) as answer:
            assert answer.status == 503

    async def test_head(self, site: Running, web: aiohttp.ClientSession) -> None:
        async with web.head(site.url("/healthz")) as answer:
            assert answer.status == 200

    async def test_a_readiness_check_that_fails_is_not_ready(
        self, site: Running, web: aiohttp.ClientSession, lines: list[Any]
    ) -> None:
        def broken() -> list[str]:
            raise ZeroDivisionError

        site.server.app._diagnostics._health = Health(ready=broken)
        async with web.get(site.url("/readyz")) as answer:
            assert answer.status == 500
        assert [line for line in lines if line["log_level"] == "error"]


class TestMetrics:
    async def test_a_call_is_counted(self, site: Running, web: aiohttp.ClientSession) -> None:
        body = dump(filter_by_name(["n1", "n2"]))
        async with web.post(site.url("/filter"), data=body) as call:
            size = len(await call.read())
        async with web.get(site.url("/metrics")) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/plain"
            text = await answer.text()
        for line in (
            'requests_total{code="200",transport="http",verb="filter"} 1.0',
            'request_seconds_count{transport="http",verb="filter"} 1.0',
            f'body_bytes_total{{direction="in",transport="http",verb="filter"}} {float(len(body))}',
            f'body_bytes_total{{direction="out",transport="http",verb="filter"}} {float(size)}',
            'nodes_total{direction="in",transport="http",verb="filter"} 2.0',
            'nodes_total{direction="out",transport="http",verb="filter"} 2.0',
            'bad_input_total{transport="http",verb="filter"} 0.0',
        ):
            assert f"podgroup_extender_{line}\n" in text
        assert "process_resident_memory_bytes" in text

    def test_what_other_rooms_tell(self, site: Running, scrape: Callable[[], str]) -> None:
        site.metrics.decided("plan")
        site.metrics.decided("plan")
        site.metrics.evicted("deleted")
        site.metrics.lost("team", 5, 5400)
        site.metrics.evicted("refused")
        site.metrics.search_backend("python")
        site.metrics.search_backend("compiled")
        text = scrape()
        assert 'gang_decisions_total{outcome="plan"} 2.0' in text
        assert 'evictions_total{result="deleted"} 1.0' in text
        assert 'lost_gpu_seconds_total{namespace="team",priority="5"} 5400.0' in text
        assert 'search_backend_info{backend="compiled"} 1.0' in text
        assert 'backend="python"' not in text

    def test_sources_are_read_at_each_scrape(
        self, site: Running, scrape: Callable[[], str], lines: list[Any]
    ) -> None:
        held = {"pods": 3}

        def broken() -> Mapping[str, float]:
            raise ZeroDivisionError

        site.metrics.source("cache_objects", "Objects held.", lambda: held, label="kind")
        site.metrics.source("relists", "Lists.", lambda: {"pods": 7}, label="kind", counter=True)
        site.metrics.source("broken", "Never.", broken, label="kind")
        assert 'podgroup_extender_cache_objects{kind="pods"} 3.0' in scrape()
        held["pods"] = 4
        text = scrape()
        assert 'podgroup_extender_cache_objects{kind="pods"} 4.0' in text
        assert 'podgroup_extender_relists_total{kind="pods"} 7.0' in text
        assert "podgroup_extender_broken" not in text
        assert lines[-1]["metric"] == "podgroup_extender_broken"
        with pytest.raises(ValueError, match="cache_objects"):
            site.metrics.source("cache_objects", "Twice.", lambda: held, label="kind")

    def test_collector_pauses(self, site: Running, scrape: Callable[[], str]) -> None:
        def count() -> float:
            name = 'podgroup_extender_gc_pause_seconds_count{generation="2"} '
            return float(scrape().split(name)[1].split("\n")[0])

        before = count()
        gc.collect()
        assert count() > before
        site.metrics.close()
        after = count()
        gc.collect()
        assert count() == after


class TestDebug:
    async def get(self, web: aiohttp.ClientSession, url: str) -> Any:
        async with web.get(url) as answer:
            assert answer.status == 200
            assert answer.content_type == "application/json"
            return await answer.json()

    async def test_index(self, site: Running, web: aiohttp.ClientSession) -> None:
        for path in ("/debug", "/debug/"):
            index = await self.get(web, site.url(path))
            assert set(index) == set(diagnostics.INDEX)
        for path in index:
            await self.get(web, site.url(path))

    async def test_documents(self, site: Running, web: aiohttp.ClientSession) -> None:
        found = await self.get(web, site.url("/debug/decisions"))
        assert found == {"decisions": site.source.decisions()}
        found = await self.get(web, site.url("/debug/decisions?limit=2"))
        assert found == {"decisions": site.source.decisions()[:2]}
        found = await self.get(web, site.url("/debug/reservations"))
        assert found == {"reservations": [{"name": "seat"}]}
        assert await self.get(web, site.url("/debug/limits")) == {"suspended": []}
        assert await self.get(web, site.url("/debug/gangs")) == {"gangs": [{"name": "gang"}]}
        assert await self.get(web, site.url("/debug/watches")) == {"watches": [{"name": "watch"}]}
        found = await self.get(web, site.url("/debug/pods?name=team%2Fp"))
        assert found == {"pods": [{"name": "team/p"}]}

    @pytest.mark.parametrize("query", ["", "?name=", "?other=p", "?name=" + "p" * 513])
    async def test_pods_want_a_name(
        self, site: Running, web: aiohttp.ClientSession, query: str
    ) -> None:
        async with web.get(site.url(f"/debug/pods{query}")) as answer:
            assert answer.status == 400
            assert (await answer.json())["where"] == "name"

    async def test_snapshot_comes_in_pieces(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        async with web.get(site.url("/debug/snapshot")) as answer:
            assert "snapshot.json" in answer.headers["content-disposition"]
            found = await answer.json()
        assert found["generation"] == 4
        assert [row["name"] for row in found["pods"]] == [f"p{i}" for i in range(1201)]
        assert found["nodes"] == {"n1": {"name": "n1"}}

    @pytest.mark.parametrize("limit", ["-1", "x", "", "1" * 20])
    async def test_bad_limit(self, site: Running, web: aiohttp.ClientSession, limit: str) -> None:
        async with web.get(site.url(f"/debug/decisions?limit={limit}")) as answer:
            assert answer.status == 400
            assert (await answer.json())["where"] == "limit"

    async def test_unknown_page(self, site: Running, web: aiohttp.ClientSession) -> None:
        async with web.get(site.url("/debug/secrets")) as answer:
            assert answer.status == 404

    async def test_source_that_fails(
        self, site: Running, web: aiohttp.ClientSession, lines: list[Any]
    ) -> None:
        site.source.pods = object()
        with pytest.raises(aiohttp.ClientPayloadError):
            async with web.get(site.url("/debug/snapshot")) as answer:
                await answer.read()
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "internal error"
        ]
        async with web.get(site.url("/healthz")) as answer:
            assert answer.status == 200

    async def test_turned_off(self, web: aiohttp.ClientSession) -> None:
        async with running(ServerSettings(port=0, debug=False)) as site:
            for path in ("/debug/", "/debug/snapshot"):
                async with web.get(site.url(path)) as answer:
                    assert answer.status == 404
                    assert "turned off" in (await answer.json())["error"]

    async def test_verbs_are_served_during_a_download(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        site.source.pods = [Row(f"p{i:0100d}") for i in range(50_000)]
        async with web.get(site.url("/debug/snapshot")) as download:
            await download.content.readany()
            body = dump(filter_by_name(["n1"]))
            async with asyncio.timeout(60), web.post(site.url("/filter"), data=body) as call:
                assert call.status == 200
            assert not download.content.at_eof()


async def test_a_download_lets_others_in_after_every_piece() -> None:
    turns = 0
    turns_seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        turns_seen.append(turns)

    task = asyncio.create_task(others())
    await diagnostics.serve_debug(Source(), "/debug/snapshot", b"", send, [])
    task.cancel()
    assert len(turns_seen) > 5
    assert turns_seen[1:] == sorted(set(turns_seen[1:]))


def test_chunks_of_every_shape() -> None:
    values: list[Any] = [
        {},
        [],
        {"a": list(range(diagnostics.SLICE + 1))},
        tuple(range(diagnostics.SLICE * 2)),
        {"deep": {"er": [[1], {"x": None}]}, 'quo"te': 1},
        "text",
        None,
    ]
    for value in values:
        found = json.loads(b"".join(diagnostics.chunks(value)))
        assert found == json.loads(json.dumps(value))


def test_read_only_mappings_inside_a_snapshot() -> None:
    labels = MappingProxyType({"a": MappingProxyType({"zone": "z"})})
    value = {"namespaces": labels, "rows": [labels], "kept": [deque([1, 2])]}
    assert json.loads(b"".join(diagnostics.chunks(value))) == {
        "namespaces": {"a": {"zone": "z"}},
        "rows": [{"a": {"zone": "z"}}],
        "kept": [[1, 2]],
    }
    with pytest.raises(TypeError, match="object"):
        list(diagnostics.chunks({"a": object()}))
