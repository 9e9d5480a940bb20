"""The plans that are under way when an eviction is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from extender.gang.controller.preconditions import SPARING_REPLANS
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import IN_DOUBT
from tests.simulation.host import Host
from tests.simulation.replicas import Replicas


class PlansInPreemption:
    """What the extender's book says of its plans. ``host``: who acts now."""

    def __init__(self, host: Callable[[], Host | Replicas]) -> None:
        self._host = host

    def preemptions(self) -> Iterable[Preemption]:
        """Return all, none while nobody acts."""
        coordinator = self._host().coordinator
        return () if coordinator is None else coordinator.reservations

    def naming(self, uid: str) -> list[Any]:
        """Return the plans that name a pod as victim, or wait for it."""
        return [
            preemption.plan
            for preemption in self.preemptions()
            if any(v.uid == uid for v in (*preemption.plan.victims, *preemption.plan.waits_for))
        ]

    def may_spare(self, plan: Any) -> bool:
        """Whether a plan is compared with room that has come: not for ever, nor when resumed."""
        return any(
            each.plan is plan and each.replans < SPARING_REPLANS and each.held != -inf
            for each in self.preemptions()
        )

    def asking(self, uid: str) -> set[int]:
        """Return the plans that evict and have asked for a pod, by id: others may name it too."""
        coordinator = self._host().coordinator
        if coordinator is None:
            return set()
        return {
            id(each.plan)
            for each in coordinator.reservations
            if each.state.value == "evicting" and each.id == self._asked_for(uid)
        }

    def _asked_for(self, uid: str) -> str:
        """Return the plan for which a pod is asked for at this moment."""
        coordinator = self._host().coordinator
        assert coordinator is not None
        state = coordinator.plans.victims.victims.get(uid)
        if state is None or state.phase not in IN_DOUBT or state.claim is None:
            return ""
        return state.claim.plan_id

    def asks_for_another(self, plan: Any, uid: str) -> bool:
        """Whether a request for another of the plan's victims is not answered yet."""
        coordinator = self._host().coordinator
        left = {} if coordinator is None else coordinator.plans.victims.left
        ids = {each.id for each in self.preemptions() if each.plan is plan}
        return any(
            other != uid and state.claim is not None and state.claim.plan_id in ids
            for other, state in left.items()
        )

    def beside(self, plan: Any) -> list[Any]:
        """Return the other plans: seats are held until another plan takes the place of one."""
        return [each.plan for each in self.preemptions() if each.plan is not plan]

    def owed(self, uid: str, priority: int, *, doubtful: bool) -> bool:
        """Whether a pod has to go since others of its unit have gone by our hand."""
        coordinator = self._host().coordinator
        tables = None if coordinator is None else coordinator.plans.victims
        state = None if tables is None else tables.victims.get(uid)
        return (
            state is not None
            and state.must
            and any(
                claim.priority > priority and (group.watched_until > 0 or not doubtful)
                for group in state.groups
                for claim in group.claims.values()
            )
        )


def unit_of(plan: Any, uid: str) -> set[str]:
    """Return the uids that a plan takes as one unit with a victim."""
    unit = next((victim.unit for victim in plan.victims if victim.uid == uid), "")
    return {victim.uid for victim in plan.victims if unit and victim.unit == unit}
