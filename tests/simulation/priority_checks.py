"""Promise 4 by what the extender knows when it sends an eviction: who is more urgent than whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.cache.cache import Cache
from extender.gang.plan.single import SINGLE
from extender.model.group_sources import CORE
from tests.simulation.state import Seen, State


class PriorityChecks:
    """docs/choices.md, which priority counts: the group's, where it has one."""

    def __init__(self, state: State, cache: Callable[[], Cache | None]) -> None:
        self._state = state
        self._cache = cache

    def of_victim(self, pod: Seen) -> int:
        """Return the priority that has to be below a plan's."""
        cache = self._cache()
        known = None if cache is None else cache.pod(pod.uid)
        own = pod.priority if known is None else known.priority
        stated = self._stated(pod)
        return own if stated is None else max(own, stated)

    def alone(self, pod: Seen) -> bool:
        """Whether its PodGroup does not exist, as far as is known: it goes by itself then."""
        cache = self._cache()
        known = None if cache is None else cache.pod(pod.uid)
        if cache is None or known is None or not known.pod_group:
            return False
        return (CORE, known.namespace, known.pod_group) not in cache.snapshot().groups

    def overrated(self, plan: Any) -> str:
        """Return why a plan's gang may not evict at the plan's priority any more, "" if it may."""
        cache = self._cache()
        seats = [self._state.pods[s.uid] for s in plan.seats if s.uid in self._state.pods]
        if cache is None or not seats:
            return ""
        # A member that is planned for alone has its own priority.
        least = None if plan.gang.dialect == SINGLE else self._stated(seats[0])
        if least is None:
            found = [cache.pod(seat.uid) for seat in seats]
            least = min((pod.priority for pod in found if pod is not None), default=plan.priority)
        return f"{plan.gang} has only {least}" if plan.priority > least else ""

    def _stated(self, pod: Seen) -> int | None:
        """Return the priority of its PodGroup, None where there is none."""
        cache = self._cache()
        if cache is None or not pod.work.gang:
            return None
        group = cache.snapshot().groups.get((CORE, "default", pod.work.name))
        return None if group is None else group.priority
