"""How long a gang waits after a plan that was given up."""

from __future__ import annotations

from extender.gang.act.waiting import MAX_PENALTY, Waiting
from extender.model.gang import Gang
from extender.model.objects import GangKey


def test_a_gang_whose_plans_fail_for_days_waits_a_minute_each_time() -> None:
    """After 1,023 in a row the doubled pause was beyond a float, and every end raised."""
    now = 0.0
    waiting = Waiting(lambda: now, 2.0, 1.0, 30.0)
    gang = Gang(GangKey("pod-group", "ns", "g"), (), 1)
    for _ in range(2000):
        waiting.failed(gang.key)
        assert waiting.must_wait(gang) is not None
        now += MAX_PENALTY
        assert waiting.must_wait(gang) is None
