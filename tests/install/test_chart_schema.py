"""The chart's schema of ``config`` is made from the program's settings and their rules."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from tools import values_schema


def test_the_schema_of_config_is_the_programs() -> None:
    assert values_schema.main(["--check"]) == 0


def test_ranges_that_the_program_tells_are_the_schemas() -> None:
    """Every number that -1 is refused for by a rule of its own has a range in the schema."""
    shapes = json.loads(values_schema.SCHEMA.read_text())["definitions"]
    ranges = ("minimum", "exclusiveMinimum")
    others = {  # They depend on another setting.
        *("server.maxBytesInFlight", "plan.longestRetrySeconds"),
        *("leadership.renewSeconds", "status.heartbeatSeconds"),
    }
    without = set()
    for section, shape in shapes["Settings"]["properties"].items():
        name = shape.get("$ref", "").rpartition("/")[2]
        for key, value in shapes.get(name, {}).get("properties", {}).items():
            try:
                validate(msgspec.convert({section: {key: -1}}, Settings))
            except msgspec.ValidationError:
                assert value.get("type") not in ("number", "integer"), key
            except InvalidInput:
                if not any(word in value for word in ranges):
                    without.add(f"{section}.{key}")
    assert without == others


def test_a_changed_setting_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "values.schema.json"
    stale.write_text(values_schema.SCHEMA.read_text().replace('"costOrder"', '"costOrdr"'))
    monkeypatch.setattr(values_schema, "SCHEMA", stale)
    assert values_schema.main(["--check"]) == 1
