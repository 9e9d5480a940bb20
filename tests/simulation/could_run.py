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
        true = {uid: pod.cpu for uid, pod in self._state.pods.items()}
        if not self._why_not(plan, self._true(plan), true):
            return ""
        cache = self._cache()
        assert cache is not None
        pods = {uid: cache.pod(uid) for uid in true}
        known = {uid: _cpu(dict(pod.requests)) for uid, pod in pods.items() if pod is not None}
        return self._why_not(plan, self._known(plan), known)

    def seats_clash(self, plan: Any, others: list[Any]) -> str:
        """Return which node has no room for its seats beside those of the plans ``others``.

        By what the extender knows, and with everybody gone whom any of these plans counts on.
        """
        cache = self._cache()
        assert cache is not None
        snapshot = cache.snapshot()
        gone: set[str] = set()
        wants: dict[str, int] = {}
        for each in (plan, *others):
            gone |= {v.uid for v in (*each.victims, *each.waits_for)}
        for each in (plan, *others):
            for seat in each.seats:
                pod = snapshot.pending.get(seat.uid)
                if pod is not None:  # who sits is counted on its node
                    wants[seat.node] = wants.get(seat.node, 0) + (_cpu(dict(pod.requests)) or 0)
        for name in {seat.node for seat in plan.seats}:
            node = snapshot.nodes.get(name)
            if node is None or name not in wants:
                continue
            used = sum(
                _cpu(dict(pod.requests)) or 0
                for pod in snapshot.bound.get(name, ())
                if pod.uid not in gone and not pod.deleting
            )
            if used + wants[name] > (_cpu(dict(node.allocatable)) or 0):
                return f"{name} has no room for the seats of all plans: {used} used, {wants[name]}"
        return ""

    def needless(self, plan: Any, others: list[Any], offered: dict[str, set[str]]) -> bool:
        """Whether its members find room without its victims, beside the seats of other plans.

        By what the extender knows. ``offered``: pod uid -> nodes that it may be bound to.
        """
        cache = self._cache()
        assert cache is not None
        snapshot = cache.snapshot()
        if any(s.uid not in self._state.pods or self._state.pods[s.uid].going for s in plan.seats):
            return False  # who goes is news to it
        leaving = {v.uid for v in plan.waits_for}
        named = {v.uid for v in plan.victims}
        if any(v.uid in named for each in others for v in each.victims):
            return False  # another plan may need it
        mine = {seat.uid for seat in plan.seats}
        free = {
            name: (_cpu(dict(node.allocatable)) or 0)
            - sum(
                _cpu(dict(pod.requests)) or 0
                for pod in snapshot.bound.get(name, ())
                if pod.uid not in leaving  # others that terminate need not go in time
            )
            for name, node in snapshot.nodes.items()
            # kube-scheduler may know earlier that a node is closed or gone, and not offer it.
            if not node.unschedulable and name in self._state.nodes
        }
        for uid, pod in snapshot.pending.items():
            kept = {seat.node for each in others for seat in each.seats if seat.uid == uid}
            if uid not in mine:
                kept |= offered.get(uid, set()) | {pod.nominated}
                # kube-scheduler offers nobody room that it keeps, before its watches tell of it.
                kept |= {self._state.pods[uid].nominated} if uid in self._state.pods else set()
            for name in kept & free.keys():
                free[name] -= _cpu(dict(pod.requests)) or 0
        bound = {pod.uid for pods in snapshot.bound.values() for pod in pods}
        for uid in offered.keys() - snapshot.pending.keys() - bound - mine:
            # It is not known of yet, and kube-scheduler may have assumed it there.
            for name in offered[uid] & free.keys():
                free[name] -= self._state.pods[uid].cpu if uid in self._state.pods else 0
        members = [pod for uid, pod in snapshot.pending.items() if uid in mine]
        return fits(free, [_cpu(dict(pod.requests)) or 0 for pod in members])

    def _why_not(
        self, plan: Any, seen: tuple[dict[str, int], set[str]], asked: dict[str, int]
    ) -> str:
        free, waiting = seen
        lost = [seat.name for seat in plan.seats if seat.uid not in waiting]
        if lost:
            return f"its members {', '.join(lost)} do not wait any more"
        wants = [asked[seat.uid] for seat in plan.seats if seat.uid in asked]
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
