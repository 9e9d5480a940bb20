"""DefaultPreemption: who would have to leave each node, and which node is the best to clear.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode)
and pkg/scheduler/framework/preemption (pickOneNodeForPreemption) of 1.36 and 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from extender.model.objects import Pod

Fits = Callable[[frozenset[str]], bool]
"""Whether the preemptor fits on the node once these uids are gone from it."""


class NodeWithVictims(Struct, frozen=True):
    """A node and its victims, most important first."""

    node: str
    victims: tuple[Pod, ...]
    violations: int = 0
    """How many victims a PodDisruptionBudget would rather keep."""


def importance(pod: Pod) -> tuple[int, float, str]:
    """Sort key: most important first, that is higher priority, then older start."""
    return (-pod.priority, pod.started or float("inf"), pod.uid)


def select_victims(
    node: str, pods: Iterable[Pod], preemptor: Pod, fits: Fits, protected: frozenset[str]
) -> NodeWithVictims | None:
    """Take away every less urgent pod, then give back as many as possible.

    ``protected`` are the uids whose eviction violates a budget: they are given
    back first. Returns None when the preemptor fits even then not, and a
    candidate without victims when nobody has to leave.
    """
    lower = sorted((p for p in pods if p.priority < preemptor.priority), key=importance)
    gone = {pod.uid for pod in lower}
    if not fits(frozenset(gone)):
        return None
    for pod in sorted(lower, key=lambda p: p.uid not in protected):
        gone.discard(pod.uid)
        if not fits(frozenset(gone)):
            gone.add(pod.uid)
    victims = tuple(pod for pod in lower if pod.uid in gone)
    return NodeWithVictims(node, victims, sum(pod.uid in protected for pod in victims))


def over_budget(pods: Iterable[Pod], budgets: Mapping[str, list[list[int]]]) -> frozenset[str]:
    """Return the uids whose eviction, in order of importance, exceeds a budget.

    ``budgets`` maps a pod's uid to the one-item counters of the budgets that
    select it; the counters are used up.
    """
    violating = set()
    for pod in sorted(pods, key=importance):
        for counter in budgets.get(pod.uid, ()):
            counter[0] -= 1
            if counter[0] < 0:
                violating.add(pod.uid)
    return frozenset(violating)


def pick_one(candidates: Iterable[NodeWithVictims]) -> NodeWithVictims:
    """Return the node whose victims matter least; the name decides between equals."""
    return min(candidates, key=_damage)


def _damage(candidate: NodeWithVictims) -> tuple[int, int, int, int, float, str]:
    top = candidate.victims[0].priority
    starts = [p.started or float("inf") for p in candidate.victims if p.priority == top]
    # Priorities may be negative: the offset keeps a longer list from looking cheaper.
    total = sum(pod.priority + 2**31 for pod in candidate.victims)
    return (
        candidate.violations,
        top,
        total,
        len(candidate.victims),
        -min(starts),
        candidate.node,
    )
