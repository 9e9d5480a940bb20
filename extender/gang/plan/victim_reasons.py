"""Why each victim of a plan goes: for its room, a rule that it breaks, or with its gang. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from math import inf
from operator import add
from typing import NamedTuple

from extender.fit import node_ports
from extender.fit.inter_pod_affinity import term_picks, term_refuses
from extender.fit.namespaces import Namespaces, namespaces_of
from extender.gang.incremental.protection import asked_to_stay
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.built import Built
from extender.gang.plan.trial import Trial
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.search.problem import Vector

ROOM = "room"
"""What a seat needs of a pod, beside the names of rules."""
AFFINITY = "required affinity"
"""The rule by which members open a topology domain only once no other pod matches."""
ROOM_ALONE, NOTHING = frozenset((ROOM,)), frozenset[str]()


class Reason(NamedTuple):
    """Why a pod goes."""

    text: str
    needs: frozenset[str]
    """What a seat needs of this very pod: ROOM, the name of a rule, or both."""


def victim_reasons(trial: Trial, snapshot: Snapshot) -> dict[str, Reason]:
    """Return uid -> why the pod goes, of all victims of a solution."""
    reasons = _Reasons(trial, snapshot)
    return {
        pod.uid: reason
        for at in trial.solution.chosen
        if isinstance(unit := trial.built.subjects[at], VictimUnit)
        for pod, reason in reasons.of_unit(at, unit)
    }


def excludes(pod: Pod, member: Pod, node: str, namespaces: Namespaces) -> tuple[str, str]:
    """Return the rule by which a pod keeps a member off a node (extender.fit.blockers), alone and
    in a sentence."""
    port = node_ports.clash(member.shape.host_ports, pod.shape.host_ports)
    if port is not None and pod.node == node:
        rule = f"host port {port.port}/{port.protocol or 'TCP'}"
        return rule, f"its {rule} on {node} is needed"
    rule = "required anti-affinity"
    if any(term_picks(term, pod, namespaces) for term in member.shape.anti_affinity):
        return rule, f"{rule} of {member.name} on {node} excludes it"
    if not any(term_refuses(term, member, namespaces) for term in pod.shape.anti_affinity):
        if member.shape.volumes and pod.shape.volumes and not member.shape.affinity:
            rule = "volumes"
            return rule, f"kube-scheduler accepts {node} for {member.name} without its {rule}"
        return AFFINITY, f"{AFFINITY} lets {member.name} on {node} only once no other pod matches"
    return rule, f"its {rule} excludes {member.name} from {node}"


class _Reasons:
    """The reason of each pod of the units that a solution takes."""

    def __init__(self, trial: Trial, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._namespaces = namespaces_of(snapshot)
        self._built = trial.built
        self._lacks = _lacking(trial)
        self._used = {node for _, node in trial.seats}
        self._excludes = _excluded(trial)
        """Pod uid -> a member that may not come while the pod is there, and its node."""

    def of_unit(self, at: int, unit: VictimUnit) -> Iterable[tuple[Pod, Reason]]:
        """Yield each pod with its reason; ``at``: the unit's index in the problem."""
        lacks = self._without(at)
        needed = [self._needed(pod, lacks) for pod in unit.pods]
        none = not any(needs for _, needs in needed)
        spread = none and at in self._built.counted
        if none and not spread:
            # Of victims that are not proved least, others free this room as well.
            needed = [self._needed(pod, self._without(None)) for pod in unit.pods]
        together = self._together(unit) if unit.whole else ""
        for pod, (why, needs) in zip(unit.pods, needed, strict=True):
            if spread and pod.uid in self._built.strangers:
                why = "topology spread of the members counts it"
            if unit.whole and why:
                why = f"{why} and {together}"
            elif unit.whole:
                idle = (
                    f"its room on {pod.node} is not needed"
                    if pod.node in self._used
                    else f"{pod.node} itself is not used"
                )
                why = f"{together}; {idle}"
            why = why or "a placement rule of the members excludes it"
            asked = asked_to_stay(pod)
            told = f"; {asked} does not count here (policy.optOut)" if asked else ""
            yield pod, Reason(why + told, needs)

    def _without(self, at: int | None) -> set[tuple[str, str]]:
        """Return (resource, node) of which seats ask more than there is with the unit ``at`` still
        there; None: with all victims."""
        problem = self._built.problem
        if at is None:
            return {(name, problem.nodes[node]) for _, name, spare in self._lacks for node in spare}
        return {
            (name, problem.nodes[node])
            for r, name, spare in self._lacks
            for node, amounts in problem.units[at].releases
            if amounts[r] > spare.get(node, inf)
        }

    def _needed(self, pod: Pod, lacks: Container[tuple[str, str]]) -> tuple[str, frozenset[str]]:
        """Return what a seat needs of this very pod, "" for nothing; ``lacks``: see _without."""
        why, needs = "", NOTHING
        for name, amount in pod.requests:
            if amount and (name, pod.node) in lacks:
                why, needs = f"its room on {pod.node} is needed", ROOM_ALONE
                break
        if pod.uid in self._excludes:
            rule, said = excludes(pod, *self._excludes[pod.uid], self._namespaces)
            why, needs = f"{why}, {said}" if why else said, needs | {rule}
        return why, needs

    def _together(self, unit: VictimUnit) -> str:
        """Return how much of its gang goes with a pod; one that terminates is no pod that stays."""
        going = {pod.uid for pod in unit.pods}
        members = self._snapshot.members.get(unit.gang, ()) if unit.gang is not None else ()
        stay = sum(bool(p.node) and not p.deleting and p.uid not in going for p in members)
        if not stay:
            return "its gang is evicted as a whole"
        if len(going) == 1:
            return f"{counted(stay, 'pod')} of its gang may not be evicted"
        return f"its gang is evicted but for {counted(stay, 'pod')} that may not be"


def _lacking(trial: Trial) -> list[tuple[int, str, dict[int, int]]]:
    """Return each resource, by index and name, of which seats ask more than is free without
    victims: node -> what is left there with all victims gone."""
    problem, solution = trial.built.problem, trial.solution
    asked: dict[int, Vector] = {}
    for cls, node, members in solution.seats:
        request = problem.classes[cls].request
        more = request if members == 1 else tuple([members * amount for amount in request])
        before = asked.get(node)
        asked[node] = more if before is None else tuple(map(add, before, more))
    lacks: list[tuple[int, str, dict[int, int]]] = []
    for r, (name, free) in enumerate(zip(problem.resources, problem.free, strict=True)):
        spare = {
            node: free[node] - total[r]
            for node, total in asked.items()
            if 0 < total[r] > free[node]
        }
        if spare:
            lacks.append((r, name, spare))
    for at in solution.chosen if lacks else ():
        for node, amounts in problem.units[at].releases:
            for r, _, spare in lacks:
                if node in spare:
                    spare[node] += amounts[r]
    return lacks


def _excluded(trial: Trial) -> Mapping[str, tuple[Pod, str]]:
    built: Built = trial.built
    found: dict[str, tuple[Pod, str]] = {}
    if not any(built.blocked):
        return found
    cls_of = {pod.uid: cls for cls, group in enumerate(built.classes) for pod in group}
    # Nodes of one domain share what closes it.
    seen: set[tuple[int, int]] = set()
    for member, node in trial.seats:
        cls = cls_of[member.uid]
        uids = built.blocked[cls].get(node, ())
        if (cls, id(uids)) in seen:
            continue
        seen.add((cls, id(uids)))
        for uid in uids:
            found.setdefault(uid, (member, node))
    return found
