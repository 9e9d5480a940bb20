"""The generated pages: as the code has them, with every key, metric, option, path and field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import aiohttp
import msgspec
import pytest

from extender.app.main import COMMANDS, parser_of
from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2
from extender.server.diagnostics import INDEX
from extender.settings.mode import ObserveSettings
from extender.settings.settings import Settings
from tests.cli.live_bed import serving
from tools.docs import debug_page, reference
from tools.docs.types_in_words import is_object

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"^# TYPE (podgroup_extender_\w+)", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs/reference" / name).read_text()


def paths(value: object, path: str = "") -> set[str]:
    """Every key of a configuration that is written out in full."""
    if not isinstance(value, dict) or not value:
        return {path}
    return set().union(*(paths(each, f"{path}.{key}".lstrip(".")) for key, each in value.items()))


def test_the_pages_are_as_the_code_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("grpc_tools") is None:  # ./run lint has it, and compares this page too
        monkeypatch.delitem(reference.PAGES, "grpc.md")
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


def section(text: str, title: str) -> str:
    """What stands below a heading of the second or third level."""
    return re.split(rf"^###? {re.escape(title)}$", text, flags=re.M)[1].partition("\n#")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_status_of_a_command_is_on_the_page(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        parser_of((command,)).parse_args([command, "--help"])
    said = capsys.readouterr().out
    text = page("cli.md")
    own, shared = section(text, command), text.partition("## Options of several commands")[2]
    shared = "\n".join(line for line in shared.splitlines() if command in line)
    options = set(re.findall(r"^ +(?:-\w[^-]*)?(--[\w-]+)", said, re.M)) - {"--help"}
    assert [
        each
        for each in options
        if f"{each}`" not in own.replace(" ", "`") and f"{each}`" not in shared.replace(" ", "`")
    ] == []
    assert " ".join(said.partition("Exit status")[2].split()) in own


async def test_every_field_that_the_debug_api_answers_is_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, seen = page("debug.md"), 0
    async with serving(tmp_path, capsys) as live, aiohttp.ClientSession() as http:
        await live.preempt("high-0", "n0", "n1", "n2", "n3")
        for path in INDEX:
            name = path.partition("?")[0]
            async with http.get(live.url + path.replace("=NAME", "=low-0")) as answer:
                found = await answer.json()
            if answer.status != 200 or debug_page.answer_of(path) is None:
                continue
            kind = debug_page.answer_of(path)
            if not is_object(kind):
                (found,) = found[name.rpartition("/")[2]][:1] or [{}]
                kind = get_args(kind)[0]
            told = section(text, kind.__name__ if name != "/debug/limits" else name)
            assert [field for field in found if f"| `{field}` |" not in told] == []
            seen += len(found)
    assert seen > 60


def test_every_field_of_the_debug_api_has_a_meaning() -> None:
    assert re.findall(r"^\| `.*\|\s*\|$", page("debug.md"), re.M) == []


def messages() -> Iterator[tuple[str, list[str]]]:
    for file in (extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2):
        for message in file.DESCRIPTOR.message_types_by_name.values():
            yield message.name, [field.name for field in message.fields]
        for service in file.DESCRIPTOR.services_by_name.values():
            yield service.name, [method.name for method in service.methods]


def test_every_call_and_field_of_the_interface_is_on_the_page() -> None:
    text = page("grpc.md")
    for name, parts in messages():
        told = section(text, name)
        assert [each for each in parts if f"| `{each}` |" not in told] == []
