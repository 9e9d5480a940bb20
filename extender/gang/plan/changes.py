"""Changes for which a gang that is refused would have a plan: each tried by itself. Pure.

What is tried is asked as the planner asks: the search, and its answer on the predicates. Of a quick
question it is tried only where room alone decides, two priorities at most: at 8,000 nodes with
budgets all of it takes half a second, and verbs wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from extender.decode.owners import HIGHEST_USER
from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.preemptability import outranking
from extender.gang.plan.answers import Answers
from extender.gang.plan.any_answer import FEW, any_answer
from extender.gang.plan.build import Build
from extender.gang.plan.built import Built
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.trial import tried
from extender.groups.patience import PATIENCE
from extender.model.gang import Gang
from extender.model.plan import Way
from extender.model.texts import cut, some
from extender.search.problem import Infeasible, Problem, Solution
from extender.search.problem.stop import OutOfTime, Stop
from extender.settings.settings import Settings


class HelpfulChanges(Struct, frozen=True):
    """What was tried and has a plan."""

    room: bool = False
    """Free room for the members that found no seat."""
    quorum: int = 0
    """A smaller minCount; 0: none."""
    patience: int = 0
    """Seconds that the owner waits for its pods to get a node; 0: none."""
    preempts: bool = False
    """A preemptionPolicy that is not Never."""
    outranks: int | None = None
    """A priority above this one."""


NONE = HelpfulChanges()


class TriedChanges:
    """Tries changes of one question that was refused, with holds and masks as Build has them."""

    def __init__(
        self,
        question: GangQuestion,
        view: ClusterView,
        planning: PlanningCache,
        settings: Settings,
        stop: Stop,
    ) -> None:
        self._question = question
        self._others = tuple(question.holds)
        self._gang = question.gang
        self._view = view
        self._planning = planning
        self._settings = settings
        self._stop = stop
        self._answers = Answers(view, question.snapshot, self._others, FEW, stop)

    def of(
        self, draft: Build, built: Built, answer: Infeasible, whys: Iterable[str]
    ) -> HelpfulChanges:
        """Return the changes that help. ``whys``: why pods stay (Build.stayers).

        The planner's cache then faces another priority.
        """
        if not answer.proved or not built.usable:
            return NONE
        if self._question.quick and draft.ruled:
            return NONE
        gang = self._gang
        try:
            if not gang.preempts:
                return HelpfulChanges(preempts=self._has_plan(replace(gang, preempts=True)))
            room, quorum = self._with_fewer(draft, answer)
            longest = max((pod.grace for pod in built.slow), default=0)
            # Who waits for the slowest pod waits for all of them.
            enough = None if self._question.quick else float(longest)
            waits = bool(longest) and self._has_plan(replace(gang, patience=enough))
            return HelpfulChanges(
                room=room,
                quorum=quorum,
                patience=longest if waits else 0,
                outranks=self._outranks(whys),
            )
        except OutOfTime:
            return NONE

    def _with_fewer(self, draft: Build, answer: Infeasible) -> tuple[bool, int]:
        """Whether the others have seats once the members that found none have room elsewhere, and
        the quorum that they make. With required affinity it depends on where that room is."""
        gang, short = self._gang, dict(answer.short)
        less = sum(short.values())
        fits = gang.min_count - less
        quorum = 0 if gang.parts or fits <= len(gang.seated) else fits
        # Room is what lacks only where no rule caps the members of a domain.
        if not less or self._stop.over():
            return False, 0
        if draft.room_alone:
            return True, quorum  # the seats that were found are the plan
        if self._question.quick:
            return False, 0
        built = draft.full(strict=True)
        problem = built.problem
        beside = any(draft.classes[cls][0].shape.affinity for cls in short)
        room = not (problem.caps or problem.spreads or beside or draft.unstated)
        if less == problem.need:
            return room, 0
        fewer = replace(problem, need=problem.need - less)
        quorum = quorum if quorum and self._solved(built, fewer) else 0
        if not room:
            return False, quorum
        if len(problem.classes) == 1 and not gang.parts and quorum:
            return True, quorum
        return self._solved(built, _without(fewer, short)), quorum

    def _outranks(self, whys: Iterable[str]) -> int | None:
        """Return the lowest priority of pods that stay for theirs above which there is a plan; of a
        quick question the highest where the lowest does not do."""
        # Above HIGHEST_USER only the system's own classes are, and the API server refuses others.
        known = {least for why in whys if (least := outranking(why)) is not None}
        tiers = sorted(least for least in known if least < HIGHEST_USER)
        if not tiers or not self._helps(tiers[-1]):
            return None
        if self._question.quick:
            return tiers[0 if self._helps(tiers[0]) else -1]
        return tiers[bisect_left(tiers[:-1], x=True, key=self._helps)]

    def _helps(self, above: int) -> bool:
        return self._has_plan(replace(self._gang, preemptor_priority=above + 1))

    def _has_plan(self, gang: Gang) -> bool:
        if self._stop.over():
            return False
        self._planning.face(gang.preemptor_priority)
        asked = replace(self._question, gang=gang)
        draft = Build(asked, self._view, self._planning, self._settings, self._stop)
        if self._answers.hopeless(draft) is not None:
            return False
        if draft.room_alone:
            return True
        return not self._question.quick and self._answers.of(draft).holds

    def _solved(self, built: Built, problem: Problem) -> bool:
        """Whether the problem has an answer that passes every rule."""
        answer = any_answer(problem, self._stop)
        return self._holds(replace(built, problem=problem), answer)

    def _holds(self, asked: Built, answer: Solution | Infeasible) -> bool:
        if isinstance(answer, Infeasible):
            return False
        snapshot = self._question.snapshot
        return not tried(self._view, snapshot, self._others, asked, answer, self._stop).failed


def _without(problem: Problem, short: dict[int, int]) -> Problem:
    """Return the problem without the members that found no seat, by class."""
    classes = [
        replace(
            cls,
            count=cls.count - short.get(at, 0),
            least=max(0, cls.least - short.get(at, 0)),
        )
        for at, cls in enumerate(problem.classes)
    ]
    return replace(problem, classes=tuple(classes))


MOST_CLASSES = 4
MOST_TEXT = 512
BOOKING = (
    "fairness.booking: true (off now): room that pods of the same priority leave is then kept for "
    "the gang that has waited longest, so that no smaller or later one takes it"
)


def would_change(
    gang: Gang,
    built: Built,
    answer: Infeasible,
    changes: HelpfulChanges,
    *,
    missing: Sequence[str] = (),
    unfit: bool = True,
    closed: bool = False,
    behind_equals: bool = False,
) -> tuple[Way, ...]:
    """Return what would change a refusal that is proved, each by itself.

    Names no other pods: a member's owner may read this.
    ``changes``: those that were tried. ``missing``: resources that no node offers.
    ``closed``: some of the members that found no seat may use no node beside the pods that are
    there, whatever room it has. ``unfit``: labels, taints or size keep all those off every node.
    ``behind_equals``: pods of the gang's own priority stay, and starts are not booked
    (fairness.booking).
    """
    short = some(
        [f"{members} more of {built.problem.classes[cls].name}" for cls, members in answer.short],
        MOST_CLASSES,
        by=" and ",
    )
    offer = f"offer {' and '.join(missing)} and " if missing else ""
    nodes = f"nodes that {offer}accept {short} by labels, taints and size"
    if not built.usable:
        return (_way(nodes),) if short and unfit else ()
    if not gang.preempts:
        policy = ", or a PriorityClass whose preemptionPolicy is not Never"
        return (_way("free room" + (policy if changes.preempts else "")),)
    found = []
    if changes.room and closed:
        found += [_way(nodes)] if unfit else []
    elif changes.room:
        place = f", all in one {gang.topology_key}" if gang.topology_key else ""
        found.append(_way(f"free room for {short}{place}"))
    if changes.quorum:
        text = f"a quorum (minCount) of {changes.quorum} or less"
        found.append(_way(text, min_count=changes.quorum))
    if changes.patience:
        found.append(
            _way(
                f"an owner that waits {changes.patience} s or longer for its "
                f"pods to get a node, not {gang.patience:g} s (groups.patienceSeconds, or "
                f"annotation {PATIENCE}), or shorter grace periods"
            )
        )
    least = changes.outranks
    if least is not None:
        text = f"a priority above {least}: enough pods that stay could then be evicted"
        found.append(_way(text, priority=least + 1))
    if short and behind_equals:
        found.append(_way(BOOKING))
    return tuple(found)


def _way(text: str, priority: int | None = None, min_count: int | None = None) -> Way:
    return Way(cut(text, MOST_TEXT), priority, min_count)
