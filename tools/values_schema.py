"""Write ``config`` of the chart's values.schema.json: ``python -m tools.values_schema [--check]``.

It is made from the settings, so that Helm refuses a misspelt key of ``config``, or a value of
another type, before anything is installed. So it does with a number outside its range, where the
program names one. What no schema can say the program says at its start.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate

SCHEMA = (
    Path(__file__).resolve().parent.parent / "charts" / "podgroup-extender" / "values.schema.json"
)
LEFT_OUT = ("default", "description", "title")
"""The defaults are the program's, and the texts are in extender/settings/settings.py."""


def with_config(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of all values with ``config`` as the program reads it."""
    (found,), shapes = msgspec.json.schema_components(
        (Settings,), ref_template="#/definitions/{name}"
    )
    properties = {**schema["properties"], "config": found}
    definitions = {name: _plain(shape) for name, shape in sorted(shapes.items())}
    for section, shape in definitions["Settings"]["properties"].items():
        name = shape.get("$ref", "").rpartition("/")[2]
        for key, value in definitions.get(name, {}).get("properties", {}).items():
            value |= _range(section, key)
    return {**schema, "properties": properties, "definitions": definitions}


RANGE = re.compile(
    r"(?P<positive>positive)|not (?P<whole>be negative)|exceed (?P<beyond>\d+)(?! times)"
    r"|at least (?P<least>[\d.]+)"
    r"|(?P<low>\d+(?:\.\d+)?)\.\.(?P<high>\d+(?:\.\d+)?)"
    r"|above (?P<above>\d+) and at most (?P<most>\d+)"
)
"""How settings_rules.py tells a range: "plan.seconds must be positive"."""


def _range(section: str, key: str) -> dict[str, float]:
    """The keywords of a number's range as the program tells it to who says -1; {} without one."""
    try:
        validate(msgspec.convert({section: {key: -1}}, Settings))
    except msgspec.ValidationError:
        return {}  # no number
    except InvalidInput as problem:
        told = re.search(
            rf"(?<![\w.]){section}\.{key} must (?:be )?(?:{RANGE.pattern})(?=;| \(|$)", str(problem)
        )
    else:
        return {}
    if told is None:
        return {}
    if told["positive"]:
        return {"exclusiveMinimum": 0}
    keywords = {
        "minimum": "0" if told["whole"] else told["least"] or told["low"],
        "exclusiveMinimum": told["above"] or told["beyond"],
        "maximum": told["high"] or told["most"],
    }
    return {name: json.loads(number) for name, number in keywords.items() if number is not None}


def _plain(node: Any, *, keys: bool = False) -> Any:
    """A shape without what a validator does not look at; ``keys``: names here are settings'."""
    if isinstance(node, dict):
        return {
            name: _plain(value, keys=name == "properties" and not keys)
            for name, value in node.items()
            if keys or (name not in LEFT_OUT and (name, value) != ("required", []))
        }
    return [_plain(each) for each in node] if isinstance(node, list) else node


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m tools.values_schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    text = SCHEMA.read_text()
    wanted = json.dumps(with_config(json.loads(text)), indent=2) + "\n"
    if text == wanted:
        return 0
    if options.check:
        print(f"{SCHEMA.name} is not what the settings give: run python -m tools.values_schema")
        return 1
    SCHEMA.write_text(wanted)
    print(f"written: {SCHEMA.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
