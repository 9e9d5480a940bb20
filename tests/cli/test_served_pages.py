"""What a serving process shows: debug pages, pods, the cache's counters, its status."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import MutableMapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from extender.app import cache_metrics
from extender.app.debug_pods import MOST, pods_named
from extender.app.debug_source import DebugView
from extender.app.observe_debug import ObserveDebug
from extender.cache.stats import CacheStats
from extender.gang.status import status_map
from extender.groups.resolver import Resolver
from extender.observe.file import LedgerFile
from extender.server.diagnostics import INDEX, DebugSource, serve_debug
from extender.server.metrics import Metrics
from extender.settings.settings import GroupSettings, Settings
from extender.settings.status import StatusSettings
from tests.cli.live_bed import Live, serving
from tests.gang.world import node, pod, snapshot
from tests.observe.bed import Bed
from tests.server.doubles import Source

ASKED = {name: found for name, found in vars(DebugSource).items() if inspect.isfunction(found)}


def views() -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(found) for name, found in ASKED.items() if not name.startswith("_")
    }


def test_there_is_a_view_for_every_page() -> None:
    assert len(views()) == len(INDEX)


@pytest.mark.parametrize("kind", [DebugView, ObserveDebug, Source])
def test_whoever_is_asked_has_them_all(kind: type) -> None:
    for name, signature in views().items():
        found = getattr(kind, name, None)
        assert found is not None, f"{kind.__name__} lacks {name}"
        assert list(inspect.signature(found).parameters) == list(signature.parameters)


async def test_observe_mode_answers_for_every_page(tmp_path: Path) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    settings = Settings()
    async with Bed(settings) as bed:
        file = LedgerFile(str(tmp_path / "observed.json"), bed.ledger, lambda: 0.0)
        source = ObserveDebug(bed.cache, list, bed.observer, file, settings)
        for page in INDEX:
            path, _, query = page.partition("?")
            assert await serve_debug(source, path, query.encode(), send, [])
            assert sent[-1]["type"] == "http.response.body"
    assert {each["status"] for each in sent if "status" in each} == {200}
    assert len([each for each in sent if "status" in each]) == len(INDEX)


KEY = Resolver(GroupSettings()).member_key


def test_a_name_is_found_in_every_namespace_and_in_one() -> None:
    here = pod("same", on="n0")
    there = replace(pod("same", group="g"), namespace="other", uid="u-other")
    state = snapshot([node("n0")], [here, there, pod("another")], [])
    found = pods_named("same", state, KEY)
    assert [(one["namespace"], one["node"]) for one in found] == [
        (here.namespace, "n0"),
        ("other", ""),
    ]
    assert found[1]["gang"] == "pod-group:other/g"
    assert [one["uid"] for one in pods_named("other/same", state, KEY)] == ["u-other"]
    assert pods_named("other/another", state, KEY) == []


def test_the_answer_is_bounded() -> None:
    many = [replace(pod("p"), namespace=f"s{i}", uid=f"u{i}") for i in range(MOST + 5)]
    assert len(pods_named("p", snapshot([], many, []), KEY)) == MOST


ELSEWHERE = {"watches", "discoveries"}
"""Told by resource; a clock of the discovery, read by the cache itself."""


def test_each_counter_of_the_cache_is_shown() -> None:
    stats = CacheStats(unfamiliar=("version 1.99",))
    counters = [each.name for each in fields(CacheStats) if isinstance(each.default, int)]
    shown = [name for name in counters if name not in ELSEWHERE]
    for number, name in enumerate(shown, start=11):
        setattr(stats, name, number)
    cache: Any = SimpleNamespace(stats=stats, describe=list)
    metrics = Metrics()
    cache_metrics.expose(metrics, cache)
    lines = metrics.render("")[0].decode().splitlines()
    metrics.close()
    values = {line.rpartition(" ")[2] for line in lines if line.startswith("podgroup_extender_")}
    assert len(shown) == 3
    assert {f"{number}.0" for number in range(11, 11 + len(shown))} <= values
    assert 'podgroup_extender_cache_failures_total{what="subscriber"} 12.0' in lines
    assert 'podgroup_extender_cache_failures_total{what="discovery"} 13.0' in lines
    assert 'podgroup_extender_cache_outdated_events_total{of="all"} 11.0' in lines
    assert 'podgroup_extender_kubernetes_unfamiliar{what="version 1.99"} 1.0' in lines


STATUS = StatusSettings(namespace="podgroup-extender", seconds=1)
PATH = "/api/v1/namespaces/podgroup-extender/configmaps"


async def until(live: Live, wanted: Any) -> dict[str, Any]:
    """What the ConfigMap says as soon as ``wanted`` finds it right."""
    said: dict[str, Any] = {}
    async with asyncio.timeout(60):
        while not said or not wanted(said):
            await asyncio.sleep(0.05)
            items = await live.client.get(PATH)
            for item in items["items"]:
                if item["metadata"]["name"] == "podgroup-extender-status":
                    said = yaml.safe_load(item["data"]["status"])
    return said


async def test_it_says_who_waits_and_what_is_in_preemption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_map, "LOOK_SECONDS", 0.05)
    async with serving(tmp_path, capsys, status=STATUS) as live:
        said = await until(live, lambda said: said["gangs"]["byState"].get("running") == 1)
        assert said["mode"] == "enforce"
        assert said["ready"] is True
        assert said["watches"]["fresh"] is True
        assert said["watches"]["number"] > 3
        assert [each["gang"] for each in said["gangs"]["mostUrgentWaiting"]] == [
            "pod-group:team/high"
        ]
        # The victims have no kubelet that ends them: the plan stays under way.
        await live.preempt("high-0", "n0")
        said = await until(live, lambda said: said["evictionsLastHour"]["byResult"])
        assert said["plans"]["seatsHeld"] == 4
        assert said["plans"]["mostUrgent"][0]["gang"] == "pod-group:team/high"
        assert said["gangs"]["waiting"] == 2
