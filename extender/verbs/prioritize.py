"""prioritize: of the nodes a pod may have, which serve gangs best?

Pods of no gang are led away from nodes on which seats are held; members beyond
their quorum are led to nodes where their gang already sits. With nothing to say
the answer is an empty list, which leaves kube-scheduler's own order as it is: a
node that is not named gets no points (prioritizeNodes adds up what is there). To
read five hundred zeros costs kube-scheduler as much as to be asked.
"""

from __future__ import annotations

from extender.verbs.context import Context
from extender.wire.filter_json import MAX_SCORE, FilterArgs, HostPriority


class Prioritize:
    """Answers the prioritize verb."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, args: FilterArgs) -> list[HostPriority]:
        """Return scores 0..10 in the order asked; none where no node is better than another."""
        context = self._context
        pod = context.cluster.pod(args.pod.uid)
        if pod is None:
            return []  # advice alone is not worth waiting for
        if context.reservations.of_member(pod.uid) is not None:
            return []  # has one seat: nothing is left to choose
        key = context.resolver.member_key(pod) if context.acts_for(pod) else None
        near: set[str] = set()
        if key is not None:
            members = context.cluster.snapshot().members.get(key, ())
            near = {member.node for member in members if member.node}
        held = context.reservations.nodes()
        if not held and not near:
            return []
        scores = [HostPriority(name, _score(name, held, near)) for name in args.node_names]
        return scores if len({each.score for each in scores}) > 1 else []


def _score(name: str, held: set[str], near: set[str]) -> int:
    if name in held:
        return 0
    return MAX_SCORE if not near or name in near else MAX_SCORE // 2
