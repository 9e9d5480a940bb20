"""What preemption has cost, counted the same way for every contender and for the optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from bench.state import State, gpus
from extender.gang.planner import Planner
from extender.groups.resolver import Resolver
from extender.model.plan import Refusal
from extender.model.settings import Settings


class Damage(Struct, frozen=True):
    """Who went."""

    pods: int
    gpus: int
    gangs: int
    """Gangs of which any member went (below its minCount, for gangs that go pod by pod)."""
    half_broken: int
    """Of these, gangs of which members were left behind."""
    highest: int | None
    """Highest priority among the pods that went; None when nobody did."""
    by_priority: dict[int, tuple[int, int]]
    """Priority -> (gangs broken, pods evicted), highest first."""
    names: tuple[str, ...]

    @property
    def vector(self) -> tuple[tuple[int, int, int], ...]:
        """(priority, gangs, pods) from the highest priority: what the default order compares."""
        return tuple((p, *found) for p, found in self.by_priority.items())


class Outcome(Struct, frozen=True):
    """What one contender did with one state."""

    damage: Damage
    members: int
    """Members that run at the end."""
    ran: bool
    """Whether the whole gang runs."""
    seconds: float | None
    """From the gang's creation to its last binding; None when it does not run."""
    problem: str = ""
    """Why it was not measured or did not settle; "" when it was and did."""

    @property
    def for_nothing(self) -> bool:
        """Pods went and the gang does not run."""
        return self.damage.pods > 0 and not self.ran


class Optimum(Struct, frozen=True):
    """What the planner answers offline."""

    damage: Damage
    possible: bool
    proof: str
    """"optimal", "bounded", or why there is no plan."""


def damage(state: State, evicted: Iterable[str]) -> Damage:
    """Count what the names among the state's bound pods stand for."""
    gone = set(evicted)
    pods = [pod for pod in state.pods if pod.name in gone]
    lost = Counter(pod.group for pod in pods if pod.group)
    size = Counter(pod.group for pod in state.pods if pod.group)
    broken = [
        group
        for group in state.groups
        if lost[group.name]
        and (group.whole or size[group.name] - lost[group.name] < group.min_count)
    ]
    priorities = sorted({pod.priority for pod in pods}, reverse=True)
    return Damage(
        pods=len(pods),
        gpus=gpus(pods),
        gangs=len(broken),
        half_broken=sum(lost[group.name] < size[group.name] for group in broken),
        highest=priorities[0] if priorities else None,
        by_priority={
            p: (
                sum(group.priority == p for group in broken),
                sum(pod.priority == p for pod in pods),
            )
            for p in priorities
        },
        names=tuple(sorted(pod.name for pod in pods)),
    )


def optimum(state: State) -> Optimum:
    """Plan offline on the very same state.

    Without ages, as on the control plane: there all pods started together.
    """
    settings = Settings()
    resolver = Resolver(settings.groups)
    snapshot = state.snapshot(resolver, ages=False)
    answer = Planner(settings, resolver).plan(resolver.resolve(state.key, snapshot), snapshot)
    if isinstance(answer, Refusal):
        return Optimum(damage(state, ()), False, answer.message)
    return Optimum(damage(state, (victim.name for victim in answer.victims)), True, answer.proof)
