"""From the typed shape of pods' owners to records: how many pods of which kind they make.

InvalidInput begins with the field. A template is decoded only where its pods come later than
others: then they have to be foreseen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from extender.decode.api_groups import RawCompositePodGroup
from extender.decode.api_objects import NO_RAW, RawMeta, RawPodSpec, raw_bytes
from extender.decode.api_owners import (
    RawCoreWorkload,
    RawDeviceClass,
    RawJob,
    RawJobSet,
    RawJobSpec,
    RawLeaderWorkerSet,
    RawRayCluster,
    RawReplicatedJob,
    RawTemplate,
    RawTemplateMeta,
    RawTrainingJob,
    RawWorkload,
    RawWorkloadPriorityClass,
)
from extender.decode.from_api import reduce_composite
from extender.decode.metadata import controller_of, named, string_mapping, version_of
from extender.decode.pod_placement import pod_shape
from extender.decode.pod_requests import pod_requests
from extender.model.errors import InvalidInput
from extender.model.memory_limits import MOST_PARTS
from extender.model.memory_limits import named as named_text
from extender.model.objects import GroupObject, Part
from extender.model.owner_kinds import (
    COMPOSITE,
    CORE_WORKLOAD,
    DEVICE_CLASS_SOURCE,
    JOB,
    JOBSET_NAME,
    OTHER_KINDS,
    PARTLY_DONE,
    TRAINING_JOBS,
    WORKLOAD,
    WORKLOAD_CLASS,
)
from extender.model.texts import counted

HIGHEST_USER = 1_000_000_000
"""The most that a PriorityClass of users can have (scheduling.HighestUserDefinablePriority)."""
OF_KUEUE = "kueue.x-k8s.io/workloadpriorityclass"
"""priorityClassSource of a Workload whose class is Kueue's own."""
MOST_PODS = 2**31 - 1
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
"""With it nothing holds followers back until their leader has a node."""

_template = msgspec.json.Decoder(RawTemplate)
_mapping = msgspec.json.Decoder(dict[str, str])


def reduce_jobset(raw: RawJobSet) -> GroupObject:
    """Return the record of a JobSet: a part for each replicated Job.

    Those after the first of startupPolicy InOrder and those with dependsOn come later; with
    exclusive topology so does all but the first pod of each Job, which JobSet's webhook refuses
    until that one has a node.
    """
    spec, status = raw.spec, raw.status
    jobs = _bounded(spec.replicated_jobs if spec is not None else None, "spec.replicatedJobs")
    policy = spec.startup_policy if spec is not None else None
    in_order = policy is not None and policy.startup_policy_order == "InOrder"
    told = (status.replicated_jobs_status if status is not None else None) or ()
    over = {each.name: _count(each.succeeded, 0) for each in told}
    meta = named(raw.metadata)
    exclusive = _exclusive(meta.annotations)
    parts: list[Part] = []
    for place, job in enumerate(jobs):
        later = bool(job.depends_on) or (in_order and place > 0)
        where = f"spec.replicatedJobs[{place}]"
        parts += _job_parts(
            job,
            later=later,
            exclusive=exclusive,
            over=over.get(job.name, 0),
            meta=meta,
            where=where,
        )
    return _owner("jobset", meta, _wanted_parts(parts, suspended=spec is not None and spec.suspend))


def reduce_job(raw: RawJob) -> GroupObject:
    """Return the record of a Job: the pods that it still wants, 0 of one that has ended.

    An index that failed for good (backoffLimitPerIndex) is not made again, and the others go on.
    A Job of a JobSet counts while it is suspended, since the JobSet resumes its Jobs one after the
    other, and wholly while it is being deleted, since a restart makes it anew.
    """
    meta = named(raw.metadata)
    each = _wanted(raw.spec)
    status = raw.status
    labels = string_mapping(meta.labels, "metadata.labels")
    of = named_text(labels.get(JOBSET_NAME, ""))
    if not of and raw.spec is not None and raw.spec.suspend:
        each = 0
    remade = bool(of and raw_bytes(meta.deletion_timestamp))
    done = more = 0
    if status is not None and not remade:
        total = raw.spec.completions if raw.spec is not None else None
        done = _count(status.succeeded, 0)
        over = done + _indexes(status.failed_indexes)
        lacking = each - over if total is None else _count(total, 1) - over
        left = min(each, lacking)
        ended = any(
            condition.type in ("Complete", "Failed") and condition.status == "True"
            for condition in status.conditions or ()
        )
        more = 0 if ended else max(0, lacking - left)
        each = 0 if ended else max(0, left)
    made = _owner(JOB, meta, (Part(each=each),), of)
    return msgspec.structs.replace(made, done=done, more=more)


def reduce_partly_done_job(raw: RawJob) -> GroupObject:
    """Return the same record, as one of those that are read for what is done of them alone."""
    return msgspec.structs.replace(reduce_job(raw), source=PARTLY_DONE)


def reduce_leader_worker_set(raw: RawLeaderWorkerSet) -> GroupObject:
    """Return the record of a LeaderWorkerSet: leader and workers of one of its groups."""
    meta, spec = named(raw.metadata), raw.spec
    template = spec.leader_worker_template if spec is not None else None
    size = _count(template.size if template is not None else None, 1)
    later = spec is not None and spec.startup_policy == "LeaderReady"
    # Foreseen with exclusive topology as well, which makes them come later.
    pod = template.worker_template if template is not None else NO_RAW
    where = "spec.leaderWorkerTemplate.workerTemplate"
    workers = _of_template(Part("worker", each=max(0, size - 1), later=later), pod, meta, where)
    return _owner("leader-worker-set", meta, (Part("leader"), workers))


def reduce_ray_cluster(raw: RawRayCluster) -> GroupObject:
    """Return the record of a RayCluster: its head, and the workers its operator makes.

    As GetWorkerGroupDesiredReplicas does; with in-tree autoscaling minReplicas, since Ray itself
    says how many more there are.
    """
    spec = raw.spec
    groups = _bounded(
        spec.worker_group_specs if spec is not None else None, "spec.workerGroupSpecs"
    )
    parts = [Part("head", fewest=1)]
    for group in groups:
        least, most = _count(group.min_replicas, 0), _count(group.max_replicas, MOST_PODS)
        wanted = min(most, max(least, _count(group.replicas, 0)))
        if spec is not None and spec.enable_in_tree_autoscaling:
            wanted = min(least, most)
        if group.suspend:
            wanted = 0
        name = named_text(group.group_name or "")
        hosts = _count(group.num_of_hosts, 1)
        parts.append(Part(name, jobs=wanted, each=hosts, fewest=min(wanted, least) * hosts))
    return _owner(
        "ray-cluster",
        named(raw.metadata),
        _wanted_parts(parts, suspended=spec is not None and spec.suspend),
    )


def training_job_of(source: str) -> Callable[[RawTrainingJob], GroupObject]:
    """Return how training jobs of this kind become records."""

    def reduce(raw: RawTrainingJob) -> GroupObject:
        return reduce_training_job(source, raw)

    return reduce


def reduce_training_job(source: str, raw: RawTrainingJob) -> GroupObject:
    """Return the record of a training job: its replicas by type, without those that succeeded.

    runPolicy.schedulingPolicy.minAvailable, where it is set, is its size; elasticPolicy's
    minReplicas that of its workers. An MPIJob's launcher may come after its workers.
    """
    meta, spec, status = named(raw.metadata), raw.spec, raw.status
    if spec is None:
        raise InvalidInput("spec: is missing")
    kinds = (spec.pytorch, spec.tensorflow, spec.xgboost, spec.paddle, spec.jax, spec.mpi)
    replicas = next((kind for kind in kinds if kind is not None), {})
    if len(replicas) > MOST_PARTS:
        types = counted(len(replicas), "replica type")
        raise InvalidInput(f"spec: {types}, at most {MOST_PARTS} are read")
    elastic = spec.elastic_policy.min_replicas if spec.elastic_policy is not None else None
    told = (status.replica_statuses if status is not None else None) or {}
    parts: list[Part] = []
    for name, replica in sorted(replicas.items()):
        wanted = _count(replica.replicas, 1)
        if name == "Worker" and elastic is not None:
            wanted = min(wanted, _count(elastic, 1))
        over = _count(told[name].succeeded, 0) if name in told else 0
        later = name == "Launcher" and spec.launcher_creation_policy == "WaitForWorkersReady"
        part = Part(named_text(name), jobs=wanted, over=over, later=later)
        parts.append(_of_template(part, replica.template, meta, f"spec: {name}.template"))
    policy = spec.run_policy.scheduling_policy if spec.run_policy is not None else None
    least = policy.min_available if policy is not None else None
    suspended = spec.run_policy is not None and spec.run_policy.suspend
    return _owner(source, meta, _wanted_parts(parts, suspended=suspended), least=least)


def reduce_core_workload(raw: RawCoreWorkload) -> GroupObject:
    """Return the record of a Workload of scheduling.k8s.io/v1alpha1: a part for each pod group.

    ``each`` is minCount, 0 of a basic one. KEP-4671 as of 1.35.
    """
    listed = _bounded(raw.spec.pod_groups if raw.spec is not None else None, "spec.podGroups")
    parts = []
    for group in listed:
        gang = group.policy.gang if group.policy is not None else None
        parts.append(Part(named_text(group.name), each=gang.min_count if gang is not None else 0))
    return _owner(CORE_WORKLOAD, named(raw.metadata), tuple(parts))


def reduce_workload(raw: RawWorkload) -> GroupObject:
    """Return the record of a Kueue Workload: the WorkloadPriorityClass that it has, if any.

    It is called after what it stands for: kind and name of its controlling owner, or, of a pod
    group, by its own name, which is the group's. Its own number, spec.priority, is not read:
    who may write a Workload need not be who may say how urgent it is.
    """
    meta, spec = named(raw.metadata), raw.spec
    found = ""
    if spec is not None and spec.priority_class_ref is not None:
        if spec.priority_class_ref.kind == OTHER_KINDS[WORKLOAD_CLASS].kind:
            found = spec.priority_class_ref.name or ""
    elif spec is not None and spec.priority_class_source == OF_KUEUE:
        found = spec.priority_class_name or ""
    owner = controller_of(meta.owner_references, "metadata.ownerReferences")
    return GroupObject(
        source=WORKLOAD,
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=f"{owner.kind}/{owner.name}" if owner is not None else meta.name or "",
        priority_class=named_text(found),
        version=version_of(meta),
        of=owner.name if owner is not None else "",
    )


def reduce_workload_priority_class(raw: RawWorkloadPriorityClass) -> GroupObject:
    """Return the record of a WorkloadPriorityClass; above what a user's class may have, that."""
    meta = named(raw.metadata)
    return GroupObject(
        source=WORKLOAD_CLASS,
        uid=meta.uid or "",
        namespace="",
        name=meta.name or "",
        priority=min(raw.value, HIGHEST_USER),
        version=version_of(meta),
    )


def reduce_device_class(raw: RawDeviceClass) -> GroupObject:
    """Return the record of a DeviceClass: the extended resource that it names, if any."""
    meta = named(raw.metadata)
    resource = raw.spec.extended_resource_name if raw.spec is not None else None
    return GroupObject(
        source=DEVICE_CLASS_SOURCE,
        uid=meta.uid or "",
        namespace="",
        name=meta.name or "",
        version=version_of(meta),
        of=named_text(resource or ""),
    )


OwnerReduce = Callable[[Any], GroupObject]
OWNER_SHAPES: dict[str, tuple[Any, OwnerReduce]] = {
    "jobset": (RawJobSet, reduce_jobset),
    JOB: (RawJob, reduce_job),
    "leader-worker-set": (RawLeaderWorkerSet, reduce_leader_worker_set),
    "ray-cluster": (RawRayCluster, reduce_ray_cluster),
    **{source: (RawTrainingJob, training_job_of(source)) for source in TRAINING_JOBS},
    CORE_WORKLOAD: (RawCoreWorkload, reduce_core_workload),
    COMPOSITE: (RawCompositePodGroup, reduce_composite),
    WORKLOAD: (RawWorkload, reduce_workload),
    WORKLOAD_CLASS: (RawWorkloadPriorityClass, reduce_workload_priority_class),
    DEVICE_CLASS_SOURCE: (RawDeviceClass, reduce_device_class),
    PARTLY_DONE: (RawJob, reduce_partly_done_job),
}
"""Source -> its shape (of api_owners) and the way to a record."""
if OWNER_SHAPES.keys() != OTHER_KINDS.keys():  # pragma: no cover
    raise AssertionError("a kind of owner has no shape, or a shape no kind")


def _job_parts(
    job: RawReplicatedJob, *, later: bool, exclusive: bool, over: int, meta: RawMeta, where: str
) -> list[Part]:
    template = job.template
    spec = template.spec if template is not None else None
    own = template.metadata if template is not None else None
    part = Part(
        named_text(job.name),
        jobs=_count(job.replicas, 1),
        each=_wanted(spec),
        over=over,
        later=later,
    )
    pod = spec.template if spec is not None else NO_RAW
    if not (exclusive or (own is not None and _exclusive(own.annotations))):
        return [_of_template(part, pod, meta, where)]
    first = msgspec.structs.replace(part, index="first", each=min(1, part.each))
    rest = msgspec.structs.replace(part, index="rest", each=max(0, part.each - 1), later=True)
    return [_of_template(each, pod, meta, where) for each in (first, rest)]


def _of_template(part: Part, template: Raw, meta: RawMeta, where: str) -> Part:
    """Return the part with what its pods will be like, if they come later."""
    data = raw_bytes(template)
    if not data or not (part.later or part.name == "worker"):
        return part
    try:
        found = _template.decode(data)
        own = found.metadata or RawTemplateMeta()
        labels = string_mapping(own.labels, "metadata.labels")
        spec = found.spec or RawPodSpec()
        return msgspec.structs.replace(
            part,
            requests=pod_requests(spec, None),
            shape=pod_shape(spec, meta.namespace or "default", labels),
            labels=labels,
        )
    except (msgspec.DecodeError, InvalidInput) as error:
        raise InvalidInput(f"{where}: {error}") from error


def _owner(
    source: str, meta: RawMeta, parts: tuple[Part, ...], of: str = "", least: int | None = None
) -> GroupObject:
    ending = bool(raw_bytes(meta.deletion_timestamp))
    if ending:
        parts = _wanted_parts(list(parts), suspended=True)  # its pods go with it
    return GroupObject(
        source=source,
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        min_count=least,
        version=version_of(meta),
        parts=parts,
        of=of,
        ending=ending,
    )


def _wanted_parts(parts: list[Part], *, suspended: bool | None) -> tuple[Part, ...]:
    """Return the parts, with no pods while their owner is suspended: its operator ends them."""
    if not suspended:
        return tuple(parts)
    return tuple(msgspec.structs.replace(part, jobs=0) for part in parts)


def _wanted(spec: RawJobSpec | None) -> int:
    """How many pods a Job has at once: parallelism, or completions where that is less."""
    if spec is None:
        return 1
    at_once = _count(spec.parallelism, 1)
    return at_once if spec.completions is None else min(at_once, _count(spec.completions, 1))


def _count(number: int | None, default: int) -> int:
    return default if number is None else min(max(0, number), MOST_PODS)


def _indexes(text: str | None) -> int:
    """How many indexes a JobStatus lists ("1,3-5"); 0 of what is no such list."""
    total = 0
    for span in (text or "").split(",") if text else ():
        first, dash, last = span.partition("-")
        ends = first, last if dash else first
        if not all(end.isascii() and end.isdigit() and len(end) <= 10 for end in ends):
            return 0
        total += max(0, int(ends[1]) - int(ends[0]) + 1)
    return min(total, MOST_PODS)


def _bounded(found: list[Any] | None, where: str) -> list[Any]:
    listed = found or []
    if len(listed) > MOST_PARTS:
        entries = counted(len(listed), "entry")
        raise InvalidInput(f"{where}: {entries}, at most {MOST_PARTS} are read")
    return listed


def _exclusive(annotations: Raw) -> bool:
    data = raw_bytes(annotations)
    if EXCLUSIVE.encode() not in data:
        return False
    found = _mapping.decode(data)
    return EXCLUSIVE in found and BY_NODE_SELECTOR not in found
