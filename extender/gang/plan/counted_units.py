"""Which of the units that topology spread counts go: decided for one after the other. Pure.

The loose question (extender.gang.plan.spreads) takes each of them for gone where that helps, and
for there where that helps. Where its answer breaks a rule, a unit that was taken so is decided: in
one question it goes, in another one it stays. No true answer is lost, and with all of them decided
the search keeps the rules by itself.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.plan.built import Built
from extender.gang.plan.trial import Trial
from extender.search.problem import Blocker
from extender.search.problem.cost import broken_budgets


class Decided(Struct, frozen=True):
    """Units (indices) that are known to go, and to stay."""

    go: frozenset[int] = frozenset()
    stay: frozenset[int] = frozenset()

    def open(self, built: Built) -> bool:
        """Whether it is open of some counted unit whether it goes."""
        return len(built.counted) > len(self.go) + len(self.stay)


def as_answered(trial: Trial) -> Decided:
    """Return a trial's answer as a decision: what it takes goes, and all else stays."""
    every = frozenset(trial.built.counted)
    going = every.intersection(trial.solution.chosen)
    return Decided(going, every - going)


def ways_on(trial: Trial, decided: Decided) -> tuple[Decided, ...]:
    """Return the two decisions about one more unit, of which one holds in every answer; () where
    the seats that failed have another cause, one where the unit may not go beside the others."""
    built = trial.built
    problem, chosen = built.problem, set(trial.solution.chosen)
    class_of = {pod.uid: cls for cls, group in enumerate(built.classes) for pod in group}
    node_of = {name: at for at, name in enumerate(problem.nodes)}
    failed = {
        (at, rule.domain[node_of[node]])
        for pod, node, _ in trial.failed
        for at, rule in enumerate(problem.spreads)
        if class_of[pod.uid] in rule.bound
    }
    rules = {at for at, _ in failed}
    # It stays, and its domain was taken for emptier; or it goes, and the emptiest for fuller.
    wrong = [
        unit
        for unit, counts in built.counted.items()
        if unit not in decided.go and unit not in decided.stay
        if any(at in rules if unit in chosen else (at, dom) in failed for at, dom in counts)
    ]
    if not wrong:
        return ()
    unit = min(wrong, key=lambda unit: (unit in chosen, problem.units[unit].cost, unit))
    stays = replace(decided, stay=decided.stay | {unit})
    going = decided.go | {unit}
    if broken_budgets(problem, sorted(going)):
        return (stays,)
    return (replace(decided, go=going), stays)


def question(built: Built, decided: Decided) -> Built:
    """Return the question in which these units go, and those stay."""
    problem = built.problem
    most = [list(rule.most) for rule in problem.spreads]
    fewest = [list(rule.fewest) for rule in problem.spreads]
    for units, counts, more in ((decided.stay, most, 1), (decided.go, fewest, -1)):
        for unit in units:
            for rule, domain in built.counted[unit]:
                counts[rule][domain] += more
    first: dict[tuple[int, int], frozenset[int]] = {}
    for blocker in problem.blockers:
        at = (blocker.cls, blocker.node)
        first[at] = first.get(at, decided.go).union(blocker.units)
    blockers: list[Blocker] = []
    masks: list[bytes] = []
    for cls, group in enumerate(problem.classes):
        allowed = bytearray(group.allowed)
        for node, may in enumerate(allowed):
            units = first.get((cls, node), decided.go)
            if not decided.stay.isdisjoint(units):
                allowed[node] = 0
            elif may and units:
                blockers.append(Blocker(cls, node, tuple(sorted(units))))
        masks.append(bytes(allowed))
    return replace(
        built,
        problem=replace(
            problem,
            classes=tuple(
                replace(cls, allowed=mask) for cls, mask in zip(problem.classes, masks, strict=True)
            ),
            units=tuple(
                replace(unit, releases=()) if at in decided.stay else unit
                for at, unit in enumerate(problem.units)
            ),
            blockers=tuple(blockers),
            spreads=tuple(
                replace(rule, most=tuple(high), fewest=tuple(low))
                for rule, high, low in zip(problem.spreads, most, fewest, strict=True)
            ),
        ),
    )
