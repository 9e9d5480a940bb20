"""Objects that make pods, as a tenant may write them: JobSets, Jobs, LeaderWorkerSets and others.

Their definitions refuse some of it where they are installed as published; what an older or another
definition lets through is here as well: counts below zero or beyond int32, texts where numbers are
due, lists of thousands, templates that are none.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from extender.groups.jobset import INDEX
from extender.model.owner_kinds import OTHER_KINDS
from tests.fuzz.hostile import NAMES, constraints, quantities, resources, texts

Obj = dict[str, Any]
SOURCES = ("jobset", "job", "leader-worker-set", "ray-cluster", "pytorchjob", "mpijob", "workload")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PARTS = ("w", "W", "lead", "Worker", "Master", "Launcher", "x" * 300)
ODD: tuple[Any, ...] = (0, -1, 2**31 - 1, 2**31, 2**63, 10**30, 1.5, "3", True, None, [], {})

numbers = st.one_of(
    st.sampled_from((1, 2, 3, 4, 12)), st.sampled_from((1, 2, 3, 50, 1024)), st.sampled_from(ODD)
)
flags = st.sampled_from((None, False, True, "true", 1))
lengths = st.sampled_from((1,) * 8 + (255, 256, 257, 3000))
"""How often an entry of a list is repeated."""


@st.composite
def templates(draw: st.DrawFn) -> Any:
    """A pod template, or what is none."""
    if draw(st.integers(0, 9)) == 0:
        none: tuple[Any, ...] = (None, [], "pod", 3, {"spec": []}, {"spec": {"containers": 1}})
        return draw(st.sampled_from(none))
    requests = draw(resources)
    if draw(st.booleans()):
        requests["cpu"] = draw(st.one_of(quantities, st.just("-7")))
    container = {"name": "c", "resources": {"requests": requests}}
    spec = {"containers": [container] * draw(st.sampled_from((1, 1, 40))), **draw(constraints())}
    return {"metadata": {"labels": draw(st.sampled_from(({}, {"app": "a"}, None)))}, "spec": spec}


def _repeated(entries: list[Any], times: int) -> list[Any]:
    return [*entries[1:], *entries[:1] * times]


@st.composite
def replicated_jobs(draw: st.DrawFn) -> Obj:
    """One entry of a JobSet's."""
    job = {
        "parallelism": draw(numbers),
        "completions": draw(numbers),
        "template": draw(templates()),
    }
    template: Obj = {"spec": job}
    if draw(st.integers(0, 3)) == 0:
        template["metadata"] = {"annotations": {EXCLUSIVE: draw(texts)}}
    found: Obj = {
        "name": draw(st.sampled_from(PARTS)),
        "replicas": draw(numbers),
        "template": template,
    }
    if draw(st.integers(0, 3)) == 0:
        before = [{"name": "lead", "status": "Ready"}]
        found["dependsOn"] = before * draw(st.sampled_from((0, 1, 99)))
    return found


@st.composite
def specs(draw: st.DrawFn, source: str) -> tuple[Any, Any]:
    """(spec, status) of an owner."""
    if draw(st.integers(0, 14)) == 0:
        return draw(st.sampled_from((None, [], "x", {}))), draw(st.sampled_from((None, [], {})))
    over = {"succeeded": draw(numbers)}
    spec: Obj
    if source == "jobset":
        jobs = _repeated(draw(st.lists(replicated_jobs(), max_size=3)), draw(lengths))
        order = draw(st.sampled_from(("InOrder", "AnyOrder", "", None, 1)))
        spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": order}}
        return spec | {"suspend": draw(flags)}, {"replicatedJobsStatus": [{"name": "w", **over}]}
    if source == "job":
        spec = {"parallelism": draw(numbers), "completions": draw(numbers), "suspend": draw(flags)}
        ended = {"type": draw(st.sampled_from(("Complete", "Failed", ""))), "status": "True"}
        conditions = [ended] * draw(st.sampled_from((0, 0, 0, 1, 3000)))
        return spec | {"template": draw(templates())}, over | {"conditions": conditions}
    if source == "leader-worker-set":
        workers = {"size": draw(numbers), "workerTemplate": draw(templates())}
        policy = draw(st.sampled_from(("LeaderReady", "LeaderCreated", "", 1)))
        return {"leaderWorkerTemplate": workers, "startupPolicy": policy}, {}
    if source == "ray-cluster":
        group = {
            "groupName": draw(st.sampled_from((*PARTS, None, 1))),
            **{
                key: draw(numbers)
                for key in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")
            },
            "suspend": draw(flags),
        }
        spec = {"workerGroupSpecs": [group] * draw(lengths), "suspend": draw(flags)}
        return spec | {"enableInTreeAutoscaling": draw(flags)}, {}
    if source == "workload":
        of = {"kind": draw(st.sampled_from(("WorkloadPriorityClass", "x", 1))), "name": draw(texts)}
        return {"priorityClassRef": of, "priority": draw(numbers)}, {}
    kind = "mpiReplicaSpecs" if source == "mpijob" else "pytorchReplicaSpecs"
    replicas: Obj = {
        name: {"replicas": draw(numbers), "template": draw(templates())}
        for name in draw(st.lists(st.sampled_from(PARTS), max_size=3, unique=True))
    }
    replicas |= {f"r{i}": {"replicas": 1} for i in range(draw(lengths) - 1)}
    least = {"schedulingPolicy": {"minAvailable": draw(numbers)}, "suspend": draw(flags)}
    spec = {kind: replicas, "runPolicy": least, "elasticPolicy": {"minReplicas": draw(numbers)}}
    after = draw(st.sampled_from(("WaitForWorkersReady", "AtStartup", 1)))
    return spec | {"launcherCreationPolicy": after}, {"replicaStatuses": {"Worker": over}}


@st.composite
def owners(draw: st.DrawFn, source: str = "", name: str = "") -> Obj:
    """An object that makes pods; deleted again, now and then."""
    source = source or draw(st.sampled_from(SOURCES))
    spec, status = draw(specs(source))
    meta: Obj = {"name": name or draw(st.sampled_from(NAMES))}
    if source == "job" and draw(st.booleans()):
        meta["labels"] = {"jobset.sigs.k8s.io/jobset-name": meta["name"]}
        meta["name"] += draw(st.sampled_from(("-w-0", "-w-1", "-lead-0", "")))
    if draw(st.integers(0, 3)) == 0:
        meta["annotations"] = {EXCLUSIVE: draw(st.sampled_from(("rack", "", "a b", "x" * 5000)))}
    document = {
        "kind": OTHER_KINDS[source].kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    return {"owner": source, "document": document, "gone": draw(st.integers(0, 5)) == 0}


def _meta(source: str, name: str, part: str, index: str) -> Obj:
    """Metadata of a pod that such an owner makes."""
    training = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": part}
    operator = "training.kubeflow.org/operator-name"
    labels: dict[str, Obj] = {
        "jobset": {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": part,
            INDEX: index,
        },
        "job": {INDEX: index},
        "leader-worker-set": {
            "leaderworkerset.sigs.k8s.io/name": name,
            "leaderworkerset.sigs.k8s.io/group-index": "0",
            "leaderworkerset.sigs.k8s.io/worker-index": index,
        },
        "ray-cluster": {"ray.io/cluster": name, "ray.io/node-type": "worker"},
        "pytorchjob": training | {operator: "pytorchjob-controller"},
        "mpijob": training | {operator: "mpi-operator"},
        "workload": {"kueue.x-k8s.io/pod-group-name": name},
    }
    meta: Obj = {"labels": labels[source], "annotations": {}}
    if source == "leader-worker-set":
        meta["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "3"}
    if source == "job":
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
        meta["ownerReferences"] = [of]
    return meta


@st.composite
def owned(draw: st.DrawFn, pods: st.SearchStrategy[Obj]) -> Obj:
    """An owner with pods bound and pending, written in any order, and perhaps written anew."""
    source, name = draw(st.sampled_from(SOURCES)), draw(st.sampled_from(NAMES))
    found = [draw(owners(source, name))]
    if source == "jobset" and draw(st.booleans()):
        found.append(draw(owners("job", f"{name}-w-0")))
    for _ in range(draw(st.integers(1, 3))):
        many = draw(pods)
        many["pod"]["spec"].pop("schedulingGroup", None)
        part, index = draw(st.sampled_from(PARTS)), draw(st.sampled_from(("0", "1", "7", "-1", "")))
        many["pod"]["metadata"] |= _meta(source, name, part, index)
        found.append(many)
    found = draw(st.permutations(found))
    if draw(st.integers(0, 2)) == 0:
        found = [*found, draw(owners(source, name))]
    return {"several": found}
