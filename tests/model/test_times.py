"""Times as the API writes them."""

from __future__ import annotations

import pytest

from extender.model.texts import rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (1_790_000_000.9, "2026-09-21T14:13:20Z"),
        (9e18, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
        (-1e18, "1970-01-01T00:00:00Z"),
    ],
)
def test_no_time_is_too_late_to_be_written(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text
