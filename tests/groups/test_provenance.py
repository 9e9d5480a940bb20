"""Every fixture of pods names the system, its release, and how what it makes is known."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.groups import owners, recorded, recorded_launched
from tests.groups.provenance import WAYS, made_by, provenance

ROOT = Path(__file__).parents[2]
Fixture = Callable[..., Any]


def fixtures(module: ModuleType) -> dict[str, Fixture]:
    """The functions of a module that make the metadata of pod ``i`` of a gang."""
    return {
        name: each
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__
        and {"i", "gang"} <= inspect.signature(each).parameters.keys()
        and "fixture" not in inspect.signature(each).parameters
    }


EVERY = {**fixtures(recorded), **fixtures(recorded_launched), **fixtures(owners)}


def faults(fixture: Fixture) -> list[str]:
    """What is wrong with what is said of it."""
    said = provenance(fixture)
    if said is None:
        return ["nothing is said of it"]
    found = [] if said.system else ["it names no system"]
    if not re.fullmatch(r"\d+\.\d+\.\d+", said.version):
        found.append(f"{said.version!r} is no release")
    way, _, where = said.how.partition(": ")
    if way not in WAYS or not where:
        found.append(f"{said.how!r} does not say how")
    if way == "recorded" and not (ROOT / where.split()[0]).is_file():
        found.append(f"there is no {where}")
    return found


def test_all_fixtures_are_found() -> None:
    listed = {**recorded.EVERY, **recorded.PARTS}.values()
    assert set(listed) <= set(EVERY.values())
    assert {"train_job", "skypilot", "jobset_pod"} <= EVERY.keys()


@pytest.mark.parametrize("name", EVERY)
def test_a_fixture_names_system_release_and_how_it_is_known(name: str) -> None:
    assert faults(EVERY[name]) == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (("", "1.0.0", "read: a.go"), "no system"),
        (("Kueue", "", "read: a.go"), "no release"),
        (("Kueue", "ff69552e", "read: a.go"), "no release"),
        (("Kueue", "0.19.2", ""), "does not say how"),
        (("Kueue", "0.19.2", "guessed: a.go"), "does not say how"),
        (("Kueue", "0.19.2", "recorded: tests/nowhere.py"), "there is no"),
    ],
)
def test_what_is_missing_is_told(said: tuple[str, str, str], fault: str) -> None:
    def fixture() -> None:
        """Nothing."""

    assert faults(fixture) == ["nothing is said of it"]
    assert any(fault in each for each in faults(made_by(*said)(fixture)))
