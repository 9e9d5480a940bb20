"""The verbs of observe mode: every answer is what kube-scheduler would have had without us.

They wait for nothing, know nothing and fail for nothing: an answer is made of the question alone,
so no state of this process can change it. The observer is told of the question; an error of its
own is logged and changes no answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import structlog

from extender.model.objects import Pod
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority
from extender.wire.preempt_json import NodeVictims, PreemptArgs, PreemptResult

log = structlog.get_logger("observe")


class Hears(Protocol):
    """Who is told of the questions. Returns at once."""

    def offered(self, told: Pod, nodes: Iterable[str]) -> None:
        """kube-scheduler would place the pod on one of these nodes."""

    def preempting(self, told: Pod, candidates: dict[str, NodeVictims]) -> None:
        """kube-scheduler would evict one of these sets of pods for the pod."""


class ObserveVerbs:
    """Implements server.verb_calls.Verbs; raises nothing."""

    def __init__(self, observer: Hears) -> None:
        self._observer = observer
        self.unheard = 0
        """Questions that the observer failed on."""

    def _unheard(self, verb: str, error: Exception) -> None:
        self.unheard += 1
        if self.unheard & (self.unheard - 1) == 0:  # the 1st, 2nd, 4th, 8th, ...
            log.error("a question was not observed", verb=verb, times=self.unheard, exc_info=error)

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Return every node that was offered."""
        try:
            self._observer.offered(args.pod, args.node_names)
        except Exception as error:
            self._unheard("filter", error)
        return FilterResult(node_names=args.node_names)

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Return no score: kube-scheduler's own order stays."""
        return []

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        """Return every candidate as it came."""
        try:
            self._observer.preempting(args.pod, args.candidates)
        except Exception as error:
            self._unheard("preempt", error)
        return PreemptResult(candidates=args.candidates)

    async def bind(self, args: BindArgs, gone: Callable[[], Awaitable[None]]) -> BindResult:
        """Refuse: a binding is a write. The server does not serve this verb in observe mode."""
        return BindResult("observe mode binds nothing: take bindVerb out of the configuration")

    def stopping(self) -> None:
        """Nothing is held."""
