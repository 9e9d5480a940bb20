"""Tells a play as a person wants to see it: who sits where, who had to go and why."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping
from typing import TextIO

from extender.decode.quantity import format_resource, parse_resource
from extender.model.texts import counted
from extender.sandbox.api_status import Obj
from extender.sandbox.hooks import Hooks
from extender.sandbox.pod_recorder import PodEvent, PodRecorder, Seen
from extender.sandbox.scenario import Create, EqualPods, Nodes, Scenario, ScenarioStep
from extender.sandbox.scenario_expectations import decisions_about

_BOLD, _DIM, _RED, _GREEN, _END = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
_MAX_NODES = 12
_WIDTH = 96
_SETTLE = 0.3


class Narrator:
    """Prints to ``out``; colour only on a terminal. Implements runner.PlayListener."""

    def __init__(self, scenario: Scenario, hooks: Hooks, out: TextIO = sys.stdout) -> None:
        self._scenario = scenario
        self._hooks = hooks
        self._out = out
        self._colour = out.isatty()
        self._started = time.monotonic()
        self._told = 0
        self._shown = ""
        self._explained: set[float] = set()

    def opening(self) -> None:
        """Introduce the scenario."""
        self._say(f"{self._scenario.name}", _BOLD)
        for line in textwrap.wrap(" ".join(self._scenario.about.split()), _WIDTH):
            self._say(f"  {line}")
        rooms = ", ".join(
            f"{counted(group.count, 'node')} x {_amounts(group.cpu, group.resources)}"
            for group in self._scenario.nodes
        )
        self._say(f"\n  Cluster: {rooms}\n")

    def step(self, step: ScenarioStep, recorder: PodRecorder) -> None:
        """Say what has happened, and what is about to."""
        self._happenings(recorder)
        text = _sentence(step, self._scenario)
        if text:
            self._say(f"{self._clock()} {text}", _BOLD)

    def done(self, step: ScenarioStep, seconds: float, recorder: PodRecorder) -> None:
        """Say what has happened, and how long it took where somebody was waited for."""
        self._happenings(recorder)
        if step.key.startswith("wait"):
            self._say(f"{self._clock()}   ... after {seconds:.1f} s", _DIM)

    async def pause(self, recorder: PodRecorder) -> None:
        """Tell what has happened since the last look, then show the nodes."""
        await asyncio.sleep(_SETTLE)
        self._happenings(recorder)
        await self._decisions(recorder)
        self._table(recorder)

    async def closing(self, recorder: PodRecorder, failures: list[str], seconds: float) -> None:
        """Sum up."""
        self._happenings(recorder)
        await self._decisions(recorder)
        evicted = Counter(pod.actor or pod.name for pod in recorder.evicted())
        shown = ", ".join(f"{count} of {name}" for name, count in sorted(evicted.items()))
        if failures:
            self._table(recorder)
            for text in failures:
                self._say(f"FAILED  {text}", _RED)
        else:
            self._say(
                f"OK  every expectation met, no promise broken; "
                f"evicted: {shown or 'no pod'}; {seconds:.1f} s",
                _GREEN,
            )

    # --- parts ---------------------------------------------------------------------------

    def _happenings(self, recorder: PodRecorder) -> None:
        fresh, self._told = recorder.events[self._told :], len(recorder.events)
        told: list[tuple[float, str]] = []
        made = {event.pod.uid: event.at for event in recorder.events if event.what == "made"}
        for what in ("evicted", "finished", "running"):
            for actor, events in _by_actor(fresh, what).items():
                pods, last = [event.pod for event in events], events[-1].at
                when = f" within {last - events[0].at:.2f} s" if len(events) > 1 else ""
                if what == "running":
                    first = min(made[pod.uid] for pod in pods)
                    when = f", {last - first:.2f} s after the first was made"
                names = ", ".join(f"{p.name}@{p.node or '-'}" for p in pods[:_MAX_NODES])
                more = f" and {len(pods) - _MAX_NODES} more" if len(pods) > _MAX_NODES else ""
                text = f"{what}: {len(pods)} of {actor}{when}: {names}{more}"
                told.append((last, text))
        for last, text in sorted(told):
            self._say(f"{self._clock(last)}   {text}")

    async def _decisions(self, recorder: PodRecorder) -> None:
        decisions = await self._hooks.decisions()
        for actor in sorted({pod.actor for pod in recorder.pods.values() if pod.actor}):
            about = decisions_about(actor, decisions)
            plans = [d for d in about if d.get("outcome") == "plan"]
            plans = [d for d in plans if d.get("victims") or d.get("waits_for")]
            # Why somebody waited is of no interest any more once he runs.
            waits = any(pod.alive and not pod.node for pod in recorder.of(actor))
            refusals = [d for d in about if d.get("outcome") == "refusal" and waits]
            latest = plans[:1] or refusals[:1]
            for decision in latest:
                if decision["time"] in self._explained:
                    continue
                self._explained.add(decision["time"])
                self._explain(actor, decision)

    def _explain(self, actor: str, decision: Obj) -> None:
        self._say(f"{self._clock()}   the extender about {actor}: {decision['message']}")
        for line in decision.get("explanation", ()):
            self._say(f"             {line}", _DIM)
        reasons = Counter(victim["reason"] for victim in decision.get("victims", ()))
        for victim in decision.get("victims", ())[:_MAX_NODES]:
            if reasons[victim["reason"]] <= _MAX_NODES:
                self._say(f"             {victim['name']} is evicted: {victim['reason']}", _DIM)

    def _table(self, recorder: PodRecorder) -> None:
        on: dict[str, list[Seen]] = {}
        for pod in recorder.pods.values():
            if pod.node and not pod.gone and not pod.finished:
                on.setdefault(pod.node, []).append(pod)
        rows = [(name, group) for group in self._scenario.nodes for name in group.names]
        width = max(len(name) for name, _ in rows)
        shown = []
        for name, group in rows[: 4 * _MAX_NODES]:
            pods = sorted(on.get(name, ()), key=lambda p: (-p.priority, p.name))
            names = ", ".join(f"{p.name}{' (leaving)' if p.deleting else ''}" for p in pods)
            shown.append((name, _bar(pods, group), _used(pods, group), names or "-"))
        widest = max(len(used) for _, _, used, _ in shown)
        lines = [
            f"    {name:<{width}} [{bar}] {used:<{widest}}  {names}"
            for name, bar, used, names in shown
        ]
        waiting = Counter(p.actor for p in recorder.pods.values() if p.alive and not p.node)
        if waiting:
            those = ", ".join(f"{count} of {actor}" for actor, count in sorted(waiting.items()))
            lines.append(f"    waiting: {those}")
        picture = "\n".join(lines)
        if picture != self._shown:
            self._say(f"{picture}\n")
        self._shown = picture

    def _clock(self, at: float = 0.0) -> str:
        return f"{(at or time.monotonic()) - self._started:7.1f} s"

    def _say(self, text: str, style: str = "") -> None:
        if style and self._colour:
            text = f"{style}{text}{_END}"
        print(text, file=self._out, flush=True)


def _by_actor(events: list[PodEvent], what: str) -> dict[str, list[PodEvent]]:
    found: dict[str, list[PodEvent]] = {}
    for event in events:
        if event.what == what:
            found.setdefault(event.pod.actor or event.pod.name, []).append(event)
    return found


def _bar(pods: list[Seen], group: Nodes) -> str:
    """One letter a CPU: the first letter of whose it is, lower case while it leaves."""
    total = parse_resource("cpu", group.cpu)
    cells: list[str] = []
    for pod in pods:
        letter = (pod.actor or pod.name)[0]
        cells += [letter.lower() if pod.deleting else letter.upper()] * round(pod.cpu / 1000)
    return "".join(cells).ljust(round(total / 1000), ".")


def _used(pods: list[Seen], group: Nodes) -> str:
    """What is asked for of what one of these nodes has: CPU, then each extended resource."""
    told = [
        f"{sum(p.cpu for p in pods) / 1000:g}/"
        f"{format_resource('cpu', parse_resource('cpu', group.cpu))}"
    ]
    for name, amount in group.resources.items():
        asked = sum(p.devices.get(name, 0) for p in pods)
        told.append(f"{asked}/{format_resource(name, parse_resource(name, amount))}")
    return ", ".join(told)


def _amounts(cpu: str | int, devices: Mapping[str, str | int]) -> str:
    return " and ".join([f"{cpu} CPU", *(f"{amount} {name}" for name, amount in devices.items())])


def _sentence(step: ScenarioStep, scenario: Scenario) -> str:
    if step.create is not None:
        return _arrival(step.create, scenario)
    value = getattr(step, step.verb)
    who = value if isinstance(value, str) else ", ".join(_names(value))
    match step.verb:
        case "finish":
            return f"{who} ends its work"
        case "delete":
            return f"{who} is deleted"
        case "admit":
            count = getattr(value, "count", None)
            pods = f"{count} of its pods" if count else "its pods"
            return f"Kueue admits {who} ({pods})"
        case "preempt":
            return f"Kueue preempts {who} for its quota"
        case "recreate":
            return f"the owner of {who} makes its pods again"
        case "kill_extender":
            return "the extender is killed (-9)"
        case "kill_extender_after":
            return f"the extender is to be killed (-9) after eviction {value.deletes}"
        case "slow_evictions":
            return f"from now on an eviction takes {value:g} s"
        case "start_extender":
            return "the extender is started"
        case "wait_running":
            return f"waiting for {who} to run"
        case "wait_terminating":
            return f"waiting for {who} to be evicted"
        case "wait_pending":
            return f"waiting until {who} waits for room"
        case "wait_extender_down":
            return "waiting for the extender's death"
        case "sleep":
            return f"{value:g} s pass"
    return ""


def _names(value: object) -> list[str]:
    return list(getattr(value, "any_of", ())) or [str(getattr(value, "name", ""))]


def _arrival(create: Create, scenario: Scenario) -> str:
    priority = scenario.priority_classes.get(create.priority_class, 0)
    copies = f"{create.copies} x " if create.copies else ""
    each = _amounts(create.cpu, create.resources)
    if create.pod:
        return f"{copies}pod {create.pod} arrives: {each}, priority {priority}"
    if create.jobset is not None:
        jobs, pods = counted(create.jobset.jobs, "job"), counted(create.jobset.completions, "pod")
        shape = f"{jobs} x {pods} of {each}"
    else:
        shape = " + ".join(f"{c.count} x {_of_class(c, create)}" for c in create.classes)
    return (
        f"{copies}gang {create.gang} arrives: {shape}, minCount {create.quorum}, "
        f"priority {priority}"
    )


def _of_class(one: EqualPods, create: Create) -> str:
    cpu = create.cpu if one.cpu is None else one.cpu
    return _amounts(cpu, create.resources if one.resources is None else one.resources)
