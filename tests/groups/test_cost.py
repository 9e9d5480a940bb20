"""What it costs to resolve a gang, whatever its tenant wrote: counted in steps of the interpreter.

A gang is resolved on the event loop, between two verbs, by whoever asks. Steps are bytecode
instructions executed in Python, so a call into C counts as one; each case here makes many.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from extender.model.objects import GroupObject, Pod
from tests.groups import owners, recorded
from tests.groups.build import pod
from tests.groups.composites import composite, pod_group
from tests.groups.owner_gangs import RESOLVER, made, state
from tests.groups.owners import jobset, jobset_pod, read, replicated

POD_STEPS = 400
"""For each pod of a gang: that of 2,000 takes a few milliseconds."""
FIXED_STEPS = 300_000
"""For all else, 4,096 pods to come included: about three milliseconds."""


def steps(call: Callable[[], object]) -> int:
    """Return how many bytecode instructions a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def cost(pods: Iterable[Pod], groups: Iterable[GroupObject], *read_too: str) -> int:
    """Return the steps beyond those that its pods account for; negative for a cheap gang."""
    snapshot = state(pods, groups, *read_too)
    (key,) = snapshot.members
    RESOLVER.resolve(key, snapshot)  # what is remembered of texts is remembered now
    return steps(lambda: RESOLVER.resolve(key, snapshot)) - POD_STEPS * len(snapshot.members[key])


def of_jobset(count: int, part: str = "p0") -> list[Pod]:
    return [made(f"p{i}", jobset_pod(i, part)) for i in range(count)]


def of_tasks(count: int) -> list[Pod]:
    """2,000 pods of a vcjob with so many tasks."""
    pods = []
    for i in range(2000):
        meta = recorded.volcano(i, 256, "g")
        meta["annotations"]["volcano.sh/task-spec"] = f"t{i % count}"
        pods.append(made(f"p{i}", meta))
    return pods


def test_steps_are_counted() -> None:
    assert steps(lambda: sum(i for i in range(10_000))) > 20_000
    assert steps(lambda: None) < 20


class TestJobSet:
    def test_many_jobs_in_many_parts(self) -> None:
        """60 KB of JSON ask for 262,144 Jobs."""
        parts = [replicated(f"p{i}", replicas=1024) for i in range(256)]
        group = read("jobset", jobset(*parts))
        assert cost(of_jobset(1), [group], "job") < FIXED_STEPS

    def test_many_parts_to_come_and_many_pods(self) -> None:
        parts = [replicated(f"p{i}") for i in range(256)]
        group = read("jobset", jobset(*parts, in_order=True))
        assert cost(of_jobset(2000), [group], "job") < FIXED_STEPS

    def test_exclusive_topology_makes_two_parts_of_each(self) -> None:
        key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
        parts = [replicated(f"p{i}", replicas=4, each=2) for i in range(256)]
        group = read("jobset", jobset(*parts, annotations={key: "rack"}))
        assert cost(of_jobset(2000), [group], "job") < FIXED_STEPS

    def test_many_pods_to_come(self) -> None:
        parts = [replicated("lead"), replicated("w", replicas=2**31 - 1)]
        group = read("jobset", jobset(*parts, in_order=True))
        assert cost(of_jobset(1, "lead"), [group], "job") < FIXED_STEPS


class TestOthers:
    def test_ray_cluster(self) -> None:
        workers = [{"groupName": f"w{i}", "replicas": 2**31 - 1} for i in range(256)]
        spec = {"workerGroupSpecs": workers}
        meta = {"labels": {"ray.io/cluster": "g", "ray.io/node-type": "worker"}}
        pods = [made(f"p{i}", meta) for i in range(2000)]
        group = read("ray-cluster", owners.document("ray-cluster", "g", spec))
        assert cost(pods, [group]) < FIXED_STEPS

    def test_mpi_job(self) -> None:
        late = {"Launcher": {"replicas": 2**31 - 1, "template": owners.template()}}
        replicas = {f"w{i}": {"replicas": 2**31 - 1} for i in range(255)} | late
        spec = {"mpiReplicaSpecs": replicas, "launcherCreationPolicy": "WaitForWorkersReady"}
        labels = {
            "training.kubeflow.org/job-name": "g",
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-role": "worker",
        }
        pods = [made(f"p{i}", {"labels": labels}) for i in range(2000)]
        group = read("mpijob", owners.document("mpijob", "g", spec))
        assert cost(pods, [group]) < FIXED_STEPS

    def test_leader_worker_set(self) -> None:
        template = {"size": 2**31 - 1, "workerTemplate": owners.template()}
        spec = {"leaderWorkerTemplate": template, "startupPolicy": "LeaderReady"}
        meta = {
            "labels": {
                "leaderworkerset.sigs.k8s.io/name": "g",
                "leaderworkerset.sigs.k8s.io/group-index": "0",
                "leaderworkerset.sigs.k8s.io/worker-index": "0",
            },
            "annotations": {"leaderworkerset.sigs.k8s.io/size": str(2**31 - 1)},
        }
        pods = [made(f"p{i}", meta) for i in range(2000)]
        group = read("leader-worker-set", owners.document("leader-worker-set", "g", spec))
        assert cost(pods, [group]) < FIXED_STEPS

    def test_spark(self) -> None:
        meta = {"labels": {"spark-app-selector": "g", "spark-role": "executor"}}
        assert cost([made(f"p{i}", meta) for i in range(2000)], []) < FIXED_STEPS

    @pytest.mark.parametrize("blanks", [0, 1], ids=["one text", "as many as pods"])
    def test_task_groups_of_yunikorn(self, blanks: int) -> None:
        groups = [{"name": f"t{i}", "minMember": 1} for i in range(90)]
        pods = []
        for i in range(2000):
            text = json.dumps(groups) + " " * (i * blanks)
            note = {"yunikorn.apache.org/app-id": "g", "yunikorn.apache.org/task-groups": text}
            pods.append(made(f"p{i}", {"annotations": note}))
        assert cost(pods, []) < FIXED_STEPS

    @pytest.mark.parametrize("blanks", [0, 1], ids=["one text", "as many as pods"])
    def test_gang_groups_of_koordinator(self, blanks: int) -> None:
        prefix = "gang.scheduling.koordinator.sh/"
        pods = []
        for i in range(2000):
            text = json.dumps([f"ns/g{j:02}" for j in range(60)]) + " " * (i * blanks)
            note = {prefix + "name": "g00", prefix + "groups": text, prefix + "min-available": "2"}
            pods.append(made(f"p{i}", {"annotations": note}))
        assert cost(pods, []) < FIXED_STEPS

    def test_tasks_of_volcano(self) -> None:
        tasks = {f"t{i}": 1 for i in range(256)}
        group = recorded.group("volcano", 256, "g", minTaskMember=tasks)
        assert cost(of_tasks(300), [group]) < FIXED_STEPS

    def test_subgroups_of_kai(self) -> None:
        subgroups = [{"name": f"t{i}", "minMember": 1} for i in range(256)]
        group = recorded.group("kai", 256, "g", subGroups=subgroups)
        pods = []
        for i in range(2000):
            meta = recorded.kai(i, 256, "g")
            meta["labels"]["kai.scheduler/subgroup-name"] = f"t{i % 300}"
            pods.append(made(f"p{i}", meta))
        assert cost(pods, [group]) < FIXED_STEPS

    def test_what_a_gang_with_many_parts_lacks(self) -> None:
        """Asked by every filter call of every member."""
        tasks = {f"t{i}": 4 for i in range(256)}
        group = recorded.group("volcano", 2000, "g", minTaskMember=tasks)
        snapshot = state(of_tasks(256), [group])
        (key,) = snapshot.members
        gang = RESOLVER.resolve(key, snapshot)
        assert len(gang.parts) == 256

        def asked() -> None:
            assert gang.missing
            assert gang.complete
            assert not gang.goes_whole
            assert not gang.runs_with(set())

        assert steps(asked) < FIXED_STEPS

    def test_composite_groups(self) -> None:
        groups = [composite("c0", least=128)]
        pods = []
        for i in range(256):
            groups.append(pod_group(f"g{i}", of="c0"))
            pods += [pod(f"p{i}-{j}", group=f"g{i}") for j in range(8)]
        assert cost(pods, groups, "core-composite") < FIXED_STEPS
