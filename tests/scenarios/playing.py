"""Plays a scenario for a test and makes its failure readable."""

from __future__ import annotations

import io
from pathlib import Path

from extender.kube.client import KubeClient
from extender.sandbox.narrator import Narrator
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.runner import Outcome, Runner
from extender.sandbox.scenario import Scenario

_TAIL = 60


async def play(
    scenario: Scenario, client: KubeClient, hooks: ExtenderProcess, namespace: str
) -> None:
    """Play; on a failure raise with the story as told and the end of the extender's log."""
    story = io.StringIO()
    narrator = Narrator(scenario, hooks, story)
    runner = Runner(scenario, client, hooks, namespace=namespace, listener=narrator)
    await runner.prepare()
    outcome: Outcome = await runner.play()
    await narrator.closing(runner.observer, outcome.failures, outcome.seconds)
    if outcome.failures:
        raise AssertionError(f"\n{story.getvalue()}\n{_end_of(hooks.log)}")


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(["the extender's log ends with", *lines[-_TAIL:]])
