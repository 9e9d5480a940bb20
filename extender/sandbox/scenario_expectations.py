"""Whether what was expected is so, and, when not, what was expected and seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from extender.model.texts import counted
from extender.sandbox.api_status import Obj
from extender.sandbox.pod_recorder import PodRecorder, Seen
from extender.sandbox.scenario import Expect, Reason, Running, Scenario, expand


def unmet(
    expect: Expect, scenario: Scenario, recorder: PodRecorder, decisions: Iterable[Obj]
) -> list[str]:
    """Return one sentence for everything that is not as expected."""
    wrong: list[str] = []
    if expect.evicted is not None:
        wrong += _evicted(expect.evicted, recorder.evicted())
    if expect.evicted_gangs is not None:
        gangs = sorted({pod.actor for pod in recorder.evicted()})
        if len(gangs) != expect.evicted_gangs:
            wrong.append(
                f"expected evictions in {counted(expect.evicted_gangs, 'gang')}, "
                f"seen in {_list(gangs)}"
            )
    for actor, spec in expect.running.items():
        wrong += _running(actor, spec, recorder, scenario)
    for actor, count in expect.pending.items():
        waiting = [p for p in recorder.of(actor) if p.alive and not p.node]
        seated = [p for p in recorder.of(actor) if p.seated]
        if len(waiting) != count or seated:
            wrong.append(
                f"expected {counted(count, 'pod')} of {actor} waiting and none on a node, "
                f"seen {len(waiting)} waiting and {_places(seated)}"
            )
    for actor in expect.not_running:
        seated = [p for p in recorder.of(actor) if p.seated]
        if seated:
            wrong.append(f"expected no pod of {actor} on a node, seen {_places(seated)}")
    if expect.one_of:
        wrong += _one_of(expect.one_of, recorder, scenario)
    if expect.reason is not None:
        wrong += _reason(expect.reason, decisions)
    return wrong


def decisions_about(gang: str, decisions: Iterable[Obj]) -> list[Obj]:
    """Return the decisions about a gang of this name, newest first."""
    return [d for d in decisions if str(d.get("gang", "")).rsplit("/", 1)[-1] == gang]


def text_of(decision: Mapping[str, Any]) -> str:
    """All that a decision says, in one line."""
    reasons = [f"{victim['name']}: {victim['reason']}" for victim in decision.get("victims", ())]
    lines = [decision.get("message", ""), *decision.get("explanation", ()), *reasons]
    return "; ".join(map(str, lines))


def _evicted(wanted: Mapping[str, int], seen: list[Seen]) -> list[str]:
    wrong = []
    left = Counter(pod.actor for pod in seen)
    for pattern, count in sorted(wanted.items(), key=lambda item: item[0].endswith("*")):
        stem = pattern.removesuffix("*")
        names = [n for n in left if n == pattern or (pattern != stem and n.startswith(stem))]
        found = sum(left.pop(name) for name in names)
        if found != count:
            wrong.append(f"expected {counted(count, 'evicted pod')} of {pattern}, seen {found}")
    if left:
        others = ", ".join(f"{count} of {name or 'others'}" for name, count in sorted(left.items()))
        wrong.append(f"expected no other evictions, seen {others}")
    unmarked = sorted(pod.name for pod in seen if not pod.disrupted)
    if unmarked:
        wrong.append(f"evicted without the condition DisruptionTarget: {_list(unmarked)}")
    return wrong


def _running(
    actor: str, spec: int | Running, recorder: PodRecorder, scenario: Scenario
) -> list[str]:
    if isinstance(spec, int):
        spec = Running(count=spec)
    create = scenario.actor(actor)
    pods = [p for p in recorder.of(actor) if p.running]
    count = create.size if spec.count is None else spec.count
    if len(pods) != count:
        return [f"expected {counted(count, 'pod')} of {actor} running, seen {_places(pods)}"]
    nodes = sorted(p.node for p in pods)
    if spec.nodes and nodes != sorted(expand(spec.nodes)):
        return [f"expected {actor} on {_list(sorted(expand(spec.nodes)))}, seen on {_list(nodes)}"]
    outside = sorted(set(nodes) - set(expand(spec.within))) if spec.within else []
    if outside:
        return [f"expected {actor} within {_list(spec.within)}, seen on {_list(outside)} too"]
    return []


def _one_of(actors: list[str], recorder: PodRecorder, scenario: Scenario) -> list[str]:
    running = {a: sum(p.running for p in recorder.of(a)) for a in actors}
    seated = {a: sum(p.seated for p in recorder.of(a)) for a in actors}
    whole = [a for a in actors if running[a] == scenario.actor(a).size]
    others = [a for a in actors if a not in whole and seated[a]]
    if len(whole) == 1 and not others:
        return []
    shown = ", ".join(f"{a}: {seated[a]} of {scenario.actor(a).size}" for a in actors)
    return [f"expected exactly one of {_list(actors)} whole on nodes, seen {shown}"]


def _reason(wanted: Reason, decisions: Iterable[Obj]) -> list[str]:
    about = decisions_about(wanted.gang, decisions)
    if wanted.outcome:
        about = [d for d in about if d.get("outcome") == wanted.outcome]
    texts = [text_of(d) for d in about]
    if any(all(part.lower() in text.lower() for part in wanted.contains) for text in texts):
        return []
    seen = texts[0] if texts else "no such decision"
    return [
        f"expected a decision about {wanted.gang} to say {_list(wanted.contains)}; seen: {seen}"
    ]


def _places(pods: list[Seen]) -> str:
    if not pods:
        return "none"
    return ", ".join(f"{p.name} on {p.node}" for p in pods)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
