"""Every number of the configuration has an end: an endless or huge one is refused by its name."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from extender.model.errors import InvalidInput
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate

IN_A_MAPPING = {"optOut": "default", "minRuntimeSeconds": "gold", "patienceSeconds": "kueue"}
"""A key that the rules of the mapping take."""
OTHERS = {"groups.custom[0].size": {"name": "mine", "label": "example.com/gang"}}
"""What else an entry needs to be one."""


def _numbers(kind: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the path of each number, and whether it may be a fraction."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _numbers(field.type, f"{path}.{field.encode_name}".lstrip("."))
    elif isinstance(kind, inspect.DictType):
        yield from _numbers(kind.value_type, f"{path}[{IN_A_MAPPING.get(path.rpartition('.')[2])}]")
    elif isinstance(kind, inspect.VarTupleType):
        yield from _numbers(kind.item_type, f"{path}[0]")
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _numbers(each, path)
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        yield path, isinstance(kind, inspect.FloatType)


NUMBERS = dict(_numbers(inspect.type_info(Settings)))


def _settings(path: str, value: float) -> Settings:
    """Return the defaults with one number changed."""
    found: Any = value
    for step in reversed(path.replace("[", ".[").split(".")):
        if step == "[0]":
            found = [OTHERS.get(path, {}) | found if isinstance(found, dict) else found]
        else:
            found = {step.strip("[]"): found}
    return msgspec.convert(found, Settings)


def test_the_walk_finds_numbers_at_every_depth() -> None:
    assert NUMBERS["plan.seconds"]
    assert not NUMBERS["plan.branchNodes"]
    assert {"fairness.protection.firstSeconds", "fairness.minRuntimeSeconds[gold]"} <= set(NUMBERS)
    assert {"server.healthPort", "policy.optOut[default].preemptorsBelow"} <= set(NUMBERS)
    assert len(NUMBERS) > 60


@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_without_an_end_is_refused_by_its_name(path: str) -> None:
    values = [10.0**26, inf, -inf, nan] if NUMBERS[path] else [10**26, 2**63, -(10**26)]
    for value in values:
        with pytest.raises(InvalidInput) as refused:
            validate(_settings(path, value))
        assert f"{path} must be " in str(refused.value), value


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        ("plan.branchNodes", 10**26, "plan.branchNodes must be at most 2147483647: it is 1e+26"),
        ("plan.seconds", inf, "plan.seconds must be at most 1000000000: it is inf"),
        ("plan.seconds", nan, "plan.seconds must be a number: it is nan"),
        ("server.drainSeconds", -1, "server.drainSeconds must not be negative"),
        (
            "api.requestsPerSecond",
            1e-300,
            "api.requestsPerSecond must be 0 (no limit) or at least 1",
        ),
    ],
)
def test_what_is_wrong_is_said_once(path: str, value: float, wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        validate(_settings(path, value))
    assert str(refused.value) == wrong


def test_large_numbers_that_mean_something_are_taken() -> None:
    validate(_settings("server.maxBytesInFlight", 2**36))
    validate(_settings("plan.branchNodes", 2**31 - 1))
    validate(_settings("seats.suspendSeconds", 365 * 24 * 3600.0))
