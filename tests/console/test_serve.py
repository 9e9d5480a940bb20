"""The console of a real server: what it shows is what the process does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.cli.live_bed import serving
from tests.console.reading import Read


async def test_a_real_plan_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(tmp_path, capsys) as live, aiohttp.ClientSession() as web:

        async def words(page: str, **form: str) -> str:
            way = web.post if form else web.get
            async with way(f"{live.url}/ui/{page}", data=form or None) as answer:
                assert answer.status == 200, await answer.text()
                return Read(await answer.text()).words

        assert "low team · pod-group ● running" in await words("")
        assert "n3" in await words("cluster")
        asked = await words("what-if", gang="high", priority="1")
        assert "It would not run any more." in asked
        await live.preempt("high-0", "n0")
        async with web.get(f"{live.url}/debug/decisions") as answer:
            plan = next(
                made
                for made in (await answer.json())["decisions"]
                if made["outcome"] == "plan" and made["gang"] == "pod-group:team/high"
            )
        # A page may be a second old.
        async with asyncio.timeout(60):
            while plan["message"] not in (text := await words("decisions?outcome=plan")):
                await asyncio.sleep(0.05)
        assert "pod-group:team/high" in text
        assert "team/low-0 on n0" in await words("gang?name=high")
        async with web.get(f"{live.url}/ui/decisions") as answer:
            links = Read(await answer.text()).links
        assert f"../debug/snapshot?generation={plan['generation']}" in links
