"""The groups of pods that a run brings in: what each one is, and its objects in its own dialect."""

from __future__ import annotations

from dataclasses import dataclass

from tests.controlplane.objects import Object, make_job, make_pdb, make_pod, make_pod_group
from tests.controlplane.releases import Release

GROUP_LABEL = "chaos.podgroup-extender.io/group"
POD_GROUP = "pod-group"
PLUGINS_LABEL = "scheduling-plugins-label"
JOBSET = "jobset"
INDEXED_JOB = "indexed-job"
SKYPILOT = "skypilot"
SINGLE = "single"
REPLICAS = "replicas"
"""Of a ReplicaSet: no gang, but a budget in percent knows how many they are to be."""
DIALECTS = (POD_GROUP, PLUGINS_LABEL, JOBSET, INDEXED_JOB, SKYPILOT)

ALL = "all"
EACH = "single"

NOTHING = "allows nothing"
UNREADY = "allows nothing but unready pods (AlwaysAllow)"
ONE_LEFT = "minAvailable 1 (IfHealthyBudget)"
HALF = "maxUnavailable 50%"
BUDGETS: dict[str, Object] = {
    NOTHING: {"maxUnavailable": 0},
    UNREADY: {"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    ONE_LEFT: {"minAvailable": 1},
    HALF: {"maxUnavailable": "50%"},
}
"""What a PodDisruptionBudget of a group may say; the last one of a ReplicaSet's pods alone, since
percents are of what a controller wants."""

PRIORITIES = (0, 10, 20, 50, 100)
URGENT = 50
NEVER_PREEMPTS = 60
"""The value of the one class with preemptionPolicy Never."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One gang, or (dialect ``single``) one pod of no gang. All members ask for the same."""

    name: str
    dialect: str = SINGLE
    size: int = 1
    priority: int = 0
    cpu: int = 1000
    """Milli-cores of each member."""
    min_count: int = 1
    unit: str = EACH
    """``all``: as a victim it goes whole or stays whole."""
    grace: int = 0
    protected: bool = False
    """Marked by annotation as never to be evicted."""
    budget: str = ""
    """Which PodDisruptionBudget of BUDGETS covers its pods, "" for none."""
    unready: bool = False
    """One of its pods that run is made unready."""
    preempts: bool = True

    @property
    def is_gang(self) -> bool:
        """Whether it is more than a pod of its own."""
        return self.dialect not in (SINGLE, REPLICAS)

    @property
    def starts_whole(self) -> bool:
        """Whether its members wait for each other."""
        return self.dialect not in (SINGLE, REPLICAS, INDEXED_JOB)

    @property
    def evictable(self) -> bool:
        """Whether the extender may ever evict its pods for somebody more urgent."""
        return not self.protected and self.budget != NOTHING

    @property
    def surely_evictable(self) -> bool:
        """Whether it always may: the Eviction API is asked about none of its pods."""
        return not self.protected and not self.budget

    @property
    def by_jobs(self) -> bool:
        """Whether a controller makes its pods: that of Jobs, or of ReplicaSets."""
        return self.dialect in (JOBSET, INDEXED_JOB, REPLICAS)

    @property
    def controller(self) -> str:
        """The kind of what makes its pods, where ``by_jobs``."""
        return "ReplicaSet" if self.dialect == REPLICAS else "Job"

    @property
    def same_names(self) -> bool:
        """Whether pods that were lost come back under their old names."""
        return self.dialect == SKYPILOT

    @property
    def comes_back_whole(self) -> bool:
        """Whether losing one pod makes its owner throw the others away as well."""
        return self.dialect in (JOBSET, SKYPILOT)

    def __str__(self) -> str:
        """A few words for the story."""
        more = [f"{self.size} x {self.cpu}m, priority {self.priority}"]
        if self.is_gang:
            more.append(f"minCount {self.min_count}, unit {self.unit}")
        flags = {
            "protected": self.protected,
            f"budget {self.budget}": bool(self.budget),
            "one unready": self.unready,
            "never preempts": not self.preempts,
        }
        more += [text for text, on in flags.items() if on]
        return f"{self.dialect} {self.name} ({', '.join(more)})"


def class_name(spec: GroupSpec) -> str:
    """The PriorityClass of a group's pods."""
    return f"p{spec.priority}" if spec.preempts else "never"


def group_objects(spec: GroupSpec, release: Release) -> list[Object]:
    """Everything that exists beside the pods themselves: PodGroup, budget."""
    made: list[Object] = []
    if spec.dialect == POD_GROUP:
        made.append(
            make_pod_group(
                release,
                spec.name,
                spec.min_count,
                disruption=spec.unit,
                priority_class=class_name(spec),
            )
        )
    if spec.budget:
        made.append(make_pdb(spec.name, {GROUP_LABEL: spec.name}, **BUDGETS[spec.budget]))
    return made


def pod_object(spec: GroupSpec, name: str) -> Object:
    """One member, as its launcher would write it."""
    labels = {GROUP_LABEL: spec.name}
    if spec.dialect == PLUGINS_LABEL:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = spec.name
        labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(spec.min_count)
    elif spec.dialect == JOBSET:
        labels["jobset.sigs.k8s.io/jobset-name"] = spec.name
    elif spec.dialect == SKYPILOT:
        labels["skypilot-cluster-name"] = spec.name
    return make_pod(
        name,
        cpu=f"{spec.cpu}m",
        priority_class=class_name(spec),
        pod_group=spec.name if spec.dialect == POD_GROUP else None,
        labels=labels,
        annotations={"podgroup-extender.io/protected": "true"} if spec.protected else None,
        grace=spec.grace,
    )


def job_objects(spec: GroupSpec, attempt: int) -> list[Object]:
    """The Jobs of a group, or its ReplicaSet; a JobSet's Jobs fail at the first lost pod and are
    made anew whole."""
    template = pod_object(spec, "template")
    if spec.dialect == REPLICAS:
        labels = template["metadata"]["labels"]
        body = {
            "replicas": spec.size,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        }
        meta = {"name": spec.name}
        return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": body}]
    if spec.dialect == INDEXED_JOB:
        return [make_job(spec.name, spec.size, template, backoff_per_index=True)]
    first = spec.size // 2
    sizes = [count for count in (first, spec.size - first) if count]
    return [
        {
            **make_job(f"{spec.name}-{attempt}-{index}", count, template, spec={"backoffLimit": 0}),
        }
        for index, count in enumerate(sizes)
    ]
