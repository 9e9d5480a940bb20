"""Which PodGroup resources the API server serves at the moment.

Core PodGroups (scheduling.k8s.io) come in one version per Kubernetes minor and are
off by default; scheduler-plugins' are a CRD. Both may appear or vanish while we run.
"""

from __future__ import annotations

from typing import Any

from extender.kube.api import KubeApi
from extender.kube.errors import NotFound

CANDIDATES: dict[str, tuple[str, ...]] = {
    "core": (
        "/apis/scheduling.k8s.io/v1beta1",
        "/apis/scheduling.k8s.io/v1alpha3",
        "/apis/scheduling.k8s.io/v1alpha2",
    ),
    "scheduling-plugins": ("/apis/scheduling.x-k8s.io/v1alpha1",),
}
"""Source -> group versions that may serve podgroups, best first."""


async def served(client: KubeApi, source: str) -> str | None:
    """Return the path at which ``source``'s PodGroups can be watched, None when at none.

    Raises ApiError when that cannot be known now (an unanswered question is not a no).
    """
    for version in CANDIDATES[source]:
        try:
            document = await client.get(version)
        except NotFound:
            continue
        if _watchable(document):
            return f"{version}/podgroups"
    return None


def _watchable(document: dict[str, Any]) -> bool:
    resources = document.get("resources")
    if not isinstance(resources, list):
        return False
    for entry in resources:
        if isinstance(entry, dict) and entry.get("name") == "podgroups":
            verbs = entry.get("verbs")
            return isinstance(verbs, list) and "list" in verbs and "watch" in verbs
    return False
