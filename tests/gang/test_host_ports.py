"""Members that take ports of their node keep apart, as with anti-affinity."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.model.objects import HostPort, Pod, PodShape
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import evicted, group, node, plan_for, pod, seats, snapshot

HIGH = 100


def taking(*ports: tuple[str, int]) -> PodShape:
    return PodShape(host_ports=tuple(HostPort(ip, "TCP", number) for ip, number in ports))


def members(count: int, shape: PodShape, name: str = "high", cpu: float = 1) -> list[Pod]:
    return [
        pod(f"{name}-{i}", cpu=cpu, priority=HIGH, group="high", shape=shape) for i in range(count)
    ]


@pytest.mark.parametrize("count", [2, 20])
def test_as_many_empty_nodes_as_members(count: int) -> None:
    state = snapshot(
        [node(f"n{i}") for i in range(count)],
        members(count, taking(("", 8080))),
        [group("high", count)],
    )
    assert sorted(seats(plan_for(state, "high")).values()) == sorted(state.nodes)


def test_one_node_too_few_is_a_plain_no() -> None:
    state = snapshot(
        [node(f"n{i}") for i in range(19)],
        members(20, taking(("", 8080))),
        [group("high", 20)],
    )
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert "tries" not in answer.message


def test_nodes_without_a_hostname_label_count_one_by_one() -> None:
    bare = [replace(node(f"n{i}"), labels={}) for i in range(2)]
    state = snapshot(bare, members(2, taking(("", 80))), [group("high", 2)])
    assert sorted(seats(plan_for(state, "high")).values()) == ["n0", "n1"]


def test_addresses_of_their_own_do_not_keep_apart() -> None:
    one, other = taking(("10.0.0.1", 80)), taking(("10.0.0.2", 80))
    pods = [*members(1, one, "a"), *members(1, other, "b")]
    state = snapshot([node("n0")], pods, [group("high", 2)])
    assert isinstance(plan_for(state, "high"), Plan)
    every = [*pods, *members(1, taking(("0.0.0.0", 80)), "c")]
    state = snapshot([node("n0")], every, [group("high", 3)])
    assert isinstance(plan_for(state, "high"), Refusal)


SHAPES = (
    PodShape(),
    taking(("", 80)),
    taking(("10.0.0.1", 80)),
    taking(("10.0.0.2", 80), ("", 443)),
    taking(("", 443)),
)


def made(seed: int) -> tuple[Snapshot, list[Pod], list[Pod]]:
    """Up to three nodes, four pods of lower priority, and four members of two shapes."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.choice((2, 3)))]
    low = [
        pod(
            f"low-{i}",
            cpu=rng.choice((1, 2, 4)),
            on=rng.choice(names),
            priority=1,
            shape=rng.choice(SHAPES),
        )
        for i in range(rng.randint(0, 4))
    ]
    wanted: list[Pod] = []
    for i, shape in enumerate(rng.sample(SHAPES, 2)):
        wanted += members(rng.randint(1, 2), shape, f"m{i}", cpu=rng.choice((1, 2)))
    state = snapshot([node(name) for name in names], [*low, *wanted], [group("high", len(wanted))])
    return state, low, wanted


def fewest(state: Snapshot, low: list[Pod], wanted: list[Pod]) -> int | None:
    """Try every set of victims, and every node for every member, on the filters alone."""
    for size in range(len(low) + 1):
        for gone in combinations(low, size):
            for places in product(sorted(state.nodes), repeat=len(wanted)):
                view = ClusterView.from_snapshot(state)
                for victim in gone:
                    view.remove(victim)
                for member, name in zip(wanted, places, strict=True):
                    if view.why_not(member, name) is not None:
                        break
                    view.add(member, name)
                else:
                    return size
    return None


def test_as_few_pods_as_brute_force_over_the_filters() -> None:
    answered = 0
    settings = Settings(plan=PlanSettings(cost_order="fewest-pods"))
    for seed in range(120):
        state, low, wanted = made(seed)
        expected = fewest(state, low, wanted)
        answer = plan_for(state, "high", settings)
        if expected is None:
            assert isinstance(answer, Refusal), f"seed {seed}"
            assert "tries" not in answer.message, f"seed {seed}"
        else:
            assert len(evicted(answer)) == expected, f"seed {seed}"
            assert isinstance(answer, Plan)
            assert answer.proof == "optimal", f"seed {seed}"
            answered += 1
    assert 60 < answered < 120
