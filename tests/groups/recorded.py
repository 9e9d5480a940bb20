"""Pods as the controllers of other systems make them; only what tells of their gang.

Each is taken from public sources, named with the version or commit that was read, or from
what somebody printed of a cluster. None was recorded here. Names of jobs are changed; keys and
forms are as they were.
"""

from __future__ import annotations

from typing import Any

from extender.model.decode import decode_group, decode_pod
from extender.model.objects import GroupObject, Pod

Obj = dict[str, Any]


def _owned(kind: str, name: str, version: str = "x/v1") -> list[Obj]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}]


def kueue(i: int, size: int, gang: str = "g") -> Obj:
    """A plain pod of a group, admitted. Kueue ff69552e, pkg/controller/jobs/pod."""
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


def kueue_annotation(i: int, size: int, gang: str = "g") -> Obj:
    """The name as an annotation (Kueue 0.18 on, gate WorkloadIdentifierAnnotations)."""
    pod = kueue(i, size, gang)
    del pod["labels"]["kueue.x-k8s.io/pod-group-name"]
    pod["annotations"]["kueue.x-k8s.io/pod-group-name"] = gang
    return pod


def skypilot_kueue(i: int, size: int, gang: str = "g") -> Obj:
    """SkyPilot 0.14.1 with kubernetes.kueue.local_queue_name: one name in two dialects."""
    pod = kueue(i, size, gang)
    pod["labels"] |= {
        "parent": "skypilot",
        "skypilot-cluster-name": gang,
        "ray-node-type": "worker" if i else "head",
        "skypilot-head-node": "0" if i else "1",
    }
    pod["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    return pod


def koordinator(i: int, size: int, gang: str = "g") -> Obj:
    """Koordinator a7a1b76b; the example of its gang-scheduling page, annotation form."""
    return {
        "annotations": {
            "gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": str(size),
        }
    }


def koordinator_labels(i: int, size: int, gang: str = "g") -> Obj:
    """Koordinator's lightweight form, which it took from scheduler-plugins."""
    return {
        "labels": {
            "pod-group.scheduling.sigs.k8s.io/name": gang,
            "pod-group.scheduling.sigs.k8s.io/min-available": str(size),
        }
    }


def yunikorn(i: int, size: int, gang: str = "g") -> Obj:
    """YuniKorn k8shim 23b6b47f; a job whose pods are all alike, as its guide has it."""
    groups = f'[{{"name":"a","minMember":1}},{{"name":"b","minMember":{size - 1}}}]'
    return {
        "labels": {"app": "sleep", "applicationId": gang, "queue": "root.sandbox"},
        "annotations": {
            "yunikorn.apache.org/task-group-name": "b" if i else "a",
            "yunikorn.apache.org/task-groups": groups,
            "yunikorn.apache.org/schedulingPolicyParameters": "placeholderTimeoutInSeconds=30",
        },
    }


def leader_worker_set(i: int, size: int, gang: str = "g") -> Obj:
    """LWS 060ab4da: what pkg/webhooks/pod_webhook.go and the StatefulSets write."""
    name, _, index = gang.rpartition("-")
    return {
        "labels": {
            "leaderworkerset.sigs.k8s.io/name": name,
            "leaderworkerset.sigs.k8s.io/group-index": index,
            "leaderworkerset.sigs.k8s.io/group-key": "ff2552bf4f4223f2f2e5fa9db5e23e0cead953c4",
            "leaderworkerset.sigs.k8s.io/worker-index": str(i),
            "leaderworkerset.sigs.k8s.io/template-revision-hash": "794ccff98",
            "statefulset.kubernetes.io/pod-name": f"{gang}-{i}" if i else gang,
        },
        "annotations": {"leaderworkerset.sigs.k8s.io/size": str(size)},
        "ownerReferences": _owned("StatefulSet", gang if i else name),
    }


def leader_worker_set_kueue(i: int, size: int, gang: str = "g") -> Obj:
    """The same under Kueue, from a published dump of a cluster: Kueue's group is a serving one."""
    pod = leader_worker_set(i, size, gang)
    pod["labels"] |= {
        "kueue.x-k8s.io/managed": "true",
        "kueue.x-k8s.io/pod-group-name": f"leaderworkerset-{gang}-617bf",
    }
    pod["annotations"] |= {
        "kueue.x-k8s.io/pod-group-total-count": str(size),
        "kueue.x-k8s.io/pod-suspending-parent": "leaderworkerset.x-k8s.io/leaderworkerset",
        "kueue.x-k8s.io/pod-group-serving": "true",
        "kueue.x-k8s.io/role-hash": "main",
    }
    return pod


def pytorch_job(i: int, size: int, gang: str = "g") -> Obj:
    """training-operator: a published `kubectl describe pod` of a PyTorchJob's worker."""
    return {
        "labels": {
            "training.kubeflow.org/job-name": gang,
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/replica-index": str(i),
            "training.kubeflow.org/replica-type": "worker" if i else "master",
        },
        "ownerReferences": _owned("PyTorchJob", gang),
    }


def mpi_job(i: int, size: int, gang: str = "g") -> Obj:
    """mpi-operator v2beta1, pods of a report to Kueue of 2026-01-08: a Job has the launcher."""
    labels = {
        "training.kubeflow.org/job-name": gang,
        "training.kubeflow.org/job-role": "worker" if i else "launcher",
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/replica-index": str(i),
    }
    if i:
        return {"labels": labels, "ownerReferences": _owned("MPIJob", gang)}
    labels |= {"batch.kubernetes.io/job-name": f"{gang}-launcher", "job-name": f"{gang}-launcher"}
    return {"labels": labels, "ownerReferences": _owned("Job", f"{gang}-launcher", "batch/v1")}


def ray_cluster(i: int, size: int, gang: str = "g") -> Obj:
    """KubeRay feeaf72f, labels of ray-operator/controllers/ray/common/pod.go."""
    return {
        "labels": {
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": gang,
            "ray.io/node-type": "worker" if i else "head",
            "ray.io/group": "small-group" if i else "headgroup",
            "ray.io/identifier": f"{gang}-{'worker' if i else 'head'}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        },
        "ownerReferences": _owned("RayCluster", gang),
    }


def spark(i: int, size: int, gang: str = "g") -> Obj:
    """Spark, labels of org.apache.spark.deploy.k8s.Constants."""
    labels = {
        "spark-app-name": "pi",
        "spark-app-selector": gang,
        "spark-role": "executor" if i else "driver",
        "spark-version": "3.5.1",
    }
    if not i:
        return {"labels": labels}
    labels |= {"spark-exec-id": str(i), "spark-exec-resourceprofile-id": "0"}
    return {"labels": labels, "ownerReferences": _owned("Pod", "pi-driver")}


def volcano(i: int, size: int, gang: str = "g") -> Obj:
    """A task of a vcjob, Volcano ed72c7c8."""
    return {
        "labels": {"volcano.sh/job-name": gang, "volcano.sh/queue-name": "default"},
        "annotations": {
            "scheduling.k8s.io/group-name": gang,
            "volcano.sh/job-name": gang,
            "volcano.sh/queue-name": "default",
            "volcano.sh/task-index": str(i),
            "volcano.sh/task-spec": "worker",
        },
        "ownerReferences": _owned("Job", gang, "batch.volcano.sh/v1alpha1"),
    }


def koordinator_pod_group(i: int, size: int, gang: str = "g") -> Obj:
    """Koordinator a7a1b76b, the form with an object."""
    return {"labels": {"pod-group.scheduling.sigs.k8s.io": gang}}


def kai(i: int, size: int, gang: str = "g") -> Obj:
    """KAI 72de64fc: what its pod-grouper adds to the pods of a PyTorchJob."""
    pod = pytorch_job(i, size, "train")
    pod["labels"]["kai.scheduler/queue"] = "team-a"
    pod["annotations"] = {"pod-group-name": gang}
    return pod


def train_job(i: int, size: int, gang: str = "g") -> Obj:
    """A node of a TrainJob: Kubeflow Trainer 8c0f5059 makes a JobSet of the TrainJob's name, whose
    replicated Job ``node`` has numNodes indices; labels that JobSet 08dfbdfd and its Job write."""
    return {
        "labels": {
            "jobset.sigs.k8s.io/jobset-name": gang,
            "jobset.sigs.k8s.io/jobset-uid": f"uid-{gang}",
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": "0",
            "batch.kubernetes.io/job-name": f"{gang}-node-0",
            "batch.kubernetes.io/job-completion-index": str(i),
        },
        "annotations": {"batch.kubernetes.io/job-completion-index": str(i)},
        "ownerReferences": _owned("Job", f"{gang}-node-0", "batch/v1"),
    }


def volcano_tasks(i: int, size: int, gang: str = "g") -> Obj:
    """A vcjob of two tasks, the first a ps: the job controller writes the task in both places."""
    pod = volcano(i, size, gang)
    pod["labels"]["volcano.sh/task-spec"] = "worker" if i else "ps"
    pod["annotations"]["volcano.sh/task-spec"] = "worker" if i else "ps"
    return pod


def kai_subgroups(i: int, size: int, gang: str = "g") -> Obj:
    """The pods of a PyTorchJob as KAI's newer pod-grouper labels them: master and workers."""
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
LAUNCHED = {
    "training-operator": pytorch_job,
    "training-operator-mpi": mpi_job,
    "ray-cluster": ray_cluster,
    "spark": spark,
}
"""The size is stated nowhere."""
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
