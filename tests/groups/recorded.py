"""Pods as the controllers of other systems make them; only what tells of their gang.

Each says whose they are, of which release, and how that is known (``tests/groups/provenance.py``).
Names of jobs are changed; keys and forms are as they were.
"""

from __future__ import annotations

from typing import Any

from extender.decode.from_json import decode_group, decode_pod
from extender.model.objects import GroupObject, Pod
from tests.groups.provenance import made_by
from tests.groups.recorded_launched import LAUNCHED, owned, pytorch_job

Obj = dict[str, Any]


@made_by("Kueue", "0.19.2", "recorded: tests/clients/test_kueue_groups.py")
def kueue(i: int, size: int, gang: str = "g") -> Obj:
    """A plain pod of a group, admitted; its maker wrote queue, name and count."""
    return {
        "labels": {
            "kueue.x-k8s.io/queue-name": "user-queue",
            "kueue.x-k8s.io/managed": "true",
            "kueue.x-k8s.io/pod-group-name": gang,
        },
        "annotations": {
            "kueue.x-k8s.io/pod-group-total-count": str(size),
            "kueue.x-k8s.io/role-hash": "7b9e1f2c",
        },
    }


@made_by("Kueue", "0.19.2", "read: pkg/controller/jobs/pod, webhook and controller")
def kueue_annotation(i: int, size: int, gang: str = "g") -> Obj:
    """The name as an annotation (Kueue 0.18 on, gate WorkloadIdentifierAnnotations)."""
    pod = kueue(i, size, gang)
    del pod["labels"]["kueue.x-k8s.io/pod-group-name"]
    pod["annotations"]["kueue.x-k8s.io/pod-group-name"] = gang
    return pod


@made_by(
    "SkyPilot",
    "0.14.1",
    "read: sky/templates/kubernetes-ray.yml.j2, sky/provision/kubernetes/instance.py",
)
def skypilot(i: int, size: int, gang: str = "g") -> Obj:
    """A node of a cluster."""
    return {
        "labels": {
            "parent": "skypilot",
            "skypilot-cluster": gang,
            "skypilot-cluster-name": gang,
            "ray-cluster-name": gang,
            "ray-node-type": "worker" if i else "head",
            "skypilot-head-node": "0" if i else "1",
        }
    }


@made_by(
    "SkyPilot", "0.14.1", "read: sky/templates/kubernetes-ray.yml.j2 with kueue.local_queue_name"
)
def skypilot_kueue(i: int, size: int, gang: str = "g") -> Obj:
    """One name in two dialects."""
    pod = kueue(i, size, gang)
    pod["labels"] |= skypilot(i, size, gang)["labels"]
    pod["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    return pod


@made_by("scheduler-plugins", "0.34.7", "documented: apis/scheduling/v1alpha1/types.go")
def coscheduling(i: int, size: int, gang: str = "g") -> Obj:
    """A pod that its maker puts into a PodGroup."""
    return {"labels": {"scheduling.x-k8s.io/pod-group": gang}}


@made_by("Koordinator", "1.8.0", "documented: gang scheduling; apis/extension/coscheduling.go")
def koordinator(i: int, size: int, gang: str = "g") -> Obj:
    """Annotation form."""
    return {
        "annotations": {
            "gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": str(size),
        }
    }


@made_by("Koordinator", "1.8.0", "documented: apis/extension/coscheduling.go")
def koordinator_labels(i: int, size: int, gang: str = "g") -> Obj:
    """The lightweight form, which it took from scheduler-plugins."""
    return {
        "labels": {
            "pod-group.scheduling.sigs.k8s.io/name": gang,
            "pod-group.scheduling.sigs.k8s.io/min-available": str(size),
        }
    }


@made_by("YuniKorn", "1.8.0", "documented: gang scheduling guide; pkg/common/constants")
def yunikorn(i: int, size: int, gang: str = "g") -> Obj:
    """A job whose pods are all alike, as its guide has it."""
    groups = f'[{{"name":"a","minMember":1}},{{"name":"b","minMember":{size - 1}}}]'
    return {
        "labels": {"app": "sleep", "applicationId": gang, "queue": "root.sandbox"},
        "annotations": {
            "yunikorn.apache.org/task-group-name": "b" if i else "a",
            "yunikorn.apache.org/task-groups": groups,
            "yunikorn.apache.org/schedulingPolicyParameters": "placeholderTimeoutInSeconds=30",
        },
    }


@made_by("YuniKorn", "1.8.0", "read: newPlaceholder of pkg/cache/placeholder.go")
def yunikorn_placeholder(i: int, size: int, gang: str = "g") -> Obj:
    """What holds the place of a pod until it comes: the same, but for where the name is."""
    pod = yunikorn(i, size, gang)
    pod["labels"] = {
        "yunikorn.apache.org/app-id": gang,
        "yunikorn.apache.org/queue": "root.sandbox",
    }
    pod["annotations"]["internal.yunikorn.apache.org/placeholder"] = "true"
    return pod


@made_by(
    "LeaderWorkerSet",
    "0.10.0",
    "read: pkg/webhooks/pod_webhook.go and the StatefulSets of pkg/controllers",
)
def leader_worker_set(i: int, size: int, gang: str = "g") -> Obj:
    """A leader is of the set's StatefulSet, its workers of one of their own."""
    name, _, index = gang.rpartition("-")
    made: Obj = {
        "labels": {
            "leaderworkerset.sigs.k8s.io/name": name,
            "leaderworkerset.sigs.k8s.io/group-index": index,
            "leaderworkerset.sigs.k8s.io/group-key": "ff2552bf4f4223f2f2e5fa9db5e23e0cead953c4",
            "leaderworkerset.sigs.k8s.io/worker-index": str(i),
            "leaderworkerset.sigs.k8s.io/template-revision-hash": "794ccff98",
            "statefulset.kubernetes.io/pod-name": f"{gang}-{i}" if i else gang,
        },
        "annotations": {"leaderworkerset.sigs.k8s.io/size": str(size)},
        "ownerReferences": owned("StatefulSet", gang if i else name, "apps/v1"),
    }
    if i:
        made["annotations"]["leaderworkerset.sigs.k8s.io/leader-name"] = gang
    return made


@made_by(
    "Kueue", "0.19.2", "read: pkg/controller/jobs/leaderworkerset, its webhook and its reconciler"
)
def leader_worker_set_kueue(i: int, size: int, gang: str = "g") -> Obj:
    """The same under Kueue, whose group is a serving one, by an annotation since 0.18."""
    pod = leader_worker_set(i, size, gang)
    pod["labels"] |= {
        "kueue.x-k8s.io/queue-name": "user-queue",
        "kueue.x-k8s.io/managed": "true",
    }
    workload = f"leaderworkerset-{gang}-617bf"
    pod["annotations"] |= {
        "kueue.x-k8s.io/pod-group-name": workload,
        "kueue.x-k8s.io/prebuilt-workload-name": workload,
        "kueue.x-k8s.io/pod-group-total-count": str(size),
        "kueue.x-k8s.io/pod-suspending-parent": "leaderworkerset.x-k8s.io/leaderworkerset",
        "kueue.x-k8s.io/pod-group-serving": "true",
        "kueue.x-k8s.io/role-hash": "main",
    }
    return pod


@made_by("Volcano", "1.15.1", "read: createJobPod of pkg/controllers/job/job_controller_util.go")
def volcano(i: int, size: int, gang: str = "g") -> Obj:
    """A task of a vcjob, whose PodGroup is named after the job and its UID."""
    labels = {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": str(i),
        "volcano.sh/task-spec": "worker",
    }
    return {
        "labels": labels,
        "annotations": {
            "scheduling.k8s.io/group-name": gang,
            "volcano.sh/job-name": "train",
            "volcano.sh/job-retry-count": "0",
            "volcano.sh/job-version": "0",
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": str(i),
            "volcano.sh/task-spec": "worker",
            "volcano.sh/template-uid": "train-worker",
        },
        "ownerReferences": owned("Job", "train", "batch.volcano.sh/v1alpha1"),
    }


@made_by(
    "Koordinator",
    "1.8.0",
    "documented: apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1/types.go",
)
def koordinator_pod_group(i: int, size: int, gang: str = "g") -> Obj:
    """The form with an object."""
    return {"labels": {"pod-group.scheduling.sigs.k8s.io": gang}}


@made_by("KAI", "0.13.0", "read: pkg/podgrouper/pod_controller.go, pkg/common/constants")
def kai(i: int, size: int, gang: str = "g") -> Obj:
    """What its pod-grouper adds to the pods of a PyTorchJob; their maker wrote the queue."""
    pod = pytorch_job(i, size, "train")
    pod["labels"]["kai.scheduler/queue"] = "team-a"
    pod["annotations"] = {"pod-group-name": gang}
    return pod


@made_by("Volcano", "1.15.1", "read: createJobPod of pkg/controllers/job/job_controller_util.go")
def volcano_tasks(i: int, size: int, gang: str = "g") -> Obj:
    """A vcjob of two tasks, the first a ps."""
    pod = volcano(i, size, gang)
    for place in ("labels", "annotations"):
        pod[place]["volcano.sh/task-spec"] = "worker" if i else "ps"
        pod[place]["volcano.sh/task-index"] = str(max(i - 1, 0))
    pod["annotations"]["volcano.sh/template-uid"] = f"train-{'worker' if i else 'ps'}"
    return pod


@made_by(
    "KAI",
    "0.13.0",
    "read: podgrouper/plugins/kubeflow/pytorch/pytorch_grouper.go, pod_controller.go",
)
def kai_subgroups(i: int, size: int, gang: str = "g") -> Obj:
    """The pods of a PyTorchJob with the subgroup that each is in: master and workers."""
    pod = kai(i, size, gang)
    pod["labels"]["kai.scheduler/subgroup-name"] = "worker" if i else "master"
    return pod


STATED = {
    "kueue": kueue,
    "kueue-annotation": kueue_annotation,
    "kueue-skypilot": skypilot_kueue,
    "koordinator": koordinator,
    "scheduling-plugins-label": koordinator_labels,
    "yunikorn": yunikorn,
    "leader-worker-set": leader_worker_set,
    "leader-worker-set-kueue": leader_worker_set_kueue,
}
"""Fixture -> its pods; the size is on them."""
OBJECTS = {"volcano": volcano, "koordinator-pod-group": koordinator_pod_group, "kai": kai}
"""The size is in a PodGroup object."""
EVERY = {**STATED, **LAUNCHED, **OBJECTS}
PARTS = {"volcano-tasks": volcano_tasks, "kai-subgroups": kai_subgroups}
"""Its first pod is a part of its own, and all but one of them are the quorum."""
VERSIONS = {
    "volcano": "scheduling.volcano.sh/v1beta1",
    "volcano-tasks": "scheduling.volcano.sh/v1beta1",
    "kai-subgroups": "scheduling.run.ai/v2alpha2",
    "koordinator-pod-group": "scheduling.sigs.k8s.io/v1alpha1",
    "kai": "scheduling.run.ai/v2alpha2",
}


def dialect_of(fixture: str) -> str:
    """The dialect that reads a fixture."""
    found = [
        name
        for name in ("kueue", "leader-worker-set", "training-operator", *EVERY)
        if fixture == name
        or fixture in (f"{name}-annotation", f"{name}-skypilot")
        or fixture in (f"{name}-kueue", f"{name}-mpi")
    ]
    return found[0]


def pod(fixture: str, i: int, size: int, gang: str = "g-0", **meta: Any) -> Pod:
    """Return one of these pods, decoded as from the API server."""
    made = EVERY[fixture](i, size, gang)
    document = {
        "metadata": {
            "name": f"{gang}-{i}",
            "namespace": "ns",
            "uid": f"u-{gang}-{i}",
            **made,
            **meta,
        },
        "spec": {"schedulingGates": made.pop("gates", None)},
    }
    return decode_pod(document)


def group_document(fixture: str, size: int, gang: str = "g-0", **spec: Any) -> Obj:
    """Return the PodGroup object of a gang."""
    return {
        "apiVersion": VERSIONS[fixture],
        "kind": "PodGroup",
        "metadata": {"name": gang, "namespace": "ns", "uid": f"pg-{gang}"},
        "spec": {"minMember": size, **spec},
    }


def parts_document(fixture: str, size: int, gang: str = "g-0") -> Obj:
    """Return the PodGroup object of a gang of PARTS: one pod less than all is its quorum."""
    if fixture == "volcano-tasks":
        return group_document(fixture, size - 1, gang, minTaskMember={"ps": 1, "worker": size - 2})
    subgroups = [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": size - 2}]
    return group_document(fixture, size - 1, gang, subGroups=subgroups)


def group(fixture: str, size: int, gang: str = "g-0", **spec: Any) -> GroupObject:
    """The same, decoded."""
    return decode_group(fixture, group_document(fixture, size, gang, **spec))
