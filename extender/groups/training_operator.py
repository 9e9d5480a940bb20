"""PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob and MPIJob: labels of their operators.

Source: kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go and
kubeflow/mpi-operator v2beta1. An MPIJob's launcher belongs to a Job of its own and
carries the labels as well. TrainJobs of Kubeflow Trainer 2 are JobSets.
"""

from __future__ import annotations

from extender.groups.launched import LaunchedDialect


class TrainingOperatorDialect(LaunchedDialect):
    """A gang is all replicas of one training job, whatever their type."""

    name = "training-operator"
    what = "training job"
    label = "training.kubeflow.org/job-name"
    witness = "training.kubeflow.org/operator-name"
