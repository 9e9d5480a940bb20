"""TrainJobs of Kubeflow Trainer 2: what their pods are depends on which plugin of Trainer is on.

A TrainJob makes a JobSet of its own name. The runtimes that Trainer ships have a replicated Job
``node`` of numNodes pods, and before it, where they fetch data or a model, initializers that it
depends on (Trainer 8c0f5059, manifests/base/runtimes and pkg/runtime/framework/plugins).
"""

from __future__ import annotations

from typing import Any

import pytest

from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups.owner_gangs import made, state
from tests.groups.owners import job, jobset, jobset_pod, read, replicated, train_job

RESOLVER = Resolver(GroupSettings())
COMPLETE = [
    {"name": name, "status": "Complete"} for name in ("dataset-initializer", "model-initializer")
]
INITIALIZERS = [replicated(each["name"]) for each in COMPLETE]
NODES = replicated("node", each=4, cpu="2", dependsOn=COMPLETE)


def nodes(count: int = 4, labels: Any = None, annotations: Any = None) -> list[Pod]:
    """The pods of a TrainJob ``g`` of four, with what a plugin adds."""
    found = []
    for i in range(count):
        meta = train_job(i, 4)
        meta["labels"] |= labels or {}
        meta["annotations"] |= annotations or {}
        found.append(made(f"g-node-0-{i}", meta))
    return found


def only(pods: list[Pod], groups: list[GroupObject], *read_too: str) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(pods, groups, *read_too))
    assert not gang.problems
    return gang


def test_its_pods_are_a_job_sets() -> None:
    group = read("jobset", jobset(replicated("node", each=4)))
    gang = only(nodes(3), [group], "job")
    assert gang.key == GangKey("jobset", "ns", "g")
    assert (gang.min_count, gang.complete, gang.unit) == (4, False, UNIT_ALL)
    assert only(nodes(), [group], "job").complete


def test_its_initializers_come_first_and_its_nodes_are_foreseen() -> None:
    group = read("jobset", jobset(*INITIALIZERS, NODES))
    first = [made(each["name"], jobset_pod(0, each["name"])) for each in COMPLETE]
    gang = only(first, [group], "job")
    assert (gang.min_count, gang.complete) == (2, True)
    assert [pod.requests for pod in gang.followers] == [(("cpu", 2000), ("pods", 1))] * 4


def test_its_nodes_do_not_wait_for_initializers_that_are_done() -> None:
    ended: dict[str, Any] = {
        "succeeded": 1,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    jobs = [read("job", job(f"g-{each['name']}-0", 1, **ended)) for each in COMPLETE]
    gang = only(nodes(), [read("jobset", jobset(*INITIALIZERS, NODES)), *jobs])
    assert (gang.min_count, gang.complete, gang.followers) == (4, True, ())


@pytest.mark.parametrize("plugin", ["scheduling-plugins", "volcano"])
def test_a_plugin_of_trainer_names_a_pod_group(plugin: str) -> None:
    """Coscheduling and Volcano: the PodGroup has the TrainJob's name, and goes first."""
    pods = nodes(labels={"scheduling.x-k8s.io/pod-group": "g"})
    if plugin == "volcano":
        pods = nodes(annotations={"scheduling.k8s.io/group-name": "g"})
    named = GroupObject(source=plugin, uid="u", namespace="ns", name="g", min_count=4)
    gang = only(pods, [named, read("jobset", jobset(replicated("node", each=4)))], "job")
    assert gang.key == GangKey(plugin, "ns", "g")
    assert (gang.min_count, gang.complete) == (4, True)
    assert gang.unit == UNIT_ALL, "one TrainJob, whoever makes a group of it"
