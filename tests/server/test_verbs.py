"""The three verbs over a real socket, and everything that may be wrong with a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from extender.model.errors import InvalidInput, NotReady
from extender.server import responses
from extender.settings.settings import ServerSettings
from extender.wire.filter_json import FilterArgs
from tests.server.doubles import Gate, Running, running
from tests.wire.documents import dump, filter_by_name, filter_by_node, node, preempt_meta

NAMES = ["n1", "n2"]
QUESTION = dump(filter_by_name(NAMES))


async def post(
    web: aiohttp.ClientSession, url: str, body: bytes, **headers: str
) -> tuple[int, Any]:
    async with web.post(url, data=body, headers=headers) as answer:
        assert answer.content_type == "application/json"
        return answer.status, await answer.json()


class TestCalls:
    async def test_filter(self, site: Running, web: aiohttp.ClientSession) -> None:
        status, answer = await post(web, site.url("/filter"), QUESTION)
        assert (status, answer["NodeNames"], answer["Nodes"]) == (200, NAMES, None)
        (asked,) = site.verbs.asked
        assert isinstance(asked, FilterArgs)
        assert asked.pod.uid == "uid-p"

    async def test_filter_with_whole_nodes(self, site: Running, web: aiohttp.ClientSession) -> None:
        status, answer = await post(web, site.url("/filter"), dump(filter_by_node(NAMES)))
        assert status == 200
        assert answer["Nodes"]["items"] == [node("n1"), node("n2")]

    async def test_prioritize(self, site: Running, web: aiohttp.ClientSession) -> None:
        status, answer = await post(web, site.url("/prioritize"), QUESTION)
        assert (status, answer) == (200, [{"Host": n, "Score": 3} for n in NAMES])

    async def test_preempt(self, site: Running, web: aiohttp.ClientSession) -> None:
        question = preempt_meta({"n1": ["a", "b"]})
        status, answer = await post(web, site.url("/preempt"), dump(question))
        assert status == 200
        assert answer["NodeNameToMetaVictims"] == question["NodeNameToMetaVictims"]

    async def test_connection_is_kept(self, site: Running) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        for _ in range(3):
            writer.write(head % len(QUESTION) + QUESTION)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in answer
            await reader.readuntil(b'"Error":""}')
        writer.close()

    async def test_chunked_body(self, site: Running, web: aiohttp.ClientSession) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(QUESTION), 50):
                yield QUESTION[start : start + 50]

        async with web.post(site.url("/filter"), data=chunks()) as answer:
            assert answer.status == 200


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "where"),
        [
            (b"", ""),
            (b"{", ""),
            (b"[]", ""),
            (dump({"NodeNames": []}), "Pod"),
            (dump(filter_by_name(NAMES) | {"NodeNames": [1]}), "NodeNames[0]"),
        ],
    )
    async def test_malformed(
        self,
        site: Running,
        web: aiohttp.ClientSession,
        lines: list[Any],
        scrape: Callable[[], str],
        body: bytes,
        where: str,
    ) -> None:
        for verb in ("filter", "prioritize"):
            status, answer = await post(web, site.url(f"/{verb}"), body)
            assert (status, answer["where"]) == (400, where)
            assert answer["error"]
            assert f'bad_input_total{{transport="http",verb="{verb}"}} 1.0' in scrape()
        status, _ = await post(web, site.url("/preempt"), body)
        assert status == 400
        assert not site.verbs.asked
        warned = [line for line in lines if line["event"] == "malformed request"]
        assert [line["verb"] for line in warned] == ["filter", "prioritize", "preempt"]
        status, _ = await post(web, site.url("/filter"), QUESTION)
        assert status == 200, "the process lives on"

    async def test_input_that_the_verb_refuses(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        site.verbs.fail_with(InvalidInput("no such node", "NodeNames[1]"))
        answer = await post(web, site.url("/filter"), QUESTION)
        assert answer == (400, {"error": "no such node", "where": "NodeNames[1]"})

    async def test_not_ready(
        self, site: Running, web: aiohttp.ClientSession, scrape: Callable[[], str]
    ) -> None:
        site.verbs.fail_with(NotReady("pods are not synced"))
        status, answer = await post(web, site.url("/preempt"), dump(preempt_meta({})))
        assert (status, answer["error"]) == (503, "pods are not synced")
        assert 'requests_total{code="503",transport="http",verb="preempt"} 1.0' in scrape()

    async def test_internal_error(
        self,
        site: Running,
        web: aiohttp.ClientSession,
        lines: list[Any],
        scrape: Callable[[], str],
    ) -> None:
        site.verbs.fail_with(ZeroDivisionError("secret"))
        status, answer = await post(web, site.url("/filter"), QUESTION)
        assert status == 500
        assert "secret" not in json.dumps(answer)
        (line,) = [line for line in lines if line["log_level"] == "error"]
        assert line["exc_info"]
        assert line["request_id"] == answer["request_id"]
        assert 'requests_total{code="500",transport="http",verb="filter"} 1.0' in scrape()
        site.verbs.hook = None
        assert (await post(web, site.url("/filter"), QUESTION))[0] == 200

    async def test_unknown_verb(self, site: Running, web: aiohttp.ClientSession) -> None:
        for path in ("/bind", "/", "/filter/", "/FILTER", "/filter%2Fx"):
            status, answer = await post(web, site.url(path), QUESTION)
            assert status == 404, path
            assert answer["verbs"] == ["/filter", "/prioritize", "/preempt"]

    async def test_wrong_method(self, site: Running, web: aiohttp.ClientSession) -> None:
        for path, method, allowed in (
            ("/filter", "GET", "POST"),
            ("/preempt", "PUT", "POST"),
            ("/readyz", "POST", "GET"),
            ("/metrics", "DELETE", "GET"),
            ("/debug/gangs", "POST", "GET"),
        ):
            async with web.request(method, site.url(path)) as answer:
                assert (answer.status, answer.headers["allow"]) == (405, allowed)
                assert allowed in (await answer.json())["error"]

    async def test_caller_that_goes_away(
        self, site: Running, web: aiohttp.ClientSession, lines: list[Any]
    ) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        while not site.server.app.in_flight:
            await asyncio.sleep(0.005)
        writer.close()
        await asyncio.wait_for(site.server.app.idle(), 60)
        assert not site.verbs.asked
        assert not [line for line in lines if line["log_level"] == "error"]
        assert (await post(web, site.url("/filter"), QUESTION))[0] == 200

    async def test_what_is_no_http(self, site: Running, web: aiohttp.ClientSession) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b"400" in await reader.readline()
        writer.close()
        assert (await post(web, site.url("/filter"), QUESTION))[0] == 200


class TestBodyLimit:
    @pytest.fixture
    async def site(self) -> AsyncIterator[Running]:
        async with running(ServerSettings(port=0, max_body_bytes=2048)) as one:
            yield one

    async def test_declared_length_is_refused_unread(
        self, site: Running, scrape: Callable[[], str]
    ) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2049\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in head
        writer.close()
        assert 'bad_input_total{transport="http",verb="filter"} 1.0' in scrape()

    async def test_exactly_the_limit_is_read(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        body = QUESTION + b" " * (2048 - len(QUESTION))
        assert (await post(web, site.url("/filter"), body))[0] == 200
        status, answer = await post(web, site.url("/filter"), body + b" ")
        assert status == 413
        assert "2048" in answer["error"]

    async def test_undeclared_length_is_counted(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(40):
                sent += 1024
                yield b" " * 1024

        async with web.post(site.url("/filter"), data=endless()) as answer:
            assert answer.status == 413
        assert not site.verbs.asked
        assert sent > 2048

    async def test_big_body_gets_its_answer(self, site: Running) -> None:
        """The refusal must not be lost to a reset while the rest is on its way."""
        size = 8 * 1024 * 1024
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(b" " * size)
        await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 413")
        writer.close()


class TestRequestId:
    async def test_given_id_is_used(
        self, site: Running, web: aiohttp.ClientSession, lines: list[Any]
    ) -> None:
        headers = {"X-Request-Id": "abc-1"}
        async with web.post(site.url("/filter"), data=b"", headers=headers) as answer:
            assert answer.headers["x-request-id"] == "abc-1"
        (line,) = [line for line in lines if line["event"] == "malformed request"]
        assert (line["request_id"], line["verb"]) == ("abc-1", "filter")

    async def test_made_ids_differ_and_odd_ones_are_not_taken(
        self, site: Running, web: aiohttp.ClientSession
    ) -> None:
        seen = set()
        for given in ("", "x" * 65, 'a"b'):
            headers = {"X-Request-Id": given}
            async with web.post(site.url("/filter"), data=QUESTION, headers=headers) as answer:
                seen.add(answer.headers["x-request-id"])
        assert len(seen) == 3
        assert not seen & {"", "x" * 65, 'a"b'}


async def test_calls_do_not_wait_for_each_other(site: Running, web: aiohttp.ClientSession) -> None:
    gate = Gate()
    site.verbs.hook = gate
    slow = asyncio.create_task(post(web, site.url("/preempt"), dump(preempt_meta({}))))
    await gate.entered.wait()
    site.verbs.hook = None
    assert (await post(web, site.url("/filter"), QUESTION))[0] == 200
    assert not slow.done()
    gate.opened.set()
    assert (await slow)[0] == 200


async def test_idle_means_no_call_at_all(site: Running, web: aiohttp.ClientSession) -> None:
    gate = Gate()
    site.verbs.hook = gate
    slow = asyncio.create_task(post(web, site.url("/preempt"), dump(preempt_meta({}))))
    await gate.entered.wait()
    site.verbs.hook = None
    await post(web, site.url("/filter"), QUESTION)
    while site.server.app.in_flight > 1:
        await asyncio.sleep(0)
    idle = asyncio.create_task(site.server.app.idle())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not idle.done()
    gate.opened.set()
    await idle
    await slow


async def test_refused_body_that_never_comes(
    site: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server waits a little for the rest of a refused body, not for ever."""
    monkeypatch.setattr(responses, "LINGER_SECONDS", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (1 << 40))
    assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 413")
    writer.close()
    await asyncio.wait_for(site.server.app.idle(), 60)
