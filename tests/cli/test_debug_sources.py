"""Both processes that serve /debug/ have every page of it."""

from __future__ import annotations

import inspect
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from extender.app.debug_source import DebugView
from extender.app.observe_debug import ObserveDebug
from extender.observe.file import LedgerFile
from extender.server.diagnostics import INDEX, DebugSource, serve_debug
from extender.settings.settings import Settings
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
