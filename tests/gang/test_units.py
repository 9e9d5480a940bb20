"""Victim units of a problem, and those of them that are the gang's own."""

from __future__ import annotations

from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.units import Units, without
from tests.gang.world import pod


def test_units_with_a_pod_of_the_gang_are_left_out_and_no_others() -> None:
    pods = [pod(name, on="n0") for name in "abc"]
    first = VictimUnit(uid="first", pods=tuple(pods[:2]), priority=0)
    second = VictimUnit(uid="second", pods=(pods[2],), priority=0)
    leaving = (pod("d", on="n0", deleting=1.0), ())
    units = Units(((first, ()), (second, ())), (leaving,))
    kept = without(units, frozenset({"uid-b", "uid-stranger"}))
    assert kept.candidates == ((second, ()),)
    assert kept.leaving == units.leaving
    assert without(units, frozenset({"uid-stranger"})) is units
