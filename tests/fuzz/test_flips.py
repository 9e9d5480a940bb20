"""One story of the fuzzer of ``enforce.namespaces``, and that it sees what it is there to see."""

from __future__ import annotations

import pytest

from tests.fuzz import flips


def test_a_story() -> None:
    assert flips.play(2).evicted > 0


def test_the_fuzzer_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eviction for a namespace that has not been chosen for a while; and it tells the story."""
    monkeypatch.setattr(flips.Story, "_chosen", lambda self: False)
    with pytest.raises(AssertionError, match="is evicted, chosen no more") as caught:
        flips.play(2)
    assert "low1 runs" in str(caught.value)
