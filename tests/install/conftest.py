"""Every test here needs programs that no other test needs: ``./run test-install``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.install.programs import HELM, KIND, KUBECTL, PROMTOOL, ensure

HERE = Path(__file__).resolve().parent
PROGRAMS = {"helm_program", "promtool", "kind", "kubectl"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for one of the programs; ``./run test`` and ``test-real`` leave it out."""
    for item in items:
        if not PROGRAMS & set(getattr(item, "fixturenames", ())):
            continue
        item.add_marker("install")
        item.add_marker("real")


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """The helm that the checks use; it is built when there is none."""
    return ensure(HELM)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The promtool that the checks use."""
    return ensure(PROMTOOL)


@pytest.fixture(scope="session")
def kind() -> Path:
    """The kind that judges its own configuration."""
    return ensure(KIND)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The kubectl that the kind script is played with; kustomize is part of it."""
    return ensure(KUBECTL)
