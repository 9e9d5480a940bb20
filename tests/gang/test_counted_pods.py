"""Pods that a spread rule counts and that may go, against every set of victims tried by hand.

The search takes it for open which of the counted pods go. What it finds is called proved only
where no set of victims costs less, and refused as proved only where none at all will do.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, combinations, permutations, product

import pytest

from extender.model.objects import LabelSelector, Pod, PodShape, Requirement, SpreadConstraint
from extender.model.plan import Plan, Proof, Refusal
from tests.gang.world import group, node, plan_for, pod, snapshot

SPREAD = SpreadConstraint(
    topology_key="kubernetes.io/hostname",
    max_skew=1,
    selector=LabelSelector((Requirement("app", "In", ("job",)),)),
)
CPUS = 4


def cluster(seed: int) -> tuple[int, list[Pod], list[Pod]]:
    """(nodes, bound pods, members): pods of a few priorities, some of which the rule counts."""
    draw = random.Random(seed)
    nodes = draw.randint(2, 3)
    bound = []
    for at in range(nodes):
        left = CPUS
        for i in range(draw.randint(0, 3)):
            cpu = draw.choice((0, 0, 1, 2, 4))
            if cpu <= left:
                left -= cpu
                bound.append(
                    pod(
                        f"p{at}-{i}",
                        cpu=cpu,
                        on=f"n{at}",
                        priority=draw.choice((0, 5, 50, 200)),
                        labels={"app": draw.choice(("job", "job", "other"))},
                    )
                )
    cpu = draw.choice((1, 2, 4))
    members = [
        pod(
            f"g-{i}",
            cpu=cpu,
            priority=100,
            group="g",
            labels={"app": "job"},
            shape=PodShape(spread=(SPREAD,)),
        )
        for i in range(draw.randint(1, 3))
    ]
    return nodes, bound, members


def cpu_of(each: Pod) -> int:
    return dict(each.requests)["cpu"] // 1000 if "cpu" in dict(each.requests) else 0


def fits(nodes: int, there: Sequence[Pod], members: Sequence[Pod]) -> bool:
    """Whether the members can be seated one after the other, each by the rule as it is then."""
    used = Counter({f"n{at}": 0 for at in range(nodes)})
    for each in there:
        used[each.node] += cpu_of(each)
    counted = Counter(
        {f"n{at}": sum(p.node == f"n{at}" and p.labels["app"] == "job" for p in there)
         for at in range(nodes)}
    )  # fmt: skip
    cpu = cpu_of(members[0])
    for seats in product(sorted(used), repeat=len(members)):
        if any(used[name] + cpu * count > CPUS for name, count in Counter(seats).items()):
            continue
        for order in permutations(seats):
            now = Counter(counted)
            for name in order:
                if now[name] + 1 - min(now[each] for each in used) > SPREAD.max_skew:
                    break
                now[name] += 1
            else:
                return True
    return False


def loss(victims: Iterable[Pod]) -> tuple[int, ...]:
    """Work and pods lost by priority, the most urgent first: of pods that have run for 100 s, and
    take 300 s to start again."""
    counts: Counter[tuple[int, str]] = Counter()
    for each in victims:
        counts[each.priority, "work"] += cpu_of(each) * 400 // CPUS
        counts[each.priority, "pods"] += 1
    return tuple(counts[priority, what] for priority in (50, 5, 0) for what in ("work", "pods"))


def least(nodes: int, bound: Sequence[Pod], members: Sequence[Pod]) -> tuple[int, ...] | None:
    """The least loss of all sets of victims, None where no set will do."""
    lower = [each for each in bound if each.priority < 100]
    sets = chain.from_iterable(combinations(lower, size) for size in range(len(lower) + 1))
    losses = [
        loss(gone)
        for gone in sets
        if fits(nodes, [each for each in bound if each not in gone], members)
    ]
    return min(losses, default=None)


@pytest.mark.parametrize("first", range(0, 600, 50))
def test_no_false_proof_beside_pods_that_a_rule_counts(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 50):
        nodes, bound, members = cluster(seed)
        state = snapshot(
            [node(f"n{at}", cpu=CPUS) for at in range(nodes)],
            [*bound, *members],
            [group("g", len(members), priority=100)],
        )
        answer, best = plan_for(state, "g"), least(nodes, bound, members)
        if isinstance(answer, Refusal):
            seen["refused"] += 1
            assert best is None or "cannot fit" not in answer.message, f"seed {seed}: {best}"
            continue
        assert isinstance(answer, Plan)
        names = {victim.name for victim in answer.victims}
        gone = [each for each in bound if each.name in names]
        assert fits(nodes, [each for each in bound if each not in gone], members), f"seed {seed}"
        assert best is not None
        assert loss(gone) >= best
        if answer.proof is Proof.OPTIMAL:
            assert loss(gone) == best, f"seed {seed}: {sorted(names)} goes, {best} will do"
        seen["least" if loss(gone) == best else "more"] += 1
    assert seen["least"] > seen["more"]
