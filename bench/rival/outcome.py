"""What preemption has cost, counted the same way for every contender and for the optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec import Struct

from bench.inputs.state import State, gpus
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Refusal
from extender.settings.cost_order import order_of
from extender.settings.settings import PlanSettings, Settings


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

    def cost(self, order: str) -> tuple[object, ...]:
        """What the named order compares of it, as far as a control plane shows it.

        There are no budgets in the states, and no ages that offline and control plane
        share: the levels from the first one on that needs ages are left out. Costs of
        one order compare as tuples, the lesser one is better.
        """
        counts: dict[str, object] = {
            "pods": self.pods,
            "gangs": self.gangs,
            # A priority that is missing counts nothing there, and compares as less.
            "by-priority": tuple((p, *found) for p, found in self.by_priority.items()),
        }
        levels = [level for level in order_of(order, {}) if level != "pdb-violations"]
        known: list[object] = []
        for level in levels:
            if level not in counts:
                break
            known.append(counts[level])
        return tuple(known)


class ContenderOutcome(Struct, frozen=True):
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
    seats: tuple[str, ...] = ()
    """Node of each member that got one, sorted."""

    @property
    def for_nothing(self) -> bool:
        """Pods went and the gang does not run."""
        return self.damage.pods > 0 and not self.ran


class Optimum(Struct, frozen=True):
    """What the planner answers offline, in one cost order."""

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


def optimum(
    state: State, order: str = "gangs-by-priority", only: Collection[str] | None = None
) -> Optimum:
    """Plan offline on the very same state, with members on the nodes ``only`` if given.

    Without ages, as on the control plane: there all pods started together.
    """
    settings = Settings(plan=PlanSettings(cost_order=order))
    resolver = Resolver(settings.groups)
    snapshot = state.snapshot(resolver, ages=False)
    masks: dict[str, frozenset[str]] = {}
    if only is not None:
        others = frozenset(snapshot.nodes) - frozenset(only)
        masks = {pod.name: others for pod in state.members}
    gang = resolver.resolve(state.key, snapshot)
    answer = Planner(settings, resolver).plan(GangQuestion(gang, snapshot, masks=masks))
    if isinstance(answer, Refusal):
        return Optimum(damage(state, ()), possible=False, proof=answer.message)
    gone = (victim.name for victim in answer.victims)
    return Optimum(damage(state, gone), possible=True, proof=answer.proof)
