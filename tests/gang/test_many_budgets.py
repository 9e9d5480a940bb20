"""A change of one budget costs its own namespace something, and others nothing.

See docs/security.md, row 6.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from extender.fit.selector_index import VALUES_EACH
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Verb
from extender.groups.resolver import Resolver
from extender.model.objects import DisruptionBudget, GangKey, LabelSelector, Pod, Requirement
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.policy import OptOutRule, PolicySettings
from extender.settings.settings import PlanSettings, Settings
from tests.gang.rig import Rig, full_cluster
from tests.gang.world import gang_key, group, node, pod, snapshot

FEW = Settings(plan=PlanSettings(budgets_per_namespace=3))
NODES = [node(f"n{at}") for at in range(40)]
TENANTS = [
    pod(f"tiny{at}", cpu=0.01, on=f"n{at}", namespace="tenant", labels={"app": f"a{at}"})
    for at in range(40)
]
GANG = [pod(f"work{at}", on=f"n{at}", group="work") for at in range(4)]


def budget(at: int, namespace: str = "tenant") -> DisruptionBudget:
    """One that matches every pod of the namespace, by ten requirements."""
    refused = tuple(Requirement(f"k{key}", "NotIn", (f"v{at}",)) for key in range(10))
    name = f"b{at:04}"
    return DisruptionBudget(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        selector=LabelSelector(refused),
        allowed=0,
    )


BASE = snapshot(NODES, [*TENANTS, *GANG], [group("work")], namespaces={"default": {}, "tenant": {}})


class Counting:
    """A census that counts the nodes that are put."""

    def __init__(self, census: Any) -> None:
        self.census = census
        self.slots: list[int] = []

    def put(self, slot: int, *rest: Any) -> None:
        """As the census."""
        self.slots.append(slot)
        self.census.put(slot, *rest)

    def drop(self, slot: int) -> None:
        """As the census."""
        self.census.drop(slot)


class Watched:
    """A planning cache whose work is counted."""

    def __init__(self, settings: Settings = FEW) -> None:
        self.cache = PlanningCache(Resolver(settings.groups), settings)
        self.counting = Counting(self.cache.census)
        self.cache.census = self.counting  # type: ignore[assignment]
        self._generation = 1

    def put(self, *budgets: DisruptionBudget) -> int:
        """Show the cache these budgets; return how many nodes were put again."""
        self.counting.slots.clear()
        self._generation += 1
        self.cache.renew(replace(BASE, generation=self._generation, budgets=budgets))
        return len(self.counting.slots)

    def judged(self, key: GangKey) -> object:
        """Return what is known of a gang."""
        return self.cache.preemptability.of_gang(key, self.cache.now)


def test_one_more_budget_of_many_puts_no_node_again() -> None:
    watched = Watched(Settings(plan=PlanSettings(budgets_per_namespace=2000)))
    many = [budget(at) for at in range(1500)]
    assert watched.put(*many[:1400]) == len(NODES)
    for more in range(1400, 1410):
        assert watched.put(*many[:more]) == 0
    assert watched.put(*many[:1]) == len(NODES)  # one that matches is another thing than two
    assert watched.put(*many[:2]) == len(NODES)
    assert watched.put(*many[:3]) == 0
    assert watched.put() == len(NODES)


def test_a_budget_that_matches_some_pods_puts_their_nodes_again() -> None:
    watched = Watched()
    assert watched.put() == len(NODES)
    some = LabelSelector((Requirement("app", "In", ("a3", "a4")),))
    one = DisruptionBudget(uid="x", namespace="tenant", name="x", selector=some, allowed=0)
    assert watched.put(one) == 2
    assert watched.put() == 2


def test_gangs_of_other_namespaces_are_not_judged_again() -> None:
    watched = Watched()
    key = gang_key("work")
    watched.put(budget(0))
    first = watched.judged(key)
    watched.put(budget(0), budget(1))
    assert watched.judged(key) is first
    watched.put(budget(0), budget(1), budget(0, "default"))
    assert watched.judged(key) is not first


TENANT_ROOM = [
    replace(each, requests=(("cpu", 3_000), ("pods", 1))) if each.namespace == "tenant" else each
    for each in TENANTS
]
URGENT = pod("urgent", cpu=2, priority=1000, group="urgent")
"""Needs the room of some pod: each node has four CPUs."""


def asked(
    *budgets: DisruptionBudget, settings: Settings = FEW, pods: Sequence[Pod] = TENANT_ROOM
) -> Plan | Refusal:
    """Ask for a gang of one while a tenant has these budgets."""
    resolver = Resolver(settings.groups)
    state = replace(
        snapshot(
            NODES, [*pods, URGENT], [group("urgent", 1)], namespaces={"default": {}, "tenant": {}}
        ),
        budgets=budgets,
    )
    gang = resolver.resolve(gang_key("urgent"), state)
    return Planner(settings, resolver).plan(GangQuestion(gang, state))


def nothing(at: int, namespace: str = "tenant") -> DisruptionBudget:
    """A budget that matches no pod."""
    wanted = LabelSelector((Requirement("none", "In", ("x",)),))
    return replace(budget(at, namespace), selector=wanted)


def test_no_pod_of_a_namespace_with_too_many_budgets_goes_and_the_refusal_names_it() -> None:
    assert isinstance(asked(*map(nothing, range(3))), Plan)
    refused = asked(*map(nothing, range(4)))
    assert isinstance(refused, Refusal)
    why = (
        "namespace tenant has more PodDisruptionBudgets, or more values in their selectors, than "
        "are read (plan.budgetsPerNamespace: 3): none of its pods is evicted"
    )
    assert f"tenant/tiny0 stays on n0: {why}" in refused.details


def listing(values: int, operator: str = "In") -> DisruptionBudget:
    """A budget that lists this many values of a label that no pod has."""
    these = Requirement("none", operator, tuple(f"x{at}" for at in range(values)))
    return replace(budget(0), selector=LabelSelector((these,)))


def test_nor_of_one_whose_budgets_list_too_many_values() -> None:
    assert isinstance(asked(listing(3 * VALUES_EACH)), Plan)
    refused = asked(listing(3 * VALUES_EACH + 1))
    assert isinstance(refused, Refusal)
    assert any("stays on n0: namespace tenant has more" in each for each in refused.details)


def test_only_that_namespace_is_concerned() -> None:
    """Pods of another one go, though they are dearer, and their own budgets still count."""
    other = [replace(each, namespace="default", priority=500) for each in TENANT_ROOM[:2]]
    other[0] = replace(other[0], labels={"app": "kept"})
    kept = LabelSelector((Requirement("app", "In", ("kept",)),))
    budgets = [*map(nothing, range(4)), replace(budget(0, "default"), selector=kept)]
    plan = asked(*budgets, pods=[*other, *TENANT_ROOM[2:]])
    assert isinstance(plan, Plan)
    assert [victim.name for victim in plan.victims] == ["tiny1"]


def test_budgets_that_are_not_to_count_do_not_by_their_number() -> None:
    """Who may not opt out by a budget may not by a thousand."""
    trusted = replace(
        FEW, policy=PolicySettings(opt_out={"PodDisruptionBudget": OptOutRule(namespaces=None)})
    )
    assert isinstance(asked(*map(nothing, range(4)), settings=trusted), Plan)
    preferred = replace(FEW, plan=replace(FEW.plan, pdb_policy="prefer"))
    assert isinstance(asked(*map(nothing, range(4)), settings=preferred), Plan)


def test_a_namespace_that_has_too_many_budgets_costs_its_nodes_once() -> None:
    watched = Watched()
    watched.put(*map(nothing, range(3)))
    assert watched.put(*map(nothing, range(4))) == len(NODES)
    assert watched.cache.guards.crowded == {"tenant": 4}
    assert watched.put(*map(nothing, range(5))) == 0
    assert watched.put(*map(nothing, range(3))) == len(NODES)
    assert watched.cache.guards.crowded == {}


def test_what_budgets_cost_is_told_by_the_namespace_that_has_them() -> None:
    planner = Planner(FEW, Resolver(FEW.groups))
    planner.see(BASE)
    assert planner.budget_shares() == {}
    planner.see(replace(BASE, generation=2, budgets=(budget(0),)))
    shares = planner.budget_shares()
    assert shares.keys() == {"tenant"}
    assert 0.5 < shares["tenant"] <= 1
    planner.see(replace(BASE, generation=3, budgets=(budget(0),), pending={}))
    assert planner.budget_shares() == {}


def test_each_value_that_budgets_list_is_paid_for() -> None:
    settings = Settings()
    planner = Planner(settings, Resolver(settings.groups))
    planner.see(BASE)
    long = 20 * len(NODES)
    planner.see(replace(BASE, generation=2, budgets=(listing(long, "NotIn"),)))
    assert planner.budget_shares()["tenant"] > 0.9


async def test_a_gang_is_not_charged_for_budgets_of_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are paid for by the namespace that has them, and no gang is suspended for them."""
    await rig.stop_rounds()
    await full_cluster(rig)
    planning: Any = rig.coordinator
    take_in, later = planning.thread.take_in, [0.0]

    async def dear(state: Snapshot) -> dict[str, float]:
        if planning.thread.planner.seen != state.generation:
            later[0] += 300.0
        return {**await take_in(state), "tenant": 300.0}

    monkeypatch.setattr(planning.thread, "take_in", dear)
    clocks = Clocks(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr(planning.turns, "_clocks", clocks)
    planning.thread.planner.seen = -1
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert not isinstance(preemption, Refusal)
    assert later[0] >= 300
    used = rig.coordinator.admission.turns.totals(time.monotonic())
    assert used["tenant"] > 290
    assert used.get("default", 0.0) < 100


class Late:
    """A search that is told to come back with nothing while its budgets are looked up."""

    def __init__(self) -> None:
        self.looked = 0

    def __getitem__(self, index: int, /) -> int:
        names = {frame.name for frame in traceback.extract_stack()}
        self.looked += "budgets_of" in names
        return 2 if self.looked else 0


def test_putting_budgets_together_ends_in_time_and_no_pod_is_set_aside_for_it() -> None:
    settings = Settings(plan=PlanSettings(pdb_policy="prefer"))
    resolver = Resolver(settings.groups)
    state = replace(
        snapshot(NODES, [*TENANT_ROOM, URGENT], [group("urgent", 1)]),
        budgets=tuple(map(budget, range(40))),
    )
    planner, flag = Planner(settings, resolver), Late()
    gang = resolver.resolve(gang_key("urgent"), state)
    answer = planner.plan(GangQuestion(gang, state), cancel=flag)
    assert flag.looked
    assert isinstance(answer, Refusal)
    assert "its time was up before the question could be put together" in answer.message
    assert planner.take_aside() == []
