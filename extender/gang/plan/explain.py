"""Plans and refusals in words that a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from extender.fit.namespaces import namespaces_of
from extender.gang.incremental.preemptability import outranking
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.built import Built
from extender.gang.plan.changes import HelpfulChanges, would_change
from extender.gang.plan.no_node import NO_AFFINITY, no_node
from extender.gang.plan.no_node import told as told_of_nodes
from extender.gang.plan.nominated import NOMINATED
from extender.gang.plan.victim_reasons import excludes
from extender.groups.workload_priority import WHAT as WORKLOAD_CLASS
from extender.model import texts
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Hold, Plan, Proof, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted, some
from extender.search.census import FREE
from extender.search.problem import Infeasible, Solution
from extender.settings.cost_order import cost_words

MOST_CLASSES = 16
MOST_GANGS = 64
MOST_LINE = 2048
"""Bytes of one line: what is told is kept, sent and read, however much there would be to say."""
MOST_KEPT = 20
"""Gangs and nominated pods of which it is told that their seats keep room."""
CANNOT_FIT = "cannot fit: "
"""How a refusal begins that a search has proved."""


def explain_plan(
    gang: Gang,
    built: Built,
    plan: Plan,
    solution: Solution,
) -> tuple[str, ...]:
    """Return the story of a plan, line by line."""
    problem = built.problem
    lines = [
        f"{gang.key} (priority {gang.preemptor_priority}) wants {counted(problem.need, 'seat')}: "
        + some([f"{cls.count} x {cls.name}" for cls in problem.classes], MOST_CLASSES)
    ]
    lines += gang.notes
    if not plan.victims and not plan.waits_for and not plan.takes_over:
        lines.append("it fits into free room: no pod is evicted")
    subjects = built.subjects
    units = [unit for unit in subjects if isinstance(unit, VictimUnit)]
    whole = sum(1 for unit in units if unit.whole)
    ending = sum(1 for subject in subjects if isinstance(subject, Pod))
    lines.append(
        f"possible victims: {counted(whole, 'whole gang')} and "
        f"{counted(len(units) - whole, 'pod')} on {len(problem.nodes)} of "
        f"{counted(built.usable, 'usable node')}; {counted(built.stays, 'pod')} there may not be "
        f"evicted"
        + (f"; {counted(ending, 'pod', 'terminates', 'terminate')} there already" if ending else "")
    )
    if built.cut is not None and built.cut > FREE:
        lines.append(f"only pods of priority {built.cut} or lower are needed")
    if built.slow:
        lines.append(f"{_slow(gang, built.slow)}: not counted on")
    if plan.victims:
        gangs = Counter(victim.gang for victim in plan.victims if victim.gang)
        parts = [f"{counted(count, 'pod')} of {name}" for name, count in sorted(gangs.items())]
        singles = sum(1 for victim in plan.victims if not victim.gang)
        if singles:
            parts.append(counted(singles, "single pod"))
        lines.append(f"evicts {counted(len(plan.victims), 'pod')}: " + some(parts, MOST_GANGS))
    if plan.waits_for:
        those = counted(len(plan.waits_for), "pod", "that terminates", "that terminate")
        lines.append(f"waits for {those} already")
    for key in plan.takes_over:
        lines.append(f"takes over the seats held for the less urgent {key}")
    if gang.preferred_topology_key:
        lines.append(_wish_line(gang, built, plan))
    lines += [plan.spared] if plan.spared else []
    cut = f"; the search was cut: {solution.cut}" if solution.cut else ""
    lines.append(proof_line(plan) + cut)
    unmodelled = sorted({kind for pod in gang.pending for kind in pod.shape.unmodelled})
    if unmodelled:
        lines.append(
            "not checked here but by kube-scheduler when members are seated: "
            + ", ".join(unmodelled)
        )
    return tuple(texts.cut(line, MOST_LINE) for line in lines)


def with_wish(plan: Plan, gang: Gang, *, kept: bool) -> Plan:
    """Return the plan with the word on whether all seats are in one preferred domain."""
    wish = _wish(gang)
    told = f"{wish}; {'kept' if kept else 'not kept'}"
    lines = (told if line.startswith(wish) else line for line in plan.explanation)
    return replace(plan, explanation=tuple(lines))


def _wish(gang: Gang) -> str:
    return f"preferred: all members in one {gang.preferred_topology_key}"


def _wish_line(gang: Gang, built: Built, plan: Plan) -> str:
    """Return whether the preferred topology domain is kept."""
    wish = _wish(gang)
    problem = built.problem
    if problem.domain is None or problem.domain_required:
        return f"{wish}; not counted, members that run already or a required rule decide"
    level = problem.levels[problem.domain_level]
    left = any(cost.value for cost in plan.costs if cost.level == level)
    return f"{wish}; {'not kept' if left else 'kept'}"


def proof_line(plan: Plan) -> str:
    """Return what is proved of a plan's cost, or at which level it may not be least."""
    if plan.proof is Proof.OPTIMAL:
        return "proved: no other victims cost less at any level of the cost order"
    for cost in plan.costs:
        if cost.value != cost.bound:
            return (
                f"not proved least: {cost.level} costs "
                f"{cost_words(cost.level, cost.value, cost.bound)}, "
                f"and at least {cost_words(cost.level, cost.bound, cost.value)} is certain"
            )
    return "not proved least: a placement rule had to be checked after the search"


def _slow(gang: Gang, slow: Sequence[Pod]) -> str:
    """Return what is said of pods whose end the owner of the gang does not wait for."""
    take = "takes" if len(slow) == 1 else "take"
    return (
        f"{counted(len(slow), 'pod')} that could make room {take} longer to end than the "
        f"{gang.patience:g} s that its owner waits"
    )


class Refused(Struct, frozen=True):
    """A question without an answer, and what stands in the way."""

    built: Built
    answer: Infeasible
    stayers: Sequence[tuple[Pod, str]]
    """Pods that may not be evicted, and why."""
    kept: Sequence[Hold]
    """Seats of others that the gang may not take over."""
    struck: bool
    """Nodes were taken out of the question, so its shortage is no measure."""
    unmet: frozenset[int] = frozenset()
    """Classes (indices) that required affinity keeps off every node (Build)."""
    closed: frozenset[int] = frozenset()
    """Classes without a node that they may use beside the pods that are there, whatever room it
    has (Build)."""
    ending: Sequence[str] = ()
    """What is said of terminating pods that members require beside them."""


def explain_refusal(
    gang: Gang, refused: Refused, snapshot: Snapshot, changes: HelpfulChanges, *, booking: bool
) -> Refusal:
    """Return why the gang cannot run now, naming what stands in the way, and what would help.

    ``changes``: those that were tried. ``booking``: whether starts are booked (fairness.booking).
    """
    built, answer, stayers = refused.built, refused.answer, refused.stayers
    struck = refused.struck
    closed = [
        (cls, NO_AFFINITY if cls in refused.unmet else no_node(group[0], snapshot.nodes))
        for cls, _ in answer.short[:MOST_CLASSES]
        if not any(built.problem.classes[cls].allowed)
        for group in (built.classes[cls],)
    ]
    whys = dict(closed)
    shut = [cls for cls, _ in answer.short if cls in whys or cls in refused.closed]
    nowhere = [(built.problem.classes[cls].name, why) for cls, why in closed if why is not None]
    # A cause that somebody can do something about goes first: what is long is cut.
    reasons = "; ".join(
        (
            *(note for note in gang.notes if note.startswith(WORKLOAD_CLASS)),
            *([some(refused.ending, by="; ")] if refused.ending else []),
            *answer.reasons,
        )
    )
    if not built.usable and not struck:
        message = "no node accepts any member"
        if nowhere:
            message += f": {told_of_nodes(nowhere)}"
    elif not gang.preempts:
        message = "does not fit into free room, and its preemptionPolicy is Never"
    elif answer.proved and not struck:
        message = CANNOT_FIT + reasons
    else:
        message = "no solution was found: " + reasons
    if built.usable and nowhere:
        message += f"; no node accepts {told_of_nodes(nowhere)}"
    if built.slow:
        message += f"; {_slow(gang, built.slow)}"
    for why in snapshot.stayed.values():
        message += f"; {why}"
    keeps_off = _keep_off(built, stayers, snapshot)
    stays = [
        f"{pod.namespace}/{pod.name} stays on {pod.node}: {why}{keeps_off.get(pod.uid, '')}"
        for pod, why in stayers
    ]
    if built.stays > len(stays):
        more = counted(built.stays - len(stays), "more pod", "that stays", "that stay")
        stays.append(f"and {more}")
    return Refusal(
        gang=gang.key,
        code=Code.INFEASIBLE,
        message=texts.cut(message, MOST_LINE),
        details=tuple(
            texts.cut(line, MOST_LINE) for line in (*gang.notes, *stays, *_keep_room(refused.kept))
        ),
        generation=snapshot.generation,
        ways=()
        if struck or not answer.proved
        else would_change(
            gang,
            built,
            answer,
            changes,
            missing=sorted({name for _, each in nowhere for name in each.missing}),
            closed=bool(shut),
            unfit=all(whys.get(cls) not in (None, NO_AFFINITY) for cls in shut),
            behind_equals=not booking
            and gang.preemptor_priority in (outranking(why) for _, why in stayers),
        ),
    )


def _keep_off(
    built: Built, stayers: Sequence[tuple[Pod, str]], snapshot: Snapshot
) -> dict[str, str]:
    """Return uid -> the rule by which a pod that stays keeps members off some node."""
    namespaces = namespaces_of(snapshot)
    left = {pod.uid: pod for pod, _ in stayers} if any(built.blocked) else {}
    found: dict[str, str] = {}
    for group, nodes in zip(built.classes, built.blocked, strict=False):
        seen: set[int] = set()  # nodes of one domain share what closes it
        for node in sorted(nodes) if left else ():
            if id(nodes[node]) in seen:
                continue
            seen.add(id(nodes[node]))
            for uid in left.keys() & set(nodes[node]):
                found[uid] = f"; {excludes(left.pop(uid), group[0], node, namespaces)[1]}"
    return found


def _keep_room(kept: Sequence[Hold]) -> list[str]:
    """Return whose seats keep room, a line for each gang or nominated pod."""
    by_gang: dict[GangKey, list[Hold]] = {}
    for hold in kept:
        by_gang.setdefault(hold.gang, []).append(hold)
    lines = []
    for key, holds in sorted(by_gang.items(), key=lambda each: (-each[1][0].priority, each[0])):
        first = holds[0]
        if key.dialect == NOMINATED:
            lines.append(
                f"{key.namespace}/{key.name} (priority {first.priority}) is nominated to "
                f"{first.node}: kube-scheduler keeps its room there"
            )
        else:
            nodes = some(sorted({hold.node for hold in holds}))
            seats = counted(len(holds), "seat")
            lines.append(f"{key} (priority {first.priority}) holds {seats} on {nodes}")
    left = [f"and {counted(len(lines) - MOST_KEPT, 'more holder')} of seats"]
    return lines[:MOST_KEPT] + (left if len(lines) > MOST_KEPT else [])
