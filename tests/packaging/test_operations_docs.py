"""docs/operations.md names what can be asked for and what can be chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.server.diagnostics import INDEX
from extender.settings.cost_order import LEVELS, ORDERS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
LINES = {
    setting: next(line for line in PAGE.splitlines() if line.startswith(f"| {setting} |"))
    for setting in ("plan.costOrder", "plan.costOrders")
}


@pytest.mark.parametrize("page", INDEX)
def test_every_debug_page_is_there(page: str) -> None:
    assert f"`{page.partition('?')[0]}" in PAGE


@pytest.mark.parametrize("order", ORDERS)
def test_every_cost_order_is_there(order: str) -> None:
    assert f"`{order}`" in LINES["plan.costOrder"]


@pytest.mark.parametrize("level", LEVELS)
def test_every_cost_level_is_there(level: str) -> None:
    assert f"`{level}`" in LINES["plan.costOrders"]
