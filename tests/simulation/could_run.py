"""Whether the gang of a plan that begins to evict could run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.cache.cache import Cache
from tests.simulation.placement import fits
from tests.simulation.state import State


class CouldRun:
    """Judges plans by the cluster as it is, and by what the extender knows of it."""

    def __init__(self, state: State, cache: Callable[[], Cache | None]) -> None:
        self._state = state
        self._cache = cache

    def __call__(self, plan: Any) -> str:
        """Return why not, "" when the gang could run by what is true or by what is known."""
        if not self._why_not(plan, self._true(plan)):
            return ""
        return self._why_not(plan, self._known(plan))

    def _why_not(self, plan: Any, seen: tuple[dict[str, int], set[str]]) -> str:
        free, waiting = seen
        lost = [seat.name for seat in plan.seats if seat.uid not in waiting]
        if lost:
            return f"its members {', '.join(lost)} do not wait any more"
        works = {uid: pod.work.cpu for uid, pod in self._state.pods.items()}
        wants = [works[seat.uid] for seat in plan.seats if seat.uid in works]
        if not fits(free, wants):
            return f"{len(wants)} members do not fit into {free} once its victims are gone"
        return ""

    def _true(self, plan: Any) -> tuple[dict[str, int], set[str]]:
        state = self._state
        gone = frozenset(v.uid for v in (*plan.victims, *plan.waits_for)) | {
            pod.uid for pod in state.pods.values() if pod.going
        }
        waiting = {p.uid for p in state.pods.values() if not p.going}
        free = state.free(gone | {seat.uid for seat in plan.seats})
        return free, waiting

    def _known(self, plan: Any) -> tuple[dict[str, int], set[str]]:
        cache = self._cache()
        assert cache is not None
        snapshot = cache.snapshot()
        gone = {v.uid for v in (*plan.victims, *plan.waits_for)} | {seat.uid for seat in plan.seats}
        free = {}
        waiting = {uid for uid, pod in snapshot.pending.items() if not pod.deleting}
        for name, node in snapshot.nodes.items():
            pods = snapshot.bound.get(name, ())
            waiting.update(pod.uid for pod in pods if not pod.deleting)
            if not node.unschedulable:
                free[name] = (_cpu(dict(node.allocatable)) or 0) - sum(
                    _cpu(dict(pod.requests)) or 0
                    for pod in pods
                    if not pod.deleting and pod.uid not in gone
                )
        return free, waiting


def _cpu(amounts: dict[str, int]) -> int:
    return amounts.get("cpu", 0) // 1000
