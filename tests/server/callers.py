"""Callers of a server with small limits: what they send, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from extender.settings.settings import ServerSettings
from tests.server.doubles import Running
from tests.wire.documents import dump, filter_by_name

QUESTION = dump(filter_by_name(["n1", "n2"]))
HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SHORT = ServerSettings(
    port=0,
    health_port=0,
    max_body_bytes=64 * 1024,
    max_bytes_in_flight=256 * 1024,
    max_connections=16,
    head_seconds=0.2,
    body_seconds=0.2,
)


async def connect(site: Running) -> Streams:
    return await asyncio.open_connection("127.0.0.1", site.server.port)


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    """Status and document of an answer after which the connection is closed."""
    async with asyncio.timeout(60):
        text = await reader.read()
    head, _, body = text.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    document: dict[str, Any] = json.loads(body)
    assert document["error"]
    return int(head.split()[1]), document


async def refused(site: Running, reason: str) -> None:
    """Wait until a refusal of this kind is counted."""
    async with asyncio.timeout(60):
        while f'refused_total{{reason="{reason}"}}' not in site.metrics.render("")[0].decode():
            await asyncio.sleep(0.01)


async def works(site: Running) -> None:
    async with aiohttp.ClientSession() as web:
        async with web.post(site.url("/filter"), data=QUESTION) as call:
            assert call.status == 200
        async with web.get(site.server.health_url + "/livez") as alive:
            assert alive.status == 200
