"""The console of observe mode: on the real process, over HTTP, with rights that only read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from extender.settings.mode import ObserveSettings
from tests.cli.live_bed import Live, serving
from tests.console.reading import Read


async def words(live: Live, page: str, **form: str) -> str:
    async with aiohttp.ClientSession() as web:
        way = web.post if form else web.get
        async with way(f"{live.url}/ui/{page}", data=form or None) as answer:
            assert answer.status == 200, await answer.text()
            read = Read(await answer.text())
            assert not read.suspicious
            return read.words


async def shows(live: Live, page: str, text: str) -> str:
    """Ask a page until it says that; a picture may be a second old."""
    async with asyncio.timeout(60):
        while text not in (found := await words(live, page)):
            await asyncio.sleep(0.05)
    return found


async def test_what_would_be_done_is_shown_beside_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(tmp_path, capsys, observing=ObserveSettings()) as live:
        front = await shows(live, "", "low team · pod-group ● running")
        assert "Observe mode: nothing is done" in front
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await live.client.patch(
            "/api/v1/namespaces/team/pods/high-0/status", {"status": {"conditions": [tried]}}
        )
        found = await shows(live, "observed", "4 seats, 4 pods evicted, with pod-group:team/low")
        assert "schedulers did" in found
        assert "extender would have" in found
        assert "pods evicted for gangs 0 4" in found
        gang = await shows(live, "gang?name=high", "What was done, and what would have been")
        assert "Nothing was done by the extender" in gang
        assert "would be planned" not in gang
        assert "team/low-0 on n0" in gang
        assert "n3" in await words(live, "cluster")
        assert "▶ plan made pod-group:team/high" in await words(live, "decisions")
        asked = await words(live, "what-if", gang="high", priority="1")
        assert "It would not run any more." in asked


async def test_a_process_that_acts_has_no_such_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(tmp_path, capsys) as live,
        aiohttp.ClientSession() as web,
        web.get(f"{live.url}/ui/observed") as answer,
    ):
        assert answer.status == 404
        assert "mode: observe" in await answer.text()
