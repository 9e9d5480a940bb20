"""A gang's life so far: from its first pod to its last binding, with what was decided between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from extender.console import words
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.gang import Gang
from extender.model.texts import counted

MOST_MOMENTS = 60


class PodMoment(StrEnum):
    """What happened to pods, beside outcomes of decisions."""

    PODS = "pods"
    """They were created."""
    BOUND = "bound"
    EVICTED = "evicted"


class Moment(Struct, frozen=True):
    """Something that happened."""

    time: float
    kind: str
    """Of the pods, or as words.kind_of."""
    title: str
    text: str = ""
    details: Sequence[str] = ()
    generation: int = 0


def timeline(gang: Gang | None, name: str, decisions: Iterable[Decision]) -> list[Moment]:
    """Return the moments, oldest first; ``decisions`` are newest first."""
    moments = _of_pods(gang) if gang is not None else []
    for decision, times in words.folded(decisions):
        if decision.gang == name:
            moments.append(_of(decision, times))
        elif decision.outcome is Outcome.PLAN:
            mine = [victim for victim in decision.victims if victim.gang == name]
            if mine:
                moments.append(
                    Moment(
                        decision.time,
                        PodMoment.EVICTED,
                        f"{len(mine)} of its pods {_chosen(decision, len(mine))}",
                        f"for {decision.gang}: {mine[0].reason}",
                    )
                )
    moments.sort(key=_at)
    return moments[-MOST_MOMENTS:]


def _at(moment: Moment) -> float:
    """When at the latest: pods' times are cut to seconds, and no pod starts before its plan."""
    return moment.time + (1.0 if moment.kind is PodMoment.BOUND else 0.0)


def _of(decision: Decision, times: int) -> Moment:
    kind = words.kind_of(decision)
    return Moment(
        decision.time,
        kind,
        words.OUTCOMES.get(kind, kind) + (f", {counted(times, 'time')}" if times > 1 else ""),
        decision.message,
        decision.explanation,
        decision.generation,
    )


def _chosen(decision: Decision, count: int) -> str:
    chosen = "would be chosen" if decision.verb is Verb.OBSERVE else "chosen"
    return f"{chosen} as a victim" if count == 1 else f"{chosen} as victims"


def _of_pods(gang: Gang) -> list[Moment]:
    made = sorted(pod.created for pod in gang.members if pod.created)
    started = sorted(pod.started for pod in gang.bound if pod.started)
    found: list[Moment] = []
    if made:
        found.append(Moment(made[0], PodMoment.PODS, "first pod created"))
        if made[-1] > made[0]:
            found.append(
                Moment(made[-1], PodMoment.PODS, f"last of {counted(len(made), 'pod')} created")
            )
    if started:
        found.append(Moment(started[0], PodMoment.BOUND, "first pod started"))
        if len(started) > 1:
            title = f"{counted(len(started), 'pod')} started"
            if not gang.missing:
                title += ", the quorum is complete"
            found.append(Moment(started[-1], PodMoment.BOUND, title))
    return found
