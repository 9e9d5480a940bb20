"""Which classes are asked whether they decide the cost for all."""

from __future__ import annotations

from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan.build import Build
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import Pod
from extender.search.problem.stop import Stop
from extender.search.several.leading_class import JOINT
from extender.settings.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot

HIGH = 100


def leading(members: list[Pod], count: int) -> list[tuple[int, str]]:
    """The classes asked, in their order, each with the name of its first member."""
    nodes = [node(f"n{i}", gpu=8) for i in range(4)]
    low = [pod(f"low-{i}", priority=1, on=f"n{i}") for i in range(4)]
    state = snapshot(nodes, [*low, *members], [group("high", count)])
    settings = Settings()
    resolver = Resolver(settings.groups)
    planning = PlanningCache(resolver, settings)
    planning.renew(state)
    planning.face(HIGH)
    gang = resolver.resolve(gang_key("high"), state)
    view = ClusterView.from_snapshot(state)
    build = Build(GangQuestion(gang, state), view, planning, settings, Stop(None, None, None))
    return [
        (lead, "all" if lead == JOINT else build.classes[lead][0].name)
        for lead, _ in build.leading()
    ]


def member(name: str, *, cpu: float = 3, gpu: int = 0) -> Pod:
    made = pod(f"high-{name}", cpu=cpu, priority=HIGH, group="high")
    return replace(made, requests=(*made.requests, ("gpu", gpu))) if gpu else made


def test_classes_that_ask_for_the_same_are_also_asked_as_one() -> None:
    found = leading([member("leader", cpu=2), member("worker-0"), member("worker-1")], 3)
    assert [name for _, name in found] == ["all", "high-worker-0"]


def test_where_one_class_asks_for_more_kinds_of_things_it_is_asked_alone() -> None:
    workers = [member(f"worker-{i}", gpu=8) for i in range(2)]
    assert [name for _, name in leading([member("leader"), *workers], 3)] == ["high-worker-0"]


def test_nobody_leads_a_gang_of_one_class_or_one_with_members_beyond_its_quorum() -> None:
    assert leading([member("worker-0"), member("worker-1")], 2) == []
    assert leading([member("leader", cpu=2), member("worker-0"), member("worker-1")], 2) == []
