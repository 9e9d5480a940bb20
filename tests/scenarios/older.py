"""The packaged scenarios where the API server has no PodGroups (Kubernetes 1.34 and 1.35).

Their gangs are then declared as people do there: by scheduling-plugins. One that goes as a whole
carries its older pair of labels, for which ``groups.unit`` says ``all``; one that goes pod by pod
has its CRD. So both forms play in each story that has both kinds of gangs.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from extender.sandbox.patches import merge
from extender.sandbox.scenario import Create, Scenario, ScenarioStep

LABELS, CRD = "scheduling-plugins-label", "scheduling-plugins"
SETTINGS: dict[str, Any] = {"groups": {"unit": {LABELS: "all", CRD: "single"}}}


def without_pod_groups(scenario: Scenario) -> Scenario:
    """Return the story with every PodGroup of scheduling.k8s.io declared otherwise."""
    steps = [_step(step) for step in scenario.steps]
    return replace(scenario, steps=steps, extender=merge(scenario.extender, SETTINGS))


def _step(step: ScenarioStep) -> ScenarioStep:
    return step if step.create is None else replace(step, create=_create(step.create))


def _create(create: Create) -> Create:
    if create.pod or create.dialect != "podGroup":
        return create
    whole = create.disruption == "whole"
    return replace(create, dialect="schedulingPluginsLabel" if whole else "schedulingPlugins")
