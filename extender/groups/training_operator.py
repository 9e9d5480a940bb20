"""PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob and MPIJob: labels of their operators.

Source: kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go and
kubeflow/mpi-operator v2beta1. An MPIJob's launcher belongs to a Job of its own and
carries the labels as well. TrainJobs of Kubeflow Trainer 2 are JobSets.

Jobs of different kinds may have one name in a namespace, and their pods one label. They are one
gang then, in which each has a quorum of its own: none starts in part, and each waits for the other.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.groups.launched import LaunchedDialect
from extender.groups.sizes import staying
from extender.model.gang import GangPart
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import OWNER_KINDS, TRAINING_JOBS
from extender.model.snapshot import Snapshot

ROLE = "training.kubeflow.org/job-role"
TYPE = "training.kubeflow.org/replica-type"


class TrainingOperatorDialect(LaunchedDialect):
    """A gang is all replicas of one training job, whatever their type."""

    name = "training-operator"
    what = "training job"
    label = "training.kubeflow.org/job-name"
    witness = "training.kubeflow.org/operator-name"

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size of the job; of several of one name, what each of them needs."""
        by_kind: dict[str, list[Pod]] = {}
        for pod in members:
            kind = self._kind(pod)
            if kind is not None:
                by_kind.setdefault(kind, []).append(pod)
        if len(by_kind) < 2:
            return super().declare(key, members, snapshot)
        said = {
            kind: super(TrainingOperatorDialect, self).declare(key, tuple(pods), snapshot)
            for kind, pods in sorted(by_kind.items())
        }
        # One that wants no pods now keeps no other from its start.
        asked = {kind: each for kind, each in said.items() if not each.unplanned} or said
        least = {
            kind: each.min_count or len(staying(tuple(by_kind[kind])))
            for kind, each in asked.items()
        }
        known = all(each.min_count is not None for each in asked.values())
        kinds = " and ".join(OWNER_KINDS[kind].kind for kind in said)
        whole = [each.whole_from for each in asked.values() if each.whole_from is not None]
        return Declaration(
            min_count=sum(least.values()) if known else None,
            parts=tuple(
                GangPart(OWNER_KINDS[kind].kind, frozenset(p.uid for p in by_kind[kind]), count)
                for kind, count in least.items()
            ),
            whole_from=min(whole, default=None),
            followers=tuple(pod for each in asked.values() for pod in each.followers),
            problems=tuple(text for each in said.values() for text in each.problems),
            unplanned=tuple(text for each in asked.values() for text in each.unplanned),
            notes=(
                f"{kinds} have one name, and start together or not at all: give each its own",
                *(note for each in said.values() for note in each.notes),
            ),
        )

    def source(self, members: tuple[Pod, ...]) -> str | None:
        """Return the kind of job, as in OWNER_KINDS."""
        return next((kind for pod in members if (kind := self._kind(pod)) is not None), None)

    def _kind(self, pod: Pod) -> str | None:
        """Return the kind of job: the operator's name is its controller's, or mpi-operator."""
        operator = pod.labels.get(self.witness, "")
        kind = "mpijob" if operator == "mpi-operator" else operator.removesuffix("-controller")
        return kind if kind in TRAINING_JOBS else None

    def parts_of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Return the pod's type of replica; both operators label it."""
        of = pod.labels.get(TYPE) or pod.labels.get(ROLE) or ""
        return ((of.lower(), ""),)
