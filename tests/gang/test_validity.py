"""What makes a plan's victim one that must not go any more."""

from __future__ import annotations

from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import unit_problem
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from tests.gang.world import evicted, group, node, plan_for, pod, snapshot


def cluster(low_1_in: str) -> Snapshot:
    """Gangs low and other, each whole; which of them low-1 belongs to can be changed."""
    return snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            pod("low-0", on="n0", group="low"),
            pod("low-1", on="n1", group=low_1_in),
            pod("other-0", on="n2", group="other", priority=10),
            pod("other-1", on="n3", group="other", priority=10),
            pod("high-0", group="high", priority=100),
            pod("high-1", group="high", priority=100),
        ],
        [
            group("low", 2, priority=0),
            group("other", 2, priority=10),
            group("high", 2, priority=100),
        ],
    )


def test_a_victim_that_has_become_part_of_another_whole_gang_is_no_victim() -> None:
    """Labels can be changed: taken alone it would break the gang it is in now."""
    plan = plan_for(cluster("low"), "high")
    assert evicted(plan) == {"low-0", "low-1"}
    assert isinstance(plan, Plan)
    settings = Settings()
    resolver = Resolver(settings.groups)
    for state, why in ((cluster("low"), ""), (cluster("other"), "now goes as a whole")):
        found = unit_problem(plan.victims, plan.priority, state, resolver, Protections(settings))
        assert found.endswith(why)
        assert bool(found) == bool(why)
