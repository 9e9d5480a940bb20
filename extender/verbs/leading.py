"""Verbs are answered by the replica that leads; every other one says who does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from extender.gang.leader_election.lease import LeaderCandidate
from extender.model.errors import NotReady
from extender.verbs.bind import CallerGone
from extender.verbs.verbs import ExtenderVerbs
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority
from extender.wire.preempt_json import PreemptArgs, PreemptResult

T = TypeVar("T")


class LeadersVerbs:
    """The verbs of the present term. NotReady when this replica does not lead.

    Leadership is asked before and after: an answer that was begun while leading may promise
    room that the next leader has promised already.
    """

    def __init__(self, present: Callable[[], ExtenderVerbs], leadership: LeaderCandidate) -> None:
        self._present = present
        self._leadership = leadership

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Return the nodes the pod may have now."""
        return await self._leading(lambda verbs: verbs.filter(args))

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Return a score for each node."""
        return await self._leading(lambda verbs: verbs.prioritize(args))

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        """Return what kube-scheduler may evict for the pod."""
        return await self._leading(lambda verbs: verbs.preempt(args))

    async def bind(self, args: BindArgs, gone: CallerGone) -> BindResult:
        """Bind the pod, a member of a gang together with the others."""
        self._leadership.note_asked()
        self._require(verbs := self._present())
        answer = await verbs.bind(args, gone)
        if answer.error:
            self._require(verbs)
        return answer  # that a pod is bound stays true whoever leads

    def stopping(self) -> None:
        """Answer the binds that are held: this process stops."""
        self._present().stopping()

    async def _leading(self, ask: Callable[[ExtenderVerbs], Awaitable[T]]) -> T:
        self._leadership.note_asked()
        self._require(verbs := self._present())
        try:
            answer = await ask(verbs)
        except Exception:
            # What was going on is cut off with the term; that is not an error of its own.
            self._require(verbs)
            raise
        self._require(verbs)
        return answer

    def _require(self, verbs: ExtenderVerbs) -> None:
        if not self._leadership.acts or self._present() is not verbs:
            raise NotReady(self._leadership.describe())
