"""What must hold when the extender binds a pod itself: docs/barrier.md."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.client import Request
from tests.simulation.host import Host
from tests.simulation.lease_checks import LeaseChecks
from tests.simulation.replicas import Replicas
from tests.simulation.state import State

LAG = 3.0
"""How long ago a gang may have become whole of which the extender does not know who went."""


class BindingChecks:
    """Asked at each real binding of the extender's."""

    def __init__(
        self,
        state: State,
        host: Callable[[], Host | Replicas],
        lease: LeaseChecks,
        broken: Callable[[str, str], None],
        time: Callable[[], float],
    ) -> None:
        self._state = state
        self._host = host
        self._lease = lease
        self._broken = broken
        self._time = time
        self._bound_of: set[str] = set()
        """Ids of the plans of which a member was bound by us."""

    def judge(self, request: Request) -> None:
        """Check one real binding of ours at the moment it is sent: docs/barrier.md."""
        name, uid = request.pod_name, request.body["metadata"]["uid"]
        node = request.body["target"]["name"]
        host = self._host()
        if isinstance(host, Replicas):
            self._lease.holds(host, name, "bound")
        pod = self._state.pods.get(uid)
        cache = host.cache
        if pod is None or cache is None or not pod.work.quorum:
            return
        members = self._state.of_work(pod.work.name)
        running = sum(each.runs for each in members)
        lately = self._state.whole.get(pod.work.name, -LAG) > self._time() - LAG
        # It was whole a moment ago: one beyond the quorum takes the place of one that has gone.
        if running + lately >= pod.work.quorum and not pod.work.sizeless:
            return
        coordinator = host.coordinator
        preemptions = () if coordinator is None else coordinator.reservations
        mine = [f for f in preemptions if any(seat.uid == uid for seat in f.plan.seats)]
        if not any(
            # A seat that is seen taken was taken by a request before this one.
            f.state.value == "open" and f.seats.get(uid, node) == node
            for f in mine
        ):
            self._broken("unheld", f"{name} is bound to {node} without an open seat there")
        for preemption in mine:
            if preemption.id in self._bound_of:
                continue
            self._bound_of.add(preemption.id)
            known = {seat.uid: cache.pod(seat.uid) for seat in preemption.plan.seats}
            lost = [
                s.name for s in preemption.plan.seats if (p := known[s.uid]) is None or p.deleting
            ]
            closed = {
                node
                for node in preemption.seats.values()
                if (held := cache.snapshot().nodes.get(node)) is None or held.unschedulable
            }
            if lost or closed:
                why = ", ".join([*lost, *sorted(closed)])
                self._broken("bound-in-part", f"{name} is bound first though {why} is lost")
