"""Configured orders change who goes, and are checked before they are used."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import combinations

import pytest
from msgspec.structs import replace

from extender.model.cost_order import LEVELS, ORDERS, order_of, spares_by_priority
from extender.model.errors import InvalidInput
from extender.model.objects import DisruptionBudget, LabelSelector, Pod, Requirement
from extender.model.plan import Plan, Refusal
from extender.model.settings import PlanSettings, Settings
from extender.model.settings_rules import validate
from extender.model.snapshot import Snapshot
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot

GPU = "nvidia.com/gpu"


def ordered(name: str, **own: tuple[str, ...]) -> Settings:
    return Settings(plan=PlanSettings(cost_order=name, cost_orders=own))


def choice() -> Snapshot:
    """Four ways to seat one member of 3 CPU: a gang's pod of priority 1 that has run long and
    holds no GPU, a single of priority 2 with 8 GPUs, one of 3 that just started, one of 2 with
    1 GPU that has run very long."""
    gpus = {GPU: 8}
    nodes = [node(f"n{i}", 4, None, **gpus) for i in range(5)]

    def single(name: str, on: str, priority: int, gpu: int, age: float) -> Pod:
        made = pod(name, on=on, priority=priority, started=NOW - age)
        return replace(made, requests=tuple(sorted((*made.requests, (GPU, gpu)))))

    return snapshot(
        nodes,
        [
            pod("gang-0", on="n0", priority=1, group="gang", started=NOW - 5000),
            pod("gang-1", on="n1", priority=1, group="gang", started=NOW - 5000),
            single("eight", "n2", 2, 8, 3000),
            single("young", "n3", 3, 4, 10),
            single("old", "n4", 2, 1, 9000),
            pod("high-0", priority=9, group="high"),
        ],
        [group("gang", 2), group("high", 1)],
    )


@pytest.mark.parametrize(
    ("order", "victims"),
    [
        ("default", {"gang-0", "gang-1"}),
        ("fewest-pods", {"eight"}),
        ("fewest-gangs", {"eight"}),
        ("fewest-gpus", {"gang-0", "gang-1"}),
        ("least-work", {"young"}),
    ],
)
def test_each_built_in_order_spares_what_it_says(order: str, victims: set[str]) -> None:
    plan = plan_for(choice(), "high", ordered(order))
    assert evicted(plan) == victims
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"


def test_an_order_of_ones_own() -> None:
    assert evicted(plan_for(choice(), "high", ordered("mine", mine=("pods", "gpus")))) == {"old"}


@pytest.mark.parametrize("said_by", ["annotation", "condition"])
def test_work_since_the_last_checkpoint_is_what_counts(said_by: str) -> None:
    saved = pod("saved", on="n0", priority=1, started=NOW - 9000)
    if said_by == "annotation":
        at = {"podgroup-extender.io/last-checkpoint": "2027-01-15T07:59:59+00:00"}
        saved = replace(saved, annotations=at)
    else:
        saved = replace(saved, checkpointed=NOW - 1)
    state = snapshot(
        [node("n0"), node("n1")],
        [
            saved,
            pod("unsaved", on="n1", priority=1, started=NOW - 1000),
            pod("high-0", priority=9, group="high"),
        ],
        [group("high", 1)],
    )
    assert evicted(plan_for(state, "high")) == {"saved"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (ordered("nobody"), "plan.costOrder 'nobody' does not exist"),
        (ordered("mine", mine=("gangs", "luck")), "unknown levels luck"),
        (ordered("mine", mine=("gangs", "gangs")), "twice"),
        (ordered("default", default=("gangs",)), "built-in"),
    ],
)
def test_bad_orders_are_refused_with_the_reason(settings: Settings, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        validate(settings)


def test_every_order_counts_the_tail_once() -> None:
    for name in ORDERS:
        levels = order_of(name, {})
        assert len(set(levels)) == len(levels)
        assert {"reservations", "waits", "age"} <= set(levels)
    assert spares_by_priority(order_of("default", {}))
    assert not spares_by_priority(order_of("fewest-gangs", {}))
    assert not spares_by_priority(order_of("fewest-pods", {}))


@pytest.mark.parametrize(
    ("order", "victims"), [("default", {"low-0", "low-1"}), ("fewest-pods", {"middle"})]
)
def test_one_pod_of_a_higher_priority_or_two_of_a_lower_one(order: str, victims: set[str]) -> None:
    low = [pod(f"low-{i}", cpu=1.5, on="n0", priority=1) for i in range(2)]
    waits = pod("high-0", priority=9, group="high")
    state = snapshot(
        [node("n0"), node("n1")],
        [*low, pod("middle", on="n1", priority=5), waits],
        [group("high", 1)],
    )
    assert evicted(plan_for(state, "high", ordered(order))) == victims


def test_of_equally_many_pods_fewest_pods_takes_what_the_default_takes() -> None:
    """Two singles of priority 1 rather than a gang of two there, and rather than priority 2."""
    pods = [pod(f"g-{i}", on=f"n{i}", priority=1, group="g") for i in range(2)]
    pods += [pod(f"s-{i}", on=f"n{2 + i}", priority=1) for i in range(2)]
    pods += [pod(f"m-{i}", on=f"n{4 + i}", priority=2) for i in range(2)]
    pods += [pod(f"high-{i}", priority=9, group="high") for i in range(2)]
    state = snapshot([node(f"n{i}") for i in range(6)], pods, [group("g", 2), group("high", 2)])
    for order in ("default", "fewest-pods"):
        assert evicted(plan_for(state, "high", ordered(order))) == {"s-0", "s-1"}


def test_budgets_come_before_the_number_of_pods() -> None:
    budget = DisruptionBudget(
        "b", "default", "db", LabelSelector((Requirement("app", "In", ("db",)),)), 0
    )
    kept = pod("kept", on="n0", priority=1, labels={"app": "db"})
    low = [pod(f"low-{i}", cpu=1.5, on="n1", priority=1) for i in range(2)]
    state = snapshot(
        [node("n0"), node("n1")],
        [kept, *low, pod("high-0", priority=9, group="high")],
        [group("high", 1)],
        budgets=[budget],
    )
    settings = Settings(plan=PlanSettings(cost_order="fewest-pods", pdb_policy="prefer"))
    assert evicted(plan_for(state, "high", settings)) == {"low-0", "low-1"}


@pytest.mark.parametrize("order", ["default", "fewest-pods", "fewest-gangs"])
@pytest.mark.parametrize("seed", range(25))
def test_trying_every_set_of_victims_finds_none_that_costs_less(seed: int, order: str) -> None:
    world = RandomWorld(seed)
    plan = plan_for(world.snapshot(), "high", ordered(order))
    least = min(
        (
            costs_in(order, chosen)
            for size in range(len(world.units) + 1)
            for chosen in combinations(world.units, size)
            if world.seats(chosen) >= world.members
        ),
        default=None,
    )
    if least is None:
        assert isinstance(plan, Refusal)
        return
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    gone = evicted(plan)
    went = [unit for unit in world.units if unit[0].name in gone]
    assert sum(map(len, went)) == len(gone), "a gang of which some are left"
    assert costs_in(order, went) == least


VictimUnit = tuple[Pod, ...]


class RandomWorld:
    """Five nodes of 4 CPU, singles and gangs of three priorities, a gang whose members ask 3."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.members = rng.randint(1, 4)
        self.units: list[VictimUnit] = []
        self._room = [4.0] * 5
        while len(self.units) < 8:
            size = rng.choice((1, 1, 1, 2, 3))
            cpu = rng.choice((1, 1.5, 3))
            fitting = [i for i in range(5) if self._room[i] >= cpu]
            if len(fitting) < size:
                break
            name, priority = f"u{len(self.units)}", rng.randint(1, 3)
            for i in (on := rng.sample(fitting, size)):
                self._room[i] -= cpu
            self.units.append(
                tuple(
                    pod(
                        f"{name}-{i}",
                        cpu=cpu,
                        on=f"n{i}",
                        priority=priority,
                        group=name if size > 1 else "",
                    )
                    for i in on
                )
            )

    def snapshot(self) -> Snapshot:
        gangs = [unit for unit in self.units if len(unit) > 1]
        waiting = [pod(f"high-{i}", priority=9, group="high") for i in range(self.members)]
        return snapshot(
            [node(f"n{i}") for i in range(5)],
            [*(each for unit in self.units for each in unit), *waiting],
            [*(group(unit[0].pod_group, len(unit)) for unit in gangs), group("high", self.members)],
        )

    def seats(self, chosen: Iterable[VictimUnit]) -> int:
        """How many members of 3 CPU fit once these have gone."""
        room = list(self._room)
        for unit in chosen:
            for each in unit:
                room[int(each.node[1:])] += dict(each.requests)["cpu"] / 1000
        return sum(int(free // 3) for free in room)


def costs_in(order: str, chosen: Iterable[VictimUnit]) -> tuple[int, ...]:
    """Pods, gangs, and by priority, as the order's definition says; all pods are of one age."""
    went = list(chosen)
    pods, gangs = sum(map(len, went)), sum(len(unit) > 1 for unit in went)
    by_priority = []
    for priority in (3, 2, 1):
        here = [unit for unit in went if unit[0].priority == priority]
        by_priority += [sum(len(unit) > 1 for unit in here), sum(map(len, here))]
    first = {"default": (), "fewest-pods": (pods,), "fewest-gangs": (gangs,)}[order]
    return (*first, *by_priority)


OTHERWISE = {"pdb-violations", "topology", "grace", "reservations", "waits"}
"""Levels that a broken gang does not count at: budgets, wishes, slow ends and others' seats do."""


@pytest.mark.parametrize("level", sorted(LEVELS.keys() - OTHERWISE))
def test_whatever_is_called_a_level_is_counted(level: str) -> None:
    """One that nothing counts would spare nobody, in silence."""
    gpus = {GPU: 8}
    pods = [
        pod(f"gang-{i}", on=f"n{i}", priority=1, group="gang", started=NOW - 5000) for i in (0, 1)
    ]
    pods = [replace(each, requests=tuple(sorted((*each.requests, (GPU, 4))))) for each in pods]
    state = snapshot(
        [node(f"n{i}", 4, None, **gpus) for i in (0, 1)],
        [*pods, pod("high-0", priority=9, group="high")],
        [group("gang", 2), group("high", 1)],
    )
    plan = plan_for(state, "high", ordered("mine", mine=(level,)))
    assert isinstance(plan, Plan)
    paid = {cost.level.partition("@")[0]: cost.value for cost in plan.costs}
    names = {"gangs", "pods"} if level == "by-priority" else {level}
    assert all(paid[name] > 0 for name in names)
