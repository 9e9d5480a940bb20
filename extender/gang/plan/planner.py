"""One question, asked by both verbs, the controller loop and the command line:
which seats and which victims for this gang, on this snapshot?

Steps
1. Refuse what needs no search: problems, an incomplete gang.
2. Build the problem from the snapshot and the other gangs' seats.
3. Search.
4. Turn the solution back into seats and victims.
5. Prove it on the predicates: with the victims gone and all seats taken, every
   member passes every rule on its node. A seat that fails is struck out for its
   class and the search runs again; such a plan is no longer called optimal. Where
   topology spread counts pods that may go themselves, a stricter question is asked
   first (extender.gang.plan.spreads).

Nothing here acts, and nothing here reads a clock: equal input, equal plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import TypeVar

from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.victims import Candidate
from extender.gang.plan.build import Build, Built
from extender.gang.plan.explain import MOST_LINE, explain_plan, explain_refusal, victim_reason
from extender.gang.plan.followers import with_followers
from extender.gang.plan.nominated import nominated_seats
from extender.gang.plan.schedulers import NO_ASKER, seated_by
from extender.gang.plan.validity import present
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Cost, Hold, Plan, Refusal, Seat, Victim
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from extender.model.texts import cut
from extender.search import leading
from extender.search.problem import Infeasible, Limits, Solution, Vector
from extender.search.solver import solve
from extender.search.stop import Flag, OutOfTime, Stop

Text = TypeVar("Text")
UNTOLD = "the reasons cannot be told; please report this"
MAX_STRIKES = 16
"""How many times step 5 may strike out seats before the planner gives up."""


class Planner:
    """Plans gangs. Keeps per-node sums between snapshots; answers never depend on them."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        self._settings = settings
        self._resolver = resolver
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
        gang: Gang,
        snapshot: Snapshot,
        holds: Iterable[Hold] = (),
        masks: Mapping[str, frozenset[str]] | None = None,
        deadline: float | None = None,
        cancel: Flag | None = None,
        offered: Mapping[str, frozenset[str]] | None = None,
    ) -> Plan | Refusal:
        """Return a plan for the seats the gang's quorum lacks, or the reason for none.

        ``holds`` are untaken seats of every gang (its own are ignored); ``masks``
        gives node names refused for a member's class; ``deadline`` is handed to
        the search as it is (a time.monotonic value), and so is ``cancel``, whose
        first item ends the search early once it is not zero. ``offered`` gives, per member
        uid, every node that kube-scheduler accepts for it now: a node where the
        pod fits by our own rules and that is not among them is not used for its
        class (volumes, devices, or a pod bound a moment ago stand against it).
        """
        if self._settings.scheduler_names:
            gang = seated_by(gang, self._settings.scheduler_names)
        early = self._refuse_early(gang, snapshot)
        if early is not None:
            return early
        holds = tuple(holds)
        stop = Stop(None, deadline, cancel)

        def planned(gang: Gang, masks: Mapping[str, frozenset[str]] | None) -> Plan | Refusal:
            return self._plan(gang, snapshot, holds, masks, stop, offered)

        try:
            if gang.followers:
                return with_followers(gang, snapshot, masks or {}, planned)
            return planned(gang, masks)
        except OutOfTime:
            return Refusal(
                gang=gang.key,
                code="infeasible",
                message="no solution was found: its time was up before the question could be "
                f"put together or its answer be tried out, for {len(gang.pending)} members",
                generation=snapshot.generation,
            )

    def _plan(
        self,
        gang: Gang,
        snapshot: Snapshot,
        holds: Iterable[Hold],
        masks: Mapping[str, frozenset[str]] | None,
        stop: Stop,
        offered: Mapping[str, frozenset[str]] | None,
    ) -> Plan | Refusal:
        """As ``plan``. Raises OutOfTime when not even a first answer is waited for."""
        deadline, cancel = stop.deadline or None, stop.cancel
        view = self.see(snapshot)
        self._planning.face(gang.preemptor_priority)
        others = [hold for hold in holds if hold.gang != gang.key]
        others += nominated_seats(gang, snapshot, {hold.uid for hold in others})
        struck: dict[str, frozenset[str]] = dict(masks or {})
        for uid, names in _not_offered(gang, view, offered or {}).items():
            struck[uid] = struck.get(uid, frozenset()) | names
        limits = Limits(branch_nodes=self._settings.plan.branch_nodes)
        strikes = 0
        while True:
            draft = Build(
                gang, snapshot, view, self._planning, others, self._settings, struck, stop
            )
            # Where enough room is not sure, a "no" is seen at once with everybody gone.
            answer: Solution | Infeasible | None = None
            if draft.cut is None:
                built = draft.emptied()
                answer = solve(built.problem, limits, deadline=deadline, cancel=cancel)
            if not (isinstance(answer, Infeasible) and answer.proved):
                built, answer = _search(draft, limits, deadline, cancel)
            if isinstance(answer, Infeasible):
                stayers = draft.stayers()
                no = partial(explain_refusal, gang, built, answer, stayers, snapshot, strikes > 0)
                return _told(no, Refusal(gang.key, "infeasible", UNTOLD))
            seats, failed = _try_out(view, snapshot, others, built, answer, stop)
            bound = answer.bound if strikes == 0 else tuple(0 for _ in answer.cost)
            if failed and built.unsure:
                # Pods that spread rules count go or stay with the answer: ask for one that
                # holds either way. What bounds the looser question bounds this one too.
                careful = draft.full(strict=True)
                other = solve(careful.problem, limits, deadline=deadline, cancel=cancel)
                if isinstance(other, Solution):
                    placed, wrong = _try_out(view, snapshot, others, careful, other, stop)
                    if not wrong:
                        built, answer, seats, failed = careful, other, placed, wrong
            if not failed:
                return _finish(gang, built, answer, snapshot, seats, bound, self._settings)
            strikes += 1
            if strikes > MAX_STRIKES or stop.over():
                reasons = tuple(f"{pod.name} on {node}: {why}" for pod, node, why in failed)
                return Refusal(
                    gang=gang.key,
                    code="infeasible",
                    message=f"no placement that passes every rule was found in {strikes} tries",
                    details=reasons,
                    generation=snapshot.generation,
                )
            for pod, node, _ in failed:
                group = next(group for group in built.classes if pod in group)
                for member in group:
                    struck[member.uid] = struck.get(member.uid, frozenset()) | {node}

    def check(
        self,
        gang: Gang,
        seats: Mapping[str, str],
        going: Iterable[Victim],
        snapshot: Snapshot,
        holds: Iterable[Hold],
    ) -> str:
        """Return why the seats (uid -> node) cannot all be taken now, "" when they can.

        Every rule is asked, with those in ``going`` gone and other gangs' seats taken.
        """
        view = self.see(snapshot)
        others = [hold for hold in holds if hold.gang != gang.key]
        leaving = [pod for victim in going if (pod := present(victim, snapshot)) is not None]
        after = _view_after(view, snapshot, leaving, others, set())
        members = {pod.uid: pod for pod in gang.pending}
        for uid, node in seats.items():
            if node not in snapshot.nodes:
                return f"node {node} is gone"
            if uid not in members:
                return f"member {uid} does not wait for a seat any more"
        failed = _failures(after, [(members[uid], node) for uid, node in seats.items()])
        return "; ".join(f"{pod.name} on {node}: {why}" for pod, node, why in failed[:3])

    def _refuse_early(self, gang: Gang, snapshot: Snapshot) -> Refusal | None:
        def refusal(code: str, message: str) -> Refusal:
            return Refusal(
                gang=gang.key, code=code, message=message, generation=snapshot.generation
            )

        if gang.problems:
            return refusal("conflict", cut("; ".join(gang.problems), MOST_LINE))
        if gang.unplanned:
            return refusal("conflict", cut("; ".join(gang.unplanned), MOST_LINE))
        if gang.missing == 0:
            return refusal("not-needed", f"all {gang.min_count} members of the quorum have a node")
        if not gang.complete:
            there = len(gang.bound) + len(gang.pending)
            return refusal(
                "incomplete",
                f"waits for members: {there} of {gang.min_count} exist, nothing is evicted"
                + "".join(f"; {note}" for note in gang.notes if note.endswith(NO_ASKER)),
            )
        return None


def _search(
    draft: Build, limits: Limits, deadline: float | None, cancel: Flag | None
) -> tuple[Built, Solution | Infeasible]:
    """Ask with what one class needs, where that decides; else with everything."""
    for cls, built in draft.leading():
        led = leading.solve(built.problem, cls, limits, deadline=deadline, cancel=cancel)
        if led is not None:
            return built, led
    built = draft.full()
    return built, solve(built.problem, limits, deadline=deadline, cancel=cancel)


def _assign(built: Built, solution: Solution) -> list[tuple[Pod, str]]:
    """Give each class's seats to its members in uid order, nodes in name order.

    Members that are nominated to one of the nodes keep it, so that a plan made
    again after a restart does not move anyone.
    """
    result: list[tuple[Pod, str]] = []
    for c, group in enumerate(built.classes):
        nodes: Counter[str] = Counter()
        for cls, node, count in solution.seats:
            if cls == c:
                nodes[built.problem.nodes[node]] += count
        waiting: list[Pod] = []
        for pod in group:
            if nodes[pod.nominated] > 0:
                nodes[pod.nominated] -= 1
                result.append((pod, pod.nominated))
            else:
                waiting.append(pod)
        result += zip(waiting, sorted(nodes.elements()), strict=False)
    return result


def _leaving(built: Built, solution: Solution) -> tuple[list[Pod], set[GangKey]]:
    pods: list[Pod] = []
    taken_over: set[GangKey] = set()
    for unit in solution.chosen:
        subject = built.subjects[unit]
        if isinstance(subject, Candidate):
            pods += subject.pods
        elif isinstance(subject, Pod):
            pods.append(subject)
        else:
            taken_over.add(subject)
    return pods, taken_over


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


def _view_after(
    view: ClusterView,
    snapshot: Snapshot,
    leaving: Iterable[Pod],
    holds: Iterable[Hold],
    taken_over: set[GangKey],
) -> ClusterView:
    """Return the cluster as it will be: victims gone, others' seats taken."""
    after = view.copy()
    for pod in leaving:
        after.remove(pod)
    for hold in holds:
        held = snapshot.pending.get(hold.uid)
        if held is not None and hold.gang not in taken_over and hold.node in snapshot.nodes:
            after.add(held, hold.node)
    return after


def _try_out(
    view: ClusterView,
    snapshot: Snapshot,
    others: Iterable[Hold],
    built: Built,
    solution: Solution,
    stop: Stop,
) -> tuple[list[tuple[Pod, str]], list[tuple[Pod, str, str]]]:
    """Return who sits where under the solution, and which of these seats break a rule."""
    seats = _assign(built, solution)
    leaving, taken_over = _leaving(built, solution)
    after = _view_after(view, snapshot, leaving, others, taken_over)
    return seats, _failures(after, seats, stop)


def _failures(
    after: ClusterView, seats: Iterable[tuple[Pod, str]], stop: Stop | None = None
) -> list[tuple[Pod, str, str]]:
    """Seat everyone in ``after``; return the seats that break a rule, with the rule.

    As kube-scheduler does: a member that does not fit yet is tried again once others
    sit (topology spread and affinity among members ask for that).
    """
    waiting = [(pod, node, "") for pod, node in seats]
    moved = True
    while waiting and moved:
        moved = False
        failed: list[tuple[Pod, str, str]] = []
        for pod, node, _ in waiting:
            if stop is not None:
                stop.check_first()
            why = after.seat(pod, node)
            if why is None:
                moved = True
            else:
                failed.append((pod, node, why))
        waiting = failed
    return waiting


def _finish(
    gang: Gang,
    built: Built,
    solution: Solution,
    snapshot: Snapshot,
    seats: Sequence[tuple[Pod, str]],
    bound: Vector,
    settings: Settings,
) -> Plan:
    used_nodes = {node for _, node in seats}
    victims: list[Victim] = []
    waits: list[Victim] = []
    taken_over: list[GangKey] = []
    longest = settings.eviction.longest_grace_seconds
    for unit in solution.chosen:
        subject = built.subjects[unit]
        if isinstance(subject, Candidate):
            gang_text = "" if subject.gang is None else str(subject.gang)
            together = subject.uid if subject.whole else ""
            for pod in subject.pods:
                why = _told(partial(victim_reason, pod, subject, used_nodes), UNTOLD)
                grace = min(pod.grace, longest)
                victims.append(as_victim(pod, why, grace, gang_text, together))
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
    proof = "optimal" if bound == solution.cost else "bounded"
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
    untold: tuple[str, ...] = (UNTOLD,)
    told = partial(explain_plan, gang, built, plan, solution.cut)
    return replace(plan, explanation=_told(told, untold))


def _told(tell: Callable[[], Text], otherwise: Text) -> Text:
    """Return what is told of an answer; the answer stands where that fails."""
    try:
        return tell()
    except Exception:
        return otherwise


def as_victim(pod: Pod, reason: str, grace: int, gang: str = "", unit: str = "") -> Victim:
    """Return the record of a pod that goes, with the reason and what goes together with it.

    ``grace``: the seconds that it gets to end, or that it has left.
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
    )
