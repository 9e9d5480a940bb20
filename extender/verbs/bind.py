"""bind: may this pod be given this node now, and if so, give it.

A member of a gang is bound with the others of its plan (gang/bind_barrier/bindings.py), or not at
all: a
bind of a member that no plan has a seat for is an error while its gang lacks its quorum. Every
other pod is bound at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extender.decode.pod_requests import KNOWN
from extender.gang.bind_barrier.bindings import Bindings
from extender.model.objects import Pod
from extender.verbs.context import Context
from extender.verbs.pod_lookup import PodLookup
from extender.wire.bind_json import BindArgs, BindResult

CallerGone = Callable[[], Awaitable[None]]
"""Returns when the caller has left; awaited only while its bind is held."""


BEHIND_SECONDS = 1.0
"""By how much we may know later than kube-scheduler that a pod has left a node."""


class Bind:
    """Answers the bind verb."""

    def __init__(self, context: Context, asked: PodLookup, bindings: Bindings) -> None:
        self._context = context
        self._asked = asked
        self._bindings = bindings

    async def answer(self, args: BindArgs, gone: CallerGone) -> BindResult:
        """Bind the pod; say why it is not bound.

        Raises NotReady before recovery, UnknownPod when the cache has no such pod.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + BEHIND_SECONDS
        while True:
            generation = self._context.cluster.generation
            decided = await self._decide(args, gone, last=loop.time() >= until)
            if decided is not None:
                return BindResult(decided)
            await self._context.cluster.wait_change(generation, until - loop.time())

    async def _decide(self, args: BindArgs, gone: CallerGone, *, last: bool) -> str | None:
        """Bind the pod; return why it is not bound, "" when it is, None to look once more."""
        context = self._context
        context.require_ready()
        pod = await self._asked.known(args.uid, args.namespace, args.name)
        if pod.node:
            return "" if pod.node == args.node else f"{pod.key} is on {pod.node} already"
        if pod.deleting:
            return f"{pod.key} is being deleted"
        preemption = context.reservations.of_member(pod.uid)
        if preemption is not None:
            stale = context.asking.stale()
            if stale is not None:
                return f"{preemption.key}: {stale}"
            return await self._bindings.member(preemption, pod, args.node, gone)
        gang = context.waiting_gang(pod)
        if gang is not None:
            return f"{gang.key}: no open plan has a seat for {pod.name}"
        short = self._short(pod, args.node)
        if short:
            return f"{args.node} has not enough {short} for {pod.key} any more" if last else None
        return await self._bindings.alone(pod, args.node)

    def _short(self, pod: Pod, node: str) -> str:
        """Return a resource that lacks on the node for a pod of no plan, "" when none is known to.

        kube-scheduler forgets a pod whose bind answer was lost, bound or not, and has its room for
        another one until it has seen it (docs/barrier.md). It may also know before us who has gone.
        """
        cluster = self._context.cluster
        if cluster.stale_for() or node not in cluster.snapshot().nodes:
            return ""
        # What kube-scheduler counts on every node: extended resources may be of no account to it
        # (NodeResourcesFit's ignoredResources, an extender's ignoredByScheduler), or be devices.
        wants = [(name, asked) for name, asked in pod.requests if asked > 0 and name in KNOWN]
        return cluster.short(node, wants) or ""
