"""What must hold after every step: checked at each request of the extender, and every second."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from extender.kube.api_errors import ApiError
from extender.sandbox.storage import DELETED, Storage, StorageChange
from extender.settings.settings import Settings
from tests.simulation.binding_checks import BindingChecks
from tests.simulation.broken import Unit, Violation
from tests.simulation.budgeting import BudgetChecks
from tests.simulation.client import Listener, Request
from tests.simulation.could_run import CouldRun
from tests.simulation.enforcing_checks import EnforcingChecks
from tests.simulation.faults import Fate, Faults
from tests.simulation.host import Host
from tests.simulation.in_flight import PlansInPreemption, unit_of
from tests.simulation.lease_checks import LeaseChecks
from tests.simulation.objects import MAP_KEY, PLAN, PROTECTED, Work
from tests.simulation.priority_checks import PriorityChecks
from tests.simulation.replicas import Replicas
from tests.simulation.standing_checks import StandingChecks
from tests.simulation.state import Seen, State
from tests.simulation.story import Story

GANG = "podgroup-extender.io/gang"
AFTERWARDS = 75.0
"""How long a request that fared badly may excuse that a unit is not finished: the client's 30 s
without an answer, the 30 s until what was refused is asked for again, and some."""
NEWS = 2.0
"""What happened this long ago at the latest is known to us."""
BLINK = 0.5
"""Seconds by which a picture may be older than it is allowed to be, and nothing is said."""
OFFERED = 10.0
"""Seconds for which a pod may still be on its way to a node it was offered."""


class Checks(Listener):
    """Watches every request of the extender. Violations are raised by ``problem``."""

    def __init__(
        self,
        state: State,
        storage: Storage,
        host: Callable[[], Host | Replicas],
        faults: Faults,
        settings: Settings,
        story: Story,
        time: Callable[[], float],
    ) -> None:
        self.problem: Violation | None = None
        self._taken: dict[str, list[tuple[float, int]]] = {}
        """Work -> when pods of it went by our hand, and for plans of which priority."""
        self.units: dict[str, Unit] = {}
        self.moment: Callable[[str], None] = lambda name: None
        """Is told of the moments that happenings may follow."""
        self.warned: set[str] = set()
        """Uids of pods on which a Warning was recorded."""
        self.hands_off = True
        """Nobody has deleted plan records by hand."""
        self.spoilt: set[str] = set()
        """Names of plan records that somebody has written nonsense into: they are kept aside."""
        self.offered: dict[str, tuple[float, set[str]]] = {}
        """Pod uid -> when it was last answered nodes, and which."""
        self.binds_fail = False
        self.sparing = False
        """Nodes are refused for reasons of kube-scheduler's own."""
        self.ours: set[str] = set()
        """Uids that our requests have set going."""
        self.nominated: dict[str, str] = {}
        """Pod name -> node that we have nominated it to."""
        self._state = state
        self._storage = storage
        self._host = host
        self._faults = faults
        self._settings = settings
        self._story = story
        self._time = time
        self._preemptions = PlansInPreemption(host)
        self._priorities = PriorityChecks(state, lambda: host().cache)
        self._budgets = BudgetChecks(storage, self.broken, time)
        self.enforcing = EnforcingChecks(host, settings, self._preemptions, self.broken, time)
        self._could_run = CouldRun(state, lambda: host().cache)
        self._restoring = self._put_back = False
        self._judged: set[int] = set()
        """Ids of the plans whose first eviction was judged."""
        self._raced: set[str] = set()
        """Works of which a pod was taken by others while it was asked for, and the request was
        accepted: the answer does not tell that the pod was going already, so it counts as gone by
        our hand."""
        self._plans: list[Any] = []
        self._granted: dict[str, int] = {}
        """Uid -> priority of the plan for which its eviction was rightly sent."""
        self._preemptors: dict[str, str] = {}
        """Uid -> the work that plan is for."""
        self._alone: set[str] = set()
        """Uids of pods that were asked for while their PodGroup was known not to exist."""
        self._begun: dict[str, int] = {}
        """Uid -> the same of a member of a unit of which others have gone by our hand."""
        self._mates: dict[str, tuple[int, set[str]]] = {}
        """Uid of a pod that was rightly asked for -> its plan's priority, and whom that plan takes
        as one unit with it."""
        self._finished: dict[str, int] = {}
        """Uid -> priority of the plan that took it as one unit with a pod that went by our hand."""
        self._asked: dict[tuple[int, str], float] = {}
        """Number and pod of a request -> when it was sent."""
        self._let_stay: dict[str, float] = {}
        """Uid of who was left of a unit that others have made whole again -> since when."""
        self.lease = LeaseChecks(storage, self.broken, time)
        self._bindings = BindingChecks(state, host, self.lease, self.broken, time)
        self.standing = StandingChecks(
            state, storage, host, faults, settings, self.units, self.broken, time
        )
        storage.observe(self._see)

    def broken(self, rule: str, text: str) -> None:
        """Note a violation; the first one counts."""
        self._story.tell("BROKEN", f"{rule}: {text}")
        if self.problem is None:
            self.problem = Violation(f"{rule}: {text}")

    def before_restore(self) -> None:
        """The storage is about to be put back: nobody has gone by our hand then."""
        self._restoring = True
        self.ours.clear()
        self.nominated.clear()

    def restored(self, until: float) -> None:
        """The storage was put back, and answers again ``until`` then."""
        self._restoring, self._put_back = False, True
        self.hands_off = False  # the records of plans under way are lost
        for each in (self.units, self._taken, self._begun, self._mates, self._finished):
            each.clear()
        self._raced.clear()
        self.standing.hinder(until)

    def denies(self, pod: str) -> bool:
        """Return whether evictions of the pod are refused for good."""
        return self._faults.denies(pod)

    # -- requests ---------------------------------------------------------------------------

    def sent(self, request: Request, fate: Fate) -> None:
        """See Listener."""
        if request.method == "GET":
            self.standing.hinder(self._time() + bool(fate.kind) * AFTERWARDS)
            return
        self.enforcing.sent(request)
        self._budgets.sent(request)
        path, dry = request.path, request.dry
        if fate.kind:
            self.standing.hinder(self._time() + AFTERWARDS)
        if path.endswith("/events"):
            body = request.body
            if body.get("type") == "Warning":
                self.warned.add(body["involvedObject"].get("uid", ""))
            self._story.tell("event", body["reason"], body["involvedObject"].get("name"))
            return
        self._story.tell("sends", request.number, request.method, path, *_facts(request, fate))
        if "/configmaps" in path:
            self.moment("record" if request.method != "DELETE" else "drop")
        elif request.evicts:
            if dry:
                self.moment("rehearsed")
                return
            self._asked[request.number, request.uid] = self._time()
            self._judge(request)
            self.moment("evict")
        elif path.endswith("/binding"):
            if not dry:
                self._bindings.judge(request)
        elif request.method == "PATCH" and not path.endswith("/status"):
            self.moment("wake")

    def arrives(self, request: Request) -> None:
        """See Listener."""
        pods = "/pods/" in request.path
        if pods and request.method == "PATCH" and request.path.endswith("/status"):
            status = (request.body or {}).get("status") or {}
            self.nominated[request.pod_name] = status.get("nominatedNodeName") or ""
        if not request.evicts or request.dry:
            return
        pod = self._state.pods.get(request.uid)
        if pod is not None and pod.going:
            self._raced.add(pod.work.name)
        if pod is not None and not pod.going and pod.name == request.pod_name:
            self.ours.add(pod.uid)
            priority, mates = self._mates.get(pod.uid, (0, set()))
            self._finished.update(dict.fromkeys(mates, priority))
            work = pod.work
            # What was sent before that is of the unit that was, and who came since is not.
            sent = self._asked.get((request.number, pod.uid), inf)
            of_old = sent < self._let_stay.get(pod.uid, 0.0)
            alone = pod.uid in self._alone
            if work.gang and work.whole and pod.node and not of_old and not alone:
                self._begin(work, pod)

    def answered(self, request: Request, fate: Fate, result: object) -> None:
        """See Listener."""
        failed = isinstance(result, ApiError)
        if request.method != "GET" and not request.path.endswith("/events"):
            self._story.tell(
                "does", request.number, result.status if isinstance(result, ApiError) else "ok"
            )
        if request.evicts and not request.dry:
            pod = self._state.pods.get(request.uid)
            if pod is not None and not pod.going:
                self.ours.discard(pod.uid)
            if failed and pod is not None and pod.going and request.budgeted:
                self._raced.add(pod.work.name)
            if failed:
                self._refused(request.uid)
            else:
                self.moment("evicted")
        elif "/configmaps" in request.path and not failed and request.method in ("POST", "PUT"):
            self.moment("recorded")
        self._finish()

    def _refused(self, uid: str) -> None:
        """An eviction was answered with an error: a unit of which nobody has gone is not begun."""
        for name, unit in list(self.units.items()):
            unit.denied |= uid in unit.left
            pods = [self._state.pods.get(each) for each in unit.had]
            if uid in unit.left and all(pod is not None and pod.runs for pod in pods):
                del self.units[name]

    def _begin(self, work: Work, pod: Seen) -> None:
        now = self._time()
        # What goes with a unit that was begun is rightly asked for, and not granted by itself.
        priority = max(self._granted.get(pod.uid, 0), self._begun.get(pod.uid, 0))
        self._taken.setdefault(work.name, []).append((now, priority))
        if work.name in self.units:
            return
        staying = [other for other in self._state.of_work(work.name) if not other.going]
        running = [other for other in staying if other.node]
        had = {other.uid for other in running}
        quorum = len(staying) if work.quorum and work.sizeless else work.quorum
        if len(had) < quorum:
            return  # it has lost its quorum already: its members are single pods by then
        self._begun |= {uid: max(priority, self._begun.get(uid, 0)) for uid in had}
        # Who was bound just now may not have been known to us: the others may be single pods too.
        left = {other.uid for other in running if now - other.bound > NEWS}
        preemptor = self._preemptors.get(pod.uid, "")
        if len(left) < quorum:
            return
        self.units[work.name] = Unit(work, now, priority, preemptor, left, had)

    def _finish(self) -> None:
        """Close the units of which nobody is left."""
        for name, unit in list(self.units.items()):
            unit.left = {
                uid for uid in unit.left if uid in self._state.pods and self._state.pods[uid].runs
            }
            if not unit.left or self._whole_again(unit):
                self._let_stay |= dict.fromkeys(unit.left, self._time())
                del self.units[name]

    def _whole_again(self, unit: Unit) -> bool:
        """Whether others have come in the place of those who went: what is left may stay."""
        work = unit.work
        running = {pod.uid for pod in self._state.of_work(work.name) if pod.runs}
        enough = work.quorum if work.quorum and not work.sizeless else len(unit.had)
        return len(running) >= enough and not running <= unit.had

    # -- each eviction ----------------------------------------------------------------------

    def _rolled_back(self, pod: Seen) -> bool:
        """Whether its gang runs in part and such members are to go (docs/barrier.md)."""
        running = sum(each.runs for each in self._state.of_work(pod.work.name))
        deletes = self._settings.seats.rollback == "delete"
        return deletes and 0 < running < pod.work.quorum

    def _judge(self, request: Request) -> None:
        """Check one real eviction at the moment it is sent."""
        name, uid = request.pod_name, request.uid
        host = self._host()
        if isinstance(host, Replicas):
            self.lease.evicts(host, name, uid)
        cache = host.cache
        pod = self._state.pods.get(uid)
        known = cache.pod(uid) if cache is not None else None
        blind = request.age > self._settings.cache.stale_seconds + BLINK
        if pod is None or known is None or known.deleting:
            # Gone, or going already: nothing is lost by asking, but by a picture of before.
            if pod is None and blind and not self._preemptions.owed(uid, -1, doubtful=False):
                self.broken("blind", f"{name} is not there and {request.age:.1f} s were not shown")
            return
        if self._priorities.alone(pod):
            self._alone.add(uid)
        if self._rolled_back(pod):
            return
        started = uid in self._begun
        plans = self._preemptions.naming(uid)
        rank = self._priorities.of_victim(pod)
        allowed = any(plan.priority > rank for plan in plans)
        if allowed:
            first = max(plans, key=lambda plan: plan.priority)
            self._granted[uid] = first.priority
            self._preemptors[uid] = first.gang.name
            self._mates[uid] = (first.priority, unit_of(first, uid))
        # Who went while nobody looked, or where it cannot be told by whose hand (an answer was
        # unclear, or is of the Eviction API), counts as gone by ours: docs/actuation.md.
        # What went before the storage was put back is known to it alone.
        sure = self._host().lives == 1 and not self._put_back and pod.work.name not in self._raced
        owed = self._preemptions.owed(uid, rank, doubtful=sure)
        owed |= self._joined(pod)
        # A unit that a plan has begun is finished whatever becomes of the plan, though its gang
        # may have lost its quorum to somebody else before the first of it went.
        begun = max(self._begun.get(uid, 0), self._finished.get(uid, 0))
        if not allowed and not owed and begun <= rank:
            whose = ", ".join(f"{plan.gang} at {plan.priority}" for plan in plans) or "no plan"
            self.broken("priority", f"{name} at {rank} is evicted for {whose}")
        if not started and known.annotations.get(PROTECTED) == "true":
            self.broken("protected", f"{name} is protected and evicted")
        self.enforcing.evicts(name, begun=started or owed)
        if started:
            return
        if blind and not self._preemptions.owed(uid, -1, doubtful=False):
            self.broken("blind", f"{name} is evicted, and {request.age:.1f} s were not shown")
        if self.hands_off and not self._records():
            self.broken("unrecorded", f"{name} is evicted and no plan record exists")
        if self._preemptions.owed(uid, rank, doubtful=sure):
            return  # docs/actuation.md: it goes with its unit, whatever has become of the plan
        asking = self._preemptions.asking(uid)
        for plan in plans:
            if id(plan) not in asking:
                continue  # it shares a unit with one that evicts, and has sent nothing yet
            if id(plan) not in self._judged and any(v.uid == uid for v in plan.victims):
                self._judged.add(id(plan))
                self._plans.append(plan)
                why = self._priorities.overrated(plan)
                if why:
                    self.broken("overrated", f"{name} is evicted at {plan.priority}, and {why}")
                why = self._could_run(plan)
                if why:
                    self.broken("vain", f"the plan for {plan.gang} evicts, and {why}")
                others = self._preemptions.beside(plan)
                why = self._could_run.seats_clash(plan, others)
                if why:
                    self.broken("clash", f"the plan for {plan.gang} evicts, and {why}")
                now = self._time()
                offered = {u: n for u, (at, n) in self.offered.items() if now - at < OFFERED}
                spares = self.sparing and self._preemptions.may_spare(plan) and not self.binds_fail
                # Whether room has come by our own hand is not known before that is answered.
                spares = spares and not self._preemptions.asks_for_another(plan, uid)
                if spares and self._could_run.needless(plan, others, offered):
                    self.broken("needless", f"{plan.gang} has room without evicting {name}")

    def _joined(self, pod: Seen) -> bool:
        """Whether it was on its way to a node when its unit went, as far as is known by then: it
        goes with the rest."""
        return pod.work.whole and any(
            priority > pod.priority and pod.made < taken <= pod.bound + NEWS
            for taken, priority in self._taken.get(pod.work.name, ())
        )

    def _records(self) -> list[Any]:
        return [
            item
            for item in self._storage.all(MAP_KEY)
            if PLAN in (item["metadata"].get("labels") or {})
        ]

    # -- every second, and records ----------------------------------------------------------

    def look(self) -> None:
        """Check what time alone can break."""
        self._finish()
        self.enforcing.look()
        if not self.enforcing.acts:
            self.standing.hinder(self._time())
        self.standing.look()

    def _see(self, change: StorageChange) -> None:
        if change.resource != MAP_KEY or change.type != DELETED or not self.hands_off:
            return
        if self._restoring:
            return
        coordinator = self._host().coordinator
        gang = (change.new["metadata"].get("annotations") or {}).get(GANG)
        if coordinator is None or gang is None:
            return
        for preemption in coordinator.reservations:
            ours = any(victim.uid in self.ours for victim in preemption.plan.victims)
            others = [
                item
                for item in self._records()
                if (item["metadata"].get("annotations") or {}).get(GANG) == gang
            ]
            owed = any(unit.left for unit in self.units.values())
            if preemption.recorded and str(preemption.key) == gang and ours and owed and not others:
                self.broken("record", f"the record of {gang} is deleted while it evicts")


def _facts(request: Request, fate: Fate) -> list[str]:
    facts = []
    if request.dry:
        facts.append("(dry)")
    if fate.kind:
        facts.append(f"({fate.kind})")
    return facts
