"""Plays a scenario for a test and makes its failure readable."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

from extender.kube.client import KubeClient
from extender.sandbox.narrator import Narrator
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.runner import PlayOutcome, Runner
from extender.sandbox.scenario import Scenario

_TAIL = 60
_MOST_REFUSALS = 40
"""Events a pod may collect for being refused: six is usual. More is a storm of attempts."""


async def play(
    scenario: Scenario, client: KubeClient, hooks: ExtenderProcess, namespace: str
) -> None:
    """Play; on a failure raise with the story as told and the end of the extender's log."""
    story = io.StringIO()
    narrator = Narrator(scenario, hooks, story)
    runner = Runner(scenario, client, hooks, namespace=namespace, listener=narrator)
    await runner.prepare()
    outcome: PlayOutcome = await runner.play()
    outcome.failures.extend(await _storms(client, namespace))
    await narrator.closing(runner.recorder, outcome.failures, outcome.seconds)
    if outcome.failures:
        raise AssertionError(f"\n{story.getvalue()}\n{_end_of(hooks.log)}")


async def _storms(client: KubeClient, namespace: str) -> list[str]:
    """Tell pods that were tried over and over.

    A refusal whose text changes with each attempt writes the pod, which wakes it again.
    """
    refusals: Counter[str] = Counter()
    events = await client.get(f"/api/v1/namespaces/{namespace}/events")
    for event in events["items"]:
        if event["reason"] == "FailedScheduling":
            series = event.get("series") or {}
            times = series.get("count") or event.get("count") or 1
            refusals[event["involvedObject"]["name"]] += times
    return [
        f"{name} was refused {count} times"
        for name, count in refusals.items()
        if count > _MOST_REFUSALS
    ]


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(["the extender's log ends with", *lines[-_TAIL:]])
