"""What the search answers to a draft, tried out on every rule: asked for a plan, and for each hint.

Where topology spread counts pods that may go themselves, it is asked again with some of them
decided (extender.gang.plan.counted_units).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.plan.build import Build
from extender.gang.plan.built import Built
from extender.gang.plan.counted_units import Decided, as_answered, question, ways_on
from extender.gang.plan.trial import Trial, tried, with_counted
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.search.problem import Infeasible, Limits, Solution, Vector
from extender.search.problem.stop import Stop
from extender.search.solver import solve, solve_led

MOST_DECIDED = 32
"""Questions with some of the counted units decided."""
MOST_BRANCHES = 5_000
"""Of the search in each of them."""
NO_WAY = "topology spread: whichever of the pods are evicted that it counts, a member has no node"


class Answer(Struct, frozen=True):
    """A trial, which may have failed, or why there is none."""

    built: Built
    found: Trial | Infeasible
    bound: Vector = ()
    """Of a trial: no answer of the draft costs less."""

    @property
    def holds(self) -> bool:
        """Whether there is a plan."""
        return isinstance(self.found, Trial) and not self.found.failed


class Answers:
    """Answers drafts on one view, beside the untaken seats of others. Raises OutOfTime."""

    def __init__(
        self,
        view: ClusterView,
        snapshot: Snapshot,
        others: Sequence[Hold],
        limits: Limits,
        stop: Stop,
    ) -> None:
        self._view = view
        self._snapshot = snapshot
        self._others = others
        self._limits = limits
        self._briefly = Limits(branch_nodes=min(MOST_BRANCHES, limits.branch_nodes))
        self._stop = stop

    def hopeless(self, draft: Build) -> Answer | None:
        """Return the proof that there is no answer even with everybody gone, if that is so."""
        if draft.cut is not None:
            return None  # room enough is sure
        built = draft.emptied()
        answer = self._solve(built)
        if not (isinstance(answer, Infeasible) and answer.proved):
            return None
        if draft.ordered and not _is_no(self._solve(draft.emptied(relaxed=True))):
            return None
        return Answer(built, answer)

    def of(self, draft: Build) -> Answer:
        """Return the answer to a draft that is not hopeless."""
        answer = self._in_any_order(draft)
        relaxed = draft.ordered or answer.built.dear
        return self._beside_relaxed(draft, answer) if relaxed else answer

    def _beside_relaxed(self, draft: Build, known: Answer) -> Answer:
        """Return what is found where members may have to come after others, or the answer that is
        known, as far as it is still proved."""
        built = draft.full(relaxed=True)
        relaxed = self._solve(built)
        found = known.found
        sure = isinstance(relaxed, Solution) and built.problem.levels == known.built.problem.levels
        if isinstance(relaxed, Infeasible):
            if isinstance(found, Infeasible):
                return replace(known, found=replace(found, proved=found.proved and relaxed.proved))
            return replace(known, bound=tuple(0 for _ in known.bound))
        dearer = isinstance(found, Infeasible) or found.solution.cost != relaxed.bound
        if dearer and not built.dear:
            other = self.tried(built, relaxed, every_order=True)
            kept = draft.parts.kept_by(relaxed)
            better = isinstance(found, Infeasible) or relaxed.cost < found.solution.cost
            if kept and not other.failed and (better or not known.holds):
                return Answer(built, other, relaxed.bound)
        if isinstance(found, Infeasible):
            return replace(known, found=replace(found, proved=False))
        return replace(known, bound=relaxed.bound if sure else tuple(0 for _ in known.bound))

    def _in_any_order(self, draft: Build) -> Answer:
        built, answer = self._asked(draft)
        least = answer.bound if isinstance(answer, Solution) else ()
        shared = isinstance(answer, Solution) and not draft.parts.kept_by(answer)
        if isinstance(answer, Solution) and shared:
            built, answer = self._shared_out(draft, answer)
        if isinstance(answer, Infeasible):
            return Answer(built, answer)
        # Members that a rule counts and does not bind may come before those that it binds.
        trial = self.tried(built, answer, last=bool(built.counted))
        if not (trial.failed and built.counted):
            return Answer(built, trial, least)
        found = self._decided(trial, draft)
        if not shared:
            return found
        # Other ways to share the parts out are left.
        return Answer(built, trial if isinstance(found.found, Infeasible) else found.found, least)

    def _asked(self, draft: Build) -> tuple[Built, Solution | Infeasible]:
        deadline, cancel = self._stop.deadline or None, self._stop.cancel
        for cls, built in draft.leading():
            led = solve_led(built.problem, cls, self._limits, deadline=deadline, cancel=cancel)
            if led is not None:
                return built, led
        built = draft.full()
        return built, self._solve(built)

    def _shared_out(self, draft: Build, relaxed: Solution) -> tuple[Built, Solution | Infeasible]:
        """Ask with the numbers of parts of unequal members shared out among their kinds.

        The cost of what keeps fewer of them is a bound all the same.
        """
        ways = 0
        for least in draft.parts.shares(relaxed):
            draft.least = least
            ways += 1
            built = draft.full()
            answer = self._solve(built)
            if isinstance(answer, Solution) or self._stop.over():
                break
        if isinstance(answer, Infeasible):
            many = counted(ways, "way")
            told = f"members of a part are unequal, {many} to choose among them failed"
            answer = replace(answer, proved=False, reasons=(*answer.reasons, told))
        return built, answer

    def _decided(self, loose: Trial, draft: Build) -> Answer:
        """Ask again with counted units decided, cheap ways first.

        Return the best answer, or the refusal where no way is left; the trial as it was where time
        or questions ended before one held.
        """
        built = loose.built
        first = self._again(draft, built, as_answered(loose))
        found = [first] if isinstance(first, Trial) and not first.failed else []
        waiting = [(loose.solution.bound, 0, Decided(), loose)]
        open_bounds: list[Vector] = []
        """Of what was not answered for good."""
        asked = 0
        while waiting:
            bound, _, decided, trial = heappop(waiting)
            if any(each.solution.cost <= bound for each in found):
                break
            ways = () if asked >= MOST_DECIDED or self._stop.over() else ways_on(trial, decided)
            if not ways:
                open_bounds.append(bound)
            for way in ways:
                asked += 1
                answer = self._again(draft, built, way)
                if isinstance(answer, Infeasible):
                    open_bounds += [] if answer.proved else [bound]
                elif answer.failed:
                    heappush(waiting, (max(bound, answer.solution.bound), -asked, way, answer))
                else:
                    found.append(answer)
                    open_bounds.append(max(bound, answer.solution.bound))
        if not found and not open_bounds:
            return Answer(built, Infeasible(proved=True, reasons=(NO_WAY,)))
        if not found or any(bound < min(map(_cost, found)) for bound in open_bounds):
            found += self._whichever_goes(loose, draft)
        best = min(found, key=_cost, default=loose)
        return Answer(best.built, best, min([best.solution.cost, *open_bounds]))

    def _whichever_goes(self, loose: Trial, draft: Build) -> list[Trial]:
        """Return plans that hold without a decision: for whichever units go, and with more of them
        gone beside the seats as they are."""
        strict = draft.full(strict=True)
        answer = self._solve(strict)
        found = [with_counted(loose, partial(self.tried, last=True), self._stop)]
        if isinstance(answer, Solution) and draft.parts.kept_by(answer):
            found.append(self.tried(strict, answer))
        return [each for each in found if not each.failed]

    def _again(self, draft: Build, built: Built, decided: Decided) -> Trial | Infeasible:
        """Ask with some of the counted units decided; where a part lacks members, nothing is
        proved."""
        answer = self._solve(question(built, decided), self._briefly)
        if isinstance(answer, Infeasible):
            return answer
        if not draft.parts.kept_by(answer):
            return Infeasible(proved=False, reasons=())
        return self.tried(built, answer, last=decided.open(built))

    def tried(
        self, built: Built, answer: Solution, *, last: bool = False, every_order: bool = False
    ) -> Trial:
        """Try a solution out on every rule; ``last`` and ``every_order`` as there."""
        asked = (self._view, self._snapshot, self._others, built, answer, self._stop)
        return tried(*asked, last=last, every_order=every_order)

    def _solve(self, built: Built, limits: Limits | None = None) -> Solution | Infeasible:
        deadline, cancel = self._stop.deadline or None, self._stop.cancel
        return solve(built.problem, limits or self._limits, deadline=deadline, cancel=cancel)


def _is_no(answer: Solution | Infeasible) -> bool:
    return isinstance(answer, Infeasible) and answer.proved


def _cost(trial: Trial) -> Vector:
    return trial.solution.cost
