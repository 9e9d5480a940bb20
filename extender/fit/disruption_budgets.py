"""Which pods a PodDisruptionBudget is asked about when they are evicted.

Source: the Eviction API of Kubernetes 1.37, ``canIgnorePDB`` and ``Create`` in
pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from extender.model.objects import DisruptionBudget, Pod


def guarded(pod: Pod) -> bool:
    """Whether the Eviction API looks for budgets of the pod at all.

    It does not for a pod that is pending, has ended, or is terminating.
    """
    return not (pod.phase == "Pending" or pod.finished or pod.deleting)


def takes(pod: Pod, budget: DisruptionBudget) -> bool:
    """Whether the pod's eviction takes one of ``budget.allowed``; the budget selects the pod.

    ``status.disruptedPods`` spares no pod: the API counts a second eviction once more. It is keyed
    by name, and an entry counts for two minutes only, for the budget's own controller.
    """
    return guarded(pod) and not (pod.unready and budget.unready_free)
