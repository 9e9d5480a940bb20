"""The generated pages: as the code has them, with every key and every metric."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import msgspec
import pytest

from extender.settings.mode import ObserveSettings
from extender.settings.settings import Settings
from tests.cli.live_bed import serving
from tools.docs import reference

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"^# TYPE (podgroup_extender_\w+)", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs/reference" / name).read_text()


def paths(value: object, path: str = "") -> set[str]:
    """Every key of a configuration that is written out in full."""
    if not isinstance(value, dict) or not value:
        return {path}
    return set().union(*(paths(each, f"{path}.{key}".lstrip(".")) for key, each in value.items()))


def test_the_pages_are_as_the_code_has_them() -> None:
    assert reference.main(["--check"]) == 0


def test_an_old_page_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "PAGES", {"metrics.md": lambda: "new"})
    assert reference.main(["--check"]) == 1
    assert "metrics.md is old" in capsys.readouterr().out
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def test_every_key_is_on_the_page_with_its_meaning() -> None:
    shown = {key.path: key for key in reference.keys(Settings)}
    for path in paths(msgspec.to_builtins(Settings())):
        assert any(path == key or path.startswith(f"{key}.") for key in shown), path
    assert [key.path for key in shown.values() if not key.meaning] == []


@pytest.mark.parametrize("observing", [None, ObserveSettings()], ids=["enforce", "observe"])
async def test_every_metric_that_is_served_is_on_the_page(
    observing: ObserveSettings | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(tmp_path, capsys, observing=observing) as live,
        aiohttp.ClientSession() as http,
        http.get(f"{live.url}/metrics") as answer,
    ):
        text = await answer.text()
    served = {name for name in NAME.findall(text) if not name.endswith("_created")}
    assert len(served) > 25
    text = page("metrics.md")
    assert [name for name in served if f"`{name}`" not in text] == []
