"""What one eviction costs does not grow with how many are under way."""

from __future__ import annotations

import time

from extender.gang.act.background import Background
from extender.gang.act.keeper import RecordKeeper
from extender.gang.act.leadership import Alone
from extender.gang.act.record import Record
from extender.gang.act.records import Records
from extender.gang.act.unit import Unit
from extender.model.objects import GangKey
from extender.model.plan import Plan


def test_a_plan_in_flight_is_not_counted_through_after_each_eviction() -> None:
    """Two thousand single victims once cost 8 ms of the event loop for each answer."""
    keeper = RecordKeeper(Records(None, "ns"), Alone(), Background())  # type: ignore[arg-type]
    plan = Plan(gang=GangKey("pod-group", "ns", "g"), priority=1, seats=(), victims=())
    keeper.adopt(Record(id="1", plan=plan, made=time.time()))
    asked = []

    def units(plan_id: str) -> list[Unit]:
        asked.append(plan_id)
        return []

    keeper.settle("1", units)
    assert asked == []
