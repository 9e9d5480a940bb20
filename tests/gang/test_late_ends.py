"""What is remembered of pods that did not end when it was likely."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.plan.ends import MOST_KEPT, UNKNOWN, RunTimes, end_of
from extender.model.objects import Owner
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


def test_a_namespace_with_thousands_of_owners_takes_no_run_times_from_others() -> None:
    times = RunTimes()
    other = replace(pod("other", on="n0", started=NOW - 300), owner=Owner("Job", "a", "a"))
    times.ended(other, NOW)
    late = replace(other, uid="late")
    times.late(late)
    crowd = pod("crowd", on="n0", started=NOW - 60, namespace="crowd")
    for i in range(MOST_KEPT + 10):
        times.ended(replace(crowd, owner=Owner("Job", f"o{i}", f"o{i}")), NOW)
        times.late(replace(crowd, uid=f"u{i}"))
    assert times.longest(other) == 300
    assert times.is_late(late)
    assert not times.is_late(replace(crowd, uid="u0"))
    assert times.is_late(replace(crowd, uid=f"u{MOST_KEPT + 9}"))
    assert times.longest(crowd) == 60, "its namespace's are those of its newest"
