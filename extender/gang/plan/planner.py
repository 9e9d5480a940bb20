"""One question, asked by both verbs, the controller loop and the command line:
which seats and which victims for this gang, on this snapshot?

Steps
1. Refuse what needs no search: problems, an incomplete gang.
2. Build the problem from the snapshot and the other gangs' seats.
3. Search.
4. Turn the solution back into seats and victims.
5. Prove it on the predicates: with the victims gone and all seats taken, every
   member passes every rule on its node. A seat that fails is struck out for its
   class and the search runs again; such a plan is called optimal only if it costs no
   more than the first answer had to. No pod goes for seats that do not hold in every
   order of binding (extender.gang.plan.seating_order). Where topology spread counts
   pods that may go themselves, it is first decided which of them do
   (extender.gang.plan.answers).

Nothing here acts, and nothing here reads a clock: equal input, equal plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import count
from math import ceil, inf
from typing import TypeVar

from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.victims import VictimUnit, lost_gpu_seconds
from extender.gang.plan.answers import Answers
from extender.gang.plan.budgets import budget_use
from extender.gang.plan.build import NO_RESTRICTIONS, Build, Restrictions
from extender.gang.plan.built import Built
from extender.gang.plan.changes import NONE, HelpfulChanges, TriedChanges
from extender.gang.plan.cheaper import Again, easiest_to_spare
from extender.gang.plan.devices import (
    beside_devices,
    devices_meet,
    seats_devices,
    told_of_devices,
    unconfirmed,
    where_counted,
)
from extender.gang.plan.explain import MOST_LINE, Refused, explain_plan, explain_refusal, with_wish
from extender.gang.plan.followers import with_followers
from extender.gang.plan.nominated import nominated_seats
from extender.gang.plan.question import GangQuestion, Masks, SeatsQuestion
from extender.gang.plan.quorum_words import members_there
from extender.gang.plan.schedulers import NO_ASKER, seated_by
from extender.gang.plan.seating_order import Failed
from extender.gang.plan.trial import (
    Trial,
    ending_beside,
    failures,
    members_beside,
    needed_beside,
    resting_on_chance,
    view_after,
)
from extender.gang.plan.validity import ending_problem, present
from extender.gang.plan.victim_reasons import Reason, victim_reasons
from extender.gang.plan.volumes import beside_volumes, told_of_volumes, volumes_meet
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Cost, Hold, Plan, Proof, Refusal, Seat, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of, counted, cut
from extender.search.problem import Infeasible, Limits, Vector
from extender.search.problem.stop import Flag, OutOfTime, Stop
from extender.search.solver import load
from extender.settings.settings import Settings

Text = TypeVar("Text")
UNTOLD = "the reasons cannot be given; please report this"
MAX_STRIKES = 16
"""How many times step 5 may strike out seats before the planner gives up."""
MOST_BLAMED = 32
"""How many parts of those who may be to blame are told apart, twice."""
MOST_MISSED = 32
"""Of so many seats that cannot be taken it is found who is to blame."""


class Planner:
    """Plans gangs. Keeps per-node sums between snapshots; answers never depend on them."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        self._settings = settings
        self._resolver = resolver
        self._limits = Limits(branch_nodes=settings.plan.branch_nodes)
        load()
        self._forget()

    def _forget(self) -> None:
        self._planning = PlanningCache(self._resolver, self._settings)
        self._view: ClusterView | None = None
        self._snapshot: Snapshot | None = None
        self.seen = -1
        """Generation of the snapshot last taken in."""

    def take_aside(self) -> list[tuple[Pod, str]]:
        """Return pods that were set aside since this was asked last, each with the reason."""
        return self._planning.preemptability.aside.take()

    @property
    def crowded(self) -> Mapping[str, int]:
        """Namespaces whose disruption budgets are too many to be read, or list too many values, and
        how many budgets they have."""
        return self._planning.guards.crowded

    def budget_shares(self) -> dict[str, float]:
        """Return which part of taking in the last snapshot came from a namespace's budgets, as far
        as any did."""
        planning = self._planning
        return {name: work / planning.all_work for name, work in planning.budget_work.items()}

    def see(self, snapshot: Snapshot) -> ClusterView:
        """Take a snapshot in; ahead of the next question, that one finds less to do."""
        try:
            return self._see(snapshot)
        except BaseException:
            self._forget()  # what was brought up in part must not answer for the snapshot
            raise

    def _see(self, snapshot: Snapshot) -> ClusterView:
        if self._view is not None and snapshot is self._snapshot and not self._view.laden:
            return self._view
        self._snapshot = None
        changed = self._planning.renew(snapshot)
        self._view = ClusterView.from_snapshot(snapshot, self._view, changed)
        self._view.refusals()
        self._snapshot, self.seen = snapshot, snapshot.generation
        return self._view

    def plan(
        self,
        question: GangQuestion,
        *,
        deadline: float | None = None,
        cancel: Flag | None = None,
    ) -> Plan | Refusal:
        """Return a plan for the seats the gang's quorum lacks, or the reason for none.

        ``deadline`` is handed to the search as it is (a time.monotonic value), and so is
        ``cancel``, whose first item ends the search early once it is not zero.
        """
        if self._settings.scheduler_names:
            seated = seated_by(question.gang, self._settings.scheduler_names)
            question = replace(question, gang=seated)
        gang, snapshot = question.gang, question.snapshot
        early = _refused_early(gang, snapshot)
        if early is not None:
            return early
        question = replace(question, holds=tuple(question.holds))
        stop = Stop(None, deadline, cancel)

        def planned(gang: Gang, masks: Masks | None) -> Plan | Refusal:
            asked = replace(question, gang=gang, masks=masks)
            found = self._plan(asked, stop)
            if isinstance(found, Plan) and gang.preferred_topology_key and gang.topology_key:
                found = self._inside(found, asked, stop)
            if isinstance(found, Plan) and (found.victims or snapshot.evicted_from):
                certain = self._certain(found, asked, stop)
                # Without victims it costs nobody anything: kube-scheduler decides.
                if found.victims or isinstance(certain, Plan):
                    found = certain
            if isinstance(found, Refusal) and (lifts := self._planning.lifts()) < inf:
                return replace(found, until=lifts)
            return found

        try:
            if gang.followers:
                return with_followers(gang, snapshot, question.masks or {}, planned)
            return planned(gang, question.masks)
        except OutOfTime:
            return Refusal(
                gang=gang.key,
                code=Code.INFEASIBLE,
                message="no solution was found: its time was up before the question could be put "
                f"together or its answer be tried out, for {counted(len(gang.pending), 'member')}",
                generation=snapshot.generation,
            )

    def _inside(self, found: Plan, question: GangQuestion, stop: Stop) -> Plan:
        """Return a plan that costs no more than ``found`` with all seats in one preferred domain,
        inside one of the domains that are required; ``found`` where there is none."""
        gang = question.gang
        if gang.seated:
            return found
        try:
            wish = Restrictions(together=frozenset((gang.preferred_topology_key,)))
            narrow = self._plan(question, stop, wish)
        except OutOfTime:
            return found
        if (
            isinstance(narrow, Plan)
            and found.proof is narrow.proof is Proof.OPTIMAL
            and [cost.value for cost in found.costs] == [cost.value for cost in narrow.costs]
        ):
            return with_wish(narrow, gang, kept=True)
        return with_wish(found, gang, kept=False)

    def _certain(self, found: Plan, question: GangQuestion, stop: Stop) -> Plan | Refusal:
        """Return ``found`` if the members' devices and volumes are certain on its seats, else
        another plan of which that is so, or none."""
        if not found.victims and (without := self._without_victims(found, question, stop)):
            return without
        certain: Plan | Refusal = found
        if seats_devices(found, question.gang, question.snapshot):
            certain = self._plan_for_devices(question, stop)
        if isinstance(certain, Plan) and volumes_meet(certain, question):
            certain = self._plan_for_volumes(certain, question, stop)
        return certain

    def _without_victims(self, found: Plan, question: GangQuestion, stop: Stop) -> Plan | None:
        """Return ``found``, or another plan that evicts no pod, if the members' devices and volumes
        are certain where pods went from for the gang; None where there is no such plan.

        A node that no pod went from was accepted as it is. That counts for several members, as it
        does in a plan that never evicts.
        """
        gang, snapshot = question.gang, question.snapshot
        nodes = snapshot.evicted_from
        devices = unconfirmed(gang, snapshot) is None

        def certain(plan: Plan) -> bool:
            meet = devices and devices_meet(plan, question, nodes)
            return not (meet or volumes_meet(plan, question, nodes))

        if certain(found):
            return found
        asked = beside_devices(question, all_held=True, nodes=nodes) if devices else question
        masks = beside_volumes(asked, all_held=True, nodes=nodes)
        apart = Restrictions(devices_apart=devices, volumes_apart=True, apart_on=nodes)
        other = self._plan(replace(asked, masks=masks), stop, apart)
        if isinstance(other, Plan) and not other.victims and certain(other):
            return other
        return None

    def _plan_for_devices(self, question: GangQuestion, stop: Stop) -> Plan | Refusal:
        """Return a plan that evicts pods where the members' devices are certain, or none."""
        gang, snapshot = question.gang, question.snapshot
        why = unconfirmed(gang, snapshot)
        if why is not None:
            return why
        apart = Restrictions(devices_apart=True)
        found = self._plan(beside_devices(question, all_held=False), stop, apart)
        if isinstance(found, Plan) and devices_meet(found, question):
            found = self._plan(beside_devices(question, all_held=True), stop, apart)
        counted = where_counted(question)
        if isinstance(found, Refusal) and counted is not None:
            other = self._plan(replace(question, masks=counted), stop)
            found = other if isinstance(other, Plan) else found
        return told_of_devices(found, gang)

    def _plan_for_volumes(self, found: Plan, question: GangQuestion, stop: Stop) -> Plan | Refusal:
        """Return another plan than ``found``, one that evicts pods where the members' volumes are
        certain, or none."""
        devices = seats_devices(found, question.gang, question.snapshot)
        apart = Restrictions(devices_apart=devices, volumes_apart=True)

        def planned(*, all_held: bool) -> Plan | Refusal:
            asked = beside_devices(question, all_held=all_held) if devices else question
            masks = beside_volumes(asked, all_held=all_held)
            return self._plan(replace(asked, masks=masks), stop, apart)

        other = planned(all_held=False)
        if isinstance(other, Plan) and (
            volumes_meet(other, question) or (devices and devices_meet(other, question))
        ):
            other = planned(all_held=True)
        return told_of_volumes(other)

    def _plan(
        self,
        question: GangQuestion,
        stop: Stop,
        restrictions: Restrictions = NO_RESTRICTIONS,
    ) -> Plan | Refusal:
        """As ``plan``. Raises OutOfTime when not even a first answer is waited for."""
        gang, snapshot = question.gang, question.snapshot
        view = self.see(snapshot)
        self._planning.face(gang.preemptor_priority)
        others = _seats_of_others(question)
        struck, keep = _struck_at_first(question, view), set[str]()
        opens = may_open = False
        answers = Answers(view, snapshot, others, self._limits, stop)
        again = answers.tried
        beside: Trial | None = None
        """All members in one domain, where some require others of them beside."""
        ending: dict[str, str] = {}
        sure: tuple[Built, Vector] | None = None
        """The first answer's bound: what is struck out later makes nothing cheaper."""

        def drafted(keys: AbstractSet[str] = frozenset()) -> Build:
            asked = replace(question, holds=others, masks=struck)
            now = replace(
                restrictions,
                together=restrictions.together | keys,
                keep=frozenset(keep),
                opens=opens,
            )
            return Build(asked, view, self._planning, self._settings, stop, now)

        for strikes in count():
            draft = drafted()
            may_open |= draft.may_open
            answer = answers.hopeless(draft) or answers.of(draft)
            built, found = answer.built, answer.found
            if not strikes and isinstance(found, Trial) and not draft.narrowed:
                sure = (built, answer.bound)
            if isinstance(found, Infeasible) and strikes and may_open and not opens:
                struck, keep, opens = _struck_at_first(question, view), set(), True
                continue
            # A preferred domain would not be counted beside one that is required.
            first = not strikes and not gang.preferred_topology_key
            if first and isinstance(found, Trial) and (keys := members_beside(found, view)):
                apart = drafted(keys)
                other = (answers.hopeless(apart) or answers.of(apart)).found
                if isinstance(other, Trial) and not other.failed:
                    beside = other
                    if _bound_of(beside, sure) == beside.solution.cost:
                        return _finish(question, beside, sure, self._settings, again, stop)
            last = strikes == MAX_STRIKES or stop.over()
            if beside is not None and _costs_less(beside, found, last=last):
                return _finish(question, beside, sure, self._settings, again, stop)
            if isinstance(found, Infeasible):
                stayers = draft.stayers()
                changes = NONE
                if not strikes and not restrictions.together:
                    asked = replace(question, holds=others, masks=struck)
                    tries = TriedChanges(asked, view, self._planning, self._settings, stop)
                    changes = tries.of(draft, built, found, [why for _, why in stayers])
                return _refused(
                    question,
                    Refused(
                        built,
                        found,
                        stayers,
                        draft.kept,
                        struck=strikes > 0 or draft.narrowed,
                        unmet=draft.unmet,
                        closed=draft.closed,
                        ending=tuple(ending.values()),
                    ),
                    changes,
                    booking=self._settings.fairness.booking,
                )
            trial = found
            if not trial.failed:
                return _finish(question, trial, sure, self._settings, again, stop)
            if last:
                return _given_up(question, trial, strikes + 1)
            ending |= ending_beside(trial, view, snapshot)
            needed = needed_beside(trial, view)
            keep |= needed
            if not needed:
                _strike(struck, trial)
        raise AssertionError("every try ends with an answer or is counted")

    def check(self, asked: SeatsQuestion) -> str:
        """Return why the seats cannot all be taken now, "" when they can. Every rule is asked."""
        return self._failed(asked)[0]

    def _failed(self, asked: SeatsQuestion) -> tuple[str, Failed]:
        """As ``check``, with the seats that break a rule."""
        seats, snapshot = asked.seats, asked.snapshot
        view = self.see(snapshot)
        others = [hold for hold in asked.holds if hold.uid not in seats]
        own = [pod for each in asked.going if (pod := present(each, snapshot)) is not None]
        beside = [pod for each in asked.beside if (pod := present(each, snapshot)) is not None]
        leaving = [*own, *beside]
        after = view_after(view, snapshot, leaving, others, set())
        members = {pod.uid: pod for pod in asked.gang.pending}
        for uid, node in seats.items():
            if node not in snapshot.nodes:
                return f"node {node} is gone", []
            if uid not in members:
                return f"member {uid} is not pending any more", []
        taken = [(members[uid], node) for uid, node in seats.items()]
        failed = failures(after, taken)
        if not failed and any(not pod.deleting for pod in own):
            chance = (view, snapshot, leaving, others, set[GangKey]())
            failed = resting_on_chance(*chance, taken, every_order=True)
        why = "; ".join(f"{pod.name} on {node}: {why}" for pod, node, why in failed[:3])
        return why, failed

    def to_blame(self, asked: SeatsQuestion, suspects: Sequence[Pod]) -> list[Pod]:
        """Return those of the suspects without which seats that cannot be taken (``check``) could
        be, each of them needed for that; none where they could not even without all of them.

        Not all such seats are asked about: everybody else waits for the answer.
        """

        def failed(seats: Mapping[str, str], out: Sequence[Pod]) -> tuple[str, Failed]:
            return self._failed(replace(asked, seats=seats, beside=(*asked.beside, *out)))

        found = [pod for pod in suspects if present(pod, asked.snapshot) is not None]
        missed = failed(asked.seats, ())[1] if found else []
        few = {pod.uid: node for pod, node, _ in missed[:MOST_MISSED]}

        def fine(out: Sequence[Pod]) -> bool:
            return not failed(few, out)[0]

        if not few or not fine(found):
            return []
        part = len(found) // MOST_BLAMED
        found = _needed_out(fine, [], found, part)
        # Of parts that are to blame it is told who.
        return found if part <= 1 else _needed_out(fine, [], found, len(found) // MOST_BLAMED)

    def conflict(
        self,
        plan: Plan,
        gang: Gang,
        victims: Iterable[Victim],
        seated: Sequence[tuple[Gang, Mapping[str, str]]],
        snapshot: Snapshot,
        holds: Sequence[Hold],
    ) -> str:
        """Return why the plan conflicts with other plans, "" when it does not: its seats, or those
        of the others (``seated``), do not hold once ``victims``, those of the others, are gone too.

        The search takes a victim of another plan, while it does not terminate, for a pod that
        stays: as one that its gang can spare beside others, as one that members need beside them,
        and as one that takes nothing of a budget.
        """
        self.see(snapshot)
        mine = {each.uid: each for each in (*plan.victims, *plan.waits_for)}
        theirs = {each.uid: each for each in victims if each.uid not in mine}
        own, others = (
            [(each, pod) for each in some if (pod := present(each, snapshot)) and not pod.deleting]
            for some in (plan.victims, theirs.values())
        )
        spared = {victim.gang for victim, _ in own if victim.gang and not victim.unit}
        for victim, _ in others:
            if victim.gang in spared:
                return f"pods of {victim.gang} are among them"
        budgets, guards = snapshot.budgets, self._planning.guards
        used = [budget_use([pod for _, pod in some], guards, budgets) for some in (own, others)]
        taken, counts = dict(used[1]), self._planning.preemptability.protections.budget_counts
        for at, more in used[0]:
            budget = budgets[at]
            beyond = at in taken and more + taken[at] > max(0, budget.allowed)
            if beyond and counts(budget.namespace, gang.preemptor_priority, snapshot):
                return f"PodDisruptionBudget {budget.namespace}/{budget.name} does not allow both"
        seats = {seat.uid: seat.node for seat in plan.seats}
        going = (*mine.values(), *(victim for victim, _ in others))
        asked = SeatsQuestion(gang, seats, snapshot, going, holds)
        why = self.check(asked) if others else ""
        for other, nodes in seated:
            waiting = {pod.uid for pod in other.pending}
            left = {uid: node for uid, node in nodes.items() if uid in waiting}
            why = why or self.check(replace(asked, gang=other, seats=left))
        return why


def _needed_out(
    fine: Callable[[Sequence[Pod]], bool], out: list[Pod], among: list[Pod], least: int
) -> list[Pod]:
    """Return those of ``among`` that have to be out beside ``out``. All is fine with all out.

    So few as ``least`` are not told apart.
    """
    if fine(out):
        return []
    if len(among) <= max(1, least):
        return among
    half = len(among) // 2
    found = _needed_out(fine, out + among[half:], among[:half], least)
    return found + _needed_out(fine, out + found, among[half:], least)


def _refused_early(gang: Gang, snapshot: Snapshot) -> Refusal | None:
    """What needs no search."""

    def refusal(code: Code, message: str) -> Refusal:
        return Refusal(gang=gang.key, code=code, message=message, generation=snapshot.generation)

    if gang.problems:
        return refusal(Code.CONFLICT, cut("; ".join(gang.problems), MOST_LINE))
    if gang.unplanned:
        return refusal(Code.CONFLICT, cut("; ".join(gang.unplanned), MOST_LINE))
    if gang.missing == 0:
        those = all_of(gang.min_count, "member", "of the quorum has", "of the quorum have")
        return refusal(Code.NOT_NEEDED, f"{those} a node")
    if gang.awaits:
        return refusal(Code.CONFLICT, cut("; ".join(gang.awaits), MOST_LINE))
    if why := ending_problem(gang.key.namespace, snapshot):
        return refusal(Code.CONFLICT, why)
    if not gang.complete:
        elsewhere = [note for note in gang.notes if note.endswith(NO_ASKER)]
        there = members_there(gang) + (" whose scheduler asks" if elsewhere else "")
        told = "; ".join([f"waits for members: {there}, nothing is evicted", *elsewhere])
        return refusal(Code.INCOMPLETE, told)
    return None


def _seats_of_others(question: GangQuestion) -> list[Hold]:
    """Untaken seats of other gangs, and where pods are nominated by somebody else."""
    gang = question.gang
    others = [hold for hold in question.holds if hold.gang != gang.key]
    return others + nominated_seats(gang, question.snapshot, {hold.uid for hold in others})


def _struck_at_first(question: GangQuestion, view: ClusterView) -> dict[str, frozenset[str]]:
    """Member uid -> node names that are not to be used, before anything is tried out."""
    struck = dict(question.masks or {})
    for uid, names in _not_offered(question.gang, view, question.offered or {}).items():
        struck[uid] = struck.get(uid, frozenset()) | names
    return struck


def _strike(struck: dict[str, frozenset[str]], trial: Trial) -> None:
    """Strike the seats that failed out for their class."""
    nodes: dict[str, set[str]] = {}
    for pod, node, _ in trial.failed:
        nodes.setdefault(pod.uid, set()).add(node)
    for group in trial.built.classes:
        names = frozenset[str]().union(*(nodes.get(member.uid, ()) for member in group))
        for member in group if names else ():
            struck[member.uid] = struck.get(member.uid, frozenset()) | names


def _costs_at(trial: Trial, built: Built, costs: Vector) -> Vector | None:
    """Return costs of another problem at the levels of the trial's; None where these lack one."""
    levels = trial.built.problem.levels
    amounts = {name: each for name, each in zip(built.problem.levels, costs, strict=True) if each}
    if not amounts.keys() <= set(levels):
        return None
    return tuple([amounts.get(name, 0) for name in levels])


def _bound_of(trial: Trial, sure: tuple[Built, Vector] | None) -> Vector:
    """Return what every plan costs at least, as far as that is known."""
    least = None if sure is None else _costs_at(trial, *sure)
    return tuple(0 for _ in trial.solution.cost) if least is None else least


def _costs_less(trial: Trial, other: Trial | Infeasible, *, last: bool) -> bool:
    """Whether a trial that holds is better than this answer; ``last``: what fails is given up."""
    if isinstance(other, Infeasible):
        return True
    if other.failed:
        return last
    costs = _costs_at(trial, other.built, other.solution.cost)
    return costs is not None and trial.solution.cost < costs


def _refused(
    question: GangQuestion, refused: Refused, changes: HelpfulChanges, *, booking: bool
) -> Refusal:
    gang = question.gang
    no = partial(explain_refusal, gang, refused, question.snapshot, changes, booking=booking)
    return _told(no, Refusal(gang.key, Code.INFEASIBLE, UNTOLD))


def _given_up(question: GangQuestion, trial: Trial, tries: int) -> Refusal:
    return Refusal(
        gang=question.gang.key,
        code=Code.INFEASIBLE,
        message=f"no placement that passes every rule was found in {counted(tries, 'try')}",
        details=tuple(f"{pod.name} on {node}: {why}" for pod, node, why in trial.failed),
        generation=question.snapshot.generation,
    )


def _not_offered(
    gang: Gang, view: ClusterView, offered: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return nodes that kube-scheduler refuses although our own rules accept them now."""
    found: dict[str, frozenset[str]] = {}
    for pod in gang.pending if offered else ():
        names = offered.get(pod.uid)
        if names is not None:
            found[pod.uid] = frozenset(set(view.feasible_nodes(pod)) - names)
    return found


def _finish(
    question: GangQuestion,
    trial: Trial,
    sure: tuple[Built, Vector] | None,
    settings: Settings,
    again: Again,
    stop: Stop,
) -> Plan:
    """The solution as seats and victims, with what is proved and why."""
    gang, snapshot = question.gang, question.snapshot
    bound = _bound_of(trial, sure)
    built, solution, seats = trial.built, trial.solution, trial.seats
    unknown: dict[str, Reason] = {}
    reasons = _told(partial(victim_reasons, trial, snapshot), unknown)
    victims: list[Victim] = []
    waits: list[Victim] = []
    taken_over: list[GangKey] = []
    longest = settings.eviction.longest_grace_seconds
    for unit in solution.chosen:
        subject = built.subjects[unit]
        if isinstance(subject, VictimUnit):
            gang_text = "" if subject.gang is None else str(subject.gang)
            together = subject.uid if subject.whole else ""
            for pod in subject.pods:
                why = reasons[pod.uid].text if pod.uid in reasons else UNTOLD
                grace = min(pod.grace, longest)
                lost = lost_gpu_seconds(pod, snapshot.nodes.get(pod.node), snapshot.now)
                victims.append(as_victim(pod, why, grace, gang_text, together, lost))
        elif isinstance(subject, Pod):
            left = max(0, ceil(subject.deleting - snapshot.now))
            waits.append(as_victim(subject, "terminates already", left))
        else:
            taken_over.append(subject)
    victims.sort(key=lambda victim: (-victim.priority, victim.uid))
    costs = tuple(
        Cost(level, value, least)
        for level, value, least in zip(built.problem.levels, solution.cost, bound, strict=True)
    )
    proof = Proof.OPTIMAL if bound == solution.cost else Proof.BOUNDED
    plan = Plan(
        gang=gang.key,
        priority=gang.preemptor_priority,
        seats=tuple(
            Seat(uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node)
            for pod, node in sorted(seats, key=lambda seat: (seat[1], seat[0].uid))
        ),
        victims=tuple(victims),
        waits_for=tuple(sorted(waits, key=lambda victim: victim.uid)),
        costs=costs,
        proof=proof,
        generation=snapshot.generation,
        takes_over=tuple(taken_over),
    )
    if proof is Proof.OPTIMAL:
        spared = _told(partial(easiest_to_spare, trial, reasons, again, stop), None)
        plan = replace(plan, spared="" if spared is None else cut(spared.words, MOST_LINE))
    untold: tuple[str, ...] = (UNTOLD,)
    told = partial(explain_plan, gang, built, plan, solution)
    return replace(plan, explanation=_told(told, untold))


def _told(tell: Callable[[], Text], otherwise: Text) -> Text:
    """Return what is told of an answer; the answer stands where that fails."""
    try:
        return tell()
    except Exception:
        return otherwise


def as_victim(
    pod: Pod, reason: str, grace: int, gang: str = "", unit: str = "", lost: int = 0
) -> Victim:
    """Return the record of a pod that goes, with the reason and what goes together with it.

    ``grace``: the seconds that it gets to end, or that it has left. ``lost``: as of Victim.
    """
    return Victim(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        priority=pod.priority,
        gang=gang,
        grace=grace,
        reason=reason,
        unit=unit,
        owner=pod.controller,
        lost=lost,
    )
