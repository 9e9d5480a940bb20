"""Whether a pod may go at this very moment: asked right before every request that destroys.

Reads the newest snapshot, not the one the plan was made on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from extender.gang.incremental.enforcement import NOT_ENFORCED, Enforcement
from extender.gang.incremental.gangs import Gangs
from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import (
    covered_by_budget,
    ending_problem,
    guarding,
    present,
    unit_problem,
    victim_problem,
    whole_again,
)
from extender.gang.runtime.cluster_source import ClusterSource
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import DisruptionBudget, GangKey, Pod
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings


class KeptGangs:
    """Resolves gangs as the resolver does, each once while it stays the same."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._gangs = Gangs(resolver)
        self._snapshot: Snapshot | None = None

    def member_key(self, pod: Pod) -> GangKey | None:
        """Return the key of the gang the pod belongs to."""
        return self._resolver.member_key(pod)

    def unit_key(self, pod: Pod) -> GangKey | None:
        """Return the key of what the pod goes with."""
        return self._resolver.unit_key(pod)

    def resolve(self, key: GangKey, snapshot: Snapshot) -> Gang:
        """Return the gang as it is in this snapshot."""
        if snapshot is not self._snapshot:
            self._gangs.renew(snapshot)
            self._snapshot = snapshot
        return self._gangs[key]


class LastCheck:
    """Promise 4 on present objects: priority and protection of a victim, and its unit's extent.

    A pod is judged by the cluster as it is, which ``source`` gives.
    """

    def __init__(
        self,
        source: ClusterSource,
        gangs: KeptGangs,
        settings: Settings,
    ) -> None:
        self.source = source
        self.gangs = gangs
        self.settings = settings
        self._protections = Protections(settings)
        self._enforcement = Enforcement(settings.enforce)

    def not_for(self, namespace: str) -> str:
        """Return why nothing is done for gangs of the namespace now, "" when it may be."""
        snapshot = self.source.snapshot()
        if self._enforcement.everybody or self._enforcement.acts_for(namespace, snapshot):
            return ending_problem(namespace, snapshot)
        return NOT_ENFORCED.format(namespace)

    def leaves(self, pod: Pod, now: float) -> bool:
        """Whether the pod is on its way out, and its eviction would not end it sooner."""
        return self._protections.leaves(pod, now)

    def there(self, victim: Victim) -> bool:
        """Whether the pod is on its node, and not on its way out."""
        pod = present(victim, self.source.snapshot())
        return pod is not None and not pod.deleting

    def of_victim(self, victim: Victim, priority: int, *, alone: bool) -> str:
        """Return why the pod must not go now, "" when it may; see validity.victim_problem."""
        snapshot = self.source.snapshot()
        return victim_problem(
            victim, priority, snapshot, self.gangs, self._protections, alone=alone
        )

    def budgeted(self, victims: Iterable[Victim], priority: int) -> frozenset[str]:
        """Return the uids of victims to evict through the Eviction API: a budget speaks for them
        and counts against this priority."""
        return covered_by_budget(victims, self.source.snapshot(), self._protections, priority)

    def budgets_of(self, pods: Sequence[Pod], priority: int) -> list[DisruptionBudget]:
        """Return the budgets that speak for pods and count against this priority."""
        found = guarding(pods, self.source.snapshot(), self._protections, priority)
        return [budget for budgets in found.values() for budget in budgets]

    def whole_again(self, victim: Victim, unit: AbstractSet[str], size: int) -> bool:
        """Whether the gang of a victim that is there is whole by others; see validity."""
        gang = self.gang_of(victim)
        return gang is not None and whole_again(gang, unit, size)

    def gang_of(self, victim: Victim) -> Gang | None:
        """Return what a victim goes with now: the same object while that is unchanged."""
        snapshot = self.source.snapshot()
        pod = present(victim, snapshot)
        key = None if pod is None else self.gangs.unit_key(pod)
        return None if key is None else self.gangs.resolve(key, snapshot)

    def of_unit(self, victims: Iterable[Victim], priority: int, shown: Snapshot) -> str:
        """Return why an untouched unit must not go now, "" when it may.

        ``shown`` has evictions that are on their way as well: who is left of its gang is judged
        by that. Making it costs a walk over the cluster; take one for all units.
        """
        return unit_problem(victims, priority, shown, self.gangs, self._protections)
