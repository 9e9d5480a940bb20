"""A change of one budget costs its own namespace something, and others nothing."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from extender.gang.incremental.planning_cache import PlanningCache
from extender.groups.resolver import Resolver
from extender.model.objects import DisruptionBudget, GangKey, LabelSelector, Requirement
from extender.model.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot

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

    def __init__(self) -> None:
        self.cache = PlanningCache(Resolver(Settings().groups), Settings())
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
    watched = Watched()
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
