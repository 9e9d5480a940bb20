"""prioritize: of the nodes a pod may have, which serve gangs best?

Pods of no gang are led away from nodes on which seats are held; members beyond
their quorum are led to nodes where their gang already sits. With nothing to say
every node scores 0, which leaves kube-scheduler's own order as it is.
"""

from __future__ import annotations

from extender.verbs.context import Context
from extender.wire.filter import MAX_SCORE, FilterArgs, HostPriority


class Prioritize:
    """Answers the prioritize verb."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, args: FilterArgs) -> list[HostPriority]:
        """Return one score a node, 0..10, in the order asked."""
        coordinator = self._context.coordinator
        pod = args.pod
        if coordinator.book.of_member(pod.uid) is not None:
            return [HostPriority(name, MAX_SCORE) for name in args.node_names]
        key = coordinator.resolver.member_key(pod)
        near: set[str] = set()
        if key is not None:
            members = self._context.cluster.snapshot().members.get(key, ())
            near = {member.node for member in members if member.node}
        held = coordinator.book.nodes()
        if not held and not near:
            return [HostPriority(name, 0) for name in args.node_names]
        return [HostPriority(name, _score(name, held, near)) for name in args.node_names]


def _score(name: str, held: set[str], near: set[str]) -> int:
    if name in held:
        return 0
    return MAX_SCORE if not near or name in near else MAX_SCORE // 2
