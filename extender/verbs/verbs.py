"""The verbs behind one object, as the server calls them."""

from __future__ import annotations

from extender.gang.controller.coordinator import Coordinator
from extender.gang.incremental.enforcement import Enforcement
from extender.settings.settings import Settings
from extender.verbs.bind import Bind, CallerGone
from extender.verbs.context import Cluster, Context
from extender.verbs.filter import Filter
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.preempt import Preempt
from extender.verbs.prioritize import Prioritize
from extender.verbs.room_beside_reservations import Spare
from extender.verbs.sampled_node_lists import Samples
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority
from extender.wire.preempt_json import PreemptArgs, PreemptResult


class ExtenderVerbs:
    """filter, prioritize, preempt, bind. They raise NotReady and UnknownPod; no more on purpose."""

    def __init__(
        self, cluster: Cluster, coordinator: Coordinator, spare: Spare, settings: Settings
    ) -> None:
        self.context = context = Context(
            cluster=cluster,
            asking=coordinator,
            reservations=coordinator.reservations,
            evidence=coordinator.evidence,
            hints=coordinator.hints,
            offers=coordinator.offers,
            resolver=coordinator.resolver,
            enforcement=Enforcement(settings.enforce),
            spare=spare,
            samples=Samples(coordinator.clocks.monotonic),
            shown=coordinator.preconditions.shown,
            takes=coordinator.plans.victims.takes,
            spared=coordinator.eviction_history.spared,
        )
        asked = PodLookup(cluster, settings.server.pod_wait_seconds)
        self._filter = Filter(context, asked)
        self._prioritize = Prioritize(context)
        self._preempt = Preempt(context, asked, settings)
        self._bind = Bind(context, asked, coordinator.bindings)
        self._bindings = coordinator.bindings

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Return the nodes the pod may have now."""
        return await self._filter.answer(args)

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Return a score for each node."""
        return await self._prioritize.answer(args)

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        """Return what kube-scheduler may evict for the pod."""
        return await self._preempt.answer(args)

    async def bind(self, args: BindArgs, gone: CallerGone) -> BindResult:
        """Bind the pod, a member of a gang together with the others."""
        return await self._bind.answer(args, gone)

    def stopping(self) -> None:
        """Answer the binds that are held: this process stops."""
        self._bindings.stop("the extender is being stopped")
