"""Answers of a server that is another program, of another version, or hostile."""

from __future__ import annotations

import json

import pytest

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


async def test_an_error_without_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    def deep(request: str) -> tuple[str, str]:
        body = '{"error": ' + "[" * 100_000 if "/readyz" in request else '{"reservations": []}'
        return "503 Service Unavailable" if "/readyz" in request else "200 OK", body

    assert await asked(deep, "seats") == 0
    assert 'may be old: {"error": [[' in capsys.readouterr().err
