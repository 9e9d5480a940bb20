"""Configured orders change who goes, and are checked before they are used."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.model.cost_order import ORDERS, order_of, spares_by_priority
from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.model.plan import Plan
from extender.model.settings import PlanSettings, Settings, validate
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


def test_work_since_the_last_checkpoint_is_what_counts() -> None:
    saved = {"podgroup-extender.io/last-checkpoint": "2027-01-15T07:59:59+00:00"}
    state = snapshot(
        [node("n0"), node("n1")],
        [
            pod("saved", on="n0", priority=1, started=NOW - 9000, annotations=saved),
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
