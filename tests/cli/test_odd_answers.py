"""Answers of a server that is another program, of another version, or hostile."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
from pathlib import Path

import pytest

from extender.app.main import main
from extender.cli import api_client, live_http
from extender.cli.api_client import NoAnswer, ServerClient
from extender.cli.live_command import add_live, answered
from tests.cli.test_live import asked

ROW = {
    "gang": "pod-group:team/a",
    "bound": 0,
    "pending": 0,
    "minCount": 1,
    "members": 1,
    "priorityAsPreemptor": 0,
    "startsWhole": True,
    "problems": [],
}
"""What /debug/gangs has of a gang."""


@pytest.mark.parametrize(
    "body",
    [
        *("<html>", "[]", "{}", '{"gangs": 3}', '{"gangs": ["x"]}', '{"gangs": [{"gang": "x"}]}'),
        *("[" * 100_000, '{"gangs": ' + "[" * 100_000, '{"gangs": [{"gang": ' + "[" * 100_000),
        json.dumps({"gangs": [{**ROW, "gang": 5}]}),
        json.dumps({"gangs": [{**ROW, "minCount": "many"}]}),
        json.dumps({"gangs": [{**ROW, "problems": 5, "bound": None}]}),
    ],
    ids=lambda body: body[:30],
)
async def test_another_kind_of_server_is_told_apart(
    body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(request: str) -> tuple[str, str]:
        empty = '{"decisions": [], "reservations": []}'
        return "200 OK", body if "/debug/gangs" in request else empty

    assert await asked(other, "gangs") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")


def test_what_fails_beside_the_error_that_is_told_is_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Questions are asked side by side. Of one that failed as it was cancelled the event loop
    wrote a traceback, with what the server had said as it came: control characters as well."""

    async def found(server: ServerClient) -> None:
        pass

    async def beside() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise NoAnswer("\x1b[2J said the server")

    async def work(server: ServerClient) -> int:
        other = asyncio.create_task(beside())
        await asyncio.sleep(0)
        assert not other.done()
        raise NoAnswer("the first one")

    monkeypatch.setattr(ServerClient, "find", found)
    parser = argparse.ArgumentParser()
    add_live(parser, one="")
    args = parser.parse_args(["--url", "http://127.0.0.1:1"])
    assert answered(args, work) == 3
    gc.collect()
    assert caplog.text == ""


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"format": 9}'])
async def test_a_report_that_is_none_is_the_server_s(
    body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asked(lambda _: ("200 OK", body), "report") == 3
    assert capsys.readouterr().err.startswith("error: /debug/observe: is no report of observe mode")


async def test_what_the_options_of_a_report_ask_in_vain_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = '{"format": 1, "written": 0, "weeks": []}'
    out = str(tmp_path / "none" / "x.md")
    assert await asked(lambda _: ("200 OK", body), "report", "--out", out) == 2
    assert capsys.readouterr().err == f"error: --out {out}: No such file or directory\n"


async def test_an_answer_without_an_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_http, "MOST_BYTES", 1000)
    assert await asked(lambda _: ("200 OK", "[" * 1001), "gangs") == 3
    assert "the answer is longer than 1000 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("dripping", ["head", "body"])
async def test_an_answer_that_drips(
    dripping: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each byte comes in time; all of them never would."""
    monkeypatch.setattr(api_client, "IDLE_SECONDS", 0.2)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        end = b"X-Long: " if dripping == "head" else b"Content-Length: 1000\r\n\r\n"
        with contextlib.suppress(OSError):
            writer.write(b"HTTP/1.1 200 OK\r\n" + end)
            for _ in range(200):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(8):
            assert await asyncio.to_thread(main, ["gangs", "--url", url]) == 3
    assert "no answer in time" in capsys.readouterr().err


async def test_an_error_without_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    def deep(request: str) -> tuple[str, str]:
        body = '{"error": ' + "[" * 100_000 if "/readyz" in request else '{"reservations": []}'
        return "503 Service Unavailable" if "/readyz" in request else "200 OK", body

    assert await asked(deep, "seats") == 0
    assert 'may be old: {"error": [[' in capsys.readouterr().err
