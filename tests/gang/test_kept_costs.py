"""What a victim unit costs is kept as long as the unit is there, and no longer.

See docs/security.md, row 8.
"""

from __future__ import annotations

import gc

from msgspec.structs import replace

from extender.gang.incremental.victim_costs import VictimCosts
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.settings.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot


def test_a_cost_goes_with_its_unit() -> None:
    costs = VictimCosts()
    unit = VictimUnit(uid="u", pods=(pod("p", on="n0"),), priority=0)
    assert costs.of([unit])[0] is costs.of([unit])[0]
    twin = VictimUnit(uid="u", pods=unit.pods, priority=0)
    assert costs.of([twin, unit]) == costs.of([unit, twin])
    assert len(costs) == 2
    del unit
    assert len(costs) == 1
    del twin
    assert len(costs) == 0


def test_a_unit_ends_with_the_slowest_of_its_pods() -> None:
    costs = VictimCosts()
    pods = [replace(pod(f"p{i}", on="n0"), grace=grace) for i, grace in enumerate((30, 600, 5))]
    units = [VictimUnit(uid="u", pods=tuple(pods[:n]), priority=0) for n in (1, 3)]
    assert [summed.grace for summed in costs.of(units)] == [30, 600]


def test_victims_that_come_and_go_leave_nothing_behind() -> None:
    """The nodes stay the same for hours; their pods do not. Load made the memory grow by this."""
    settings = Settings()
    resolver = Resolver(settings.groups)
    planner = Planner(settings, resolver)
    nodes = [node(f"n{i}") for i in range(8)]
    first = snapshot(nodes, [])
    found = []
    for life in range(30):
        low = [pod(f"low-{life}-{i}", on=f"n{i}", group=f"low-{life}") for i in range(4)]
        alone = [pod(f"alone-{life}-{i}", on=f"n{i}") for i in range(4, 8)]
        high = [pod(f"high-{i}", priority=100, group="high") for i in range(4)]
        groups = [group(f"low-{life}"), group("high", priority=100)]
        state = snapshot(nodes, [*low, *alone, *high], groups, generation=life + 1)
        state = replace(state, nodes=first.nodes)
        gang = resolver.resolve(gang_key("high"), state)
        assert isinstance(planner.plan(GangQuestion(gang, state)), Plan)
        del gang, state
        gc.collect()
        found.append(sum(type(each) is VictimUnit for each in gc.get_objects()))
    assert found[-1] <= found[2]
