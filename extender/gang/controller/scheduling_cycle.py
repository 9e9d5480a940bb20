"""One search at a time: the question, the search, the comparison of its answer, the seats.

Searching is serialised by a lock, so two gangs are never planned against the same free room;
the lock is held for nothing but the search and the comparison of its answer with the newest
state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from math import inf

import structlog
from msgspec.structs import replace

from extender.gang.booking.bookings import Bookings
from extender.gang.controller.executor import Executor
from extender.gang.controller.planner_thread import Overran
from extender.gang.controller.read_before_evictions import AnnouncedNodes, VolumeClaims
from extender.gang.controller.term import Readiness, Reading, Telling, Term
from extender.gang.controller.waiting import Version, can_be_planned
from extender.gang.core.preemption import Begun, End, GivesWay, drafted
from extender.gang.core.reservations import Preemption
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.fair_lock import FairLock
from extender.gang.plan.candidates import NOBODY, Candidates
from extender.gang.plan.fair_turns import Turn
from extender.gang.plan.lists import beside_nominations
from extender.gang.plan.question import GangQuestion, Masks, SeatsQuestion, both
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.plan.validity import NOT_COMPARED, gangs_of, present, unchanged
from extender.gang.tell.decisions import (
    SearchInput,
    Verb,
    of_plan,
    of_refusal,
)
from extender.groups.composite import keys_of
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.snapshot import EMPTY, Snapshot
from extender.model.texts import counted, some

log = structlog.get_logger("gang")

COMPARISONS = 3
"""How often a gang is searched for anew because the cluster changed meanwhile."""
MOST_AHEAD = 8
"""So many gangs that come before one are looked at again before it gets seats ..."""
AHEAD_SECONDS = 0.2
"""... and for so long at most: the verb of another gang waits for that."""
NEVER = (-1, -1, -1)
"""A version that is never the present one."""


class SchedulingCycle:
    """Takes a gang from a question to a plan under way, or to a refusal. One event loop only.

    Whether anything can be decided is asked before and after each search, which may have waited
    for others.
    """

    def __init__(
        self,
        term: Term,
        reading: Reading,
        telling: Telling,
        admission: Admission,
        executor: Executor,
        bookings: Bookings,
    ) -> None:
        self._reservations = reading.reservations
        self._readiness = reading.readiness
        self._source = term.source
        self._resolver = term.resolver
        self._evidence = reading.evidence
        self._waiting = reading.waiting
        self._clocks = term.clocks
        self._decisions = telling.decisions
        self._apart = telling.apart
        self._held_back = telling.hints.held_back
        self._gangs = reading.gangs
        self._pending_gangs = reading.pending_gangs
        self.lock = FairLock(admission)
        self._admission = admission
        self._claims = VolumeClaims(term.client)
        self._announced = AnnouncedNodes(term.client, term.settings.plan, term.clocks)
        self.planner_thread = executor.thread
        self._executor = executor
        self._victims = executor.plans.victims
        self._preconditions = executor.preconditions
        self._random = term.random
        self._bookings = bookings

    def version(self) -> Version:
        """Return what an answer rests on; another one when it may be another answer."""
        refusals = self._victims.refusals
        refusals.unevictable()  # some refusals may just have been forgotten
        beside = refusals.version + self._admission.stayed.version(self._clocks.monotonic())
        beside += self._evidence.version()
        return (self._source.generation, self._reservations.version, beside)

    # -- who wants to be planned ----------------------------------------------------------

    def waiting_turns(self) -> Iterator[Turn]:
        """Yield the turns of gangs that can be planned and have no standing answer."""
        yield from self.lock.waiters()
        look = partial(self.look, self._source.snapshot(), self.version())
        for key in self.pending_keys():
            # A gang that nobody would plan for, as it lacks members, wants no turn.
            yield from (turn for turn, _ in self._apart.each((key,), look))

    def pending_keys(self) -> list[GangKey]:
        """Return the gangs that kube-scheduler has no room for, and that are acted for."""
        keys = self._pending_gangs.keys()
        if not self._admission.chooses:
            return keys
        snapshot = self._source.snapshot()
        return [key for key in keys if self._admission.acts_for(key.namespace, snapshot)]

    def look(self, snapshot: Snapshot, version: Version, key: GangKey) -> tuple[Turn, Gang] | None:
        """Return the gang and its turn, if it can be planned and has neither a plan under way nor
        a refusal that stands."""
        answer = self._reservations.get(key) or self._waiting.kept(key, version)
        if answer is not None:
            return None
        gang = self._gangs.resolve(key, snapshot)
        return (self._admission.turn_of(gang), gang) if can_be_planned(gang) else None

    # -- one search -----------------------------------------------------------------------

    async def plan(
        self,
        key: GangKey,
        verb: Verb,
        offered: Masks | None,
        single: Gang | None,
        masks: Masks,
        before: Preemption | None = None,
        asked: float = inf,
        candidates: Candidates | None = None,
        *,
        ahead: bool = False,
    ) -> Preemption | Refusal:
        """Search, compare with the newest state, hold the seats. ``lock`` must be held.

        ``asked``: when kube-scheduler asked the question that ``offered`` is of, monotonic.
        ``before`` is the gang's plan that the new one takes the place of. ``candidates``: where
        ``single``, a gang of one made for a pod of no gang, may preempt. ``ahead``: those
        that come before it have been looked at.
        """
        first = before is None and single is None and not ahead
        for attempt in range(COMPARISONS):
            stale = self._readiness.stale()
            if stale is not None:
                return self._refuse(
                    Refusal(gang=key, code=Code.STALE, message=stale), NEVER, verb, 0.0
                )
            snapshot = self._preconditions.shown()
            version = self.version()
            gang = self._admission.ours(single or self._resolver.resolve(key, snapshot))
            waits = self._admission.left_alone(key, snapshot)
            waits = waits or (self._unseen(gang) if before else self._must_wait(gang, snapshot.now))
            if waits is not None:
                self._retry_run_out(waits, gang, snapshot, before)
                return self._refuse(waits, version, verb, 0.0, gang)
            began = self._clocks.monotonic()
            snapshot = self._evidence.beside(gang, snapshot)
            if before is not None and (nodes := before.evicted_from):
                snapshot = replace(snapshot, evicted_from=nodes)
            kept = self._kept(gang, snapshot)
            struck = both(self._struck(gang, snapshot, masks), kept)
            lists, held = self._lists(gang, offered, asked), self._reservations.holds()
            free = self._free(candidates)
            causes = {pod.namespace for pod in before.displaced_by} if before else frozenset()
            answer = await self._search(gang, snapshot, struck, lists, candidates, causes)
            overdue = before is not None and before.overdue
            if overdue and snapshot.evicted_from and isinstance(answer, Plan) and answer.victims:
                # Perhaps only to keep members apart of which it is not known if they fit together.
                snapshot = replace(snapshot, evicted_from=frozenset())
                answer = await self._search(gang, snapshot, struck, lists, candidates, causes)
            if overdue and isinstance(answer, Plan) and answer.victims:
                more = counted(len(answer.victims), "more pod")
                why = f"{more} would have to be evicted, because others do not terminate"
                # This ends the plan, and is no refusal of the gang that stands.
                return Refusal(gang=key, code=Code.CHANGED, message=why)
            if isinstance(answer, Plan):
                answer = self._admission.too_many_evictions(answer, gang, before) or answer
            if isinstance(answer, Plan):
                answer = await self._claims.refusal(answer, gang, snapshot) or answer
            if isinstance(answer, Plan) and before is None:
                answer = await self._awaited(answer, gang, snapshot)
            if isinstance(answer, Plan):
                answer = await self._conflict(answer, gang, snapshot) or answer
            seconds = self._clocks.monotonic() - began
            if isinstance(answer, Refusal):
                answer = _told_of_kept(answer, kept)
                # The list may be older than the snapshot: not a reason to stay with the answer.
                version = version if not offered else NEVER
                self._retry_run_out(answer, gang, snapshot, before)
                return self._refuse(answer, version, verb, seconds, gang)
            draft = self._draft(answer, before, snapshot, held)
            draft.candidates = candidates
            if first and await self._ahead_seated(gang, version):
                return await self.plan(key, verb, offered, single, masks, asked=asked, ahead=True)
            first = False
            why = self._readiness.stale() or await self._outdated(draft, gang, snapshot)
            if before is not None and before.over:
                why = "its plan ended while another one was searched for"
                return self._refuse(
                    Refusal(gang=key, code=Code.CHANGED, message=why), NEVER, verb, seconds
                )
            # Once: where something changes all the time the gang has its turn too.
            if not why and attempt == 0 and draft.victims:
                longer = self._lists(gang, offered, asked) != lists
                longer = longer or not self._free(candidates) <= free
                if longer or self._room_came(draft, snapshot, held):
                    continue
            if not why:
                return self._commit(draft, verb, seconds)
        refusal = Refusal(
            gang=key,
            code=Code.CHANGED,
            message=f"the cluster changes faster than it is read: {why}",
        )
        return self._refuse(refusal, NEVER, verb, seconds)

    def _draft(
        self, plan: Plan, before: Preemption | None, seen: Snapshot, held: Iterable[Hold]
    ) -> Preemption:
        plan_id = f"{self._random.getrandbits(48):012x}"
        now, shown = self._clocks.monotonic(), self._preconditions.shown()
        return drafted(plan, plan_id, now, shown, before, seen, held)

    async def _ahead_seated(self, gang: Gang, version: Version) -> bool:
        """Plan gangs as urgent that have waited longer, and more urgent ones, whose refusal is of
        another state; return whether one of them has a plan now.

        It may have been refused a moment ago, when a part of the room was free. One that does not
        fit keeps no room free: that is a booked start (docs/fairness.md).
        """
        began, found = self._clocks.monotonic(), False
        turn = self._admission.turn_of(gang)
        for key in self._waiting.ahead(turn, version, MOST_AHEAD, AHEAD_SECONDS):
            if (
                self._clocks.monotonic() - began >= AHEAD_SECONDS
                or self._readiness.stale() is not None
            ):
                break
            other = self._admission.ours(self._resolver.resolve(key, self._preconditions.shown()))
            if self._reservations.get(key) is None and can_be_planned(other):
                try:
                    answer = await self.plan(key, Verb.LOOP, None, None, {}, ahead=True)
                except NotReady:
                    raise
                except Exception:
                    # A mistake that this gang finds fails no other gang's plan.
                    log.exception("a gang ahead was not planned", gang=str(key))
                    continue
                found = found or isinstance(answer, Preemption)
        return found

    def _lists(self, gang: Gang, offered: Masks | None, asked: float) -> Masks | None:
        """Return what kube-scheduler offers, with what it may lack for no fault of the nodes."""
        lists = self._evidence.not_older(offered, asked)
        return beside_nominations(lists, gang.pending) if lists else lists

    def _struck(self, gang: Gang, snapshot: Snapshot, masks: Masks) -> Masks:
        return both(masks, self._evidence.masks(gang, snapshot.nodes, snapshot.in_the_way))

    def _kept(self, gang: Gang, snapshot: Snapshot) -> Masks:
        """Return, per member uid, the nodes that others' seats keep from it for volumes or devices:
        pods were evicted for these, and how many are left there is not known."""
        kinds = {pod.shape.limited for pod in gang.pending}
        limited, priority = self._reservations.limited_nodes, gang.preemptor_priority
        nodes = {kind: limited(gang.key, priority, kind, snapshot.nodes) for kind in kinds}
        found = {pod.uid: nodes[pod.shape.limited] for pod in gang.pending}
        return {uid: names for uid, names in found.items() if names}

    def _must_wait(self, gang: Gang, wall: float) -> Refusal | None:
        return (
            self._half_gone(gang)
            or self._promised(gang)
            or self._rolled_back(gang)
            or self._waiting.must_wait(gang, wall)
            or self._admission.must_wait(gang, self.waiting_turns())
            or self._unseen(gang)
        )

    def _half_gone(self, gang: Gang) -> Refusal | None:
        """Members that must still go would be counted as its own: it would run in part."""
        keys = {key for pod in gang.members for key in keys_of(gang.key, pod)}
        names = map(str, keys | {gang.key})
        if not any(map(self._victims.owes, names)):
            return None
        return Refusal(
            gang=gang.key,
            code=Code.SETTLING,
            message="part of this gang was preempted by a more urgent gang and the rest is still "
            "being evicted; the gang is planned again after that",
        )

    def _promised(self, gang: Gang) -> Refusal | None:
        """A member whose eviction is planned and not sent yet would be counted as its own too."""
        counted_on = gang.missing or gang.goes_whole
        seated = {pod.uid: pod.name for pod in gang.seated} if counted_on else {}
        for preemption in self._reservations if seated else ():
            going = [seated[uid] for uid in preemption.victims if uid in seated]
            if going and preemption.key != gang.key:
                message = (
                    f"{min(going)} is being evicted for the more urgent {preemption.key}; "
                    "the gang is planned again after that"
                )
                return Refusal(gang=gang.key, code=Code.SETTLING, message=message)
        return None

    async def _conflict(self, plan: Plan, gang: Gang, snapshot: Snapshot) -> Refusal | None:
        """Return why the plan has to wait for other plans: for their victims, while those do not
        terminate, or for members that need a victim of this one beside them."""
        own = {plan.gang, *plan.takes_over}
        others = [each for each in self._reservations if each.key not in own]
        victims = [victim for each in others for victim in each.victims.values()]
        seated = [
            (self._admission.ours(self._resolver.resolve(each.key, snapshot)), each.seats)
            for each in others
            if any(pod.shape.affinity for pod in each.pods.values())
        ]
        if not plan.victims or not (victims or seated):
            return None
        holds = self._holds_but(own)
        try:
            why = await self.planner_thread.ask(
                lambda planner: planner.conflict(plan, gang, victims, seated, snapshot, holds)
            )
        except Overran:
            why = "it could not be compared with that"
        if not why:
            return None
        message = f"pods are being evicted for other gangs; the gang is planned after that: {why}"
        return Refusal(gang=plan.gang, code=Code.SETTLING, message=message)

    async def _awaited(self, plan: Plan, gang: Gang, snapshot: Snapshot) -> Plan | Refusal:
        """As AnnouncedNodes.awaited. It counts as planning: a tenant can make events many."""
        began = self._clocks.monotonic()
        try:
            return await self._announced.awaited(plan, gang, snapshot)
        finally:
            self._admission.searched(gang, self._clocks.monotonic() - began)

    def _rolled_back(self, gang: Gang) -> Refusal | None:
        if not self._waiting.rolled_back(gang.key):
            return None
        message = "it was bound in part, and its bound members are deleted first (seats.rollback)"
        return Refusal(gang=gang.key, code=Code.SETTLING, message=message)

    def _unseen(self, gang: Gang) -> Refusal | None:
        pod = self._evidence.unseen(gang)
        if pod is None or gang.problems or not gang.complete:
            return None
        kinds = ", ".join(pod.shape.unmodelled)
        return Refusal(
            gang=gang.key,
            code=Code.UNSEEN,
            message=f"{pod.name} uses {kinds}, and kube-scheduler has named no node for it lately: "
            "none may accept it, also with pods of lower priority evicted",
        )

    def _retry_run_out(
        self, refusal: Refusal, gang: Gang, snapshot: Snapshot, before: Preemption | None
    ) -> None:
        """Have members tried again for which no node counts any more that kube-scheduler has named,
        where that may be why the gang is refused. One that has a seat is tried on it in any case.
        """
        if before is None and refusal.code in (Code.UNSEEN, Code.INFEASIBLE):
            self._held_back.retry(self._evidence.run_out(gang, snapshot))

    def _free(self, candidates: Candidates | None) -> frozenset[str]:
        """Return nodes that may have room for a pod of no gang though kube-scheduler did not name
        them: it has come since, or it was our word that kept the pod off."""
        if candidates is None:
            return frozenset()
        return self._evidence.freed_since(candidates.asked) | self._reservations.nodes()

    async def _search(
        self,
        gang: Gang,
        snapshot: Snapshot,
        masks: Masks,
        offered: Masks | None,
        candidates: Candidates | None,
        causes: Collection[str],
    ) -> Plan | Refusal:
        if candidates is None:
            return await self.search(gang, snapshot, masks, offered, causes)
        return await self._search_single(gang, snapshot, masks, candidates, causes)

    async def ask_single(self, single: Gang, candidates: Candidates) -> Plan | Refusal:
        """Return what would be planned for a pod of no gang. ``lock`` must be held."""
        free = self._free(candidates)
        snapshot = self._evidence.beside(single, self._preconditions.shown())
        answer = await self._search_single(
            single, snapshot, self._kept(single, snapshot), candidates
        )
        # As in ``plan``: its victims might be spared by what has come to be free during the search.
        if isinstance(answer, Plan) and answer.victims and not self._free(candidates) <= free:
            snapshot = self._evidence.beside(single, self._preconditions.shown())
            answer = await self._search_single(
                single, snapshot, self._kept(single, snapshot), candidates
            )
        return answer

    async def _search_single(
        self,
        gang: Gang,
        snapshot: Snapshot,
        masks: Masks,
        candidates: Candidates,
        causes: Collection[str] = (),
    ) -> Plan | Refusal:
        free = self._free(candidates)
        known = candidates.masks(gang, snapshot, masks, free)
        answer = await self.search(gang, snapshot, known, None, causes)
        if isinstance(answer, Refusal) or candidates.allow(answer):
            return answer
        masks = candidates.masks(gang, snapshot, masks)
        return await self.search(gang, snapshot, masks, None, causes)

    async def search(
        self,
        gang: Gang,
        snapshot: Snapshot,
        masks: Masks,
        offered: Masks | None,
        causes: Collection[str] = (),
    ) -> Plan | Refusal:
        """Ask the planner, and remember the question. ``lock`` must be held.

        ``causes``: the namespaces that have made it necessary, where that is not the gang's.
        """
        snapshot = self._admission.counted_on(gang, snapshot)
        holds = (*self._reservations.holds(), *self._bookings.holds_against(gang, snapshot))
        self._decisions.decisions.searched(
            SearchInput(gang.key, snapshot, holds, masks, dict(offered or {}))
        )
        began = self._clocks.monotonic()
        try:
            await self._take_in(snapshot)
            began = self._clocks.monotonic()
            answer = await self.planner_thread.plan(gang, snapshot, holds, masks, offered)
            if isinstance(answer, Refusal) and (words := self._evidence.refused_words(gang)):
                why = f"{answer.message}; kube-scheduler's own filters refused {some(words)}"
                answer = replace(answer, message=why)
            return answer
        except Overran:
            return self._admission.overran(gang, self._clocks.monotonic() - began)
        except Exception:
            self._waiting.failed(gang.key)  # it would fail again: others have their turn meanwhile
            raise
        finally:
            self._admission.searched(gang, self._clocks.monotonic() - began, causes)

    async def _take_in(self, snapshot: Snapshot) -> None:
        """Show the planner the cluster: no gang is charged for what others have made of it."""
        self._admission.took_in(await self.planner_thread.take_in(snapshot))

    async def supposing(self, question: GangQuestion) -> Plan | Refusal:
        """Ask the planner about a cluster that is not quite so, in the gang's own turn.

        Raises Overran: that a harder question took too long says nothing of the gang itself.
        """
        gang = question.gang
        snapshot = self._evidence.beside(gang, question.snapshot)
        async with self.lock.turn(lambda: self._admission.turn_of(gang)):
            await self._take_in(snapshot)
            began = self._clocks.monotonic()
            masks = self._struck(gang, snapshot, {})
            try:
                return await self.planner_thread.plan(gang, snapshot, question.holds, masks, None)
            finally:
                self._admission.searched(gang, self._clocks.monotonic() - began)

    async def _outdated(self, draft: Preemption, gang: Gang, snapshot: Snapshot) -> str:
        """Return why a plan made on ``snapshot`` does not hold now, "" when it does."""
        newest = self._preconditions.shown()
        plan = draft.plan
        if not unchanged(plan, gang, snapshot, newest):
            present = self._gang_now(gang, newest)
            going = (*draft.victims.values(), *draft.waits.values())
            holds = self._holds_but({*plan.takes_over, gang.key})
            asked = SeatsQuestion(present, draft.seats, newest, going, holds)
            why = await self.planner_thread.check(asked)
            if why != "":
                return NOT_COMPARED if why is None else why
        if draft.victims and self._volumes_changed(draft, gang, snapshot, newest):
            return "other pods have to be evicted for its volumes"
        for key in self._spared_gangs(draft, newest):
            # The surplus was counted with a victim of another plan that has terminated since.
            resolve = self._resolver.resolve
            if resolve(key, newest).surplus < resolve(key, snapshot).surplus:
                return f"{key} can spare fewer pods"
        return self._takes_from_binding(draft) or self._preconditions.problem(draft)

    def _spared_gangs(self, draft: Preemption, snapshot: Snapshot) -> set[GangKey]:
        """Return the gangs that lose pods one by one."""
        alone = [each for each in draft.victims.values() if each.gang and not each.unit]
        pods = [pod for each in alone if (pod := present(each, snapshot)) is not None]
        return {key for pod in pods if (key := self._resolver.member_key(pod)) is not None}

    def _holds_but(self, own: AbstractSet[GangKey]) -> list[Hold]:
        """Return the reserved places of all gangs but these."""
        return [hold for hold in self._reservations.holds() if hold.gang not in own]

    def _volumes_changed(
        self, draft: Preemption, gang: Gang, snapshot: Snapshot, newest: Snapshot
    ) -> bool:
        """Whether other pods have to go for the volumes of members on their nodes by now."""
        before, now = snapshot.in_the_way, self._evidence.in_the_way(gang, newest)
        return any(
            before.get(uid, EMPTY).get(node) != now.get(uid, EMPTY).get(node)
            for uid, node in draft.seats.items()
        )

    def _room_came(self, draft: Preemption, snapshot: Snapshot, held: list[Hold]) -> bool:
        """Whether its victims might be spared by what is free since ``snapshot``, when these seats
        were held."""
        taken = {*draft.plan.takes_over, draft.key}
        return bool(self._preconditions.room_came(draft, snapshot, held, taken))

    def _gang_now(self, gang: Gang, snapshot: Snapshot) -> Gang:
        """Return the gang as it is in a newer snapshot."""
        if gang.key.dialect != SINGLE:
            return self._resolver.resolve(gang.key, snapshot)
        uid = gang.members[0].uid
        return single_gang(snapshot.pending[uid]) if uid in snapshot.pending else gang

    def _takes_from_binding(self, draft: Preemption) -> str:
        """Seats and members of a gang that is being seated are left alone until it sits."""
        broken = self._broken(draft.plan)
        for other in self._reservations:
            wanted = other.key in draft.plan.takes_over or str(other.key) in broken
            if wanted and other.binding and other.key != draft.key:
                return f"the members of {other.key} are being bound"
        return ""

    def _broken(self, plan: Plan) -> set[str]:
        return gangs_of(plan.victims, self._source.snapshot(), self._resolver.member_key)

    def _commit(self, draft: Preemption, verb: Verb, seconds: float) -> Preemption:
        """Hold the seats; from here on the preemption goes on by itself."""
        plan = draft.plan
        broken, replaces = self._broken(plan), ""
        for other in self._reservations:
            if other.key == draft.key:
                replaces = f"takes the place of a plan that was changed: {other.changed_for}"
                self._admission.replaced(other)
                self._executor.feed(GivesWay(other, draft))
                continue
            other.yields = other.key in plan.takes_over or str(other.key) in broken
            if other.key in plan.takes_over:
                why = f"its seats are taken over by the more urgent {plan.gang}"
                self._executor.feed(End(other, why))
            elif str(other.key) in broken:
                why = f"its members are evicted for the more urgent {plan.gang}"
                self._executor.feed(End(other, why))
        self._waiting.planned(plan.gang)
        decision = of_plan(plan, time=self._clocks.wall(), verb=verb, seconds=seconds)
        if replaces:
            decision = replace(decision, explanation=(replaces, *decision.explanation))
        self._decisions.decide(decision)
        self._executor.feed(Begun(draft))
        return draft

    def _refuse(
        self,
        refusal: Refusal,
        version: Version,
        verb: Verb,
        seconds: float,
        gang: Gang | None = None,
    ) -> Refusal:
        turn = None if gang is None else self._admission.turn_of(gang)
        self._waiting.refuse(refusal, version, seconds, self._clocks.wall(), turn)
        self._decisions.decide(
            of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds)
        )
        return refusal


def _told_of_kept(refusal: Refusal, kept: Masks) -> Refusal:
    """Name what other gangs' seats keep from the gang beside their requests (``_kept``)."""
    if refusal.code is not Code.INFEASIBLE or not kept:
        return refusal
    nodes = counted(len(frozenset().union(*kept.values())), "node", "is", "are")
    why = f"{nodes} held for other gangs whose members need volumes or devices too"
    return replace(refusal, message=f"{refusal.message}; {why}")


ANSWERED_SECONDS = 3.0
"""How long members that were given their seat are waited for before a plan is changed."""
LOOK_SECONDS = 0.1
MOST_DISPLACED = 3
"""How often a plan is changed because of pods that came to its seats without an offer. They cost
the gang none of its own changes, and each time they are victims like others."""


class Replanning:
    """Searches for another plan in the place of one that does not hold any more, ``max_replans``
    times each.

    ``posting(preemption)``: bindings of its members are on their way to the API server.
    """

    def __init__(
        self,
        executor: Executor,
        turns: SchedulingCycle,
        max_replans: int,
        readiness: Readiness,
        posting: Callable[[Preemption], bool],
    ) -> None:
        self._executor = executor
        self._reservations = executor.plans.reservations
        self._turns = turns
        self._max_replans = max_replans
        self._readiness = readiness
        self._posting = posting

    async def search_again(self, preemption: Preemption, why: str, masks: Masks) -> None:
        """Put another plan in its place, or end it, as soon as that can be told."""
        await self._answered_sit(preemption)
        while not preemption.over:
            # On an old picture nothing is decided, also when it got old in the queue.
            if self._readiness.stale() is not None or not await self._changed(
                preemption, why, masks
            ):
                await asyncio.sleep(LOOK_SECONDS)

    async def _changed(self, preemption: Preemption, why: str, masks: Masks) -> bool:
        """Put another plan in its place, or end it; False when it is to be searched for again."""
        async with self._turns.lock.turn(None):
            if preemption.over:
                return True
            times, most = preemption.replans, self._max_replans
            if preemption.displaced_by:
                times, most = preemption.displacements, MOST_DISPLACED
            if times >= most:
                why += f", and the plan was changed {counted(times, 'time')} for that already"
                self._executor.feed(End(preemption, why, penal=True))
                return True
            single, candidates = None, preemption.candidates
            if preemption.key.dialect == SINGLE:
                single = single_gang(next(iter(preemption.pods.values())))
                # Of a life before: it is asked anew, and no pod is evicted meanwhile.
                candidates = candidates or Candidates(NOBODY, -inf)
            stay = preemption.victims.keys() | preemption.waits.keys()
            try:
                result = await self._turns.plan(
                    preemption.key,
                    Verb.LOOP,
                    None,
                    single,
                    masks,
                    preemption,
                    candidates=candidates,
                )
            except Exception:
                self._executor.feed(End(preemption, f"{why}; the search failed", penal=True))
                raise
            if isinstance(result, Refusal):
                # What stayed was counted as there, and some of it has gone during the search.
                went = stay - preemption.victims.keys() - preemption.waits.keys()
                if result.code is Code.STALE or (went and preemption.overdue):
                    return False
                why += f", and there is no other plan: {result.message}"
                known = candidates is preemption.candidates
                if not known:
                    why += "; it is not known where kube-scheduler would have it preempt"
                # A gang that is whole, or gone, needs no penalty; one that cannot fit waits.
                penal = known and result.code in (Code.INFEASIBLE, Code.CHANGED)
                penal = penal or preemption.overdue
                self._executor.feed(End(preemption, why, penal=penal))
        return True

    async def _answered_sit(self, preemption: Preemption) -> None:
        """Wait a moment for members that were given a seat: they are bound there, or ask again."""
        while self._posting(preemption):  # noqa: ASYNC110 - bounded by bind.postSeconds
            await asyncio.sleep(LOOK_SECONDS)
        for _ in range(round(ANSWERED_SECONDS / LOOK_SECONDS)):
            if not (preemption.answered or preemption.presumed) or preemption.over:
                return
            await asyncio.sleep(LOOK_SECONDS)
        self._reservations.not_coming(preemption, preemption.answered)
