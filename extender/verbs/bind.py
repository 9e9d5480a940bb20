"""bind: may this pod be given this node now, and if so, give it.

A member of a gang is bound with the others of its plan (gang/act/bindings.py), or not at all: a
bind of a member that no plan has a seat for is an error while its gang lacks its quorum. Every
other pod is bound at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from extender.gang.act.bindings import Bindings
from extender.verbs.context import Context
from extender.verbs.pod_lookup import PodLookup
from extender.wire.bind_json import BindArgs, BindResult

CallerGone = Callable[[], Awaitable[None]]
"""Returns when the caller has left; awaited only while its bind is held."""


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
        context = self._context
        context.require_ready()
        pod = await self._asked.known(args.uid, args.namespace, args.name)
        if pod.node:
            there = pod.node == args.node
            return BindResult("" if there else f"{pod.key} is on {pod.node} already")
        if pod.deleting:
            return BindResult(f"{pod.key} is being deleted")
        flight = context.book.of_member(pod.uid)
        if flight is not None:
            stale = context.asking.stale()
            if stale is not None:
                return BindResult(f"{flight.key}: {stale}")
            return BindResult(await self._bindings.member(flight, pod, args.node, gone))
        gang = context.waiting_gang(pod)
        if gang is not None:
            return BindResult(f"{gang.key}: no plan in flight has a seat for {pod.name}")
        return BindResult(await self._bindings.alone(pod, args.node))
