"""The API's own shape of the objects that make pods: only what tells how many, and of which kind.

Sources: jobset.x-k8s.io/v1alpha2 (JobSet), batch/v1 (Job), leaderworkerset.x-k8s.io/v1,
ray.io/v1 (RayCluster), kubeflow.org/v1 and v2beta1 (training jobs), kueue.x-k8s.io/v1beta1 and
v1beta2 (Workload, WorkloadPriorityClass). Templates stay raw JSON.
"""

from __future__ import annotations

from msgspec import Raw, field

from extender.decode.api_groups import RawSchedulingPolicy
from extender.decode.api_objects import NO_RAW, RawMeta, RawPodSpec, Shape


class RawTemplateMeta(Shape, gc=False):
    """Metadata of a template."""

    labels: Raw = NO_RAW
    annotations: Raw = NO_RAW


class RawTemplate(Shape, gc=False):
    """v1.PodTemplateSpec."""

    metadata: RawTemplateMeta | None = None
    spec: RawPodSpec | None = None


class RawJobSpec(Shape, gc=False):
    """batch/v1 JobSpec."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    template: Raw = NO_RAW


class RawJobCondition(Shape, gc=False):
    """batch/v1 JobCondition."""

    type: str | None = None
    status: str | None = None


class RawJobStatus(Shape, gc=False):
    """batch/v1 JobStatus."""

    succeeded: int | None = None
    failed_indexes: str | None = None
    conditions: list[RawJobCondition] | None = None


class RawJob(Shape, gc=False):
    """batch/v1 Job."""

    metadata: RawMeta | None = None
    spec: RawJobSpec | None = None
    status: RawJobStatus | None = None


class RawJobTemplate(Shape, gc=False):
    """batch/v1 JobTemplateSpec."""

    metadata: RawTemplateMeta | None = None
    spec: RawJobSpec | None = None


class RawReplicatedJob(Shape, gc=False):
    """ReplicatedJob of a JobSet."""

    name: str
    replicas: int | None = None
    template: RawJobTemplate | None = None
    depends_on: list[Raw] | None = None


class RawStartupPolicy(Shape, gc=False):
    """StartupPolicy of a JobSet."""

    startup_policy_order: str | None = None


class RawJobSetSpec(Shape, gc=False):
    """JobSetSpec."""

    suspend: bool | None = None
    replicated_jobs: list[RawReplicatedJob] | None = None
    startup_policy: RawStartupPolicy | None = None


class RawReplicatedJobStatus(Shape, gc=False):
    """ReplicatedJobStatus: how many of its Jobs have succeeded."""

    name: str
    succeeded: int | None = None


class RawJobSetStatus(Shape, gc=False):
    """JobSetStatus."""

    replicated_jobs_status: list[RawReplicatedJobStatus] | None = None


class RawJobSet(Shape, gc=False):
    """JobSet."""

    metadata: RawMeta | None = None
    spec: RawJobSetSpec | None = None
    status: RawJobSetStatus | None = None


class RawLeaderWorkerTemplate(Shape, gc=False):
    """LeaderWorkerTemplate."""

    size: int | None = None
    worker_template: Raw = NO_RAW


class RawLeaderWorkerSetSpec(Shape, gc=False):
    """LeaderWorkerSetSpec."""

    leader_worker_template: RawLeaderWorkerTemplate | None = None
    startup_policy: str | None = None


class RawLeaderWorkerSet(Shape, gc=False):
    """LeaderWorkerSet."""

    metadata: RawMeta | None = None
    spec: RawLeaderWorkerSetSpec | None = None


class RawWorkerGroup(Shape, gc=False):
    """WorkerGroupSpec of a RayCluster."""

    group_name: str | None = None
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None


class RawRayClusterSpec(Shape, gc=False):
    """RayClusterSpec."""

    suspend: bool | None = None
    worker_group_specs: list[RawWorkerGroup] | None = None
    enable_in_tree_autoscaling: bool | None = None


class RawRayCluster(Shape, gc=False):
    """RayCluster."""

    metadata: RawMeta | None = None
    spec: RawRayClusterSpec | None = None


class RawReplicaSpec(Shape, gc=False):
    """ReplicaSpec of a training job."""

    replicas: int | None = None
    template: Raw = NO_RAW


class RawRunSchedulingPolicy(Shape, gc=False):
    """SchedulingPolicy of a training job's runPolicy."""

    min_available: int | None = None


class RawRunPolicy(Shape, gc=False):
    """RunPolicy of a training job."""

    suspend: bool | None = None
    scheduling_policy: RawRunSchedulingPolicy | None = None


class RawElasticPolicy(Shape, gc=False):
    """ElasticPolicy of a PyTorchJob."""

    min_replicas: int | None = None


Replicas = dict[str, RawReplicaSpec]


class RawTrainingJobSpec(Shape, gc=False):
    """What the specs of all training jobs have; each has its replicas under a name of its own."""

    pytorch: Replicas | None = field(default=None, name="pytorchReplicaSpecs")
    tensorflow: Replicas | None = field(default=None, name="tfReplicaSpecs")
    xgboost: Replicas | None = field(default=None, name="xgbReplicaSpecs")
    paddle: Replicas | None = field(default=None, name="paddleReplicaSpecs")
    jax: Replicas | None = field(default=None, name="jaxReplicaSpecs")
    mpi: Replicas | None = field(default=None, name="mpiReplicaSpecs")
    run_policy: RawRunPolicy | None = None
    elastic_policy: RawElasticPolicy | None = None
    launcher_creation_policy: str | None = None


class RawReplicaStatus(Shape, gc=False):
    """ReplicaStatus of a training job."""

    succeeded: int | None = None


class RawTrainingJobStatus(Shape, gc=False):
    """JobStatus of a training job."""

    replica_statuses: dict[str, RawReplicaStatus] | None = None


class RawCorePodGroup(Shape, gc=False):
    """PodGroup of a Workload of scheduling.k8s.io/v1alpha1."""

    name: str
    policy: RawSchedulingPolicy | None = None


class RawCoreWorkloadSpec(Shape, gc=False):
    """WorkloadSpec of scheduling.k8s.io/v1alpha1."""

    pod_groups: list[RawCorePodGroup] | None = None


class RawCoreWorkload(Shape, gc=False):
    """Workload of scheduling.k8s.io/v1alpha1."""

    metadata: RawMeta | None = None
    spec: RawCoreWorkloadSpec | None = None


class RawPriorityClassRef(Shape, gc=False):
    """PriorityClassRef of a Kueue Workload (v1beta2)."""

    kind: str | None = None
    name: str | None = None


class RawWorkloadSpec(Shape, gc=False):
    """WorkloadSpec of Kueue; v1beta1 names the class in two fields of its own."""

    priority_class_ref: RawPriorityClassRef | None = None
    priority_class_name: str | None = None
    priority_class_source: str | None = None


class RawWorkload(Shape, gc=False):
    """Workload of Kueue."""

    metadata: RawMeta | None = None
    spec: RawWorkloadSpec | None = None


class RawWorkloadPriorityClass(Shape, gc=False):
    """WorkloadPriorityClass of Kueue."""

    value: int
    metadata: RawMeta | None = None


class RawDeviceClassSpec(Shape, gc=False):
    """DeviceClassSpec of resource.k8s.io/v1."""

    extended_resource_name: str | None = None


class RawDeviceClass(Shape, gc=False):
    """DeviceClass of resource.k8s.io/v1."""

    metadata: RawMeta | None = None
    spec: RawDeviceClassSpec | None = None


class RawTrainingJob(Shape, gc=False):
    """PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob or MPIJob."""

    metadata: RawMeta | None = None
    spec: RawTrainingJobSpec | None = None
    status: RawTrainingJobStatus | None = None
