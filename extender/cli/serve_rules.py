"""Rules on the extender's own command line, which overrides what its configuration says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from extender.cli import flags
from extender.cli.catalogue import broken
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.flag_rules import file_findings
from extender.cli.workloads import workloads
from extender.model.settings import Settings

OVERRIDES = {"host": "host", "port": "port", "health-port": "health_port"}
"""Flag -> field of ServerSettings; see ``add_parser`` of serve_command.py."""


def as_served(settings: Settings, documents: Sequence[Document]) -> Settings:
    """Return the settings as the command line of the manifests changes them."""
    changed: dict[str, object] = {}
    for each in workloads(documents):
        given = flags.parse(flags.words_of(each.extender or {}))
        for name, value in given.items():
            if name in OVERRIDES and (name == "host" or _is_port(value[-1])):
                changed[OVERRIDES[name]] = value[-1] if name == "host" else int(value[-1])
    return replace(settings, server=replace(settings.server, **changed))


def serve_findings(documents: Sequence[Document], checked: AbstractSet[str]) -> Iterator[Finding]:
    """Findings on each container of ours; ``checked``: names of the file with our configuration.

    Empty: none was given.
    """
    for each in workloads(documents):
        if each.extender is None:
            continue
        given = flags.parse(flags.words_of(each.extender))
        for name in OVERRIDES:
            if name in given:
                place = f"{each.place}: extender --{name}"
                problem = f"is {given[name][-1]}, whatever the configuration says"
                yield broken("flag-overrides", place, problem)
        if checked:
            place = f"{each.place}: extender --config"
            if not flags.last(given, "config"):
                yield broken("flag-config", place, "is missing")
            files = given.get("config", [])
            yield from file_findings(place, each.pod, each.extender, files, checked)


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len("65535")
