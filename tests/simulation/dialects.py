"""How the pods of a gang say that they are one, by dialect: labels, owners, group objects."""

from __future__ import annotations

from typing import Any

from tests.simulation.chance import Chance

Obj = dict[str, Any]

CORE, PLUGIN, LABEL = "pod-group", "scheduling-plugins", "scheduling-plugins-label"
JOBSET, SKYPILOT, INDEXED = "jobset", "skypilot", "indexed-job"
KUEUE, KOORDINATOR, YUNIKORN, LWS = "kueue", "koordinator", "yunikorn", "leader-worker-set"
VOLCANO, KAI, TRAINING, RAY, SPARK = "volcano", "kai", "training-operator", "ray-cluster", "spark"
KOORDINATOR_GROUP = "koordinator-pod-group"
UNREAD = (VOLCANO, KAI, KOORDINATOR_GROUP)
"""Their objects are not served."""
LAUNCHED = (TRAINING, RAY, SPARK)
SIZELESS = frozenset((JOBSET, SKYPILOT, INDEXED, *UNREAD, *LAUNCHED))
"""Their size is stated nowhere: all pods that exist count."""
CONFIGURED = (PLUGIN, LABEL)
"""Whether these go whole is a matter of configuration (groups.unit)."""
STATED = (KUEUE, KOORDINATOR, YUNIKORN, LWS)
"""Their size is on the pods, and they go whole."""
STARTING_WHOLE = (
    (CORE,) * 22 + (PLUGIN, LABEL) * 3 + (JOBSET, SKYPILOT) + STATED + UNREAD + LAUNCHED
)
ONE_BY_ONE = (CORE, INDEXED)


def drawn(chance: Chance, quorum: int) -> str:
    """Return the dialect of a gang; ``quorum`` 0: its members start one by one."""
    return chance.pick("dialect", STARTING_WHOLE if quorum else ONE_BY_ONE)


def whole(dialect: str, *, drawn: bool, configured: bool) -> bool:
    """Return whether a gang goes whole: as its group says, its dialect or the configuration."""
    if dialect in SIZELESS or dialect in STATED:
        return True
    return configured if dialect in CONFIGURED else drawn


def group_of(dialect: str, name: str, quorum: int, *, whole: bool, cls: str) -> Obj | None:
    """Return the PodGroup of a gang, None where there is no such object."""
    meta: Obj = {"name": name}
    if dialect == PLUGIN:
        return {"metadata": meta, "spec": {"minMember": quorum}}
    if dialect != CORE:
        return None
    spec: Obj = {
        "schedulingPolicy": {"gang": {"minCount": quorum}} if quorum else {"basic": {}},
        "disruptionMode": {"all": {}} if whole else {"single": {}},
        "priorityClassName": cls,
    }
    return {"metadata": meta, "spec": spec}


def join(dialect: str, gang: str, quorum: int, pod: Obj) -> None:
    """Make a pod a member."""
    meta, labels = pod["metadata"], pod["metadata"]["labels"]
    if dialect == CORE:
        pod["spec"]["schedulingGroup"] = {"podGroupName": gang}
    elif dialect == PLUGIN:
        labels["scheduling.x-k8s.io/pod-group"] = gang
    elif dialect == LABEL:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = gang
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(quorum)
    elif dialect == JOBSET:
        labels["jobset.sigs.k8s.io/jobset-name"] = gang
    elif dialect in STATED or dialect in UNREAD:
        _annotate(dialect, gang, quorum, meta.setdefault("annotations", {}), labels)
    elif dialect == TRAINING:
        labels["training.kubeflow.org/job-name"] = gang
        labels["training.kubeflow.org/operator-name"] = "pytorchjob-controller"
    elif dialect == RAY:
        labels["ray.io/cluster"] = gang
        labels["ray.io/node-type"] = "worker"
    elif dialect == SPARK:
        labels["spark-app-selector"] = gang
        labels["spark-role"] = "executor"
    elif dialect == SKYPILOT:
        labels["skypilot-cluster-name"] = gang
    elif dialect == INDEXED:
        labels["batch.kubernetes.io/job-completion-index"] = meta["name"].rsplit("-")[-1]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang, "uid": gang}
        meta["ownerReferences"] = [{**owner, "controller": True}]


def _annotate(
    dialect: str, gang: str, quorum: int, annotations: dict[str, str], labels: dict[str, str]
) -> None:
    if dialect == KUEUE:
        labels["kueue.x-k8s.io/pod-group-name"] = gang
        annotations["kueue.x-k8s.io/pod-group-total-count"] = str(quorum)
    elif dialect == KOORDINATOR:
        annotations["gang.scheduling.koordinator.sh/name"] = gang
        annotations["gang.scheduling.koordinator.sh/min-available"] = str(quorum)
    elif dialect == YUNIKORN:
        labels["yunikorn.apache.org/app-id"] = gang
        annotations["yunikorn.apache.org/task-group-name"] = "all"
        groups = f'[{{"name":"all","minMember":{quorum}}}]'
        annotations["yunikorn.apache.org/task-groups"] = groups
    elif dialect == LWS:
        labels["leaderworkerset.sigs.k8s.io/group-key"] = gang
        annotations["leaderworkerset.sigs.k8s.io/size"] = str(quorum)
    elif dialect == VOLCANO:
        annotations["scheduling.k8s.io/group-name"] = gang
    elif dialect == KAI:
        annotations["pod-group-name"] = gang
    elif dialect == KOORDINATOR_GROUP:
        labels["pod-group.scheduling.sigs.k8s.io"] = gang
