"""What is remembered of pods that did not end when it was likely."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.plan.ends import MOST_KEPT, UNKNOWN, RunTimes, end_of
from tests.gang.world import NOW, pod

SAID = {"podgroup-extender.io/expected-run-seconds": "600"}


def test_those_noted_after_they_were_gone_are_not_kept_for_ever() -> None:
    """Planning sees a cluster of up to a second ago: nobody says of them again that they went."""
    times = RunTimes()
    one = pod("one", on="n0", started=NOW, annotations=SAID)
    for i in range(MOST_KEPT):
        times.late(replace(one, uid=f"u{i}"))
    assert end_of(replace(one, uid="u0"), NOW, times, 3600.0) == UNKNOWN
    times.late(replace(one, uid="u0"))
    times.late(one)
    known = [i for i in range(MOST_KEPT) if times.is_late(replace(one, uid=f"u{i}"))]
    assert len(known) < MOST_KEPT
    assert known[:2] == [0, 2], "what was noted again is not the oldest"
    assert times.is_late(one)
