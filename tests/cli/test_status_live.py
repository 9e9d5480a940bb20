"""The status ConfigMap of a real server: what it says is what the process does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.gang.status import status_map
from extender.settings.status import StatusSettings
from tests.cli.live_bed import Live, serving

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
        # The victims have no kubelet that ends them: the plan stays in flight.
        await live.preempt("high-0", "n0")
        said = await until(live, lambda said: said["evictionsLastHour"]["byResult"])
        assert said["plans"]["seatsHeld"] == 4
        assert said["plans"]["mostUrgent"][0]["gang"] == "pod-group:team/high"
        assert said["gangs"]["waiting"] == 2
