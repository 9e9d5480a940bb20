"""What time alone can break: looked at every second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from extender.sandbox.storage import Storage
from extender.settings.settings import Settings
from tests.simulation.broken import Unit
from tests.simulation.faults import Faults
from tests.simulation.host import Host
from tests.simulation.objects import BUDGET_KEY
from tests.simulation.replicas import Replicas
from tests.simulation.state import State

SLACK = 4.0
"""Seconds a deadline may be late."""
DOWN = 7.0
"""Seconds after which a watch is open again where nothing keeps it from it."""
PROMPT = 20.0
"""Seconds in which a unit is finished while nothing keeps the extender from it."""
RETRIED = 60.0
"""Seconds after which the rest of a unit is asked for again that was not to go, at most."""
HELD = 1.2
"""Seconds for which a seat may have been gone when an answer rests on it: it is looked for every
second."""
NEWS = 3.0
"""Seconds after which kube-scheduler has heard of a change, and what it decided before is done."""
MEMORY = 60.0 + DOWN
"""Seconds for which failed requests may make a watch wait: a page is waited for 60 s at most."""


CAME = 8.0
"""Seconds in which a kubelet has turned away what has no room beside a pod that came unscheduled: a
second to start it, a watch that is late, a slow bind, and that pod's turn."""


class StandingChecks:
    """Deadlines, watches, room and half gone units. ``units``: those that our hand has begun."""

    def __init__(
        self,
        state: State,
        storage: Storage,
        host: Callable[[], Host | Replicas],
        faults: Faults,
        settings: Settings,
        units: Mapping[str, Unit],
        broken: Callable[[str, str], None],
        time: Callable[[], float],
    ) -> None:
        self.shrunk: set[str] = set()
        """Nodes that have become smaller under their pods."""
        self.grown: dict[str, float] = {}
        """Uid -> when a pod that waited came to ask for more."""
        self.records_lost = False
        """Somebody took or spoilt plan records, and the process may have been killed since: who is
        half gone is known to nobody then (docs/actuation.md, what is not closed)."""
        self._state = state
        self._storage = storage
        self._host = host
        self._faults = faults
        self._settings = settings
        self._units = units
        self._broken = broken
        self._time = time
        self._hindered = 0.0
        """Until when the API server's misbehaviour, or our being down, excuses half a unit."""
        self.came: dict[str, float] = {}
        """Node -> when a pod last came there without being scheduled."""
        self._idle: dict[tuple[str, str], float] = {}  # by the plan's id and the state
        self._held: dict[str, float] = {}
        """Node, or uid of a pod that has a plan -> when a seat was last held there, or for it."""
        self._still = 0.0
        """Until when a process stands still."""

    def stands_still(self, until: float) -> None:
        """Nothing is done in time by a process that stands still, and a moment after that."""
        self._still = max(self._still, until)

    def _note_seats(self) -> None:
        coordinator = self._host().coordinator
        for preemption in () if coordinator is None else coordinator.reservations:
            held = dict.fromkeys((*preemption.seats.values(), *preemption.pods), self._time())
            self._held.update(held)

    def planned(self, uids: Collection[str], nodes: Collection[str]) -> None:
        """Seats are held from now on; whoever holds them may be killed before they are seen."""
        self._held.update(dict.fromkeys((*uids, *nodes), self._time()))

    def answered(
        self, uid: str, nodes: Collection[str], kept: Collection[str], *, acts: bool
    ) -> None:
        """A pod of no gang, with no seat in its way, gets its node list back unchanged.

        So does everybody where the extender does not act for anybody.
        """
        if len(kept) == len(nodes):
            return
        self._note_seats()
        pod, since = self._state.pods.get(uid), self._time() - HELD
        if pod is None or (pod.work.gang and acts) or self._held.get(uid, since) > since:
            return
        for node in sorted(set(nodes) - set(kept)):
            if self._held.get(node, since) <= since:
                self._broken("kept-off", f"{pod.name} is kept off {node}, where nobody has a seat")

    def smaller(self, node: str) -> bool:
        """Whether a node lacks room by no fault of ours: it, or who was there, has changed.

        Or a pod came there while its growth was news: its kubelet turns it away.
        """
        if node in self.shrunk or self._time() - self.came.get(node, -CAME) < CAME:
            return True
        pods = self._state.pods.values() if self.grown else ()
        here = [pod for pod in pods if pod.node == node and pod.uid in self.grown]
        return any(pod.bound - self.grown[pod.uid] < NEWS for pod in here)

    def hinder(self, until: float) -> None:
        """Excuse half a unit until then, at least."""
        self._hindered = max(self._hindered, until)

    def look(self) -> None:
        """Check what time alone can break."""
        self._note_seats()
        for node, free in self._state.free().items():
            if free < 0 and not self.smaller(node):
                self._broken("overcommit", f"{node} has {-free} CPU more in use than it has")
        host = self._host()
        coordinator, cache = host.coordinator, host.cache
        now = self._time()
        down = cache.stale_for() if cache is not None and cache.synced else 0.0
        if now < self._still + DOWN:
            self._idle.clear()
            self.hinder(self._still)
            return
        if down > DOWN and not self._faults.reading_failed(now - MEMORY, now):
            self._broken("stale", f"a watch is down for {down:.1f} s though the API is well")
        if coordinator is None or cache is None or not coordinator.recovered:
            self._idle.clear()
            self.hinder(now)
            return
        if coordinator.leadership.acts and coordinator.stale() is None:
            self._half_gone(now)
        else:
            self.hinder(now)
        seats = self._settings.seats
        if coordinator.readiness.behind() or not coordinator.leadership.acts:
            self._idle.clear()  # while a watch is down, or without the lease, no seat opens
        idle: dict[tuple[str, str], float] = {}
        for preemption in coordinator.reservations:
            key, state, since = str(preemption.key), preemption.state.value, preemption.since
            if state == "open":
                if now > preemption.deadline + SLACK:
                    self._broken("deadline", f"the seats of {key} are held beyond their deadline")
                continue
            going = (*preemption.plan.victims, *preemption.plan.waits_for)
            longest = max((victim.grace for victim in going), default=0)
            # Each eviction that is accepted is progress, and its answer may be slow.
            waiting = max(since, preemption.progress_at) + longest + seats.victim_slack_seconds
            if not preemption.victims and not preemption.waits:
                waiting += seats.bind_seconds  # more urgent pods may be on their way to the room
            if state == "waiting" and now > waiting + SLACK:
                self._broken("deadline", f"{key} waits for victims beyond its deadline")
            recorded = state != "planned"  # until its record is surely there a plan does nothing
            if (
                recorded
                and not coordinator.preconditions.crowded(preemption)
                and preemption.plan.victims
                and not any(cache.pod(victim.uid) for victim in going)
            ):
                at = (preemption.id, state)
                idle[at] = self._idle.get(at, now)
                # Another plan is searched for up to three times, and a search may be slow.
                if now - idle[at] > (4 * SLACK if state == "changing" else SLACK):
                    self._broken("closed", f"{state}: the victims of {key} are gone")
        self._idle = idle

    def _half_gone(self, now: float) -> None:
        """(a) No unit `all` stays half gone longer than something keeps the extender from it."""
        for unit in () if self.records_lost else self._units.values():
            pods = [self._state.pods[uid] for uid in unit.left]
            if unit.denied or any(pod.protected or self._faults.denies(pod.name) for pod in pods):
                continue
            if self._storage.get(BUDGET_KEY, unit.work.namespace, unit.work.name) is not None:
                continue
            if self._state.stays_for(unit):
                unit.since = now + RETRIED
                continue
            if now - max(unit.since, self._hindered) > PROMPT:
                names = ", ".join(sorted(pod.name for pod in pods))
                self._broken("half-gone", f"{unit.work.name} is half gone: {names} still there")
