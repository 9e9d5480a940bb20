"""A small scheduler loop that treats an extender as kube-scheduler does.

One pod at a time: nominated node first, in-tree filters, the extender's filter,
scores, bind; where nothing fits, the per-node dry run and the extender's
preempt. What is left out: profiles, volumes, permit, asynchronous preemption.
Source: pkg/scheduler/schedule_one.go of 1.36 and 1.37.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from extender.model.objects import Pod
from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.cluster import ClusterState
from extender.sandbox.eviction import matching_budgets
from extender.sandbox.preemption import NodeWithVictims, over_budget, pick_one, select_victims
from extender.sandbox.queue import EXTENDER, Entry, SchedulingQueue
from extender.sandbox.resources import NAMESPACES, NODES, PODS
from extender.sandbox.rest import Api
from extender.sandbox.sampling import NodeSampling
from extender.sandbox.storage import ADDED, DELETED, StorageChange
from extender.sandbox.wire import ExtenderClient, ExtenderFailed

NAME = "default-scheduler"
PREEMPTED = "PreemptionByScheduler"
UNHEEDED = frozenset(("resourceVersion", "generation", "managedFields", "finalizers"))
"""Metadata of which a change makes nobody try a pod again."""


class Verdicts(Struct):
    """Why nodes were left out of one attempt: node -> reason."""

    unschedulable: dict[str, str]
    """Preemption may help here."""
    unresolvable: dict[str, str]
    """Nothing that may be evicted helps here."""
    plugins: set[str]

    def message(self, total: int) -> str:
        """Return the text of the PodScheduled condition."""
        counts: dict[str, int] = {}
        for reason in (*self.unschedulable.values(), *self.unresolvable.values()):
            counts[reason] = counts.get(reason, 0) + 1
        parts = [f"{count} {reason}" for reason, count in sorted(counts.items())]
        return f"0/{total} nodes are available: {', '.join(parts) or 'no nodes'}."


class Scheduler:
    """Schedule the pods of an Api with the help of one extender, or of none."""

    def __init__(
        self,
        api: Api,
        extender: ExtenderClient | None,
        *,
        backoff_scale: float = 1.0,
        state: ClusterState | None = None,
    ) -> None:
        self._api = api
        self._extender = extender
        self._state = state or ClusterState()
        self._scale = backoff_scale
        self.sampling = NodeSampling()
        self.names = frozenset((NAME,))
        """Of its profiles: whose pods it schedules."""

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        self._queue = SchedulingQueue(loop.time, scale=self._scale)
        changes = self._api.storage.subscribe(NODES.key, PODS.key, NAMESPACES.key)
        for resource in (NAMESPACES, NODES, PODS):
            for obj in self._api.storage.all(resource.key):
                self._apply(StorageChange(0, resource.key, ADDED, obj, None))

        async def follow() -> None:
            while True:
                self._apply(await changes.next())

        follower = asyncio.ensure_future(follow())
        try:
            while True:
                entry = await self._queue.pop()
                # Give the follower its turn: an attempt starts from all that has happened.
                await asyncio.sleep(0)
                pod = self._state.pods.get(entry.uid)
                if pod is None or self._state.node_of(pod) or pod.deleting:
                    self._queue.done(entry)
                else:
                    await self._attempt(entry, pod)
        finally:
            follower.cancel()
            changes.close()
            if self._extender is not None:
                await self._extender.close()

    # --- events ------------------------------------------------------------------------

    def _apply(self, change: StorageChange) -> None:
        obj = change.new
        name = obj["metadata"]["name"]
        if change.resource == NAMESPACES.key:
            self._state.namespaces[name] = obj["metadata"].get("labels") or {}
        elif change.resource == NODES.key:
            if change.type == DELETED:
                self._state.nodes.pop(name, None)
            else:
                self._state.set_node(obj)
            self._queue.wake("node")
        elif change.type == DELETED:
            self._gone(obj["metadata"]["uid"])
        else:
            self._changed(obj)

    def _gone(self, uid: str) -> None:
        before = self._state.pods.get(uid)
        self._queue.remove(uid)
        self._state.drop_pod(uid)
        if before is not None and (before.node or before.nominated):
            self._queue.wake("pod-gone", uid)

    def _changed(self, obj: Obj) -> None:
        uid = obj["metadata"]["uid"]
        was_bound = bool(before.node) if (before := self._state.pods.get(uid)) else False
        raw = self._state.raw.get(uid)
        self._state.set_pod(obj)
        pod = self._state.pods.get(uid)
        if pod is None:
            self._queue.remove(uid)
            self._queue.wake("pod-gone", uid)
        elif pod.node:
            self._queue.remove(uid)
            self._queue.wake("pod-changed" if was_bound else "pod-bound", uid)
        elif pod.deleting or pod.gated or pod.shape.scheduler not in self.names:
            self._queue.remove(uid)
        elif before is None or before.gated:
            self._queue.add(uid, pod.priority, pod.created)
        else:
            if raw is None or _updated(raw, obj):
                self._queue.wake("own", uid)
        if pod is None or pod.node or before is None or before.node:
            return
        if before.nominated and before.nominated != pod.nominated:
            # updatePodInSchedulingQueue: also of a pod that is being deleted.
            self._queue.wake("pod-gone", uid)

    # --- one attempt -------------------------------------------------------------------

    async def _attempt(self, entry: Entry, pod: Pod) -> None:
        verdicts = Verdicts({}, {}, set())
        if not self._state.nodes:
            # An error to kube-scheduler too: nobody rejected the pod, so it just backs off.
            text = "0/0 nodes are available: no nodes available to schedule pods"
            self._report(pod, "Unschedulable", text, nominated="")
            self._end(entry, retry=True)
            return
        try:
            node = await self._find_node(pod, verdicts)
        except ExtenderFailed as error:
            self._report(pod, "SchedulerError", f"extender: {error}", nominated="")
            self._end(entry, retry=True)
            return
        if node:
            self._bind(entry, pod, node)
            return
        nominated, note = await self._preempt(pod, verdicts)
        text = verdicts.message(len(self._state.nodes)) + (f" preemption: {note}" if note else "")
        self._report(pod, "Unschedulable", text, nominated=nominated)
        self._end(entry, rejectors=frozenset(verdicts.plugins))

    def _end(
        self, entry: Entry, *, retry: bool = False, rejectors: frozenset[str] = frozenset()
    ) -> None:
        pod = self._state.pods.get(entry.uid)
        if pod is None or pod.deleting or pod.node:
            self._queue.done(entry)
        elif retry:
            self._queue.retry(entry)
        else:
            self._queue.park(entry, rejectors)

    async def _find_node(self, pod: Pod, verdicts: Verdicts) -> str:
        if pod.nominated in self._state.nodes:
            try:
                if await self._feasible(pod, [pod.nominated], Verdicts({}, {}, set()), 1):
                    return pod.nominated
            except ExtenderFailed:
                pass  # kube-scheduler logs it and tries all nodes.
        names, sampling = self._state.nodes, self.sampling
        order = sampling.order(names)
        feasible = await self._feasible(pod, order, verdicts, sampling.most(len(names)))
        if len(feasible) < 2:
            return "".join(feasible)
        view = self._state.view(pod)
        scores = {name: view.score(name) for name in feasible}
        if self._extender is not None:
            raw = self._state.raw[pod.uid]
            for name, score in (await self._extender.prioritize(raw, feasible)).items():
                if name in scores:
                    scores[name] += score * 10 * self._extender.weight
        return min(feasible, key=lambda name: (-scores[name], name))

    async def _feasible(
        self, pod: Pod, names: list[str], verdicts: Verdicts, most: int
    ) -> list[str]:
        """Filter nodes in-tree until ``most`` have passed, then those through the extender, which
        is not asked about none."""
        view = self._state.view(pod)
        left: list[str] = []
        looked_at = 0
        for name in names:
            if len(left) >= most:
                break
            looked_at += 1
            reason = view.why_not(pod, name)
            if reason is None:
                left.append(name)
                continue
            verdicts.plugins.add(reason.split(":")[0])
            fixed = view.never(pod, name)
            (verdicts.unresolvable if fixed else verdicts.unschedulable)[name] = reason
        if len(names) > 1:
            self.sampling.looked_at(looked_at, len(names))
        if not left or self._extender is None:
            return left
        answer = await self._extender.filter(self._state.raw[pod.uid], left)
        if len(answer.nodes) < len(left):
            verdicts.plugins.add(EXTENDER)
        for name in left:
            if name in answer.unresolvable:
                verdicts.unresolvable[name] = answer.unresolvable[name]
            elif name in answer.failed:
                verdicts.unschedulable[name] = answer.failed[name]
            elif name not in answer.nodes:
                verdicts.unresolvable[name] = "node(s) left out by the extender"
        return [name for name in left if name in answer.nodes]

    def _bind(self, entry: Entry, pod: Pod, node: str) -> None:
        self._state.assume(pod.uid, node)
        target = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node}}
        try:
            self._api.bind(pod.namespace, pod.name, target)
        except StatusError as error:
            self._state.forget(pod.uid)
            self._report(pod, "SchedulerError", f"binding: {error.message}", nominated="")
            self._end(entry, retry=True)
            return
        self._queue.done(entry)
        raw = self._state.raw.get(pod.uid)
        if raw is not None:
            text = f"Successfully assigned {pod.key} to {node}"
            self._api.event(raw, reason="Scheduled", message=text)

    # --- preemption --------------------------------------------------------------------

    async def _preempt(self, pod: Pod, verdicts: Verdicts) -> tuple[str | None, str]:
        """Return (nominatedNodeName to set, None to leave it; what to say)."""
        waiting = [p for p in self._state.on(pod.nominated) if p.deleting and p.disrupted]
        if not pod.preempts:
            return None, "not eligible due to preemptionPolicy=Never."
        if pod.nominated not in verdicts.unresolvable and any(
            p.priority < pod.priority for p in waiting
        ):
            return None, "not eligible due to a terminating pod on the nominated node."
        if not verdicts.unschedulable:
            return "", "0 nodes where preemption could help."
        candidates = self._candidates(pod, sorted(verdicts.unschedulable))
        found = [c for c in candidates if c.victims]
        if not found:
            if candidates:
                return None, "expected at least one victim pod on node"
            return "", "No preemption victims found for incoming pod."
        if self._extender is not None:
            try:
                found = await self._ask(pod, found)
            except ExtenderFailed as error:
                return None, f"extender: {error}"
        if not found:
            return None, "no candidate node for preemption"
        best = pick_one(found)
        for victim in best.victims:
            self._evict(victim, pod, best.node)
        for other in self._state.pods.values():
            if other.nominated == best.node and other.priority < pod.priority:
                self._nominate(other, "")
        return best.node, ""

    def _candidates(self, pod: Pod, names: Iterable[str]) -> list[NodeWithVictims]:
        found = []
        for name in names:
            pods = self._state.on(name)
            counters: dict[str, list[int]] = {}
            budgets: dict[str, list[list[int]]] = {}
            for other in pods:
                raw = self._state.raw[other.uid]
                for budget in matching_budgets(self._api, raw):
                    status = budget.get("status") or {}
                    if other.name in (status.get("disruptedPods") or {}):
                        continue
                    key = budget["metadata"]["uid"]
                    counters.setdefault(key, [status.get("disruptionsAllowed", 0)])
                    budgets.setdefault(other.uid, []).append(counters[key])
            lower = [p for p in pods if p.priority < pod.priority]
            protected = over_budget(lower, budgets)

            def fits(gone: frozenset[str], node: str = name) -> bool:
                return self._state.view(pod, without=gone).why_not(pod, node) is None

            candidate = select_victims(name, pods, pod, fits, protected)
            if candidate is not None:
                found.append(candidate)
        return found

    async def _ask(self, pod: Pod, candidates: list[NodeWithVictims]) -> list[NodeWithVictims]:
        """Let the extender change the candidates, and check its answer as kube-scheduler does."""
        assert self._extender is not None
        answer = await self._extender.preempt(
            self._state.raw[pod.uid],
            {c.node: (tuple(p.uid for p in c.victims), c.violations) for c in candidates},
        )
        found = []
        for node, (uids, violations) in answer.items():
            if node not in self._state.nodes:
                raise ExtenderFailed(f"preempt answered the unknown node {node!r}")
            there = {p.uid: p for p in self._state.on(node)}
            missing = [uid for uid in uids if uid not in there]
            if missing:
                raise ExtenderFailed(f"preempt answered pods that are not on {node}: {missing}")
            if not uids:
                raise ExtenderFailed(f"preempt answered {node} without a victim")
            found.append(NodeWithVictims(node, tuple(there[uid] for uid in uids), violations))
        return found

    def _evict(self, victim: Pod, pod: Pod, node: str) -> None:
        raw = self._state.raw.get(victim.uid)
        if raw is None or victim.deleting:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": self._api.now(),
        }
        try:
            self._api.set_status(PODS, raw, {"conditions": [condition]})
            self._api.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except StatusError:
            return  # Gone already, or another pod of that name.
        text = f"Preempted by pod {pod.uid} on node {node}"
        self._api.event(raw, reason="Preempted", message=text)

    # --- status ------------------------------------------------------------------------

    def _report(self, pod: Pod, reason: str, message: str, *, nominated: str | None) -> None:
        """Write the PodScheduled condition, and the nomination when it is to change."""
        raw = self._state.raw.get(pod.uid)
        if raw is None:
            return
        held = {c["type"]: c for c in raw["status"].get("conditions") or ()}.get("PodScheduled", {})
        status: Obj = {}
        if (held.get("reason"), held.get("message")) != (reason, message):
            condition = {"type": "PodScheduled", "status": "False", "reason": reason}
            condition |= {"message": message, "lastTransitionTime": self._api.now()}
            status["conditions"] = [condition]
            self._api.event(raw, reason="FailedScheduling", message=message, kind="Warning")
        if nominated is not None and nominated != pod.nominated:
            status["nominatedNodeName"] = nominated or None
        if status:
            self._set(raw, status)

    def _nominate(self, pod: Pod, node: str) -> None:
        raw = self._state.raw.get(pod.uid)
        if raw is not None:
            self._set(raw, {"nominatedNodeName": node or None})

    def _set(self, raw: Obj, status: Obj) -> None:
        try:
            self._api.set_status(PODS, raw, status)
        except StatusError:
            pass  # The pod is gone.


def _updated(old: Obj, new: Obj) -> bool:
    """Whether a waiting pod's change makes it be tried again: a status alone does not.

    Source: isPodUpdated in pkg/scheduler/backend/queue/scheduling_queue.go.
    """
    return old["spec"] != new["spec"] or any(
        old["metadata"].get(name) != new["metadata"].get(name)
        for name in old["metadata"].keys() | new["metadata"].keys()
        if name not in UNHEEDED
    )
