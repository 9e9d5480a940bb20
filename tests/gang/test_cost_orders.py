"""Configured orders change who goes, and are checked before they are used."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import combinations
from math import ceil

import pytest
from msgspec.structs import replace

from extender.gang.incremental.victims import ONE, held
from extender.model.errors import InvalidInput
from extender.model.objects import DisruptionBudget, LabelSelector, Pod, Requirement
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.cost_order import LEVELS, ORDERS, order_of, spares_by_priority
from extender.settings.settings import PlanSettings, Settings
from extender.settings.settings_rules import validate
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
        ("fewest-pods", {"old"}),
        ("fewest-gangs", {"old"}),
        ("gangs-by-priority", {"gang-0", "gang-1"}),
    ],
)
def test_each_built_in_order_spares_what_it_says(order: str, victims: set[str]) -> None:
    plan = plan_for(choice(), "high", ordered(order))
    assert evicted(plan) == victims
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"


OLD, NEW = NOW - 30 * 86_400, NOW - 60
"""Work of 30 days, and of one minute."""


def holding(name: str, on: str, gpus: int, started: float, of: str = "", priority: int = 0) -> Pod:
    made = pod(name, cpu=gpus, on=on, group=of, started=started, priority=priority)
    return replace(made, requests=tuple(sorted((*made.requests, (GPU, gpus)))))


def full_of(pods: list[Pod], groups: dict[str, int], wants: int, members: int) -> Snapshot:
    """Nodes of 8 GPUs, or of one where no pod has more than one, and a gang that is urgent."""
    most: dict[str, int] = {}
    for each in pods:
        most[each.node] = most.get(each.node, 0) + dict(each.requests)[GPU]
    waiting = [holding(f"high-{i}", "", wants, 0.0, "high", 9) for i in range(members)]
    return snapshot(
        [node(name, 8, None, **{GPU: amount}) for name, amount in sorted(most.items())],
        [*pods, *waiting],
        [*(group(name, size) for name, size in groups.items()), group("high", members)],
    )


def test_two_young_pods_are_evicted_and_not_an_old_one() -> None:
    pods = [holding("old", "n0", 8, OLD), *(holding(f"new-{i}", "n1", 4, NEW) for i in (0, 1))]
    plan = plan_for(full_of(pods, {}, 8, 1), "high")
    assert evicted(plan) == {"new-0", "new-1"}
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    assert {cost.level: cost.value for cost in plan.costs}["work@0"] == 8 * (60 + 300)
    assert [victim.lost for victim in plan.victims] == [4 * 60] * 2, "without restarts"


def test_a_young_gang_is_broken_before_old_pods_are_evicted() -> None:
    pods = [holding(f"g-{i}", f"n{i}", 8, NEW, "g") for i in (0, 1)]
    pods += [holding(f"old-{i}", f"n{2 + i // 8}", 1, OLD) for i in range(16)]
    assert evicted(plan_for(full_of(pods, {"g": 2}, 8, 2), "high")) == {"g-0", "g-1"}


def test_two_young_gangs_are_broken_before_an_old_one() -> None:
    pods = [holding(f"big-{i}", f"n{i}", 8, OLD, "big") for i in range(8)]
    for name, on in (("x", "p"), ("y", "q")):
        pods += [
            holding(f"{name}-0", on, 8, NEW, name),
            holding(f"{name}-1", f"{on}1", 1, NEW, name),
        ]
    plan = plan_for(full_of(pods, {"big": 8, "x": 2, "y": 2}, 8, 2), "high")
    assert evicted(plan) == {"x-0", "x-1", "y-0", "y-1"}


def test_no_priority_is_given_up_for_work() -> None:
    pods = [holding("young", "n0", 8, NEW, priority=5), holding("old", "n1", 8, OLD)]
    assert evicted(plan_for(full_of(pods, {}, 8, 1), "high")) == {"old"}


def test_what_is_evicted_beside_the_room_that_is_needed_counts() -> None:
    """2 GPUs of 8 are wanted: the pod with 8 of one minute goes before that with 2 of an hour, and
    stays where it has run for half an hour."""
    for age, victim in ((60, "large"), (1800, "small")):
        pods = [holding("large", "n0", 8, NOW - age), holding("small", "n1", 2, NOW - 3600)]
        assert evicted(plan_for(full_of(pods, {}, 2, 1), "high")) == {victim}


@pytest.mark.parametrize(
    ("resource", "gpus"),
    [
        ("nvidia.com/gpu", 4),
        ("amd.com/gpu", 4),
        ("google.com/tpu", 4),
        ("gpu.intel.com/i915", 4),
        ("habana.ai/gaudi", 4),
        ("aws.amazon.com/neuroncore", 4),
        ("huawei.com/Ascend910", 4),
        ("nvidia.com/mig-1g.5gb", 4),
        ("rdma/hca", 0.5),
        ("vpc.amazonaws.com/efa", 0.5),
        ("nvidia.com/gpumem", 0.5),
        ("nvidia.com/gpu.shared", 0.5),
        ("gpu.intel.com/millicores", 0.5),
        ("gpu.intel.com/memory.max", 0.5),
        ("gpu.intel.com/xe_monitoring", 0.5),
        ("koordinator.sh/gpu", 0.5),
    ],
)
def test_what_counts_as_a_gpu(resource: str, gpus: float) -> None:
    """Of what else a pod asks its share of the node counts."""
    made = replace(pod("a", on="n0"), requests=(("cpu", 100), (resource, 4)))
    assert held(made, node("n0", 4, None, **{resource: 8})) == ONE * gpus


def test_many_small_pods_of_weeks_are_not_nothing() -> None:
    """Ten pods of 0.1 of 128 CPU, each less than a thousandth of its node, or one of 1 CPU."""
    low = [pod(f"old-{i}", cpu=0.1, on="n0", started=OLD) for i in range(10)]
    low.append(pod("new", cpu=1, on="n1", started=NEW))
    kept = [pod(f"kept-{on}", cpu=127, on=on, priority=50) for on in ("n0", "n1")]
    high = pod("high", cpu=1, group="high", priority=9)
    state = snapshot([node("n0", 128), node("n1", 128)], [*low, *kept, high], [group("high", 1)])
    assert evicted(plan_for(state, "high")) == {"new"}


def test_a_pod_that_never_ran_has_computed_nothing() -> None:
    """kubelet says its start, and its image has not come for a month."""
    stuck = replace(holding("stuck", "n0", 8, OLD), phase="Pending")
    state = full_of([stuck, holding("new", "n1", 8, NEW)], {}, 8, 1)
    assert evicted(plan_for(state, "high")) == {"stuck"}


def test_a_restart_costs_what_is_configured() -> None:
    """A pod of 4 GPUs that has just started, or one of 1 GPU of five minutes."""
    pods = [holding("four", "n0", 4, NOW), holding("one", "n1", 1, NOW - 300)]
    pods[1] = replace(pods[1], requests=(*pods[1].requests[:-2], ("cpu", 4000), (GPU, 1)))
    state = full_of(pods, {}, 1, 1)
    none = Settings(plan=PlanSettings(restart_seconds=0))
    assert evicted(plan_for(state, "high", none)) == {"four"}
    assert evicted(plan_for(state, "high")) == {"one"}


def test_a_part_of_a_second_of_a_restart_counts() -> None:
    """0.9 s were cut to 0: a new pod of 4 GPUs, or one of 1 GPU that has run for two seconds."""
    pods = [holding("four", "n0", 4, NOW), holding("one", "n1", 1, NOW - 2)]
    pods[1] = replace(pods[1], requests=(*pods[1].requests[:-2], ("cpu", 4000), (GPU, 1)))
    settings = Settings(plan=PlanSettings(restart_seconds=0.9))
    plan = plan_for(full_of(pods, {}, 1, 1), "high", settings)
    assert evicted(plan) == {"one"}
    assert isinstance(plan, Plan)
    assert {cost.level: cost.value for cost in plan.costs}["work@0"] == ceil(2 + 0.9)


@pytest.mark.parametrize("restart", [0.9, 86_399.999])
def test_a_part_of_a_second_counts_where_a_gang_is_left_too_small(restart: float) -> None:
    """One of two members goes: its own restart, and that of all that the gang holds."""
    pods = [holding(f"g-{i}", f"n{i}", 8, NOW, "g") for i in (0, 1)]
    state = snapshot(
        [node(f"n{i}", 8, None, **{GPU: 8}) for i in (0, 1)],
        [*pods, holding("high-0", "", 8, 0.0, "high", 9)],
        [group("g", 2, whole=False), group("high", 1)],
    )
    plan = plan_for(state, "high", Settings(plan=PlanSettings(restart_seconds=restart)))
    assert isinstance(plan, Plan)
    lost = ceil(8 * restart) + ceil(16 * restart)
    assert {cost.level: cost.value for cost in plan.costs}["work@0"] == lost


def test_a_gang_that_is_left_too_small_starts_again() -> None:
    """One of two members of a gang that goes pod by pod, or a pod that holds as much."""
    pods = [holding(f"g-{i}", f"n{i}", 8, NEW, "g") for i in (0, 1)]
    pods.append(holding("alone", "n2", 8, NEW - 300))
    state = full_of(pods, {}, 8, 1)
    state = snapshot(
        state.nodes.values(),
        [*pods, *state.pending.values()],
        [group("g", 2, whole=False), group("high", 1)],
    )
    plan = plan_for(state, "high")
    assert evicted(plan) == {"alone"}


def test_an_order_of_ones_own() -> None:
    assert evicted(plan_for(choice(), "high", ordered("mine", mine=("pods", "age")))) == {"young"}
    assert evicted(plan_for(choice(), "high", ordered("mine", mine=("work",)))) == {"young"}


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


def test_a_checkpoint_in_the_future_makes_nothing_cheaper_than_a_restart() -> None:
    """Its pod has lost nothing, and does not pay for the one beside it."""
    pods = [holding(f"g-{i}", f"n{i}", 8, NOW - 1000, "g") for i in (0, 1)]
    pods[0] = replace(pods[0], checkpointed=NOW + 1_000_000)
    plan = plan_for(full_of(pods, {"g": 2}, 8, 1), "high")
    assert isinstance(plan, Plan)
    assert {cost.level: cost.value for cost in plan.costs}["work@0"] == 8 * 1000 + 16 * 600


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
    assert spares_by_priority(order_of("gangs-by-priority", {}))
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


@pytest.mark.parametrize("order", sorted(ORDERS))
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
            age = rng.choice((60, 600, 6000))
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
                        started=NOW - age,
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
    """Pods, gangs, work, and all of them by priority, as the order's definition says.

    A pod holds its share of a node of 4 CPU. A restart of 300 s counts once for each pod, and once
    more for each gang.
    """
    went = list(chosen)
    pods, gangs = sum(map(len, went)), sum(len(unit) > 1 for unit in went)
    work = 0
    by_priority = []
    for priority in (3, 2, 1):
        here = [unit for unit in went if unit[0].priority == priority]
        lost = sum(map(lost_with, here))
        work += lost
        by_priority += [lost] if order == "default" else []
        by_priority += [sum(len(unit) > 1 for unit in here), sum(map(len, here))]
    first = {"fewest-pods": (pods,), "fewest-gangs": (gangs,)}.get(order, ())
    return (*first, *by_priority, *(() if order == "default" else (work,)))


def lost_with(unit: VictimUnit) -> int:
    """Seconds of a node, rounded up."""
    restarts = 2 if len(unit) > 1 else 1
    shares = [(each, dict(each.requests)["cpu"] * 10**6 // 4000) for each in unit]
    return ceil(sum(s * (NOW - each.started + 300 * restarts) for each, s in shares) / 10**6)


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
    of_one_priority = {"by-priority": {"gangs", "pods"}, "work-by-priority": {"work"}}
    names = of_one_priority.get(level, {level})
    assert all(paid[name] > 0 for name in names)
