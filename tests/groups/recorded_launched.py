"""Pods of makers that state no size: as in recorded.py, which has them in EVERY with the others."""

from __future__ import annotations

from typing import Any

from tests.groups.provenance import made_by

Obj = dict[str, Any]


def owned(kind: str, name: str, version: str) -> list[Obj]:
    """The reference to the object that made a pod."""
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}]


@made_by(
    "training-operator", "1.9.4", "read: pkg/controller.v1/common/pod.go and job_controller.go"
)
def pytorch_job(i: int, size: int, gang: str = "g") -> Obj:
    """Master and workers of a PyTorchJob, each kind counted from 0."""
    labels = {
        "training.kubeflow.org/job-name": gang,
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-index": str(max(i - 1, 0)),
        "training.kubeflow.org/replica-type": "worker" if i else "master",
    }
    if not i:
        labels["training.kubeflow.org/job-role"] = "master"
    return {"labels": labels, "ownerReferences": owned("PyTorchJob", gang, "kubeflow.org/v1")}


@made_by("mpi-operator", "0.8.0", "read: pkg/controller/mpi_job_controller.go")
def mpi_job(i: int, size: int, gang: str = "g") -> Obj:
    """A v2beta1 MPIJob with runLauncherAsWorker: a Job has the launcher."""
    labels = {
        "training.kubeflow.org/job-name": gang,
        "training.kubeflow.org/job-role": "worker" if i else "launcher",
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/replica-index": str(i),
    }
    if i:
        owners = owned("MPIJob", gang, "kubeflow.org/v2beta1")
        return {"labels": labels, "ownerReferences": owners}
    labels |= {"batch.kubernetes.io/job-name": f"{gang}-launcher", "job-name": f"{gang}-launcher"}
    return {"labels": labels, "ownerReferences": owned("Job", f"{gang}-launcher", "batch/v1")}


@made_by("KubeRay", "1.7.0", "read: labelPod of ray-operator/controllers/ray/common/pod.go")
def ray_cluster(i: int, size: int, gang: str = "g") -> Obj:
    """A head and one group of workers."""
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
        "ownerReferences": owned("RayCluster", gang, "ray.io/v1"),
    }


@made_by(
    "Spark",
    "4.0.1",
    "read: Constants.scala, KubernetesConf.scala, features/BasicExecutorFeatureStep.scala of "
    "org.apache.spark.deploy.k8s",
)
def spark(i: int, size: int, gang: str = "g") -> Obj:
    """A driver, and the executors that it makes."""
    labels = {
        "spark-app-name": "pi",
        "spark-app-selector": gang,
        "spark-role": "executor" if i else "driver",
        "spark-version": "4.0.1",
    }
    if not i:
        return {"labels": labels}
    labels |= {"spark-exec-id": str(i), "spark-exec-resourceprofile-id": "0"}
    return {"labels": labels, "ownerReferences": owned("Pod", "pi-driver", "v1")}


LAUNCHED = {
    "training-operator": pytorch_job,
    "training-operator-mpi": mpi_job,
    "ray-cluster": ray_cluster,
    "spark": spark,
}
"""The size is stated nowhere."""
