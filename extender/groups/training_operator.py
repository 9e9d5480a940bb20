"""PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob and MPIJob: labels of their operators.

Source: kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go and
kubeflow/mpi-operator v2beta1. An MPIJob's launcher belongs to a Job of its own and
carries the labels as well. TrainJobs of Kubeflow Trainer 2 are JobSets.
"""

from __future__ import annotations

from extender.groups.launched import LaunchedDialect
from extender.model.objects import Pod
from extender.model.owner_kinds import TRAINING_JOBS

ROLE = "training.kubeflow.org/job-role"
TYPE = "training.kubeflow.org/replica-type"


class TrainingOperatorDialect(LaunchedDialect):
    """A gang is all replicas of one training job, whatever their type."""

    name = "training-operator"
    what = "training job"
    label = "training.kubeflow.org/job-name"
    witness = "training.kubeflow.org/operator-name"

    def source(self, members: tuple[Pod, ...]) -> str | None:
        """Return the kind of job: the operator's name is its controller's, or mpi-operator."""
        for pod in members:
            operator = pod.labels.get(self.witness, "")
            kind = "mpijob" if operator == "mpi-operator" else operator.removesuffix("-controller")
            if kind in TRAINING_JOBS:
                return kind
        return None

    def parts_of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Return the pod's type of replica; both operators label it."""
        of = pod.labels.get(TYPE) or pod.labels.get(ROLE) or ""
        return ((of.lower(), ""),)
