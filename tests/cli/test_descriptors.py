"""The soft limit of open files is raised, never lowered, and never beyond the hard one."""

from __future__ import annotations

import resource

import pytest

from extender.app import descriptors

NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "held", "expected"),
    [
        ((1024, 524288), 4096, [(6144, 524288)]),
        ((1024, 4096), 4096, [(4096, 4096)]),
        ((65536, 524288), 4096, []),
        ((NONE, NONE), 4096, []),
        ((1024, NONE), 4096, [(6144, NONE)]),
    ],
)
def test_limits(
    limits: tuple[int, int],
    held: int,
    expected: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: asked.append(wanted))
    descriptors.allow(held)
    assert asked == expected
